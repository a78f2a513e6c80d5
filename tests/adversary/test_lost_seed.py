"""A member that skips a round whose seed nobody fixed in 256 blocks, on a chain that still knows the block's hash.

A chain with EIP-2935 gives contracts the hashes of 8,191 blocks, so the seed is not lost, and the member has seen it
before it decides. It wants to choose among seeds, to have rounds fail and repeats used up, or to have the same updates
summed twice. What it gets: while anybody else acts within 256 blocks, nothing; else another round in place of one in
which nobody has drawn yet, which uses up no repeat and is of no sum. Who asks for the late seed first keeps the round.
"""

from collections.abc import Iterator

import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Failed, RoundOpened, SeedFixed, Skipped
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.roles.coordinator import Coordinator
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
MEMBERS, ROUNDS, ATTACKER = 4, 2, 1
KEPT = 256


@pytest.fixture
def federation(tmp_path) -> Iterator[Federation]:
    """No round may be repeated."""
    with embedded() as network:
        made = Federation.found(network, tmp_path, MEMBERS, ROUNDS, repeats=0, training=QUICK)
        made.register()
        yield made


def open_round(federation: Federation) -> tuple[RoundOpened, Coordinator]:
    """A round that the coordinator has opened, whose seed nobody has fixed."""
    coordinator = federation.coordinator()
    before = len(federation.of(RoundOpened))
    while len(federation.of(RoundOpened)) == before:
        coordinator.step()
        federation.network.mine(1)  # rounds that leave no model in a row are paused between
    return federation.of(RoundOpened)[-1], coordinator


def skips(federation: Federation, number: int) -> bool:
    """Whether the ledger lets the attacker skip a round."""
    try:
        federation.ledger(federation.keys[ATTACKER - 1]).skip(number)
    except ContractRevert:
        return False
    return True


def lose(federation: Federation, opened: RoundOpened) -> None:
    """All others are away until the attacker may skip; it tries in the last block in which it may not, too."""
    federation.network.advance_to(opened.seed_block + KEPT - 1)
    assert not skips(federation, opened.round)  # in block 256 behind the seed's
    assert skips(federation, opened.round)


def finished(federation: Federation) -> None:
    """All that is left is played, and the attacker tries to skip before each turn."""
    coordinator, clients = federation.coordinator(), federation.clients()
    for _ in range(1000):
        if not federation.turn(coordinator, clients):
            break
        current = coordinator.view.refresh()
        if current is not None and current.end is None:
            assert not skips(federation, current.number)


def sums(federation: Federation) -> list[int]:
    """Rounds in which anybody committed to an update."""
    return sorted({each.round for each in federation.of(Committed)})


def test_while_all_are_away_it_gets_other_rounds_and_neither_a_failure_nor_a_sum(federation):
    for number in (1, 2, 3):
        opened, _ = open_round(federation)
        assert opened.round == number
        lose(federation, opened)
    finished(federation)
    assert [each.round for each in federation.of(Skipped)] == [1, 2, 3] and not federation.of(Failed)
    assert len(federation.of(Closed)) == ROUNDS and sums(federation) == [4, 5]
    models = [each.model_digest for each in federation.of(RoundOpened) if each.round >= 4]
    assert len(set(models)) == ROUNDS  # each model is trained from once
    assert federation.audit().verdict == "verified"


@pytest.mark.parametrize(
    "waited", [1, KEPT, KEPT + 40], ids=["at once", "in the last block", "by the history contract"]
)
@pytest.mark.parametrize("who", [0, 2], ids=["the coordinator", "a member"])
def test_if_one_other_asks_for_the_seed_first_the_round_is_played(federation, who, waited):
    opened, _ = open_round(federation)
    federation.network.advance_to(opened.seed_block + waited - 1)
    keys = federation.keys[who - 1] if who else federation.coordinator_keys
    federation.ledger(keys).fix_seed(opened.round)
    federation.network.advance_to(opened.seed_block + 3 * KEPT)
    assert not skips(federation, opened.round)
    finished(federation)
    assert [each.round for each in federation.of(SeedFixed)] == [1, 2] == sums(federation)
    assert not federation.of(Skipped) and not federation.of(Failed) and len(federation.of(Closed)) == ROUNDS
    assert federation.audit().verdict == "verified"


def test_a_round_in_which_it_drew_itself_it_cannot_skip(federation):
    opened, _ = open_round(federation)
    federation.network.advance_to(opened.seed_block + KEPT)
    client = federation.client(ATTACKER)
    while client.step().acted != "drew":
        pass
    assert not skips(federation, opened.round)


@pytest.mark.mutants
def test_if_skipped_rounds_used_up_repeats_it_would_end_the_federation(federation, monkeypatch):
    opened, _ = open_round(federation)
    lose(federation, opened)
    counted = property(lambda rounds: sum(isinstance(each.end, Failed | Skipped) for each in rounds.rounds.values()))
    monkeypatch.setattr(Rounds, "failed", counted)
    finished(federation)
    assert not federation.of(Closed)
