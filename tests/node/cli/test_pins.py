"""``fedgrove audit`` with what was published elsewhere, and ``fedgrove keys attest``, which publishes it."""

import json

import pytest

from fedgrove.chain.face.networks import anvil
from fedgrove.node.audit.archive import export_car
from fedgrove.node.audit.pins import HeadStatement
from tests.adversary.kept_runs import forged_run, kept
from tests.node.cli.test_bad_input import FEDERATION, fedgrove
from tests.node.cli.test_membership import account, deploy, on_ledger


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A kept run of one round, and its members' accounts."""
    return kept("weights", tmp_path_factory.mktemp("run"), clients=3, rounds=1)


@pytest.fixture(scope="module")
def place(run, tmp_path_factory):
    """Statements of every sort."""
    folder, history = tmp_path_factory.mktemp("place"), run.history
    where = {"chain_id": history.chain_id, "ledger": history.deployment.ledger}
    head = history.head_block
    alice, bob = run.members[:2]
    ends = {"block": head, "block_hash": history.block_hash(head).hex()}
    statements = {
        "end": HeadStatement.sign(alice, **where, **ends),
        "second": HeadStatement.sign(bob, **where, **ends),
        "good": HeadStatement.sign(alice, **where, block=head - 1, block_hash=history.block_hash(head - 1).hex()),
        "lie": HeadStatement.sign(alice, **where, block=head, block_hash=bytes(32).hex()),
    }
    for name, statement in statements.items():
        (folder / f"{name}.json").write_bytes(statement.to_bytes())
    (folder / "changed.json").write_bytes(statements["good"].to_bytes().replace(b'"block":', b'"block":1'))
    (folder / "text.json").write_text("not a statement")
    (folder / "folder.json").mkdir()
    return folder


def audit(run, place, *options):
    return fedgrove("audit", str(run.directory), "--json", *options, cwd=place)


def pin(run, block):
    return f"{block}:0x{run.history.block_hash(block).hex()}"


def test_all_pins_together_hold(run, place):
    deployment = run.history.deployment
    options = ("--expect-ledger", deployment.ledger.lower(), "--expect-chain", str(deployment.chain_id))
    heads = ("--expect-head", pin(run, run.history.first_block), "--expect-head", pin(run, run.history.head_block))
    result = audit(run, place, *options, *heads, "--expect-statement", "good.json")
    assert result.returncode == 0 and len(json.loads(result.stdout)["pinned"]) == 5


def test_a_verdict_says_what_is_open(run, place):
    open_clause = json.loads(audit(run, place).stdout)["unpinned"]
    assert "not checked against a published head" in open_clause and "missing its latest blocks" in open_clause
    first = run.history.first_block
    told = json.loads(audit(run, place, "--expect-head", pin(run, first)).stdout)["unpinned"]
    assert f"no published head is later than block {first}" in told
    spoken = fedgrove("audit", str(run.directory), cwd=place)
    head = run.history.head_block
    assert f"verified up to block {head}, hash 0x{run.history.block_hash(head).hex()}" in spoken.stderr + spoken.stdout


def test_one_member_that_states_the_end_leaves_it_open_and_half_of_them_do_not(run, place):
    def told(*names):
        given = [option for name in names for option in ("--expect-statement", f"{name}.json")]
        found = json.loads(audit(run, place, *given).stdout)
        return found["unpinned"], [each for each in found["vouched"] if each.startswith("pinned")]

    head = run.history.head_block
    for names in (("end",), ("end", "end"), ("end", "good")):
        unpinned, pinned = told(*names)
        assert "fewer than half of the members" in unpinned and pinned == [f"pinned to block {head} by 1 of 3 members"]
    assert told("end", "second") == ("", [f"pinned to block {head} by 2 of 3 members"])
    unpinned, pinned = told("good", "second")
    assert f"no published head is later than block {head - 1}" in unpinned
    assert pinned == [f"pinned to block {head - 1} by 2 of 3 members"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--expect-head", "{head}:" + "00" * 32), "pinned head"),
        (("--expect-ledger", "0x" + "11" * 20), "pinned ledger"),
        (("--expect-chain", "1"), "pinned chain"),
        (("--expect-statement", "lie.json"), "pinned head"),
    ],
)
def test_a_pin_that_does_not_match_is_a_bad_record(run, place, options, field):
    result = audit(run, place, *(each.format(head=run.history.head_block) for each in options))
    assert result.returncode == 1
    assert json.loads(result.stdout)["first_bad_record"]["field"] == field


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--expect-head", "12"), "BLOCK:HASH"),
        (("--expect-head", "12:0x00"), "BLOCK:HASH"),
        (("--expect-head", "-1:" + "00" * 32), "BLOCK:HASH"),
        (("--expect-head", "latest:" + "00" * 32), "BLOCK:HASH"),
        (("--expect-head", "1" * 19 + ":" + "00" * 32), "BLOCK:HASH"),
        (("--expect-ledger", "0x12"), "--expect-ledger must be an address"),
        (("--expect-chain", "mainnet"), "valid integer"),
        (("--expect-statement", "nowhere.json"), "cannot read nowhere.json"),
        (("--expect-statement", "folder.json"), "cannot read folder.json"),
        (("--expect-statement", "text.json"), "not a statement of a head"),
        (("--expect-statement", "changed.json"), "signature"),
    ],
)
def test_a_pin_that_is_none_is_one_sentence(run, place, options, words):
    result = audit(run, place, *options)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert words in result.stderr and not result.stdout


