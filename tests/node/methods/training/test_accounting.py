"""A privacy budget in a real federation: who refuses what when it is spent, and that no crash refunds any of it."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Drawn, Failed, Judged, Phase, Released, Replaced, Skipped
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.tensors import Layout, flatten, load
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, MembershipSettings
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.roles.coordinator import Coordinator
from tests.node.federation import Federation
from tests.node.methods.training.conftest import TERMS

TWO_ROUNDS = ClientLevelSettings(epsilon=5.0, delta=1e-3)
"""Two rounds of σ = 1 cost 4.85, a third would make it 6.28."""


@pytest.fixture
def found(tmp_path):
    """``found(clients, rounds, privacy)``: a federation of registered members on a chain of its own."""
    with embedded() as network:

        def make(clients=3, rounds=4, privacy=TWO_ROUNDS, **terms):
            made = Federation.found(network, tmp_path, clients, rounds, privacy=privacy, **TERMS, **terms)
            made.register()
            return made

        yield make


def spending(federation, config=None):
    view = federation.coordinator().view
    view.refresh()
    first = view.rounds.rounds[1].opened.model_digest
    parameters = Layout.of(load(federation.store.fetch(first, 1 << 24))).length
    return Spending(method_of(config or federation.config), federation.store, view.rounds, parameters)


def test_training_ends_when_the_budget_is_spent_also_for_clients_that_restart_before_every_step(found):
    federation = found()
    coordinator = federation.coordinator()
    while federation.turn(coordinator, federation.clients()):
        if coordinator.round == 2:  # a journal that is lost is no refund either
            (federation.directory / "client-1" / "uploads.sealed").unlink(missing_ok=True)
    assert [record.round for record in federation.of(Closed)] == [1, 2]
    assert {record.round for record in federation.of(Drawn)} == {1, 2}
    step = federation.coordinator().step()
    assert step.phase == "done" and "0 of 3 members can afford another round, but 3 are needed" in step.waiting
    client = federation.client(1)
    assert "privacy budget is spent" in client.step().waiting and client.finished
    history = federation.history()
    auditor = Auditor(chain_facts(history), history.records(), federation.store)
    verdict = auditor.run()
    assert verdict.verdict == "verified" and "budget is spent" in auditor.exhausted()  # whoever follows is done
    assert verdict.privacy.epsilon == pytest.approx(epsilon_of([GaussianRelease(1.0, count=2)], 1e-3)) == 4.845251881


def test_a_client_refuses_to_draw_beyond_its_budget_whatever_the_ledger_hides(found):
    federation = found()
    federation.run()
    refusal = spending(federation).refusal(1, 3)
    assert "ε = 4.845 of 5 at δ = 0.001, and round 3 would make it 6.284" in refusal
    view = federation.coordinator().view
    view.refresh()
    for each in view.rounds.rounds.values():
        each.commits.pop(1)
    forgetful = Spending(method_of(federation.config), federation.store, view.rounds, 1000)
    own = Journal(federation.directory / "client-1", federation.keys[0].storage).uploads()
    assert own == (1, 2)
    assert not forgetful.refusal(1, 3) and "would make it 6.284" in forgetful.refusal(1, 3, own)
    view.rounds.rounds.clear()  # a chain that abandoned them altogether
    assert forgetful.refusal(1, 3, own)


def test_a_client_killed_between_encoding_and_committing_commits_the_same_bytes(found):
    """kill −9 of a real process, on the client's real journal; the chain lives on."""
    federation = found(rounds=1)
    coordinator, clients = federation.coordinator(), federation.clients()
    mine = clients.pop(2)
    while "committed" not in federation.said("client 1"):
        federation.turn(coordinator, clients | ({2: mine} if "shared" not in federation.said("client 2") else {}))
    current = coordinator.view.refresh()
    mine.context.work.result(current, 2)  # torch does not train after a fork
    child = os.fork()
    if not child:
        mine.context.ledger.commit = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(50):  # until its slot ends; the chain of the others stays where it is
            federation.network.advance_to(mine.step().until)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    journal = Journal(federation.directory / "client-2", federation.keys[1].storage)
    encoded = journal.read(1, "masked")
    assert encoded is not None and journal.uploads() == (1,)
    assert 2 not in coordinator.view.refresh().commits
    federation.run(coordinator, {**clients, 2: federation.client(2)})
    (commit,) = [record for record in federation.of(Committed) if record.client == 2]
    assert federation.store.fetch(commit.digest, 1 << 24) == encoded
    assert federation.audit().verdict == "verified"


