"""``fedgrove audit --follow`` on a chain of its own process: what it survives, and at what it rings."""

import json
import signal
import subprocess
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedgrove.chain.face.networks import anvil, connect
from fedgrove.chain.records import Closed
from fedgrove.common.errors import RunFailed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Unreachable
from fedgrove.node.audit import webhook
from fedgrove.node.audit.follow import READINGS, Follower
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.audit.webhook import Webhook
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.bad_record import BadRecord
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.terms import FederationSettings
from tests import warm
from tests.node.cli.test_bad_input import fedgrove
from tests.node.federation import Federation, LyingCoordinator

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
SECONDS = 60


class ForeignModel(LyingCoordinator):
    """Closes with the model it likes."""


@pytest.fixture(scope="module")
def chain():
    with anvil() as network:
        yield network


@pytest.fixture
def found(chain, tmp_path):
    """Founds a federation of three registered members whose roles have a connection of their own."""

    def make(rounds=2, network=chain, **settings):
        made = Federation.found(
            network, tmp_path, clients=3, training=QUICK, federation=FederationSettings(rounds=rounds, **settings)
        )
        made.register()
        return made

    return make


def follower(federation, network, store=None, confirmations=0):
    return Follower(network, federation.deployment, store or federation.store, confirmations)


def run_and_look(federation, watch, coordinator=None):
    """Let the federation run, with a look after every turn; the verdict of each look."""
    coordinator, clients = coordinator or federation.coordinator(), federation.clients()
    verdicts = []
    while federation.turn(coordinator, clients):
        verdicts.append(watch.look())
    return [*verdicts, watch.look()]


def turn_until(federation, coordinator, clients, role, said):
    while said not in federation.said(role):
        federation.turn(coordinator, clients)


# --- auditing step by step --------------------------------------------------------------------------------------------


def test_each_round_is_audited_as_soon_as_it_has_ended_and_nothing_twice(chain, found, monkeypatch):
    federation, checked, ended = found(), Counter(), []
    check = Law.check

    def counting(self, record):
        checked[record.at] += 1
        check(self, record)

    def look():
        with monkeypatch.context() as patch:  # the members' own views check records too, and are not counted
            patch.setattr(Law, "check", counting)
            return watch.look()

    watch, reader = follower(federation, chain), federation.ledger(federation.keys[0])
    coordinator, clients = federation.coordinator(), federation.clients()
    while federation.turn(coordinator, clients):
        look()
        closed = sum(isinstance(record, Closed) for record in reader.records())
        ended.append((watch.rounds, closed))
    assert set(ended) == {(0, 0), (1, 1), (2, 2)}
    verdict = look()
    assert verdict.verdict == "verified" and verdict.rounds == 2
    assert checked and set(checked.values()) == {1}
    assert verdict.records == len(checked) == federation.audit().records


def test_a_coordinator_that_lies_is_named_before_the_next_round_ends(chain, found):
    federation = found(checkers=0.0)
    watch = follower(federation, chain)
    coordinator, clients = federation.coordinator(ForeignModel), federation.clients()
    verdict = None
    while verdict is None:
        federation.turn(coordinator, clients)
        verdict = watch.look()
    assert verdict.exit_code == 1 and coordinator.round == 1, verdict.reason
    assert (verdict.first_bad_record.round, verdict.first_bad_record.field) == (1, "closed.model")


def test_a_lie_that_the_members_voided_by_then_is_a_remark(chain, found):
    federation = found(rounds=1)
    watch = follower(federation, chain)
    federation.run(coordinator=federation.coordinator(ForeignModel))
    verdict = watch.look()
    assert verdict.verdict == "verified"
    assert "closed.model" in [remark.field for remark in verdict.remarks]


def test_records_wait_for_their_confirmations(chain, found):
    federation = found(rounds=1)
    federation.run()
    watch = follower(federation, chain, confirmations=5)
    chain.mine(1)
    assert watch.look() is None and watch.rounds == 0
    chain.mine(5)
    assert watch.look().verdict == "verified"


