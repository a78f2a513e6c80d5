"""A coordinator that leaves one client alone among its accomplices.

It keeps the draws of all honest members but one out of a round (by censoring or revoking them). The sum of that round,
less what the accomplices sent, is the victim's update. What stops it: a client shares its secrets only where at least
half of the members that it counts on have drawn; a revocation acts from the next round on. The quorum alone would stop
three of eight where the terms name the members; here it is three.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed
from fedgrove.node.base.tensors import flatten
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol import policy
from fedgrove.node.protocol.policy import attendance_fault, known_members
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import MaskingSettings, MembershipSettings
from tests.node.federation import Federation

MEMBERS, VICTIM, ACCOMPLICES = 8, 1, (7, 8)


@pytest.fixture
def nobody_looks_around(monkeypatch):
    """Takes the mend out: clients take part in whatever company."""
    monkeypatch.setattr(policy, "known_members", lambda *_: set())


def played(directory, company=(VICTIM, *ACCOMPLICES), then=lambda federation: None) -> Federation:
    """A lawful round of all, then rounds of a company alone, by default the victim and two accomplices."""
    with embedded() as network:
        membership = MembershipSettings(mode="approved")
        terms = {"membership": membership, "masking": MaskingSettings(colluders=0.1)}  # three are enough for a sum
        federation = Federation.found(network, directory, MEMBERS, rounds=2, repeats=2, **terms)
        federation.ledger(federation.coordinator_keys).approve(*(keys.address for keys in federation.keys))
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        while coordinator.round < 2 and federation.turn(coordinator, clients):
            pass
        kept = {number: client for number, client in clients.items() if number in company}
        federation.victim = kept.get(VICTIM)
        for _ in range(500):
            if not federation.turn(coordinator, kept) or coordinator.round > 3:
                break
        federation.records = federation.ledger(federation.coordinator_keys).records()
        federation.found = then(federation)
    return federation


def closed_rounds(federation: Federation) -> list[int]:
    return [record.round for record in federation.records if isinstance(record, Closed)]


def test_the_victim_refuses(tmp_path):
    federation = played(tmp_path)
    assert closed_rounds(federation) == [1]
    assert any("refuses the round, only 3 of the 8 members" in said for said in federation.said(f"client {VICTIM}"))


def test_a_client_that_looks_away_is_read(tmp_path, nobody_looks_around):
    """The model of the second round, less the accomplices' updates, is the victim's, to rounding."""
    federation = played(tmp_path)
    assert closed_rounds(federation) == [1, 2]
    view = federation.victim.view
    current, config = view.rounds.rounds[2], federation.config
    closed = flatten(method_of(config).fetch_model(federation.store, current.end.model_digest)).astype(np.float64)
    weights = {client: draw.samples for client, draw in current.draws.items()}
    trained = {}
    for number in (VICTIM, *ACCOMPLICES):
        client = federation.client(number)
        client.view.rounds, client.view.block = view.rounds, view.block
        member = view.rounds.member(client.account)
        update = client.context.work.result(current, member.client)
        trained[number] = (flatten(update.tensors), weights[member.client])
    others = sum(update.astype(np.float64) * weight for number, (update, weight) in trained.items() if number != VICTIM)
    victim, weight = trained[VICTIM]
    read = (closed * sum(weights.values()) - others) / weight
    assert np.abs(read - victim).max() < 1e-5


@pytest.mark.parametrize("size", [3, 4])
def test_sybil_tail_needs_the_keys_of_half_of_the_members(tmp_path, monkeypatch, nobody_looks_around, size):
    """Who has the keys of the coordinator and of some members goes on alone, in blocks that it makes."""

    def audited(made):
        monkeypatch.undo()
        return made.audit()

    made = played(tmp_path, tuple(range(1, size + 1)), audited)
    assert closed_rounds(made) == [1, 2]
    if 2 * size >= MEMBERS:
        assert made.found.verdict == "verified"  # a published head alone tells it from another history
        return
    bad = made.found.first_bad_record
    assert made.found.verdict == "bad record" and (bad.round, bad.field) == (2, "closed.policy")
    assert "only 3 of the 8 members" in bad.reason


def rounds_of(committed: list[set[int]], order: tuple[int, ...], clients: int, rate: int = 1_000_000):
    """Rounds in which these clients committed, and a sealed one with this order, as far as the policy looks."""
    rounds = Rounds()
    for client in range(1, clients + 1):
        rounds.members[client] = SimpleNamespace(client=client, account=f"account {client}", active_from=0)
    for number, commits in enumerate(committed, 1):
        ending = SimpleNamespace(at=SimpleNamespace(block=number))
        standing = {"stands": True, "commits": dict.fromkeys(commits), "ending": ending}
        rounds.rounds[number] = SimpleNamespace(number=number, **standing)
    opened = SimpleNamespace(sampling_rate=rate, opened_at=100)
    known = tuple(range(1, clients + 1))
    return rounds, SimpleNamespace(number=len(committed) + 1, order=order, opened=opened, known=known)


def terms(least: float, members: tuple[str, ...] = (), mode: str = ""):
    mode = mode or ("named" if members else "open")
    return SimpleNamespace(membership=SimpleNamespace(least=least, members=members, mode=mode))


@pytest.mark.parametrize(("present", "refused"), [(2, True), (3, True), (4, False), (8, False)])
def test_half_of_those_seen_lately_must_be_there(present, refused):
    rounds, each = rounds_of([set(range(1, 9))], tuple(range(1, present + 1)), 8)
    assert bool(attendance_fault(rounds, each, terms(0.5))) == refused


def test_sybils_do_not_count():
    rounds, each = rounds_of([set(range(1, 9))], (1, 2, *range(9, 60)), 60)
    assert attendance_fault(rounds, each, terms(0.5))


def test_who_is_revoked_counts_where_an_admin_approves_members():
    """It took part once: no revocation makes those fewer whom a victim counts on."""
    rounds, each = rounds_of([set(range(1, 9))], (1, 2, 3), 8)
    each.known = (1, 2, 3)
    assert attendance_fault(rounds, each, terms(0.5, mode="approved"))


def test_dead_registrations_do_not_stop_a_federation():
    rounds, each = rounds_of([set(range(1, 9))], tuple(range(1, 9)), 500)
    assert not attendance_fault(rounds, each, terms(0.5))


def test_named_members_count_from_the_first_round_and_strangers_are_refused():
    named = tuple(f"account {client}" for client in range(1, 9))
    rounds, each = rounds_of([], (1, 2, 3), 12)
    assert attendance_fault(rounds, each, terms(0.5, named))
    assert not attendance_fault(*rounds_of([], (1, 2, 3, 4), 12), terms(0.5, named))
    assert "is not a member that the terms name" in attendance_fault(
        *rounds_of([], (1, 2, 3, 4, 5, 9), 12), terms(0.5, named)
    )


def test_chance_may_leave_out_some_where_a_sample_is_drawn():
    everybody = set(range(1, 101))
    assert not attendance_fault(*rounds_of([everybody], tuple(range(1, 5)), 100, rate=100_000), terms(0.5))
    assert attendance_fault(*rounds_of([everybody], (), 100, rate=500_000), terms(0.5))


def test_only_rounds_that_closed_lately_say_who_can_be_counted_on():
    rounds, each = rounds_of([{1}, {2}, {3}, {4}], (), 9)
    assert known_members(rounds, each, terms(0.5)) == {f"account {client}" for client in (2, 3, 4)}


def test_who_is_revoked_in_a_running_round_still_takes_part(tmp_path):
    with embedded() as network:
        membership = MembershipSettings(mode="approved")
        federation = Federation.found(network, tmp_path, clients=4, rounds=1, membership=membership)
        admin = federation.ledger(federation.coordinator_keys)
        admin.approve(*(keys.address for keys in federation.keys))
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        while coordinator.round < 1:
            federation.turn(coordinator, {})
        for keys in federation.keys[1:]:
            admin.revoke(keys.address)
        federation.run(coordinator, clients)
        closed = [record for record in admin.records() if isinstance(record, Closed)]
        assert len(closed) == 1
        assert len(coordinator.view.rounds.rounds[1].commits) == 4
        assert federation.audit().verdict == "verified"
