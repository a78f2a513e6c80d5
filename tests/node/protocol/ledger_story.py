"""A history of records made without a chain, so that each rule of the ledger can be met at its very limit."""

from dataclasses import replace

from eth_utils import keccak, to_checksum_address

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    Approved,
    Closed,
    Committed,
    DrawEnded,
    Drawn,
    LedgerFounded,
    Position,
    Record,
    Recovered,
    Registered,
    RegistryFounded,
    Released,
    RoundOpened,
    Sealed,
    SeedFixed,
    Shared,
)
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Terms
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

COORDINATOR, ADMIN, STRANGER = (to_checksum_address("0x" + 20 * pair) for pair in ("c0", "ad", "57"))
REGISTRY, LEDGER = (to_checksum_address("0x" + 20 * pair) for pair in ("1b", "5f"))
ACCOUNTS = {client: "0x" + 20 * f"{0xA5 - client:02x}" for client in (1, 2, 3, 4, 5)}
"""Descending, so that the order by account is not that by index."""
CONFIG, FIRST_MODEL, NEXT_MODEL = (bytes([byte]) * 32 for byte in (1, 2, 3))
DELAY = 3
WINDOWS = LedgerSettings(
    **{"seed_delay": 2, "draw_window": 10, "order_delay": 2, "seal_window": 5, "share_window": 6, "commit_window": 7},
    **{"recover_window": 8, "close_window": 9, "coordinator_grace": 4, "quorum": 2, "max_clients": 4},
    **{"absence_limit": 2, "absence_rounds": 1, "max_samples": 100},
)


def secret(client: int) -> bytes:
    return bytes(31) + bytes([client])


def block_hash(number: int) -> bytes:
    return keccak(b"hash of %d" % number)


def randomness(number: int) -> bytes:
    return keccak(b"mix of %d" % number)


