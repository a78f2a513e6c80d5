"""Colluders who make honest members come to different results of the same round, at the same time.

A round in cells is closed with garbage. One colluder deals shares so that the secrets of its cell depend on the shares
of another, and that one's release reaches only some members, all at once. They come to the sum of all cells, the others
to that without the colluders' cell: both follow from what each has, and all say so in the same block, before anybody
sees what the others say. What most say takes the closing's place; if neither are most, the garbage stands, and nobody
who judged goes on. What stops them: a judgement can be taken back for one that another has said, and honest members all
go to the result with the fewest cells left out; what most said stands, also where a cell could have been recovered.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from types import SimpleNamespace

import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Drawn, Judged, Phase
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit import content
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.sealing import ENTRY_BYTES, SEALED_BYTES
from fedgrove.node.protocol import aggregation
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.concluding import Judge
from fedgrove.node.roles.client.contributing import Publish, PublishShares
from fedgrove.node.roles.client.role import Duty
from tests.adversary.test_spoilers import Shameless
from tests.adversary.withholding import Withholding
from tests.node.federation import Federation, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
MEMBERS, ROUNDS = 8, 2
HOLDER, DEALER = 1, 2
HONEST = range(3, MEMBERS + 1)
_HEADER = 40  # bytes of a blob of shares before its entries


class LateOnce(Publish):
    """Takes its first update away, so that the next rounds are summed in cells."""

    def act(self, turn):
        return None if turn.current.number == 1 else super().act(turn)


class DealsGarbageToSome(PublishShares):
    """Seals garbage for two honest holders: of five shares that its secrets then need, the colluder has one."""

    def act(self, turn):
        if turn.current.number != 2:
            return super().act(turn)
        blob = bytearray(self.context.disclosure.shares(turn.current, turn.client))
        graph, order = self.context.inputs(turn.current).graph, turn.current.order
        holders = graph.holders[order.index(turn.client)]
        for place in [place for place, holder in enumerate(holders) if order[holder] != HOLDER][:2]:
            start = _HEADER + place * ENTRY_BYTES
            blob[start : start + SEALED_BYTES] = bytes(SEALED_BYTES)
        self.context.ledger.share(turn.current.number, self.context.store.put(bytes(blob)).digest)
        return Step.act("share", "shared")


class Attack:
    """The attack on the first round in cells.

    ``early``: the withheld release is listed before the closing. ``last``: those who are ``served`` get it when the
    recover window is over, else when the round is closed.
    """

    def __init__(self, federation: Federation, served: Collection[int], early: bool, last: bool) -> None:
        self.federation, self.early, self.last = federation, early, last
        self.coordinator = federation.coordinator()
        self.stores = {number: Withholding(federation.directory / "store") for number in range(1, MEMBERS + 1)}
        for number in served:
            self.stores[number].comes = self._comes
        kinds = {
            HOLDER: with_phase(Client, Duty.PUBLISH, LateOnce),
            DEALER: with_phase(Shameless, Duty.SHARE, DealsGarbageToSome),
        }
        self.clients = {
            number: federation.client(number, kinds.get(number, Client), store=store)
            for number, store in self.stores.items()
        }
        self.judged: list[tuple[Client, tuple]] = []
        for client in self.clients.values():
            self._collects(client)

    @property
    def target(self) -> RoundRecords | None:
        self.coordinator.view.refresh()
        return self.coordinator.view.rounds.rounds.get(2)

    def run(self) -> RoundRecords:
        """Until nobody acts any more, or all rounds have closed; the attacked round."""
        standbys = [self.federation.standby(number) for number in (3, 4)]
        for _ in range(1500):
            current = self.target
            lied = current is not None and current.end is not None
            colludes = current is not None and len(current.commits) == MEMBERS and not self._is_away(current)
            if colludes and not self.stores[HOLDER].withheld and (self.early or lied):
                self._release(current)
            if colludes and not lied and len(current.releases) == MEMBERS - 1 + self.early:
                self._close(current)
            roles = [client for number, client in self.clients.items() if number != HOLDER or not colludes]
            steps = [role.step() for role in [*([] if lied else [self.coordinator]), *roles, *(standbys * lied)]]
            self._send()
            if all(self.clients[number].finished for number in HONEST):
                break
            if not any(step.acted for step in steps):
                block = self.federation.network.block_number()
                ends = [step.until for step in steps if block < step.until < block + 2000]
                if not ends:
                    break
                self.federation.network.advance_to(min(ends))
        return self.target

    def _comes(self) -> bool:
        current, settings = self.target, self.federation.deployment.settings
        ended = self.federation.network.block_number() >= current.deadlines(settings).recover_end
        return ended if self.last else current.end is not None

    def _is_away(self, current: RoundRecords) -> bool:
        return not all(self.federation.store.has(each.digest) for each in current.commits.values())

    def _collects(self, client: Client) -> None:
        """A client's judgements are sent when all have looked: what others say in a block nobody sees in time."""
        ledger = client.context.ledger
        judge = ledger.judge

        def collect(*said):
            self.judged.append((judge, said))
            return SimpleNamespace(gas_used=0)

        ledger.judge = collect

    def _send(self) -> None:
        for judge, said in self.judged:
            with suppress(ContractRevert):
                judge(*said)
        self.judged.clear()

    def _release(self, current: RoundRecords) -> None:
        federation = self.federation
        blob = self.clients[HOLDER].context.disclosure.released(current, HOLDER, [])
        for store in self.stores.values():
            store.withheld = federation.store.put(blob).digest
        federation.ledger(federation.keys[HOLDER - 1]).release(current.number, cid_of(blob).digest)

    def _close(self, current: RoundRecords) -> None:
        federation = self.federation
        committed = current.deadlines(federation.deployment.settings).commit_end
        record = federation.store.put(b"garbage" * 5).digest
        seed = (committed, federation.network.block_hash(committed).hex())
        metrics = federation.store.put(Metrics(current.number, record.hex(), seed).to_bytes()).digest
        federation.ledger(federation.coordinator_keys).close(current.number, current.opened.model_digest, metrics)


