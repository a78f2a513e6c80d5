"""A coordinator that closes a round with garbage while shares are still being released.

It may close as soon as the fewest that the ledger asks for have released. It wants the round lost, as nobody can
recompute its sum from so few shares; or, with a member that keeps its own release back until some have judged, members
that judge differently, so that no majority replaces the garbage, or voids it, and the federation ends. What stops them:
members release their shares behind a wrong closing until the end of the recover window, and until then nobody says that
there is no result; so all see the same shares when they judge, and put the right result in the place of the garbage.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Phase
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.parameters import sharing
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.concluding import NOTHING, Judge
from tests.adversary.withholding import Withholding
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
ROUNDS, LIAR = 2, 1
Moment = Callable[[RoundRecords], bool]


@pytest.fixture
def found(tmp_path):
    with embedded() as network:

        def make(clients: int) -> Federation:
            made = Federation.found(network, tmp_path, clients, ROUNDS, repeats=6, training=QUICK)
            made.register()
            return made

        yield make


@dataclass
class Attack:
    """A coordinator that closes round 1 with garbage at some moment; members stand by for it afterwards.

    ``kept_back``: whether the first member, its colluder, lists its release only when ``comes`` says so.
    """

    federation: Federation
    closes: Moment
    comes: Moment | None = None
    _release: bytes = b""

    def run(self) -> RoundRecords:
        """To the end, or until nobody acts any more; round 1."""
        federation = self.federation
        clients, standbys = federation.clients(), [federation.standby(number) for number in (2, 3)]
        coordinator = federation.coordinator()
        for _ in range(1500):
            steps = self._turn(coordinator, clients, standbys)
            if all(client.finished for number, client in clients.items() if number != LIAR):
                break
            if not any(step.acted for step in steps):
                block = federation.network.block_number()
                ends = [step.until for step in steps if block < step.until < block + 2000]
                if not ends:
                    break  # nobody ever acts again
                federation.network.advance_to(min(ends))
        coordinator.view.refresh()
        return coordinator.view.rounds.rounds[1]

    def _turn(self, coordinator, clients, standbys) -> list[Step]:
        steps: list[Step] = []
        for number, role in [(0, coordinator), *clients.items()]:
            current = coordinator.view.refresh()
            first = coordinator.view.rounds.rounds.get(1)
            if first is not None and first.end is None and self.closes(first):
                self._close(first, clients[LIAR])
            lied = first is not None and first.end is not None
            if lied and self.comes is not None and self._release and self.comes(first):
                digest = self.federation.store.put(self._release).digest
                self.federation.ledger(self.federation.keys[LIAR - 1]).release(1, digest)
                self._release = b""
            if number == 0 and lied:
                continue
            if number == LIAR and self.comes is not None and current is not None and self._is_over(current):
                continue
            steps.append(role.step())
        return steps + ([standby.step() for standby in standbys] if lied else [])

    def _is_over(self, current: RoundRecords) -> bool:
        """Whether the colluder's update is there, so that all else that it does is what helps it."""
        commit = current.commits.get(LIAR)
        return current.number > 1 or (commit is not None and self.federation.store.has(commit.digest))

    def _close(self, current: RoundRecords, colluder: Client) -> None:
        federation = self.federation
        committed = current.deadlines(federation.deployment.settings).commit_end
        if self.comes is not None:
            self._release = colluder.context.disclosure.released(current, LIAR, [])
        record = federation.store.put(b"garbage" * 5).digest
        seed = (committed, federation.network.block_hash(committed).hex())
        metrics = federation.store.put(Metrics(current.number, record.hex(), seed).to_bytes()).digest
        federation.ledger(federation.coordinator_keys).close(current.number, current.opened.model_digest, metrics)


def at_once(federation: Federation) -> Moment:
    return lambda current: len(current.releases) >= federation.config.ledger.releases


def while_one_is_missing(federation: Federation) -> Moment:
    """When all others' shares are one too few; they can then not release behind the closing to make them enough."""
    threshold = sharing(len(federation.keys), federation.config.masking.assumed).threshold
    return lambda current: len(current.releases) >= threshold and LIAR not in current.releases


def when_some_have_judged(federation: Federation) -> Moment:
    few = (len(federation.keys) - 1) // 2
    return lambda current: len(current.judgements(Phase.CLOSED)) >= few


def is_mended(federation: Federation, current: RoundRecords) -> bool:
    """Whether the right result stands in the place of the garbage, and training went on to its end from there."""
    return current.replaced is not None and current.stands and len(federation.of(Closed)) == ROUNDS


@pytest.mark.parametrize("clients", [4, 8])
def test_a_round_that_is_closed_with_garbage_at_once_keeps_its_sum(found, clients):
    federation = found(clients)
    current = Attack(federation, at_once(federation)).run()
    assert is_mended(federation, current)
    assert len(current.releases) > federation.config.ledger.releases
    assert federation.audit().verdict == "verified"


def test_members_that_look_at_different_moments_judge_the_same(found):
    federation = found(8)
    current = Attack(federation, while_one_is_missing(federation), when_some_have_judged(federation)).run()
    assert is_mended(federation, current)
    assert not any(current.overruled(client) for client in current.judgements(Phase.CLOSED))
    assert federation.audit().verdict == "verified"


# --- a release that is listed in time, and whose bytes come when some have judged, or only to some --------------------


