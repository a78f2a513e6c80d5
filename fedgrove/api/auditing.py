"""Auditing a finished run."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from fedgrove.node.audit.archive import NoArchive, audit_car, audit_directory
from fedgrove.node.audit.pins import Pins
from fedgrove.node.audit.verdict import Verdict

__all__ = ["NoArchive", "Pins", "Verdict", "audit"]


def audit(
    run: str | PathLike[str], *, pins: Pins | None = None, progress: Callable[[int], None] | None = None
) -> Verdict:
    """Recompute a run's whole training history and name the first bad record.

    Parameters
    ----------
    run : path
        A directory, as ``fedgrove demo --out`` leaves it, or a CAR file of ``fedgrove audit export``.
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
    NoArchive
        There is no run at this path, or it cannot be read.
    """
    path = Path(run)
    return (audit_directory if path.is_dir() else audit_car)(path, progress, pins)
