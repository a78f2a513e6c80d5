"""What a round left of the clusters, by the rules that clients and the auditor follow (``node.methods.procfl.course``).

A round closes with a state, which all of them recompute, and with what the coordinator states with it; together they
say what comes next. Neither is believed here: whether they are lawful, the audit says of the round's record, and what
is no state, or does not fit to what is stated of it, is not shown.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self, TypeGuard

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import canonical_json, decode
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.round_inputs import accepted, course_of
from fedgrove.node.methods.procfl.state import ClusterState, head_end
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.suspicion import scores
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.procfl.watching import Score
from fedgrove.node.methods.terms import parse_config
from fedgrove.node.protocol.content import MAX_JSON_BYTES, Metrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

MAX_HEAD_BYTES = 1 << 21
"""A state with a larger head is not shown. A thousand clients need less, except for the overlaps of all pairs."""

_MAX_SCORES = 1 << 20  # bytes
_START = head_end(b"")  # where a head without bytes ends


@dataclass(frozen=True)
class ClusterScore:
    """How a model did on the public samples that the coordinator tests on, as it says.

    Attributes
    ----------
    cluster : int or None
        From 0; None for the one model of all.
    score : float
        Accuracy that is to be expected on data with the labels that the model is for.
    best : float or None
        Of the best model before; None for the first.
    fell : bool
        By more than the terms tolerate, in this respect or in the other.
    even : float
        Mean accuracy over the labels that it is for, each with the same weight.
    best_even : float or None
        Of the best model before.
    """

    cluster: int | None
    score: float
    best: float | None
    fell: bool
    even: float = 0.0
    best_even: float | None = None


@dataclass(frozen=True)
class Left:
    """What a round left: the state when its statement was heard, its models without tensors, and what they scored."""

    state: ClusterState
    scores: tuple[ClusterScore, ...] = ()

    @classmethod
    def from_row(cls, state: bytes, scores: str) -> Self | None:
        """Out of two columns of the index, or None where another version of fedgrove wrote them."""
        try:
            return cls(ClusterState.outline(state), decode(tuple[ClusterScore, ...], scores.encode(), _MAX_SCORES))
        except InvalidContent:
            return None

    def to_row(self) -> tuple[bytes, str]:
        """The columns: without the overlaps of all pairs, which would be the same in every round."""
        return replace(self.state, overlaps=()).head(), canonical_json(self.scores).decode()


def hear(head: bytes, digest: bytes, metrics: bytes, config: FederationConfig) -> Left | None:
    """What follows from the head of a state, of this digest, and the metrics of its round; None where nothing does."""
    try:
        closed, stated = ClusterState.outline(head), Stated.of(Metrics.from_bytes(metrics).stated)
        state = accepted(config, closed, digest, stated)
        if closed.stage != "watch" or stated is None:
            return Left(state, ())
        return Left(state, _scored(course_of(config), closed, state, stated))
    except (InvalidContent, ValueError, LookupError, ArithmeticError, InvalidInput):
        return None  # the audit says of the record what is wrong with it


def _scored(course: Course, closed: ClusterState, left: ClusterState, stated: Stated) -> tuple[ClusterScore, ...]:
    """What each model scored; where the one model of all fell, then also what the models of its parts did."""
    several, tolerance = len(closed.models), course.terms.tolerance
    if several > 1:
        clusters, labels = tuple(range(several)), [closed.labels_of(k) for k in range(several)]
    else:
        clusters, labels = (None,), [closed.all_labels]
    now = scores(stated.right[:several], stated.tested, labels)
    if not closed.references:
        pairs = zip(clusters, now, strict=True)
        return tuple(
            ClusterScore(cluster, float(each.expected), None, False, float(each.even)) for cluster, each in pairs
        )
    before = [closed.right[k if len(closed.right) > 1 else 0] for k in range(several)]
    found = _against(clusters, now, scores(before, stated.tested, labels), tolerance)
    if several > 1 or not found[0].fell:
        return found
    parts = range(len(closed.trials))
    labels = [closed.labels_of(k) for k in parts]
    now = scores(stated.right[several:], stated.tested, labels)
    return found + _against(parts, now, scores(left.right * len(labels), left.tested, labels), tolerance)


def _against(
    clusters: Sequence[int | None], now: Sequence[Score], best: Sequence[Score], tolerance: float
) -> tuple[ClusterScore, ...]:
    """Scores next to the best before them."""
    exact = Fraction(str(tolerance))
    found = []
    for cluster, each, most in zip(clusters, now, best, strict=True):
        expected, even = (float(each.expected), float(most.expected)), (float(each.even), float(most.even))
        found.append(ClusterScore(cluster, *expected, each.fell(most, exact), *even))
    return tuple(found)


def read_head(store: ContentReader, digest: bytes, size: int) -> bytes | None:
    """The head of a state in the store; None for a blob that begins otherwise, or whose head is too large to show.

    Raises
    ------
    StoreError
    """
    data = b""
    for chunk in store.stream(digest, size):
        data += chunk
        try:
            end = head_end(data)
        except InvalidContent:
            return None
        if end > MAX_HEAD_BYTES:
            return None
        if len(data) >= end:
            return data[_START:end]
    return None


def tensors_start(head: bytes) -> int:
    """Where in a state's bytes the file of its models begins."""
    return _START + len(head)


@lru_cache(maxsize=64)
def config_from(text: bytes) -> FederationConfig | None:
    """The terms that a blob holds, or None."""
    try:
        return parse_config(text)
    except (InvalidInput, InvalidContent):
        return None


def has_clusters(config: FederationConfig | None) -> TypeGuard[FederationConfig]:
    """Whether these are terms by which clients are clustered."""
    return config is not None and isinstance(config.method, ProCflTerms)


class ClusterReader:
    """Reads for each round what it is for, and what the clusters' models scored; each state is read once."""

    def __init__(self, store: ContentReader) -> None:
        self._store = store
        self._known: dict[tuple[bytes, bytes], tuple[str, tuple[dict[str, Any], ...]]] = {}

    def figures(self, rounds: Rounds, current: RoundRecords) -> dict[str, Any]:
        """``stage`` and ``cluster_scores`` of a round; nothing where its terms have no clusters. Raises StoreError."""
        config = config_from(self._store.fetch(current.opened.config_digest, MAX_JSON_BYTES))
        if not has_clusters(config):
            return {}
        base = rounds.base_of(current.number)
        stage = self._after(base, config)[0] if base is not None else "blind"
        return {"stage": stage, "cluster_scores": self._after(current, config)[1] if current.stands else ()}

    def _after(self, closed: RoundRecords, config: FederationConfig) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The next round's stage, and scores, after one that stands; empty where its state cannot be shown."""
        key = model, metrics = closed.result.model_digest, closed.result.metrics_digest
        if key not in self._known:
            head = read_head(self._store, model, self._store.root(model).size)
            left = hear(head, model, self._store.fetch(metrics, MAX_JSON_BYTES), config) if head is not None else None
            self._known[key] = (left.state.stage, tuple(map(asdict, left.scores))) if left else ("", ())
        return self._known[key]
