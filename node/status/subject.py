"""What a federation learns, in words: the one description for pages, comparisons, the JSON interface and commands."""

from dataclasses import dataclass

from fedgrove.common.text import counted
from fedgrove.node.base.visible import is_visible
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.tables.settings import TableSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.protocol.terms import FederationConfig

MECHANISMS = {
    "client": "client-level differential privacy",
    "local": "local differential privacy",
    "signds": "SignDS",
}
"""Names of the privacy mechanisms for people."""
_LONGEST = 60


@dataclass(frozen=True)
class Subject:
    """What is learned, and how.

    Attributes
    ----------
    kind : str
        ``network`` (one that ships with fedgrove), ``table``, ``images``, ``task`` (the members' own code), or the
        name of a method that trains none of them.
    words : str
        What is learned, as a noun phrase that begins a sentence.
    manner : str
        How: the strategy, the masks and the privacy mechanism.
    """

    kind: str
    words: str
    manner: str

    @property
    def sentence(self) -> str:
        """Both, without a full stop."""
        return f"{self.words}, {self.manner}"


def subject_of(config: FederationConfig) -> Subject:
    """What the terms say that is learned. Names of columns and classes are cut, with characters that do not show."""
    method = config.method.words
    if method.learned:
        return Subject(config.method.name, method.learned, method.manner)
    kind, words = _task(config.learned)
    return Subject(kind, words, _manner(config))


def _task(task: TaskSettings) -> tuple[str, str]:
    options = task.shipped
    if isinstance(options, ModelSpec):
        return "network", _network(options)
    if isinstance(options, TableSettings):
        return "table", _table(options)
    if isinstance(options, ImageSettings):
        return "images", f"{counted(len(options.classes), 'class', 'classes')} of images, by {_network(options.spec)}"
    return "task", f"A task of the members’ own, {task.bundle[:12]}…{task.bundle[-6:]}"


def _network(spec: ModelSpec) -> str:
    return f"{spec.name} on inputs of {' × '.join(map(str, spec.input_shape))}"


def _table(options: TableSettings) -> str:
    asked = f"{len(options.classes)} classes of" if options.kind == "classification" else "The number in"
    model = {"linear": "a linear model", "mlp": f"a network of {counted(len(options.hidden), 'hidden layer')}"}
    columns = counted(len(options.columns), "column")
    return f"{asked} “{_named(options.target)}”, from {columns} of a table, by {model[options.model]}"


def _manner(config: FederationConfig) -> str:
    privacy = f" and {MECHANISMS[config.mechanism]}" if config.privacy is not None else ""
    return f"trained with {config.strategy.name}{config.method.words.manner} under {config.masking.mode} masks{privacy}"


def _named(text: str) -> str:
    shown = "".join(letter if is_visible(letter) else "�" for letter in text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}…"