def test_a_store_that_is_away_is_waited_for(chain, found):
    federation = found(rounds=1)
    federation.run()

    class Flaky(DiskStore):
        away = True

        def fetch(self, digest, max_bytes):
            if self.away:
                raise Unreachable("the store at 127.0.0.1 does not answer")
            return super().fetch(digest, max_bytes)

    store = Flaky(federation.directory / "store")
    watch = follower(federation, chain, store)
    assert watch.look() is None and "does not answer" in watch.waiting
    store.away = False
    verdict = watch.look()
    assert verdict.verdict == "verified" and not watch.waiting
    assert verdict.records == federation.audit().records


# --- chains that change their mind, or are away -----------------------------------------------------------------------


def test_a_reorganisation_of_a_running_round_is_followed(chain, found):
    federation = found(rounds=1, network=connect(chain.url))
    watch = follower(federation, chain)
    coordinator, clients = federation.coordinator(), federation.clients()
    turn_until(federation, coordinator, clients, "client 3", "drew")
    chain.mine(federation.config.ledger.order_delay)  # a new block for the order would give masks another graph
    snapshot = chain.request("evm_snapshot")
    turn_until(federation, coordinator, clients, "client 3", "shared")
    assert watch.look() is None
    seen = chain.block_number()
    assert chain.request("evm_revert", snapshot) is True
    assert watch.look() is None and not watch.waiting  # the node is only behind, so far
    federation.network = connect(chain.url)
    chain.mine(seen - chain.block_number() + 1)
    assert run_and_look(federation, watch)[-1].verdict == "verified"
    assert federation.audit().verdict == "verified"


def test_a_chain_that_changes_what_was_audited_is_a_bad_record(chain, found):
    federation = found(rounds=2, network=connect(chain.url))
    watch = follower(federation, chain)
    coordinator, clients = federation.coordinator(), federation.clients()
    turn_until(federation, coordinator, clients, "client 3", "released shares")
    snapshot = chain.request("evm_snapshot")
    while coordinator.round < 2:
        federation.turn(coordinator, clients)
    assert watch.look() is None and watch.rounds == 1
    seen = chain.block_number()
    assert chain.request("evm_revert", snapshot) is True
    chain.mine(seen - chain.block_number() + 1)
    verdict = watch.look()
    assert verdict.exit_code == 1 and verdict.rounds == 1
    assert (verdict.first_bad_record.round, verdict.first_bad_record.field) == (1, "chain")
    assert "history was audited" in verdict.reason


def test_an_endpoint_that_is_away_is_waited_for(found, tmp_path):
    state = tmp_path / "chain.json"
    with anvil(state) as first:
        port = int(first.url.rsplit(":", 1)[1])
        federation = found(rounds=2, network=first)
        coordinator, clients = federation.coordinator(), federation.clients()
        watch = follower(federation, connect(first.url))
        while federation.said("client 3").count("drew") < 2:
            federation.turn(coordinator, clients)
        assert watch.look() is None and watch.rounds == 1
    assert watch.look() is None and "does not answer" in watch.waiting
    with anvil(state, port) as second:
        federation.network = second
        verdict = run_and_look(federation, watch)[-1]
        assert verdict.verdict == "verified", verdict.reason
        assert not watch.waiting


def garbling(chain):
    """The chain as a node shows it that may answer with headers that do not hash to what it claims."""

    class Garbling(type(chain)):
        lies = True

        def __init__(self):
            self.__dict__.update({**chain.__dict__, "_shared": {}})  # what it reads is read through itself

        def headers(self, first, last):
            headers = super().headers(first, last)
            return [*headers[:-1], headers[0]] if self.lies else headers

    return Garbling()


def test_a_node_whose_answers_no_longer_hold_together_is_a_bad_record(chain, found):
    federation = found(rounds=1)
    node = garbling(chain)
    node.lies = False
    watch = follower(federation, node)
    assert watch.look() is None
    federation.run()
    node.lies = True
    looks = [watch.look() for _ in range(READINGS)]
    assert looks[:-1] == [None] * (READINGS - 1) and watch.rounds == 0
    assert looks[-1].exit_code == 1 and looks[-1].first_bad_record.field == "ledger"


def test_of_a_chain_whose_headers_never_held_together_nothing_can_be_told(chain, found):
    federation = found(rounds=1)
    federation.run()
    watch = follower(federation, garbling(chain))
    looks = [watch.look() for _ in range(READINGS)]
    assert looks[-1].exit_code == 2 and "cannot be verified" in looks[-1].reason


# --- the command ------------------------------------------------------------------------------------------------------


