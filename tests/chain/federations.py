"""A federation of four clients on a chain of its own, and what a test needs to take it through a round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.face.founding import deploy
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import Network
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Membership, Terms

SETTINGS = LedgerSettings(
    seed_delay=1,
    draw_window=12,
    seal_window=5,
    share_window=8,
    commit_window=8,
    recover_window=16,
    coordinator_grace=2,
    quorum=2,
    max_clients=8,
    releases=2,
    judges=2,
    absence_limit=2,
    max_samples=1000,
)
EVERYONE = tree.EVERYONE
MODEL, CONFIG = b"\x01" * 32, b"\x02" * 32
TERMS = Terms(CONFIG.hex(), MODEL.hex(), rounds=10)


@dataclass
class Federation:
    """A deployed federation whose first four clients are registered."""

    network: Network
    deployment: Deployment
    founder: Keys
    coordinator: Ledger
    keys: list[Keys] = field(default_factory=list)
    clients: list[Ledger] = field(default_factory=list)
    new_keys: Callable[[], Keys] = Keys.generate

    def join(self, approved: bool = True) -> None:
        keys = self.new_keys()
        self.network.fund(keys.address, 1)
        if approved and self.deployment.membership != "open":
            self.coordinator.approve(keys.address)
        self.keys.append(keys)
        self.clients.append(Ledger(self.network, self.deployment, keys.account))
        self.clients[-1].register(keys)

    def open(self, model: bytes | None = None) -> int:
        self.coordinator.open(model or self.coordinator.current_model())
        return self.coordinator.current_round()

    def alpha(self, number: int) -> bytes:
        seed = self.coordinator.round(number).seed
        return tree.draw_alpha(self.network.chain_id, self.deployment.ledger, number, seed)

    def to_draw(self, number: int) -> None:
        self.network.advance_to(self.coordinator.round(number).seed_block)
        self.coordinator.fix_seed(number)

    def draw(self, number: int, index: int) -> None:
        self.clients[index].draw(number, self.keys[index], self.alpha(number), b"m" * 32, b"s" * 32, 10 + index)

    def tickets(self, number: int) -> list[int]:
        drawn = [record for record in self.coordinator.records() if type(record).__name__ == "Drawn"]
        return [
            tree.ticket(vrf.proof_to_hash(record.proof), record.client) for record in drawn if record.round == number
        ]

    def order(self, number: int) -> tuple[int, ...]:
        """The tickets along the leaves, by the hash of the order's block."""
        found = self.network.block_hash(self.coordinator.round(number).order_block)
        return tree.order(self.tickets(number), tree.order_seed(*self.place, number, found))

    @property
    def place(self) -> tuple[int, str]:
        return self.network.chain_id, self.deployment.ledger

    def seal(self, number: int) -> None:
        order_block = self.coordinator.round(number).order_block
        self.network.advance_to(order_block)
        self.coordinator.seal(number, self.tickets(number), order_block)

    def sealed(self, who: range = range(4)) -> int:
        number = self.open()
        self.to_draw(number)
        for index in who:
            self.draw(number, index)
        self.seal(number)
        return number


def found(
    network: Network,
    clients: int = 4,
    terms: Terms = TERMS,
    settings: LedgerSettings = SETTINGS,
    membership: Membership = "open",
    activation_delay: int = 1,
    members: Sequence[str] = (),
    new_keys: Callable[[], Keys] = Keys.generate,
) -> Federation:
    founder = new_keys()
    network.fund(founder.address, 10)
    options = {"members": members, "membership": membership, "activation_delay": activation_delay}
    deployment = deploy(network, founder.account, founder.address, settings, terms, **options)
    coordinator = Ledger(network, deployment, founder.account)
    federation = Federation(network, deployment, founder, coordinator, new_keys=new_keys)
    for _ in range(clients):
        federation.join()
    network.mine(1)
    return federation
