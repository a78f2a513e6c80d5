"""``fedgrove audit``: recompute a training history and name the first bad record."""

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.history import LedgerHistory, capture
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.errors import InvalidContent, InvalidInput, RunFailed
from fedgrove.common.regular_file import read_regular
from fedgrove.common.wire import Malformed
from fedgrove.ipfs.disk import DiskReader
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.archive import LEDGER, STORE, audit_car, audit_directory, chain_facts, export_car, opened_car
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.audit.certificate import Certificate, NoCertificate, with_certificate
from fedgrove.node.audit.follow import Follower
from fedgrove.node.audit.pins import HeadStatement, Pins
from fedgrove.node.audit.succession import contradicted, with_before
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.audit.webhook import Webhook
from fedgrove.node.cli.histories import (
    FromBlock,
    Kept,
    LedgerAddress,
    Rpc,
    Run,
    Store,
    earlier_place,
    live_federation,
    opened_history,
    place_of,
)
from fedgrove.node.cli.options import JsonFlag, group
from fedgrove.node.cli.output import CommandError, address, complain, note, or_say, print_json, report
from fedgrove.node.cli.progress import print_verdict, with_progress

AUDIT = "run"
"""The command behind ``audit DIR``; also a name that a directory may have."""


class AuditGroup(typer.core.TyperGroup):
    """Allows ``audit DIR`` in addition to ``audit export`` and ``audit verify``, and shows its options with theirs."""

    def parse_args(self, context: typer.Context, arguments: list[str]) -> list[str]:
        shown = [name for name, command in self.commands.items() if not command.hidden]
        if arguments and arguments[0] not in (*shown, "-h", "--help"):
            arguments = [AUDIT, *arguments]
        return super().parse_args(context, arguments)

    def format_options(self, context: typer.Context, formatter: Any) -> None:
        audited = self.commands[AUDIT]
        found = [each.get_help_record(context) for each in audited.params]
        with formatter.section("Audit [RUN]"):
            formatter.write_dl([record for record in found if record])
        super().format_options(context, formatter)


app = group(
    "Recompute a training history and name the first bad record.\n\n"
    "Example: fedgrove audit runs/first\n\n"
    "Example: fedgrove audit first.car\n\n"
    "Example: fedgrove audit federation.toml\n\n"
    "Example: fedgrove audit --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:runs/first/store\n\n"
    "Example: fedgrove audit --follow --rpc http://127.0.0.1:8545 --ledger 0x… --store http://127.0.0.1:5001 "
    "--webhook http://127.0.0.1:9000/bell\n\n"
    "Exit code: 0 verified, 1 a bad record (named), 2 cannot tell, or nothing to verify as no round closed, 130 "
    "stopped while following.",
    AuditGroup,
)

ExpectHead = Annotated[
    list[str] | None,
    typer.Option(help="BLOCK:HASH, any published block of the chain; may be repeated."),
]


ExpectLedger = Annotated[str | None, typer.Option(help="Address of the expected ledger.")]


ExpectChain = Annotated[int | None, typer.Option(help="Expected chain id.")]


Before = Annotated[
    str | None,
    typer.Option(
        "--before", metavar="DIR|CAR|LEDGER@RPC", help="Also check the earlier federation that this one continues."
    ),
]


ExpectStatement = Annotated[
    list[Path] | None,
    typer.Option(help="A member's signed head, from `fedgrove keys attest`; repeated: of half of the members."),
]


_HEAD = re.compile(r"(\d{1,18}):(?:0x)?([0-9a-fA-F]{64})")


CertificateFile = Annotated[
    Path | None, typer.Option("--certificate", help="Also check this certificate of `fedgrove unlearn`.")
]


