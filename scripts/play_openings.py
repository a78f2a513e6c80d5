"""How much opened sums reveal of one member: ``python scripts/play_openings.py [--short] [--out FILE]``.

A federation is played on a made-up ledger with the product's own rules: which rounds are summed in cells, who is in
which, what is summed, and when it stands still (``node.protocol.cells``, ``openings``; ``node.masking``). Its members
train for real, a softmax regression on the digits, each on labels of its own (Dirichlet), from the model in force.

An attacker reads sums: colluders spoil rounds and read everything that is opened, without their own updates; a
passive one reads the public models and who committed. It estimates each member's own part, that is the mean of its
updates less the mean of all members', by least squares, with the ridge of five that serves it best. The figure is the
correlation of the estimate with the truth, over all parameters and members; the control gives each member another one's
estimate. Seeds are fixed; it takes minutes on a core, and seconds with --short.
"""

import argparse
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from eth_utils import to_checksum_address

from fedgrove.chain.records import Closed, Committed, Drawn, Failed, Position, Released, RoundOpened, Sealed, Shared
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.partition import dirichlet
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.masking.survivors import needed_secrets, summed_groups
from fedgrove.node.masking.x_only import point
from fedgrove.node.methods.terms import config_of
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.openings import Openings
from fedgrove.node.protocol.rounds import Member, RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove_lab.made import versions_of
from fedgrove_lab.tables import ABSENT, markdown

SIZES = (8, 20, 50, 64, 100)
ABSENCES = (0.02, 0.12)
LENGTHS = (30, 100)
SQUAD = 4
ALPHA, ALPHAS = 0.3, (0.3, 1.0, 10.0, 100.0)
"""Dirichlet's, of the labels: the smaller, the more members differ."""
_STEPS, _BATCH, _RATE = 10, 16, 0.5
_KNOT = 5  # rounds between two points through which the common part of the updates may bend
_RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
_MODEL, _KEY, _LEDGER = b"\x01" * 32, point((1).to_bytes(32))[1:], "0x" + 40 * "0"
_TABLES = {"model": {"name": "small-mlp", "input_shape": [1, 8, 8], "classes": 10}}


# --- the ledger, and its rules ----------------------------------------------------------------------------------------


@cache
def terms(n: int) -> FederationConfig:
    """The default terms of a federation of n named members."""
    config, _ = config_of({**_TABLES, "ledger": {"max_clients": 1000}})
    return config.with_members([_account(client) for client in range(1, n + 1)])


def _account(client: int) -> str:
    return to_checksum_address(client.to_bytes(20, "big"))


@dataclass
class _Openings(Openings):
    """The product's; what is past stays as it is, so that each round is asked for once."""

    known: dict[int, bool] = field(default_factory=dict)

    def was_opened(self, current: RoundRecords) -> bool:
        if current.number not in self.known:
            self.known[current.number] = super().was_opened(current)
        return self.known[current.number]


@dataclass(frozen=True)
class Held:
    """A round: the members of each sum that was opened, and those whose updates made the next model, if any did."""

    number: int
    opened: tuple[frozenset[int], ...]
    merged: frozenset[int]


