"""A member that keeps others from being forgotten, in a federation that does K-means.

It moves the count of a bin that the state shows, so that whoever takes back points of that bin takes more than are
there; or it spoils every sum that it is in. Masks hide who it is, and nobody is named.

What stops it: no sum builds on an earlier one, so there is nothing to move; and after a sum that could not be decoded
members are summed in groups, of which a spoiler keeps only its own out of the state. Those in it are honest, and are
counted when the lot puts them beside somebody else.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed
from fedgrove.common.errors import InvalidContent
from fedgrove.node.methods.kmeans.client_work import LocalClustering
from fedgrove.node.methods.kmeans.code import MAX_LIMIT, Code
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.exchange import Exchange
from fedgrove.node.methods.kmeans.round_inputs import exchange_of, groups_of
from fedgrove.node.methods.kmeans.server import cluster
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings
from tests.node.devnet.kmeans_members import TERMS, Federation, keep_seedings

VICTIM = 2
ATTACKER = 1


def is_forgotten(one: Federation, since: int) -> bool:
    """Whether the model in force was made without the victim's points of before a block."""
    state = one.state()
    return VICTIM not in state.clients or one.rounds().rounds[state.round].opened.opened_at >= since


# --- moving counts ----------------------------------------------------------------------------------------------------


def moving_a_count(directory: Path, rounds: int, moves: bool = True) -> tuple[bool, bool]:
    """The attacker takes back a point, moves the victim's counts to a corner, and the victim asks.

    Whether it was forgotten, and whether a round failed.
    """
    with embedded() as network:
        one = Federation.found(network, directory, clients=4)
        one.register()
        one.run()

        def move(vector: BinCounts, current) -> BinCounts:
            if current.number != 2 or not moves:
                return vector
            seen = one.sent[VICTIM, 1]  # as a state shows it: which bin it takes does not matter
            elsewhere = BinCounts.of(np.full((1, 2), 20), np.array([seen.total]))
            return vector - seen + elsewhere

        one.lies[ATTACKER] = move
        one.ask(ATTACKER, [0])
        one.hold()
        one.ask(VICTIM, list(range(19)))
        asked = network.block_number()
        for _ in range(rounds):
            one.hold()
            if is_forgotten(one, asked):
                break
        return is_forgotten(one, asked), bool(one.failures())


def sum_differences(patched) -> None:
    """The mutant: who took something back sends what its vector has gained and lost, as in the first version."""
    keep_seedings(patched)
    draw, sent = LocalClustering.result, {}

    def difference(self, current, client):
        vector = sent[client, current.number] = draw(self, current, client)
        summed = exchange_of(self.inputs(current)).before.round
        return vector - sent[client, summed] if summed else vector

    def finish(self, number, survivors, decoded, rng):
        counts = self.before.counts + decoded[0]
        if (counts.counts < 0).any():
            raise InvalidContent("more points were taken from a bin than it had")
        model = cluster(counts, self.settings.grid, self.settings.k, rng, restarts=2)
        return KMeansState(counts, tuple(sorted(survivors)), model.centres, number, number)

    patched.setattr(LocalClustering, "result", difference)
    patched.setattr(Exchange, "finish", finish)
    patched.setattr(
        "fedgrove.node.methods.kmeans.exchange.Code", lambda grid, *_: Code(grid, 99, MAX_LIMIT, signed=True)
    )


def test_a_count_that_was_moved_blocks_nobody(tmp_path):
    assert moving_a_count(tmp_path, rounds=2)[0]


@pytest.mark.mutants
def test_it_would_if_differences_were_summed(tmp_path, monkeypatch):
    sum_differences(monkeypatch)
    assert moving_a_count(tmp_path / "nobody moves", rounds=1, moves=False) == (True, False)
    assert moving_a_count(tmp_path / "moved", rounds=5) == (False, True)


# --- spoiling every sum -----------------------------------------------------------------------------------------------

MEMBERS = 8
GROUPED = replace(TERMS, smallest_group=4, retry_blocks=3)


@dataclass
class Spoilt:
    """What came of rounds in which the attacker spoilt every sum."""

    ends: list[Closed | Failed]
    counted: list[tuple[int, ...]]
    forgotten: bool
    verdict: str


def spoiling_every_sum(directory: Path, rounds: int) -> Spoilt:
    """The victim asks first, and then, before each round, one of those that the state counts."""
    with embedded() as network:
        one = Federation.found(network, directory, GROUPED, MEMBERS)
        one.register()
        one.run()
        one.lies[ATTACKER] = lambda vector, current: lambda code: np.arange(code.length, dtype=np.uint64)
        ends, counted = [], []
        one.ask(VICTIM, [0])
        asked = network.block_number()
        for number in range(1, rounds + 1):
            ends.append(one.hold().end)
            counted.append(one.state().clients)
            if {*range(2, MEMBERS + 1)} <= {client for clients in counted[1:] for client in clients}:
                break
            one.ask(counted[-1][number % len(counted[-1])], [number])
        return Spoilt(ends, counted, is_forgotten(one, asked), one.audit().verdict)


def test_a_spoiler_keeps_only_its_own_group_out_of_the_state(tmp_path):
    """All honest members are counted in some round."""
    found = spoiling_every_sum(tmp_path, rounds=25)
    assert isinstance(found.ends[0], Failed)
    assert all(isinstance(end, Closed) for end in found.ends[1:]) and len(found.ends) < 25
    assert all(len(clients) == MEMBERS // 2 and ATTACKER not in clients for clients in found.counted[1:])
    assert found.forgotten and found.verdict == "verified"


@pytest.mark.mutants
def test_it_would_block_everybody_if_there_were_no_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.methods.kmeans.method.groups_of", lambda *_: ())
    found = spoiling_every_sum(tmp_path, rounds=4)
    assert all(isinstance(end, Failed) for end in found.ends) and not found.forgotten
    assert all(ATTACKER in clients for clients in found.counted)  # the model of before stands


def test_groups_are_never_smaller_than_the_terms_allow(tmp_path):
    """However often the attacker spoils: it would learn more from the sums of smaller ones."""
    with embedded() as network:
        one = Federation.found(network, tmp_path, replace(GROUPED, smallest_group=5), MEMBERS)
        one.register()
        one.lies[ATTACKER] = lambda vector, current: -vector
        for _ in range(4):
            one.hold()
        assert len(one.failures()) == 4 and not one.rounds().base


@pytest.mark.parametrize("failures", [1, 2, 3, 30])
def test_groups_are_halved_after_each_failure(failures):
    """Positions of one round's order, as everybody computes them."""
    spoilt = {n: SimpleNamespace(number=n, is_spoilt=lambda quorum: True) for n in range(1, failures + 1)}
    rounds = SimpleNamespace(rounds=spoilt, quorum=3)
    order = tuple(range(1, 42))
    opened = SimpleNamespace(opened_at=9)
    known = {"known": order, "registered": len(order)}
    current = SimpleNamespace(number=failures + 1, order=order, draws_all=True, opened=opened, **known)
    terms = FederationConfig(replace(TERMS, smallest_group=5), masking=MaskingSettings(colluders=0.05))
    groups = groups_of(rounds, current, KMeansState.empty(2), terms)
    assert len(groups) == min(2**failures, 8)
    assert sorted(place for group in groups for place in group.positions) == list(range(41))
    sizes = [len(group.positions) for group in groups]
    assert min(sizes) >= 5 and max(sizes) - min(sizes) <= 1
