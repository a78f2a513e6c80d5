"""``fedgrove status``: state of a federation, reason if my last round did not count, and my account's means."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedgrove.chain.crypto.keys import Keys, load
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.founding import read_deployment
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.records.deployment import Deployment
from fedgrove.common.text import duration
from fedgrove.node.cli.options import ConfigFile, EtherPrice, PasswordFile
from fedgrove.node.cli.output import (
    CommandError,
    address,
    answer,
    complain,
    live_answer,
    print_json,
    print_json_line,
    read_password,
)
from fedgrove.node.cli.reach import check_reach, lone_endpoint, open_network, open_store
from fedgrove.node.methods.procfl.standing import ClusterStanding
from fedgrove.node.methods.terms import load_config
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.step import name_clients
from fedgrove.node.status.costs import Budget, Costs
from fedgrove.node.status.federation import FederationStatus, StatusReader
from fedgrove.node.status.participation import Participation
from fedgrove.node.status.price import ETHER, Price
from fedgrove.node.status.rounds import Round
from fedgrove.node.status.standing import JudgedRound, Standing


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
    own = _account(account, keys)
    terms, reach = load_config(config)
    check_reach(config, reach)
    with open_network(reach) as network:
        if depends := lone_endpoint(reach):
            complain(depends)
        deployment = read_deployment(network, reach.ledger, reach.block or None)
        needs_store = terms.method.staged or terms.privacy or terms.evaluation
        store = open_store(config, reach) if needs_store or _has_store(reach) else None
        reader = StatusReader(network, Ledger(network, deployment, None), terms, store, own, keys)
        display = Display(deployment, own or "", price)
        if watch:
            return _watch(reader, display, interval, as_json)
        display.show(reader.read(), as_json)
    return 0


def _account(account: str | None, keys: Keys | None) -> str | None:
    named = None if account is None else address(account, "--account")
    if named and keys and named != keys.address:
        raise CommandError(f"the keystore is that of account {keys.address}: give only one of --account and --keystore")
    return keys.address if keys else named


def _has_store(reach: NetworkSettings) -> bool:
    """Whether figures of rounds can be read; a folder that is missing is not made for them."""
    folder = reach.store.removeprefix("disk:")
    return bool(reach.store) and (folder == reach.store or Path(folder).is_dir())


# --- watching ---------------------------------------------------------------------------------------------------------


def _watch(reader: StatusReader, display: "Display", interval: float, as_json: bool) -> int:
    live = None if as_json else live_answer()
    with live or nullcontext():
        last, away = None, ""
        while last is None or not last.finished:
            try:
                now = reader.read()
            except ChainError as fault:
                if not away:
                    complain(f"waiting: {fault}")
                away = str(fault)
            else:
                substance = replace(now.standing, block=0)  # whose change prints a new line
                if live is not None:
                    live.update(display.table(now), refresh=True)
                elif substance != last:
                    display.show(now, as_json, line=True)
                last, away = substance, ""
            if last is None or not last.finished:
                time.sleep(interval)
    return 0


# --- showing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Display:
    """Shows a status: the costs of whose account, and in which currency.

    Attributes
    ----------
    deployment : Deployment
        Of the federation: the coordinator's part is shown, and what a practice chain took is said to be practice.
    """

    deployment: Deployment
    account: str = ""
    price: Price | None = None

    def show(self, now: FederationStatus, as_json: bool, line: bool = False) -> None:
        """Print it; ``line``: as one of several."""
        if as_json:
            (print_json_line if line else print_json)(self.document(now))
            return
        for name, value in self.rows(now):
            answer(f"{name}: {value}")
        if line:
            answer()

    def table(self, now: FederationStatus) -> Table:
        """The same for a terminal."""
        table = Table.grid(padding=(0, 2))
        for name, value in self.rows(now):
            table.add_row(Text(name, style="bold"), Text(value))
        return table

    def document(self, now: FederationStatus) -> dict[str, Any]:
        """The same for machines."""
        accounts = {"all": "", "coordinator": self.deployment.coordinator}
        accounts |= {"account": self.account} if self.account else {}
        return now.to_dict() | {"costs": now.costs.to_dict(accounts, self._asked)}

    def rows(self, now: FederationStatus) -> list[tuple[str, str]]:
        """Name and value of all that people are shown."""
        stands = now.standing
        rows = [
            ("block", f"{stands.block}, {stands.members} members"),
            ("round", f"{stands.round} of {now.rounds_to_close}"),
            ("phase", stands.phase),
            ("acted", ", ".join(map(str, stands.acted)) or "nobody"),
            ("waiting for", _waiting(stands, now.until_time)),
            *([("stands still", now.standstill)] if now.standstill else []),
            *([("cells", _groups(now.cells))] if now.cells else []),
            *([("cells that were summed", _clean(now.clean))] if now.clean else []),
            *(("warning", sentence) for sentence in stands.setbacks.warnings),
            *([("the chain", now.chain_stopped)] if now.chain_stopped else []),
            *(("judged", _judged(each)) for each in stands.judged),
            *(_of_clusters(now.clusters, stands.finished) if now.clusters else ()),
            *([("privacy", str(now.spent))] if now.spent else []),
            *([("your next round", f"none, {now.refusal}")] if now.refusal else []),
            *(_of_last_round(now.last_round) if now.last_round else ()),
            *now.faults.items(),
            *self.costs(now.costs),
        ]
        if stands.account:
            rows.append(("your account", stands.account))
            rows += [("your last round", _last(stands.last))] if stands.last else []
            rows += [("your budget", _budget(now.budget))] if now.budget else []
        return rows

    def costs(self, costs: Costs) -> Iterator[tuple[str, str]]:
        """The rows of costs."""
        lacking = f"; the node has lost {costs.unknown} receipts" if costs.unknown else ""
        coordinators = self._money(costs.whole(self.deployment.coordinator))
        yield "cost so far", f"{self._described(costs, '')}; of it the coordinator {coordinators}{lacking}"
        if self.account:
            yield "your cost so far", self._described(costs, self.account)

    def _described(self, costs: Costs, account: str) -> str:
        whole, rounds = self._money(costs.whole(account)), costs.rounds(account)
        if not rounds:
            return whole
        mean, latest = self._money(sum(rounds.values()) / len(rounds)), max(rounds)
        return f"{whole}; a round {mean} on average, round {latest} {self._money(rounds[latest])}"

    def _money(self, amount: float) -> str:
        ether, price = amount / ETHER, self._asked
        if self.deployment.practice:
            return f"{ether:.4g} practice ether"
        return f"{ether:.4g} ether" + (f" ({ether * price.amount:,.2f} {price.currency})" if price else "")

    @property
    def _asked(self) -> Price | None:
        """The price that applies: nobody would buy a practice chain's coins."""
        return None if self.deployment.practice else self.price