@app.command(AUDIT, hidden=True)
def audit(
    run: Run = None,
    rpc: Rpc = None,
    ledger: LedgerAddress = None,
    store: Store = None,
    from_block: FromBlock = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Audit each round as it ends, up to the last one.")] = False,
    webhook: Annotated[str | None, typer.Option(help="With --follow: URL to notify of a bad verdict.")] = None,
    interval: Annotated[
        float, typer.Option(min=0.05, max=3600, help=("With --follow: seconds between checks of the chain."))
    ] = 2.0,
    confirmations: Annotated[
        int, typer.Option(min=0, max=1000, help="With --follow: confirmations before a record is audited.")
    ] = 0,
    certificate: CertificateFile = None,
    before: Before = None,
    expect_head: ExpectHead = None,
    expect_ledger: ExpectLedger = None,
    expect_chain: ExpectChain = None,
    expect_statement: ExpectStatement = None,
    as_json: JsonFlag = False,
) -> int:
    """Audit a run, or a live ledger and its store, once or while the federation runs.

    Example: fedgrove audit runs/first

    Example: fedgrove audit first.car

    Example: fedgrove audit runs/first --expect-head 120:0x… --expect-ledger 0x…

    Example: fedgrove audit runs/second --before runs/first

    Example: fedgrove audit clusters/history --certificate clusters/certificates/client-3-block-210.json

    Example: fedgrove audit --follow federation.toml

    Example: fedgrove audit --follow --rpc http://127.0.0.1:8545 --ledger 0x… --store disk:store
    """
    place = place_of(run, rpc, ledger, store, from_block)
    paper = _read_certificate(certificate)
    pins = pins_of(expect_head, expect_ledger, expect_chain, expect_statement)
    if isinstance(place, Kept) and follow:
        raise CommandError(f"--follow audits a live federation, and {place.path} is a run at rest: leave it out")
    if follow and paper is not None:
        raise CommandError("--certificate is for a single audit: leave --follow out")
    if follow and before is not None:
        raise CommandError("--before is for a single audit: leave --follow out")
    if not follow and webhook:
        raise CommandError("--webhook needs --follow: give both")
    if isinstance(place, Kept):
        return _report(_continuing(_audit_kept(place.path, paper, pins), before), as_json)
    bell = _bell(webhook)
    with live_federation(place) as live:
        if not follow:
            found = _audit_live(live.network, live.deployment, live.content, paper, pins)
            return _report(_continuing(found, before, store), as_json)
        follower = Follower(live.network, live.deployment, live.content, confirmations, pins)
        return _follow(follower, interval, bell, as_json)


@app.command("export")
def export(
    directory: Annotated[Path, typer.Argument(help="A run's directory.")],
    target: Annotated[Path, typer.Argument(help="The CAR file to write.")],
    as_json: JsonFlag = False,
) -> int:
    """Write one CAR file with the ledger's history and every blob.

    Example: fedgrove audit export runs/first first.car
    """
    with or_say(f"cannot write {target}", "give another file"):
        root = export_car(directory, target)
    size = target.stat().st_size
    document = {"file": str(target), "bytes": size, "root": f"{root}"}
    report(document, f"wrote {target} ({size:,} bytes), root {root}", as_json)
    return 0


@app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A CAR file of `audit export`.")],
    certificate: CertificateFile = None,
    before: Before = None,
    expect_head: ExpectHead = None,
    expect_ledger: ExpectLedger = None,
    expect_chain: ExpectChain = None,
    expect_statement: ExpectStatement = None,
    as_json: JsonFlag = False,
) -> int:
    """Audit a CAR file; needs no network.

    Example: fedgrove audit verify first.car
    """
    paper = _read_certificate(certificate)
    pins = pins_of(expect_head, expect_ledger, expect_chain, expect_statement)
    return _report(_continuing(_audit_kept(file, paper, pins), before), as_json)


def _audit_kept(path: Path, paper: Certificate | None, pins: Pins) -> Verdict:
    """The verdict on a run's directory or a CAR file, and on a certificate of it."""
    if not path.is_file():
        verdict = with_progress(lambda tick: audit_directory(path, tick, pins))
        if paper is None or not verdict.holds:
            return verdict
        return _certified(verdict, paper, LedgerHistory.load(path / LEDGER), DiskReader(path / STORE))
    verdict = with_progress(lambda tick: audit_car(path, tick, pins))
    if paper is None or not verdict.holds:
        return verdict
    with opened_car(path) as (history, store):
        return _certified(verdict, paper, LedgerHistory.load(history), store)


