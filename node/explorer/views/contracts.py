"""Gas a call, and the records that belong to no round and no client."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import mean

from fedgrove.chain.records import KINDS
from fedgrove.node.explorer.checks import Checks
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.rows import RecordRow, rows_of
from fedgrove.node.status.price import ETHER
from fedgrove.node.status.report import call_of

_CALLS = {kind.__name__: call_of(kind) for kind in KINDS}


@dataclass(frozen=True)
class GasCost:
    """Gas of a contract's function: in how many transactions, their mean, the highest, and all; the fees for it."""

    call: str
    count: int
    mean: float
    most: int
    sum: int
    fee: float


def gas(index: Index) -> list[GasCost]:
    """Gas of each function that was called."""
    used: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    query = "SELECT DISTINCT kind, tx, gas, wei FROM records JOIN transactions ON transactions.id = tx"
    for row in index.rows(query):
        used[_CALLS[row["kind"]]][row["tx"]] = (row["gas"], int(row["wei"]))
    return [_cost(call, list(costs.values())) for call, costs in sorted(used.items())]


def foundings(index: Index, checks: Checks) -> list[RecordRow]:
    """How registry and ledger were created."""
    return rows_of(index, checks, "kind IN ('RegistryFounded', 'LedgerFounded')")


def approvals(index: Index, checks: Checks) -> list[RecordRow]:
    """Approvals of members-to-be, and their ends; they belong to no client."""
    return rows_of(index, checks, "kind IN ('Approved', 'Revoked')")


def _cost(call: str, costs: list[tuple[int, int]]) -> GasCost:
    spent, fees = zip(*costs, strict=True)
    return GasCost(call, len(spent), mean(spent), max(spent), sum(spent), sum(fees) / ETHER)
