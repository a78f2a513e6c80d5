"""Methods for clients with similar data: ProCFL and its rivals, as plain checked values."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedgrove.node.base.nested_tables import Tables, value_in
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.terms import MAX_TASK_LABELS, ProCflTerms
from fedgrove.node.methods.procfl.training import global_rounds
from fedgrove.node.scenario.method import NOBODY, MethodChoice

Mean = Literal["mean", "krum", "multi-krum", "median", "trimmed-mean"]
MAX_MODELS = 100
_ALIKE = 0.5  # suits groups of clients that have a fifth of their samples in common with all
_GROUP = 4  # clients whose data are alike, where they are to cluster
_OTHERS = 0.2


class ClusteringChoice(MethodChoice):
    """A method for clients with similar data; where nothing else is said, they come in groups with main labels."""

    several: ClassVar[bool] = True

    @classmethod
    def suited(cls, tables: Tables) -> Tables:
        if "partition" in tables or "task" in tables:
            return {}
        groups = max(2, value_in(tables, "scenario", "clients", 8) // _GROUP)
        return {"partition": {"kind": "groups", "groups": groups, "others": _OTHERS}}


@dataclass(frozen=True)
class SimulatedProCfl(ProCflSettings, ClusteringChoice):
    """ProCFL, in a simulation or in a federation whose coordinator is not named yet.

    Attributes
    ----------
    psi : str
        How a simulation finds overlaps: ``ecdh`` and ``rsa`` exchange their real messages, ``clear`` uses the formula.
        All three give the same clusters. Federations use ``ecdh``.
    labels : int
        How many labels a task's samples have, from 0; 0 for a shipped model. Only in a federation.
    shown : str
        Evidence that a suspected member shows to its committee in a federation: ``noised`` or ``upload``.
    """

    meaning: ClassVar[str] = "similar clients train together"

    psi: Literal["clear", "ecdh", "rsa"] = "clear"
    labels: Annotated[int, Meta(ge=0, le=MAX_TASK_LABELS)] = 0
    shown: Literal["upload", "noised"] = "noised"

    @classmethod
    def suited(cls, tables: Tables) -> Tables:
        groups = super().suited(tables)
        return groups | ({cls.name: {"alpha": _ALIKE}} if groups else {})

    def terms(self, counter: bytes, signer: str) -> ProCflTerms:
        known = {item.name for item in fields(ProCflTerms)} - {"counter", "signer"}
        return ProCflTerms(**{name: getattr(self, name) for name in known}, counter=counter.hex(), signer=signer)

    @property
    def first_rounds(self) -> int:
        return self.terms(bytes(32), NOBODY).first_rounds

    def comparisons(self, clients: int) -> int:
        return math.comb(clients, 2)

    def first_stage(self, rounds: int) -> int:
        last_global = global_rounds(rounds, self.global_share)
        return last_global if last_global < rounds else 0


@dataclass(frozen=True)
class IfcaSettings(ClusteringChoice):
    """The rival IFCA (Ghosh et al. 2020).

    Attributes
    ----------
    models : int
        k: number of models trained, each from different initial weights.
    """

    name: ClassVar[str] = "ifca"
    meaning: ClassVar[str] = "each client trains the model that fits it best, in a simulation"

    models: Annotated[int, Meta(ge=1, le=MAX_MODELS)] = 5


@dataclass(frozen=True)
class GlobalSettings(ClusteringChoice):
    """One model for all, as a rival whose personalised accuracy and robustness are measured.

    Attributes
    ----------
    mean : str
        How the clients' models become the next model: their mean weighted by samples (FedAvg), or a robust mean that
        looks at each of them. Krum and the trimmed mean are given the number of attackers, the most favourable case.
    """

    name: ClassVar[str] = "global"
    meaning: ClassVar[str] = "one model as a rival of clusters, in a simulation"

    mean: Mean = "mean"