def _audit_live(
    network: Network, deployment: Deployment, store: ContentReader, paper: Certificate | None, pins: Pins
) -> Verdict:
    history = capture(network, deployment)
    history.verify()
    verdict = with_progress(lambda tick: Auditor(chain_facts(history), history.records(), store, tick, pins).run())
    return verdict if paper is None else _certified(verdict, paper, history, store)


def _continuing(verdict: Verdict, before: str | None, store: str | None = None) -> Verdict:
    """The verdict on a history and on the earlier one that it continues, given that on itself."""
    if before is None or not verdict.holds:
        return verdict
    place = earlier_place(before, store)
    try:
        with opened_history(place) as found:
            return with_progress(lambda tick: with_before(verdict, found.ledger, found.store, tick))
    except (BadHistory, InvalidContent) as fault:
        return contradicted(verdict, str(fault))


def _certified(verdict: Verdict, paper: Certificate, history: LedgerHistory, store: ContentReader) -> Verdict:
    verdict = with_certificate(verdict, paper, chain_facts(history), history.records(), store)
    if verdict.holds:
        note(f"certificate: {paper.statement}")
    return verdict


def _read_certificate(path: Path | None) -> Certificate | None:
    if path is None:
        return None
    try:
        with or_say(f"cannot read {path}"):
            return Certificate.from_bytes(read_regular(path, Certificate.max_bytes))
    except NoCertificate as fault:
        raise CommandError(f"{path}: {fault}") from None


def _follow(follower: Follower, interval: float, bell: Webhook | None, as_json: bool) -> int:
    said = _Said(follower)
    try:
        while (verdict := follower.look()) is None:
            said.news()
            time.sleep(interval)
    except KeyboardInterrupt:
        verdict = follower.so_far()
        complain(verdict.reason)
        _report(verdict, as_json)
        return 130
    said.news()
    code = _report(verdict, as_json)
    if code and bell is not None:
        _ring(bell, verdict)
    return code


class _Said:
    """Output of a watch; prints only news."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._rounds = 0
        self._remarks = 0
        self._waiting = ""

    def news(self) -> None:
        """Print a line for audited rounds, for each remark, and when the watch starts or stops waiting."""
        rounds, waiting = self._follower.rounds, self._follower.waiting
        if waiting != self._waiting:
            complain(f"waiting: {waiting}" if waiting else "resumed")
        if rounds != self._rounds:
            note(f"audited rounds: {rounds}")
        remarks = self._follower.so_far().remarks
        for remark in remarks[self._remarks :]:
            note(f"remark: {remark}")
        self._rounds, self._remarks, self._waiting = rounds, len(remarks), waiting


def _bell(url: str | None) -> Webhook | None:
    try:
        return Webhook(url) if url else None
    except InvalidInput as mistake:
        raise CommandError(f"--webhook: {mistake}") from None


def _ring(bell: Webhook, verdict: Verdict) -> None:
    try:
        bell.ring(verdict)
    except RunFailed as fault:
        complain(str(fault))


def _report(verdict: Verdict, as_json: bool) -> int:
    if as_json:
        print_json(verdict.to_dict())
    else:
        print_verdict(verdict)
    return verdict.exit_code


def pins_of(heads: list[str] | None, ledger: str | None, chain: int | None, statements: list[Path] | None) -> Pins:
    """Pins from the options; raises CommandError for an invalid one."""
    return Pins(
        heads=tuple(map(_head, heads or ())),
        ledger="" if ledger is None else address(ledger, "--expect-ledger"),
        chain_id=chain,
        statements=tuple(map(_statement, statements or ())),
    )


def _head(given: str) -> tuple[int, bytes]:
    found = _HEAD.fullmatch(given)
    if found is None:
        raise CommandError(f"--expect-head must be BLOCK:HASH, like 120:0x… with 64 hexadecimal digits, not {given!r}")
    return int(found[1]), bytes.fromhex(found[2])


def _statement(path: Path) -> HeadStatement:
    try:
        with or_say(f"cannot read {path}"):
            return HeadStatement.from_bytes(read_regular(path, HeadStatement.max_bytes))
    except Malformed as fault:
        raise CommandError(
            f"{path} is not a statement of a head ({fault}): make one with `fedgrove keys attest`"
        ) from None
