"""``fedgrove status``: state of a federation, reason if my last round did not count, and my account's means."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from eth_utils import is_address, to_checksum_address
from rich.table import Table
from rich.text import Text

from fedgrove.chain.crypto.keys import Keys, load
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.standstill import stopped
from fedgrove.node.cli.clusters_look import ClusterLook, ClusterSight
from fedgrove.node.cli.cost_look import CostSight
from fedgrove.node.cli.lone_endpoint import lone_endpoint
from fedgrove.node.cli.membership import ConfigFile, PasswordFile
from fedgrove.node.cli.options import EtherPrice
from fedgrove.node.cli.output import (
    CommandError,
    answer,
    complain,
    live_answer,
    print_json,
    print_json_line,
    read_password,
)
from fedgrove.node.cli.privacy_look import PrivacyLook, PrivacySight
from fedgrove.node.cli.reach import check_reach, open_network, open_store
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import load_config, method_of
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.status.budget import Budget, Purse
from fedgrove.node.status.costs import CostReader
from fedgrove.node.status.last_round import LastRound, LastRoundReader
from fedgrove.node.status.pace import pace
from fedgrove.node.status.participation import Participation
from fedgrove.node.status.price import ETHER, Price
from fedgrove.node.status.standing import DisputedRound, Standing, standing

Rows = list[tuple[str, str]]


def status(
    config: ConfigFile,
    account: Annotated[str | None, typer.Option(help="Also show the status of this account.")] = None,
    keystore: Annotated[
        Path | None, typer.Option(help="Also show the status of its account; its VRF key shows whether it was sampled.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update until Ctrl-C or the end of the federation.")] = False,
    interval: Annotated[float, typer.Option(min=0.05, max=3600, help="With --watch: seconds between updates.")] = 1.0,
    price: EtherPrice = None,
    password_file: PasswordFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print to stdout as JSON; with --watch one line per change.")
    ] = False,
) -> int:
    """Show the round and phase, who has acted, whom the round waits for, until which block and about when.

    Costs so far and per round follow from the receipts. For an account: why its last round did not count, what it paid,
    and for how many rounds its balance pays.

    Example: fedgrove status --config federation.toml

    Example: fedgrove status --config federation.toml --keystore alice.json --watch
    """
    keys = load(keystore, read_password(password_file)) if keystore else None
    with _window(config, _account(account, keys), keys, price) as look:
        if watch:
            return _watch(look, interval, as_json)
        _show(look(), as_json)
    return 0


@dataclass(frozen=True)
class StatusSnapshot:
    """What one look shows: where the federation stands, about when ``until`` is (s since 1970), an account's means.

    ``stopped`` says that the chain makes no blocks; empty where it does.
    """

    standing: Standing
    rounds: int
    when: float | None
    budget: Budget | None
    privacy: PrivacySight
    clusters: ClusterSight
    last: LastRound
    costs: CostSight
    stopped: str

    def to_dict(self) -> dict:
        extra = {"rounds_to_close": self.rounds, "until_time": self.when and round(self.when, 1)}
        means = {
            "budget": self.budget.to_dict() if self.budget else None,
            "privacy": self.privacy.to_dict(),
            "clusters": self.clusters.to_dict(),
            "last_round": self.last.found.to_dict() if self.last.found else None,
            "costs": self.costs.to_dict(),
            "chain_stopped": self.stopped,
        }
        return self.standing.to_dict() | extra | means

    @property
    def substance(self) -> Standing:
        """The values whose change prints a new line."""
        return replace(self.standing, block=0)


Look = Callable[[], StatusSnapshot]


def _account(account: str | None, keys: Keys | None) -> str | None:
    if account is not None and not is_address(account):
        raise CommandError(f"{account!r} is not an account's address (0x and 40 hexadecimal digits)")
    named = to_checksum_address(account) if account else None
    if named and keys and named != keys.address:
        raise CommandError(f"the keystore is that of account {keys.address}: give only one of --account and --keystore")
    return keys.address if keys else named


@contextmanager
def _window(config: Path, account: str | None, keys: Keys | None, price: Price | None) -> Iterator[Look]:
    """Looks at the federation that a TOML file names; what was read once is not read again."""
    terms, reach = load_config(config)
    check_reach(config, reach)
    with open_network(reach) as network:
        depends = lone_endpoint(reach)
        if depends:
            complain(depends)
        ledger = Ledger(network, read_deployment(network, reach.ledger, reach.block or None), None)
        view = LedgerView(ledger)
        purse = Purse(network, ledger, account) if account else None
        receipts = CostReader(network, ledger)
        rounds = terms.rounds_to_close
        clustered = isinstance(terms.method, ProCflTerms)
        asked = clustered or terms.privacy is not None or terms.evaluation is not None
        store = open_store(config, reach) if asked or _has_store(reach) else None
        privacy = PrivacyLook(terms, store) if terms.privacy is not None and store else None
        place = (ledger.chain_id, ledger.address)
        last = LastRoundReader(terms, store) if store else None
        clusters = ClusterLook(terms, store, place) if clustered and store else None
        on_request = method_of(terms).schedule.on_request

        def look() -> StatusSnapshot:
            now = standing(ledger, account, keys=keys, view=view, on_request=on_request)
            seen = privacy.look(view.rounds, account) if privacy else PrivacySight()
            found = last.read(view.rounds) if last else LastRound()
            over = seen.over or (f"the training has ended, as {found.over}" if found.over else "")
            if over and not now.finished:
                now = replace(now, finished=True, waiting=f"nobody: {over}", until=0)
            groups = clusters.look(view) if clusters else ClusterSight()
            now = groups.described(now)
            means = purse.budget(view.rounds) if purse else None
            costs = CostSight(receipts.read(), ledger.deployment, account or "", price)
            still = stopped(network, time.time())
            return StatusSnapshot(now, rounds, _when(network, now), means, seen, groups, found, costs, still)

        yield look


def _has_store(reach: NetworkSettings) -> bool:
    """Whether figures of rounds can be read; a folder that is missing is not made for them."""
    folder = reach.store.removeprefix("disk:")
    return bool(reach.store) and (folder == reach.store or Path(folder).is_dir())


def _when(network: Network, now: Standing) -> float | None:
    speed = pace(network) if now.until else None
    return speed.expected(now.until, time.time()) if speed else None


# --- watching ---------------------------------------------------------------------------------------------------------


def _watch(look: Look, interval: float, as_json: bool) -> int:
    live = None if as_json else live_answer()
    if live is None:
        return _until_finished(look, interval, lambda sight, new: _line(sight, as_json) if new else None)
    with live:
        return _until_finished(look, interval, lambda sight, new: live.update(_table(sight), refresh=True))


def _until_finished(look: Look, interval: float, show: Callable[[StatusSnapshot, bool], None]) -> int:
    last, away = None, ""
    while last is None or not last.finished:
        try:
            sight = look()
        except ChainError as fault:
            if not away:
                complain(f"waiting: {fault}")
            away = str(fault)
        else:
            show(sight, sight.substance != last)
            last, away = sight.substance, ""
        if last is None or not last.finished:
            time.sleep(interval)
    return 0


def _line(sight: StatusSnapshot, as_json: bool) -> None:
    if as_json:
        print_json_line(sight.to_dict())
    else:
        _show(sight, as_json)
        answer()


# --- showing ----------------------------------------------------------------------------------------------------------


def _show(sight: StatusSnapshot, as_json: bool) -> None:
    if as_json:
        print_json(sight.to_dict())
        return
    for name, value in _rows(sight):
        answer(f"{name}: {value}")


def _table(sight: StatusSnapshot) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in _rows(sight):
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _rows(sight: StatusSnapshot) -> Rows:
    now = sight.standing
    rows = [
        ("block", f"{now.block}, {now.members} members"),
        ("round", f"{now.round} of {sight.rounds}"),
        ("phase", now.phase),
        ("acted", ", ".join(map(str, now.acted)) or "nobody"),
        ("waiting for", _waiting(now, sight.when)),
        *(("warning", sentence) for sentence in now.setbacks.warnings),
        *([("the chain", sight.stopped)] if sight.stopped else []),
        *(("disputed", _dispute(each)) for each in now.disputes),
    ]
    rows += sight.clusters.rows(now.finished) + sight.privacy.rows() + sight.last.rows()
    rows += sight.costs.rows()
    if now.account:
        rows.append(("your account", now.account))
        rows += [("your last round", _last(now.last))] if now.last else []
        rows += [("your budget", _budget(sight.budget))] if sight.budget else []
    return rows


def _waiting(now: Standing, when: float | None) -> str:
    if not now.until:
        return now.waiting
    until = f"until block {now.until}, {_clock(when)}"
    return f"nobody, the phase continues {until}" if now.waiting == "nobody" else f"{now.waiting} {until}"


def _clock(when: float | None) -> str:
    """``about 12:03:20, in 40 s``."""
    if when is None:
        return "at an unknown time (the chain makes blocks on demand, or has stopped)"
    left = max(0, round(when - time.time()))
    form = "%H:%M:%S" if left < 43_200 else "%Y-%m-%d %H:%M"
    for unit, seconds in (("h", 3600), ("min", 60)):
        if left >= 2 * seconds:
            return f"about {time.strftime(form, time.localtime(when))}, in {left // seconds} {unit}"
    return f"about {time.strftime(form, time.localtime(when))}, in {left} s"


def _dispute(current: DisputedRound) -> str:
    if not current.by:
        return f"round {current.round} is void: it trained from a disputed model"
    who = (
        f"round {current.round} by {len(current.by)} of {current.committed} (clients {', '.join(map(str, current.by))})"
    )
    return f"{who}; it is void" if current.void else f"{who}; it becomes void when more than half do"


def _last(last: Participation) -> str:
    return f"{last.round} counted" if last.counted else f"{last.round} did not count: {last.reason}"


def _budget(budget: Budget) -> str:
    cost = budget.gas * budget.price / ETHER
    source = f"of the last {budget.measured}" if budget.measured else "estimated from the gas limits"
    need = f"a round costs at most {cost:.3g} ({source})"
    return f"{budget.balance / ETHER:.6g} ether; {need}: enough for {budget.rounds:,} rounds"
