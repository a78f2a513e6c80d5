"""Code that is not what its readers see.

Who attacks: whoever proposes a task. Members read what ``fedgrove task show`` prints and approve it; the author wants
Python to run something else than they read: lines that are a comment in the encoding that people see and code in the
one that a comment names; lines that a carriage return begins for Python alone; a form feed that ends an indentation; a
module that another file of the same name hides; code far to the right, or after a screen of nothing; names whose
letters look like others; a file that nobody can read.

What stops it: a Python file is UTF-8 without such characters, or it is no part of a bundle: when it is packed, when it
is fetched, and when an approved one is opened to be run. What may be there is escaped or named in a warning.
"""

import os
import subprocess
import sys

import pytest

from fedgrove.chain.crypto.account import Account
from fedgrove.ipfs.directory import folder_nodes
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.tasks.approval import Approvals
from fedgrove.node.tasks.bundle import Bundle, draft, publish
from fedgrove.node.tasks.difference import changes
from fedgrove.node.tasks.fetching import fetch_bundle
from fedgrove.node.tasks.names import InvalidBundle
from fedgrove.node.tasks.reading_notes import reading_notes
from tests.adversary.bounded import Raised, bounded
from tests.node.tasks.folders import FILES, write

RUNS = "open('ran', 'w')"
HIDDEN = {
    "a comment in UTF-7": f"# -*- coding: utf-7 -*-\n# +AAo-{RUNS}\n",
    "on the second line": f"#!/usr/bin/python\n# vim: set fileencoding=utf_7 :\n# +AAo-{RUNS}\n",
    "after a carriage return": f"# nothing\r# coding: utf-7\r# +AAo-{RUNS}\n",
    "an escape in a comment": f"# coding: raw_unicode_escape\n# see \\u000a{RUNS}\n",
    "behind a carriage return": f"# the usual\r{RUNS}\n",
    "out of its block by a form feed": f"if False:\n    pass\n    \f{RUNS}\n",
}
MEMBER = Account(bytes([1]) * 32)


def files_with(task: str | bytes, **others: bytes) -> dict[str, bytes]:
    text = task if isinstance(task, bytes) else task.encode()
    return {**FILES, "task.py": text, **others}


def published(store: DiskStore, files: dict[str, bytes]):
    """The CID of a folder that was not packed by us."""
    for node in folder_nodes(files):
        store.put(node.data)
    return node.entry.cid


def has_run(folder, program="import task") -> bool:
    """Whether Python, in a folder of its own, does what the hidden line says."""
    (folder / "place").mkdir()
    paths = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", program], cwd=folder / "place", env=paths, check=False, capture_output=True)
    return (folder / "place" / "ran").exists()


@pytest.fixture(params=HIDDEN)
def hidden(request) -> dict[str, bytes]:
    return files_with(HIDDEN[request.param])


def test_a_line_that_is_shown_as_something_else_cannot_be_packed(hidden, tmp_path):
    write(tmp_path / "mine", {path: data for path, data in hidden.items() if path != "task.lock"})
    with pytest.raises(InvalidBundle, match=r"task\.py.*(save it as UTF-8|remove it)"):
        draft(tmp_path / "mine")


def test_nor_fetched(hidden, tmp_path):
    store = DiskStore(tmp_path / "store")
    with pytest.raises(InvalidBundle, match=r"is not a bundle: task\.py"):
        fetch_bundle(store, published(store, hidden))


def test_nor_run_where_it_was_approved_before(hidden, tmp_path, monkeypatch):
    """By a version of fedgrove that did not look: approval and files are there."""
    store, approvals = DiskStore(tmp_path / "store"), Approvals(tmp_path / "client", MEMBER.address)
    with monkeypatch.context() as old:
        old.setattr("fedgrove.node.tasks.bundle.check_python", lambda *_: None)
        bundle = Bundle.of(hidden)
        publish(bundle, store)
        approvals.approve(MEMBER, bundle)
        assert approvals.open(bundle.cid, store).is_dir()
    with pytest.raises(InvalidBundle, match=r"task\.py"):
        approvals.open(bundle.cid, store)


def test_a_file_in_latin_1_is_refused_not_left_out_of_what_is_shown(tmp_path):
    store = DiskStore(tmp_path / "store")
    for path in ("task.py", "layers/block.py"):
        files = files_with(f"# coding: latin-1\n{RUNS}\n")
        files[path] = f"# coding: latin-1\n{RUNS}  # \xe9\n".encode("latin-1")
        with pytest.raises(InvalidBundle, match="UTF-8"):
            fetch_bundle(store, published(store, files))


