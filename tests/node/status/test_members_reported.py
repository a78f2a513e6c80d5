"""What the members found, and why the training ended, in everything that people read."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import generate_latest

import fedgrove as fg
from fedgrove.api.tables import tables_of
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.ipfs.store import Unreachable
from fedgrove.node.audit.archive import STORE, audit_directory, write_archive
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.cli.progress import print_rounds
from fedgrove.node.cli.status import Display
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.protocol.content import fetch_metrics
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.status.federation import StatusReader
from fedgrove.node.status.report import build_report
from tests.node.explorer.conftest import exploring
from tests.node.federation import Federation

STALLED = TrainingSettings(epochs=1, batch_size=20, learning_rate=1e-6)
ENDING = "the members' loss has not fallen by more than its standard error for 2 rounds"


@dataclass
class Ended:
    """A federation that its members' loss has ended, kept as ``fedgrove demo --out`` keeps one."""

    federation: Federation
    directory: Path
    report: dict
    history: fg.History
    stated: list


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> Ended:
    """Four clients whose loss does not fall; a patience of two rounds, of six."""
    directory = tmp_path_factory.mktemp("ended")
    with embedded() as network:
        terms = {"training": STALLED, "evaluation": EvaluationSettings()}
        made = Federation.found(network, directory, 4, federation=FederationSettings(rounds=6, patience=2), **terms)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        made.run(coordinator, clients)
        for client in clients.values():
            client.step()
        assert coordinator.finished and all(client.finished for client in clients.values())
        history = made.history()
        report = build_report(history, made.store, {})
        report["audit"] = Verdict("verified", practice=True).entry()
        shutil.copytree(directory / STORE, directory / "kept" / STORE)
        write_archive(directory / "kept", history, report)
        kept = fg.History(directory / "kept")
        closed = [each.metrics_digest for each in history.records() if isinstance(each, Closed)]
        stated = [fetch_metrics(made.store, digest).members for digest in closed]
        yield Ended(made, directory / "kept", report, kept, stated)


def test_the_report_has_the_figures_of_each_round_and_the_end(ended):
    told = [each["members"] for each in ended.report["rounds"]]
    assert [each["loss"] for each in told] == [each.loss for each in ended.stated]
    assert [each["samples"] for each in told] == [48] * 4
    assert [each.get("ending") for each in told] == [None, None, ENDING, ENDING]
    assert [each.get("last") for each in told] == [None, None, None, True]
    assert all(each["standard_error"] > 0 and 0 <= each["accuracy"] <= 1 for each in told)


def test_the_last_round_trains_nothing_and_keeps_the_model(ended):
    *_, third, last = ended.report["rounds"]
    assert last["model_cid"] == third["model_cid"] and last["accuracy"] == third["accuracy"]
    uploads = ended.report["bytes"]
    assert max(uploads["4"].values()) < min(uploads["3"].values())
    assert ended.history.origin().round == 4 and ended.history.origin().cid == ended.history.origin(3).cid


def test_the_audit_follows_the_report(ended):
    verdict = audit_directory(ended.directory)
    assert verdict.verdict == "verified", verdict.reason


def test_roles_say_why_no_round_follows(ended):
    coordinator = ended.federation.coordinator()
    assert coordinator.step().waiting == f"nobody: the training has ended, as {ENDING}"
    assert ended.federation.client(1).step().waiting == f"nobody: the training has ended, as {ENDING}"


def test_while_the_statement_cannot_be_read_the_coordinator_goes_on(ended):
    coordinator = ended.federation.coordinator()
    fetch = coordinator.context.store.fetch

    def away(*_):
        raise Unreachable("the store does not answer")

    coordinator.context.store.fetch = away
    try:
        step = coordinator.step()
        assert step.phase == "store" and not coordinator.finished and coordinator.members_metrics is None
    finally:
        coordinator.context.store.fetch = fetch
    coordinator.step()
    assert coordinator.finished


def test_the_tables_have_the_figures_by_name(ended):
    rows = [row for row in tables_of(ended.history.rounds, ended.history.records)["metrics"].rows if row[0] == 2]
    figures = {name: value for _, name, value in rows if name.startswith("members.")}
    assert figures == {f"members.{name}": value for name, value in ended.stated[1].to_figures().items()}


def test_the_explorer_shows_them(ended, tmp_path):
    with exploring(DirectorySource(ended.directory), tmp_path / "cache") as explorer:
        overview, third, page = explorer.page(), explorer.page("rounds/3/"), explorer.page("rounds/4/")
    before, last = ended.stated[-2:]
    for text in (overview, page):
        assert f"{last.loss:.4f}<small> ± {last.standard_error:.4f} for the last model" in text
    assert f"{before.loss:.4f}<small> ± {before.standard_error:.4f} before the round" in third
    assert "The training ended with round 3" in overview and "The training ended with this round" in third
    assert all("standard error for 2 rounds" in text for text in (overview, third))
    assert "This round trained nothing" in page and "The training ended with this" not in page
    assert "Members’ accuracy" in page and f"{100 * last.accuracy:.1f} %" in page
    assert "Loss that the members found for the model that each round began with" in overview


def test_the_end_of_a_demonstration_names_them(ended, capsys):
    print_rounds(ended.report)
    printed, last = capsys.readouterr(), ended.stated[-1]
    text = printed.out + printed.err
    assert f"members for the last model: accuracy {last.accuracy:.4f}, loss {last.loss:.4f}" in text
    assert f"members before round 3: accuracy {ended.stated[2].accuracy:.4f}" in text
    assert text.count(f"ended after round 3: {ENDING}") == text.count("ended after") == 1


def test_status_shows_them_and_that_nobody_is_waited_for(ended):
    made = ended.federation
    now = StatusReader(made.network, made.ledger(made.keys[0]), made.config, made.store).read()
    assert now.standing.finished and now.standing.waiting == f"nobody: the training has ended, as {ENDING}"
    assert now.to_dict()["last_round"]["members"] == ended.report["rounds"][-1]["members"]
    rows = dict(Display(made.deployment).rows(now))
    assert rows["last model"].startswith("of round 4: accuracy ") and rows["members"].endswith("for the last model")
    assert f"loss {ended.stated[-1].loss:.4f}" in rows["members"]


def test_prometheus_gets_them(ended):
    client, metrics = ended.federation.client(1), ServiceMetrics()
    client.step()
    metrics.members(client.members_metrics)
    text = generate_latest(metrics._registry).decode()
    assert f"fedgrove_members_loss {ended.stated[-1].loss}" in text and "fedgrove_members_samples 48.0" in text
