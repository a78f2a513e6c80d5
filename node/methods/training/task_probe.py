"""A task's code, asked for more than rounds need: what it is, what one step does, its example data."""

from base64 import b64decode
from dataclasses import asdict, dataclass, replace

import msgspec

from fedgrove.common.text import one_line
from fedgrove.node.base.tensors import Layout, Tensors, prefixed
from fedgrove.node.learning.held_out import HoldOutRule
from fedgrove.node.learning.local_update import MODEL, LocalUpdate, RoundPosition
from fedgrove.node.learning.settings import CONFUSION, EvaluationSettings, is_pair
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.training.task_data import Shapes, Summed, TaskData, TaskFailed, TaskProcess, layout_of, said
from fedgrove.node.protocol.method import Evaluated
from fedgrove.node.protocol.terms import FederationConfig

_SHOWN = 200  # characters of what a task says of itself


class _Look(msgspec.Struct, frozen=True):
    name: str
    model: Shapes
    again: Shapes
    kept: Shapes
    extras: Shapes
    state: Shapes


class _Step(msgspec.Struct, frozen=True):
    seen: dict[str, str]


class _Example(msgspec.Struct, frozen=True):
    ending: str
    data: str


@dataclass(frozen=True)
class LoadedTask:
    """A task's class, layouts of two models that it made one after the other, and of what stays at home of one.

    ``extras`` is what the strategy sends with a model, ``state`` what it keeps of a client from round to round.
    """

    name: str
    model: Layout
    again: Layout
    kept: Layout
    extras: Layout
    state: Layout

    @property
    def sent(self) -> Layout:
        shapes = dict(zip(self.model.names, self.model.shapes, strict=True))
        shapes |= dict(zip(self.extras.names, self.extras.shapes, strict=True))
        names = tuple(sorted(shapes))
        return Layout(names, tuple(shapes[name] for name in names))


@dataclass(frozen=True)
class WatchedStep:
    """What a step of training left, and types and shapes of ``inputs``, ``output``, ``target`` and ``loss``."""

    update: LocalUpdate
    seen: dict[str, str]


class TaskProbe(TaskData):
    """A task on one source of data, or on none, for those who want to know whether it works."""

    def __init__(self, config: FederationConfig, process: TaskProcess, form: TableFormat | None = None) -> None:
        super().__init__(config, process, form=form)
        self._rounds = config.federation.rounds

    def look(self) -> LoadedTask:
        found = said(_Look, self._run("look"))
        layouts = map(layout_of, (found.model, found.again, found.kept, found.extras, found.state))
        return LoadedTask(_shown(found.name), *layouts)

    def fresh(self, expected: Layout) -> Tensors:
        """A first model, without a look at any data; TaskFailed if it has other tensors than expected."""
        return self._run("first", {"seed": self._learned.seed}, expected=expected).tensors

    def step(self, model: Tensors, number: int, state: Tensors) -> WatchedStep:
        """Train on one batch or two of the data in round ``number``; TaskFailed or DivergedTraining if that fails."""
        size = self._learned.training.batch_size
        more = {
            "part": (0, max(1, len(self) // size)),
            "training": asdict(replace(self._learned.training, epochs=1)),
        }
        position: RoundPosition = {"number": number, "rounds": self._rounds, "seed": self._learned.seed}
        reply = self._training("step", model, position, 0, state, more)
        return WatchedStep(self._update(reply), {name: _shown(each) for name, each in said(_Step, reply).seen.items()})

    def _evaluated(self, found: Summed) -> Evaluated:
        """As of any data; TaskFailed where the task's own metrics raised, which costs members their metrics."""
        if found.fault:
            raise TaskFailed(_shown(found.fault))
        return super()._evaluated(found)

    def metrics(self, model: Tensors, settings: EvaluationSettings) -> list[str]:
        """Names of the sums that a member's evaluation of a model gives; TaskFailed if that fails."""
        rule = HoldOutRule(bytes(32), settings.millionths)
        split = {"split": rule.to_header()} if settings.held_out else {}
        found = said(Summed, self._run("measure", split, prefixed(MODEL, model)))
        if found.fault:
            raise TaskFailed(_shown(found.fault))
        broken = [name for name in settings.metrics if name in found.names and name not in found.totals]
        if broken:
            raise TaskFailed(f"the metric {', '.join(broken)} is not a finite number {_shown(found.place)}")
        shown = [_shown(name) for name in found.names if not is_pair(name)]
        return [*shown, CONFUSION] if len(shown) < len(found.names) else shown

    def example(self) -> tuple[str, bytes]:
        """The ending of the example file's name, as ``.csv``, and its bytes; TaskFailed if there is none."""
        found = said(_Example, self._run("example"))
        ending = found.ending
        try:
            content = b64decode(found.data, validate=True)
        except ValueError:
            raise TaskFailed("the task's example data are not in base 64") from None
        fine = ending[:1] == "." and ending[1:].isascii() and ending[1:].isalnum() and len(ending) < 10
        return ending if fine else "", content


def _shown(text: str) -> str:
    return one_line(text, _SHOWN)
