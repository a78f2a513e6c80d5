"""``fedgrove status``: phase, who acted, who is waited for, until which block; why a last round did not count."""

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import embedded
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.step import missing
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from fedgrove.node.status.standing import JudgedRound, standing
from tests.node.federation import Federation, LyingCoordinator

QUICK = TrainingSettings(batch_size=20)


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=3, training=QUICK)
        made.register()
        yield made


@pytest.fixture
def found(tmp_path):
    """Founds a federation of registered members on a chain of its own."""
    with embedded() as network:

        def make(clients=4, mode="named", repeats=0, **terms):
            parts = {"federation": FederationSettings(**terms), "membership": MembershipSettings(mode)}
            made = Federation.found(network, tmp_path, clients=clients, repeats=repeats, training=QUICK, **parts)
            made.register()
            return made

        yield make


def last(federation, number, knows_keys=False):
    """What is told of member ``number``'s last round: its number, and why it did not count (empty: it did)."""
    keys = federation.keys[number - 1]
    told = standing(federation.ledger(keys), keys.address, keys=keys if knows_keys else None).last
    assert told.counted is not bool(told.reason)
    return told.round, told.reason


def finish(federation, coordinator, clients, rounds):
    """Run until so many rounds have ended and the next one is open, or all are over."""
    while coordinator.round <= rounds and federation.turn(coordinator, clients):
        pass


