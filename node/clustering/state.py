"""What a round of a federation with clusters leaves: what comes next, the models, and who is in which cluster.

It is all that the next round and an auditor need to know of the rounds before. Bytes: length of the head (8) ‖ head,
canonical JSON ‖ the models as safetensors. Equal states have equal bytes. Clients are numbered as on the ledger, models
and clusters from 0.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from node.clustering.similarity import Inconsistent, Similarity
from node.clustering.stated import Counts
from node.clustering.training import Cluster
from node.tensors import InvalidModel, Layout, Tensors, dump, load

STAGES = ("blind", "ask", "answer", "report", "count", "labels", "train", "watch", "show", "vote")
"""What the next round does. ``count`` and ``watch`` wait for what the coordinator states first."""

_UNGROUPED = STAGES[: STAGES.index("labels")]
_COMPARING = ("ask", "answer", "report")
_MODELS = ("models", "references", "trials")
_LENGTH_BYTES = 8
_MAX_HEAD_BYTES = 1 << 28
_MAX_MODELS = 1 << 20


@dataclass(frozen=True)
class Case:
    """A suspected cluster, and what became of it.

    Attributes
    ----------
    cluster : int
    members : Cluster
        Who trained its model, and is judged.
    committee : Cluster
    against : tuple of int
        Votes against each member; empty before the vote.
    """

    cluster: int
    members: Cluster
    committee: Cluster
    against: tuple[int, ...] = ()

    @property
    def expelled(self) -> Cluster:
        """Members with more than half of all seats against them."""
        return tuple(m for m, votes in zip(self.members, self.against, strict=False) if 2 * votes > len(self.committee))


@dataclass(frozen=True)
class ClusterState:
    """Where a federation with clusters stands.

    Attributes
    ----------
    stage : str
        One of ``STAGES``.
    models : tuple of Tensors
        One in the first stage of training, then one a cluster.
    trained : int
        Rounds of training so far.
    session : str
        Names the comparisons, hexadecimal.
    sets : mapping of int to (str, int)
        First messages of the comparisons by client, ascending: digest of the blob (hexadecimal), elements of its set.
    clients : Cluster
        Who took part in the comparisons to their end, ascending: rows of ``overlaps``.
    overlaps : tuple of Counts
    clusters : tuple of Cluster
        Members, without those who were expelled.
    labels : tuple of Counts
        For each cluster the label counts of those who are most like it, together; empty where they were too few.
    groups : tuple of Cluster
        Who trained each model in the latest round of training, or each part of the one model.
    references : tuple of Tensors
        Each model's best so far, where models are watched.
    right, tested : tuple of Counts, Counts
        What the references get right of the public samples, and how many of each label there are.
    trials : tuple of Tensors
        Models of the parts of the one model, by which the bad part is found if it fell.
    began : str
        Digest of the state that the latest round of training began with, hexadecimal.
    cases : tuple of Case
        Those under judgement, or judged last.
    judged : mapping of int to int
        How many rounds were trained when a cluster was judged last.
    expelled : mapping of int to int
        The cluster that a client was expelled from.
    """

    stage: str
    models: tuple[Tensors, ...] = field(repr=False)
    trained: int = 0
    session: str = ""
    sets: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    clients: Cluster = ()
    overlaps: tuple[Counts, ...] = field(default=(), repr=False)
    clusters: tuple[Cluster, ...] = ()
    labels: tuple[Counts, ...] = ()
    groups: tuple[Cluster, ...] = ()
    references: tuple[Tensors, ...] = field(default=(), repr=False)
    right: tuple[Counts, ...] = ()
    tested: Counts = ()
    trials: tuple[Tensors, ...] = field(default=(), repr=False)
    began: str = ""
    cases: tuple[Case, ...] = ()
    judged: Mapping[int, int] = field(default_factory=dict)
    expelled: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def first(cls, model: Tensors) -> "ClusterState":
        """Before the first round: nobody has compared anything."""
        return cls("blind", (model,))

    @cached_property
    def layout(self) -> Layout:
        """Of each model."""
        return Layout.of(self.models[0])

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Elements of each set that is compared, by client."""
        return {client: size for client, (_, size) in self.sets.items()}

    @cached_property
    def similarity(self) -> Similarity:
        """Of ``clients``, in order."""
        return Similarity(np.array(self.overlaps, np.int64))

    @cached_property
    def rows(self) -> dict[int, int]:
        """Row in the matrix of overlaps by client."""
        return {client: row for row, client in enumerate(self.clients)}

    def labels_of(self, cluster: int) -> Counts:
        """Label counts that a cluster's model is for; all that are known where its own are not."""
        return self.labels[cluster] or self.all_labels

    @cached_property
    def all_labels(self) -> Counts:
        """Label counts of everybody of whom they are known, together."""
        return tuple(map(sum, zip(*filter(None, self.labels), strict=True)))

    def model_of(self, cluster: int) -> Tensors:
        """What a cluster trains from."""
        return self.models[cluster if len(self.models) > 1 else 0]

    def reference_of(self, cluster: int) -> Tensors:
        """A cluster's best model so far."""
        return self.references[cluster if len(self.references) > 1 else 0]

    def to_bytes(self) -> bytes:
        """Head and models."""
        stacked = {
            f"{kind}/{number}/{name}": tensor
            for kind in _MODELS
            for number, model in enumerate(getattr(self, kind))
            for name, tensor in model.items()
        }
        data = self.head()
        return len(data).to_bytes(_LENGTH_BYTES) + data + dump(stacked)

    def head(self) -> bytes:
        """Everything but the tensors, as canonical JSON."""
        head = {name: getattr(self, name) for name in _HEAD}
        head["cases"] = [vars(case) for case in self.cases]
        head |= {name: len(getattr(self, name)) for name in _MODELS}
        return json.dumps(head, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, layout: Layout | None = None) -> "ClusterState":
        """Parse what ``to_bytes`` wrote.

        Raises
        ------
        InvalidModel
            Anything else, or models of another layout.
        """
        end = head_end(data)
        if end > len(data):
            raise InvalidModel("the state of the clusters is cut short")
        state = _parsed(data[_LENGTH_BYTES:end], lambda counts: _unstacked(load(data[end:]), counts))
        models = [model for kind in _MODELS for model in getattr(state, kind)]
        if any(Layout.of(model) != (layout or state.layout) for model in models):
            raise InvalidModel("a model of the clusters has other tensors than the federation's")
        if state.to_bytes() != data:
            raise InvalidModel("the state of the clusters is not in canonical form")
        return state

    @classmethod
    def outline(cls, head: bytes) -> "ClusterState":
        """A state out of what ``head`` wrote: its models have no tensors, and are there to be counted.

        Raises
        ------
        InvalidModel
            Anything else.
        """
        state = _parsed(head, _counted)
        if state.head() != head:
            raise InvalidModel("the state of the clusters is not in canonical form")
        return state


