"""What ``fedgrove task check`` looks at, one check after the other: a task's code, on data, as a node would run it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.text import one_line
from fedgrove.node.base.frozen_base import FrozenBase
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.local_update import DivergedTraining, LocalUpdate
from fedgrove.node.methods.training.method import codec_of
from fedgrove.node.methods.training.task_code import TaskCode
from fedgrove.node.methods.training.task_data import TaskFailed
from fedgrove.node.methods.training.task_probe import LoadedTask, TaskProbe
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.tasks.reading_notes import reading_notes
from fedgrove.node.tasks.task_methods import task_classes

_VALUE_BYTES = 4
_NAMED = 4  # tensors that a sentence names
_NEEDED = ("loads", "tensors", "data", "step")
"""Checks without which no later one is done."""
_LONGEST = 500  # characters of a sentence: names of tensors are the task's own


class CheckResult(StrEnum):
    """How a check went; a warning is for the reader to judge."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class TaskCheck:
    """One check: its name, how it went, a sentence, and the sentence's values for programs."""

    name: str
    result: CheckResult
    sentence: str
    values: Mapping[str, Any] = field(default_factory=dict)


def check_code(code: TaskCode, locked: bool) -> TaskCheck:
    """The files, what their readers might overlook, and whether the lock's packages are installed in these versions.

    Parameters
    ----------
    code : TaskCode
    locked : bool
        Whether the lock lies next to the sources; if not, packing will write the one in the bundle.
    """
    bundle = code.bundle
    if bundle is None:
        return TaskCheck("bundle", CheckResult.OK, f"the shipped task {code.name}, without code", {"name": code.name})
    differences, packages, notes = bundle.lock.differences(), bundle.lock.packages, reading_notes(bundle)
    values = {"bundle": str(bundle.cid), "files": len(bundle.contents), "bytes": bundle.size, "locked": locked}
    values |= {"packages": packages, "differences": list(differences), "warnings": list(notes)}
    if differences:
        return TaskCheck("bundle", CheckResult.WARNING, f"versions differ: {bundle.lock.warning()}", values)
    if notes:
        return TaskCheck("bundle", CheckResult.WARNING, "; ".join(notes), values)
    lock = "as in the lock" if locked else "for the lock that `fedgrove task pack` writes"
    classes = "".join(f"; {each}" for each in task_classes(bundle.contents))
    sentence = f"{len(bundle.contents)} files, {bundle.size} bytes; {len(packages)} packages {lock}{classes}"
    return TaskCheck("bundle", CheckResult.OK, sentence, values)


def check_bases(bases: Sequence[FrozenBase]) -> TaskCheck:
    """The frozen bases that the task names, all of which were found to be what it names."""
    named = ", ".join(f"{base.name} {base.size} bytes" for base in bases)
    values = {base.name: {"cid": base.cid, "size": base.size} for base in bases}
    return TaskCheck("bases", CheckResult.OK, f"as the task names them: {named}", values)


