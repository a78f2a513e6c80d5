"""Logs of figures: read again by the tools that they are for."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrove.common.errors import RunFailed
from fedgrove.node.base.figure_logs import CsvLog, MlflowLog, TensorBoardLog

ROUNDS = {1: {"loss": 0.5, "drawn": 3}, 2: {"loss": 0.25, "drawn": 4}}
LINES = [["first", "1", "loss", "0.5"], ["first", "1", "drawn", "3"]]
LINES += [["first", "2", "loss", "0.25"], ["first", "2", "drawn", "4"]]


def fill(log, run: str = "first") -> None:
    for number, figures in ROUNDS.items():
        log.write(run, number, figures)
    log.close()


def rows(path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_a_csv_file_has_a_line_a_figure(tmp_path):
    fill(CsvLog(tmp_path / "new" / "log.csv"))
    assert rows(tmp_path / "new" / "log.csv") == [["run", "round", "figure", "value"], *LINES]


def test_a_later_process_adds_what_is_not_there_yet(tmp_path):
    log = CsvLog(tmp_path / "log.csv")
    log.write("first", 1, ROUNDS[1])
    log.close()
    fill(CsvLog(tmp_path / "log.csv"))
    fill(CsvLog(tmp_path / "log.csv"), "second")
    found = rows(tmp_path / "log.csv")
    assert found[1:5] == LINES and found[5:] == [["second", *line[1:]] for line in LINES]


def test_a_line_that_was_cut_off_is_no_round(tmp_path):
    (tmp_path / "log.csv").write_text("run,round,figure,value\nfirst,1\n")
    fill(CsvLog(tmp_path / "log.csv"))
    assert rows(tmp_path / "log.csv")[2:] == LINES


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe", b"\n"])
def test_a_file_of_others_is_not_touched(tmp_path, content):
    (tmp_path / "other.csv").write_bytes(content)
    with pytest.raises(RunFailed, match="is not a log of fedgrove's"):
        CsvLog(tmp_path / "other.csv")
    assert (tmp_path / "other.csv").read_bytes() == content


# --- TensorBoard ------------------------------------------------------------------------------------------------------


def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/full")):
        with pytest.raises(RunFailed, match="not a regular file"):
            CsvLog(path)


def test_tensorboard_reads_what_was_written(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fill(TensorBoardLog(tmp_path / "curves"))
    events = accumulator.EventAccumulator(str(tmp_path / "curves" / "first"))
    events.Reload()
    assert events.Tags()["tensors"] == ["loss", "drawn"]
    found = [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors("loss")]
    assert found == [(1, 0.5), (2, 0.25)]


def test_neither_torch_nor_tensorflow_is_needed(tmp_path):
    pytest.importorskip("tensorboard")
    code = (
        "import sys; sys.modules.update(torch=None, tensorflow=None)\n"
        "from pathlib import Path; from fedgrove.node.base.figure_logs import TensorBoardLog\n"
        f"log = TensorBoardLog(Path({str(tmp_path / 'curves')!r})); log.write('run', 1, {{'loss': 0.5}}); log.close()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert list((tmp_path / "curves" / "run").iterdir())


# --- MLflow -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mlflow(monkeypatch):
    """The package, with a client's defaults as they are for a user who has set nothing."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    return pytest.importorskip("mlflow")


def history(mlflow, place, run: str) -> list[tuple[int, float]]:
    client = mlflow.MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("fedgrove").experiment_id
    [found] = client.search_runs([experiment], f"attributes.run_name = '{run}'")
    return [(metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, "loss")]


def test_mlflow_reads_what_was_written(mlflow, tmp_path):
    place = str(tmp_path / "runs")
    fill(MlflowLog(place))
    assert history(mlflow, place, "first") == [(1, 0.5), (2, 0.25)]


def test_a_run_of_an_earlier_process_goes_on(mlflow, tmp_path):
    place = str(tmp_path / "runs")
    first = MlflowLog(place)
    first.write("first", 1, ROUNDS[1])
    first.close()
    later = MlflowLog(place)
    later.write("first", 2, ROUNDS[2])
    later.close()
    assert history(mlflow, place, "first") == [(1, 0.5), (2, 0.25)]


def test_a_server_that_is_away_is_a_sentence_without_its_password(mlflow):
    with pytest.raises(RunFailed, match="check that the server runs") as fault:
        MlflowLog("http://user:secret@127.0.0.1:9")
    assert "secret" not in str(fault.value)


@pytest.mark.parametrize("address", ["sqlite:///runs.db", "sqlite://runs.db", "postgresql://user:secret@host/runs"])
def test_an_address_that_mlflow_writes_to_only_as_a_server_says_what_to_give_instead(mlflow, address):
    with pytest.raises(RunFailed, match="give mlflow:FOLDER, or mlflow:http://") as fault:
        MlflowLog(address)
    assert address.partition(":")[0] in str(fault.value) and "secret" not in str(fault.value)
