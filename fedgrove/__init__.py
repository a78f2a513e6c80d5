"""Auditable, decentralised, privacy-preserving federated learning on an EVM ledger and IPFS.

Examples
--------
Run a federation on this machine, and look at what it left:

>>> import fedgrove as fg
>>> run = fg.demo("digits", clients=4, rounds=2, strategy="fedavg")
>>> run.verdict.verdict
'verified'
>>> [(each.round, each.status) for each in run.rounds]
[(1, 'closed'), (2, 'closed')]
>>> weights = run.model()  # a state dict
>>> fg.audit(run.path).verdict, len(fg.History(run.path).rounds)
('verified', 2)

Notes
-----
A class of one's own (``Task``) takes the place of ``"digits"``, with ``data`` for what it reads. ``simulate`` trains it
for many clients without ledger and store.

Below it are ``fedgrove.chain`` (the contracts), ``fedgrove.ipfs`` (content-addressed storage) and ``fedgrove.node``
(what members, coordinators and auditors run).
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgrove.api.auditing import audit
    from fedgrove.api.demonstrating import demo
    from fedgrove.api.describing import scenario
    from fedgrove.api.history import History
    from fedgrove.api.predicting import Predictor, load
    from fedgrove.api.running import Run
    from fedgrove.api.simulating import simulate
    from fedgrove.chain.errors import ChainError
    from fedgrove.common.errors import Error, InvalidContent, InvalidInput, Refused, RunFailed
    from fedgrove.ipfs.store import StoreError
    from fedgrove.node.audit.verdict import Verdict
    from fedgrove.node.learning.tasks import Answers, Data, Standardise, Task, Unlabelled
    from fedgrove.node.scenario.scenario import Scenario
    from fedgrove.node.status.rounds import Round

__version__ = version("fedgrove")
__all__ = [
    "Answers",
    "ChainError",
    "Data",
    "Error",
    "History",
    "InvalidContent",
    "InvalidInput",
    "Predictor",
    "Refused",
    "Round",
    "Run",
    "RunFailed",
    "Scenario",
    "Standardise",
    "StoreError",
    "Task",
    "Unlabelled",
    "Verdict",
    "__version__",
    "audit",
    "demo",
    "load",
    "scenario",
    "simulate",
]

_HOMES = {
    "api.auditing": ("audit",),
    "api.demonstrating": ("demo",),
    "api.describing": ("scenario",),
    "api.history": ("History",),
    "api.predicting": ("Predictor", "load"),
    "api.running": ("Run",),
    "api.simulating": ("simulate",),
    "chain.errors": ("ChainError",),
    "common.errors": ("Error", "InvalidContent", "InvalidInput", "Refused", "RunFailed"),
    "ipfs.store": ("StoreError",),
    "node.audit.verdict": ("Verdict",),
    "node.learning.tasks": ("Answers", "Data", "Standardise", "Task", "Unlabelled"),
    "node.scenario.scenario": ("Scenario",),
    "node.status.rounds": ("Round",),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: every module of fedgrove imports this one."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'fedgrove' has no attribute {name!r}")
    return getattr(import_module(f"fedgrove.{home}"), name)
