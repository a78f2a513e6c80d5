"""Auditing a finished run, or a live federation."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.founding import read_deployment, verify_code
from fedgrove.chain.face.networks import connect
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.kubo_address import FORMS
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import audit_car, audit_directory, chain_facts, opened_run
from fedgrove.node.audit.auditor import Auditor, Progress
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.succession import contradicted, with_before
from fedgrove.node.audit.verdict import Verdict

_SCHEMES = ("http://", "https://")
_DISK = "disk:"


def is_endpoint(run: object) -> bool:
    """Whether it is the URL of a chain's endpoint, not a path."""
    return isinstance(run, str) and run.startswith(_SCHEMES)


def read_live(url: str, ledger: str | None, store: ContentReader | str | None) -> tuple[LedgerHistory, ContentReader]:
    """All that a ledger holds by now, and the store.

    Parameters
    ----------
    url : str
        Of an EVM JSON-RPC endpoint.
    ledger : str
        Address of the TrainingLedger contract, whose code must be that of this version.
    store : ContentReader or str
        Or ``disk:PATH``, or the address of a Kubo API.

    Raises
    ------
    InvalidInput
        Ledger or store are missing, or cannot be what they are called.
    ChainError, StoreError
        The endpoint does not answer or has no such ledger, or the store's address is none.
    BadHistory
        The records do not fit the blocks.
    """
    if ledger is None or store is None:
        raise InvalidInput("a chain's URL needs the address of a ledger and a store: give ledger and store, too")
    content = _reader(store)
    with connect(url) as network:
        deployment = read_deployment(network, ledger, None)
        verify_code(network, deployment)
        history = capture(network, deployment)
    history.verify()
    return history, content


def _reader(store: ContentReader | str) -> ContentReader:
    if not isinstance(store, str):
        return store
    if store.startswith(_DISK):
        place = Path(store.removeprefix(_DISK))
        if not place.is_dir():
            raise InvalidInput(f"there is no store at {place}")
        return DiskReader(place, grows=True)
    if not store.startswith(FORMS):
        raise InvalidInput(f"store must be disk:PATH or the URL of a Kubo API, not {store!r}")
    from fedgrove.ipfs.kubo import open_kubo  # an extra of its own

    return open_kubo(store)


__all__ = ["InvalidInput", "Pins", "Verdict", "audit"]


def audit(
    run: str | PathLike[str],
    *,
    ledger: str | None = None,
    store: ContentReader | str | None = None,
    pins: Pins | None = None,
    before: str | PathLike[str] | None = None,
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
    before : path or str, optional
        Directory or CAR file of the earlier federation that this one continues: it is checked as far as this one rests
        on it (``Verdict.before``).
    progress : callable, optional
        Called with the number of records checked so far.

    Returns
    -------
    Verdict
        ``verdict`` is ``verified``, ``consistent, no round closed``, ``bad record`` or ``cannot tell``.

    Raises
    ------
    InvalidInput
        There is no run at this path, or it cannot be read.
    InvalidInput, ChainError, StoreError, BadHistory
        As ``fedgrove.api.auditing.read_live``; InvalidInput, too, for ``ledger`` or ``store`` with a path, and where
        the run does not continue the one ``before``.
    """
    report: Callable[[int, int], None] | None = None if progress is None else lambda done, _: progress(done)
    verdict = _audited(run, ledger, store, pins, report)
    if before is None or verdict.verdict != "verified":
        return verdict
    try:
        with opened_run(Path(before)) as (history, content):
            return with_before(verdict, history, content, report)
    except (BadHistory, InvalidContent) as fault:
        return contradicted(verdict, str(fault))


def _audited(
    run: str | PathLike[str],
    ledger: str | None,
    store: ContentReader | str | None,
    pins: Pins | None,
    report: Progress | None,
) -> Verdict:
    if is_endpoint(run):
        history, content = read_live(str(run), ledger, store)
        return Auditor(chain_facts(history), history.records(), content, report, pins).run()
    if ledger is not None or store is not None:
        raise InvalidInput("ledger and store go with the URL of a chain's endpoint: leave them out with a run's path")
    path = Path(run)
    return (audit_directory if path.is_dir() else audit_car)(path, report, pins)
