"""Client-level privacy in a real federation: what is summed, what is recorded, and who notices when a record lies."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.records import Closed, Committed, Drawn
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.tensors import flatten
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.pages import Pages
from fedgrove.node.explorer.sources import LiveSource
from fedgrove.node.explorer.survey import survey
from fedgrove.node.explorer.watch import IndexWatch
from fedgrove.node.privacy.clipping import clip_factor, l2_norm, next_clip
from fedgrove.node.privacy.grid import RoundTerms
from tests.node.methods.training.conftest import DIVERGES, FALLS_SILENT


def grid(run, number):
    """The grid of a round of the run."""
    stated = run.metrics()[number - 1].privacy
    settings = run.federation.config.privacy
    length = len(flatten(run.model(run.closed()[0].model_digest)))
    return RoundTerms(settings, number, length, stated.clip, clients=5, rate=1.0, sharers=5).grid


def noise(run, number):
    """The noise in the sum of a round, in units: what clipped updates leave of it; and how many survived."""
    opened = run.federation.coordinator().view
    opened.refresh()
    current, used = opened.rounds.rounds[number], grid(run, number)
    before, after = (flatten(run.model(digest)) for digest in (current.opened.model_digest, current.end.model_digest))
    total = (after.astype(np.float64) - before) * len(current.commits)
    for client in current.commits:
        if (number, client) != (2, DIVERGES):
            update = flatten(run.updates[number, client]) - before
            total -= update * clip_factor(l2_norm(update), used.clip)
    return total / used.unit, len(current.commits)


@pytest.mark.parametrize("number", [1, 2])
def test_the_sum_is_that_of_the_clipped_updates_with_the_promised_noise(run, number):
    """χ² of the residuals: a false alarm once in 10⁶ runs, while one missing share of five would not pass once in 10⁴.

    Rounding adds a quarter of a squared unit an update at most, which is 10⁻⁶ of the noise; the decoded models are
    float32, which adds 10⁻⁵. The mean is tested, too: a forgotten or unclipped update would move it.
    """
    residual, survivors = noise(run, number)
    variance = float(survivors * grid(run, number).share_variance)
    squares = residual @ residual / variance
    deviation = math.sqrt(2 * len(residual))
    assert abs(squares - len(residual)) < 4.9 * deviation
    assert len(residual) / survivors > (4.9 + 3.8) * deviation  # the power that is claimed
    for client in (1, 3, 4):
        update = flatten(run.updates[number, client]) - flatten(run.updates[number, 3 if client == 1 else 1])
        assert abs(residual @ update) / l2_norm(update) / math.sqrt(variance) < 4.9


def test_the_explorer_shows_what_was_spent(run, tmp_path):
    federation = run.federation
    index = Index(tmp_path / "index.sqlite", federation.deployment)
    index.add(federation.history())
    survey(index, federation.store, 1, 10_000)
    source = LiveSource(federation.network, federation.deployment, federation.store, "embedded", "fedgrove audit …")
    pages = Pages(IndexWatch(source, index))
    overview, rounds = pages.render(""), [pages.render(f"rounds/{number}/") for number in (1, 2)]
    index.close()
    spent = [metrics.privacy.epsilon for metrics in run.metrics()]
    assert all(f"ε {epsilon:.4g}<" in page for epsilon, page in zip(spent, rounds, strict=True))
    assert f"ε {spent[-1]:.4g}<small> of {federation.config.privacy.epsilon}" in overview
    assert "client-level differential privacy" in overview and "Privacy spent, ε" in overview


def test_the_records_say_what_was_released(run):
    first, second = (metrics.privacy for metrics in run.metrics())
    assert (first.sharers, first.needed, first.survivors) == (5, 4, 5)
    assert (second.sharers, second.needed, second.survivors) == (5, 4, 4)
    assert first.effective_multiplier == pytest.approx(math.sqrt(5 / 4), abs=1e-3)  # nobody dropped out
    assert second.effective_multiplier == 1.0
    assert (first.clip, first.clients, first.rate, first.delta) == (0.5, 5, 1.0, 1e-3)
    assert first.next_clip == next_clip(0.5, first.below, run.federation.config.privacy) == second.clip != 0.5
    assert 0 < first.epsilon < second.epsilon < 20
    assert second.to_table()["mechanism"] == "client"


def test_the_audit_verifies_the_run_and_says_what_was_spent(run):
    verdict = run.federation.audit()
    assert verdict.verdict == "verified" and not verdict.remarks
    assert verdict.privacy.epsilon == pytest.approx(run.metrics()[1].privacy.epsilon)
    assert verdict.privacy.budget == 20.0 and verdict.to_dict()["privacy"]["delta"] == 1e-3
    assert verdict.privacy.client != FALLS_SILENT


def test_a_diverged_training_and_sample_counts_stay_at_home(run):
    records = run.federation.history().records()
    assert {record.samples for record in records if isinstance(record, Drawn)} == {1}
    assert {record.round for record in records if isinstance(record, Committed) and record.client == DIVERGES} == {1, 2}
    assert [each.raised for each in run.metrics()] == [None, None]  # a count would be outside ε


LIES = {
    "noise_multiplier": lambda record: record.replace(noise_multiplier=2.0),
    "effective_multiplier": lambda record: record.replace(effective_multiplier=1.5),
    "clip": lambda record: record.replace(clip=0.4),
    "clients": lambda record: record.replace(clients=6),
    "rate": lambda record: record.replace(rate=0.5),
    "survivors": lambda record: record.replace(survivors=4),
    "below": lambda record: record.replace(below=math.nextafter(record.below, 9)),
    "next_clip": lambda record: record.replace(next_clip=math.nextafter(record.next_clip, 9)),
    "epsilon": lambda record: record.replace(epsilon=record.epsilon * (1 - 1e-5)),
    "mechanism": lambda record: None,
}


def retold(run, lie):
    """The run's records, where the metrics of round 1 tell a lie about privacy."""
    truth = run.metrics()[0]
    digest = run.federation.store.put(truth.replace(privacy=LIES[lie](truth.privacy)).to_bytes()).digest
    records = run.federation.history().records()
    return [
        replace(record, metrics_digest=digest) if isinstance(record, Closed) and record.round == 1 else record
        for record in records
    ]


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_names_a_wrong_record_of_what_was_released(run, lie):
    federation = run.federation
    verdict = Auditor(chain_facts(federation.history()), retold(run, lie), federation.store).run()
    assert verdict.exit_code == 1
    bad = verdict.first_bad_record
    assert (bad.round, bad.field) == (1, "closed.metrics") and f"privacy.{lie}" in bad.reason


@pytest.mark.parametrize("lie", ["noise_multiplier", "next_clip", "mechanism"])
def test_a_client_finds_the_same_fault(run, lie):
    client = run.federation.client(1)
    client.view.refresh()
    current = client.view.rounds.rounds[1]
    (told,) = [record for record in retold(run, lie) if isinstance(record, Closed) and record.round == 1]
    assert client.context.closings.fault(current) == ""
    assert f"privacy.{lie}" in client.context.closings._recompute(current, told)


def test_epsilon_of_another_machine_agrees(run):
    truth = run.metrics()[0]
    close = truth.privacy.replace(epsilon=truth.privacy.epsilon * (1 + 1e-9))
    digest = run.federation.store.put(truth.replace(privacy=close).to_bytes()).digest
    records = [
        replace(record, metrics_digest=digest) if isinstance(record, Closed) and record.round == 1 else record
        for record in run.federation.history().records()
    ]
    verdict = Auditor(chain_facts(run.federation.history()), records, run.federation.store).run()
    assert verdict.verdict == "verified"
