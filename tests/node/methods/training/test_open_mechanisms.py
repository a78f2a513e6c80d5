"""Local privacy and SignDS in a real federation: what is summed and recorded, and who notices what is wrong."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Drawn
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import flatten, load
from fedgrove.node.learning.settings import SENDING
from fedgrove.node.methods.terms import method_of
from fedgrove.node.privacy import local, signds
from fedgrove.node.privacy.accountant import GaussianRelease, PureRelease, epsilon_of
from fedgrove.node.privacy.local import LocalMean
from fedgrove.node.privacy.settings import LocalSettings, SignDsSettings
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.terms import MaskingSettings, StrategySettings
from tests.node.federation import Federation
from tests.node.methods.training.conftest import DIVERGES, QUICK, Run, watched

LOCAL = LocalSettings(epsilon=20.0, delta=1e-3, clip=0.5, budget=60.0)
SIGNDS = SignDsSettings(epsilon=8.0, top=0.05, dimensions=20, step=0.5, step_decay=0.9, budget=30.0)
MECHANISMS = {"local": LOCAL, "signds": SIGNDS}


def found(network, directory, privacy, clients=3, rounds=2, masked="weights"):
    masking = MaskingSettings(masked=masked)
    made = Federation.found(network, directory, clients, rounds, training=QUICK, masking=masking, privacy=privacy)
    made.register()
    return made


@pytest.fixture(scope="module", params=list(MECHANISMS))
def run(request, tmp_path_factory):
    """Four clients, two rounds; in the second one diverges. No test may change it."""
    with embedded() as network:
        made = found(network, tmp_path_factory.mktemp(request.param), MECHANISMS[request.param], clients=4)
        updates = {}
        clients = {number: watched(client, number, updates) for number, client in made.clients().items()}
        made.run(clients=clients)
        yield Run(made, updates)


@pytest.fixture
def small(tmp_path):
    """``small(privacy, rounds)``: a federation of three registered members on a chain of its own."""
    with embedded() as network:
        yield lambda privacy, rounds=1, **terms: found(network, tmp_path, privacy, rounds=rounds, **terms)


def parameters(run) -> int:
    return len(flatten(run.model(run.closed()[0].model_digest)))


def committed(federation, number) -> dict[int, bytes]:
    """Uploads of a round by client, as the store has them."""
    records = (each for each in federation.history().records() if isinstance(each, Committed) and each.round == number)
    return {record.client: federation.store.fetch(record.digest, 1 << 24) for record in records}


def entry_of(federation, number):
    view = federation.coordinator().view
    view.refresh()
    return view.rounds.rounds[number]


def test_two_rounds_are_held_and_verified(run):
    verdict = run.federation.audit()
    assert verdict.verdict == "verified" and not verdict.remarks
    settings = run.federation.config.privacy
    assert verdict.privacy.budget == settings.budget
    if settings.mechanism == "local":
        mechanism = local.mechanism_for(settings, parameters(run))
        releases = [GaussianRelease(mechanism.sigma / mechanism.sensitivity, count=2)]
        assert verdict.privacy.epsilon == pytest.approx(mechanism.epsilon_after(2, settings.delta))
    else:
        releases = [PureRelease(8.0, 2, signds.mechanism_for(settings, parameters(run)).chance)]
    assert verdict.privacy.epsilon == pytest.approx(epsilon_of(releases, settings.delta))
    assert verdict.privacy.epsilon < 2 * settings.epsilon


def test_the_records_say_what_was_released(run):
    first, second = (metrics.privacy for metrics in run.metrics())
    settings = run.federation.config.privacy
    assert first.mechanism == settings.mechanism and first.upload_epsilon == settings.epsilon
    assert first.uploads == second.uploads == 4
    assert settings.epsilon * 0.999 < first.epsilon <= settings.epsilon * 1.001 < second.epsilon
    if settings.mechanism == "signds":
        mechanism = signds.mechanism_for(settings, parameters(run))
        assert (first.dimensions, first.threshold) == (20, mechanism.threshold) and first.refused == 0
        assert (first.step, second.step) == (0.5, 0.45)


def test_a_diverged_training_is_no_news(run):
    committed = [record for record in run.federation.of(Committed) if record.client == DIVERGES]
    assert [record.round for record in committed] == [1, 2] and not any(each.raised for each in run.federation.stated())


def test_sample_counts_are_told_only_where_they_weigh(run):
    told = {record.samples for record in run.federation.of(Drawn)}
    assert told == ({60} if run.federation.config.mechanism == "local" else {1})


@pytest.mark.parametrize("number", [1, 2])
def test_the_next_model_follows_from_the_uploads(run, number):
    current = entry_of(run.federation, number)
    before, after = (flatten(run.model(digest)) for digest in (current.opened.model_digest, current.end.model_digest))
    settings = run.federation.config.privacy
    if settings.mechanism == "signds":
        mechanism, votes = signds.mechanism_for(settings, len(before)), np.zeros(len(before))
        for upload in committed(run.federation, number).values():
            assert len(upload) == mechanism.upload_bytes == 84
            selection = signds.Selection.from_bytes(upload, mechanism)
            votes[selection.dimensions] += selection.sign
        assert np.allclose(after - before, votes * settings.step_of(number) / 4, atol=1e-6)
        return
    # The mean of four clipped updates, with a quarter of the variance of one client's noise.
    residual = (after - before).astype(np.float64)
    for (round_number, client), update in run.updates.items():
        if (round_number, number, client) == (number, number, client) and not (
            round_number == 2 and client == DIVERGES
        ):
            own = flatten(update) - before
            residual -= own / 4 * min(1, settings.clip / np.linalg.norm(own))
    sigma = local.mechanism_for(settings, len(before)).sigma / 2
    assert abs(residual @ residual / sigma**2 - len(before)) < 4.9 * math.sqrt(2 * len(before))


LIES = {
    "local": ("upload_epsilon", "clip", "uploads", "epsilon", "delta"),
    "signds": ("upload_epsilon", "dimensions", "threshold", "step", "uploads", "refused", "epsilon", "delta"),
}


def test_the_audit_names_every_lie_about_what_was_released(run):
    federation, truth = run.federation, run.metrics()[0]
    for lie in LIES[federation.config.mechanism]:
        wrong = truth.replace(privacy=truth.privacy.replace(**{lie: getattr(truth.privacy, lie) * 2 + 1}))
        digest = federation.store.put(wrong.to_bytes()).digest
        records = [
            replace(record, metrics_digest=digest) if isinstance(record, Closed) and record.round == 1 else record
            for record in federation.history().records()
        ]
        bad = Auditor(chain_facts(federation.history()), records, federation.store).run().first_bad_record
        assert (bad.round, bad.field) == (1, "closed.metrics") and f"privacy.{lie}" in bad.reason


def test_the_audit_finds_an_upload_that_was_exchanged(run):
    """Another upload of the same form in place of a client's: the closed model is not the sum of these."""
    federation = run.federation
    uploads = committed(federation, 1)
    if federation.config.mechanism == "signds":
        other = uploads[1][:3] + bytes([1 - uploads[1][3]]) + uploads[1][4:]  # the other sign
    else:
        other = uploads[1][:-1] + bytes([uploads[1][-1] ^ 1])
    digest = federation.store.put(other).digest
    records = [
        replace(record, digest=digest)
        if isinstance(record, Committed) and (record.round, record.client) == (1, 1)
        else record
        for record in federation.history().records()
    ]
    bad = Auditor(chain_facts(federation.history()), records, federation.store).run().first_bad_record
    assert (bad.round, bad.field) == (1, "closed.model")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_killed_after_it_chose_commits_the_same_bytes(small, mechanism):
    federation = small(MECHANISMS[mechanism])
    coordinator, clients = federation.coordinator(), federation.clients()

    def crash(*arguments):
        raise KeyboardInterrupt

    while "shared" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    clients[2].context.ledger.commit = crash
    with pytest.raises(KeyboardInterrupt):
        while True:
            federation.turn(coordinator, clients)
    journal = Journal(federation.directory / "client-2", federation.keys[1].storage)
    made = journal.read(1, "masked")
    assert made is not None and journal.uploads() == (1,)
    federation.run(coordinator, {**clients, 2: federation.client(2)})
    assert committed(federation, 1)[2] == made
    assert federation.audit().verdict == "verified"


