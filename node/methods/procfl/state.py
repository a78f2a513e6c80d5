"""Resulting state of a round with clusters: the next stage, the models, and the members of each cluster.

It is all that the next round and an auditor need to know of the rounds before. Bytes: length of the head (8) ‖ head,
canonical JSON ‖ the models as safetensors. Equal states have equal bytes. Clients are numbered as on the ledger, models
and clusters from 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Literal, get_args

import numpy as np
from msgspec import Meta

from fedgrove.common.errors import InvalidContent
from fedgrove.common.text import one_line
from fedgrove.common.wire import Count, Digest, OptionalDigest, canonical_json, convert, parse_json
from fedgrove.node.base.tensors import Layout, Tensors, dump, load
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS
from fedgrove.node.methods.procfl.similarity import Similarity
from fedgrove.node.methods.procfl.stated import Counts
from fedgrove.node.methods.procfl.training import Client, Cluster

Stage = Literal["blind", "answer", "count", "labels", "train", "watch", "show", "vote"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""What the next round does. ``count`` and ``watch`` wait for what the coordinator states first."""

_UNGROUPED = STAGES[: STAGES.index("labels")]
_MODELS = ("models", "references", "trials")
_LENGTH_BYTES = 8
MAX_HEAD_BYTES = 1 << 24
"""Of a state's head: twice what 400 clients in 400 clusters, and a thousand labels, can come to."""

_MAX_MODELS = 1 << 12
_MAX_LISTS = 1 << 15
_Elements = Annotated[int, Meta(ge=1, le=MAX_ELEMENTS)]


@dataclass(frozen=True)
class ClusterState:
    """State of a federation with clusters.

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
        For each cluster the label shares of those who are most like it, together (``node.methods.procfl.labels``);
        empty where they are not known.
    groups : tuple of Cluster
        Who trained each model in the latest round of training, or each part of the one model; before the first, whose
        label shares were added up for each cluster.
    spoilt : tuple of int
        Numbers of the groups whose sum in that round was no model: beyond the bound, or not to be summed.
    measured : tuple of int
        Numbers of the models whose members' metrics were summed: they stayed what they were, or were restored.
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
        How many rounds were trained when a client was judged last.
    expelled : mapping of int to int
        The cluster that a client was expelled from.
    """

    stage: Stage
    models: tuple[Tensors, ...] = field(repr=False)
    trained: Count = 0
    session: OptionalDigest = ""
    sets: Mapping[Client, tuple[Digest, _Elements]] = field(default_factory=dict)
    clients: Cluster = ()
    overlaps: tuple[Counts, ...] = field(default=(), repr=False)
    clusters: tuple[Cluster, ...] = ()
    labels: tuple[Counts, ...] = ()
    groups: tuple[Cluster, ...] = ()
    spoilt: tuple[Count, ...] = ()
    measured: tuple[Count, ...] = ()
    references: tuple[Tensors, ...] = field(default=(), repr=False)
    right: tuple[Counts, ...] = ()
    tested: Counts = ()
    trials: tuple[Tensors, ...] = field(default=(), repr=False)
    began: OptionalDigest = ""
    cases: tuple[Case, ...] = ()
    judged: Mapping[Client, Count] = field(default_factory=dict)
    expelled: Mapping[Client, Count] = field(default_factory=dict)

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
        """Label shares that a cluster's model is for; equal shares if they are unknown."""
        return self.labels[cluster] or (1,) * len(self.all_labels)

    @cached_property
    def all_labels(self) -> Counts:
        """Label shares of everybody of whom they are known, together."""
        return tuple(map(sum, zip(*filter(None, self.labels), strict=True)))

    def model_of(self, cluster: int) -> Tensors:
        """The model that a cluster trains from."""
        return self.models[cluster if len(self.models) > 1 else 0]

    def is_measured(self, cluster: int) -> bool:
        """Whether members' metrics of the model that a cluster trains from were summed in an earlier round."""
        return (cluster if len(self.models) > 1 else 0) in self.measured

    def reference_of(self, cluster: int) -> Tensors:
        """A cluster's best model so far."""
        return self.references[cluster if len(self.references) > 1 else 0]

    @property
    def at_rest(self) -> "ClusterState":
        """The state when the training has ended: nobody counts labels, shows or judges any more."""
        return replace(self, stage="train", cases=()) if self.stage in ("labels", "show", "vote") else self

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
        return canonical_json(head)

    @classmethod
    def from_bytes(cls, data: bytes, layout: Layout | None = None) -> "ClusterState":
        """Parse what ``to_bytes`` wrote; raises InvalidContent: anything else, or models of another layout."""
        end = head_end(data)
        if end > len(data):
            raise InvalidContent("the state of the clusters is cut short")
        state = _parsed(data[_LENGTH_BYTES:end], lambda counts: _unstacked(load(data[end:]), counts))
        models = [model for kind in _MODELS for model in getattr(state, kind)]
        if any(Layout.of(model) != (layout or state.layout) for model in models):
            raise InvalidContent("the tensors of a cluster's model differ from the federation's")
        if state.to_bytes() != data:
            raise InvalidContent("the state of the clusters is not in canonical form")
        return state

    @classmethod
    def outline(cls, head: bytes) -> "ClusterState":
        """A state out of what ``head`` wrote: its models have no tensors, and are there to be counted.

        Raises InvalidContent: anything else.
        """
        state = _parsed(head, _counted)
        if state.head() != head:
            raise InvalidContent("the state of the clusters is not in canonical form")
        return state