class Play:
    """A federation of members 1 to n on a ledger that is made without a chain.

    Some are spoilers, who spoil every sum that they are in: it is opened, and nothing can be made of it.
    """

    def __init__(self, n: int, spoilers: Collection[int] = (), seed: int = 0) -> None:
        self.config, self.spoilers = terms(n), frozenset(spoilers)
        self.rounds = Rounds(self.config.ledger.quorum)
        for client in range(1, n + 1):
            self.rounds.members[client] = Member(client, _account(client), 0, 0, _KEY, 0, registered_at=1)
        self.cells, self.openings = Cells(self.rounds, self.config), _Openings(self.rounds, self.config)
        self._seeds, self._block = np.random.default_rng([seed, n]), 10

    @property
    def standstill(self) -> bool:
        """Whether nobody takes part in another round."""
        return bool(self.openings.refusal(len(self.rounds.rounds) + 1))

    @property
    def settled(self) -> bool:
        """Whether the last round closed in cells: they stay, and spoilers are no longer in each."""
        latest = self.rounds.latest
        return latest is not None and latest.apart and latest.stands

    def hold(self, present: Collection[int]) -> Held:
        """The next round, with these members."""
        current = self._open()
        at, number = self._at(), current.number
        for client in present:
            current.of(Drawn)[client] = Drawn(at, number, client, 1, _KEY, _KEY, bytes(81))
            current.of(Shared)[client] = Shared(at, number, client, bytes(32))
            current.of(Committed)[client] = Committed(at, number, client, bytes(32), bytes(32))
            current.of(Released)[client] = Released(at, number, client, bytes(32))
        current.once[Sealed] = Sealed(self._at(), number, len(present), self._seeds.bytes(32), bytes(32))
        current.order = tuple(map(int, self._seeds.permutation(sorted(present))))
        groups = self.cells.groups(current)
        graph = current.graph(0, _LEDGER, self.config.masking, groups, self.cells.crowd(current))
        everybody = current.positions(present)
        try:
            needed_secrets(graph, everybody, everybody)
            sums = [frozenset(map(graph.client, part)) for part in summed_groups(graph, everybody) if part]
        except MaskingRefused:
            sums = []
            current.of(Released).clear()
        merged = frozenset[int]().union(*(each for each in sums if not each & self.spoilers))
        current.end = (
            Closed(self._at(), number, number.to_bytes(32, "big"), _MODEL) if merged else Failed(self._at(), number)
        )
        return Held(number, tuple(sums), merged)

    def _open(self) -> RoundRecords:
        model = self.rounds.model_digest if self.rounds.rounds else _MODEL
        at, number = self._at(), len(self.rounds.rounds) + 1
        self.rounds.add(RoundOpened(at, number, model, bytes(32), 1_000_000, at.block, at.block + 1, ()))
        return self.rounds.last

    def _at(self) -> Position:
        self._block += 1
        return Position(self._block, self._block.to_bytes(32, "big"), 0, "")


# --- members that learn -----------------------------------------------------------------------------------------------


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    samples = load_dataset("digits").train()
    flat = samples.x.reshape(len(samples), -1)
    return np.hstack([flat, np.ones((len(flat), 1), np.float32)]), samples.y


class Learners:
    """n members, each with images of its own, whose labels are drawn with ``alpha``."""

    def __init__(self, n: int, seed: int, alpha: float = ALPHA) -> None:
        x, y = _digits()
        self._rng = np.random.default_rng([seed, n, 1])
        self._parts = dirichlet(y, n, alpha, self._rng)
        self._x, self._hot = x, np.eye(10, dtype=np.float32)[y]

    def updates(self, model: np.ndarray) -> np.ndarray:
        """Every member's change of the model (65, 10) by minibatches of its own: (n, 650)."""
        weights = np.repeat(model[None], len(self._parts), axis=0)
        for _ in range(_STEPS):
            drawn = np.stack([part[self._rng.integers(len(part), size=_BATCH)] for part in self._parts])
            x = self._x[drawn]
            scores = x @ weights
            odds = np.exp(scores - scores.max(axis=2, keepdims=True))
            error = odds / odds.sum(axis=2, keepdims=True) - self._hot[drawn]
            weights -= _RATE / _BATCH * x.transpose(0, 2, 1) @ error
        return (weights - model).reshape(len(self._parts), -1)


# --- an attacker ------------------------------------------------------------------------------------------------------


