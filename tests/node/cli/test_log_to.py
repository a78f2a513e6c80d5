"""``--log-to``: figures of rounds beside what the commands do; a log that fails ends nothing."""

import csv
import json
import subprocess
import sys

import pytest

from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.store import NotFound
from fedgrove.node.cli.log_to import log_targets, opened_logs
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.status.figure_targets import FigureLogs, watched_rounds
from tests import warm
from tests.node.cli.test_bad_input import fedgrove
from tests.node.cli.test_extras import command, without
from tests.node.cli.test_services import Processes
from tests.node.cli.test_simulate import SMALL, with_plan
from tests.node.federation import Federation


def figures(path) -> dict[tuple[str, int, str], float]:
    """Values by run, round and name."""
    with path.open(newline="") as file:
        return {
            (each["run"], int(each["round"]), each["figure"]): float(each["value"]) for each in csv.DictReader(file)
        }


def test_a_demonstration_logs_its_rounds(tmp_path):
    line = ("demo", "--clients", "3", "--rounds", "2", "--strategy", "fedavg", "--log-to", "csv:log.csv", "--json")
    result = fedgrove(*line, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report, logged = json.loads(result.stdout), figures(tmp_path / "log.csv")
    ledger = report["ledger"]["ledger"]
    for each in report["rounds"]:
        for name in ("accuracy", "loss", "drawn", "committed"):
            assert logged[ledger, each["round"], name] == each[name]
        assert 0 < logged[ledger, each["round"], "seconds"] <= each["seconds"] + 0.001
    assert {number for _, number, _ in logged} == {1, 2}


def test_a_simulation_logs_each_seed_as_a_run(tmp_path):
    place = with_plan(tmp_path)
    result = fedgrove(*SMALL, "--seeds", "0,1", "--log-to", "csv:log.csv", "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    logged = figures(place / "log.csv")
    for at, run in enumerate(json.loads(result.stdout)["runs"]):
        for each in run["record"]["rounds"]:
            [value] = [
                value
                for (name, number, figure), value in logged.items()
                if name.endswith(f"-seed-{at}") and (number, figure) == (each["round"], "train_loss")
            ]
            assert value == each["train_loss"]


def test_a_coordinator_logs_every_round_once_however_often_it_is_started(tmp_path):
    with anvil() as network:
        made = Processes.found(network, tmp_path, clients=3, rounds=1, command=warm.command())
        log = ("--log-to", f"csv:{tmp_path / 'log.csv'}")
        try:
            made.start("coordinator", "--members", "3", *log)
            for number in (1, 2, 3):
                made.start(f"client-{number}")
            assert all(made.wait(name) == 0 for name in list(made.running))
            first = (tmp_path / "log.csv").read_bytes()
            made.start("coordinator", *log)
            assert made.wait("coordinator") == 0
        finally:
            made.stop_all()
    logged = figures(tmp_path / "log.csv")
    assert logged[made.deployment.ledger, 1, "committed"] == 3 and logged[made.deployment.ledger, 1, "accuracy"] >= 0
    assert (tmp_path / "log.csv").read_bytes() == first


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("wandb:project", "must be tensorboard:DIR, mlflow:URI or csv:FILE, not 'wandb'"),
        ("csv", "must be tensorboard:DIR"),
        ("csv:", "must be tensorboard:DIR"),
        ("csv:other.txt", "is not a log of fedgrove's"),
        ("csv:.", "directory"),
        ("tensorboard:other.txt", "other.txt"),
    ],
)
def test_a_target_that_cannot_be_is_named_before_anything_is_done(tmp_path, target, named):
    (tmp_path / "other.txt").write_text("something else")
    result = fedgrove("demo", "--rounds", "1", "--out", "run", "--log-to", target, cwd=tmp_path)
    assert result.returncode == 2 and named in result.stderr
    assert result.stderr.startswith("fedgrove: --log-to") and "\n" not in result.stderr.strip()
    assert not (tmp_path / "run").exists() and (tmp_path / "other.txt").read_text() == "something else"


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, kind):
    result = without((kind,), command("demo", "--log-to", f"{kind}:logs"), tmp_path)
    sentence = f'fedgrove: --log-to {kind} needs {kind}: pip install "fedgrove[{kind}]"\n'
    assert (result.returncode, result.stderr) == (2, sentence)


def test_the_commands_import_neither_package(tmp_path):
    code = "import sys, fedgrove.node.cli.services\nprint({'tensorboard', 'mlflow'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert result.stdout == "set()\n", result.stderr


# --- a log that fails -------------------------------------------------------------------------------------------------


class FullDisk:
    """A log whose disk is full from its second round on."""

    def __init__(self) -> None:
        self.written = []

    def write(self, run, number, named):
        if number > 1:
            raise OSError(28, "No space left on device")
        self.written.append(number)

    def close(self):
        raise AssertionError("it was closed by its failure")


def test_a_log_that_fails_is_given_up_with_a_sentence_and_the_others_go_on(tmp_path):
    said, full = [], FullDisk()
    with opened_logs(log_targets([f"csv:{tmp_path / 'log.csv'}"]), said.append) as good:
        logs = FigureLogs({"full": full, "good": good}, said.append)
        for number in (1, 2, 3):
            logs.write("run", number, {"loss": 0.5})
    assert full.written == [1] and len(said) == 1
    assert said[0].startswith("nothing more is logged to full: No space left on device")
    assert {number for _, number, _ in figures(tmp_path / "log.csv")} == {1, 2, 3}


def test_a_round_whose_metrics_are_not_there_yet_is_logged_later(embedded_federation, tmp_path, monkeypatch):
    federation = embedded_federation
    view = LedgerView(federation.ledger(federation.keys[0]))
    view.refresh()
    with opened_logs(log_targets([f"csv:{tmp_path / 'log.csv'}"]), pytest.fail) as logs:
        watch = watched_rounds(logs, federation.store, "run")
        with monkeypatch.context() as away:
            away.setattr(type(federation.store), "fetch", raises(NotFound("f1220", "not here yet")))
            watch(view.rounds)
        assert not figures(tmp_path / "log.csv")
        watch(view.rounds)
        watch(view.rounds)
    assert figures(tmp_path / "log.csv")["run", 1, "committed"] == 3


def raises(fault):
    def fetch(*arguments):
        raise fault

    return fetch


@pytest.fixture
def embedded_federation(tmp_path):
    """One round that has closed."""
    with embedded() as network:
        made = Federation.found(network, tmp_path / "federation", clients=3)
        made.register()
        made.run()
        yield made


def test_no_target_is_no_log():
    with opened_logs(log_targets(None), pytest.fail) as logs:
        assert not logs
    with pytest.raises(InvalidInput):
        log_targets(["nonsense"])
