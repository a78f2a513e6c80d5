"""How far each record has been checked, in the audit's own words."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedgrove.chain.records import KINDS
from fedgrove.node.audit.verdict import NONE_CLOSED
from fedgrove.node.explorer.inert import inert
from fedgrove.node.explorer.watch import Snapshot
from fedgrove.node.protocol.bad_record import BadRecord

GOOD, REMARK, BAD, WAIT, SKIPPED = "good", "remark", "bad", "wait", "skipped"
WORDS = {
    GOOD: "checked",
    REMARK: "checked, with a remark",
    BAD: "bad",
    WAIT: "not checked yet",
    SKIPPED: "not checked",
}
# What a remark's or a bad record's field begins with, and the record that it is about.
_KINDS = {kind.FIELD: kind.__name__ for kind in KINDS} | {"draw": "Drawn", "order": "Sealed", "voided": "Closed"}


@dataclass(frozen=True)
class Check:
    """``state`` is one of ``WORDS``; ``reason`` says why, where there is something to say."""

    state: str
    reason: str = ""


class Checks:
    """Answers for every record and round what the audit knows of it now."""

    def __init__(self, sight: Snapshot) -> None:
        self._sight = sight
        remarks = sight.verdict.remarks if sight.verdict else ()
        self._remarks: dict[tuple[int | None, int | None, str], BadRecord] = {}
        for remark in remarks:
            kind = _KINDS.get(remark.field.partition(".")[0], "")
            self._remarks.setdefault((remark.round, remark.client, kind), remark)
        self._remarked = {remark.round for remark in remarks}

    def record(self, place: int, kind: str, number: int | None, client: int | None) -> Check:
        """Of the record at a place (from 1) in the history."""
        if place == self._sight.bad_place:
            return self._bad()
        if place > self._sight.checked:
            return self._unchecked
        remark = self._remarks.get((number, client, kind))
        return Check(REMARK, inert(f"{remark.field}: {remark.reason}")) if remark else Check(GOOD)

    def _bad(self) -> Check:
        bad = self._sight.bad
        return Check(BAD, inert(f"{bad.field}: {bad.reason}") if bad is not None else "")

    def round(self, number: int, places: Iterable[int]) -> Check:
        """Of a round whose records have these places: as bad as its worst record."""
        ordered = sorted(places)
        if self._sight.bad_place in ordered or (self._sight.bad is not None and self._sight.bad.round == number):
            return self._bad()
        if not ordered or ordered[-1] > self._sight.checked:
            return self._unchecked
        return Check(REMARK) if number in self._remarked else Check(GOOD)

    @property
    def _unchecked(self) -> Check:
        """Of what the audit has not come to: it stops at the first bad record."""
        return Check(WAIT if self._sight.bad is None else SKIPPED)

    def summary(self, records: int | None) -> "Summary":
        """The badge of the whole history, of this many records; None while they are being read."""
        sight, verdict = self._sight, self._sight.verdict
        if sight.bad is not None:
            bad = sight.bad
            where = [f"round {bad.round}"] if bad.round is not None else []
            where += [f"client {bad.client}"] if bad.client is not None else []
            short = inert(", ".join([*where, bad.field.partition(":")[0]]), 60)
            return Summary(BAD, "Bad record", short, (inert(bad),))
        if verdict is not None and verdict.verdict == "cannot tell":
            return Summary(WAIT, "Cannot tell", "the audit could not end", (inert(verdict.reason),))
        if records is None:
            return Summary(WAIT, "Reading", "the records are being read")
        count = f"{sight.checked:,} of {records:,} records"
        if sight.auditing:
            if verdict is not None and sight.checked:
                return Summary(GOOD, "Verified so far", f"{count}; rounds are checked once they end")
            return Summary(WAIT, "Checking", count)
        left = f"Open: {verdict.unpinned}" if verdict and verdict.unpinned else ""
        vouched = [clause[:1].upper() + clause[1:] for clause in verdict.vouched] if verdict else []
        said = [*(f"Compared: {clause}" for clause in verdict.pinned), *vouched, left] if verdict else []
        details = tuple(inert(each) for each in said if each)
        caveats = tuple(f"But: {inert(caveat)}" for caveat in verdict.caveats) if verdict else ()
        if verdict is not None and verdict.verdict == NONE_CLOSED:
            return Summary(WAIT, "Consistent", "no round closed", details, caveats)
        title = "Verified (practice)" if verdict is not None and verdict.practice else "Verified"
        return Summary(GOOD, title, f"all {sight.checked:,} records", details, caveats)


@dataclass(frozen=True)
class Summary:
    """The badge: a state as of a check, a title, a few words, what else there is to say, and what it does not mean."""

    state: str
    title: str
    sentence: str
    details: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
