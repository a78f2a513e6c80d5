"""One member that spoils every round it can.

It wants the federation to stop, or honest members to be blamed. It sends what cannot be summed, shares garbage, takes
its update or its shares away once they are on the ledger. What stops it: a spoilt round leaves the model before; the
next ones are summed in cells, so that only its own cell is left out; who shared or released garbage is named by its own
commitments.
"""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.masking.sealing import ENTRY_BYTES, SEALED_BYTES
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.contributing import Publish, PublishShares
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation, with_phase

MEMBERS, SPOILER, ROUNDS = 8, 3, 2


class Poisoner(Client):
    """Adds as much to one parameter as no honest clients together could."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        honest = self.context.disclosure.mask
        self.context.disclosure.mask = lambda *inputs: poisoned(honest(*inputs))


class Shameless(Client):
    """Does not mind that the ledger lists for it what its journal did not make."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.context.duplicates.look = lambda *seen: None


class GarbageShares(PublishShares):
    """Seals random bytes for its holders, with commitments to them that look right."""

    def act(self, turn):
        blob = self.context.disclosure.shares(turn.current, turn.client)
        self.context.ledger.share(turn.current.number, self.context.store.put(with_garbage(blob)).digest)
        return Step.act("share", "shared garbage")


class PublishesNothing(Publish):
    """Commits to an update that nobody ever sees."""

    def act(self, turn):
        return None


class HiddenShares(PublishShares):
    """Shares the digest of shares that nobody ever sees."""

    def act(self, turn):
        blob = self.context.disclosure.shares(turn.current, turn.client)
        self.context.ledger.share(turn.current.number, cid_of(blob).digest)
        return Step.act("share", "shared what nobody can fetch")


GarbageDealer = with_phase(Shameless, Duty.SHARE, GarbageShares)
Withholder = with_phase(Client, Duty.PUBLISH, PublishesNothing)
SilentDealer = with_phase(Client, Duty.SHARE, HiddenShares)


def poisoned(data: bytes) -> bytes:
    words = np.frombuffer(data, "<u4").copy()
    words[:1] += np.uint32(1.9 * 2**30)  # beyond the largest sum, whichever sign the parameter has
    return words.tobytes()


def with_garbage(blob: bytes) -> bytes:
    data, generator = bytearray(blob), np.random.default_rng(0)
    for start in range(40, len(data), ENTRY_BYTES):
        data[start : start + SEALED_BYTES] = generator.bytes(SEALED_BYTES)
    return bytes(data)


def played(spoiler: type[Client], directory, most: int = 60) -> Federation:
    """A federation in which one member is a spoiler, after at most so many openings."""
    with embedded() as network:
        federation = Federation.found(network, directory, clients=MEMBERS, rounds=ROUNDS, repeats=100)
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        clients[SPOILER] = federation.client(SPOILER, spoiler)
        for _ in range(4_000):
            if not federation.turn(coordinator, clients) or coordinator.round > most:
                break
        federation.verdict = federation.audit()
    return federation


@pytest.fixture
def never_apart(monkeypatch):
    """Takes the mend out: a round that was spoilt is held again as it was."""
    monkeypatch.setattr(Rounds, "is_next_apart", lambda rounds: False)


SPOILERS = (Poisoner, GarbageDealer, Withholder, SilentDealer)


@pytest.mark.parametrize("spoiler", SPOILERS, ids=lambda each: each.__name__)
def test_the_federation_goes_on_without_its_cell(spoiler, tmp_path):
    federation = played(spoiler, tmp_path)
    assert len(federation.of(Closed)) == ROUNDS
    assert len(federation.of(Failed)) == 1
    assert federation.verdict.verdict == "verified", federation.verdict
    honest = {client for client in range(1, MEMBERS + 1) if client != SPOILER}
    assert all("refuses" not in said for client in honest for said in federation.said(f"client {client}"))


@pytest.mark.parametrize("spoiler", [Poisoner, Withholder], ids=lambda each: each.__name__)
def test_without_cells_it_stops_the_federation_that_opens_no_third_sum(spoiler, tmp_path, never_apart):
    federation = played(spoiler, tmp_path, most=4)
    assert not federation.of(Closed)
    assert len(federation.of(Failed)) == 2
    assert "it stands still" in federation.coordinator().step().waiting


def test_the_audit_names_who_dealt_garbage(tmp_path):
    federation = played(GarbageDealer, tmp_path)
    named = [remark for remark in federation.verdict.remarks if remark.field == "recovery.left out"]
    assert named and {remark.client for remark in named} == {SPOILER}