def test_every_phase_of_a_round_is_told(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    reader, account = federation.ledger(federation.keys[0]), federation.keys[0].address
    told = {}

    class Observed:
        """A client after each of whose steps somebody asks."""

        def __init__(self, client):
            self.client = client

        def step(self):
            step = self.client.step()
            now = standing(reader, account)
            told.setdefault(now.phase, now)
            everyone = len(now.acted) == 3 and now.phase == "recover"
            assert not everyone or now.waiting == "the coordinator to close", now.waiting
            assert not now.until or now.until > now.block
            return step

    before = standing(reader, account)
    assert (before.round, before.members, before.phase) == (0, 3, "open")
    while federation.turn(coordinator, {number: Observed(client) for number, client in clients.items()}):
        pass
    told["closed"] = standing(reader, account)
    assert {"draw", "share", "commit", "recover", "closed"} <= set(told)
    settings = federation.config.ledger
    view = federation.ledger(federation.keys[0]).round(1)
    assert not any("nobody, " in now.waiting for now in told.values())
    assert told["draw"].until == view.seed_block + settings.draw_window
    assert told["share"].until == view.seal_end + settings.share_window > view.share_end
    assert standing(reader, account).account.startswith("client 1, in round 1: drew, shared, committed, released")


def test_who_opens_the_next_round_is_told(found):
    federation = found(clients=3, rounds=2)
    coordinator, clients, reader = federation.coordinator(), federation.clients(), federation.ledger(federation.keys[0])
    while standing(reader).phase != "closed":
        federation.turn(coordinator, clients)
    assert standing(reader).waiting.endswith("to open the next round")
    assert standing(reader, on_request=True).waiting.endswith("the next round, once a member asks to be forgotten")


def test_it_names_who_is_waited_for(found):
    federation = found(rounds=1)
    coordinator, clients = federation.coordinator(), federation.clients()
    del clients[2]
    reader = federation.ledger(federation.keys[0])
    seen = set()
    while federation.turn(coordinator, clients):
        seen.add(standing(reader).waiting)
    assert "client 2 to draw" in seen


def test_draws_behind_their_window_have_no_deadline(federation):
    federation.coordinator().step()
    reader, network = federation.ledger(federation.keys[0]), federation.network
    end = reader.round(1).seed_block + federation.config.ledger.draw_window
    for block, until in ((end - 2, end), (end + 5, 0)):
        network.advance_to(block)
        now = standing(reader)
        assert (now.phase, now.until) == ("draw", until) and now.waiting == "clients 1, 2, 3 to draw"


def test_clients_that_are_waited_for_are_named_in_the_order_of_their_numbers():
    assert missing((4, 6, 3, 1), {6}, "commit") == "clients 1, 3, 4 to commit"
    assert missing((4,), {4}, "commit") == "nobody"


def test_a_stranger_is_told_so_and_the_coordinator_is_none(federation):
    reader, stranger = federation.ledger(federation.keys[0]), Keys.generate().address
    assert standing(reader, stranger).account == f"{stranger} is not registered"
    federation.run()
    assert standing(reader, stranger).last.reason == "the account is not registered"
    coordinator = standing(reader, federation.coordinator_keys.address)
    assert coordinator.account == "the coordinator" and coordinator.last is None


def test_an_overdue_round_is_told(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    reader = federation.ledger(federation.keys[0])
    federation.network.advance_to(reader.round(1).recover_end + 1)
    now = standing(reader)
    assert (now.phase, now.waiting) == ("overdue", "anyone to record the round as failed")


def test_the_end_of_all_rounds_is_told(found):
    federation = found(clients=3, rounds=2)
    coordinator, clients, reader = federation.coordinator(), federation.clients(), federation.ledger(federation.keys[0])
    finish(federation, coordinator, clients, 1)
    assert not standing(reader).finished
    federation.run(coordinator, clients)
    now = standing(reader)
    assert now.finished and now.waiting.startswith("nobody")


def test_who_may_act_in_the_coordinators_stead_is_told(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "released shares" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    reader = federation.ledger(federation.keys[0])
    assert "the coordinator to close" in standing(reader).waiting
    settings = federation.config.ledger
    federation.network.advance_to(reader.round(1).commit_end + settings.coordinator_grace)
    assert "the coordinator or any stand-by to close" in standing(reader).waiting


# --- why a last round did not count -----------------------------------------------------------------------------------


def test_every_way_to_miss_a_round_is_told(found):
    federation = found(clients=5, rounds=9)
    coordinator, clients = federation.coordinator(), federation.clients()
    watched = clients[5]
    reader = federation.ledger(federation.keys[4])
    assert standing(reader, federation.keys[4].address).last is None
    told = []
    for number, last_word in enumerate(("committed", "drew", "shared", "", "drew"), 1):
        while coordinator.round == number - 1:
            federation.turn(coordinator, clients)
        before = len(federation.said("client 5"))
        clients[5] = watched
        while last_word and last_word not in federation.said("client 5")[before:]:
            federation.turn(coordinator, clients)
        if last_word != "committed":
            del clients[5]
        finish(federation, coordinator, clients, number)
        told.append(last(federation, 5))
    for number in (6, 8, 9):
        finish(federation, coordinator, clients, number)
        told.append(last(federation, 5))
    deadlines = [reader.round(number) for number in range(1, 9)]
    assert told == [
        (1, ""),
        (2, f"it drew, but did not share in time (by block {deadlines[1].share_end})"),
        (3, f"it drew and shared, but did not commit in time (by block {deadlines[2].commit_end})"),
        (4, f"it did not draw in time (by block {deadlines[3].draw_end})"),
        (5, f"it drew, but did not share in time (by block {deadlines[4].share_end})"),
        (6, f"it did not draw in time (by block {deadlines[5].draw_end})"),
        (8, f"it did not draw in time (by block {deadlines[7].draw_end})"),
        (9, "it was idle when the round opened, as it drew in none of the rounds before"),
    ]


def test_who_registers_in_a_running_round_is_told_when_it_is_active(found):
    federation = found(clients=3, mode="open", practice=True, rounds=1)
    late = Keys.generate()
    federation.network.fund(late.address, 1)
    coordinator, clients = federation.coordinator(), federation.clients()
    while not coordinator.round:
        federation.turn(coordinator, clients)
    federation.ledger(late).register(late)
    federation.run(coordinator, clients)
    told = standing(federation.ledger(late), late.address)
    active_from = federation.ledger(late).client_of(late.address).active_from
    assert not told.last.counted and told.last.reason.endswith(f"it is active from block {active_from} on")


@pytest.mark.parametrize(
    ("rate", "told"), [(0.999999, "it was in the sample, but did not draw in time"), (1e-6, "it was not in the sample")]
)
def test_only_its_keys_tell_whether_a_client_was_in_the_sample(found, rate, told):
    federation = found(sampling_rate=rate)  # each of these is wrong once in a million runs
    clients = federation.clients()
    del clients[4]
    finish(federation, federation.coordinator(), clients, 1)  # a round without draws is skipped, and uses no repeat
    assert "only its keystore can tell" in last(federation, 4)[1]
    assert last(federation, 4, knows_keys=True)[1].startswith(told)


def test_a_round_that_failed_or_was_skipped_names_its_reason(found):
    # Rounds of all members wait: none of these is skipped.
    federation = found(clients=3, rounds=2, repeats=1, sampling_rate=0.999999)
    coordinator, clients = federation.coordinator(), federation.clients()
    while "committed" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    federation.network.advance_to(federation.ledger(federation.keys[0]).round(1).recover_end + 1)
    finish(federation, coordinator, clients, 1)
    assert last(federation, 1) == (
        1,
        "it committed, but the round failed: nobody closed it in time, with shares of 0 clients released",
    )
    while federation.said("client 2").count("drew") < 2:
        federation.turn(coordinator, {2: clients[2]})
    finish(federation, coordinator, {}, 2)
    assert last(federation, 2) == (2, "it drew, but the round was skipped: only 1 drew")


# --- judgements -------------------------------------------------------------------------------------------------------


class Liar(LyingCoordinator):
    """Closes with the model it likes."""


def test_judgements_and_the_result_that_stands_are_told(found):
    federation = found(clients=4, rounds=1)
    coordinator, clients = federation.coordinator(Liar), federation.clients()
    reader, account = federation.ledger(federation.keys[0]), federation.keys[0].address
    seen = {}
    while not coordinator.finished:
        acted = False
        for role in (coordinator, *clients.values()):
            acted = bool(role.step().acted) or acted
            now = standing(reader, account)
            seen |= {each: now for each in now.judged if each not in seen}
        if not acted:
            federation.turn(coordinator, clients)
    first = seen[JudgedRound(1, (1,), 4, False, False)]
    assert first.phase == "closed" and first.last.counted
    replaced = seen[JudgedRound(1, (1, 2, 3), 4, False, True)]
    assert replaced.phase == "closed" and replaced.last.counted
