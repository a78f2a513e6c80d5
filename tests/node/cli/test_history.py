"""``fedgrove history export`` and ``fedgrove model save``: of a kept run, of an archive, of a live ledger."""

import json

import pytest
from safetensors import safe_open

from fedgrove.chain.face.networks import anvil
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import export_car
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.scenario.reading import scenario
from tests.node.cli.test_bad_input import FEDERATION, fedgrove

NAMES = ["metrics.csv", "records.csv", "rounds.csv"]


def test_a_run_and_its_archive_give_the_same_tables(run, tmp_path):
    result = fedgrove("history", "export", str(run.directory), "--csv", "tables", "--json", cwd=tmp_path)
    told = json.loads(result.stdout)
    assert result.returncode == 0 and told["chain_id"] == run.history.chain_id
    assert told["tables"]["rounds"] == {"file": "tables/rounds.csv", "rows": len(run.report["rounds"])}
    export_car(run.directory, tmp_path / "run.car")
    assert fedgrove("history", "export", "run.car", "--csv", "again", cwd=tmp_path).returncode == 0
    for name in NAMES:
        assert (tmp_path / "tables" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert len((tmp_path / "tables" / "records.csv").read_text().splitlines()) == 1 + len(run.records)


def test_nothing_is_written_over(run, tmp_path):
    (tmp_path / "metrics.csv").write_text("mine")
    (tmp_path / "model").symlink_to("elsewhere")
    for command in ("history export {} --csv .", "model save {} model", "model save {} metrics.csv"):
        result = fedgrove(*command.format(run.directory).split(), cwd=tmp_path)
        assert result.returncode == 2 and "already exists: nothing was changed" in result.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "model"] == ["metrics.csv"]
    assert (tmp_path / "metrics.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("target", "said"), [("nowhere/run.car", "No such file"), ("folder", "Is a directory"), (".", "Is a directory")]
)
def test_an_archive_that_cannot_be_written_is_named(run, tmp_path, target, said):
    (tmp_path / "folder").mkdir()
    result = fedgrove("audit", "export", str(run.directory), target, cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith(f"fedgrove: cannot write {target}: {said}")
    assert len(result.stderr.splitlines()) == 1 and [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_model_is_saved_with_its_place(run, tmp_path):
    last = run.report["rounds"][-1]
    result = fedgrove("model", "save", str(run.directory), "last", "--json", cwd=tmp_path)
    told = json.loads(result.stdout)
    assert result.returncode == 0 and told["cid"] == last["model_cid"] and told["round"] == str(last["round"])
    assert told["bytes"] == (tmp_path / "last").stat().st_size
    assert fedgrove("model", "save", str(run.directory), "first", "--round", "1", cwd=tmp_path).returncode == 0
    with safe_open(tmp_path / "first", "np") as file:
        assert file.metadata()["cid"] == run.report["rounds"][0]["model_cid"]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A folder with a ledger's store and its federation's file, the ledger, and its chain's address, while it runs."""
    folder = tmp_path_factory.mktemp("live")
    with anvil() as network:
        store = DiskStore(folder / "store")
        plan = scenario(clients=3, rounds=1, strategy="fedavg")
        demo = Demo(plan, DatasetSubject(load_dataset("digits")), network, store)
        demo.run()
        ledger = demo.deployment.ledger
        reach = f'rpc = "{network.url}"\nledger = "{ledger}"\nstore = "disk:{folder / "store"}"\n'
        (folder / "federation.toml").write_text(f"{FEDERATION}\n[network]\n{reach}")
        yield folder, ledger, network.url


def names_of(live) -> dict[str, list[str]]:
    """The three ways to name the same ledger."""
    folder, ledger, url = live
    reach = ["--rpc", url, "--store", f"disk:{folder / 'store'}"]
    return {
        "address": [ledger, *reach],
        "options": ["--ledger", ledger, *reach],
        "file": [str(folder / "federation.toml")],
    }


@pytest.mark.parametrize("form", ["address", "options", "file"])
def test_every_command_that_reads_a_history_takes_the_same_names(live, tmp_path, form):
    name = names_of(live)[form]
    result = fedgrove("history", "export", *name, "--csv", "tables", "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["tables"]["rounds"]["rows"] == 1, result.stderr
    result = fedgrove("model", "save", *name, "model", "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["ledger"] == live[1], result.stderr
    result = fedgrove("audit", *name, "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["verdict"] == "verified", result.stderr
    result = fedgrove("audit", "--follow", *name, "--json", cwd=tmp_path)
    assert json.loads(result.stdout)["verdict"] == "verified", result.stderr
    pages = ("--export", "site", "--index", "indexes", "--json")
    result = fedgrove("explorer", *name, *pages, cwd=tmp_path)
    assert result.returncode == 0 and json.loads(result.stdout)["pages"] > 1, result.stderr
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == NAMES


def test_audit_takes_an_archive_as_it_takes_a_directory(run, tmp_path):
    export_car(run.directory, tmp_path / "run.car")
    names = ("run.car", str(run.directory))
    told = [json.loads(fedgrove("audit", name, "--json", cwd=tmp_path).stdout) for name in names]
    assert told[0] == told[1] and told[0]["verdict"] == "verified"