class Story:
    """Records so far, all lawful; ``bad`` says what a next one would break.

    Parameters
    ----------
    open_membership : bool
    rate : int
        Clients per million.
    rounds, repeats : int
        As in the ledger's terms.
    settings
        Other settings than ``WINDOWS``.
    """

    def __init__(self, open_membership: bool = True, rate: int = tree.EVERYONE, rounds=2, repeats=1, **settings):
        terms = Terms(CONFIG.hex(), FIRST_MODEL.hex(), ((1, rate),), rounds, repeats)
        places = (REGISTRY, LEDGER, 1, COORDINATOR, ADMIN)
        deployment = Deployment(7, *places, open_membership, DELAY, replace(WINDOWS, **settings), terms)
        self.facts = ChainFacts(deployment, 10_000, block_hash, randomness)
        self.rounds, self.transactions = Rounds(), 0
        self.rules = Law(self.facts, self.rounds)

    @property
    def current(self) -> RoundRecords:
        return self.rounds.last

    @property
    def deadlines(self):
        return self.current.deadlines(self.facts.settings)

    def at(self, block: int, author: str = COORDINATOR) -> Position:
        """A place in a transaction of its own."""
        self.transactions += 1
        return Position(block, self.transactions.to_bytes(32, "big"), 0, author)

    def add(self, *records: Record) -> "Story":
        for record in records:
            self.rules.check(record)
            self.rounds.add(record)
        return self

    def bad(self, record: Record) -> BadRecord | None:
        """What the record breaks; nothing is added."""
        try:
            self.rules.check(record)
        except RuleBroken as broken:
            return broken.record
        return None

    # --- records, lawful as they come -------------------------------------------------------------------------------

    def registered(self, client: int, block: int = 2, key: int | None = None) -> Registered:
        account, secret_key = ACCOUNTS[client], secret(key or client)
        proof = vrf.prove(secret_key, tree.registration_alpha(7, REGISTRY, account))
        x, y = vrf.coordinates(vrf.public_key(secret_key))
        return Registered(self.at(block, account), account, client, x, y, bytes(32), block + DELAY, proof)

    def approved(self, client: int, block: int = 2, author: str = ADMIN) -> Approved:
        return Approved(self.at(block, author), ACCOUNTS[client])

    def opened(self, block: int, number: int | None = None, author: str = COORDINATOR, barred: int = 0) -> RoundOpened:
        latest, terms = self.rounds.latest, self.facts.deployment.terms
        follows = latest.number + 1 if latest else 1
        model = self.rounds.model_digest if latest else FIRST_MODEL
        rate, seed_block = terms.rate_of(1), block + self.facts.settings.seed_delay
        return RoundOpened(self.at(block, author), number or follows, model, CONFIG, rate, block, seed_block, barred)

    def seeded(self, block: int | None = None) -> SeedFixed:
        past = [each.sealed.order_root for each in self.rounds.rounds.values() if each.sealed]
        found = block_hash(self.deadlines.seed_block)
        place = self.at(block or self.deadlines.seed_block + 1)
        return SeedFixed(place, self.current.number, found, tree.seed(found, past[-1] if past else bytes(32)))

    def drawn(self, client: int, block: int | None = None, samples: int = 5) -> Drawn:
        alpha = tree.draw_alpha(7, LEDGER, self.current.number, self.current.fixed_seed.seed)
        place = self.at(block or self.deadlines.seed_block + 1, ACCOUNTS[client])
        proof = vrf.prove(secret(client), alpha)
        return Drawn(place, self.current.number, client, samples, bytes(32), bytes(32), proof)

    def sealed(self, block: int | None = None) -> Sealed:
        source = randomness if self.facts.settings.randao else block_hash
        seed = tree.order_seed(7, LEDGER, self.current.number, source(self.deadlines.order_block))
        root = tree.order_root(tree.order(self.current.tickets, seed))
        place = self.at(block or self.deadlines.order_block + 1)
        return Sealed(place, self.current.number, len(self.current.draws), seed, root)

    def shared(self, client: int, block: int | None = None) -> Shared:
        place = self.at(block or self.current.sealing.at.block, ACCOUNTS[client])
        return Shared(place, self.current.number, client, bytes(32))

    def committed(self, client: int, block: int | None = None) -> Committed:
        place = self.at(block or self.deadlines.share_end + 1, ACCOUNTS[client])
        return Committed(place, self.current.number, client, bytes(32), bytes(32))

    def released(self, client: int, block: int | None = None) -> Released:
        place = self.at(block or self.deadlines.commit_end + 1, ACCOUNTS[client])
        return Released(place, self.current.number, client, bytes(32))

    def recovered(self, block: int | None = None, author: str = COORDINATOR) -> Recovered:
        place = self.at(block or self.deadlines.commit_end + 1, author)
        return Recovered(place, self.current.number, bytes(32), len(self.current.commits))

    def closed(self, block: int | None = None, author: str = COORDINATOR, model: bytes = NEXT_MODEL) -> Closed:
        place = self.at(block or self.current.recovery.at.block, author)
        return Closed(place, self.current.number, model, bytes(32))

    # --- stages of the first round, in which four are members, three draw and two share and commit --------------------

    def founded(self) -> "Story":
        return self.add(RegistryFounded(self.at(1)), LedgerFounded(self.at(1)))

    def joined(self, *clients: int) -> "Story":
        self.founded()
        for client in clients or (1, 2, 3, 4):
            self.add(self.registered(client))
            if not self.facts.deployment.open_membership:
                self.add(self.approved(client))
        return self

    def to_opened(self, block: int = 20) -> "Story":
        return self.add(self.opened(block))

    def to_seeded(self) -> "Story":
        self.joined().to_opened()
        return self.add(self.seeded())

    def to_drawn(self, *clients: int) -> "Story":
        self.to_seeded()
        for client in clients or (1, 2, 3):
            self.add(self.drawn(client))
        return self

    def to_sealed(self) -> "Story":
        self.to_drawn()
        return self.add(self.sealed())

    def to_shared(self) -> "Story":
        self.to_sealed()
        return self.add(self.shared(1), self.shared(2))

    def to_committed(self, *clients: int) -> "Story":
        """One commits of the two that shared."""
        self.to_shared()
        for client in clients or (1,):
            self.add(self.committed(client))
        return self

    def to_recovered(self) -> "Story":
        self.to_committed()
        return self.add(self.recovered())

    def to_closed(self) -> "Story":
        self.to_recovered()
        return self.add(self.closed())


def draw_ended(story: Story, last: Drawn) -> DrawEnded:
    """What follows the draw of the last who may, in its transaction."""
    return DrawEnded(last.at._replace(log_index=1), last.round)