def head_end(data: bytes) -> int:
    """Offset where the head of a state with these first bytes ends; InvalidContent if the head is too long."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])
    if end > MAX_HEAD_BYTES:
        raise InvalidContent("the state of the clusters is cut short")
    return end


_HEAD = tuple(item.name for item in fields(ClusterState) if item.name not in _MODELS)


def _parsed(data: bytes, models: Callable[[Mapping[str, int]], dict[str, tuple[Tensors, ...]]]) -> ClusterState:
    """The state of a head, with the models that are made for their counts."""
    try:
        head = parse_json(data, _MAX_LISTS)
        counts = convert(dict[str, Count], {name: head.pop(name) for name in _MODELS})
        without_models = convert(ClusterState, head | {"models": []})
        state = replace(without_models, **models(counts))
        sound = _holds_together(state)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, InvalidContent) as fault:
        raise InvalidContent(f"this is not a state of clusters: {one_line(str(fault), 200)}") from None
    if not sound:
        raise InvalidContent("the state names clients, clusters or models that do not exist")
    return state


def _holds_together(state: ClusterState) -> bool:
    """Whether a state names only clients, clusters and models that exist."""
    several, compared = len(state.clusters), frozenset(state.clients)
    spoken_of = {client for group in (*state.clusters, *state.groups, state.expelled, state.judged) for client in group}
    spoken_of |= {client for case in state.cases for client in case.named}
    trained = [client for group in state.groups for client in group]
    groups = len(state.trials or state.models) if state.stage == "watch" else len(state.groups)
    cases = [group for case in state.cases for group in (case.suspects, case.pool, case.members, case.committee)]
    return (
        all(list(group) == sorted(set(group)) for group in (state.clients, *state.clusters, *state.groups, *cases))
        and compared <= state.sets.keys()
        and (not state.overlaps or state.similarity.clients == len(state.clients))
        and compared >= spoken_of
        and len(set(trained)) == len(trained)
        and all(number < several for number in state.expelled.values())
        and all(len(each) in (0, 1, several) for each in (state.models, state.references, state.trials, state.groups))
        and len(state.groups) == groups
        and list(state.spoilt) == sorted(set(state.spoilt))
        and all(number < len(state.groups) for number in state.spoilt)
        and list(state.measured) == sorted(set(state.measured))
        and all(number < len(state.models) for number in state.measured)
        and _counts_labels(state)
        and _compares(state)
        and _suspects(state)
    )


def _counts_labels(state: ClusterState) -> bool:
    """Whether labels and scores are counted for each cluster and model, with equal lengths."""
    rows = [row for row in (*state.labels, *state.right, state.tested) if row]
    return (
        len(state.labels) in (0, len(state.clusters))
        and any(state.labels) == bool(state.labels)
        and all(sum(row) > 0 for row in state.labels if row)
        and len({len(row) for row in rows}) < 2
        and len(state.right) == len(state.references)
        and all(len(row) == len(state.tested) for row in state.right)
        and all(right <= most for row in state.right for right, most in zip(row, state.tested, strict=True))
        and (any(state.tested) or not state.references)
        and (len(state.models) == 1 or not state.trials)
    )


def _compares(state: ClusterState) -> bool:
    """Whether there are sets to compare, the overlaps are of them, and there are clusters where they are needed."""
    if state.stage == "answer" and not (state.session and state.sets):
        return False
    diagonal = [row[place] for place, row in enumerate(state.overlaps)]
    if state.overlaps and diagonal != [state.sizes[client] for client in state.clients]:
        return False
    return bool(state.clusters or state.stage in _UNGROUPED)


def _suspects(state: ClusterState) -> bool:
    """Whether there is all that watching, showing and voting need."""
    numbers = [case.cluster for case in state.cases]
    if len(set(numbers)) != len(numbers) or any(number >= len(state.clusters) for number in numbers):
        return False
    if not all(case.holds_together for case in state.cases):
        return False
    if state.stage == "vote" and not all(case.seated for case in state.cases):
        return False
    if state.stage in ("show", "vote"):
        grouped = len(state.groups) == len(state.clusters)
        return bool(state.labels and state.references and state.began and state.cases and grouped)
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
    if not counts["models"] or max(counts.values()) > _MAX_MODELS:
        raise ValueError
    return {kind: ({},) * count for kind, count in counts.items()}
