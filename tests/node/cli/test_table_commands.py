"""Commands on a table without code: drafted terms, their check, a simulation, a client's data, a deployment."""

import json
from contextlib import ExitStack

import pytest

from fedgrove.chain.crypto.keys import Keys, save
from fedgrove.chain.face.networks import anvil
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.tensors import load
from fedgrove.node.cli.task_data import approved_data
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings
from tests.node.cli.test_bad_input import fedgrove

TABLE = "age,sex,ill\n" + "".join(f"{20 + n},{'fm'[n % 2]},{'no' if n < 20 else 'yes'}\n" for n in range(40))


@pytest.fixture
def place(tmp_path):
    """A folder with a table, and ``mine``, the terms that are drafted for it."""
    (tmp_path / "train.csv").write_text(TABLE)
    made = fedgrove("task", "new", "mine", "--table", "train.csv", "--target", "ill", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path


def test_the_folder_has_terms_only_and_passes_its_check(place):
    assert [path.name for path in (place / "mine").iterdir()] == ["terms.toml"]
    result = fedgrove("task", "check", "mine", "--data", "train.csv", "--json", cwd=place)
    assert result.returncode == 0, result.stdout + result.stderr
    checks = {each["check"]: each for each in json.loads(result.stdout)["checks"]}
    assert checks["bundle"]["sentence"] == "the shipped task tabular, without code"
    assert checks["data"]["values"]["samples"] == 40


def test_it_is_simulated(place):
    command = ("simulate", "--task", "mine", "--data", "train.csv", "--clients", "3", "--rounds", "2", "--json")
    result = fedgrove(*command, "--executor", "inline", "--set", "federation.sampling_rate=1", cwd=place)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    assert len(run["record"]["rounds"]) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("new", "other", "--table", "train.csv"), "--table needs --target"),
        (("new", "other", "--table", "train.csv", "--target", "well"), "train.csv has no column 'well'"),
        (("new", "other", "--table", "gone.csv", "--target", "ill"), "cannot read gone.csv: No such file"),
        (
            ("new", "other", "--table", "train.csv", "--target", "ill", "--table-format", "delimiter=ab"),
            "table.delimiter",
        ),
        (("new", "mine", "--table", "train.csv", "--target", "ill"), "mine is not empty and was not changed"),
        (("pack", "mine"), "mine has no code: it names the shipped task tabular"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(place, arguments, sentence):
    result = fedgrove("task", *arguments, cwd=place)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and sentence in result.stderr, result.stderr


def write_terms(place) -> None:
    terms = (place / "mine" / "terms.toml").read_text()
    (place / "federation.toml").write_text('[federation]\nrounds = 2\n[strategy]\nname = "fedavg"\n' + terms)


def test_a_client_opens_its_table_under_shipped_terms_without_an_approval(place):
    write_terms(place)
    terms, _ = load_config(place / "federation.toml")
    with ExitStack() as stack:
        where = (place / "client", Keys.generate().address, NetworkSettings(), (), {})
        data = approved_data(stack, terms, DiskStore(place / "store"), place / "train.csv", *where)
        assert len(data) == 40 and set(data.first_model()) == {"net.0.weight", "net.0.bias"}


def test_deploying_puts_the_first_model_into_the_store_and_needs_no_folder(place):
    write_terms(place)
    members = json.dumps([Keys.generate().address for _ in range(3)])
    with (place / "federation.toml").open("a") as terms:
        terms.write(f"\n[membership]\nmembers = {members}\n")
    keys = Keys.generate()
    save(place / "founder.json", keys, "a password", cost=1 << 12)
    (place / "password").write_text("a password\n")
    with anvil() as network:
        network.fund(keys.address, 1)
        command = ("deploy", "--config", "federation.toml", "--keystore", "founder.json", "--rpc", network.url)
        refused = fedgrove(*command, "--password-file", "password", cwd=place)
        assert refused.returncode == 2 and "--store where all can read" in refused.stderr, refused.stderr
        command += ("--password-file", "password", "--store", "disk:store", "--practice")
        done = fedgrove(*command, cwd=place)
        assert done.returncode == 0, done.stderr
    terms, _ = load_config(place / "federation.toml")
    model = load(DiskStore(place / "store").fetch(terms.first_digest, 1 << 20))
    assert model["net.0.weight"].shape == (2, 3)
