"""``fedgrove client`` and ``fedgrove coordinator``: one member, or the coordinator, as a process of its own."""

import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fedgrove.chain.crypto.keys import Keys, load
from fedgrove.chain.errors import ChainError, WrongChain
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.heads import Heads
from fedgrove.common.errors import InvalidInput
from fedgrove.ipfs.store import ContentStore, StoreError
from fedgrove.node.base.files import exclusive
from fedgrove.node.base.key_slots import keeps_overwritten
from fedgrove.node.base.processor import check_processor, pin_process
from fedgrove.node.cli.log_to import LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import (
    BaseOptions,
    ConfigFile,
    KeystoreFile,
    PasswordFile,
    TableFormatOptions,
    given_bases,
    given_format,
)
from fedgrove.node.cli.output import CommandError, or_say, read_password
from fedgrove.node.cli.reach import check_reach, find_federation, lone_endpoint, open_network, open_store
from fedgrove.node.cli.task_data import approved_data
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.methods.terms import load_config, method_of
from fedgrove.node.protocol.founding import difference
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.method import Aides
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.protocol.weight import OwnWeight
from fedgrove.node.roles.data_marks import DataMark, DataMarks, federation_of
from fedgrove.node.roles.logs import ServiceLog
from fedgrove.node.roles.metrics import ServiceMetrics
from fedgrove.node.roles.passing_time import PassingTime
from fedgrove.node.roles.service import WITHOUT_RESULT, Role, Service
from fedgrove.node.status.figure_targets import watched_rounds
from fedgrove.node.tasks.sandbox.settings import Mode

if TYPE_CHECKING:
    from fedgrove.node.roles.standby import Standby

RETRY_SECONDS = 1.0

Once = Annotated[bool, typer.Option("--once", help="Stop when one round has ended.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Show the texts of faults in data and tasks, too, which may quote the data.")
]
MetricsPort = Annotated[
    int, typer.Option(min=0, max=65535, help=("Port of the Prometheus metrics on 127.0.0.1; 0: none."))
]


def client(
    config: ConfigFile,
    keystore: KeystoreFile,
    data: Annotated[
        Path,
        typer.Option(
            help="File (.npz, .safetensors) with x_train and y_train, or points; with a task, what its data() reads."
        ),
    ],
    directory: Annotated[
        Path, typer.Option(help="Folder of the journal; keep it until the federation has ended.")
    ] = Path("client"),
    part: Annotated[
        str, typer.Option(metavar="I/N", help="To practise with a task: of one source for N clients, the I-th's part.")
    ] = "",
    base: BaseOptions = None,
    table_format: TableFormatOptions = None,
    weight: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**32 - 1,
            help="How much its updates count; kept. By default its samples, and 1 where a task's own code reads them.",
        ),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby/--no-standby", help="Stand in for a coordinator that does not act.")
    ] = True,
    once: Once = False,
    verbose: Verbose = False,
    metrics_port: MetricsPort = 0,
    password_file: PasswordFile = None,
) -> int:
    """Run a client of a federation until its last round has ended; stop and start it as you like.

    Example: fedgrove client --config federation.toml --keystore alice.json --data alice.npz
    """
    from fedgrove.node.roles.client import Client
    from fedgrove.node.roles.client.keystore import ReloadingClient, WatchedKeystore

    terms, reach = load_config(config)
    practised, form = _part(part, terms), _table_format(table_format, terms)
    check_device(terms, reach)
    if terms.training.portable:
        pin_process()
    samples = method_of(terms).member_data(data)
    _check_count(samples, data, terms)
    watched = WatchedKeystore(keystore, read_password(password_file))
    keys = watched.keys
    with _stopping(), ExitStack() as stack:
        _own(stack, directory)
        place = _arrive(stack, config, (terms, reach), keys, "client", verbose)
        if samples is None:
            own = (directory, keys.address, reach, _private(keystore, password_file, directory))
            samples = approved_data(stack, terms, place.store, data, *own, given_bases(base), practised, form)
            _check_count(samples, data, terms)
        _say_weight(place.log, terms, samples, weight, Journal(directory / "journal", keys.storage))
        marks = _marked(place, terms, keys.address, DataMarks(data, directory))
        _warn_of_copies(place.log, directory)
        make = partial(
            Client,
            place.ledger,
            place.store,
            config=terms,
            data=samples,
            directory=directory / "journal",
            confirmations=reach.confirmations,
            check_rounds=reach.check_rounds,
            device=reach.device,
            weight=weight,
        )
        member = ReloadingClient(watched, make)
        roles: dict[str, Role] = {"client": member}
        if standby:
            roles["standby"] = _standby(place, terms, reach)

        def watch(rounds: Rounds) -> None:
            with suppress(StoreError):  # the next turn tries again
                marks.note(member.answered, len(rounds.ended()), member.spent)

        return _serve(stack, place, reach, roles, once, metrics_port, watch)