@dataclass
class Read:
    """What an attacker read of honest members: who was in each sum, in which round, and the mean of their updates."""

    honest: Sequence[int]
    members: list[np.ndarray] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    means: list[np.ndarray] = field(default_factory=list)

    def add(self, time: int, members: Collection[int], updates: np.ndarray) -> None:
        """A sum of whose members it knows all but the honest ones' updates."""
        own = np.array([client in members for client in self.honest], float)
        if own.any():
            self.members.append(own / own.sum())
            self.times.append(time)
            self.means.append(own @ updates / own.sum())

    @property
    def rank(self) -> int:
        """Of all sets that were opened."""
        return int(np.linalg.matrix_rank(np.array(self.members))) if self.members else 0

    def own_parts(self, ridge: float) -> np.ndarray:
        """Estimates of all own parts by least squares, together with a common part that bends every few rounds."""
        who, at = np.array(self.members), np.array(self.times)
        weight = 1 / np.sqrt((who**2).sum(axis=1))[:, None]  # a mean of many varies less
        knots = np.arange(at.min(), at.max() + _KNOT, _KNOT)
        common = np.maximum(0, 1 - np.abs(at[:, None] - knots) / _KNOT)
        design = weight * np.hstack([who, common])
        penalty = np.diag([ridge] * who.shape[1] + [1e-6] * len(knots))
        found = np.linalg.solve(design.T @ design + penalty, design.T @ (weight * np.array(self.means)))
        return _own(found[: who.shape[1]])


def _own(updates: np.ndarray) -> np.ndarray:
    return updates - updates.mean(axis=0)


def correlation(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean over members of the correlation of two vectors of each; 0 where nothing was found."""
    found, truth = (each - each.mean(axis=1, keepdims=True) for each in (found, truth))
    scale = np.linalg.norm(found, axis=1) * np.linalg.norm(truth, axis=1)
    return float(np.mean((found * truth).sum(axis=1) / np.where(scale > 1e-9, scale, np.inf)))


@dataclass(frozen=True)
class Leak:
    """What was found out in one federation: the correlation, that of the control, rounds, rank, updates not summed."""

    own: float
    control: float
    rounds: int
    rank: int
    lost: float = 0.0


def _leak(read: Read, truth: np.ndarray, rounds: int, lost: float = 0.0) -> Leak:
    if not read.members:
        return Leak(0.0, 0.0, rounds, 0, lost)
    found = max((read.own_parts(ridge) for ridge in _RIDGES), key=lambda each: correlation(each, truth))
    control = correlation(np.roll(found, 1, axis=0), truth)
    return Leak(correlation(found, truth), control, rounds, read.rank, lost)


def spoilt(n: int, spoilers: int, rounds: int, seed: int, absence: float = 0.0) -> Leak:
    """Spoilers and the coordinator read everything that is opened, for some rounds or until nobody takes part."""
    rng = np.random.default_rng([seed, n, spoilers])
    bad = frozenset(map(int, rng.choice(n, spoilers, replace=False) + 1))
    play, learners = Play(n, bad, seed), Learners(n, seed)
    honest = [client for client in range(1, n + 1) if client not in bad]
    model, read, truth = np.zeros((65, 10), np.float32), Read(honest), []
    while len(truth) < rounds and not play.standstill:
        present = [client for client in range(1, n + 1) if client in bad or rng.random() >= absence]
        if len(present) < play.config.ledger.quorum:
            continue
        held, updates = play.hold(present), learners.updates(model)
        own = updates[np.array(honest) - 1]
        for members in held.opened:
            read.add(held.number, members, own)
        truth.append(own)
        if held.merged:
            model = model + updates[np.array(sorted(held.merged)) - 1].mean(axis=0).reshape(model.shape)
    return _leak(read, _own(np.mean(truth, axis=0)), len(truth))


def passive(n: int, absence: float, rounds: int, seed: int, *, alpha: float = ALPHA, squad: int = 1) -> Leak:
    """Nobody cheats; an onlooker has the models and knows who committed.

    With squads, members are cut once into groups of this many, and a member is summed only if all of its squad commit,
    and only where those are enough by the rules.
    """
    rng = np.random.default_rng([seed, n, round(absence * 1000)])
    play, learners = Play(n, seed=seed), Learners(n, seed, alpha)
    squads = np.array_split(rng.permutation(n) + 1, n // squad)
    model, read, truth = np.zeros((65, 10), np.float32), Read(range(1, n + 1)), []
    committed = summed = 0
    while len(truth) < rounds:
        present = {client for client in range(1, n + 1) if rng.random() >= absence}
        if len(present) < play.config.ledger.quorum:
            continue  # the round waits for them
        updates, members = learners.updates(model), play.hold(present).merged
        truth.append(updates)
        committed += len(present)
        if squad > 1:
            members = frozenset(int(client) for each in squads if members.issuperset(each) for client in each)
            least = Group.of(range(len(present)), play.cells.crowd(play.rounds.last)).quota
            members = members if len(members) >= least else frozenset()
        if members:
            summed += len(members)
            read.add(len(truth), members, updates)
            model = model + updates[np.array(sorted(members)) - 1].mean(axis=0).reshape(model.shape)
    return _leak(read, _own(np.mean(truth, axis=0)), rounds, 1 - summed / committed)


def stands_still(n: int, spoilers: int, seed: int) -> bool:
    """Whether spoilers without a plan end up in each cell of every partition that there may be."""
    rng = np.random.default_rng([seed, n, spoilers])
    play = Play(n, map(int, rng.choice(n, spoilers, replace=False) + 1), seed)
    while not play.standstill:
        play.hold(range(1, n + 1))
        if play.settled:
            return False
    return True


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How much is played: sizes, seeds of federations and of standstills, and rounds at most."""

    sizes: Sequence[int]
    seeds: int
    standstills: int
    lengths: Sequence[int]


FULL = Scale(SIZES, 8, 200, LENGTHS)
SHORT = Scale((8, 20), 3, 20, (30,))


def _figure(values: Sequence[float]) -> str:
    """Mean and 95 % interval over seeds."""
    half = 1.96 * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{mean(values):.2f} ± {half:.2f}"


def _share(hits: int, count: int) -> str:
    """A share with Wilson's 95 % interval."""
    z, seen = 1.96, hits / count
    middle, half = seen + z * z / (2 * count), z * math.sqrt(seen * (1 - seen) / count + (z / (2 * count)) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / count) for sign in (-1, 1))
    return f"{seen:.2f} ({max(0.0, low):.2f} to {high:.2f})"


