"""A client does what is due, and pays for no transaction twice."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto import vrf
from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Sealed
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.context import Outbox
from fedgrove.node.roles.client.role import Duty, duty_of
from tests.node.federation import Federation
from tests.node.roles.fakes import DEADLINES, GAS, ME, Events, client_turn_at, entry_with, view_at

# --- What a running round asks of a client ----------------------------------------------------------------------------


SEALED = {"draws": (ME, 2, 3), "sealed": object()}
FIRST, LAST = 0, 59


def duty(block, **parts):
    return duty_of(client_turn_at(block, entry_with(**parts)))


@pytest.mark.parametrize("block", [FIRST, 19, 20, LAST])
def test_a_client_that_has_not_drawn_is_in_draw_whatever_the_block(block):
    assert duty(block, draws=(2, 3), sealed=object(), shares=(2, 3)) is Duty.DRAW


@pytest.mark.parametrize("block", [FIRST, 29, LAST])
def test_a_client_that_drew_waits_for_the_order_until_it_is_sealed(block):
    assert duty(block, draws=(ME, 2)) is Duty.SEAL


@pytest.mark.parametrize(("block", "due"), [(30, Duty.SHARE), (39, Duty.SHARE), (40, Duty.RELEASE)])
def test_a_client_shares_while_shares_are_taken(block, due):
    assert duty(block, **SEALED, shares=(2, 3)) is due


@pytest.mark.parametrize(("block", "due"), [(30, Duty.COMMIT), (49, Duty.COMMIT), (50, Duty.RELEASE)])
def test_a_client_that_shared_commits_while_commitments_are_taken(block, due):
    assert duty(block, **SEALED, shares=(ME, 2, 3)) is due


@pytest.mark.parametrize("block", [45, 50, LAST])
def test_a_client_that_did_not_share_never_commits(block):
    assert duty(block, **SEALED, shares=(2, 3)) is Duty.RELEASE


@pytest.mark.parametrize("block", [40, 50, LAST])
def test_a_client_that_committed_publishes_before_anything_else(block):
    assert duty(block, **SEALED, shares=(ME, 2, 3), commits=(ME, 2)) is Duty.PUBLISH


def test_what_others_did_does_not_change_the_duty():
    assert duty(45, **SEALED, shares=(ME, 2, 3), commits=(2, 3), releases=(2,)) is Duty.COMMIT


# --- A client does what the unit of its phase does, or of the phase that this unit names ------------------------------


QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One in which client 1 has committed."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("committed"), training=QUICK)
        made.register()
        coordinator, clients = made.coordinator(), made.clients()
        while "committed" not in made.said("client 1"):
            made.turn(coordinator, clients)
        yield made


@pytest.fixture
def client(federation):
    """A client whose units only name themselves."""
    made = federation.client(1)
    made.units = {phase: naming(Step.act("done", phase.value)) for phase in made.units}
    return made


def naming(result):
    return SimpleNamespace(act=lambda turn: result)


def test_the_unit_of_the_phase_acts(client):
    assert client.step().acted == "publish"


def test_where_a_duty_is_done_shares_are_released(client):
    client.units[Duty.PUBLISH] = naming(None)
    assert client.step().acted == "release"


def test_before_the_order_is_sealed_it_waits_until_that_must_be(client):
    current = client.view.refresh()
    del current.once[Sealed]
    step = client.step()
    assert (step.phase, step.until, step.acted) == ("seal", client.view.deadlines(current).seal_end, "")


def test_a_wrong_model_comes_before_any_phase(client):
    client._judge = naming(Step.act("judge", "judged"))
    assert client.step().acted == "judged"


def test_without_its_journal_no_unit_acts(client):
    client.context.journal.note = lambda number: None
    assert "journal of the round is missing" in client.step().waiting


def test_a_round_under_other_terms_has_no_phase(client):
    client.view.refresh().opened = SimpleNamespace(round=1, opened_at=0, config_digest=bytes(32))
    client.view.refresh = lambda: client.view.rounds.latest
    assert "did not agree" in client.step().waiting


def test_a_round_that_its_masks_forbid_is_sat_out_until_its_end(client):
    def refuse(turn):
        raise MaskingRefused("too many partners are gone")

    client.units[Duty.PUBLISH] = SimpleNamespace(act=refuse)
    step = client.step()
    assert (step.phase, step.waiting) == ("sit out", "this client: too many partners are gone")
    assert step.until == client.view.deadlines(client.view.rounds.last).recover_end


def test_another_process_on_its_keystore_comes_before_any_phase(client):
    def meet(rounds, number, block):
        assert (rounds, number, block) == (client.view.rounds, 1, client.view.block)
        raise AlreadyInUse("another process uses this keystore")

    client.context.duplicates.look = meet
    with pytest.raises(AlreadyInUse):
        client.step()


def test_a_registration_is_sent_once_and_then_waited_for(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, training=QUICK)
        client = made.client(1, confirmations=5)
        assert client.step().acted == "registered"
        before = network.block_number()
        step = client.step()
        assert (step.phase, step.acted, step.until) == ("register", "", client.view.block + 1)
        assert "not yet confirmed" in step.waiting and network.block_number() == before


@pytest.mark.parametrize(("chosen", "recomputes"), [({}, False), ({"check_rounds": 1.0}, True)])
def test_a_client_recomputes_no_more_closed_rounds_than_the_terms_ask_unless_its_owner_wants_it(
    federation, monkeypatch, chosen, recomputes
):
    client = federation.client(1, **chosen)
    digests = {"model_digest": bytes(32), "metrics_digest": bytes(32)}
    base = SimpleNamespace(
        number=1,
        result=SimpleNamespace(round=1, at=SimpleNamespace(block=0), **digests),
        commits=range(1000),
        judgements=lambda asked: {},
        overruled=None,
    )
    monkeypatch.setattr(Closings, "_recompute", lambda self, current, end: "recomputed")
    monkeypatch.setattr(vrf, "proof_to_hash", lambda proof: bytes([0xC0]) + bytes(63))  # a lot of 0.75
    assert client.context.closings.fault(base, 1) == ("recomputed" if recomputes else "")


# --- A client pays for no transaction twice that the ledger refused ---------------------------------------------------


@pytest.fixture
def events():
    return Events()


def test_what_the_ledger_takes_is_a_step_with_its_gas(events):
    send = events.noting("share", SimpleNamespace(gas_used=GAS))
    step = Outbox(view_at(35)).send(entry_with(), "share", "shared", send)
    assert (step.phase, step.acted, step.gas) == ("share", "shared", GAS)


def test_what_the_ledger_refused_is_not_sent_again_in_that_phase_and_round(events):
    outbox, send = Outbox(view_at(35)), events.noting("share", ContractRevert("too late"))
    for _ in range(3):
        step = outbox.send(entry_with(), "share", "shared", send)
        assert step.phase == "sit out" and "too late" in step.waiting and step.until == DEADLINES.recover_end
    assert events.names() == ["share"]


def test_other_phases_and_later_rounds_are_tried(events):
    outbox, refused = Outbox(view_at(35)), events.noting("refused", ContractRevert("too late"))
    outbox.send(entry_with(1), "share", "shared", refused)
    outbox.send(entry_with(1), "commit", "committed", refused)
    outbox.send(entry_with(2), "share", "shared", refused)
    assert len(events) == 3


def test_two_refusals_in_a_round_are_both_remembered(events):
    outbox, refused = Outbox(view_at(35)), events.noting("refused", ContractRevert("too late"))
    for phase in ("share", "commit", "share", "commit"):
        outbox.send(entry_with(1), phase, "did it", refused)
    assert len(events) == 2


def test_no_deadline_is_named_that_has_passed(events):
    refused = events.noting("judge", ContractRevert("too late"))
    assert Outbox(view_at(DEADLINES.recover_end)).send(entry_with(), "judge", "judged", refused).until == 0
