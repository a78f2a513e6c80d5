"""``report.json``: what a run came to, derived from the ledger's records and the store; an audit derives it again."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from statistics import mean

from fedgrove.chain.network.history import LedgerHistory
from fedgrove.chain.records import (
    AbsenceRecorded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    Disputed,
    DrawEnded,
    Drawn,
    DrawRejected,
    Failed,
    LedgerFounded,
    MailboxKeyRotated,
    Record,
    Recovered,
    Registered,
    RegistryFounded,
    Released,
    Revoked,
    RoundOpened,
    SealChunk,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, TooLarge
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.content import fetch_metrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

CALLS: dict[type[Record], str] = {
    RegistryFounded: "deploy",
    LedgerFounded: "deploy",
    Registered: "register",
    Approved: "approve",
    Revoked: "revoke",
    VrfKeyRotated: "rotate_vrf_key",
    MailboxKeyRotated: "rotate_mailbox_key",
    Withdrawn: "withdraw",
    AbsenceRecorded: "report_absences",
    RoundOpened: "open",
    SeedFixed: "fix_seed",
    Drawn: "draw",
    DrawRejected: "draw_batch",
    DrawEnded: "draw",
    Sealed: "seal",
    SealChunk: "seal",
    Skipped: "skip",
    Shared: "share",
    ShareEnded: "share",
    Committed: "commit",
    CommitEnded: "commit",
    Released: "release",
    Recovered: "recover",
    Closed: "close",
    Failed: "fail",
    Disputed: "dispute",
    Voided: "dispute",
}
_MOST_COUNTED = 1 << 32  # no federation's terms allow larger blobs


@dataclass(frozen=True)
class RoundReport:
    """One round for people.

    Attributes
    ----------
    status : str
        ``closed``, ``skipped``, ``failed: reason`` or ``voided`` (after disputes).
    accuracy, loss : float or None
        Of the closed model, as published; None when there is none, or it was not evaluated.
    drawn, committed : int
        Clients that drew and that committed.
    dropped : list of int
        Clients that drew and did not commit.
    model_cid : str
        The model that stands after the round.
    gas_used : int
        Gas of all transactions that left a record of this round.
    seconds : float
        Wall time; the one figure that cannot be audited.
    privacy : dict or None
        What the round released, as published; not in the report where the terms have no mechanism.
    members : dict or None
        The members' own metrics of the model that the round began with; not in the report where the terms ask for none.
    only_class : int or None
        The class that the closed model predicts for every test sample, as published; not in the report of other models.
    scores : dict or None
        AUC, confusion matrix and the like of the closed model, as published; not in the report where there are none.
    """

    round: int
    status: str
    accuracy: float | None
    loss: float | None
    drawn: int
    committed: int
    dropped: list[int]
    model_cid: str
    gas_used: int
    seconds: float
    privacy: dict | None = None
    members: dict | None = None
    only_class: int | None = None
    scores: dict | None = None

    def to_dict(self) -> dict:
        """A JSON-ready form."""
        optional = ("privacy", "members", "only_class", "scores")
        return {name: value for name, value in asdict(self).items() if name not in optional or value is not None}


def build_report(history: LedgerHistory, store: ContentReader, seconds: Mapping[int, float]) -> dict:
    """Derive the report of a run from the ledger's history and the store.

    Parameters
    ----------
    seconds : mapping
        Wall time of each round, by number.

    Returns
    -------
    dict
        JSON-ready: ``rounds``, ``gas`` (per call), ``bytes`` (upload per round and client), ``config``, ``ledger``;
        and what the method adds.
    """
    records = history.records()
    rounds = Rounds()
    for record in records:
        rounds.add(record)
    ended = rounds.ended()
    method = fetch_method(store, ended[0].opened.config_digest) if ended else None
    config = method.config if method else None
    gas = _gas_of_rounds(records, history)
    return {
        **(method.report(rounds, store) if method else {}),
        "rounds": [_round_report(each, store, config, gas, seconds).to_dict() for each in ended] if config else [],
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
        used.setdefault(CALLS[type(record)], {})[transaction] = history.transactions[transaction].gas_used
    return {
        call: {"count": len(costs), "mean": round(mean(costs.values())), "max": max(costs.values())}
        for call, costs in sorted(used.items())
    }


def upload_bytes(current: RoundRecords, store: ContentReader) -> dict[str, int]:
    """Bytes that each client put into the store in one round, by client index.

    What cannot be a blob of any federation counts as nothing: a few blocks can describe a file without end.
    """
    total: dict[str, int] = {}
    for by_client in (current.shares, current.commits, current.releases):
        for client, record in by_client.items():
            with suppress(NotFound, TooLarge, Malformed):
                if store.has(record.digest):
                    size = store.root(record.digest, _MOST_COUNTED).size
                    total[str(client)] = total.get(str(client), 0) + size
    return total


def _gas_of_rounds(records: list[Record], history: LedgerHistory) -> dict[int, int]:
    transactions: dict[int, set[bytes]] = {}
    for record in records:
        number = getattr(record, "round", None)
        if number is not None:
            transactions.setdefault(number, set()).add(record.at.transaction)
    return {
        number: sum(history.transactions[transaction].gas_used for transaction in hashes)
        for number, hashes in transactions.items()
    }


def _round_report(
    current: RoundRecords,
    store: ContentReader,
    config: FederationConfig,
    gas: Mapping[int, int],
    seconds: Mapping[int, float],
) -> RoundReport:
    standing = current.closing.model_digest if current.stands else current.opened.model_digest
    metrics = fetch_metrics(store, current.closing.metrics_digest) if current.stands else None
    evaluated = metrics if metrics is not None and metrics.samples > 0 else None
    return RoundReport(
        round=current.number,
        status=_status(current),
        accuracy=evaluated.accuracy if evaluated else None,
        loss=evaluated.loss if evaluated else None,
        drawn=len(current.draws),
        committed=len(current.commits),
        dropped=sorted(set(current.draws) - set(current.commits)),
        model_cid=str(cid_of(store.fetch(standing, config.max_blob_bytes))),
        gas_used=gas.get(current.number, 0),
        seconds=round(seconds.get(current.number, 0.0), 3),
        privacy=metrics.privacy.to_table() if metrics is not None and metrics.privacy is not None else None,
        scores=evaluated.scores.to_table() if evaluated is not None and evaluated.scores is not None else None,
        members=metrics.members.to_report() if metrics is not None and metrics.members is not None else None,
        only_class=evaluated.only_class if evaluated else None,
    )


def _status(current: RoundRecords) -> str:
    if current.voided is not None:
        return "voided"
    if isinstance(current.end, Failed):
        return f"failed: {current.end.reason.name.lower()}"
    return type(current.end).__name__.lower()
