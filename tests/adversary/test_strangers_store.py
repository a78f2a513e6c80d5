"""A store, or a federation's file, of a stranger that turns this machine's requests, or its passwords, to its own use.

The store answers with a redirect to the reader's own IPFS node: who followed it would shut that down, or remove what it
has pinned, as the node obeys everybody on its machine. A file that somebody sent for a comparison names a store of its
author's: the password for one's own store would be sent there, or any file that it names as a password. What stops
them: no redirect of a store is followed, and where several federations are compared no store gets a password.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from fedgrove.ipfs import kubo
from fedgrove.ipfs.kubo import KuboStore
from fedgrove.ipfs.store import StoreError
from fedgrove.node.cli import reach
from fedgrove.node.cli.histories import configured_content
from fedgrove.node.methods.terms import load_config
from tests.node.cli.test_bad_input import FEDERATION

DIGEST, PASSWORD = b"\1" * 32, "correct horse"


@dataclass
class Seen:
    """What a server was asked: paths, and what proved who asks."""

    url: str
    paths: list[str] = field(default_factory=list)
    passwords: list[str] = field(default_factory=list)


@contextmanager
def serving(redirect: str = "") -> Iterator[Seen]:
    """A server that answers every request with an error, or with a redirect."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.paths.append(self.path.partition("?")[0])
            seen.passwords += self.headers.get_all("authorization") or []
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(307 if redirect else 500)
            if redirect:
                self.send_header("location", redirect)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        seen = Seen(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield seen
        server.shutdown()
        thread.join()


def asked_through_a_redirect() -> list[str]:
    """What the reader's own node was asked, when the store of a stranger sent a request there."""
    with serving() as own, serving(f"{own.url}/api/v0/shutdown") as store:
        with pytest.raises(StoreError):
            KuboStore(store.url, 2.0).fetch(DIGEST, 100)
        assert store.paths
    return own.paths


def test_a_stores_redirect_to_ones_own_node_is_not_followed():
    assert asked_through_a_redirect() == []


@pytest.mark.mutants
def test_who_followed_it_would_shut_its_own_node_down(monkeypatch):
    def following(session, url, seconds, most_bytes, **options):
        return session.post(url, timeout=seconds, **options)

    monkeypatch.setattr(kubo, "answered", following)
    assert "/api/v0/shutdown" in asked_through_a_redirect()


@pytest.fixture
def password_sent(tmp_path, monkeypatch):
    """``password_sent(alone, named)``: what the store in a federation's file gets to see when it is opened."""
    monkeypatch.setattr(reach, "open_network", lambda reach: pytest.MonkeyPatch.context())  # a context, no network
    monkeypatch.setattr(reach, "find_federation", lambda *_: type("Deployment", (), {"ledger": "0x"}))
    monkeypatch.setattr("fedgrove.node.explorer.sources.LiveSource", lambda _, __, store, *___: store)
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    monkeypatch.setenv("FEDGROVE_STORE_PASSWORD_FILE", str(secret))

    def opened(alone: bool, named: str) -> list[str]:
        with serving() as store:
            config = tmp_path / "theirs.toml"
            file = f'store_password_file = "{secret}"\n' if named == "by the file" else ""
            where = f'rpc = "http://127.0.0.1:1"\nledger = "0x"\nstore = "{store.url.replace("//", "//you@")}"\n'
            config.write_text(f"{FEDERATION}\n[network]\n{where}{file}")
            with pytest.raises(StoreError):
                configured_content(config, load_config(config)[1], alone).fetch(DIGEST, 100)
        return store.passwords

    return opened


@pytest.mark.parametrize("named", ["by the environment", "by the file"])
def test_of_several_federations_no_store_gets_a_password(password_sent, named):
    mine = f"Basic {b64encode(f'you:{PASSWORD}'.encode()).decode()}"
    assert mine not in password_sent(alone=False, named=named)
    assert mine in password_sent(alone=True, named=named)  # the only one that is shown is the reader's own choice
