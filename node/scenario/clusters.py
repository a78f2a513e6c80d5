"""Methods for clients with similar data: ProCFL and its rivals, as plain checked values."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedgrove.node.methods.procfl.settings import SHOWN, ProCflSettings, check_setting
from fedgrove.node.methods.procfl.terms import MAX_TASK_LABELS

PSI = ("clear", "ecdh", "rsa")
MEANS = ("mean", "krum", "multi-krum", "median", "trimmed-mean")
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
    labels: int = 0
    shown: Literal["upload", "noised"] = "noised"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting(self.psi in PSI, "psi", f"one of {', '.join(PSI)}", self.psi)
        check_setting(0 <= self.labels <= MAX_TASK_LABELS, "labels", f"from 0 to {MAX_TASK_LABELS}", self.labels)
        check_setting(self.shown in SHOWN, "shown", f"one of {', '.join(SHOWN)}", self.shown)


@dataclass(frozen=True)
class IfcaSettings:
    """The rival IFCA (Ghosh et al. 2020).

    Attributes
    ----------
    models : int
        k: number of models trained, each from different initial weights.
    """

    method: ClassVar[str] = "ifca"

    models: int = 5

    def __post_init__(self) -> None:
        check_setting(1 <= self.models <= MAX_MODELS, "models", f"from 1 to {MAX_MODELS}", self.models)


@dataclass(frozen=True)
class GlobalSettings:
    """One model for all, as a rival whose personalised accuracy and robustness are measured.

    Attributes
    ----------
    mean : str
        How the clients' models become the next model: their mean weighted by samples (FedAvg), or a robust mean that
        looks at each of them. Krum and the trimmed mean are given the number of attackers, the most favourable case.
    """

    method: ClassVar[str] = "global"

    mean: Literal["mean", "krum", "multi-krum", "median", "trimmed-mean"] = "mean"

    def __post_init__(self) -> None:
        check_setting(self.mean in MEANS, "mean", f"one of {', '.join(MEANS)}", self.mean)


ClusteringSettings = SimulatedProCfl | IfcaSettings | GlobalSettings

METHODS: dict[str, type[ClusteringSettings]] = {
    kind.method: kind for kind in (SimulatedProCfl, IfcaSettings, GlobalSettings)
}
"""Settings by their ``method``."""
