"""A history of records made without a chain, so that each rule of the ledger can be met at its very limit."""

from copy import deepcopy
from dataclasses import replace

from eth_utils import keccak, to_checksum_address

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.records import (
    Affirmed,
    AffirmEnded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    DrawEnded,
    Drawn,
    Failed,
    Judged,
    LedgerFounded,
    Phase,
    Position,
    Record,
    Registered,
    RegistryFounded,
    Released,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    RoundRecord,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Vouched,
    VouchEnded,
)
from fedgrove.chain.records.deployment import Deployment, LedgerSettings, Membership, Terms
from fedgrove.node.protocol.bad_record import BadRecord, RuleBroken
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.law import Law
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

COORDINATOR, ADMIN, FOUNDER, STRANGER = (to_checksum_address("0x" + 20 * pair) for pair in ("c0", "ad", "f0", "57"))
REGISTRY, LEDGER = (to_checksum_address("0x" + 20 * pair) for pair in ("1b", "5f"))
ACCOUNTS = {client: to_checksum_address("0x" + 20 * f"{0xA5 - client:02x}") for client in (1, 2, 3, 4, 5)}
"""Descending, so that the order by account is not that by index."""
CONFIG, FIRST_MODEL, NEXT_MODEL, RIGHT_MODEL, METRICS = (bytes([byte]) * 32 for byte in (1, 2, 3, 4, 5))
NOTHING = bytes(32)
ALL, SAMPLE = ((1, tree.EVERYONE),), ((1, 1),)
DELAY, OPENED = 3, 20
WINDOWS = LedgerSettings(
    **{"seed_delay": 2, "draw_window": 10, "order_delay": 2, "seal_window": 5, "share_window": 6, "commit_window": 7},
    **{"recover_window": 30, "coordinator_grace": 6, "quorum": 2, "releases": 2, "judges": 2, "max_clients": 4},
    **{"absence_limit": 2, "max_samples": 100},
)
BOUNDS = {"vouch_window": 8, "affirm_window": 9, "stages": 2}
"""Settings of a federation that bounds updates."""


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
    membership : str
    members : sequence of str
        Accounts that the terms name.
    rates : tuple of (int, int)
    rounds, repeats : int
        As in the ledger's terms, like the rates.
    settings
        Other settings than ``WINDOWS``.
    """

    def __init__(self, membership: Membership = "open", members=(), rates=ALL, rounds=9, repeats=9, **settings):
        terms = Terms(CONFIG.hex(), FIRST_MODEL.hex(), rates, rounds, repeats)
        admin = ADMIN if membership == "approved" else "0x" + 40 * "0"
        places = (REGISTRY, LEDGER, 1, FOUNDER, COORDINATOR, admin, membership, tuple(members), DELAY)
        deployment = Deployment(7, *places, replace(WINDOWS, **settings), terms)
        self.facts = ChainFacts(deployment, 1_000_000, block_hash, randomness)
        self.rounds, self.transactions = Rounds(self.facts.settings.quorum), 0
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
            deepcopy(self.rules, {id(known): known for known in (self.facts, self.rounds)}).check(record)
        except RuleBroken as broken:
            return broken.record
        return None

    # --- records, lawful as they come -------------------------------------------------------------------------------

    def registered(self, client: int, block: int = 2, key: int | None = None) -> Registered:
        account, secret_key = ACCOUNTS[client], secret(key or client)
        proof = vrf.prove(secret_key, tree.registration_alpha(7, REGISTRY, account))
        x, y = vrf.coordinates(vrf.public_key(secret_key))
        return Registered(self.at(block, account), account, client, x, y, b"\7" * 32, block + DELAY, proof)

    def approved(self, client: int, block: int = 2, author: str = ADMIN, active_from: int = 0) -> Approved:
        return Approved(self.at(block, author), ACCOUNTS[client], active_from)

    def revoked(self, client: int, block: int, author: str = ADMIN) -> Revoked:
        return Revoked(self.at(block, author), ACCOUNTS[client])

    def resumed(self, client: int, block: int) -> Resumed:
        return Resumed(self.at(block, ACCOUNTS[client]), ACCOUNTS[client], client, block + DELAY)

    def opened(self, block: int, author: str = COORDINATOR, barred=()) -> RoundOpened:
        latest, terms = self.rounds.latest, self.facts.deployment.terms
        number = latest.number + 1 if latest else 1
        model = self.rounds.model_digest if latest else FIRST_MODEL
        rate, seed_block = terms.rate_of(number), block + self.facts.settings.seed_delay
        listed = tuple(ACCOUNTS[client] for client in barred)
        return RoundOpened(self.at(block, author), number, model, CONFIG, rate, block, seed_block, listed)

    def seeded(self, block: int | None = None) -> SeedFixed:
        found = block_hash(self.deadlines.seed_block)
        seed = tree.seed(found, self.rounds.root_before(self.current.number))
        return SeedFixed(self.at(block or self.deadlines.seed_block + 1), self.current.number, found, seed)

    def drawn(self, client: int, block: int | None = None, samples: int = 5) -> Drawn:
        alpha = tree.draw_alpha(7, LEDGER, self.current.number, self.current.fixed_seed.seed)
        place = self.at(block or self.deadlines.seed_block + 1, ACCOUNTS[client])
        return Drawn(place, self.current.number, client, samples, NOTHING, NOTHING, vrf.prove(secret(client), alpha))

    def sealed(self, block: int | None = None) -> Sealed:
        source = randomness if self.facts.settings.randao else block_hash
        seed = tree.order_seed(7, LEDGER, self.current.number, source(self.deadlines.order_block))
        root = tree.order_root(tree.order(self.current.tickets, seed))
        place = self.at(block or self.deadlines.order_block + 1)
        return Sealed(place, self.current.number, len(self.current.draws), seed, root)

    def shared(self, client: int, block: int | None = None) -> Shared:
        place = self.at(block or self.current.sealing.at.block, ACCOUNTS[client])
        return Shared(place, self.current.number, client, NOTHING)

    def committed(self, client: int, block: int | None = None) -> Committed:
        place = self.at(block or self.deadlines.share_end + 1, ACCOUNTS[client])
        return Committed(place, self.current.number, client, NOTHING, NOTHING)

    def vouched(self, client: int, block: int | None = None) -> Vouched:
        place = self.at(block or self.deadlines.sketch_block + 1, ACCOUNTS[client])
        return Vouched(place, self.current.number, client, block_hash(self.deadlines.sketch_block), NOTHING)

    def affirmed(self, client: int, block: int | None = None) -> Affirmed:
        place = self.at(block or self.deadlines.vouch_end + 1, ACCOUNTS[client])
        return Affirmed(place, self.current.number, client, self.current.sketch_hash, NOTHING)

    def revealed(self, client: int, block: int | None = None) -> Revealed:
        place = self.at(block or self.deadlines.vouch_end + 1, ACCOUNTS[client])
        return Revealed(place, self.current.number, client, self.current.sketch_hash, NOTHING)

    def released(self, client: int, block: int | None = None, stage: int = 0) -> Released:
        place = self.at(block or self.deadlines.affirm_end + 1, ACCOUNTS[client])
        return Released(place, self.current.number, client, self.current.sketch_hash, NOTHING, stage)

    def closed(self, block: int | None = None, author: str = COORDINATOR, model: bytes = NEXT_MODEL) -> Closed:
        place = self.at(block or self.deadlines.affirm_end + 1, author)
        return Closed(place, self.current.number, model, METRICS)

    def judged(
        self,
        client: int,
        model: bytes,
        asked: Phase = Phase.CLOSED,
        block: int | None = None,
        number: int | None = None,
    ) -> Judged:
        """Of the latest round unless ``number`` says another; with the metrics of a closing, none for no model."""
        place = self.at(block or self.deadlines.affirm_end + 2, ACCOUNTS[client])
        metrics = NOTHING if model == NOTHING else METRICS
        return Judged(place, number or self.current.number, client, asked, model, metrics)

    def skipped(self, block: int, author: str = COORDINATOR) -> Skipped:
        return Skipped(self.at(block, author), self.current.number, len(self.current.draws))

    def failed(self, block: int, author: str = STRANGER) -> Failed:
        """Anybody may record it."""
        return Failed(self.at(block, author), self.current.number)

    # --- stages of the latest round, or of a next one: of four members three draw and share, two commit and release ---

    def founded(self) -> "Story":
        self.add(founding := RegistryFounded(self.at(1, FOUNDER)))
        self.add(*(Approved(founding.at, account, 0) for account in self.facts.deployment.members))
        return self.add(LedgerFounded(self.at(1, FOUNDER)))

    def joined(self, *clients: int) -> "Story":
        self.founded()
        for client in clients or (1, 2, 3, 4):
            if self.facts.deployment.membership == "approved":
                self.add(self.approved(client))
            self.add(self.registered(client))
        return self

    def to_opened(self, block: int | None = None, barred=()) -> "Story":
        if not self.rounds.members:
            self.joined()
        latest = self.rounds.latest
        if latest is not None and latest.end is None:
            return self
        return self.add(self.opened(block or (latest.ending.at.block + 1 if latest else OPENED), barred=barred))

    def to_seeded(self) -> "Story":
        self.to_opened()
        return self if self.current.seed else self.add(self.seeded())

    def to_drawn(self, *clients: int) -> "Story":
        self.to_seeded()
        awaited = self.current.awaited(self.facts.settings.max_clients)
        return self if self.current.draws else self._each(self.drawn, clients or (1, 2, 3), DrawEnded, awaited)

    def to_sealed(self) -> "Story":
        self.to_drawn()
        return self if self.current.sealed else self.add(self.sealed())

    def to_shared(self) -> "Story":
        self.to_sealed()
        draws = self.current.draws
        return self if self.current.shares else self._each(self.shared, tuple(draws), ShareEnded, len(draws))

    def to_committed(self, *clients: int) -> "Story":
        self.to_shared()
        awaited = len(self.current.shares)
        return self if self.current.commits else self._each(self.committed, clients or (1, 2), CommitEnded, awaited)

    def to_vouched(self, *clients: int) -> "Story":
        """Where updates are bounded, those who committed vouch, unless others are named."""
        self.to_committed()
        bounded, commits = self.facts.settings.is_bounded, tuple(self.current.commits)
        if not bounded or self.current.vouches:
            return self
        return self._each(self.vouched, clients or commits, VouchEnded, len(commits))

    def to_affirmed(self, *clients: int) -> "Story":
        self.to_vouched()
        bounded, commits = self.facts.settings.is_bounded, tuple(self.current.commits)
        if not bounded or self.current.affirmations:
            return self
        return self._each(self.affirmed, clients or commits, AffirmEnded, len(commits))

    def to_released(self, *clients: int) -> "Story":
        self.to_affirmed()
        return self if self.current.releases else self._each(self.released, clients or (1, 2))

    def to_closed(self) -> "Story":
        self.to_released()
        return self.add(self.closed())

    def to_failed(self) -> "Story":
        """Nobody shares."""
        self.to_sealed()
        return self.add(self.failed(self.deadlines.commit_end + 1))

    def _each(self, record, clients, ending: type[RoundRecord] | None = None, awaited: int = 0) -> "Story":
        """The records of these clients, and what follows if they are all."""
        records = [record(client) for client in clients]
        ends = [follows(ending, records[-1])] if ending and len(records) == awaited else []
        return self.add(*records, *ends)


def follows(kind: type[RoundRecord], cause: RoundRecord, *content) -> RoundRecord:
    """What a record brings with it, in its transaction."""
    return kind(cause.at._replace(log_index=1), cause.round, *content)
