"""``--continues`` and ``--before``: a federation goes on from another's model, under other terms."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

import fedgrove as fg
from fedgrove.chain.face.networks import anvil
from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import NotFound
from fedgrove.node.audit.archive import export_car
from fedgrove.node.cli.histories import Configured, Kept, OnChain, place_and_round
from fedgrove.node.cli.output import CommandError
from fedgrove.node.devnet.demo import Demo
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import load_config, method_of
from tests.node.cli.test_bad_input import FEDERATION, fedgrove
from tests.node.federation import Federation

LEDGER = "0x" + 40 * "1"
SMALL = ("--rounds", "1", "--strategy", "fedavg")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Run a, of four clients and two rounds, its archive a.car, and run b of three that goes on from its last model."""
    folder = tmp_path_factory.mktemp("runs")
    fg.demo("digits", clients=4, rounds=2, strategy="fedavg", out=folder / "a")
    export_car(folder / "a", folder / "a.car")
    made = fedgrove("demo", "--clients", "3", *SMALL, "--continues", "a", "--out", "b", cwd=folder)
    assert made.returncode == 0, made.stderr
    assert "(not looked at)" in made.stdout and "fedgrove audit b --before a\n" in made.stdout
    return folder


def test_a_run_and_the_one_before_it_are_audited_together(place):
    alone = fedgrove("audit", "b", cwd=place)
    assert alone.returncode == 0 and "continues round 2 of ledger 0x" in alone.stdout
    assert "(not looked at)" in alone.stdout
    for before in ("a", "a.car"):
        both = fedgrove("audit", "b", "--before", before, cwd=place)
        assert both.returncode == 0 and "(verified)" in both.stdout, both.stderr
    told = json.loads(fedgrove("audit", "b", "--before", "a", "--json", cwd=place).stdout)
    assert told["before"]["verified"] and told["before"]["continues"]["round"] == 2
    report = json.loads((place / "b" / "report.json").read_text())
    assert report["continues"] == told["before"]["continues"]
    assert fg.audit(place / "b", before=place / "a.car").before.verified


def test_a_run_goes_on_from_an_archive_and_an_earlier_round_and_can_be_continued_itself(place):
    made = fedgrove("demo", "--clients", "3", *SMALL, "--continues", "a.car:1", "--out", "c", cwd=place)
    assert made.returncode == 0, made.stderr
    both = fedgrove("audit", "c", "--before", "a", cwd=place)
    assert both.returncode == 0 and "continues round 1" in both.stdout
    again = fg.demo("digits", clients=3, rounds=1, strategy="fedavg", continues=place / "c", out=place / "d")
    assert again.verdict.before.continues.ledger == fg.History(place / "c").ledger.deployment.ledger
    archived = fedgrove("audit", "export", "d", "d.car", cwd=place)
    assert archived.returncode == 0
    assert fedgrove("audit", "verify", "d.car", "--before", "c", cwd=place).returncode == 0


