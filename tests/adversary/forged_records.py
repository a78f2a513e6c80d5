"""Forgeries of single records, and of where their transactions stand."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from fedgrove.chain.records import (
    Committed,
    Released,
    Shared,
)
from tests.adversary.forgery import Draft, Forgery, samples
from tests.adversary.forging import ARGUMENTS, STRANGER, Place, other_value, record_fields
from tests.adversary.kept_runs import Kept


def of_fields(kept: Kept) -> Iterator[Forgery]:
    """Each field of each kind of record: in the log alone, and in the calldata, too."""
    for place in samples(kept.tape):
        kind = type(place.record)
        for name in record_fields(place.record):
            change = {name: other_value(getattr(place.record, name))}
            yield Forgery(f"{kind.__name__}.{name}", _raw(lambda d, p=place, c=change: d.tape.set_record(p, **c)))
            if name in ARGUMENTS.get(kind, ()):
                yield Forgery(
                    f"{kind.__name__}.{name} and calldata under the old signature",
                    _raw(lambda d, p=place, c=change: d.tape.change(p, **c)),
                )
                yield Forgery(
                    f"{kind.__name__}.{name} and calldata, signed by a stranger",
                    _raw(lambda d, p=place, c=change: d.tape.change(p, STRANGER, **c)),
                )


def _raw(edit: Callable[[Draft], Any]) -> Callable[[Draft], None]:
    """An edit after which nothing in the records is made to fit: it is they that are forged."""

    def edited(draft: Draft) -> None:
        draft.tape.mends = False
        edit(draft)

    return edited


def of_structure(kept: Kept) -> Iterator[Forgery]:
    """Transactions left out, put in twice, moved, exchanged."""
    for place in samples(kept.tape):
        kind, end = type(place.record).__name__, len(kept.tape.sheets) - 1
        yield Forgery(f"{kind} left out", lambda d, p=place: d.tape.drop(p), True)
        yield Forgery(f"{kind} once more", lambda d, p=place: _again(d, p, p.block))
        yield Forgery(f"{kind} once more at the end", lambda d, p=place: _again(d, p, len(d.tape.sheets) - 1))
        if place.block < end:
            yield Forgery(f"{kind} a block later", lambda d, p=place: d.tape.move(p, p.block + 1), True)
        if place.block:
            yield Forgery(f"{kind} a block earlier", lambda d, p=place: d.tape.move(p, p.block - 1), True)
    for kind in (Shared, Committed, Released):
        first, second = kept.tape.places(kind)[-2:]
        yield Forgery(f"two {kind.__name__} exchanged", lambda d, a=first, b=second: _exchange(d, a, b), True)


def _again(draft: Draft, place: Place, block: int) -> None:
    draft.tape.insert(block, copy.deepcopy(draft.tape.call(place)))


def _exchange(draft: Draft, first: Place, second: Place) -> None:
    calls = [draft.tape.call(place) for place in (first, second)]
    draft.tape.sheets[first.block].calls[first.call] = calls[1]
    draft.tape.sheets[second.block].calls[second.call] = calls[0]