BUDGETS = {
    "local": replace(LOCAL, budget=25.0),  # one upload costs 20, two 32
    "signds": replace(SIGNDS, budget=12.0),  # one costs 8, two 16
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_training_ends_when_the_budget_is_spent(small, mechanism):
    federation = small(BUDGETS[mechanism], rounds=3)
    coordinator = federation.coordinator()
    while federation.turn(coordinator, federation.clients()):
        pass
    assert {record.round for record in federation.of(Drawn)} == {1}
    client = federation.client(1)
    assert "privacy budget is spent" in client.step().waiting and client.finished
    assert federation.audit().verdict == "verified"


NO_SELECTIONS = {
    "one byte short": lambda data: data[:-1],
    "neither sign": lambda data: data[:3] + b"\7" + data[4:],
    "nothing": lambda data: b"",
}
"""``signds.Selection`` has tests for all others."""


@pytest.mark.parametrize("garble", NO_SELECTIONS)
def test_an_upload_that_is_no_selection_is_left_out_and_the_round_goes_on(small, garble):
    federation = small(SIGNDS)
    clients = federation.clients()
    kind = clients[3].context.disclosure.method.codec
    encode = kind.encode
    kind.encode = lambda *arguments: NO_SELECTIONS[garble](encode(*arguments))
    federation.run(clients=clients)
    current = entry_of(federation, 1)
    assert isinstance(current.end, Closed)
    before, after = (
        flatten(load(federation.store.fetch(digest, 1 << 24)))
        for digest in (current.opened.model_digest, current.end.model_digest)
    )
    mechanism = signds.mechanism_for(SIGNDS, len(before))
    votes = np.zeros(len(before), np.int32)
    for client in (1, 2):
        signds.add_vote(votes, signds.Selection.from_bytes(committed(federation, 1)[client], mechanism))
    assert (after == before + signds.mean_vote(votes, 2, SIGNDS.step)).all()
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    told = [] if garble == "neither sign" else [(3, "commit.content")]
    assert [(remark.client, remark.field) for remark in verdict.remarks] == told


def test_what_is_uploaded_under_local_privacy_stays_within_the_bound_and_hides_a_hostile_update(small):
    federation = small(LOCAL, masked="delta")
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    clients[1].view.refresh()
    client, current = clients[1], clients[1].view.rounds.latest
    inputs = client.context.inputs(current)
    bound = federation.config.masking.bound
    mechanism = LocalMean(inputs.layout, bound, "delta", settings=LOCAL)
    for value in (math.nan, math.inf, 3e38, -3e38):
        update = {name: np.full_like(tensor, value) for name, tensor in inputs.previous.items()}
        vector = mechanism.vector(flatten(update), lambda: inputs.previous, os.urandom)
        assert np.isfinite(vector).all() and np.abs(vector).max() <= bound
        sigma = local.mechanism_for(LOCAL, len(vector)).sigma
        assert np.sqrt(vector.astype(np.float64) @ vector) < LOCAL.clip + sigma * (math.sqrt(len(vector)) + 5)


def test_terms_that_do_not_suit_the_model_are_refused_at_once(small, monkeypatch):
    monkeypatch.setattr(local, "_GRID", 12)  # all models of today are small enough for the real one
    terms = replace(small(LOCAL).config, privacy=LocalSettings(epsilon=1e-3, delta=1e-12))
    with pytest.raises(InvalidConfig, match="too large for local privacy"):
        method_of(terms).first_model()


def test_votes_need_whole_masks_and_move_weights_only(small):
    terms = small(SIGNDS).config
    changes = [("masking", MaskingSettings(kappa=0.5), "kappa")]
    changes += [("strategy", StrategySettings(each), "fedcurv, feddyn, fedspeed and scaffold") for each in SENDING]
    for change, other, key in changes:
        with pytest.raises(InvalidConfig, match=key):
            replace(terms, **{change: other})