def coordinator(
    config: ConfigFile,
    keystore: KeystoreFile,
    data: Annotated[
        Path | None,
        typer.Option(help=".npz or .safetensors file with x_test and y_test; without it, models are not evaluated."),
    ] = None,
    directory: Annotated[
        Path, typer.Option(help=("Folder that is locked while this runs, to prevent a second start."))
    ] = Path("coordinator"),
    base: BaseOptions = None,
    table_format: TableFormatOptions = None,
    standby: Annotated[bool, typer.Option("--standby", help="Act only when the coordinator does not.")] = False,
    members: Annotated[int, typer.Option(min=0, help="Open the first round when this many are active; 0: quorum.")] = 0,
    once: Once = False,
    metrics_port: MetricsPort = 0,
    log_to: LogTo = None,
    password_file: PasswordFile = None,
) -> int:
    """Run the coordinator of a federation, or a stand-by, until the last round has ended.

    Example: fedgrove coordinator --config federation.toml --keystore founder.json --data test.npz
    """
    from fedgrove.node.roles.coordinator import Coordinator

    terms, reach = load_config(config)
    keys = load(keystore, read_password(password_file))
    form = _table_format(table_format, terms)
    method, targets = method_of(terms), log_targets(log_to)
    test = None if data is None else method.test_data(data)
    aides = method.aides(None if standby else keys, test)
    with _stopping(), ExitStack() as stack:
        _own(stack, directory)
        name = "standby" if standby else "coordinator"
        place = _arrive(stack, config, (terms, reach), keys, name)
        logs = stack.enter_context(opened_logs(targets, lambda sentence: place.log.write("warning", sentence)))
        watch = watched_rounds(logs, place.store, place.ledger.address)
        if standby:
            return _serve(stack, place, reach, {name: _standby(place, terms, reach, aides)}, once, metrics_port, watch)
        appointed = place.ledger.deployment.coordinator
        if keys.address != appointed:
            raise CommandError(f"{keys.address} is not this federation's coordinator {appointed}: run with --standby")
        if data is not None and test is None:
            own = (directory, keys.address, reach, _private(keystore, password_file, directory))
            test = approved_data(stack, terms, place.store, data, *own, given_bases(base), form=form)
            aides = method.aides(keys, test)
        where = (place.ledger, place.store, terms, method.starting_model(place.store), aides)
        role = Coordinator(*where, confirmations=reach.confirmations, members=members)
        return _serve(stack, place, reach, {name: role}, once, metrics_port, watch)


@dataclass(frozen=True)
class _Place:
    """Chain, ledger and store of a service."""

    network: Network
    ledger: Ledger
    store: ContentStore
    log: ServiceLog


def _arrive(
    stack: ExitStack,
    config: Path,
    settings: tuple[FederationConfig, NetworkSettings],
    keys: Keys,
    name: str,
    verbose: bool = False,
) -> _Place:
    """Connect to the chain, which may not be up yet, and check that its contracts are the terms' federation."""
    terms, reach = settings
    check_reach(config, reach)
    store = open_store(config, reach)
    log = ServiceLog(name, verbose=verbose)
    network = stack.enter_context(_patiently(lambda: open_network(reach), reach, log))
    deployment = _patiently(lambda: find_federation(network, reach), reach, log)
    other = difference(deployment, terms)
    if other:
        raise CommandError(f"the ledger {deployment.ledger} is not the federation of {config}: {other}")
    depends = lone_endpoint(reach)
    if depends:
        log.write("warning", "endpoint", message=depends)
    log.write("info", "started", account=keys.address, ledger=deployment.ledger, chain=deployment.chain_id)
    return _Place(network, Ledger(network, deployment, keys.account), store, log)


def _marked(place: _Place, terms: FederationConfig, account: str, marks: DataMarks) -> DataMarks:
    """Leave the client's mark with its data, and log what the member should know of theirs."""
    before = terms.start.continues
    continues = "" if before is None else federation_of(before.chain_id, before.ledger)
    own = DataMark(place.ledger.chain_id, place.ledger.address, account, terms.mechanism, continues)
    for sentence in marks.enter(own):
        place.log.write("warning", sentence)
    return marks


def _standby(
    place: _Place,
    terms: FederationConfig,
    reach: NetworkSettings,
    aides: Aides = Aides(),  # noqa: B008 (frozen)
) -> "Standby":
    from fedgrove.node.roles.standby import Standby

    first = method_of(terms).starting_model(place.store)
    return Standby(place.ledger, place.store, terms, first, aides, confirmations=reach.confirmations)


def _part(given: str, terms: FederationConfig) -> tuple[int, int] | None:
    """Index and number of the clients that practise on one source; None where each has its own."""
    if not given:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", given)
    if terms.contained is None or found is None or int(found[1]) > int(found[2]):
        raise CommandError(f"--part must be like 2/5, in a federation with a task, not {given!r}")
    return int(found[1]) - 1, int(found[2])


