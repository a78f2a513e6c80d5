"""Which files of a directory a run may have written."""

import pytest

from fedgrove.node.audit.run_files import run_files
from fedgrove.node.protocol.bad_record import RuleBroken

BLOCK = "store/blocks/" + "ab" * 32


@pytest.mark.parametrize("name", ["report.json", "ledger.jsonl", "manifest.json", "store/lock", BLOCK])
def test_what_a_run_writes_has_its_name(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    assert run_files(tmp_path) == {name: 0}


@pytest.mark.parametrize("name", ["notes", "store/blocks/notes", "store/pins/report.json", "ab" * 32])
def test_any_other_name_is_refused_in_the_folders_of_the_store_too(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(RuleBroken, match="a run does not write this file"):
        run_files(tmp_path)