def cut(scale: Scale) -> Iterator[list[str]]:
    """How the default terms cut members."""
    for n in scale.sizes:
        play = Play(n)
        assumed = play.config.masking.assumed.colluders_of(n)
        play.spoilers = frozenset(range(1, n + 1))
        for _ in range(2):
            play.hold(range(1, n + 1))
        partition = play.cells.partition(2)
        sizes = sorted(map(len, partition.cells)) if partition else []
        fewest = play.cells.crowd(play.rounds.last)
        cells = f"{len(sizes)} of {' and '.join(map(str, sorted(set(sizes))))}" if sizes else ABSENT
        most = play.openings.most_partitions(2)
        yield [f"{n}", f"{assumed}", f"{play.config.ledger.quorum}", f"{fewest}", cells, f"{most}"]


def spoilers_read(scale: Scale) -> Iterator[list[str]]:
    """The most colluders that are assumed, until the standstill; then one, two, five of them over many rounds."""
    rounds = max(scale.lengths)
    for n in scale.sizes:
        most = terms(n).masking.assumed.colluders_of(n)
        for spoilers in sorted({1, 2, 5, most}):
            if spoilers > most:
                continue
            leaks = [spoilt(n, spoilers, rounds, seed) for seed in range(scale.seeds)]
            away = [spoilt(n, spoilers, rounds, seed, max(ABSENCES)) for seed in range(scale.seeds)]
            yield [
                f"{n}",
                f"{spoilers}",
                f"{mean(each.rounds for each in leaks):.0f}",
                f"{max(each.rank for each in leaks)}",
                _figure([each.own for each in leaks]),
                _figure([each.control for each in leaks]),
                _figure([each.own for each in away]),
            ]


def standstills(scale: Scale) -> Iterator[list[str]]:
    """How often two and five spoilers bring a federation to a standstill."""
    for n in scale.sizes:
        row = [f"{n}"]
        for spoilers in (2, 5):
            hits = sum(stands_still(n, spoilers, seed) for seed in range(scale.standstills))
            row.append(_share(hits, scale.standstills))
        yield row


