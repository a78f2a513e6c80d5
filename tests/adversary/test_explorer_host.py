"""A site whose name leads to this machine, so that its pages could read an explorer's through the user's browser.

Who attacks: a web page that the user of an explorer has open. It lets its own name point to 127.0.0.1 and asks for the
explorer's pages under it (DNS rebinding). What stops it: the explorer answers only to the names of this machine, in a
Host header that is one, to the last character.
"""

import shutil
import socket

import pytest

from fedgrove.node.explorer.cache import open_index
from fedgrove.node.explorer.server import serving
from fedgrove.node.explorer.sources import DirectorySource
from fedgrove.node.explorer.watch import IndexWatch

OURS = ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost:{port}", "127.0.0.1:{port}", "[::1]:8600"]
STRANGERS = [
    *("localhost:80@evil", "localhost:@evil", "localhost:80.evil", "localhost:80 evil", "localhost:80/evil"),
    *("127.0.0.1:80@evil", "[::1]evil", "[::1].evil", "[::1]@evil:80", "[::1", "::1", "[localhost]", "[127.0.0.1]"),
    *("evil", "localhost.evil", "localhost.", "evil:localhost", "evil@localhost", "localhost@evil", ""),
    *("localhost:", "localhost:123456", "localhost:99999", "localhost:x", "localhost:-1", "localhost,evil"),
    *("0.0.0.0", "127.0.0.2", "127.1", "2130706433", "0x7f.1", "localhost:8\u0660"),
]


@pytest.fixture(scope="module")
def port(run, tmp_path_factory):
    """Where an explorer listens on this machine."""
    place = tmp_path_factory.mktemp("explored")
    shutil.copytree(run.directory, place / "kept")
    source = DirectorySource(place / "kept")
    with open_index(source, place / "cache") as index, IndexWatch(source, index) as watch:
        watch.settle()
        with serving(watch) as address:
            yield int(address.rstrip("/").rpartition(":")[2])


def ask(port: int, *hosts: str) -> int:
    """Status of the answer to a request with these Host headers."""
    lines = ["GET / HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("host", OURS)
def test_names_of_this_machine_are_answered(port, host):
    assert ask(port, host.format(port=port)) == 200


@pytest.mark.parametrize("host", STRANGERS)
def test_any_other_name_is_not(port, host):
    assert ask(port, host) in (400, 421)


@pytest.mark.parametrize("hosts", [(), ("localhost", "evil"), ("evil", "localhost")])
def test_nor_is_a_request_with_no_name_or_two(port, hosts):
    assert ask(port, *hosts) in (400, 421)


@pytest.mark.mutants
def test_without_the_mend_a_stranger_is_answered(port, monkeypatch):
    """The name was taken to end at the first colon, or bracket."""
    monkeypatch.setattr("fedgrove.node.explorer.server.host_of", lambda headers: headers[0].partition(":")[0])
    assert ask(port, "localhost:80@evil") == 200