def test_of_a_module_and_a_package_of_one_name_people_would_read_the_other(tmp_path):
    files = files_with("import block\n", **{"block.py": b"x = 1\n", "block/__init__.py": RUNS.encode()})
    assert has_run(write(tmp_path, files))
    with pytest.raises(InvalidBundle, match=r"block\.py and block/__init__\.py are one module"):
        Bundle.of(files)


OVERLOOKED = {
    "far to the right": f"x = 1;{' ' * 4000}{RUNS}\n",
    "after a screen of nothing": "x = 1\n" + "\n" * 4000 + RUNS + "\n",
    "a name that is another": f"getattr(__builtins__, 'x', None); \U0001d428\U0001d429\U0001d41e\U0001d427{RUNS[4:]}\n",
    "a function that overrides none": f"def loss(): {RUNS}\ndef l\u043ess(): pass\nloss()\n",
    "a module of Python's": f"import colorsys as colours; {RUNS}\n",
}


@pytest.mark.parametrize("kind", OVERLOOKED)
def test_what_runs_and_is_easily_overlooked_is_named_in_a_warning(tmp_path, kind):
    others = {"colorsys.py": b""} if "module" in kind else {}
    files = files_with(OVERLOOKED[kind], **others)
    assert has_run(write(tmp_path, files))
    assert reading_notes(Bundle.of(files))


def test_a_first_version_is_shown_without_what_fools_a_terminal():
    text = "x = 1  # \u202e\u2066\u200b\x9b2J \ufe0f\nclass Mine: pass\n"
    (change,) = (each for each in changes(None, Bundle.of(files_with(text))) if each.path == "task.py")
    assert all(line.isascii() and line.isprintable() for line in change.lines)
    assert "+class Mine: pass" in change.lines


def test_a_file_that_nobody_can_read_is_named_in_a_first_version():
    bundle = Bundle.of(files_with("x = 1\n", **{"weights.bin": b"\x80\x04"}))
    assert any("weights.bin is not text" in note for note in reading_notes(bundle))


@pytest.mark.parametrize("unit", ["a,", "a();", "a+", "~a,", "0:0,"])
def test_a_python_file_of_eight_mebibytes_is_refused_before_it_is_parsed(tmp_path, unit):
    write(tmp_path / "mine", {"task.py": (unit * (8 << 20))[: 8 << 20].encode()})
    end = bounded(lambda: draft(tmp_path / "mine"), mebibytes=64)
    assert isinstance(end, Raised) and end.kind is InvalidBundle and "at most 256 KiB" in end.message, end


@pytest.mark.parametrize("unit", ["a,", "a();", "~a,"])
def test_the_largest_that_is_parsed_takes_little(tmp_path, unit):
    write(tmp_path / "mine", {"task.py": (unit * (256 << 10))[: 256 << 10].rstrip("~(,").encode()})
    end = bounded(lambda: bool(draft(tmp_path / "mine").contents), mebibytes=256)
    assert end is True or (isinstance(end, Raised) and end.kind is InvalidBundle), end


# --- without what stops it --------------------------------------------------------------------------------------------


@pytest.mark.mutants
def test_without_the_check_python_runs_what_nobody_was_shown(hidden, tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.tasks.bundle.check_python", lambda *_: None)
    (change,) = (each for each in changes(None, Bundle.of(hidden)) if each.path == "task.py")
    shown = "\n".join(line[1:] for line in change.lines[3:])
    write(tmp_path, hidden)
    assert has_run(tmp_path)
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "task.py").write_text(shown)
    assert not has_run(tmp_path / "shown", "exec(open('../task.py', encoding='utf-8').read())")  # as people read it


@pytest.mark.mutants
def test_without_the_bound_a_mebibyte_is_half_a_gibibyte(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrove.node.tasks.python_text.MAX_PYTHON_BYTES", 8 << 20)
    write(tmp_path / "mine", {"task.py": b"a();" * (1 << 18)})
    end = bounded(lambda: draft(tmp_path / "mine"), mebibytes=256)
    assert end == Raised(InvalidBundle, "task.py is not Python that can be read")  # for want of memory
