"""One member draws with a mask key of zeros, with which nobody can mask.

It wants every round to fail, for a reason that nobody can be blamed for: it shares and commits anything, so that it is
a survivor without a partner, whose update would be read bare if its self-mask came off. What stops it: who is not
connected by masks to the largest part is left out, with its self-mask on, and the others are summed.
"""

from hashlib import sha256

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed, Phase
from fedgrove.node.masking import survivors
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.context import ClientUnit
from fedgrove.node.roles.client.role import Duty
from tests.node.federation import Federation, with_phase

MEMBERS, ATTACKER, ROUNDS = 5, 2, 2
ZEROS = bytes(32)


class SharesAnything(ClientUnit):
    def act(self, turn):
        receipt = self.context.ledger.share(turn.current.number, self.context.store.put(b"junk").digest)
        return Step.act("share", "shared junk", receipt.gas_used)


class CommitsAnything(ClientUnit):
    def act(self, turn):
        if turn.phase is not Phase.COMMIT:
            return Step.wait("commit", "the commit phase", turn.deadlines.share_end)
        size = self.context.method.codec.expected_bytes(self.context.inputs(turn.current), turn.client)
        update = self.context.store.put(bytes(size)).digest
        receipt = self.context.ledger.commit(turn.current.number, update, sha256(b"seed").digest())
        return Step.act("commit", "committed to zeros", receipt.gas_used)


class ReleasesNothing(ClientUnit):
    def act(self, turn):
        return Step.wait("recover", "nobody", turn.deadlines.recover_end)


class WithoutKey(Client):
    """Draws with a mask key of zeros."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        ledger = self.context.ledger
        honest = ledger.draw
        ledger.draw = lambda number, keys, alpha, mask_key, *rest: honest(number, keys, alpha, ZEROS, *rest)
        self.context.duplicates.look = lambda *seen: None


Attacker = WithoutKey
for duty, unit in (
    (Duty.SHARE, SharesAnything),
    (Duty.COMMIT, CommitsAnything),
    (Duty.PUBLISH, ReleasesNothing),
    (Duty.RELEASE, ReleasesNothing),
):
    Attacker = with_phase(Attacker, duty, unit)


def played(directory, most: int = 6) -> Federation:
    with embedded() as network:
        federation = Federation.found(network, directory, clients=MEMBERS, rounds=ROUNDS, repeats=20)
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        clients[ATTACKER] = federation.client(ATTACKER, Attacker)
        for _ in range(2_000):
            if not federation.turn(coordinator, clients) or coordinator.round > most:
                break
        federation.verdict = federation.audit()
    return federation


def test_every_round_closes_without_it(tmp_path):
    federation = played(tmp_path)
    assert len(federation.of(Closed)) == ROUNDS and not federation.of(Failed)
    assert federation.verdict.verdict == "verified", federation.verdict
    assert all("refuses" not in said for n in range(1, MEMBERS + 1) for said in federation.said(f"client {n}"))


@pytest.mark.mutants
def test_it_stops_a_federation_that_wants_all_survivors_in_one_part(tmp_path, monkeypatch):
    """Every round fails, as nobody may release anything, and nobody is to blame."""

    def whole_or_nothing(graph, listed):
        parts = honest(graph, listed)
        return parts if frozenset().union(*parts) == frozenset(listed) else tuple(frozenset() for _ in parts)

    honest = survivors.summed_groups
    monkeypatch.setattr(survivors, "summed_groups", whole_or_nothing)
    federation = played(tmp_path, most=2)
    assert not federation.of(Closed) and federation.of(Failed)
