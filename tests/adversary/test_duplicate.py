"""One keystore run in two directories: by mistake, or by whoever copied the machine.

Who attacks: nobody, mostly: a member starts its client a second time, from a backup or on another machine. Both draw
for the same account with secrets of their own; whichever record comes second is refused, and neither can go on with
what the other began. Where they take turns rounds are lost, and the slower one waits politely.

What stops it: each client knows what its own journal made. A record of its account that it did not make, and that came
while it was there, is another process's: the one that was not there first ends with a sentence.
"""

import shutil
import time

import pytest

from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.records import Closed, Committed
from fedgrove.node.base.files import AlreadyInUse
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.duplicates import Duplicates
from tests import warm
from tests.node.cli.test_services import Processes
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
ROUNDS, LONG = 3, 6


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=4, rounds=ROUNDS, training=QUICK)
        made.register()
        yield made


class Two:
    """Clients with the keys of member 1: the first one, and another that begins at some moment, before or after it.

    Attributes
    ----------
    ended : dict of str to str
        Sentence with which one of them ended.
    alarms : set of str
        What they said and went on.
    waits : dict of str to set of str
        Whom each waited for, and why.
    """

    def __init__(self, federation: Federation, faster: str, restarting: bool = False) -> None:
        self._federation = federation
        self._order = ["other", "first"] if faster == "other" else ["first", "other"]
        self._restarting = restarting
        self._running: dict[str, Client] = {"first": self.begin("first")}
        self.ended: dict[str, str] = {}
        self.alarms: set[str] = set()
        self.waits: dict[str, set[str]] = {"first": set(), "other": set()}

    def begin(self, name: str) -> Client:
        directory = self._federation.directory / ("client-1" if name == "first" else "another place")
        return self._federation.client(1, directory=directory)

    def another(self) -> None:
        self._running["other"] = self.begin("other")

    def step(self) -> Step:
        """One step of each; what they came to: something done, or the wait that ends first."""
        found = []
        for name in self._order:
            if name not in self._running:
                continue
            if self._restarting:
                self._running[name] = self.begin(name)
            try:
                found.append(self._running[name].step())
                self.waits[name].add(found[-1].waiting)
                self.alarms |= {self._running[name].alarm} - {""}
            except AlreadyInUse as fault:
                self.ended[name] = str(fault)
                del self._running[name]
        return min(found, key=lambda step: (not step.acted, step.until))


def run(federation: Federation, two: Two, begins: tuple[str, int] = ("", 0)) -> list[int]:
    """Run to the end; the other one begins when the coordinator has done something so many times.

    Returns the rounds that member 1 committed in.
    """
    coordinator, (word, times) = federation.coordinator(), begins
    clients = {1: two, **{number: federation.client(number) for number in (2, 3, 4)}}
    begun = not times
    while federation.turn(coordinator, clients):
        done = [sentence for sentence in federation.said("coordinator") if sentence.startswith(word)]
        if not begun and len(done) == times:
            two.another()
            begun = True
    records = federation.history().records()
    assert begun and federation.audit().verdict == "verified"
    assert [record.round for record in records if isinstance(record, Closed)] == list(range(1, ROUNDS + 1))
    return [record.round for record in records if isinstance(record, Committed) and record.client == 1]


@pytest.mark.parametrize("faster", ["first", "other"])
@pytest.mark.parametrize("begins", [("closed", 1), ("opened", 2), ("sealed", 2)])
def test_the_later_one_ends_and_the_first_one_loses_nothing(federation, faster, begins):
    two = Two(federation, faster)
    committed = run(federation, two, begins)
    assert list(two.ended) == ["other"] and not two.alarms
    assert "another process uses this keystore" in two.ended["other"] and "client 1" in two.ended["other"]
    assert committed == list(range(1, ROUNDS + 1))


@pytest.mark.parametrize("faster", ["first", "other"])
def test_of_two_that_begin_together_one_ends_in_the_first_round(federation, faster):
    two = Two(federation, faster)
    two.another()
    committed = run(federation, two)
    assert len(two.ended) == 1 and "round 1" in next(iter(two.ended.values()))
    assert committed == list(range(1, ROUNDS + 1))


class Behind(Ledger):
    """What an endpoint shows that hides all blocks behind ``last``, or that is not there yet."""

    last: int | None = None

    def records(self, since=None):
        return [each for each in super().records(since) if self.last is None or each.at.block <= self.last]

    def confirmed_block(self, confirmations=0):
        block = super().confirmed_block(confirmations)
        return block if self.last is None else min(block, self.last)