def _of_clusters(now: ClusterStanding, finished: bool) -> Iterator[tuple[str, str]]:
    """The rows of clusters; a federation that has finished is in no stage."""
    if not finished:
        waits = f"; {name_clients(now.awaited)} yet to commit" if now.awaited else ""
        yield "stage", f"{now.stage}: {now.doing}{waits}"
    if now.clusters:
        yield "clusters", _groups(now.clusters)
    if not finished:
        yield from (("warning", str(each)) for each in now.small)
    if now.expelled:
        yield "expelled", name_clients(now.expelled)


def _groups(found: Sequence[Collection[int]]) -> str:
    return " | ".join(", ".join(map(str, each)) or "nobody" for each in found)


def _clean(found: Mapping[int, tuple[int, int]]) -> str:
    """How often each client's cell was clean, the clients with the same counts together, the most suspicious first."""
    alike: dict[tuple[int, int], list[int]] = {}
    for client, counts in found.items():
        alike.setdefault(counts, []).append(client)
    ordered = sorted(alike.items(), key=lambda each: each[0][0] / each[0][1])
    return " | ".join(f"{times} of {rounds} times: {name_clients(clients)}" for (times, rounds), clients in ordered)


def _of_last_round(found: Round) -> Iterator[tuple[str, str]]:
    figures = {"accuracy": found.accuracy, "loss": found.loss}
    known = [f"{name} {value:.4f}" for name, value in figures.items() if value is not None]
    yield "last model", f"of round {found.round}" + (f": {', '.join(known)}" if known else "")
    if found.members is not None:
        model = "the last model" if found.only_evaluated else "the model before the last round"
        yield "members", f"{found.members_found}, for {model}"
    if found.raised:
        yield "unable", f"{found.unable} in the last round"


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
    return f"about {time.strftime(form, time.localtime(when))}, in {duration(left)}"


def _judged(current: JudgedRound) -> str:
    if not current.by:
        return f"round {current.round} is void: it trained from a model that fell"
    clients = ", ".join(map(str, current.by))
    who = f"round {current.round} by {len(current.by)} of {current.committed} (clients {clients})"
    if current.replaced:
        return f"{who}: their result stands in the place of its closing"
    return f"{who}: it is void" if current.void else f"{who}: its closing falls when more than half say the same"


def _last(last: Participation) -> str:
    return f"{last.round} counted" if last.counted else f"{last.round} did not count: {last.reason}"


def _budget(budget: Budget) -> str:
    cost = budget.gas * budget.price / ETHER
    source = f"of the last {budget.measured}" if budget.measured else "estimated from the gas limits"
    need = f"a round costs at most {cost:.3g} ({source})"
    return f"{budget.balance / ETHER:.6g} ether; {need}: enough for {budget.rounds:,} rounds"
