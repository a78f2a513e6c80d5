"""``fedgrove task`` from a new folder to an approved bundle, and what a user's mistakes get."""

import json
import os

import pytest

from fedgrove.ipfs.cid import CID
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.tasks.approval import Approvals
from tests.node.cli.test_bad_input import FEDERATION, fedgrove
from tests.node.tasks.folders import FILES, write

STORE = ("--store", "disk:store")


@pytest.fixture(scope="module")
def keystores(tmp_path_factory):
    """Keystores of two members."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("alice", "bob"):
        assert fedgrove("keys", "new", f"{name}.json", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def place(keystores, tmp_path):
    """A folder with a task, and the members' keystores."""
    write(tmp_path / "mine", FILES)
    for path in keystores.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def done(*arguments, place) -> str:
    result = fedgrove("task", *arguments, cwd=place)
    assert result.returncode == 0, result.stderr
    return result.stdout


def told(*arguments, place) -> dict:
    return json.loads(done(*arguments, "--json", place=place))


def refused(*arguments, place, sentence) -> None:
    result = fedgrove("task", *arguments, cwd=place)
    assert result.returncode == 2 and not result.stdout
    assert sentence in result.stderr and result.stderr.count("\n") == 1, result.stderr


def packed(place, text: bytes | None = None) -> str:
    if text is not None:
        (place / "mine" / "task.py").write_bytes(text)
    return done("pack", "mine", *STORE, place=place).strip()


def test_from_a_new_folder_to_a_bundle_that_others_fetch(tmp_path):
    made = told("new", "fresh", "--kind", "text", place=tmp_path)
    assert sorted(made["files"]) == sorted(path.name for path in (tmp_path / "fresh").iterdir())
    cid = packed_as = done("pack", "fresh", *STORE, place=tmp_path).strip()
    assert str(CID.parse(cid)) == packed_as
    assert told("pack", "fresh", place=tmp_path)["bundle"] == cid  # without a store: the name alone
    done("fetch", cid, "received", *STORE, place=tmp_path)
    assert done("pack", "received", place=tmp_path).strip() == cid


def test_pack_lists_what_it_takes_so_that_data_are_not_published_by_accident(place):
    write(place / "mine", {"patients.csv": b"1,2\n"})
    result = fedgrove("task", "pack", "mine", cwd=place)
    assert "         4  patients.csv" in result.stderr and "5 files" in result.stderr


def test_show_lists_files_packages_and_versions(place):
    cid = packed(place)
    text = done("show", cid, *STORE, place=place)
    assert cid in text and "README.md" in text and "package numpy 1.0" in text
    assert "nobody has approved this bundle in client\nno other version was approved before" in text
    found = told("show", cid, *STORE, place=place)
    assert found["files"][0] == {"path": "README.md", "bytes": len(FILES["README.md"])}
    assert found["packages"] == {"numpy": "1.0"} and "in place of 1.0" in found["versions"][0]
    assert found["approved_by"] is found["approved_before"] is None and found["warnings"] == []
    assert "versions differ: installed here: numpy" in fedgrove("task", "show", cid, *STORE, cwd=place).stderr


def test_show_prints_all_of_a_first_version_and_names_what_cannot_be_read(place):
    write(place / "mine", {"notes.txt": "left \u202eright\x1b[2J\n".encode(), "weights.bin": b"\xff\xfe"})
    cid = packed(place)
    text = done("show", cid, *STORE, place=place)
    assert "+class Mine:\n+    rate = 0.1\n" in text and "+left \\u202eright\\x1b[2J\n" in text
    assert text.index("+class Mine") < text.index("+left")
    warnings = [line for line in text.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: notes.txt has characters that are not seen or change the order of others in line 1",
        "warning: weights.bin is not text, so nobody can read what is in it",
    ]
    found = told("show", cid, *STORE, place=place)
    assert [f"warning: {each}" for each in found["warnings"]] == warnings
    assert [each["change"] for each in found["changes"]] == ["added"] * 6
    for arguments in (("pack", "mine"), ("approve", cid, "--keystore", "alice.json", *STORE)):
        assert "\n".join(warnings) in fedgrove("task", *arguments, cwd=place).stderr


def test_approve_notes_the_bundle_and_show_compares_the_next_one_with_it(place):
    first = packed(place)
    approved = told("approve", first, "--keystore", "alice.json", *STORE, place=place)
    approvals = Approvals(place / "client", approved["account"])
    assert approvals.check(CID.parse(first)).account == approved["account"]
    second = packed(place, FILES["task.py"].replace(b"0.1", b"0.2"))
    text = done("show", second, *STORE, place=place)
    assert f"compared with {first}, which account {approved['account']} approved:" in text
    assert "-    rate = 0.1\n+    rate = 0.2\n" in text
    found = told("approve", second, "--keystore", "alice.json", *STORE, place=place)
    assert found["approved_before"] == {"bundle": first, "account": approved["account"]}
    assert [(each["path"], each["change"]) for each in found["changes"]] == [("task.py", "changed")]
    assert approvals.check(CID.parse(second)).number == 2