def restarted_behind(federation: Federation) -> Step:
    """The step of a client that began at an endpoint which was rounds behind, when it shows all."""
    coordinator, clients = federation.coordinator(), federation.clients()
    while federation.turn(coordinator, clients):
        latest = coordinator.view.rounds.latest
        if latest is not None and latest.number == LONG - 1 and latest.end is None:
            break
    ledger = Behind(federation.network, federation.deployment, federation.keys[0].account)
    ledger.last = coordinator.view.rounds.rounds[2].opened.opened_at
    client = federation.client(1, ledger=ledger)
    assert not client.step().acted
    ledger.last = None
    return client.step()


def test_an_endpoint_that_was_behind_at_a_restart_ends_no_client(tmp_path):
    with embedded() as network:
        federation = Federation.found(network, tmp_path, clients=4, rounds=LONG, repeats=4, training=QUICK)
        federation.register()
        assert restarted_behind(federation).acted == "drew"
        federation.run()
        assert federation.audit().verdict == "verified"


@pytest.mark.parametrize("faster", ["first", "other"])
def test_of_two_with_the_same_journal_one_ends(federation, faster):
    """A copied machine: both hold the same secrets, and both were there first."""
    two = Two(federation, faster)
    begin = two.another

    def copied():
        shutil.copytree(federation.directory / "client-1", federation.directory / "another place")
        begin()

    two.another = copied
    committed = run(federation, two, ("sealed", 2))
    assert len(two.ended) == 1
    assert len(committed) >= ROUNDS - 1


def test_a_client_that_is_started_again_and_again_is_no_duplicate_of_itself(federation):
    two = Two(federation, "first", restarting=True)
    two.another = lambda: None
    assert run(federation, two) == list(range(1, ROUNDS + 1))
    assert not two.ended and not two.alarms


def test_a_client_whose_journal_was_lost_waits_a_round_and_is_back(federation):
    two = Two(federation, "first")

    def lost():
        shutil.rmtree(federation.directory / "client-1")
        two._running["first"] = two.begin("first")

    two.another = lost
    assert run(federation, two, ("closed", 1)) == [1, 3]
    assert not two.ended and not two.alarms


def test_the_command_ends_with_a_sentence_and_an_error_in_its_log(tmp_path):
    with anvil() as network:
        made = Processes.found(network, tmp_path, clients=3, rounds=10, command=warm.command())
        try:
            for name in ("coordinator", "client-1", "client-2", "client-3"):
                made.start(name, *(("--members", "3") if name == "coordinator" else ()))
            while not any(line["event"] == "drew" for line in made.lines("client-1")):
                made.pacer.step()
                time.sleep(0.1)
            shutil.copy(tmp_path / "client-1.json", tmp_path / "client-9.json")
            for name in ("password", "npz"):
                shutil.copy(tmp_path / f"client-1.{name}", tmp_path / f"client-9.{name}")
            made.start("client-9")
            assert made.wait("client-9") == 2
            assert made.running["client-1"].poll() is None
            *log, last = (tmp_path / "client-9.log").read_text().strip().splitlines()
        finally:
            made.stop_all()
    assert last.startswith("fedgrove: another process uses this keystore")
    assert any('"level": "error"' in line for line in log)


# --- the mistake goes unseen where the mend is taken out --------------------------------------------------------------


@pytest.mark.mutants
@pytest.mark.parametrize("faster", ["first", "other"])
def test_without_the_mend_both_go_on_and_one_waits_politely_for_ever(federation, monkeypatch, faster):
    monkeypatch.setattr(Duplicates, "look", lambda self, rounds, client, block: None)
    monkeypatch.setattr(Duplicates, "waiting", lambda self, rounds, client, number: "")
    two = Two(federation, faster)
    run(federation, two, ("closed", 1))
    assert not two.ended and not two.alarms
    slower = "first" if faster == "other" else "other"
    assert "this client: its journal of the round is missing" in two.waits[slower]


@pytest.mark.mutants
def test_a_client_takes_draws_that_its_journal_destroyed_for_anothers(tmp_path, monkeypatch):
    monkeypatch.setattr(Duplicates, "_is_past", lambda self, number: False)
    with embedded() as network:
        federation = Federation.found(network, tmp_path, clients=4, rounds=LONG, repeats=4, training=QUICK)
        federation.register()
        with pytest.raises(AlreadyInUse, match="another process uses this keystore"):
            restarted_behind(federation)
