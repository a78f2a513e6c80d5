"""What a task's author suggests for the terms: ``terms.toml`` in the task's folder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.nested_tables import merged
from fedgrove.node.base.strict_tables import InvalidConfig, build, check_value
from fedgrove.node.base.strict_toml import parse_toml
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings
from fedgrove.node.tasks.folder import read_file

TERMS = "terms.toml"


@dataclass(frozen=True)
class SuggestedTerms:
    """A task's ``terms.toml``; ``bound`` is that of ``[masking]``. Members evaluate only where it says how.

    ``task`` is the table of the terms, without the bundle; its ``name`` is that of a shipped task, where the folder has
    no code.
    """

    task: TaskSettings = field(default_factory=TaskSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    bound: float = 8.0
    evaluation: EvaluationSettings | None = None

    def __post_init__(self) -> None:
        check_value(not self.task.bundle, "task.bundle", "left out: `fedgrove task pack` says it")

    @property
    def default_strategy(self) -> str:
        """FedAom; FedAvg for a task without the shared set that FedAom needs."""
        return "fedaom" if self.task.shared else "fedavg"

    def to_tables(self) -> dict[str, dict[str, Any]]:
        """The tables that terms and a simulation's plan have in common."""
        own = asdict(self.task) | {"keep": list(self.task.keep), "bases": [asdict(base) for base in self.task.bases]}
        del own["bundle"]
        return {"task": own, "training": asdict(self.training), "masking": {"bound": self.bound}}


def evaluation_left_out(mechanism: str, remedy: str = "") -> str:
    """A sentence for people: why a suggested evaluation is not followed with a privacy mechanism.

    ``remedy`` is an option or a table by which the user can ask for an evaluation anyway; empty where there is none.
    """
    sentence = f"the [evaluation] that the task suggests is left out with privacy.mechanism {mechanism}"
    if mechanism != ClientLevelSettings.mechanism:
        return f"{sentence}, under which members do not evaluate together"
    ask = f"; ask for it with {remedy}" if remedy else ""
    return f"{sentence}: it spends budget, and needs {LEAST_RATED} drawn clients{ask}"


def suggested_by(folder: Path, changes: Mapping[str, Any] | None = None) -> SuggestedTerms:
    """What a folder suggests; the defaults where it has no such file, InvalidConfig where it is not right.

    Parameters
    ----------
    changes : mapping, optional
        Tables with keys that get other values.
    """
    path = folder / TERMS
    return read_suggestion(read_file(path) if path.is_file() else None, str(path), changes)


def read_suggestion(text: bytes | None, where: str, changes: Mapping[str, Any] | None = None) -> SuggestedTerms:
    """The suggestion in a file's bytes; the defaults for None, InvalidConfig where they are not right."""
    try:
        return build(SuggestedTerms, merged(parse_toml(text or b""), changes or {}), "")
    except (InvalidInput, InvalidContent) as fault:
        raise InvalidConfig(f"{where}: {fault}") from None
