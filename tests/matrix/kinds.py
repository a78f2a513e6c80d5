"""One small run of every kind that a federation, or what is left of one, can be of."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fedgrove as fg
from fedgrove.chain.face.networks import anvil, embedded
from fedgrove.chain.records import Closed, Judged, Phase, Released, RoundOpened
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.audit.archive import LEDGER, STORE, export_car
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.client.concluding import NEITHER
from fedgrove.node.scenario.reading import scenario
from tests.adversary.kept_runs import QUICK, kept, write_run
from tests.adversary.standing_in import with_standbys
from tests.adversary.test_spoilers import Poisoner
from tests.node.conftest import run_federation
from tests.node.devnet.kmeans_members import Federation as KMeans
from tests.node.devnet.test_table_task import prepare
from tests.node.devnet.test_task_subject import CLASSIFIER, write_table
from tests.node.explorer.conftest import damage
from tests.node.federation import Federation, LyingCoordinator
from tests.node.learning.images import OPTIONS, write_bars
from tests.node.status.test_clean_cells import spoiling

IMAGES = f"""
[task]
name = "images"

[task.options]
classes = {OPTIONS["classes"]}
shape = {OPTIONS["shape"]}
model = "small-mlp"
"""
LIVE = """
[model]
name = "small-cnn"
input_shape = [1, 8, 8]
classes = 10

[federation]
rounds = 2

[network]
rpc = "{rpc}"
ledger = "{ledger}"
block = {block}
store = "disk:{store}"
"""


@dataclass(frozen=True)
class Run:
    """A run of a kind.

    Attributes
    ----------
    kind : str
    path : Path
        A directory, a CAR file, or a live federation's TOML file.
    folder : Path
        For what is written while it is read.
    live : Federation or None
    """

    kind: str
    path: Path
    folder: Path
    live: Federation | None = None


@dataclass
class Runs:
    """Makes each run when it is first asked for, and keeps it."""

    folder: Path
    _held: ExitStack = field(default_factory=ExitStack)
    _made: dict[str, Run] = field(default_factory=dict)

    def of(self, kind: str) -> Run:
        if kind not in self._made:
            place = self.folder / kind
            place.mkdir()
            if kind == "live":
                live = self._held.enter_context(_live(place))
                self._made[kind] = Run(kind, place / "federation.toml", place, live)
            else:
                self._made[kind] = Run(kind, KINDS[kind](self, place), place)
        return self._made[kind]

    def close(self) -> None:
        self._held.close()


def _network(runs: Runs, place: Path) -> Path:
    return kept("weights", place, clients=3, rounds=2).directory


def _evaluated(runs: Runs, place: Path) -> Path:
    plan = scenario(clients=3, rounds=1, strategy="fedavg", masking="pairwise", held_out=0.2)
    return run_federation(place / "kept", plan).directory


def _task(runs: Runs, place: Path) -> Path:
    """Code of the members' own, which states a metric of its own."""
    (place / "task").mkdir()
    (place / "task" / "task.py").write_text(CLASSIFIER)
    write_table(place / "data.csv", 60, 1)
    return _learned(place, place / "data.csv")


def _table(runs: Runs, place: Path) -> Path:
    """A table whose columns are standardised, by sums in a first round."""
    prepare(place)
    return _learned(place, place / "sites", clients=4)


def _images(runs: Runs, place: Path) -> Path:
    (place / "task").mkdir()
    (place / "task" / "terms.toml").write_text(IMAGES)
    for part, count in (("train", 60), ("test", 20)):
        write_bars(place / "pictures" / part, count, count)
    return _learned(place, place / "pictures")


def _learned(place: Path, data: Path, clients: int = 3) -> Path:
    fg.demo(place / "task", data, clients=clients, rounds=1, strategy="fedavg", sandbox="off", out=place / "kept")
    return place / "kept"


def _private(mechanism: str) -> Callable[[Runs, Path], Path]:
    return lambda runs, place: kept(mechanism, place, clients=3, rounds=1).directory


def _clusters(runs: Runs, place: Path) -> Path:
    return kept("clusters", place).directory


def _kmeans(runs: Runs, place: Path) -> Path:
    """Points that were taken back, a member that left, and a request that no round has honoured."""

    def hold(made: KMeans) -> None:
        made.run()
        made.ask(2, [3, 4])
        made.run()
        made.ask(4, None)
        made.run()
        made.ask(1, [7])

    return kept("kmeans", place, clients=5, hold=hold).directory


def _eventful(runs: Runs, place: Path) -> Path:
    """Rounds that failed, were skipped, and one whose closing its members replaced."""
    return kept("eventful", place).directory


def _voided(runs: Runs, place: Path) -> Path:
    """A coordinator closes with a lie, and opens the next round on it before its members replace it."""

    def hold(made: Federation) -> None:
        coordinator, clients = made.coordinator(LyingCoordinator), made.clients()
        while len(made.of(RoundOpened)) < 2:
            assert made.turn(coordinator, clients if len(made.of(Released)) < len(clients) else {})
        made.run(coordinator, with_standbys(made, clients))

    return kept("weights", place, clients=4, rounds=2, hold=hold, repeats=2).directory