def onlookers_read(scale: Scale) -> Iterator[list[str]]:
    """Honest members only, by their number, absence and rounds; and with squads."""
    for n in scale.sizes:
        for absence in ABSENCES:
            for rounds in scale.lengths:
                leaks = [passive(n, absence, rounds, seed) for seed in range(scale.seeds)]
                squads = [passive(n, absence, rounds, seed, squad=SQUAD) for seed in range(scale.seeds)]
                yield [
                    f"{n}",
                    f"{absence:.0%}",
                    f"{rounds}",
                    _figure([each.own for each in leaks]),
                    _figure([each.control for each in leaks]),
                    _figure([each.own for each in squads]),
                    f"{mean(each.lost for each in squads):.0%}",
                ]


def alike(scale: Scale) -> Iterator[list[str]]:
    """The same with members whose data differ more or less."""
    n, absence, rounds = min(scale.sizes), max(ABSENCES), max(scale.lengths)
    for alpha in ALPHAS:
        leaks = [passive(n, absence, rounds, seed, alpha=alpha) for seed in range(scale.seeds)]
        yield [f"{alpha:g}", _figure([each.own for each in leaks]), _figure([each.control for each in leaks])]


Table = tuple[str, Callable[[Scale], Iterator[list[str]]], list[str]]
"""What it shows, what makes its rows, and its head."""
TABLES: dict[str, Table] = {
    "How members are cut": (
        """By the default terms: colluders that they assume, quorum, the fewest that are summed together, and the cells
after a round that was spoilt. A federation cuts as many partitions in its life, each with fresh cells.""",
        cut,
        ["members", "colluders assumed", "quorum", "fewest summed", "cells", "partitions"],
    ),
    "Read by colluders who spoil": (
        """Spoilers and the coordinator read every sum that is opened and know their own updates. A round that nobody
can close leaves the model as it is; a cell without a spoiler closes it, and the model moves. They go on for the most
rounds of the other tables, or until nobody takes part any more. The last row of each size has as many spoilers as the
terms assume: unless they share a cell, as two of 8 may, the model hardly moves until the standstill, which comes after
eight rounds at the latest, as all together are opened at most twice from one model. "Rank" is that of all sets that
were opened, the most over the seeds.
In the last column honest members are absent by chance, too, so that the sets differ by themselves.""",
        spoilers_read,
        ["members", "spoilers", "rounds", "rank", "own part", "control", "own part, 12% absent"],
    ),
    "Standstill": (
        """How often spoilers who are cut into cells like everybody else are in each cell of every partition, so that
the federation stands still until people act.""",
        standstills,
        ["members", "two spoilers", "five spoilers"],
    ),
    "Read by an onlooker": (
        """Nobody cheats: members are absent by chance, each round anew, and an onlooker has nothing but the public
models and the lists of who committed. "Squads" is not built: members would be cut once into groups of four and summed
only if all of a group commit; "lost" are the updates that would not be summed. They limit what is read to the sum of a
group, at the price of a third of all updates where absences are frequent; where they are rare, and members many, they
make sums easier to tell apart.""",
        onlookers_read,
        ["members", "absent", "rounds", "own part", "control", "own part, squads", "lost, squads"],
    ),
    "Read by an onlooker, by how members differ": (
        """The fewest members, most often absent, over the most rounds; Dirichlet's α of their labels. Members whose
data are alike have little of their own in their updates.""",
        alike,
        ["α", "own part", "control"],
    ),
}


def page(scale: Scale, title: str, made: str) -> str:
    """All tables, in Markdown."""
    text = __doc__.split("\n\n", 1)[1].strip().replace("``", "`")
    parts = [f"# {title}", f"{text}\n\n{made}"]
    for name, (shows, make, head) in TABLES.items():
        parts.append(f"## {name}\n{shows}\n\n{markdown(head, list(make(scale)), words=0).strip()}")
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--short", action="store_true", help="few members, seeds and rounds: seconds instead of minutes"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results/openings.md"), help="the page to write")
    options = parser.parse_args(arguments)
    command = " ".join(["python scripts/play_openings.py", *(["--short"] if options.short else [])])
    scale = SHORT if options.short else FULL
    made = f"Written by `{command}`, {versions_of('numpy')}.\n"
    made += f"Figures are means over {scale.seeds} federations with 95 % intervals."
    options.out.write_text(page(scale, "How much opened sums reveal of one member", made))


if __name__ == "__main__":
    main()