@pytest.fixture
def found(tmp_path):
    with embedded() as network:
        federation = Federation.found(network, tmp_path, MEMBERS, ROUNDS, repeats=20, training=QUICK)
        federation.register()
        yield federation


def results(current: RoundRecords) -> set[tuple[bytes, bytes]]:
    return {(each.model_digest, each.metrics_digest) for each in current.judgements(Phase.CLOSED).values()}


def changed(federation: Federation) -> set[int]:
    """Members that judged the attacked round twice."""
    said = Counter(each.client for each in federation.of(Judged) if each.round == 2 and each.asked is Phase.CLOSED)
    return {client for client, times in said.items() if times > 1}


EARLY = pytest.mark.parametrize("early", [True, False], ids=["listed before the closing", "listed after it"])
SERVED = pytest.mark.parametrize("served", [(3, 4, 5), (3,), (3, 4, 5, 6, 7)])


@EARLY
@SERVED
@pytest.mark.parametrize("last", [False, True], ids=["at once", "in the last block"])
def test_members_that_judge_in_one_block_with_other_shares_agree(found, served, early, last):
    current = Attack(found, served, early, last).run()
    assert current.replaced is not None and current.stands
    assert len(found.of(Closed)) == ROUNDS
    assert found.audit().verdict == "verified"
    assert {each.client for each in found.of(Drawn) if each.round == 4} >= {*HONEST}, "somebody trains no more"
    if last and served == (3, 4, 5):
        assert changed(found) >= {6, 7, 8} and len(results(current)) == 1


# --- what it costs: a closing by an honest coordinator ----------------------------------------------------------------


class AgainstTheCoordinator(Attack):
    """The coordinator is honest, and the release is listed in time: near the deadline it closes without that cell."""

    def run(self) -> RoundRecords:
        standbys = [self.federation.standby(number) for number in (3, 4)]
        store = Withholding(self.federation.directory / "store")
        self.coordinator = self.federation.coordinator(store=store)
        for _ in range(1500):
            current = self.target
            colludes = current is not None and len(current.commits) == MEMBERS and not self._is_away(current)
            if colludes and not store.withheld:
                self._release(current)
                store.withheld = self.stores[HOLDER].withheld
            roles = [client for number, client in self.clients.items() if number != HOLDER or not store.withheld]
            closed = current is not None and current.end is not None
            steps = [role.step() for role in (self.coordinator, *roles, *(standbys * closed))]
            self._send()
            if all(self.clients[number].finished for number in HONEST):
                break
            if not any(step.acted for step in steps):
                self.federation.network.mine(1)
        return self.target


def test_shares_that_come_after_an_honest_closing_replace_it_and_strike_the_coordinator(found):
    current = AgainstTheCoordinator(found, range(1, MEMBERS + 1), early=True, last=False).run()
    assert current.closing.at.author == found.coordinator_keys.address and current.replaced is not None
    assert found.ledger(found.keys[0]).is_struck(found.coordinator_keys.address)
    assert len(found.of(Closed)) == ROUNDS and found.audit().verdict == "verified"


def test_shares_that_come_after_the_next_closing_make_the_audit_name_the_round(found):
    current = AgainstTheCoordinator(found, (), early=True, last=False).run()
    assert current.replaced is None and len(found.of(Closed)) == ROUNDS
    bad = found.audit().first_bad_record
    assert (bad.round, bad.field) == (2, "recovery.left out")


# --- the attack wins where the guards are taken out -------------------------------------------------------------------


def nobody_takes_back(monkeypatch) -> None:
    """Who judged looks at no other result."""
    honestly = Judge._right

    def right(self, base, said):
        return honestly(self, base, None) if said is None else (0, said.model_digest, said.metrics_digest)

    monkeypatch.setattr(Judge, "_right", right)


@pytest.mark.mutants
@EARLY
def test_where_nobody_takes_back_what_it_said_they_are_split_for_good(found, monkeypatch, early):
    nobody_takes_back(monkeypatch)
    current = Attack(found, (3, 4, 5), early, last=True).run()
    assert len(results(current)) == 2 and current.replaced is None and len(found.of(Closed)) == 1


@pytest.mark.mutants
def test_where_a_majoritys_result_is_measured_by_late_shares_an_honest_history_is_bad(found, monkeypatch):
    honestly = aggregation.left_out_fault
    Attack(found, (3,), early=True, last=True).run()

    def strictly(inputs, record, end):
        return honestly(inputs, record, Closed(end.at, end.round, end.model_digest, end.metrics_digest))

    monkeypatch.setattr(content, "left_out_fault", strictly)
    assert found.audit().first_bad_record.field == "recovery.left out"
