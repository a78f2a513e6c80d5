"""Whoever starts the command may close its standard streams: it does its work, and its exit code says how it went."""

import shutil
import subprocess
import sys

import pytest

CLOSINGS = [">&-", "2>&-", "<&-", "<&- >&- 2>&-"]
COMMAND = [sys.executable, "-m", "fedgrove.node.cli"]


def closing(streams: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run the command with streams that a shell has closed."""
    line = ["sh", "-c", f'"$@" {streams}', "sh", *COMMAND, *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def tampered(run, tmp_path_factory):
    """A run without its report, which an audit takes for a bad record."""
    place = tmp_path_factory.mktemp("tampered") / "run"
    shutil.copytree(run.directory, place)
    (place / "report.json").unlink()
    return place


@pytest.mark.parametrize("streams", CLOSINGS)
def test_an_audit_ends_with_its_verdicts_code(run, tampered, streams):
    verified = closing(streams, "audit", str(run.directory))
    assert verified.returncode == 0 and "Traceback" not in verified.stderr
    refuted = closing(streams, "audit", str(tampered))
    assert refuted.returncode == 1 and "Traceback" not in refuted.stderr


@pytest.mark.parametrize("streams", CLOSINGS)
def test_a_mistake_is_still_a_mistake(streams, tmp_path):
    done = closing(streams, "keys", "show", str(tmp_path / "nothing.json"))
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_each_stream_gets_its_own_number_so_that_no_child_takes_a_file_for_one():
    script = "from fedgrove.node.cli.output import open_closed_streams\nopen_closed_streams()\nimport os, sys\n"
    script += "os._exit(sum(stream.fileno() == number and os.get_inheritable(number) << number"
    script += " for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr))))"
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -c "$1" <&- >&- 2>&-', "sh", script], timeout=60)
    assert done.returncode == 0b111