def test_an_interrupted_run_still_knows_what_it_continues(place, tmp_path, monkeypatch):
    (tmp_path / "a").symlink_to(place / "a")
    with monkeypatch.context() as patch:
        patch.setattr(Demo, "_loop", interrupted)
        stopped = fedgrove("demo", "--clients", "3", *SMALL, "--continues", "a", "--out", "b", cwd=tmp_path)
        assert stopped.returncode == 130 and "demo --out b --resume" in stopped.stderr
    (tmp_path / "a").unlink()
    assert fedgrove("demo", "--out", "b", "--resume", cwd=tmp_path).returncode == 0
    found = fedgrove("audit", "b", "--before", str(place / "a"), cwd=tmp_path)
    assert found.returncode == 0 and "(verified)" in found.stdout


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_an_earlier_run_with_a_bad_record_ends_the_audit_with_it(place, tmp_path):
    shutil.copytree(place / "a", tmp_path / "a")
    block = tmp_path / "a/store/blocks" / CID.parse(fg.History(tmp_path / "a").rounds[0].model_cid).digest.hex()
    block.chmod(0o644)
    block.write_bytes(block.read_bytes()[:-1] + b"?")
    found = fedgrove("audit", str(place / "b"), "--before", "a", cwd=tmp_path)
    assert found.returncode == 1 and "continues: round 2 of ledger" in found.stdout
    refused = fedgrove("demo", *SMALL, "--continues", "a", "--out", "b", cwd=tmp_path)
    assert refused.returncode == 2 and "cannot be continued from: round 1, closed.model" in refused.stderr
    assert not (tmp_path / "b").exists()
    ledger = tmp_path / "a" / "ledger.jsonl"
    ledger.chmod(0o644)
    ledger.write_bytes(ledger.read_bytes().replace(b"a", b"b", 40))
    assert fedgrove("audit", str(place / "b"), "--before", "a", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("audit a --before b", "continue no other one: leave --before out"),
        ("audit b --before b", "give that one's"),
        ("audit b --before missing", "there is no missing"),
        ("audit --follow b.toml --before a", "--before is for a single audit"),
        ("demo --continues a --out new --resume", "leave --continues out"),
        ("demo --continues a:9 --out new", "round 9 of ledger 0x"),
        ("demo --continues missing --out new", "there is no missing"),
        (f"demo --continues {LEDGER} --out new", "give the endpoint, too"),
        (f"demo --continues {LEDGER}@http://127.0.0.1:1 --out new", "give that federation's TOML file instead"),
        ("demo --continues a --model small-mlp --strategy fedavg --out new", "cannot go on from round 2"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(place, command, sentence):
    words = command.replace("--model small-mlp", "--set model.name=small-mlp").split()
    found = fedgrove(*words, cwd=place)
    assert found.returncode == 2 and sentence in found.stderr and found.stderr.strip().count("\n") < 12
    assert not any((place / "new").glob("*")) and not (place / "new.unfinished").exists()


@pytest.mark.parametrize(
    ("given", "place", "number"),
    [
        ("a", Kept(Path("a")), None),
        ("a.car:12", Kept(Path("a.car")), 12),
        ("old.toml:3", Configured(Path("old.toml")), 3),
        ("a:b", Kept(Path("a:b")), None),
        (f"{LEDGER}@http://127.0.0.1:8545", OnChain(("http://127.0.0.1:8545",), LEDGER, "disk:s"), None),
        (f"{LEDGER}@http://127.0.0.1:8545:3", OnChain(("http://127.0.0.1:8545",), LEDGER, "disk:s"), 3),
        (f"{LEDGER}@https://chain.example/key:3", OnChain(("https://chain.example/key",), LEDGER, "disk:s"), 3),
        (f"{LEDGER}@https://chain.example:8545", OnChain(("https://chain.example:8545",), LEDGER, "disk:s"), None),
        (f"{LEDGER}@http://[::1]:8545", OnChain(("http://[::1]:8545",), LEDGER, "disk:s"), None),
    ],
)
def test_what_is_continued_is_named_by_a_place_and_perhaps_a_round(given, place, number):
    assert place_and_round(given, "disk:s") == (place, number)


def test_a_name_that_is_a_file_names_no_round(tmp_path):
    (tmp_path / "run:3").mkdir()
    assert place_and_round(str(tmp_path / "run:3")) == (Kept(tmp_path / "run:3"), None)
    with pytest.raises(CommandError, match="nothing says where the blobs"):
        place_and_round(f"{LEDGER}@http://127.0.0.1:8545")


# --- deploying ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A federation of three members that has ended, on a node's chain."""
    with anvil() as network:
        made = Federation.found(
            network, tmp_path_factory.mktemp("live"), clients=3, training=TrainingSettings(epochs=1)
        )
        made.register()
        made.run()
        yield made


@pytest.fixture
def founder(live, tmp_path) -> Path:
    """A founder's folder, with the terms of the next federation."""
    assert fedgrove("keys", "new", "founder.json", cwd=tmp_path).returncode == 0
    account = json.loads(fedgrove("keys", "show", "founder.json", "--json", cwd=tmp_path).stdout)["account"]
    live.network.fund(account, 1)
    members = json.dumps([keys.address for keys in live.keys])
    strategy = '[strategy]\nname = "fedavg"\n'
    (tmp_path / "new.toml").write_text(f"{FEDERATION}[membership]\nmembers = {members}\n{strategy}")
    return tmp_path


def deploy(live, founder, *more):
    command = ("deploy", "--config", "new.toml", "--keystore", "founder.json", "--rpc", live.network.url, "--json")
    return fedgrove(*command, *more, cwd=founder)


def test_terms_are_deployed_that_go_on_from_a_ledgers_model(live, founder):
    (founder / "store").symlink_to(live.store.path)
    before = f"{live.deployment.ledger}@{live.network.url}"
    made = deploy(live, founder, "--continues", before, "--store", "disk:store")
    assert made.returncode == 0, made.stderr
    terms, _ = load_config(founder / "new.toml")
    assert json.loads(made.stdout)["continues"]["ledger"] == live.deployment.ledger == terms.start.continues.ledger
    model = method_of(terms).starting_model(live.store)
    assert method_of(terms).first_model() != model and live.stated()[-1].round == terms.start.continues.round
    with pytest.raises(NotFound, match=r"it is the model of round 1 of ledger 0x.*: ask the founder"):
        method_of(terms).starting_model(DiskStore(founder / "other"))
    assert fedgrove("status", "--config", "new.toml", cwd=founder).returncode == 0


def test_a_run_at_rest_is_continued_on_a_chain_and_the_table_can_be_written_by_hand(live, founder, place):
    missing = deploy(live, founder, "--continues", str(place / "a"))
    assert missing.returncode == 2 and "give --store" in missing.stderr
    plain = (founder / "new.toml").read_text()
    made = deploy(live, founder, "--continues", f"{place / 'a'}:1", "--store", "disk:store")
    assert made.returncode == 0, made.stderr
    text = (founder / "new.toml").read_text()
    start = tomllib.loads(text)["start"]
    assert DiskStore(founder / "store").has(bytes.fromhex(start["model"])) and start["continues"]["round"] == 1
    table = text[text.index("[start]") : text.index("[network]")]
    (founder / "new.toml").write_text(f"{plain}\n{table}")
    twice = deploy(live, founder, "--continues", str(place / "a"), "--store", "disk:store")
    assert twice.returncode == 2 and "already has a [start] table" in twice.stderr
    again = deploy(live, founder, "--store", "disk:store")
    assert again.returncode == 0 and json.loads(again.stdout)["continues"] == start["continues"], again.stderr
    assert (founder / "new.toml").read_text().count("[start]") == 1


def test_terms_of_another_kind_of_model_are_refused_before_anything_is_deployed(live, founder, place):
    path = founder / "new.toml"
    path.write_text(path.read_text().replace("small-cnn", "small-mlp"))
    text, block = path.read_text(), live.network.block_number()
    refused = deploy(live, founder, "--continues", str(place / "a"), "--store", "disk:store")
    assert refused.returncode == 2 and "start.continues: these terms cannot go on from round 2" in refused.stderr
    assert path.read_text() == text and live.network.block_number() == block
