"""Who acts when the coordinator does not."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Shared
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.standby import Standby
from tests.node.federation import Federation
from tests.node.roles.fakes import DEADLINES, entry_with

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


def found(network, directory, rounds=4):
    made = Federation.found(network, directory, clients=4, rounds=rounds, training=QUICK)
    made.register()
    return made


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        yield found(network, tmp_path)


class Mortal(Coordinator):
    """Never acts again once ``dies`` says so."""

    dies = staticmethod(lambda entry: False)

    def _act(self, current):
        if current is not None and self.dies(current):
            raise SystemExit("killed for good")
        return super()._act(current)


def run(federation, coordinator, standbys):
    """All roles in turn; the coordinator drops out when it dies, the stand-bys decide when it is over."""
    roles = {**{f"standby {number}": role for number, role in standbys.items()}}
    clients = federation.clients()
    for _ in range(2000):
        steps = []
        if coordinator is not None:
            try:
                steps.append(("coordinator", coordinator.step()))
            except SystemExit:
                coordinator = None
        steps += [(name, role.step()) for name, role in roles.items()]
        if any(role.finished for role in standbys.values()):
            return
        steps += [(f"client {number}", client.step()) for number, client in clients.items()]
        federation.log += [(name, step) for name, step in steps if step.acted]
        if not any(step.acted for _, step in steps):
            block = federation.network.block_number()
            federation.network.advance_to(min(step.until for _, step in steps if step.until > block))
    raise AssertionError(federation.log[-5:])


def models(federation):
    return {r.round: r.model_digest for r in federation.history().records() if isinstance(r, Closed)}


@pytest.mark.parametrize(
    "moment",
    [
        lambda current: current.number == 2,
        lambda current: current.number == 2 and current.sealed is not None,
        lambda current: current.number == 2 and len(current.commits) == 4,
        lambda current: current.number == 2 and current.end is not None,
    ],
    ids=["opened", "sealed", "committed", "ended"],
)
def test_training_ends_with_the_same_models_when_the_coordinator_is_gone_for_good_in_round_two(
    federation, tmp_path, moment
):
    with embedded() as other:
        undisturbed = found(other, tmp_path / "undisturbed")
        undisturbed.run()
        expected = models(undisturbed)
    coordinator = federation.coordinator(Mortal)
    coordinator.dies = moment
    run(federation, coordinator, {1: federation.standby(1), 3: federation.standby(3)})
    assert models(federation) == expected and len(expected) == 4
    assert federation.audit().verdict == "verified"
    assert federation.said("standby 1") + federation.said("standby 3")


def test_a_standby_keeps_still_while_the_coordinator_works(federation):
    run(federation, federation.coordinator(), {2: federation.standby(2)})
    assert federation.said("standby 2") == []
    assert len(models(federation)) == 4


def test_a_standby_that_is_no_member_pays_for_nothing(federation):
    stranger = Keys.generate()
    federation.network.fund(stranger.address, 1)
    first = method_of(federation.config).first_model()
    role = Standby(federation.ledger(stranger), federation.store, federation.config, first)
    federation.coordinator().step()
    federation.network.advance_to(federation.network.block_number() + 100)
    before = federation.network.balance(stranger.address)
    step = role.step()
    assert not step.acted and "may not act in its place" in step.waiting
    assert federation.network.balance(stranger.address) == before


def test_a_standby_leaves_the_first_round_to_the_coordinator(federation):
    step = federation.standby(1).step()
    assert step.phase == "standby" and "only it may open the first round" in step.waiting


AT = SimpleNamespace(at=SimpleNamespace(block=100))
WINDOWS = SimpleNamespace(seed_delay=2, draw_window=8, seal_window=8, recover_window=28, coordinator_grace=7)
LOT = 3


@pytest.mark.parametrize(
    ("records", "since", "least", "most"),
    [
        ({}, DEADLINES.opened_at + 2 + 8, 4, 5),  # half of the window, not the whole grace period
        ({"draw_end": AT}, DEADLINES.draw_end, 4, 5),
        ({"sealed": AT}, DEADLINES.commit_end, 7 + LOT, 7 + LOT),
        ({"sealed": AT, "end": AT}, 100, 7, 16),
        ({"end": AT, "voided": AT}, 100, 7, 16),
    ],
    ids=["opened", "drawn", "sealed", "closed", "voided unsealed"],
)
def test_a_standby_waits_for_the_grace_period_and_its_lot_but_to_seal_for_half_the_window_at_most(
    federation, records, since, least, most
):
    """Its lot to close is the ledger's, else one of its own."""
    role, waits = federation.standby(1), set()
    law = SimpleNamespace(grace=lambda: WINDOWS.coordinator_grace, closing_lot=lambda current, account: LOT)
    role.view = SimpleNamespace(
        block=0, settings=WINDOWS, deadlines=lambda current: DEADLINES, law=law, rounds=Rounds()
    )
    for number in range(1, 60):
        waits.add(role._act(entry_with(number, **records)).until - since)
    assert (min(waits), max(waits)) == (least, most)


def test_only_who_committed_closes_in_the_place_of_the_coordinator(federation):
    role = federation.standby(1)
    role.view.refresh()
    for commits, struck, may in (((1, 2), False, True), ((2,), False, False), ((1, 2), True, False)):
        role.view.law.is_struck = lambda account, struck=struck: struck
        assert role._may(entry_with(draws=(1, 2), commits=commits)) is may


def test_a_standby_skips_a_round_that_waits_for_its_quorum_only_where_members_changed(federation):
    coordinator = federation.coordinator()
    while not coordinator.view.rounds.latest or coordinator.view.rounds.latest.seed is None:
        coordinator.step()
        federation.network.mine()
        coordinator.view.refresh()
    federation.network.advance_to(federation.network.block_number() + 100)
    assert "0 of the 3 needed have" in federation.standby(1).step().waiting
    federation.client(4).context.ledger.withdraw(0, bytes(32))
    assert federation.standby(1).step().acted.startswith("skipped the round")


def test_a_standby_whose_member_has_left_is_done_once_nothing_of_it_is_summed(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    standby = federation.standby(1)
    while not federation.of(Shared):
        federation.turn(coordinator, clients)
    federation.ledger(federation.keys[0]).withdraw(0, b"\1" * 32)
    standby.step()
    assert not standby.finished, "its shares may be needed"
    while not federation.of(Closed):
        federation.turn(coordinator, clients)
    assert standby.step().phase == "done" and standby.finished
