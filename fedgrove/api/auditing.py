"""Auditing a finished run, or a live federation."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from fedgrove.api.ledgers import is_endpoint, read_live
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import audit_car, audit_directory, chain_facts
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.verdict import Verdict

__all__ = ["InvalidInput", "Pins", "Verdict", "audit"]


def audit(
    run: str | PathLike[str],
    *,
    ledger: str | None = None,
    store: ContentReader | str | None = None,
    pins: Pins | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verdict:
    """Recompute a run's whole training history and name the first bad record.

    Parameters
    ----------
    run : path or str
        A directory, as ``fedgrove demo --out`` leaves it; a CAR file of ``fedgrove audit export``; or, with ``ledger``
        and ``store``, the URL of a chain's endpoint (JSON-RPC).
    ledger : str, optional
        Address of a live federation's TrainingLedger contract.
    store : ContentReader or str, optional
        Its store: ``disk:PATH``, or the URL of a Kubo API.
    pins : Pins, optional
        What is known from elsewhere: published heads, the ledger that is meant, members' signed statements. Without
        them nothing shows that the history was not cut short (``Verdict.unpinned``).
    progress : callable, optional
        Called with the number of records checked so far.

    Returns
    -------
    Verdict
        ``verdict`` is ``verified``, ``bad record`` or ``cannot tell``.

    Raises
    ------
    InvalidInput
        There is no run at this path, or it cannot be read.
    InvalidInput, ChainError, StoreError, BadHistory
        As ``fedgrove.api.ledgers.read_live``; InvalidInput, too, for ``ledger`` or ``store`` with a path.
    """
    report = None if progress is None else lambda done, of_all: progress(done)
    if is_endpoint(run):
        history, content = read_live(str(run), ledger, store)
        return Auditor(chain_facts(history), history.records(), content, report, pins).run()
    if ledger is not None or store is not None:
        raise InvalidInput("ledger and store go with the URL of a chain's endpoint: leave them out with a run's path")
    path = Path(run)
    return (audit_directory if path.is_dir() else audit_car)(path, report, pins)
