"""Members evaluate under client-level privacy: the round states noisy rates, and its ε covers them."""

import json
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client import generate_latest

from fedgrove.api.tables import tables_of
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import load
from fedgrove.node.cli.progress import print_rounds
from fedgrove.node.learning.held_out import marks_of, split
from fedgrove.node.learning.local_update import DivergedTraining
from fedgrove.node.learning.networks import held_out_sums
from fedgrove.node.learning.settings import EvaluationSettings
from fedgrove.node.methods.training import client_level
from fedgrove.node.methods.training.client_level import ClientLevelUploads
from fedgrove.node.methods.training.hold_out import HoldOut
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.client_level import ClientLevelRound
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol import terms
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.members_rates import MembersRates
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, MaskingSettings
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.status.federation import LastRoundReader
from fedgrove.node.status.report import build_report
from tests.node.federation import Federation, failing
from tests.node.methods.training.conftest import QUICK

PRIVACY = ClientLevelSettings(
    epsilon=1000.0, delta=1e-3, clipping="quantile", clip=0.5, noise_multipliers=(0.05,), dropouts=0.2
)
"""So little noise that five members can tell a rate: protects nobody."""
CLIENTS, DIVERGES, SILENT = 5, 2, 4
"""Who diverges in round 2 and so tells no rate, and who falls silent in round 3, when it has shared."""


@dataclass
class Run:
    """A federation that has ended, its closings and what they state."""

    federation: Federation
    closed: list[Closed]
    metrics: list[Metrics]

    def own_rate(self, client: int, place: int) -> float:
        """A client's accuracy on what it holds out, of the model that the round at a place began with."""
        made = self.federation
        digest = self.closed[place - 1].model_digest if place else bytes.fromhex(made.config.start.model)
        keys, samples = made.keys[client - 1], made.samples[client - 1]
        rule = HoldOut(Journal(made.directory / f"client-{client}", keys.storage), keys, 250_000).rule
        held_out = samples.take(split(marks_of(samples, rule), rule).held_out)
        return held_out_sums(made.config.network, load(made.store.fetch(digest, 1 << 24)), held_out).totals[
            "right"
        ] / len(held_out)