def raising(fault):
    def fails(*arguments):
        raise fault

    return fails


def test_an_upload_that_is_refused_costs_nothing(found):
    """A client whose partners did not share masks nothing, whatever it would have cost."""
    federation = found(rounds=1)
    coordinator, clients = federation.coordinator(), federation.clients()
    clients[2].context.disclosure.mask = raising(MaskingRefused("its partners did not share"))
    while not any("its partners did not share" in each for each in federation.said("client 2")):
        federation.turn(coordinator, clients)
    assert Journal(federation.directory / "client-2", federation.keys[1].storage).uploads() == ()


def test_an_upload_counts_before_it_is_kept(found):
    federation = found(rounds=1)
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    clients[2].context.disclosure._keep = raising(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        while True:
            federation.turn(coordinator, clients)
    own = Journal(federation.directory / "client-2", federation.keys[1].storage).uploads()
    assert own == (1,)
    assert spending(federation).epsilon(2, 1, own) == pytest.approx(epsilon_of([GaussianRelease(1.0)], 1e-3))
    assert spending(federation).epsilon(2, 1) == 0


def silent_in_round_two(federation, coordinator, clients):
    """Run; client 5 drops out of round 2 when it has shared, so that its noise is missing."""
    while federation.turn(coordinator, clients):
        if coordinator.round == 2 and federation.said("client 5")[-1:] == ["shared"]:
            clients.pop(5, None)


def test_nothing_is_released_when_lost_noise_would_exceed_the_budget(found):
    federation = found(clients=5, repeats=20)
    silent_in_round_two(federation, federation.coordinator(), federation.clients())
    assert federation.of(Failed)[0].round == 2
    said = next(each for each in federation.said("client 1") if "nothing may be summed" in each)
    assert "with the noise of 4 of 5 clients, client" in said and "of 5 at" in said
    assert {(each.round, each.asked) for each in federation.of(Judged)} >= {(2, Phase.RECOVER)}
    assert 2 not in {record.round for record in federation.of(Released)}
    assert federation.audit().verdict == "verified"
    # What nobody could unmask costs nothing, so another round closes: with those whom a coin puts in the sum.
    assert spending(federation).epsilon(1, 2) == spending(federation).epsilon(1, 1)
    first, last = (record.round for record in federation.of(Closed))
    spent = sorted(spending(federation).epsilon(client, last) for client in range(1, 6))
    assert first == 1 and last > 2 and spent[-3:] == pytest.approx([4.845251881] * 3)


def test_a_client_that_ignores_its_budget_spends_its_own_and_stops_nobody(found):
    federation = found(clients=5, rounds=3, membership=MembershipSettings(least=0.0))  # others are there in each round
    coordinator, clients = federation.coordinator(), federation.clients()
    clients[5].units[Duty.DRAW]._unaffordable = lambda turn: ""
    active = {1: (1, 2, 5), 2: (3, 4, 5), 3: (1, 2, 3, 4, 5)}
    while federation.turn(coordinator, {number: clients[number] for number in active[max(1, coordinator.round)]}):
        pass
    assert [record.round for record in federation.of(Closed)] == [1, 2, 3]
    verdict = federation.audit()
    assert verdict.verdict == "verified" and verdict.privacy.client == 5 and verdict.privacy.epsilon > 6
    assert "ε = 6.284 of 5 at δ = 0.001 spent by client 5" in str(verdict.privacy)


def test_holders_release_nothing_even_if_the_coordinator_does_not_mind(found, monkeypatch):
    monkeypatch.setattr("fedgrove.node.roles.coordinator.summing.nothing_to_sum", lambda method, inputs: "")
    federation = found(clients=5)
    silent_in_round_two(federation, federation.coordinator(), federation.clients())
    assert [record.round for record in federation.of(Failed)] == [2]
    assert 2 not in {record.round for record in federation.of(Released)}


def test_a_round_that_went_past_the_budget_is_a_bad_record(found, monkeypatch):
    """All its members collude, or their software is another."""
    monkeypatch.setattr("fedgrove.node.roles.coordinator.summing.nothing_to_sum", lambda method, inputs: "")
    monkeypatch.setattr("fedgrove.node.roles.disclosure.overspent", lambda method, number: "")
    monkeypatch.setattr(Closings, "fault", lambda *closing, **how: "")
    monkeypatch.setattr(Closings, "is_found_right", lambda closings, current: True)
    federation = found(clients=5)
    silent_in_round_two(federation, federation.coordinator(), federation.clients())
    verdict = federation.audit()
    assert verdict.exit_code == 1
    bad = verdict.first_bad_record
    assert (bad.round, bad.field) == (2, "closed.privacy") and "with the noise of 4 of 5 clients" in bad.reason
    monkeypatch.undo()
    client = federation.client(1)
    client.view.refresh()
    assert "has spent" in client.context.closings.fault(client.view.rounds.rounds[2])


class UnderReports(Coordinator):
    """States half of the noise that round 1 had, so that less seems to have been promised."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        honestly = self.context.outcomes.of

        def outcome(number, record):
            result = honestly(number, record)
            return replace(result, privacy=result.privacy.replace(noise_multiplier=0.5))

        self.context.outcomes.of = outcome


def test_clients_judge_a_round_whose_record_lies(found):
    federation = found()
    federation.run(coordinator=federation.coordinator(UnderReports))
    assert 1 in {record.round for record in federation.of(Replaced)}
    assert any("privacy.noise_multiplier is stated as 0.5 but is 1.0" in said for said in federation.said("client 1"))
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert (1, "closed.metrics") in [(remark.round, remark.field) for remark in verdict.remarks]


def test_rounds_under_other_terms_count_as_those_terms_say(found):
    """A budget that is agreed on afterwards cannot cover what was told without any noise."""
    federation = found(rounds=1, privacy=None)
    federation.run()
    terms = {name: getattr(federation.config, name) for name in federation.config.__dataclass_fields__}
    later = FederationConfig(**{**terms, "federation": FederationSettings(rounds=9), "privacy": TWO_ROUNDS})
    assert "ε = inf of 5" in spending(federation, later).refusal(1, 2)
    assert not spending(federation).limited and not spending(federation).refusal(1, 2)


SECRET = ClientLevelSettings(epsilon=5.0, delta=0.1, participation="secret", dropouts=0.25)


def privacy_of(federation):
    return [each.privacy for each in federation.stated()]


def test_in_secret_participation_every_client_spends_in_every_round(found):
    """And with a schedule of noise and rates, sampled clients at the price of Poisson sampling."""
    schedule = {"noise_multipliers": (1.0, 1.2), "sampling_rates": (1.0, 0.99999), "phases": (2,)}
    federation = found(clients=5, rounds=2, privacy=replace(SECRET, dropouts=0.0, **schedule))
    clients = federation.clients()
    away = clients.pop(5)
    coordinator = federation.coordinator()
    while federation.turn(coordinator, clients | ({5: away} if coordinator.round == 2 else {})):
        pass
    first, second = privacy_of(federation)
    assert (first.clients, first.survivors, second.clients, second.survivors) == (5, 4, 5, 5)
    assert [each.noise_multiplier for each in (first, second)] == [1.0, 1.2]
    assert [each.rate for each in (first, second)] == [1.0, 0.99999]
    assert spending(federation).epsilon(5, 2) == spending(federation).epsilon(1, 2) == second.epsilon
    sampled = epsilon_of([GaussianRelease(1.0), GaussianRelease(1.2, 0.99999)], 0.1)
    assert second.epsilon == pytest.approx(sampled)
    # Towards those who can read the ledger a client spends where it took part, at the full price.
    full = epsilon_of([GaussianRelease(1.0), GaussianRelease(1.2)], 0.1)
    assert second.ledger_epsilon == pytest.approx(full) and second.ledger_epsilon > second.epsilon
    verdict = federation.audit()
    assert verdict.verdict == "verified" and verdict.privacy.to_readers.epsilon == second.ledger_epsilon
    assert "towards readers of the ledger ε = " in str(verdict.privacy)
    alone = spending(federation).summary(2, client=5)
    assert alone.to_readers.epsilon == pytest.approx(epsilon_of([GaussianRelease(1.2)], 0.1))
    assert alone.to_readers.epsilon < second.ledger_epsilon


def test_in_secret_participation_the_noise_of_those_who_dropped_out_is_filled_up(found):
    """Coordinator, clients and audit fill up the same; only readers of the ledger count with less noise."""
    federation = found(clients=5, rounds=2, privacy=SECRET)
    silent_in_round_two(federation, federation.coordinator(), federation.clients())
    first, second = privacy_of(federation)
    assert (first.survivors, second.survivors, second.sharers) == (5, 4, 5)
    assert first.effective_multiplier > second.effective_multiplier
    whole = first.effective_multiplier
    assert second.epsilon == pytest.approx(epsilon_of([GaussianRelease(whole, 1.0, 2)], 0.1))
    less = [GaussianRelease(whole), GaussianRelease(second.effective_multiplier)]
    assert second.ledger_epsilon == pytest.approx(epsilon_of(less, 0.1))
    assert federation.audit().verdict == "verified"
    before, after = (
        flatten(load(federation.store.fetch(end.model_digest, 1 << 24))).astype(float) for end in federation.of(Closed)
    )
    expected = 5 * whole / 5  # deviation of the noise in the mean over all members, S = 1, times their number
    assert (after - before).std() * 5 == pytest.approx(expected, rel=0.1)


def test_nobody_draws_where_too_few_members_make_a_round_that_tells_who_was_drawn(found):
    federation = found(clients=3, rounds=1, privacy=replace(SECRET, sampling_rates=(0.9,)))
    coordinator, clients = federation.coordinator(), federation.clients()
    while not federation.of(Skipped):
        federation.turn(coordinator, clients)
    assert not federation.of(Drawn)
    (said,) = set(federation.said("client 1"))
    assert "with 3 members too few may be drawn (ledger.quorum)" in said


HOSTILE = {
    "nan": lambda update: np.full_like(update, np.nan),
    "one nan": lambda update: np.where(np.arange(update.size).reshape(update.shape) == 0, np.nan, update),
    "inf": lambda update: np.full_like(update, np.inf),
    "huge": lambda update: np.full_like(update, 3e38),
    "alternating": lambda update: np.where(np.arange(update.size).reshape(update.shape) % 2, 3e38, -3e38),
}


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    """A client that is about to commit, in a round whose list of shares is final."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("sharing"), 3, 1, privacy=TWO_ROUNDS, **TERMS)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        while "shared" not in made.said("client 3"):
            made.turn(coordinator, clients)
        clients[1].view.refresh()
        yield clients[1], clients[1].view.rounds.latest


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_update_moves_the_sum_by_more_than_its_clip(sharing, kind, monkeypatch):
    """The same masks and, for the test, the same noise: what is left between two uploads are the updates."""
    client, past = sharing
    monkeypatch.setattr("fedgrove.node.methods.training.client_level.os.urandom", bytes)
    inputs, secrets = client.context.inputs(past), client.context.disclosure.secrets(1)
    update = {name: HOSTILE[kind](tensor).astype(np.float32) for name, tensor in inputs.previous.items()}
    codec = client.context.method.codec
    updates = (ModelUpdate(each) for each in (inputs.previous, update))
    zero, hostile = (np.frombuffer(codec.encode(inputs, 1, secrets, each), "<u4") for each in updates)
    moved = (hostile - zero).view(np.int32).astype(np.float64)
    grid = codec._round(inputs).grid
    reach = float(np.sqrt(moved @ moved)) * grid.unit
    assert reach <= grid.reach <= 1.01 * TWO_ROUNDS.clip
    assert (reach > 0.98) == (kind in ("huge", "alternating"))


def test_only_noise_and_rounding_tell_two_encodings_of_one_update_apart(sharing, monkeypatch):
    client, each = sharing
    inputs, secrets = client.context.inputs(each), client.context.disclosure.secrets(1)
    codec = client.context.method.codec
    update = ModelUpdate(inputs.previous)
    fresh = [codec.encode(inputs, 1, secrets, update) for _ in range(2)]
    assert fresh[0] != fresh[1]
    monkeypatch.setattr("fedgrove.node.methods.training.client_level.os.urandom", bytes)
    fixed = [codec.encode(client.context.inputs(each), 1, secrets, update) for _ in range(2)]
    assert fixed[0] == fixed[1] and len(fixed[0]) == codec.upload_bytes(inputs.layout)
