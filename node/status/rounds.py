"""The one read model of rounds: the command, the pages, Python and ``report.json`` all show ``Round``."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeGuard

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Closed, Failed, Phase
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, TooLarge
from fedgrove.node.protocol.content import Metrics, fetch_metrics
from fedgrove.node.protocol.members_metrics import described, unable
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.status.participation import why_failed
from fedgrove.node.status.price import ETHER

_MEMBERS_COMMON = frozenset(
    {"samples", "loss", "standard_error", "accuracy", "balanced_accuracy", "confusion"}
    | {"noise", "void", "stopped", "ending", "last", "epsilon", "ledger_epsilon", "delta"}
)
_FIGURES = ("accuracy", "loss", "samples", "raised")
_DEPTH, _MOST_BITS = 4, 64
COLUMNS = (
    *("round", "status", "reason", "stage", "opened_block", "ended_block", "active_members", "drawn", "committed"),
    *("dropped", "undrawn", "judged", "accuracy", "loss", "samples", "members.samples", "members.accuracy"),
    *("members.loss", "members.standard_error", "members.noise", "privacy.epsilon", "privacy.ledger_epsilon"),
    *("model_cid", "model_digest", "terms_digest", "gas_used", "fee_wei", "bytes", "block_seconds", "drawn_clients"),
    *("committed_clients", "raised"),
)
"""Figures in tables of rounds, by their names."""
_MOST_COUNTED = 1 << 32  # no federation's terms allow larger blobs


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round with all of its figures. None and empty stand for what is not stated, or not known yet.

    Attributes
    ----------
    round : int
        Its number, from 1.
    status : str
        ``running``, ``closed``, ``skipped``, ``failed`` or ``voided`` (after disputes); a simulated one is ``closed``.
    reason : str
        Why it failed, in words; empty for any other.
    stage : str
        What it is for, in a federation with clusters: ``blind``, ``answer``, ``labels``, ``train``, ``show``, ``vote``.
    accuracy, loss, samples : float, float, int
        Of the model that it closed with, as published, on the coordinator's test data.
    only_class : int
        The class that this model predicts for every test sample.
    scores : mapping
        AUC, confusion matrix and the like of this model, as published.
    members : mapping
        The members' own metrics of the model that the round began with (``MembersMetrics.to_report``).
    privacy : mapping
        What the round released, as published: ``epsilon`` as the terms count it, ``ledger_epsilon`` towards readers of
        the ledger.
    cluster_scores : tuple of mapping
        How each cluster's model did on the public samples (``ClusterScore``).
    stated : mapping
        What the coordinator stated for the method; not in the JSON form, where it could be large.
    raised : int
        How many members could not train, and sent the model unchanged; None where nobody counts.
    train_loss, train_samples : float, int
        Of a simulated round's local training; of a real one only the clients know it.
    active_members : int
        Members that could draw when it was opened.
    drawn_clients, committed_clients, judged : tuple of int
        Who drew, whose uploads are listed, and who judged it to have another result than what stands, ascending.
    dropped, undrawn : tuple of int
        Who drew and did not commit, and who did not draw where everybody was to; empty while it runs.
    model_digest, model_cid : str
        The model in force after it; the CID is known once the store was asked.
    terms_digest : str
        Of the terms that it was opened under.
    opened_block, ended_block, opened_time, ended_time : int
        Blocks of its opening and its end, and when these were made by their makers' clocks, in seconds since 1970.
    gas_used, fee_wei : int
        Of all transactions that left a record of this round.
    bytes : int
        That its clients put into the store.
    seconds : float
        Wall time as whoever ran it measured it; the one figure that cannot be audited.
    """

    round: int
    status: str = "closed"
    reason: str = ""
    stage: str = ""
    accuracy: float | None = None
    loss: float | None = None
    samples: int | None = None
    only_class: int | None = None
    scores: Mapping[str, Any] | None = None
    members: Mapping[str, Any] | None = None
    privacy: Mapping[str, Any] | None = None
    cluster_scores: tuple[Mapping[str, Any], ...] = ()
    stated: Mapping[str, Any] | None = None
    raised: int | None = None
    train_loss: float | None = None
    train_samples: int | None = None
    active_members: int | None = None
    drawn_clients: tuple[int, ...] = ()
    committed_clients: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    undrawn: tuple[int, ...] = ()
    judged: tuple[int, ...] = ()
    model_digest: str = ""
    model_cid: str = ""
    terms_digest: str = ""
    opened_block: int | None = None
    ended_block: int | None = None
    opened_time: int | None = None
    ended_time: int | None = None
    gas_used: int | None = None
    fee_wei: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    # --- counts and sums --------------------------------------------------------------------------------------------

    @property
    def drawn(self) -> int:
        """How many drew."""
        return len(self.drawn_clients)

    @property
    def committed(self) -> int:
        """How many committed."""
        return len(self.committed_clients)

    @property
    def closed(self) -> bool:
        """Whether it left a model that stands."""
        return self.status == "closed"

    @property
    def outcome(self) -> str:
        """Status, with the reason of a failure."""
        return f"{self.status}: {self.reason}" if self.reason else self.status

    @property
    def ending(self) -> str:
        """Why the training ended with it, in one clause; empty where it did not."""
        return (self.members or {}).get("ending", "")

    @property
    def members_found(self) -> str:
        """What the members found, or why they found nothing, in one clause; there must be ``members``."""
        found = self.members or {}
        if found.get("samples") or "noise" in found:
            return described(found)
        return f"void, as {found['void']}" if "void" in found else "nothing: no member evaluated the model"

    @property
    def unable(self) -> str:
        """How many members could not train, in one clause; there must be ``raised``."""
        return unable(self.raised or 0)

    @property
    def only_evaluated(self) -> bool:
        """Whether it trained nothing, and its members evaluated the last model."""
        return bool((self.members or {}).get("last"))

    @property
    def fee(self) -> float | None:
        """The fees in the chain's currency."""
        return None if self.fee_wei is None else self.fee_wei / ETHER

    @property
    def block_seconds(self) -> int | None:
        """Seconds between the blocks of its opening and its end."""
        return None if self.ended_time is None or self.opened_time is None else self.ended_time - self.opened_time

    @cached_property
    def members_own(self) -> dict[str, float]:
        """Means of the task's own metrics that the members found, by name."""
        own = {name: value for name, value in (self.members or {}).items() if name not in _MEMBERS_COMMON}
        return {name: value for name, value in own.items() if _is_number(value)}

    def figure(self, name: str) -> Any:
        """A figure by its name, as ``loss``, ``members.loss`` or ``privacy.epsilon``; None where there is none."""
        first, _, rest = name.partition(".")
        value = getattr(self, first)
        return (value or {}).get(rest) if rest else value

    def numbers(self, of_method: bool = True) -> dict[str, float]:
        """What was stated of it as numbers by their dotted names.

        Logs leave out what the coordinator states for the method, which has no bound but its size. Names that a
        coordinator chose may be formulas to a spreadsheet: identifiers are kept.
        """
        plain = {name: getattr(self, name) for name in (*_FIGURES, "train_loss", "train_samples")}
        nested = {name: getattr(self, name) for name in ("members", "privacy", "scores")}
        nested |= {"stated": self.stated} if of_method else {}
        return dict(_numbers("", plain | nested, _DEPTH))

    def row(self) -> tuple[Any, ...]:
        """A table's row: the figures of ``COLUMNS``, several clients with spaces between them."""
        values = map(self.figure, COLUMNS)
        return tuple(" ".join(map(str, value)) if isinstance(value, tuple) else value for value in values)

    # --- JSON -------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """By name, JSON-ready; no name is ever left out. Wei are text: a number in JSON would lose digits."""
        found = {item.name: getattr(self, item.name) for item in fields(Round) if item.name != "stated"}
        counts = {"drawn": self.drawn, "committed": self.committed}
        money = {"fee_wei": None if self.fee_wei is None else str(self.fee_wei), "block_seconds": self.block_seconds}
        return {name: _plain(value) for name, value in (found | counts | money).items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """What ``to_dict`` gave; what else is in it is left out."""
        known: dict[str, Any] = {item.name: found[item.name] for item in fields(cls) if item.name in found}
        listed = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        wei = known.get("fee_wei")
        known |= listed | {"fee_wei": None if wei is None else int(wei)}
        return cls(**known)


class RoundReader:
    """Makes rounds out of records and store; one whose records have not changed is not made again.

    Parameters
    ----------
    strict : bool
        Malformed metrics are an error; else they state nothing.
    """

    def __init__(
        self,
        store: ContentReader,
        history: LedgerHistory | None = None,
        seconds: Mapping[int, float] | None = None,
        strict: bool = True,
    ) -> None:
        self._store, self._history, self._seconds, self._strict = store, history, seconds, strict
        from fedgrove.node.status.clusters import ClusterReader  # brings libraries that many commands do without

        self._clusters = ClusterReader(store)
        self._known: dict[int, tuple[tuple[object, ...], Round]] = {}

    def read(self, rounds: Rounds, ended: bool = False) -> tuple[Round, ...]:
        """All rounds in their order, or those that have ended.

        Raises
        ------
        StoreError, InvalidContent
            The store lacks terms, a model's root block or the metrics of a round, or these are malformed.
        """
        return tuple(self.one(rounds, each) for each in rounds.rounds.values() if each.end is not None or not ended)

    def one(self, rounds: Rounds, records: RoundRecords) -> Round:
        """One of these rounds; raises as ``read``."""
        version = _version(records)
        known = self._known.get(records.number)
        if known is None or known[0] != version:
            known = self._known[records.number] = (version, self._made(rounds, records))
        return known[1]

    def _made(self, rounds: Rounds, records: RoundRecords) -> Round:
        digest = records.result.model_digest if records.stands else records.opened.model_digest
        seconds = None if self._seconds is None else round(self._seconds.get(records.number, 0.0), 3)
        ended = records.end is not None
        found = Round(
            round=records.number,
            status=status_of(records),
            reason=reason_of(records, rounds.quorum),
            active_members=records.members,
            drawn_clients=tuple(sorted(records.draws)),
            committed_clients=tuple(sorted(records.commits)),
            dropped=tuple(sorted(set(records.draws) - set(records.commits))) if ended else (),
            undrawn=_undrawn(records) if ended else (),
            judged=_judged_wrong(records),
            model_digest=digest.hex(),
            model_cid=str(self._store.root(digest).cid),
            terms_digest=records.opened.config_digest.hex(),
            opened_block=records.opened.at.block,
            ended_block=records.ending.at.block if ended else None,
            bytes=sum(upload_bytes(records, self._store).values()),
            seconds=seconds if ended else None,
        )
        stated = stated_figures(self._metrics(records))
        return replace(found, **stated, **self._clusters.figures(rounds, records), **self._paid(found))

    def _metrics(self, records: RoundRecords) -> Metrics | None:
        try:
            return fetch_metrics(self._store, records.result.metrics_digest) if records.stands else None
        except InvalidContent:
            if self._strict:
                raise
            return None

    def _paid(self, found: Round) -> dict[str, Any]:
        """Times, gas and fees, where the history is at hand."""
        if self._history is None:
            return {}
        gas, fee = self._spent.get(found.round, (0, 0))
        ended = found.ended_block
        return {
            "gas_used": gas,
            "fee_wei": fee,
            "opened_time": self._history.time(found.opened_block or 0),
            "ended_time": None if ended is None else self._history.time(ended),
        }

    @cached_property
    def _spent(self) -> dict[int, tuple[int, int]]:
        """Gas and fees of all transactions that left a record of a round, by its number."""
        assert self._history is not None
        of_round: dict[int, set[bytes]] = {}
        for record in self._history.records():
            number = getattr(record, "round", None)
            if number is not None:
                of_round.setdefault(number, set()).add(record.at.transaction)
        facts = self._history.transactions
        return {
            number: (sum(facts[each].gas_used for each in hashes), sum(facts[each].fee for each in hashes))
            for number, hashes in of_round.items()
        }


def stated_figures(metrics: Metrics | None) -> dict[str, Any]:
    """Figures of ``Round`` that a closing's metrics state, by name; without samples nothing was evaluated."""
    if metrics is None:
        return {}
    evaluated = metrics.samples > 0
    return {
        "accuracy": metrics.accuracy if evaluated else None,
        "loss": metrics.loss if evaluated else None,
        "samples": metrics.samples if evaluated else None,
        "only_class": metrics.only_class if evaluated else None,
        "scores": metrics.scores.to_table() if evaluated and metrics.scores is not None else None,
        "members": metrics.members.to_report() if metrics.members is not None else None,
        "privacy": metrics.privacy.to_table() if metrics.privacy is not None else None,
        "stated": metrics.stated,
        "raised": metrics.raised,
    }


def _judged_wrong(records: RoundRecords) -> tuple[int, ...]:
    if not isinstance(records.end, Closed):
        return ()
    return tuple(sorted(filter(records.overruled, records.judgements(Phase.CLOSED))))


def status_of(records: RoundRecords) -> str:
    """``Round.status`` of a round's records."""
    if records.voided is not None:
        return "voided"
    return type(records.end).__name__.lower() if records.end is not None else "running"


def reason_of(records: RoundRecords, quorum: int) -> str:
    """``Round.reason`` of a round's records."""
    failed = isinstance(records.end, Failed) and records.voided is None
    return why_failed(records, quorum) if failed else ""


def _undrawn(records: RoundRecords) -> tuple[int, ...]:
    """Members that did not draw in a round, where everybody was to; nobody can know who was in a sample."""
    sampled = records.opened.sampling_rate < EVERYONE
    return () if sampled else tuple(sorted(set(records.able) - set(records.draws)))


def upload_bytes(records: RoundRecords, store: ContentReader) -> dict[str, int]:
    """Bytes that each client put into the store in one round, by client index.

    What cannot be a blob of any federation counts as nothing: a few blocks can describe a file without end.
    """
    total: dict[str, int] = {}
    for client, digest in _uploads(records):
        with suppress(NotFound, TooLarge, Malformed):
            if store.has(digest):
                total[str(client)] = total.get(str(client), 0) + store.root(digest, _MOST_COUNTED).size
    return total


def _uploads(records: RoundRecords) -> Iterator[tuple[int, bytes]]:
    for record in records.of_members():
        yield from ((record.client, getattr(record, name)) for name, blob in record.BLOBS.items() if blob.upload)


def _version(records: RoundRecords) -> tuple[object, ...]:
    """Changes with every record of a round that a figure follows from."""
    return sum(1 for _ in records.of_members()), records.end, records.voided


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return {str(name): _plain(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether every reader of numbers can take a value; JSON may have integers of a thousand digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() <= _MOST_BITS
    return isinstance(value, float) and math.isfinite(value)


def _numbers(prefix: str, table: Mapping[str, Any], depth: int) -> Iterator[tuple[str, float]]:
    for name, value in table.items():
        if not (name.isascii() and name.isidentifier()):
            continue
        if depth and isinstance(value, Mapping):
            yield from _numbers(f"{prefix}{name}.", value, depth - 1)
        elif _is_number(value):
            yield prefix + name, value
