"""Before the first round of ProCFL: everybody's overlaps, and the clusters that follow from them.

Private comparisons take minutes for a hundred clients, so what has been compared stands in ``comparisons.jsonl``: first
a line that names the clients, then a line per chunk. One that was cut off is dropped, and its pairs compared again.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Executor
from itertools import islice
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import Count, Table, convert, decode, parse_json
from fedgrove.node.methods.procfl.cover import MAX_OPTIMUM, best_cover, candidates, greedy_cover, total_cost
from fedgrove.node.methods.procfl.similarity import Intersection, Similarity, assemble, in_the_clear, pairs
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.scenario.clusters import SimulatedProCfl
from fedgrove.node.simulation.clustered.work import ComparisonTask, Sets
from fedgrove.node.simulation.loop import Progress
from fedgrove.node.simulation.workers import windowed

COMPARISONS = "comparisons.jsonl"
CLUSTERS = "clusters.json"
# Comparisons a task: half a second by Diffie–Hellman, some seconds by RSA.
CHUNK = 10
_Entry = tuple[Count, Count, Count, Count, Count]


class InitialClusters(Table, frozen=True, omit_defaults=False):
    """What is known before the first round.

    Attributes
    ----------
    overlaps : tuple of (tuple of int)
        Of clients 1, 2, … in order.
    members : tuple of Cluster
        Clients of each cluster, numbered from 1, ascending.
    cost : float
        Of the greedy cover.
    best_cost : float or None
        The least possible; None where there are more candidates than are tried out.
    attackers : tuple of int
        Who poisons the simulation; a federation would not know.
    """

    max_bytes: ClassVar[int] = 1 << 28
    overlaps: tuple[tuple[Count, ...], ...]
    members: tuple[Cluster, ...] = msgspec.field(name="clusters")
    cost: float
    best_cost: float | None
    attackers: Cluster = ()

    @property
    def ism(self) -> np.ndarray:
        """Similarities of all pairs: float64 array of shape (clients, clients)."""
        return Similarity(np.array(self.overlaps, np.int64)).ism


def read_clusters(directory: Path) -> InitialClusters:
    """What a run wrote down of its clusters.

    Raises
    ------
    InvalidContent
        The file is missing or damaged.
    """
    path = directory / CLUSTERS
    try:
        return decode(InitialClusters, path.read_bytes(), InitialClusters.max_bytes)
    except (OSError, InvalidContent) as fault:
        raise InvalidContent(f"{path} is missing or damaged ({fault}): start the run anew") from None


def find_clusters(similarity: Similarity, alpha: float, attackers: Cluster = ()) -> InitialClusters:
    """The greedy cover, and its cost compared with the best one's where that can be found."""
    found = candidates(similarity, alpha)
    cover = greedy_cover(found)
    best = float(total_cost(best_cover(found))) if len(found) <= MAX_OPTIMUM else None
    members = tuple(tuple(client + 1 for client in candidate.members) for candidate in cover)
    overlaps = tuple(map(tuple, similarity.overlaps.tolist()))
    return InitialClusters(overlaps, members, float(total_cost(cover)), best, attackers)


def compare_all(
    counts: np.ndarray,
    settings: SimulatedProCfl,
    executor: Executor,
    workers: int,
    directory: Path,
    progress: Progress | None = None,
) -> Similarity:
    """Everybody's overlaps, as the settings say they are found; goes on where an earlier call was stopped.

    Parameters
    ----------
    counts : int64 array of shape (clients, classes)
        Label counts.

    Raises
    ------
    InvalidContent
        The directory's comparisons are of other clients.
    """
    if settings.psi == "clear":
        return in_the_clear(counts)
    clients = len(counts)
    session = hashlib.sha256(f"fedgrove comparisons {settings.psi} {counts.tolist()}".encode()).digest()
    path = directory / COMPARISONS
    done = _known(path, session.hex())
    wanted = [pair for pair in pairs(clients) if pair not in done]
    sets = Sets(session, tuple(map(tuple, counts.tolist())), settings.psi)
    total = clients * (clients - 1) // 2
    with path.open("a") as file:
        for found in windowed(executor, _tasks(sets, wanted), 2 * workers):
            done.update(((each.left, each.right), each) for each in found)
            file.write(json.dumps([list(vars(each).values()) for each in found]) + "\n")
            file.flush()
            if progress is not None:
                progress(len(done), total)
    try:
        return assemble(clients, done.values())
    except InvalidContent as fault:
        raise InvalidContent(f"{path} is damaged ({fault}): remove it, and clients are compared again") from None


def _tasks(sets: Sets, wanted: list[tuple[int, int]]) -> Iterator[ComparisonTask]:
    left = iter(wanted)
    while chunk := tuple(islice(left, CHUNK)):
        yield ComparisonTask(sets, chunk)


def _known(path: Path, session: str) -> dict[tuple[int, int], Intersection]:
    """The comparisons of a file, which is begun or cut to its whole lines."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if not whole:
        path.write_text(json.dumps(session) + "\n")
        return {}
    if whole != content:
        path.write_bytes(whole)
    try:
        head, *chunks = map(parse_json, whole.splitlines())
        found = [Intersection(*entry) for chunk in chunks for entry in convert(list[_Entry], chunk)]
    except InvalidContent as fault:
        raise InvalidContent(f"{path} is damaged ({fault}): remove it, and clients are compared again") from None
    if head != session:
        raise InvalidContent(f"{path} is of other clients: give another directory")
    return {(each.left, each.right): each for each in found}