def test_show_says_whether_this_member_has_approved_the_bundle(place):
    first = packed(place)
    account = told("approve", first, "--keystore", "alice.json", *STORE, place=place)["account"]
    text = done("show", first, *STORE, place=place)
    assert f"account {account} has approved this bundle: its client in client may run it\n" in text
    assert "read the files" not in text
    assert told("show", first, *STORE, place=place)["approved_by"] == account
    assert "nobody has approved this bundle in bob\n" in done("show", first, *STORE, "--directory", "bob", place=place)

    second = packed(place, FILES["task.py"].replace(b"0.1", b"0.2"))
    assert f"account {account} has not approved the task {second}\n" in done("show", second, *STORE, place=place)
    assert told("show", second, *STORE, place=place)["approved_by"] is None

    done("approve", second, "--keystore", "alice.json", *STORE, place=place)
    altered = place / "client" / "tasks" / f"{first}.json"
    altered.write_bytes(altered.read_bytes().replace(b'"number":1', b'"number":3'))
    assert "its signature is not that of the account it names" in done("show", first, *STORE, place=place)
    assert told("show", first, *STORE, place=place)["approved_by"] is None


def test_the_version_before_is_compared_even_where_the_store_has_forgotten_it(place):
    first = packed(place)
    done("approve", first, "--keystore", "alice.json", *STORE, place=place)
    store = DiskStore(place / "store")
    for pin in (place / "store" / "pins").iterdir():
        store.unpin(bytes.fromhex(pin.name))
    store.collect_garbage()
    second = packed(place, b"rate = 0.3\n")
    assert "+rate = 0.3" in done("show", second, *STORE, place=place)


def test_each_account_has_its_own_approvals(place):
    first, second = packed(place), packed(place, b"rate = 0.3\n")
    accounts = [
        told("approve", cid, "--keystore", f"{name}.json", *STORE, place=place)["account"]
        for name, cid in (("alice", first), ("bob", second))
    ]
    third = packed(place, b"rate = 0.4\n")
    refused("show", third, *STORE, place=place, sentence="name yours with --account")
    for account, cid in zip(accounts, (first, second), strict=True):
        found = told("show", third, *STORE, "--account", account.lower(), place=place)
        assert found["approved_before"] == {"bundle": cid, "account": account}


def test_the_store_may_be_the_federations(place):
    (place / "federation.toml").write_text(FEDERATION + '[network]\nstore = "disk:store"\n')
    cid = done("pack", "mine", "--config", "federation.toml", place=place).strip()
    assert told("show", cid, "--config", "federation.toml", place=place)["bundle"] == cid


def test_a_lock_is_renewed_when_asked_for(place):
    assert told("pack", "mine", place=place)["versions"]
    assert not told("pack", "mine", "--relock", place=place)["versions"]


CID_TEXT = "bafybeic255teqai7yisxkttf7nfr4d4qyhyifnf4tlpz43rkmzcecujbii"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("new", "mine"), "is not empty"),
        (("new", "other", "--kind", "sound"), "--kind must be one of tabular, text, images"),
        (("pack", "nowhere"), "neither a folder nor a Python file"),
        (("pack", "mine", "--store", "ftp://x"), "--store must be disk:PATH"),
        (("pack", "mine", "--store", "disk:"), "--store must be disk:PATH"),
        (("pack", "mine", "--store", "disk:mine/store"), "give a store elsewhere"),
        (("show", CID_TEXT), "give --store"),
        (("show", "bafk", *STORE), "BUNDLE must be the CID"),
        (("show", CID_TEXT, "--store", "disk:nowhere"), "there is no store"),
        (("show", CID_TEXT, *STORE, "--account", "0x12"), "--account must be an address"),
        (("fetch", CID_TEXT, "mine", *STORE), "exists already"),
        (("approve", CID_TEXT, "--keystore", "nobody.json", *STORE), "Cannot read nobody.json"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_one_sentence(place, arguments, sentence):
    assert packed(place) == CID_TEXT
    refused(*arguments, place=place, sentence=sentence)


def test_what_is_not_there_is_one_sentence(place):
    packed(place)
    gone = "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354"
    refused("show", gone, *STORE, place=place, sentence="does not hold this block")


def test_a_bundle_that_is_damaged_is_neither_shown_nor_approved_nor_written(place):
    cid = packed(place)
    for block in (place / "store" / "blocks").iterdir():
        if block.read_bytes() == FILES["task.py"]:
            block.write_bytes(b"import os\n")
    for arguments in (("show", cid), ("approve", cid, "--keystore", "alice.json"), ("fetch", cid, "got")):
        refused(*arguments, *STORE, place=place, sentence="do not match its CID")
    assert not (place / "client").exists() and not (place / "got").exists()


def test_code_of_a_bundle_never_runs(place):
    cid = packed(place, f"import os\nos.mkdir({str(place / 'ran')!r})\n".encode())
    done("show", cid, *STORE, place=place)
    done("approve", cid, "--keystore", "alice.json", *STORE, place=place)
    done("fetch", cid, "got", *STORE, place=place)
    assert not (place / "ran").exists() and os.listdir(place / "got") != []