@pytest.fixture(scope="module")
def few():
    """Terms for fewer members than noise allows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(terms, "LEAST_RATED", 3)
        yield


@pytest.fixture(scope="module")
def run(few, tmp_path_factory) -> Run:
    with embedded() as network:
        parts = {"privacy": PRIVACY, "evaluation": EvaluationSettings(0.25), "training": QUICK}
        masking = MaskingSettings(masked="delta")
        made = Federation.found(network, tmp_path_factory.mktemp("run"), CLIENTS, 2, masking=masking, **parts)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        failing(clients[DIVERGES], DivergedTraining("the loss is not finite"), 2)
        while made.turn(coordinator, clients):
            if coordinator.round == 3 and made.said(f"client {SILENT}")[-1:] == ["shared"]:
                clients.pop(SILENT, None)
        closed = made.of(Closed)
        metrics = [Metrics.from_bytes(made.store.fetch(end.metrics_digest, 1 << 16)) for end in closed]
        yield Run(made, closed, metrics)


def told(run, place):
    """What the members of a round told, one half for who measured nothing."""
    survivors = range(1, CLIENTS + 1) if place < 2 else set(range(1, CLIENTS + 1)) - {SILENT}
    return [0.5 if (place, each) == (1, DIVERGES) else run.own_rate(each, place) for each in survivors]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_round_states_the_mean_of_its_survivors_rates_with_the_stated_noise(run, place):
    """4.9 standard deviations: a false alarm once in 10⁶ runs. In the last round a rate that is left out moves more.

    Which rates there are depends on the noise in the models: a few of them may lie near that of who measured nothing.
    """
    stated, rates = run.metrics[place].members, told(run, place)
    assert isinstance(stated, MembersRates) and list(stated.rates) == ["right"] and stated.last == (place == 2)
    assert abs(stated.rates["right"] - sum(rates) / len(rates)) < 4.9 * stated.noise
    shares = math.sqrt(len(rates) / (0.8 * CLIENTS))
    full = 0.05 * math.sqrt(1 if place == 2 else 20) / 2 / len(rates)
    assert stated.noise == pytest.approx(full * shares, rel=2e-3)
    if place == 2:
        assert max(abs(0.5 - rate) for rate in rates) / len(rates) > 8 * stated.noise


def test_nothing_of_it_is_exact(run):
    """No count and no sum is stated, and what leaves a client has its noise."""
    for metrics in run.metrics:
        assert set(json.loads(metrics.to_bytes())["members"]) <= {"kind", "rates", "noise", "last"}
        assert (metrics.members.rates["right"] * 15 * CLIENTS) % 1
        assert metrics.members.samples == 0


def test_the_last_round_uploads_rates_alone_and_keeps_the_model(run):
    *_, before, last = run.closed
    assert last.model_digest == before.model_digest != run.closed[0].model_digest
    current = run.federation.coordinator().view.refresh()
    assert {run.federation.store.root(each.digest, 1 << 20).size for each in current.commits.values()} == {4}
    committed = [said for said in run.federation.said("client 1") if said.startswith("committed")]
    assert committed == ["committed", "committed", "committed only metrics: the training has ended"]
    stated = run.metrics[2].privacy
    assert (stated.survivors, stated.sharers, stated.below, stated.next_clip) == (4, 5, None, stated.clip)


def test_epsilon_counts_the_rounds_at_the_full_price_and_the_last_one_too(run):
    multipliers = [each.privacy.effective_multiplier for each in run.metrics]
    assert multipliers == [pytest.approx(0.05 * math.sqrt(5 / 4), rel=1e-2)] * 2 + [0.05]
    for count, metrics in enumerate(run.metrics, 1):
        spent = epsilon_of([GaussianRelease(each) for each in multipliers[:count]], 1e-3)
        assert metrics.privacy.epsilon == pytest.approx(spent)


def test_the_audit_comes_to_the_same(run):
    verdict = run.federation.audit()
    assert (verdict.verdict, verdict.remarks) == ("verified", ())


LIES = {
    "a rate in its last digit": lambda found: found.replace(rates={"right": math.nextafter(found.rates["right"], 9)}),
    "less noise": lambda found: found.replace(noise=math.nextafter(found.noise, 0)),
    "void": lambda found: MembersRates({}, 0.0, "nobody knows", found.last),
    "another name": lambda found: found.replace(rates={"recall": found.rates["right"]}),
    "one more": lambda found: found.replace(rates=found.rates | {"recall": 0.5}),
    "the end": lambda found: found.replace(last=not found.last),
    "nothing": lambda found: None,
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("number", [1, 3])
def test_the_audit_and_a_client_name_what_does_not_follow(run, lie, number):
    made, truth = run.federation, run.metrics[number - 1]
    digest = made.store.put(truth.replace(members=LIES[lie](truth.members)).to_bytes()).digest
    records = [
        replace(record, metrics_digest=digest) if isinstance(record, Closed) and record.round == number else record
        for record in made.history().records()
    ]
    found = Auditor(chain_facts(made.history()), records, made.store).run()
    assert found.verdict == "bad record" and "members" in found.reason
    assert (found.first_bad_record.round, found.first_bad_record.field) == (number, "closed.metrics")
    client = made.client(1)
    client.view.refresh()
    current = client.view.rounds.rounds[number]
    (claimed,) = [record for record in records if isinstance(record, Closed) and record.round == number]
    assert "members" in client.context.closings._recompute(current, claimed)


def test_people_see_a_noisy_rate(run, capsys):
    made, last = run.federation, run.metrics[-1].members
    accuracy, noise = f"{last.accuracy:.4f}", f"{last.noise:.4f}"
    report = build_report(made.history(), made.store, {})
    assert [each["members"] for each in report["rounds"]] == [each.members.to_report() for each in run.metrics]
    report["audit"] = Verdict("verified", practice=True).entry()
    print_rounds(report)
    printed = capsys.readouterr()
    assert f"members for the last model: accuracy {accuracy} (noise ± {noise})" in printed.out + printed.err
    client = made.client(1)
    client.step()
    found = LastRoundReader(made.config, made.store).read(client.view)["last_round"]
    assert found.members_found == f"accuracy {accuracy} (noise ± {noise})" and found.only_evaluated
    metrics = ServiceMetrics()
    metrics.members(client.members_metrics)
    text = generate_latest(metrics._registry).decode()
    assert f"fedgrove_members_accuracy {last.accuracy}" in text and f"fedgrove_members_noise {last.noise}" in text
    closing = [said for said in made.said("coordinator") if said.startswith("closed")][-1]
    assert f"the members found accuracy {accuracy} (noise ± {noise}), for the last model" in closing


def test_the_tables_have_the_rate_and_its_noise(run):
    import fedgrove as fg

    history = fg.History(run.federation.history(), run.federation.store)
    rounds = tables_of(history.rounds, history.records)["rounds"]
    row = dict(zip(rounds.columns, rounds.rows[-1], strict=True))
    last = run.metrics[-1].members
    assert (row["members.accuracy"], row["members.noise"]) == (last.accuracy, last.noise)
    assert row["members.samples"] is row["members.loss"] is row["members.standard_error"] is None


CLIENT_TERMS = {"privacy": ClientLevelSettings(clip=1.0), "masking": MaskingSettings(masked="delta")}


def with_quorum(config, quorum):
    return {"ledger": replace(config.ledger, quorum=quorum, max_clients=max(quorum, config.ledger.max_clients))}


@pytest.mark.parametrize(
    ("quorum", "changes", "said"),
    [
        (299, {}, r"ledger\.quorum must be at least 300 with \[evaluation\] and privacy\.mechanism client: noise"),
        (300, {"evaluation": EvaluationSettings(0.25, ())}, r"evaluation\.metrics must be one metric at least"),
        (300, {"federation": FederationSettings(patience=2)}, r"federation\.patience must be 0 where privacy"),
    ],
)
def test_terms_that_cannot_be_are_refused_in_a_sentence(run, quorum, changes, said, monkeypatch):
    monkeypatch.setattr(terms, "LEAST_RATED", 300)
    config = run.federation.config
    values = {name: getattr(config, name) for name in config.__dataclass_fields__} | CLIENT_TERMS
    with pytest.raises(InvalidConfig, match=said):
        FederationConfig(**{**values, **with_quorum(config, quorum), **changes})


def test_terms_with_a_quorum_of_300_are_fine(run, monkeypatch):
    monkeypatch.setattr(terms, "LEAST_RATED", 300)
    config = run.federation.config
    values = {name: getattr(config, name) for name in config.__dataclass_fields__} | CLIENT_TERMS
    made = FederationConfig(**{**values, **with_quorum(config, 300)})
    assert made.rounds_to_close == made.federation.rounds + 1


def test_what_the_budget_does_not_afford_leaves_the_last_model_without_rates(few, tmp_path):
    """One round costs 261 at most. Roles say why no other follows, also where no repeats are left."""
    parts = {"privacy": replace(PRIVACY, epsilon=300.0), "evaluation": EvaluationSettings(), "training": QUICK}
    with embedded() as network:
        made = Federation.found(network, tmp_path, 3, 1, masking=MaskingSettings(masked="delta"), **parts)
        made.register()
        coordinator = made.coordinator()
        made.run(coordinator, made.clients())
        (end,) = made.of(Closed)
        stated = Metrics.from_bytes(made.store.fetch(end.metrics_digest, 1 << 16)).members
        assert stated.there and not stated.last
        assert "the privacy budget is spent: 0 of 3 members can afford another round" in coordinator.step().waiting
        assert made.audit().verdict == "verified"


@pytest.mark.parametrize(("participation", "void"), [("secret", True), ("public", False)])
def test_where_a_part_is_summed_and_nobody_may_know_how_many_the_rates_are_void(run, participation, void):
    settings = replace(PRIVACY, participation=participation)
    codec = ClientLevelUploads(replace(run.federation.config, privacy=settings))
    planned = ClientLevelRound(settings, 1, 10, 0.5, 4, 1.0, 4, rates=1)
    inputs = SimpleNamespace(only_evaluates=False, graph=SimpleNamespace(is_whole=False))
    found = codec._members(inputs, planned, np.zeros(1, np.uint32), (2, 2))
    assert bool(found.void) == void and found.there != void
    assert void == ("only a part of the members is summed" in found.void)


def test_the_accounting_of_a_secret_participation_counts_the_round_behind_the_training(run):
    """What may go wrong in a draw is shared out among all rounds, the last one too."""
    config = replace(run.federation.config, privacy=replace(PRIVACY, participation="secret", sampling_rates=(0.5,)))
    asked = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(client_level, "sampling_fault", lambda *parts: asked.append(parts[-1]) or "")
        assert client_level.ClientLevelAccounting(config).unfit(1, 5) == ""
    assert asked == [config.federation.rounds + 1]
