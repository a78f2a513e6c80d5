"""``fedgrove unlearn``: take points, or a whole client, out of a clustering federation, with a certificate."""

from pathlib import Path
from typing import Annotated

import typer

from fedgrove.chain.crypto.keys import Keys, load
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.history import capture
from fedgrove.chain.records import Withdrawn
from fedgrove.common.text import command_line
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.audit.certificate import certify
from fedgrove.node.base.files import write_atomically
from fedgrove.node.cli.extras import require
from fedgrove.node.cli.kmeans import show
from fedgrove.node.cli.options import JsonFlag, PasswordFile
from fedgrove.node.cli.output import CommandError, note, read_password, report
from fedgrove.node.cli.reach import check_reach, find_federation, open_network, open_store
from fedgrove.node.devnet.kmeans import LocalFederation
from fedgrove.node.methods.kmeans.asking import ask
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.journal import Journal

_HERE = Path("clusters")
_MAX_POINTS = 1 << 20


def unlearn(
    directory: Annotated[
        Path | None, typer.Option("--dir", help=("The directory of a federation from `fedgrove kmeans`."))
    ] = None,
    client: Annotated[int, typer.Option(min=0, help="With --dir: number of the client.")] = 0,
    points: Annotated[str, typer.Option(help="Rows of the points from 0, with commas: 3,17 or 5-9.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Forget all its points: the client leaves for good.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", help=("Ask as a member: the federation's TOML file."))
    ] = None,
    keystore: Annotated[Path | None, typer.Option("--keystore", help="With --config: your keystore file.")] = None,
    state: Annotated[Path | None, typer.Option(help="With --config: your client's --directory.")] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="With --config: write the certificate here once it exists."),
    ] = None,
    password_file: PasswordFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Have the federation forget points of a client, or all of them, on the ledger; a repeated request changes nothing.

    With --dir the federation is brought up, holds the round, and the certificate is written. With --config the request
    is made: your client, and all others, do the rest when they see it. Give the same command again, with --certificate,
    when they have.

    Example: fedgrove unlearn --dir clusters --client 2 --points 3,17

    Example: fedgrove unlearn --config federation.toml --keystore alice.json --state client --all
    """
    if everything == bool(points):
        raise CommandError("give the points to forget: --points with their rows, or --all")
    rows = None if everything else read_rows(points)
    if config is not None:
        if directory is not None or client:
            raise CommandError("give either --dir and --client, or --config, --keystore and --state")
        if keystore is None or state is None:
            raise CommandError("with --config also give --keystore and --state")
        keys = load(keystore, read_password(password_file))
        return _as_member(config, keys, state, rows, certificate, as_json)
    if not client:
        raise CommandError("give the client whose points to forget: --client with its number")
    return _locally(directory or _HERE, client, rows, as_json)


def read_rows(text: str) -> list[int]:
    """Rows such as ``3,17`` or ``5-9``, each once."""
    found: set[int] = set()
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        bounds = [first, last] if dash else [first]
        if not all(each.isascii() and each.isdecimal() and len(each) <= 9 for each in bounds):
            raise CommandError(f"--points must be rows with commas, such as 3,17 or 5-9, not {text[:100]!r}")
        begin, end = int(first), int(last or first)
        if end < begin or len(found) + end - begin >= _MAX_POINTS:
            raise CommandError(
                f"--points: {word.strip()[:30]!r} is empty, or there are more than {_MAX_POINTS:,} points"
            )
        found.update(range(begin, end + 1))
    return sorted(found)


def _locally(directory: Path, client: int, rows: list[int] | None, as_json: bool) -> int:
    federation = LocalFederation.open(directory.absolute())
    require("kmeans", "`fedgrove unlearn --dir`")
    federation.check_client(client)
    with federation.awake(show) as session:
        session.run()
        request = session.withdraw(client, rows)
        session.run()
        verdict = session.archive()
        found, path = session.certificate(client, request)
    check = command_line("audit", directory / "history", "--certificate", path)
    report(found.to_table(), f"{found.statement}\ncheck:  {check}", as_json)
    return verdict.exit_code


def _as_member(
    config: Path, keys: Keys, directory: Path, rows: list[int] | None, certificate: Path | None, as_json: bool
) -> int:
    terms, reach = load_config(config)
    check_reach(config, reach)
    if not isinstance(terms.method, KMeansTerms):
        raise CommandError(f"{config} names a federation that trains a model and cannot unlearn: only K-means can")
    with open_network(reach) as network:
        deployment = find_federation(network, reach)
        ledger = Ledger(network, deployment, keys.account)
        client = ledger.client_of(keys.address).client
        if not client:
            raise CommandError(f"{keys.address} is not a member of this federation")
        journal = Journal(directory / "journal", keys.storage)
        journal.bind(ledger.chain_id, ledger.address)
        withdrawals = [record for record in ledger.records() if isinstance(record, Withdrawn)]
        request, receipt = ask(ledger, client, journal, withdrawals, rows)
        said = "is on the ledger" if receipt is not None else "was already on the ledger"
        sentence = f"the request of client {client} {said}: {request.digest.hex()}"
        if certificate is None:
            report({"client": client, "points": request.points, "digest": request.digest.hex()}, sentence, as_json)
            return 0
        note(sentence)
        history = capture(network, deployment)
        found = certify(chain_facts(history), history.records(), open_store(config, reach), client, request.digest)
    write_atomically(certificate, found.to_bytes())
    report(found.to_table(), found.statement, as_json)
    return 0