class Bell:
    """A web server that keeps what it is told, and answers with one status."""

    def __init__(self, status=200):
        told = self.told = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.append((self.path, self.headers["Content-Type"], body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def follow_line(federation, chain, *more):
    reach = ("--rpc", chain.url, "--ledger", federation.deployment.ledger, "--store", f"disk:{federation.store.path}")
    return ("audit", "--follow", *more, *reach, "--interval", "0.1", "--json")


@pytest.fixture
def lie(found):
    """A federation whose coordinator has closed round 1 with a foreign model."""
    federation = found(rounds=2, checkers=0.0)
    coordinator, clients = federation.coordinator(ForeignModel), federation.clients()
    while not any(said.startswith("closed") for said in federation.said("coordinator")):
        federation.turn(coordinator, clients)
    return federation


def test_it_ends_with_the_federation(chain, found, tmp_path):
    federation = found(rounds=1)
    federation.run()
    with Bell() as bell:
        result = fedgrove(*follow_line(federation, chain, "--webhook", bell.url), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["verdict"] == "verified" and not bell.told


def test_it_goes_on_with_two_endpoints_that_agree_where_a_third_is_away(chain, found, tmp_path):
    federation = found(rounds=1)
    federation.run()
    others = ("--rpc", "http://127.0.0.1:1", "--rpc", chain.url.replace("127.0.0.1", "localhost"))
    result = fedgrove(*follow_line(federation, chain, *others), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_it_waits_while_fewer_endpoints_answer_than_must_agree(chain, found):
    federation = found(rounds=1)
    federation.run()
    watch = follower(federation, connect([chain.url, "http://127.0.0.1:1"]))
    assert watch.look() is None and "must agree" in watch.waiting


def test_it_rings_at_the_first_bad_record(chain, lie, tmp_path):
    with Bell() as bell:
        result = fedgrove(*follow_line(lie, chain, "--webhook", f"{bell.url}/ring"), cwd=tmp_path)
    assert result.returncode == 1
    verdict = json.loads(result.stdout)
    assert verdict["first_bad_record"]["field"] == "closed.model"
    ((path, kind, body),) = bell.told
    assert (path, kind, json.loads(body)) == ("/ring", "application/json", verdict)


def test_a_webhook_that_refuses_is_a_sentence_that_keeps_its_path_secret(chain, lie, tmp_path, monkeypatch):
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", 0.0)
    with Bell(status=500) as bell:
        result = fedgrove(*follow_line(lie, chain, "--webhook", f"{bell.url}/token-of-mine"), cwd=tmp_path)
    assert result.returncode == 1 and len(bell.told) == webhook.ATTEMPTS
    (sentence,) = [line for line in result.stderr.splitlines() if "webhook" in line]
    assert "500" in sentence and bell.url in sentence and "token-of-mine" not in result.stderr


class Dripping:
    """A web server that answers with a byte now and then, and never comes to an end."""

    def __init__(self):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                while not stop.wait(0.02):
                    self.wfile.write(b"H")

            def log_message(self, *arguments):
                pass

        stop = self._stop = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()


def test_a_webhook_that_never_ends_its_answer_is_given_up(monkeypatch):
    monkeypatch.setattr(webhook, "SECONDS", 0.2)
    monkeypatch.setattr(webhook, "ATTEMPTS", 1)
    verdict = Verdict("bad record", BadRecord(1, None, "closed.model", "it is another"))
    with Dripping() as server, pytest.raises(RunFailed, match="did not answer"):
        Webhook(server.url).ring(verdict)


def test_a_webhook_that_is_not_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", 0.0)
    with Bell() as bell:
        gone = bell.url
    with pytest.raises(RunFailed, match="cannot be reached"):
        Webhook(gone).ring(Verdict("bad record", BadRecord(1, None, "closed.model", "it is another")))


def test_an_interrupt_ends_it_with_what_is_verified_so_far(chain, found, tmp_path):
    federation = found(rounds=2)
    coordinator, clients = federation.coordinator(), federation.clients()
    while coordinator.round < 2:
        federation.turn(coordinator, clients)
    command = [*warm.command(), *follow_line(federation, chain)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "audited rounds: 1" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130 and "Traceback" not in err, err
    verdict = json.loads(out)
    assert verdict["verdict"] == "verified" and verdict["rounds"] == 1 and "stopped" in verdict["reason"]