def _table_format(given: list[str] | None, terms: FederationConfig) -> TableFormat | None:
    """How the member's own file writes a table; None where nothing is stated."""
    form = given_format(given)
    if form is not None and (terms.task is None or terms.task.table is None):
        raise CommandError("--table-format is for the task tabular: leave it out in this federation")
    return form


def _private(keystore: Path, password_file: Path | None, directory: Path) -> tuple[Path, ...]:
    """What the code of a task may never be shown."""
    return (keystore, directory / "journal", *([password_file] if password_file else []))


def _check_count(samples: Sized | None, data: Path, terms: FederationConfig) -> None:
    most = terms.ledger.max_samples
    if samples is not None and len(samples) > most:
        raise CommandError(f"{data} holds {len(samples)} samples, but this federation takes at most {most}")


def _say_weight(log: ServiceLog, terms: FederationConfig, data: Sized, given: int | None, journal: Journal) -> None:
    """Show what the client will state in its draws, where it has a say in that; complain where it cannot state it."""
    counted = method_of(terms).weight_of(data)
    if counted is None:
        if given is not None:
            raise CommandError("--weight is for terms whose updates are weighted: leave it out in this federation")
        return
    weight, most = OwnWeight(journal).own or given or counted, terms.ledger.max_samples
    if weight > most:
        raise CommandError(f"this member's weight is {weight}, but this federation takes at most {most}")
    log.write("info", "weight", message=f"its draws state {weight}, for all to see; `fedgrove keys weigh` changes it")
    if terms.learned.bundle == "" and given is None and weight != counted:
        log.write("warning", f"its weight stays {weight}, with {counted} samples now: see `fedgrove keys weigh`")


def _serve(
    stack: ExitStack,
    place: _Place,
    reach: NetworkSettings,
    roles: Mapping[str, Role],
    once: bool,
    metrics_port: int,
    watch: Callable[[Rounds], None] = lambda rounds: None,
) -> int:
    metrics = ServiceMetrics()
    if metrics_port:
        metrics.serve(metrics_port)
        stack.callback(metrics.close)
    heads = stack.enter_context(Heads(reach.rpc, reach.websocket))
    passing = PassingTime(place.network, asks="coordinator" in roles)
    result = Service(roles, heads, place.log, metrics, reach.patience_seconds, once, watch, passing.note).run()
    end = "ended: one round is over" if once else "ended: no round is left"
    place.log.write("info" if result else "error", end if result else f"{end}, without a result")
    return 0 if result else WITHOUT_RESULT


def _patiently(attempt: Callable, reach: NetworkSettings, log: ServiceLog):
    """Try again while the chain is away; a wrong chain or wrong code does not get better by waiting."""
    deadline = time.monotonic() + reach.patience_seconds
    while True:
        try:
            return attempt()
        except WrongChain:
            raise
        except ChainError as fault:
            if time.monotonic() > deadline:
                raise CommandError(f"gave up after {reach.patience_seconds:.0f} s: {fault}", code=3) from None
            log.fault("start", type(fault).__name__, str(fault))
            time.sleep(RETRY_SECONDS)


def _warn_of_copies(log: ServiceLog, directory: Path) -> None:
    """Say once where what the journal destroys may stay on the disk."""
    kind = keeps_overwritten(directory)
    if kind:
        sentence = (
            "which does not overwrite in place: deleted journal entries stay on the disk until their space is reused"
        )
        log.write("warning", f"{directory} is on {kind}, {sentence}")


def _own(stack: ExitStack, directory: Path) -> None:
    with or_say(f"cannot use the directory {directory}"):
        stack.enter_context(exclusive(directory))


@contextmanager
def _stopping() -> Iterator[None]:
    """Let SIGTERM and SIGINT end the process by unwinding it: what was begun is in the journal, as after a crash."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: object) -> NoReturn:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # one is enough; a second must not disturb the first
    sys.exit(0)


def check_device(terms: FederationConfig, reach: NetworkSettings) -> None:
    """Complain where this machine cannot train as the terms ask.

    Or where ``network.device`` asks for a GPU that is not there, or that this training cannot have.
    """
    try:
        check_processor(terms.training.portable, terms.training.precision, reach.device)
    except InvalidInput as fault:
        raise CommandError(f"network.device: {fault}" if reach.device != "cpu" else str(fault)) from None
    if reach.device == "cpu":
        return
    if not terms.method.on_gpu:
        raise CommandError(f"network.device must be cpu: {terms.method.name} computes on the processor only")
    if terms.contained is not None and reach.sandbox != Mode.OFF:
        raise CommandError(
            'network.device = "cuda" needs sandbox = "off": the sandbox shows the code of a task no GPU; leave device '
            "out to train in the sandbox on the processor"
        )
    from fedgrove.node.learning.devices import choose

    try:
        choose(reach.device)
    except InvalidInput as fault:
        raise CommandError(f"network.device: {fault}") from None