def _changed(runs: Runs, place: Path) -> Path:
    """A closing is a lie. One member says that there is no result, another a wrong one; both take that back."""

    def hold(made: Federation) -> None:
        coordinator = made.coordinator(LyingCoordinator)
        clients = {number: made.client(number) for number in (3, 1, 2, 4, 5)}  # who says what is right acts first
        while not made.of(Closed):
            assert made.turn(coordinator, clients if len(made.of(Released)) < len(clients) else {})
        for keys, said in zip(made.keys, (NEITHER, (b"1" * 32, b"2" * 32)), strict=False):
            made.ledger(keys).judge(1, Phase.CLOSED, *said)
        made.run(coordinator, with_standbys(made, clients))

    return kept("weights", place, clients=5, rounds=2, hold=hold, repeats=2).directory


def _stuck(runs: Runs, place: Path) -> Path:
    """Members spoil every sum, so that in the end nobody takes part any more."""

    def hold(made: Federation) -> None:
        made.run(clients=made.clients() | {number: spoiling(made, number) for number in range(1, 6)})

    return kept("weights", place, clients=8, rounds=1, hold=hold, repeats=100).directory


def _regrouped(runs: Runs, place: Path) -> Path:
    """A member spoils the first round, so that the next is summed in groups, without its own."""

    def hold(made: Federation) -> None:
        clients = made.clients()
        clients[3] = made.client(3, Poisoner)
        made.run(clients=clients)

    return kept("weights", place, clients=6, rounds=1, repeats=3, hold=hold).directory


def _empty(runs: Runs, place: Path, members: bool = True) -> Path:
    with embedded() as network:
        made = Federation.found(network, place / "work", 3)
        if members:
            made.register()
        shutil.copytree(made.store.path, place / "kept" / STORE)
        write_run(made.history(), DiskStore(place / "kept" / STORE), place / "kept")
    return place / "kept"


def _tampered(runs: Runs, place: Path) -> Path:
    """A byte of the first round's model is another."""
    shutil.copytree(runs.of("network").path, place / "kept")
    record = next(each for each in fg.History(place / "kept").records if isinstance(each, Closed))
    damage(place / "kept" / STORE / "blocks" / record.model_digest.hex())
    return place / "kept"


def _broken(runs: Runs, place: Path) -> Path:
    """A byte in the middle of the ledger is another: it is no chain of blocks."""
    shutil.copytree(runs.of("network").path, place / "kept")
    damage(place / "kept" / LEDGER)
    return place / "kept"


def _unreadable(runs: Runs, place: Path) -> Path:
    """The ledger does not even say which federation it is of."""
    shutil.copytree(runs.of("network").path, place / "kept")
    ledger = place / "kept" / LEDGER
    ledger.chmod(0o644)
    ledger.write_bytes(ledger.read_bytes()[1:])
    return place / "kept"


def _stripped(runs: Runs, place: Path) -> Path:
    """The store has lost everything, terms included."""
    shutil.copytree(runs.of("network").path, place / "kept")
    shutil.rmtree(place / "kept" / STORE)
    (place / "kept" / STORE).mkdir()
    return place / "kept"


def _car(runs: Runs, place: Path) -> Path:
    export_car(runs.of("evaluated").path, place / "run.car")
    return place / "run.car"


@contextmanager
def _live(place: Path) -> Iterator[Federation]:
    """A node's chain on which one round has closed, and the second waits for its third member.

    One member says that the closed round has no result, and takes that back for what another confirms.
    """
    with anvil() as network:
        settings = FederationSettings(rounds=2)
        federation = Federation.found(network, place, clients=3, training=QUICK, federation=settings)
        federation.register()
        coordinator, clients = federation.coordinator(), federation.clients()
        while federation.said("client 1").count("drew") < 2:
            federation.turn(coordinator, clients)
            if federation.of(Closed) and not federation.of(Judged):
                _change_judgement(federation)
            if federation.ledger(federation.keys[0]).current_round() == 2:
                clients.pop(3, None)
        where = {"rpc": network.url, "ledger": federation.deployment.ledger, "store": federation.store.path}
        (place / "federation.toml").write_text(LIVE.format(block=federation.deployment.block, **where))
        yield federation


def _change_judgement(federation: Federation) -> None:
    (closing,) = federation.of(Closed)
    right = (closing.model_digest, closing.metrics_digest)
    for number, said in ((1, NEITHER), (2, right), (1, right)):
        federation.ledger(federation.keys[number - 1]).judge(closing.round, Phase.CLOSED, *said)


KINDS: dict[str, Callable[[Runs, Path], Path]] = {
    "network": _network,
    "task": _task,
    "table": _table,
    "images": _images,
    "evaluated": _evaluated,
    "client-fixed": _private("fixed"),
    "client-quantile": _private("quantile"),
    "client-secret": _private("secret"),
    "local": _private("local"),
    "signds": _private("signds"),
    "procfl": _clusters,
    "kmeans": _kmeans,
    "eventful": _eventful,
    "voided": _voided,
    "changed": _changed,
    "stuck": _stuck,
    "regrouped": _regrouped,
    "no-round": _empty,
    "no-member": lambda runs, place: _empty(runs, place, members=False),
    "tampered": _tampered,
    "broken": _broken,
    "unreadable": _unreadable,
    "stripped": _stripped,
    "car": _car,
    "live": lambda runs, place: place,
}
"""How a run of each kind is made."""
