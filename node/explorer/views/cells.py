"""Who is summed in which cell of a round, and whether nobody sums any more, as far as the index tells."""

from typing import Any, get_type_hints

from fedgrove.chain.records import KINDS, Phase, Position, Record
from fedgrove.common.errors import InvalidContent
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.placing import Entry, entry_from
from fedgrove.node.protocol.cells import Cells, has_cells
from fedgrove.node.protocol.policy import sums_used_up
from fedgrove.node.protocol.rounds import Rounds

_KINDS = {kind.__name__: kind for kind in KINDS}


def cells_of(index: Index, number: int) -> tuple[tuple[int, ...], ...] | None:
    """Clients of each cell of a sealed round that follows one which was spoilt; None where all are summed together.

    Nobody where the round's terms, which say so, are not at hand, or its records fit no history: the audit says why.
    """
    spoilt = "SELECT 1 FROM rounds WHERE number < ? AND sealed IS NOT NULL AND status IN ('failed', 'voided')"
    if index.value(spoilt, number) is None:  # in most histories: nothing else need be read
        return None
    config = index.config_of(number)
    if config is None:
        return ()
    if not has_cells(config):
        return None
    try:
        rounds = _rounds(index, number)
        current = rounds.rounds[number]
        groups = Cells(rounds, config).groups(current) if current.order else ()
        return tuple(tuple(current.order[place] for place in group.positions) for group in groups) or None
    except (LookupError, ValueError, AttributeError, StopIteration, InvalidContent):
        return ()


def standstill_of(index: Index) -> str:
    """Why nobody takes part in a round any more until people act, in one clause; empty where that is not so.

    Only where the last round that has ended left no model: in most histories nothing else need be read.
    """
    last = "SELECT number FROM rounds WHERE status != 'running' ORDER BY number DESC LIMIT 1"
    number = index.value(f"SELECT number FROM ({last}) JOIN rounds USING (number) WHERE status IN ('failed', 'voided')")
    config = index.config_of(number) if number is not None else None
    if number is None or config is None:
        return ""
    try:
        return sums_used_up(_rounds(index, number), config, number + 1)
    except (LookupError, ValueError, AttributeError, StopIteration, InvalidContent):
        return ""


def _rounds(index: Index, last: int) -> Rounds:
    """The records up to a round's last one, sorted."""
    rounds = Rounds(index.deployment.settings.quorum)
    end = index.value("SELECT max(id) FROM records WHERE round = ?", last)
    for row in index.rows("SELECT * FROM records WHERE id <= ? ORDER BY id", end):
        rounds.add(_record(entry_from(row)))
    return rounds


def _record(entry: Entry) -> Record:
    """The record of an entry; of its place only the block."""
    kind = _KINDS[entry.kind]
    types = get_type_hints(kind)
    values = {name: _value(types[name], value) for name, value in entry.fields.items()}
    return kind(Position(entry.block, bytes(32), 0), **values)


def _value(kind: Any, value: Any) -> Any:
    if kind is bytes:
        return bytes.fromhex(value)
    if kind is Phase:
        return Phase[value.upper()]
    return int(value) if kind is int else tuple(value) if isinstance(value, list) else value
