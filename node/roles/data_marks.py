"""Marks of the federations and accounts that some data took part with: their privacy costs add up.

A budget counts what the ledger of one federation shows of one account. With a second account, or in a second
federation, the same data reveal something again, and no ledger knows. So a client that starts leaves a mark next to its
data and in its own directory, and warns where it finds another's. A mark is no secret and proves nothing: it is for the
member alone, and somebody who moves the data leaves it behind.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Count, Malformed, Table, canonical_json, decode
from fedgrove.node.base.files import MARK, write_atomically

_MAX_BYTES = 1 << 20
_MAX_MARKS = 1000
_Text = Annotated[str, Meta(pattern=r"\A[!-~]{1,100}\Z")]


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
    """

    chain: Count
    ledger: _Text
    account: _Text
    mechanism: _Text

    @property
    def place(self) -> tuple[int, str, str]:
        """What makes it one of its own."""
        return self.chain, self.ledger, self.account

    def __str__(self) -> str:
        return f"as {self.account} in the federation {self.ledger} on chain {self.chain}"


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

    def enter(self, own: DataMark) -> list[str]:
        """Leave a mark; return what the member should know, a sentence each.

        Where nothing can be written next to the data, the mark in the directory must do.
        """
        found = {place: _read(place) for place in self._places}
        said = [_unreadable(place) for place, marks in found.items() if marks is None]
        others = {mark for marks in found.values() for mark in marks or () if mark.place != own.place}
        said += [_warning(mark, own) for mark in sorted(others, key=str) if {mark.mechanism, own.mechanism} != {"none"}]
        for place, marks in found.items():
            if marks is not None and own not in marks:
                _write(place, [*marks, own][-_MAX_MARKS:])
        return said


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
