"""``fedgrove task check``: whether a task works, before anybody else has it."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.options import (
    BaseOptions,
    JsonFlag,
    Sandbox,
    TableFormatOptions,
    TaskSource,
    given_bases,
    given_format,
)
from fedgrove.node.cli.output import FAILED, CommandError, answer, note, print_json
from fedgrove.node.cli.values import words
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import has_lock
from fedgrove.node.tasks.names import InvalidBundle
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import AUTO, choose
from fedgrove.node.tasks.sandbox.settings import Mode, Visible

if TYPE_CHECKING:
    from fedgrove.node.learning.tables.formats import TableFormat
    from fedgrove.node.methods.training.task_check import TaskCheck
    from fedgrove.node.methods.training.task_code import TaskCode
    from fedgrove.node.methods.training.task_probe import TaskProbe
    from fedgrove.node.protocol.terms import FederationConfig

EXAMPLE = "example_data.py"
NO_DATA = "there are no data: give --data"
_EXAMPLE_BYTES = 1 << 25  # of the reply with example data


def check(
    source: TaskSource,
    data: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; by default the folder's example data.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            help=f"Local training to check with: {', '.join(STRATEGIES)}. Default: fedavg.",
            **words(*STRATEGIES, metavar="STRATEGY"),
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A federation's TOML file: check under its terms.")
    ] = None,
    base: BaseOptions = None,
    table_format: TableFormatOptions = None,
    sandbox: Sandbox = AUTO,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a check of the task is stopped.")] = 600.0,
    as_json: JsonFlag = False,
) -> int:
    """Load a task, train one step in a sandbox as a node would, and check what a federation needs of it.

    Prints a line for each check. Exit code: 0 all is fine, 1 a check failed, 2 bad usage.

    Example: fedgrove task check readmission --data train.csv --strategy moon
    """
    require("learning", "`fedgrove task check`, which trains a step,")
    if strategy is not None and config is not None:
        raise CommandError("--config states the strategy: leave --strategy out")
    if strategy is not None and strategy not in STRATEGIES:
        raise CommandError(f"--strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    if not (source.is_dir() or (source.is_file() and source.suffix == ".py")):
        raise CommandError(f"{source} is neither a folder nor a Python file: give the folder of your task")
    if data is not None and not data.exists():
        raise CommandError(f"there is no {data}: give --data what the task's data() reads")
    if config is not None:
        _read_terms(config)
    mode, done = choose(sandbox), []
    with ExitStack() as stack:
        terms = _Terms(strategy or "fedavg", config)
        form = given_format(table_format)
        for each in _Checks(source, data, terms, given_bases(base), mode, timeout, stack, form).run():
            done.append(each)
            if not as_json:
                answer(f"{each.result:<13}{each.name:<13}{each.sentence}")
    failed = any(each.result == "failed" for each in done)
    if as_json:
        print_json({"folder": str(source), "sandbox": str(mode), "ok": not failed, "checks": list(map(_table, done))})
    return FAILED if failed else 0


def _table(each: "TaskCheck") -> dict[str, Any]:
    return {"check": each.name, "result": each.result, "sentence": each.sentence, "values": dict(each.values)}


@dataclass(frozen=True)
class _Terms:
    """Under which terms to check: a strategy with the author's suggestion, or those of a federation's file."""

    strategy: str
    config: Path | None

    def of(self, code: "TaskCode") -> "FederationConfig":
        """Terms with the task; InvalidConfig if they cannot be, or name another task."""
        return _suggested(code, self.strategy) if self.config is None else _agreed(code, self.config)


class _Checks:
    """All checks of one folder; the task's processes end with ``stack``."""

    def __init__(
        self,
        source: Path,
        data: Path | None,
        terms: _Terms,
        bases: dict[str, Path],
        mode: Mode,
        timeout: float,
        stack: ExitStack,
        form: "TableFormat | None" = None,
    ) -> None:
        self._form = form
        self._source, self._data, self._terms, self._given = source, data, terms, bases
        self._mode, self._stack = mode, stack
        self._limits = JobLimits(seconds=timeout, header=_EXAMPLE_BYTES)

    def run(self) -> Iterator["TaskCheck"]:
        # Imported here: these bring every method, and ``fedgrove task --help`` does without.
        from fedgrove.node.methods.training.task_check import (
            CheckResult,
            TaskCheck,
            TaskTrial,
            check_bases,
            check_code,
        )
        from fedgrove.node.methods.training.task_code import draft_code, write_code

        try:
            code = draft_code(self._source)
            config = self._terms.of(code)
        except InvalidInput as fault:
            yield TaskCheck("bundle", CheckResult.FAILED, str(fault))
            return
        yield check_code(code, has_lock(self._source))
        place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        bases = config.learned.bases
        try:
            self._bases = BaseShelf(place).open_all(bases, BaseSources(self._given))
        except InvalidBundle as fault:
            yield TaskCheck("bases", CheckResult.FAILED, str(fault))
            return
        if bases:
            yield check_bases(bases)
        write_code(place / "task", code.bundle)
        data, reason = self._open_data(config, code, place)
        yield from TaskTrial(config, self._probe(config, place / "task", data), reason).checks()

    def _open_data(self, config: "FederationConfig", code: "TaskCode", place: Path) -> tuple[Path | None, str]:
        """The data to check with, or why there are none."""
        from fedgrove.node.methods.training.task_data import TaskFailed

        if self._data is not None:
            return self._data.resolve(), ""
        if code.bundle is None or EXAMPLE not in code.bundle.contents:
            return None, NO_DATA
        try:
            ending, content = self._probe(config, place / "task", None).example()
        except TaskFailed as fault:
            note(f"{EXAMPLE} wrote no data: {fault}")
            return None, NO_DATA
        path = place / f"example{ending}"
        path.write_bytes(content)
        note(f"without --data the checks use the data that {EXAMPLE} writes")
        return path, ""

    def _probe(self, config: "FederationConfig", folder: Path, data: Path | None) -> "TaskProbe":
        from fedgrove.node.methods.training.task_probe import TaskProbe
        from fedgrove.node.methods.training.task_process import open_process

        process = open_process(
            self._mode, Visible(folder, data, self._bases), self._limits, portable=config.training.portable
        )
        self._stack.callback(process.close)
        probe = TaskProbe(config, process, self._form)
        self._stack.callback(probe.close)
        return probe


def _read_terms(path: Path) -> "FederationConfig":
    """The terms of a federation's file; InvalidConfig, which ends the command, for any other file."""
    from fedgrove.node.methods.terms import load_config

    return load_config(path)[0]


def _agreed(code: "TaskCode", path: Path) -> "FederationConfig":
    """The terms of a federation's file, which name this task."""
    config = _read_terms(path)
    named = config.task and (config.task.bundle or config.task.name)
    if named != code.name:
        raise InvalidConfig(
            f"{path} names the task {named or '(none)'}, and this folder is {code.name}: give its folder"
        )
    return config


def _suggested(code: "TaskCode", strategy: str) -> "FederationConfig":
    """Terms with the task, as its author suggests them; InvalidConfig if they cannot be."""
    from fedgrove.node.methods.training.terms import TrainingTerms
    from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings, StrategySettings

    return FederationConfig(
        method=TrainingTerms(),
        task=code.settings,
        training=code.suggestion.training,
        strategy=StrategySettings(strategy),
        masking=MaskingSettings(bound=code.suggestion.bound),
        evaluation=code.suggestion.evaluation,
    )
