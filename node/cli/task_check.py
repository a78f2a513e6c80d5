"""``fedgrove task check``: whether a task works, before anybody else has it."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.cli.bases import BaseOptions, given_bases
from fedgrove.node.cli.options import Sandbox
from fedgrove.node.cli.output import FAILED, CommandError, console, print_json
from fedgrove.node.tasks.base_content import InvalidBase
from fedgrove.node.tasks.base_shelf import BaseShelf, BaseSources
from fedgrove.node.tasks.bundle import has_lock
from fedgrove.node.tasks.names import BundleError
from fedgrove.node.tasks.sandbox.limits import JobLimits
from fedgrove.node.tasks.sandbox.modes import AUTO, choose
from fedgrove.node.tasks.sandbox.settings import Mode, Visible

if TYPE_CHECKING:
    from fedgrove.node.methods.training.task_check import TaskCheck
    from fedgrove.node.methods.training.task_code import TaskCode
    from fedgrove.node.methods.training.task_probe import TaskProbe
    from fedgrove.node.protocol.terms import FederationConfig

EXAMPLE = "example_data.py"
NO_DATA = "there are no data: give --data"
_EXAMPLE_BYTES = 1 << 25  # of the reply with example data


def check(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The task's folder, or its one Python file.")],
    data: Annotated[
        Path | None, typer.Option("--data", help="What the task's data() reads; by default the folder's example data.")
    ] = None,
    base: BaseOptions = None,
    sandbox: Sandbox = AUTO,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a check of the task is stopped.")] = 600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks to stdout as JSON.")] = False,
) -> int:
    """Load a task, train one step in a sandbox as a node would, and check what a federation needs of it.

    Prints a line for each check. Exit code: 0 all is fine, 1 a check failed, 2 bad usage.

    Example: fedgrove task check readmission --data train.csv
    """
    if not (source.is_dir() or (source.is_file() and source.suffix == ".py")):
        raise CommandError(f"{source} is neither a folder nor a Python file: give the folder of your task")
    if data is not None and not data.exists():
        raise CommandError(f"there is no {data}: give --data what the task's data() reads")
    mode, done = choose(sandbox), []
    with ExitStack() as stack:
        for each in _Checks(source, data, given_bases(base), mode, timeout, stack).run():
            done.append(each)
            if not as_json:
                print(f"{each.result:<13}{each.name:<13}{each.sentence}", flush=True)
    failed = any(each.result == "failed" for each in done)
    if as_json:
        print_json({"folder": str(source), "sandbox": str(mode), "ok": not failed, "checks": list(map(_table, done))})
    return FAILED if failed else 0


def _table(each: "TaskCheck") -> dict[str, Any]:
    return {"check": each.name, "result": each.result, "sentence": each.sentence, "values": dict(each.values)}


class _Checks:
    """All checks of one folder; the task's processes end with ``stack``."""

    def __init__(
        self, source: Path, data: Path | None, bases: dict[str, Path], mode: Mode, timeout: float, stack: ExitStack
    ) -> None:
        self._source, self._data, self._given, self._mode, self._stack = source, data, bases, mode, stack
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
            config = _terms(code)
        except (BundleError, InvalidConfig) as fault:
            yield TaskCheck("bundle", CheckResult.FAILED, str(fault))
            return
        yield check_code(code, has_lock(self._source))
        place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fedgrove-")))
        assert config.task is not None
        try:
            self._bases = BaseShelf(place).open_all(config.task.bases, BaseSources(self._given))
        except InvalidBase as fault:
            yield TaskCheck("bases", CheckResult.FAILED, str(fault))
            return
        if config.task.bases:
            yield check_bases(config.task.bases)
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
            console.print(f"{EXAMPLE} wrote no data: {fault}", soft_wrap=True, markup=False)
            return None, NO_DATA
        path = place / f"example{ending}"
        path.write_bytes(content)
        console.print(f"without --data the checks use the data that {EXAMPLE} writes", markup=False)
        return path, ""

    def _probe(self, config: "FederationConfig", folder: Path, data: Path | None) -> "TaskProbe":
        from fedgrove.node.methods.training.task_probe import TaskProbe
        from fedgrove.node.methods.training.task_process import open_process

        process = open_process(self._mode, Visible(folder, data, self._bases), self._limits)
        self._stack.callback(process.close)
        probe = TaskProbe(config, process)
        self._stack.callback(probe.close)
        return probe


def _terms(code: "TaskCode") -> "FederationConfig":
    """Terms with the task, as its author suggests them; InvalidConfig if they cannot be."""
    from fedgrove.node.methods.training.terms import TrainingTerms
    from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings, StrategySettings

    return FederationConfig(
        method=TrainingTerms(),
        task=code.settings,
        training=code.suggestion.training,
        strategy=StrategySettings("fedavg"),
        masking=MaskingSettings(bound=code.suggestion.bound),
        evaluation=code.suggestion.evaluation,
    )
