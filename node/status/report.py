"""``report.json``: what a run came to, derived from the ledger's records and the store; an audit derives it again."""

import re
from collections.abc import Mapping
from statistics import mean

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import Record
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.status.rounds import RoundReader, upload_bytes

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def call_of(kind: type[Record]) -> str:
    """The call that leaves records of a kind, as people read it; ``deploy`` of those that founding leaves."""
    return _CAPITAL.sub("_", kind.CALLS[0]).lower() if kind.CALLS else "deploy"


def build_report(history: LedgerHistory, store: ContentReader, seconds: Mapping[int, float]) -> dict:
    """Derive the report of a run from the ledger's history and the store.

    Parameters
    ----------
    seconds : mapping
        Wall time of each round, by number.

    Returns
    -------
    dict
        JSON-ready: ``rounds`` (``Round.to_dict``), ``gas`` (per call), ``bytes`` (upload per round and client),
        ``config``, ``ledger``; and what the method adds.
    """
    records = history.records()
    rounds = Rounds(history.deployment.settings.quorum)
    for record in records:
        rounds.add(record)
    ended = rounds.ended()
    method = fetch_method(store, ended[0].opened.config_digest) if ended else None
    config = method.config if method else None
    reader = RoundReader(store, history, seconds)
    return {
        **(method.report(rounds, store) if method else {}),
        "rounds": [each.to_dict() for each in reader.read(rounds, ended=True)],
        "gas": gas_table(records, history),
        "bytes": {str(each.number): upload_bytes(each, store) for each in ended},
        "config": config.to_tables() if config else {},
        "ledger": {
            "chain_id": history.chain_id,
            "registry": history.deployment.registry,
            "ledger": history.deployment.ledger,
            "head_block": history.head_block,
            "head_hash": "0x" + history.block_hash(history.head_block).hex(),
        },
    }


def gas_table(records: list[Record], history: LedgerHistory) -> dict[str, dict[str, int]]:
    """Gas per kind of call: how many, mean and maximum, from the receipts of the transactions behind the records."""
    used: dict[str, dict[bytes, int]] = {}
    for record in records:
        transaction = record.at.transaction
        used.setdefault(call_of(type(record)), {})[transaction] = history.transactions[transaction].gas_used
    return {
        call: {"count": len(costs), "mean": round(mean(costs.values())), "max": max(costs.values())}
        for call, costs in sorted(used.items())
    }
