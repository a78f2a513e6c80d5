"""Marks of the federations and accounts that some data took part with: their privacy costs add up.

A budget counts what the ledger of one federation shows of one account. With a second account, or in a second
federation, the same data reveal something again, and no ledger knows. So a client that starts leaves a mark next to its
data and in its own directory, and warns where it finds another's. While it runs it keeps there in how many rounds the
data were uploaded and what that spent, which a federation that continues this one has to add. A mark is no secret and
proves nothing: it is for the member alone, and somebody who moves the data leaves it behind.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fedgrove.common.regular_file import read_regular
from fedgrove.common.text import counted
from fedgrove.common.wire import Count, Malformed, Table, canonical_json, decode
from fedgrove.node.base.files import MARK, write_atomically

_MAX_BYTES = 1 << 20
_MAX_MARKS = 1000
_Text = Annotated[str, Meta(pattern=r"\A[!-~]{1,100}\Z")]
_TextOrNone = Annotated[str, Meta(pattern=r"\A[!-~]{0,100}\Z")]


class DataMark(Table, frozen=True):
    """One account in one federation.

    Attributes
    ----------
    chain : int
        Chain id.
    ledger, account : str
        Addresses.
    mechanism : str
        Of the federation's terms; ``none``: its rounds are told without any noise.
    continues : str
        The federation that this one continues, as ``federation`` has it; empty for none.
    answered : int
        Rounds in which the ledger lists an upload of these data.
    epsilon : float or None
        ε that they spent, at the δ of the terms; None: more than any number.
    """

    chain: Count
    ledger: _Text
    account: _Text
    mechanism: _Text
    continues: _TextOrNone = ""
    answered: Count = 0
    epsilon: float | None = 0.0

    @property
    def federation(self) -> str:
        """Names the federation among all."""
        return federation_of(self.chain, self.ledger)

    @property
    def place(self) -> tuple[int, str, str]:
        """What makes it one of its own."""
        return self.chain, self.ledger, self.account

    def __str__(self) -> str:
        return f"as {self.account} in the federation {self.ledger} on chain {self.chain}"


def federation_of(chain: int, ledger: str) -> str:
    """A federation's name in a mark."""
    return f"{chain}:{ledger}"


class DataMarks:
    """The marks of some data.

    Parameters
    ----------
    data : Path
        The file of the data.
    directory : Path
        The client's own.
    """

    def __init__(self, data: Path, directory: Path) -> None:
        self._places = (data.with_name(f"{data.name}.{MARK}"), directory / MARK)
        self._seen = (0, 0)

    def enter(self, own: DataMark) -> list[str]:
        """Leave a mark; return what the member should know, a sentence each.

        Where nothing can be written next to the data, the mark in the directory must do.
        """
        found = {place: _read(place) for place in self._places}
        said = [_unreadable(place) for place, marks in found.items() if marks is None]
        latest: dict[tuple[int, str, str], DataMark] = {}
        for mark in (mark for marks in found.values() for mark in marks or ()):
            latest[mark.place] = max(mark, latest.get(mark.place, mark), key=lambda each: each.answered)
        before = latest.pop(own.place, own)
        self._own = own.replace(answered=before.answered, epsilon=before.epsilon)
        others = sorted(latest.values(), key=str)
        answering = list(_before(own, others))
        said += [_answered(mark) for mark in answering]
        budgets = [mark for mark in others if mark not in answering and {mark.mechanism, own.mechanism} != {"none"}]
        said += [_warning(mark, own) for mark in budgets]
        self._keep(found)
        return said

    def note(self, answered: int, ended: int, spent: Callable[[], float]) -> None:
        """Keep how the data take part; call it at any time after ``enter``.

        Parameters
        ----------
        answered, ended : int
            Rounds in which the data were uploaded, and rounds that have ended.
        spent : callable
            The ε that was spent; asked only when there is something new.
        """
        if (answered, ended) == self._seen:
            return
        epsilon = spent()
        self._seen = (answered, ended)
        fresh = self._own.replace(answered=answered, epsilon=epsilon if math.isfinite(epsilon) else None)
        if fresh != self._own:
            self._own = fresh
            self._keep({place: _read(place) for place in self._places})

    def _keep(self, found: dict[Path, tuple[DataMark, ...] | None]) -> None:
        """Have the own mark in each file that can be read."""
        for place, marks in found.items():
            if marks is not None and self._own not in marks:
                others = [mark for mark in marks if mark.place != self._own.place]
                _write(place, [*others, self._own][-_MAX_MARKS:])


def _before(own: DataMark, others: Iterable[DataMark]) -> Iterator[DataMark]:
    """Marks of uploads in the federations that a mark's one continues, one after the other, from the latest."""
    federation, known = own.continues, set()
    while federation and federation not in known:
        known.add(federation)
        marks = [mark for mark in others if mark.federation == federation]
        yield from (mark for mark in marks if mark.answered)
        federation = next((mark.continues for mark in marks if mark.continues), "")


def _answered(mark: DataMark) -> str:
    """What was told of the data by the model that is trained on."""
    before = f"these data answered this model in {counted(mark.answered, 'round')} before, {mark}"
    if mark.mechanism == "none":
        return f"{before}, without differential privacy: what those sums reveal adds to what is revealed here"
    spent = "unbounded ε" if mark.epsilon is None else f"ε = {mark.epsilon:.4g}"
    return f"{before}, and spent {spent} there: it adds to what is spent here, and no budget here counts it"


def _warning(mark: DataMark, own: DataMark) -> str:
    if mark.mechanism == "none":
        return (
            f"these data took part {mark}, without differential privacy: a budget here does not cover "
            "what was revealed there"
        )
    if own.mechanism == "none":
        return f"these data took part {mark}, with a privacy budget: without one here, that budget no longer holds"
    return (
        f"these data took part {mark}, too: the privacy spent there and here adds up, and neither "
        "budget counts the other"
    )


def _unreadable(place: Path) -> str:
    return f"{place} cannot be read, so it is unknown whether these data spend a privacy budget elsewhere: remove it"


def _read(place: Path) -> tuple[DataMark, ...] | None:
    """The marks in a file, none where there is none; None for anything else."""
    try:
        return decode(tuple[DataMark, ...], read_regular(place, _MAX_BYTES), _MAX_BYTES)
    except FileNotFoundError:
        return ()
    except (OSError, Malformed):
        return None


def _write(place: Path, marks: Iterable[DataMark]) -> None:
    with suppress(OSError):  # data on a medium that takes nothing
        write_atomically(place, canonical_json(list(marks)), mode=0o600)
