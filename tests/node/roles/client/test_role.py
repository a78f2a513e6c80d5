"""A client does what the unit of its phase does, or of the phase that this unit names."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.crypto import vrf
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Sealed
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.protocol.closing import Closings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation

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
    client._dispute = naming(Step.act("dispute", "disputed"))
    assert client.step().acted == "disputed"


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
    assert step.until == client.view.deadlines(client.view.rounds.last).close_end


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
    base = SimpleNamespace(number=1, closing=SimpleNamespace(round=1, **digests), commits=range(1000), disputes={})
    monkeypatch.setattr(Closings, "_recompute", lambda self, current, end: "recomputed")
    monkeypatch.setattr(vrf, "proof_to_hash", lambda proof: bytes([0xC0]) + bytes(63))  # a lot of 0.75
    assert client.context.closings.fault(base, 1) == ("recomputed" if recomputes else "")
