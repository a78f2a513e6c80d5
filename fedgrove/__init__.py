"""Auditable, decentralised, privacy-preserving federated learning on an EVM ledger and IPFS.

Audit a run that ``fedgrove demo --out run`` left, and look at its history:

>>> import fedgrove as fg
>>> fg.audit("run").verdict  # doctest: +SKIP
'verified'
>>> history = fg.History("run")  # doctest: +SKIP
>>> for each in history.rounds:  # doctest: +SKIP
...     print(each.number, each.outcome, each.metrics.accuracy)
1 closed 0.61
2 closed 0.74
>>> weights = history.model()  # doctest: +SKIP

Below it are ``fedgrove.chain`` (the contracts), ``fedgrove.ipfs`` (content-addressed storage) and ``fedgrove.node``
(what members, coordinators and auditors run).
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgrove.auditing import audit
    from fedgrove.history import History, Round
    from fedgrove.node.learning.tasks import Data, Task

__version__ = version("fedgrove")
__all__ = ["Data", "History", "Round", "Task", "__version__", "audit"]

_HOMES = {
    "Data": "fedgrove.node.learning.tasks",
    "History": "fedgrove.history",
    "Round": "fedgrove.history",
    "Task": "fedgrove.node.learning.tasks",
    "audit": "fedgrove.auditing",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: every module of fedgrove imports this one."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgrove' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
