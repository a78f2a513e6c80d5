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
    "Answers": "fedgrove.node.learning.tasks",
    "ChainError": "fedgrove.chain.errors",
    "Data": "fedgrove.node.learning.tasks",
    "Error": "fedgrove.common.errors",
    "History": "fedgrove.api.history",
    "InvalidContent": "fedgrove.common.errors",
    "InvalidInput": "fedgrove.common.errors",
    "Predictor": "fedgrove.api.predicting",
    "Refused": "fedgrove.common.errors",
    "Round": "fedgrove.node.status.rounds",
    "Run": "fedgrove.api.running",
    "RunFailed": "fedgrove.common.errors",
    "Scenario": "fedgrove.node.scenario.scenario",
    "Standardise": "fedgrove.node.learning.tasks",
    "StoreError": "fedgrove.ipfs.store",
    "Task": "fedgrove.node.learning.tasks",
    "Unlabelled": "fedgrove.node.learning.tasks",
    "Verdict": "fedgrove.node.audit.verdict",
    "audit": "fedgrove.api.auditing",
    "demo": "fedgrove.api.demonstrating",
    "load": "fedgrove.api.predicting",
    "scenario": "fedgrove.api.describing",
    "simulate": "fedgrove.api.simulating",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: every module of fedgrove imports this one."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedgrove' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