def test_a_car_file_is_held_against_pins_too(run, place):
    export_car(run.directory, place / "run.car")
    last = run.history.head_block
    for options, code in ((("--expect-head", pin(run, last)), 0), (("--expect-statement", "lie.json"), 1)):
        assert fedgrove("audit", "verify", "run.car", "--json", *options, cwd=place).returncode == code


def test_a_history_without_its_end_is_refused_by_a_later_head(run, place, tmp_path):
    tape = run.tape
    tape.cut(run.history.head_block - 1)
    cut = forged_run(run, tmp_path / "cut", tape.encode())
    assert fedgrove("audit", str(cut), cwd=place).returncode == 0
    result = fedgrove("audit", str(cut), "--json", "--expect-head", pin(run, run.history.head_block), cwd=place)
    assert result.returncode == 1 and "is not in the history" in json.loads(result.stdout)["reason"]


# --- keys attest ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A federation on a chain of its own, of which alice is a member, and bob is not."""
    folder = tmp_path_factory.mktemp("joined")
    with anvil() as chain:
        for name in ("founder", "alice", "bob"):
            assert fedgrove("keys", "new", f"{name}.json", cwd=folder).returncode == 0
            chain.fund(account(folder, name), 1)
        names = json.dumps([account(folder, name) for name in ("founder", "alice", "bob")])
        (folder / "federation.toml").write_text(f"{FEDERATION}[membership]\nmembers = {names}\n")
        (folder / "store").mkdir()
        deployed = deploy(chain, folder)
        assert on_ledger("register", place=folder, keystore="alice.json").returncode == 0
        yield chain, folder, ("--rpc", chain.url, "--ledger", deployed["ledger"], "--store", "disk:store")


def attest(folder, keystore, *options):
    return fedgrove("keys", "attest", keystore, "--config", "federation.toml", *options, cwd=folder)


def test_a_member_states_the_head_that_it_sees(joined):
    chain, folder, reach = joined
    result = attest(folder, "alice.json", "--out", "head.json")
    assert result.returncode == 0, result.stderr
    statement = HeadStatement.from_bytes((folder / "head.json").read_bytes())
    assert statement.account == account(folder, "alice") and statement.chain_id == chain.chain_id
    assert statement.block <= chain.block_number() and f"block {statement.block}" in result.stderr + result.stdout
    held = fedgrove("audit", *reach, "--expect-statement", "head.json", "--json", cwd=folder)
    assert held.returncode == 2, held.stderr  # no round has closed
    assert json.loads(held.stdout)["pinned"] == [f"block {statement.block} as client 1 ({statement.account}) signed it"]


def test_a_stranger_cannot_state_it(joined):
    _, folder, _ = joined
    result = attest(folder, "bob.json", "--out", "bobs-head.json")
    assert result.returncode == 2 and "not registered" in result.stderr
    assert not (folder / "bobs-head.json").exists()


def test_a_keystore_that_is_none_is_one_sentence(joined):
    _, folder, _ = joined
    (folder / "text.json").write_text("not a keystore")
    for keystore in ("text.json", "nowhere.json"):
        result = attest(folder, keystore)
        assert result.returncode == 2 and "Traceback" not in result.stderr