def head_end(data: bytes) -> int:
    """Where the head ends of a state that begins with these bytes; InvalidModel where it is longer than may be."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
    if end > _MAX_HEAD_BYTES:
        raise InvalidModel("the state of the clusters is cut short")
    return end


_HEAD = tuple(item.name for item in fields(ClusterState) if item.name not in _MODELS)


def _parsed(data: bytes, models: Callable[[Mapping[str, int]], dict[str, tuple[Tensors, ...]]]) -> ClusterState:
    """The state of a head, with the models that are made for their counts."""
    try:
        head = json.loads(data)
        counts = {name: head.pop(name) for name in _MODELS}
        state = replace(_from_head(head), **models(counts))
        sound = _holds_together(state)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, Inconsistent) as fault:
        raise InvalidModel(f"this is no state of clusters: {type(fault).__name__}") from None
    if not sound:
        raise InvalidModel("the state speaks of clients, clusters or models that there are not")
    return state


def _from_head(head: dict[str, Any]) -> ClusterState:
    """The state without its models."""
    nested = ("overlaps", "clusters", "labels", "groups", "right")
    found: dict[str, Any] = {name: tuple(map(_row, head[name])) for name in nested}
    found |= {name: _row(head[name]) for name in ("clients", "tested")}
    for name in ("judged", "expelled"):
        found[name] = {int(key): _whole(value) for key, value in head[name].items()}
    found["sets"] = {int(key): (_digest(digest), _whole(size)) for key, (digest, size) in head["sets"].items()}
    found["cases"] = tuple(map(_case, head["cases"]))
    digests = {name: _digest(head[name]) for name in ("began", "session")}
    state = ClusterState(head["stage"], (), _whole(head["trained"]), **digests, **found)
    if state.stage not in STAGES or set(head) != set(_HEAD):
        raise ValueError
    return state


def _holds_together(state: ClusterState) -> bool:
    """Whether no part of a state speaks of clients, clusters or models that there are not."""
    several, compared = len(state.clusters), frozenset(state.clients)
    spoken_of = [client for group in (*state.clusters, *state.groups, state.expelled) for client in group]
    spoken_of += [client for case in state.cases for client in (*case.members, *case.committee)]
    numbers = [*state.judged, *state.expelled.values(), *(case.cluster for case in state.cases)]
    models = (0, 1, several)
    groups = len(state.trials or state.models) if state.stage == "watch" else len(state.groups)
    return (
        list(state.clients) == sorted(compared)
        and compared <= state.sets.keys()
        and (not state.overlaps or state.similarity.clients == len(state.clients))
        and compared.issuperset(spoken_of)
        and all(number < several for number in numbers)
        and all(len(each) in models for each in (state.models, state.references, state.trials, state.groups))
        and len(state.groups) == groups
        and len(state.right) == len(state.references)
        and len(state.labels) in (0, several)
        and any(state.labels) == bool(state.labels)
        and (len(state.models) == 1 or not state.trials)
        and all(len(row) == len(state.tested) for row in state.right)
        and _compares(state)
        and _suspects(state)
    )


def _compares(state: ClusterState) -> bool:
    """Whether there are sets to compare, the overlaps are of them, and there are clusters where they are needed."""
    if state.stage in _COMPARING and not (state.session and state.sets):
        return False
    diagonal = [row[place] for place, row in enumerate(state.overlaps)]
    if state.overlaps and diagonal != [state.sizes[client] for client in state.clients]:
        return False
    return bool(state.clusters or state.stage in _UNGROUPED)


def _suspects(state: ClusterState) -> bool:
    """Whether there is all that watching, showing and voting need."""
    named = [case.cluster for case in state.cases]
    if len(set(named)) != len(named) or any(len(case.against) not in (0, len(case.members)) for case in state.cases):
        return False
    if state.stage in ("show", "vote"):
        return bool(state.labels and state.references and state.began and state.cases)
    return bool(state.labels) or state.stage != "watch"


def _unstacked(tensors: Tensors, counts: Mapping[str, int]) -> dict[str, tuple[Tensors, ...]]:
    found: dict[str, list[Tensors]] = {kind: [{} for _ in range(min(counts[kind], len(tensors)))] for kind in _MODELS}
    for label, tensor in tensors.items():
        kind, number, name = label.split("/", 2)
        found[kind][int(number)][name] = tensor
    if not found["models"] or any(not model for several in found.values() for model in several):
        raise ValueError
    return {kind: tuple(several) for kind, several in found.items()}


def _counted(counts: Mapping[str, int]) -> dict[str, tuple[Tensors, ...]]:
    """As many models without tensors."""
    if not counts["models"] or max(map(_whole, counts.values())) > _MAX_MODELS:
        raise ValueError
    return {kind: ({},) * count for kind, count in counts.items()}


def _case(table: dict[str, Any]) -> Case:
    return Case(_whole(table["cluster"]), *(_row(table[name]) for name in ("members", "committee", "against")))


def _row(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise ValueError
    return tuple(map(_whole, values))


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value


def _digest(value: Any) -> str:
    if value and len(bytes.fromhex(value)) != 32:
        raise ValueError
    return value