class TaskTrial:
    """The checks of one task, in the order in which they build on each other.

    Parameters
    ----------
    config : FederationConfig
        Terms with the task.
    probe : TaskProbe
        Its code, under these terms.
    no_data : str
        Why there are no data, in one clause; empty where there are.
    """

    def __init__(self, config: FederationConfig, probe: TaskProbe, no_data: str = "") -> None:
        self._config, self._probe, self._no_data = config, probe, no_data
        self._loaded: LoadedTask
        self._first: Tensors
        self._update: LocalUpdate

    def checks(self) -> Iterator[TaskCheck]:
        work = {
            "loads": self._loads,
            "tensors": self._tensors,
            "kept": self._kept,
            "data": self._data,
            "step": self._step,
            "determinism": self._determinism,
            "rounds": self._rounds,
            "bound": self._bound,
            "evaluation": self._evaluation,
            "members": self._members_metrics,
        }
        reason = ""
        for name, each in work.items():
            if name == "data":
                reason = reason or self._no_data
            check = _done(name, each, reason)
            if name in _NEEDED and check.result is CheckResult.FAILED:
                reason = reason or f"the check of {name} failed"
            yield check

    def _loads(self) -> tuple[str, dict[str, Any]]:
        self._loaded = self._probe.look()
        return f"class {self._loaded.name}", {"class": self._loaded.name}

    def _tensors(self) -> tuple[str, dict[str, Any]]:
        layout = self._loaded.model
        _compare(layout, self._loaded.again)
        self._first = self._probe.fresh(self._loaded.sent)
        sent, extras = _upload_bytes(self._config, self._loaded.sent), self._loaded.extras.length
        values = {"tensors": _shapes(layout), "parameters": layout.length, "upload_bytes": sent, "extras": extras}
        named = ", ".join(f"{name} {shape}" for name, shape in list(_words(layout).items())[:_NAMED])
        more = ", …" if len(layout.names) > _NAMED else ""
        added = f" and {extras} values of {self._config.strategy.name}" if extras else ""
        counts = f"{len(layout.names)} federated tensors, {layout.length} parameters{added}, {sent} bytes an upload"
        return f"{counts}: {named}{more}", values

    def _kept(self) -> tuple[str, dict[str, Any]]:
        kept, state = _shapes(self._loaded.kept), _VALUE_BYTES * self._loaded.state.length
        sentence = f"at home stay {', '.join(kept)}" if kept else "no trained tensor stays at home"
        if state:
            sentence += f"; {self._config.strategy.name} keeps {state} bytes of a client from round to round"
        return sentence, {"kept": kept, "state_bytes": state}

    def _data(self) -> tuple[str, dict[str, Any]]:
        found = self._probe.description
        values = {"samples": found.samples, "held_out": found.held_out}
        return f"{found.samples} samples to train on, {found.held_out} held out", values

    def _step(self) -> tuple[str, dict[str, Any]]:
        step = self._probe.step(self._first, 1, {})
        self._update = step.update
        shapes = ", ".join(f"{name} {shape}" for name, shape in step.seen.items())
        return f"{shapes}, mean loss {step.update.loss:.4g}", {**step.seen, "mean_loss": step.update.loss}

    def _determinism(self) -> tuple[str, dict[str, Any]]:
        again = self._probe.step(self._first, 1, {}).update
        for one, other in ((self._update.tensors, again.tensors), (self._update.state, again.state)):
            for name, value in one.items():
                if not np.array_equal(value, other[name]):
                    raise TaskFailed(f"the same step gave other bytes in {name}: draw from torch, NumPy or random only")
        return "the same step twice gives the same bytes", {}

    def _rounds(self) -> tuple[str, dict[str, Any]]:
        self._probe.step(self._update.tensors, 2, self._update.state)  # refused unless the layout is that of round 1
        return "names and shapes are the same in the next round", {}

    def _bound(self) -> tuple[str, dict[str, Any]]:
        bound = self._config.masking.bound
        largest, name = max((float(np.abs(value).max()), name) for name, value in self._update.tensors.items())
        if largest > bound:
            raise TaskFailed(
                f"{name} reaches {largest:.4g} and masks carry values up to {bound:g}: raise bound in terms.toml, or "
                "scale the data"
            )
        return f"values up to {largest:.4g}, in {name}; masks carry up to {bound:g}", {
            "largest": largest,
            "bound": bound,
        }

    def _members_metrics(self) -> tuple[str, dict[str, Any]]:
        settings = self._config.evaluation
        if settings is None:
            raise _Unneeded("terms.toml has no [evaluation] table")
        names = self._probe.metrics(self._update.tensors, settings)
        lacking = [name for name in settings.metrics if name not in names]
        if lacking:
            raise TaskFailed(f"metrics(self, output, target) gives no {', '.join(lacking)}: see evaluation.metrics")
        return f"members sum {', '.join(names)}", {"metrics": names}

    def _evaluation(self) -> tuple[str, dict[str, Any]]:
        if not self._probe.holds_out:
            raise _Unneeded("data(self, source) holds nothing out")
        found = self._probe.evaluate(self._update.tensors)
        accuracy, loss, samples = found.accuracy, found.loss, found.samples
        if not math.isfinite(loss):
            raise TaskFailed("the loss of the samples held out is not finite")
        right = "" if accuracy is None else f", accuracy {accuracy:.4g}"
        values = {"samples": samples, "loss": loss, "accuracy": accuracy}
        return f"{samples} samples held out: loss {loss:.4g}{right}", values


class _Unneeded(Exception):
    """There is nothing to check; the message says why, in one clause."""


def _done(name: str, work: Callable[[], tuple[str, dict[str, Any]]], reason: str) -> TaskCheck:
    if reason:
        return TaskCheck(name, CheckResult.NOT_CHECKED, reason)
    try:
        sentence, values = work()
        return TaskCheck(name, CheckResult.OK, one_line(sentence, _LONGEST), values)
    except _Unneeded as why:
        return TaskCheck(name, CheckResult.NOT_CHECKED, str(why))
    except (TaskFailed, DivergedTraining) as fault:
        return TaskCheck(name, CheckResult.FAILED, one_line(str(fault), _LONGEST))


def _upload_bytes(config: FederationConfig, sent: Layout) -> int:
    try:
        return codec_of(config).upload_bytes(sent)
    except (InvalidInput, InvalidContent) as fault:
        raise TaskFailed(f"privacy: {fault}") from None


def _compare(one: Layout, other: Layout) -> None:
    before, after = _words(one), _words(other)
    for name in sorted(before | after):
        if before.get(name) != after.get(name):
            raise TaskFailed(
                f"a second model has {name} {after.get(name, 'missing')}, not {before.get(name, 'missing')}"
            )


def _shapes(layout: Layout) -> dict[str, list[int]]:
    return {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)}


def _words(layout: Layout) -> dict[str, str]:
    return {name: "×".join(map(str, shape)) or "number" for name, shape in _shapes(layout).items()}