def withhold_a_release(federation: Federation, served: Collection[int]) -> RoundRecords:
    """Round 1, in which all but two honest members and the colluder release; both are away until nobody acts any more.

    The colluder's shares are needed. They come to ``served`` behind the recover window and to nobody else, or where
    that is empty to all when three have judged. Who was away comes back in the end.
    """
    coordinator, settings = federation.coordinator(), federation.deployment.settings

    def first() -> RoundRecords:
        coordinator.view.refresh()
        return coordinator.view.rounds.rounds[1]

    def behind() -> bool:
        return federation.network.block_number() >= first().deadlines(settings).recover_end

    def judged() -> bool:
        return len(first().judgements(Phase.CLOSED)) >= 3

    stores = {number: Withholding(federation.directory / "store") for number in range(1, len(federation.keys) + 1)}
    for number, store in stores.items():
        store.comes = behind if number in served else judged if not served else store.comes
    clients = {number: federation.client(number, store=store) for number, store in stores.items()}
    attack, away, back = Attack(federation, lambda current: False, lambda current: False), (7, 8), False
    for _ in range(1000):
        coordinator.view.refresh()
        current = coordinator.view.rounds.rounds.get(1)
        there = current is not None and len(current.commits) == len(clients)
        there = there and all(federation.store.has(each.digest) for each in current.commits.values())
        if there and not attack._release and len(current.releases) >= federation.config.ledger.releases:
            attack._close(current, clients[LIAR])
            digest = federation.store.put(attack._release).digest
            federation.ledger(federation.keys[LIAR - 1]).release(1, digest)
            for store in stores.values():
                store.withheld = digest
        gone = (LIAR, *away) if there and not back else (LIAR,) if there else ()
        roles = [client for number, client in clients.items() if number not in gone]
        steps = [role.step() for role in ([] if attack._release else [coordinator]) + roles]
        if not any(step.acted for step in steps):
            block = federation.network.block_number()
            ends = [step.until for step in steps if block < step.until < block + 2000]
            if not ends and back:
                break
            back = back or not ends
            federation.network.advance_to(min(ends, default=block + 1))
        if current is not None and len(current.judgements(Phase.CLOSED)) >= len(clients) - 1:
            break
    return first()


WITHHELD = pytest.mark.parametrize("served", [(), (2, 3, 7), (4, 5, 6)])


@WITHHELD
def test_a_release_whose_bytes_come_late_or_to_some_splits_nobody(found, served):
    current = withhold_a_release(found(8), served)
    said = {(each.model_digest, each.metrics_digest) for each in current.judgements(Phase.CLOSED).values()}
    assert len(said) == 1 and (current.replaced is not None or not current.stands)


@pytest.mark.mutants
@WITHHELD
def test_such_a_release_splits_members_who_rely_on_themselves(found, monkeypatch, served):
    monkeypatch.setattr(Judge, "_rank", lambda self, base, judged: None)
    current = withhold_a_release(found(8), served)
    assert current.stands and current.replaced is None


# --- the attacks win where the guards are taken out -------------------------------------------------------------------


def destroys_what_is_closed(monkeypatch) -> None:
    """Shares are gone when a round is closed."""
    monkeypatch.setattr(
        Client,
        "_last_summed",
        lambda self, current, client: current.number - 1 if current.end is None else current.number,
    )


def judges_at_once(monkeypatch) -> None:
    """Whoever sees no result says so, and releases no shares behind a closing."""

    def act(self, turn):
        base = self.context.view.rounds.base
        if base is None or turn.client in base.judgements(Phase.CLOSED) or not self._fault(turn, base):
            return honestly(self, turn)
        right = self.context.closings.right_result(base)
        digests = (NOTHING, NOTHING)
        if right is not None:
            self.context.store.put(right.record)
            digests = (self.context.store.put(right.model).digest, self.context.store.put(right.metrics).digest)
        self.context.ledger.judge(base.number, Phase.CLOSED, *digests)
        return Step.act("judge", "judged at once")

    honestly = Judge.act
    monkeypatch.setattr(Judge, "act", act)


@pytest.mark.mutants
def test_nobody_can_release_behind_a_closing_that_destroys_shares(found, monkeypatch):
    destroys_what_is_closed(monkeypatch)
    federation = found(4)
    with pytest.raises(AttributeError, match="no note of round 1"):
        Attack(federation, at_once(federation)).run()


@pytest.mark.mutants
def test_a_round_is_lost_where_nobody_releases_behind_its_closing(found, monkeypatch):
    judges_at_once(monkeypatch)
    federation = found(4)
    current = Attack(federation, at_once(federation)).run()
    assert not current.stands and current.replaced is None


@pytest.mark.mutants
def test_members_that_judge_at_once_are_split_for_good(found, monkeypatch):
    judges_at_once(monkeypatch)
    monkeypatch.setattr(Judge, "_rank", lambda self, base, judged: None)
    federation = found(8)
    current = Attack(federation, while_one_is_missing(federation), when_some_have_judged(federation)).run()
    said = {(each.model_digest, each.metrics_digest) for each in current.judgements(Phase.CLOSED).values()}
    assert len(said) == 2 and (NOTHING, NOTHING) in said
    assert current.stands and current.replaced is None and len(federation.of(Closed)) == 1
