"""Methods for clients with similar data: ProCFL and its rivals, as plain checked values."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedgrove.common.settings import Settings
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.terms import MAX_TASK_LABELS

Mean = Literal["mean", "krum", "multi-krum", "median", "trimmed-mean"]
MAX_MODELS = 100


@dataclass(frozen=True)
class SimulatedProCfl(ProCflSettings):
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

    psi: Literal["clear", "ecdh", "rsa"] = "clear"
    labels: Annotated[int, Meta(ge=0, le=MAX_TASK_LABELS)] = 0
    shown: Literal["upload", "noised"] = "noised"


@dataclass(frozen=True)
class IfcaSettings(Settings):
    """The rival IFCA (Ghosh et al. 2020).

    Attributes
    ----------
    models : int
        k: number of models trained, each from different initial weights.
    """

    method: ClassVar[str] = "ifca"

    models: Annotated[int, Meta(ge=1, le=MAX_MODELS)] = 5


@dataclass(frozen=True)
class GlobalSettings(Settings):
    """One model for all, as a rival whose personalised accuracy and robustness are measured.

    Attributes
    ----------
    mean : str
        How the clients' models become the next model: their mean weighted by samples (FedAvg), or a robust mean that
        looks at each of them. Krum and the trimmed mean are given the number of attackers, the most favourable case.
    """

    method: ClassVar[str] = "global"

    mean: Mean = "mean"


ClusteringSettings = SimulatedProCfl | IfcaSettings | GlobalSettings

METHODS: dict[str, type[ClusteringSettings]] = {
    kind.method: kind for kind in (SimulatedProCfl, IfcaSettings, GlobalSettings)
}
"""Settings by their ``method``."""
