"""Gas of every transaction of a round, on a real EVM, compared with the goals of the ledger's specification."""

import os
from collections.abc import Callable, Iterable
from statistics import mean

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.founding import deploy
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.network.access import Mined, Network
from fedgrove.chain.records import Drawn
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Terms
from fedgrove_lab.bench.rows import BenchResult, BenchRow

# Whole transactions of a client that has taken part before; order: per client at 1,000 clients. Half of all VRF
# messages hold one root; each further one costs about 1,100.
GOALS = {"register": 120_000, "draw, one root": 67_600, "share": 35_000, "commit": 36_000, "seal, per client": 1_500}


Track = Callable[[Iterable[Keys], str], Iterable[Keys]]
"""Shows how far an iteration is, under a name."""


def run(clients: int, track: Track = lambda members, what: members) -> BenchResult:
    """Register ``clients`` clients, run two whole rounds, report the second."""
    with embedded() as network:
        bench = _Bench(network, clients, track)
        bench.register()
        bench.round()
        bench.gas = {"register": bench.gas["register"]}
        bench.round()
    rows = [_row(name, costs) for name, costs in bench.gas.items()]
    rows.append(_row("seal, per client", [bench.gas["seal"][0] / clients]))
    return BenchResult(tuple(rows), {"clients": clients})


def _row(name: str, costs: list[float]) -> BenchRow:
    goal = f"goal {GOALS[name]:,}" if name in GOALS else ""
    return BenchRow(name, round(mean(costs)), "gas", goal)


def _roots(keys: Keys, alpha: bytes) -> int:
    message = vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)
    return (len(message) - vrf.MESSAGE_HEAD_BYTES) // 32


class _Bench:
    """A federation of keys without models: digests are random, everything else is what real clients send."""

    def __init__(self, network: Network, clients: int, track: Track) -> None:
        founder = Keys.generate()
        network.fund(founder.address, 100)
        window = clients + 10
        settings = LedgerSettings(
            seed_delay=1,
            draw_window=window,
            share_window=window,
            commit_window=window,
            recover_window=max(window, 4 * LedgerSettings.coordinator_grace),
            quorum=1,
            releases=1,
            judges=1,
            max_clients=clients,
        )
        self.network, self._track = network, track
        self._model, config = os.urandom(32), os.urandom(32)
        terms = Terms(config.hex(), self._model.hex(), rounds=2)
        self.members = [Keys.generate() for _ in range(clients)]
        parts = (network, founder.account, founder.address, settings, terms)
        self.deployment: Deployment = deploy(*parts, members=[keys.address for keys in self.members])
        self.coordinator = Ledger(network, self.deployment, founder.account)
        self.gas: dict[str, list[float]] = {}

    def register(self) -> None:
        """Fund and register every member."""
        for keys in self._each("registering"):
            self.network.fund(keys.address, 1)
            self._note("register", self._ledger(keys).register(keys))

    def round(self) -> None:
        """Run one round from open to close."""
        coordinator = self.coordinator
        self._note("open", coordinator.open(self._model))
        number = coordinator.current_round()
        self.network.advance_to(coordinator.round(number).seed_block)
        self._note("fix_seed", coordinator.fix_seed(number))
        seed = coordinator.round(number).seed
        alpha = tree.draw_alpha(coordinator.chain_id, coordinator.address, number, seed)
        for keys in self._each("drawing"):
            drawn = (number, keys, alpha, os.urandom(32), os.urandom(32), 600)
            receipt = self._ledger(keys).draw(*drawn)
            self._note("draw, one root" if _roots(keys, alpha) == 1 else "draw, more roots", receipt)
            self._note("draw, mean", receipt)
        order_block = coordinator.round(number).order_block
        self.network.advance_to(order_block)
        self._note("seal", coordinator.seal(number, self._tickets(number), order_block))
        for keys in self._each("sharing"):
            self._note("share", self._ledger(keys).share(number, os.urandom(32)))
        for keys in self._each("committing"):
            self._note("commit", self._ledger(keys).commit(number, os.urandom(32), os.urandom(32)))
        for keys in self._each("releasing"):
            self._note("release", self._ledger(keys).release(number, os.urandom(32)))
        self._model = os.urandom(32)
        self._note("close", coordinator.close(number, self._model, os.urandom(32)))

    def _tickets(self, number: int) -> list[int]:
        draws = [
            record for record in self.coordinator.records() if isinstance(record, Drawn) and record.round == number
        ]
        return [tree.ticket(vrf.proof_to_hash(draw.proof), draw.client) for draw in draws]

    def _ledger(self, keys: Keys) -> Ledger:
        return Ledger(self.network, self.deployment, keys.account)

    def _note(self, call: str, receipt: Mined) -> None:
        self.gas.setdefault(call, []).append(receipt.gas_used)

    def _each(self, what: str) -> Iterable[Keys]:
        return self._track(self.members, what)
