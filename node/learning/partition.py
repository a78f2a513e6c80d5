"""Dealing a dataset to clients: Dirichlet over labels, label shards, groups with main labels, IID.

Every split is a tuple of sorted index arrays (int64), one a client: none empty, together each sample once, or this many
times as there are copies of the data.
"""

from itertools import chain

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import PartitionSettings
from fedgrove.node.learning.shared import draw_shared

Partition = tuple[np.ndarray, ...]


def deal(
    training: Samples, clients: int, settings: PartitionSettings, shared_per_class: int, seed: int
) -> tuple[Partition, Samples | None]:
    """Deal training samples to clients; d_share is given by volunteers out of the same samples.

    Returns
    -------
    Partition, Samples or None
        Indices of each client's samples; ``shared_per_class`` samples of every class, None for 0.

    Raises
    ------
    InvalidInput
        Too few samples, or shards that cannot be split.
    """
    parts = partition(training.y, clients, settings, seed)
    if not shared_per_class:
        return parts, None
    return parts, draw_shared(training, shared_per_class, np.random.default_rng([seed, 1]))


def partition(labels: np.ndarray, clients: int, settings: PartitionSettings, seed: int) -> Partition:
    """Deal samples with labels (n,) to ``clients`` clients; the same arguments give the same split."""
    if clients % settings.copies:
        raise InvalidInput(f"{settings.copies} copies of the data cannot be split equally over {clients} clients")
    rng = np.random.default_rng([seed, clients])
    dealt = (_once(labels, clients // settings.copies, settings, rng) for _ in range(settings.copies))
    return tuple(chain.from_iterable(dealt))


def _once(labels: np.ndarray, clients: int, settings: PartitionSettings, rng: np.random.Generator) -> Partition:
    if settings.kind == "dirichlet":
        return dirichlet(labels, clients, settings.alpha, rng)
    if settings.kind == "shards":
        return shards(labels, clients, settings.per_client, rng)
    if settings.kind == "groups":
        return groups(labels, clients, settings.groups, settings.others, rng)
    return iid(labels, clients, rng)


def dirichlet(labels: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> Partition:
    """Split every class over the clients in proportions drawn from Dir(α, …, α) (FedAom section 4.3).

    A client that got nothing takes one sample of the client that has most, so that everyone can train.
    """
    _check(labels, clients)
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        indices = rng.permutation(np.flatnonzero(labels == label))
        shares = rng.dirichlet(np.full(clients, alpha))
        cuts = np.floor(np.cumsum(shares)[:-1] * len(indices) + 0.5).astype(np.int64)
        for part, piece in zip(parts, np.split(indices, np.minimum(cuts, len(indices))), strict=True):
            part.append(piece)
    return _finish(_fill_empty([np.concatenate(part) for part in parts]))


def shards(labels: np.ndarray, clients: int, per_client: int, rng: np.random.Generator) -> Partition:
    """Cut every class into shards of nearly one size and deal ``per_client`` of them to each client.

    Classes get shards in proportion to their size, each at least one, so every shard has a single label.
    """
    _check(labels, clients)
    classes, counts = np.unique(labels, return_counts=True)
    total = clients * per_client
    if not len(classes) <= total <= len(labels):
        raise InvalidInput(
            f"{clients} clients × {per_client} shards is {total} shards, "
            f"but there are {len(classes)} classes and {len(labels)} samples: choose a number in between"
        )
    pieces: list[np.ndarray] = []
    for label, count in zip(classes, _shards_per_class(counts, total), strict=True):
        pieces += np.array_split(rng.permutation(np.flatnonzero(labels == label)), count)
    deal = rng.permutation(total).reshape(clients, per_client)
    return _finish([np.concatenate([pieces[shard] for shard in hand]) for hand in deal])


def groups(labels: np.ndarray, clients: int, count: int, others: float, rng: np.random.Generator) -> Partition:
    """Give each of ``count`` groups of clients main labels of its own (clustered label skew).

    Clients 1, count + 1, … are the first group, and so on; labels are cut into ``count`` runs, one a group. Of each
    label a fraction ``others`` is given to all clients evenly, and the rest, evenly, to the clients of its group.
    """
    _check(labels, clients)
    classes = np.unique(labels)
    if not count <= min(clients, len(classes)):
        raise InvalidInput(
            f"{count} groups need at least {count} clients and {count} labels: there are {clients} and {len(classes)}"
        )
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    common: list[np.ndarray] = []
    for group, mains in enumerate(np.array_split(classes, count)):
        own = []
        for label in mains:
            indices = rng.permutation(np.flatnonzero(labels == label))
            cut = round(others * len(indices))
            common.append(indices[:cut])
            own.append(indices[cut:])
        _deal_evenly(rng.permutation(np.concatenate(own)), parts[group::count])
    _deal_evenly(rng.permutation(np.concatenate(common)), parts)
    return _finish(_fill_empty([np.concatenate(part) for part in parts]))


def iid(labels: np.ndarray, clients: int, rng: np.random.Generator) -> Partition:
    """Shuffle and cut into equal parts (sizes differ by at most one)."""
    _check(labels, clients)
    return _finish(np.array_split(rng.permutation(len(labels)), clients))


def _deal_evenly(indices: np.ndarray, parts: list[list[np.ndarray]]) -> None:
    for part, piece in zip(parts, np.array_split(indices, len(parts)), strict=True):
        part.append(piece)


def _check(labels: np.ndarray, clients: int) -> None:
    if clients < 1:
        raise InvalidInput(f"the number of clients must be at least 1, not {clients}")
    if len(labels) < clients:
        raise InvalidInput(f"{len(labels)} samples are too few to give each of {clients} clients one: use fewer")


def _shards_per_class(counts: np.ndarray, total: int) -> np.ndarray:
    """Give ``total`` shards to classes, one after the other to the class whose shards are largest now."""
    given = np.minimum(np.maximum(counts * total // counts.sum(), 1), counts)
    while given.sum() > total:
        given[np.argmin(np.where(given > 1, counts / given, np.inf))] -= 1
    while given.sum() < total:
        given[np.argmax(np.where(given < counts, counts / given, 0))] += 1
    return given


def _fill_empty(parts: list[np.ndarray]) -> list[np.ndarray]:
    sizes = np.array([len(part) for part in parts])
    for client in np.flatnonzero(sizes == 0):
        giver = int(np.argmax(sizes))
        parts[client], parts[giver] = parts[giver][-1:], parts[giver][:-1]
        sizes[client], sizes[giver] = 1, sizes[giver] - 1
    return parts


def _finish(parts: list[np.ndarray]) -> Partition:
    return tuple(np.sort(part).astype(np.int64) for part in parts)
