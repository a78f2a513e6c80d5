"""Figures of rounds for tools that draw curves: TensorBoard's event files, MLflow's runs, a CSV file."""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fedgrove.common.errors import RunFailed

HEADER = ["run", "round", "figure", "value"]
EXPERIMENT = "fedgrove"
_MLFLOW_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nobody is told that it is used
    "MLFLOW_ALLOW_FILE_STORE": "true",  # a folder does without a server
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # training does not wait for a server that is away
}


class FigureLog(Protocol):
    """Takes in each round's figures by name; a run is one curve, and may go on in a later process."""

    def write(self, run: str, number: int, figures: Mapping[str, float]) -> None:
        """Log a round. Raises RunFailed or OSError."""
        ...

    def close(self) -> None:
        """End the log. Raises as ``write``."""
        ...


class CsvLog:
    """A CSV file with one line a figure; what it holds already stays, and rounds in it are not written twice."""

    def __init__(self, path: Path) -> None:
        self._known = _read(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file, lineterminator="\n")
        if self._file.tell() == 0:
            self._lines.writerow(HEADER)
            self._file.flush()

    def write(self, run: str, number: int, figures: Mapping[str, float]) -> None:
        if (run, str(number)) not in self._known:
            self._lines.writerows([run, number, name, value] for name, value in figures.items())
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def _read(path: Path) -> set[tuple[str, str]]:
    """Run and number of each round in a file of ``CsvLog``; none where there is no file."""
    if not path.exists():
        return set()
    if not path.is_file() and not path.is_dir():  # a pipe waits for a writer, and /dev/full never ends
        raise RunFailed(f"{path} is not a regular file: give another one")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except (csv.Error, UnicodeDecodeError):
        rows = [[]]
    if rows and rows[0] != HEADER:
        raise RunFailed(f"{path} is not a log of fedgrove's: nothing was changed, give another file")
    return {(row[0], row[1]) for row in rows[1:] if len(row) == len(HEADER)}


class TensorBoardLog:
    """Event files in a folder, one folder below it a run: ``tensorboard --logdir FOLDER`` shows them."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary import Writer

        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._make = folder, Writer
        self._writers: dict[str, Writer] = {}

    def write(self, run: str, number: int, figures: Mapping[str, float]) -> None:
        if run not in self._writers:
            self._writers[run] = self._make(str(self._folder / run))
        for name, value in figures.items():
            self._writers[run].add_scalar(name, value, number)
        self._writers[run].flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class MlflowLog:
    """Runs in the experiment ``fedgrove`` of an MLflow server, or of a folder."""

    def __init__(self, address: str) -> None:
        for name, value in _MLFLOW_DEFAULTS.items():
            os.environ.setdefault(name, value)
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
        from mlflow.tracking.registry import UnsupportedModelRegistryStoreURIException

        self._faults = (MlflowException,)
        self._runs: dict[str, str] = {}
        try:
            self._client = MlflowClient(tracking_uri=address, registry_uri=address)
            found = self._client.get_experiment_by_name(EXPERIMENT)
            self._experiment = found.experiment_id if found else self._client.create_experiment(EXPERIMENT)
        except (UnsupportedModelRegistryStoreURIException, ImportError):  # without the packages of its databases
            kind = address.partition(":")[0]
            raise RunFailed(
                f"MLflow writes to a folder or a server here, not to {kind}: give mlflow:FOLDER, or mlflow:http://… or "
                "mlflow:https://… of an MLflow server that keeps its runs there"
            ) from None
        except self._faults as fault:
            raise _refused(fault) from None

    def write(self, run: str, number: int, figures: Mapping[str, float]) -> None:
        try:
            if run not in self._runs:
                self._runs[run] = self._found(run) or self._made(run)
            for name, value in figures.items():
                self._client.log_metric(self._runs[run], name, value, step=number)
        except self._faults as fault:
            raise _refused(fault) from None

    def close(self) -> None:
        try:
            for run in self._runs.values():
                self._client.set_terminated(run)
        except self._faults as fault:
            raise _refused(fault) from None

    def _found(self, run: str) -> str:
        """Identifier of the run that an earlier process began; empty for none."""
        found = self._client.search_runs([self._experiment], f"attributes.run_name = '{run}'", max_results=1)
        return found[0].info.run_id if found else ""

    def _made(self, run: str) -> str:
        return self._client.create_run(self._experiment, run_name=run).info.run_id


def _refused(fault: Exception) -> RunFailed:
    kind = getattr(fault, "error_code", type(fault).__name__)
    return RunFailed(f"MLflow does not take the figures ({kind}): check that the server runs and lets you write")
