"""The weight that a member states in its draws: a number of its own, which its journal keeps.

It says how much the member's updates count in a mean. It is on the ledger for everybody, so it must not follow from
what a task's code makes of the data. It stays when the data change, until the member itself says otherwise, and it is
the same in all rounds from one model: in a repeated round the same update with another weight would be another vector.
"""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from fedgrove.common.errors import InvalidInput
from fedgrove.common.wire import Digest, Malformed, Table
from fedgrove.node.protocol.journal import Journal, JournalDamaged

_NAME = "weight"
_REMEMBERED = 16  # models: a round goes back to an earlier one where closings are replaced or void

Weight = Annotated[int, Meta(ge=1, lt=1 << 32)]


class _Kept(Table, frozen=True):
    """The member's number, and what it stated for the latest models, by their digests, oldest first."""

    own: Weight
    stated: tuple[tuple[Digest, Weight], ...] = ()


class OwnWeight:
    """A member's weight in its journal, which has none before the first call of ``begin`` or ``change``."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def own(self) -> int:
        """The member's number, from the next model on; 0 where it has none yet. Raises JournalDamaged."""
        kept = self._read()
        return kept.own if kept is not None else 0

    def begin(self, given: int | None, counted: Callable[[], int]) -> int:
        """The member's number: the one that is kept, or else the given one, or else what ``counted`` returns.

        Raises
        ------
        InvalidInput
            Another number is kept than the given one.
        JournalDamaged
        """
        own = self.own
        if own and given not in (None, own):
            raise InvalidInput(
                f"its journal says that this member's weight is {own}: leave --weight out, or change it with "
                f"`fedgrove keys weigh {given}`"
            )
        if not own:
            own = counted() if given is None else given
            self.change(own)
        return own

    def change(self, weight: int) -> None:
        """State another number from the next model on; on disk and synced when this returns."""
        kept = self._read()
        self._write(_Kept(weight) if kept is None else kept.replace(own=weight))

    def of(self, model: bytes) -> int:
        """The weight in rounds that train from the model with this digest: what was stated for it first."""
        kept = self._read()
        if kept is None:
            raise JournalDamaged("the journal has lost this member's weight: start the client again")
        stated = dict(kept.stated)
        if model.hex() not in stated:
            stated[model.hex()] = kept.own
            self._write(kept.replace(stated=tuple(stated.items())[-_REMEMBERED:]))
        return stated[model.hex()]

    def _read(self) -> _Kept | None:
        data = self._journal.kept(_NAME)
        try:
            return _Kept.from_bytes(data) if data is not None else None
        except Malformed:
            raise JournalDamaged("the journal's weight cannot be read: give this client a folder of its own") from None

    def _write(self, kept: _Kept) -> None:
        self._journal.keep(_NAME, kept.to_bytes())
