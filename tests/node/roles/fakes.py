"""Stand-ins for what the phases of a role work with; each notes what is done, in order."""

from types import SimpleNamespace

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.records import DrawEnded, Sealed, SeedFixed, Voided
from fedgrove.chain.records.phases import Deadlines
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.protocol.rounds import Member, RoundRecords
from fedgrove.node.roles.client.context import ClientTurn, Outbox
from fedgrove.node.roles.context import Turn

DEADLINES = Deadlines(
    opened_at=0,
    seed_block=10,
    draw_end=20,
    order_block=25,
    seal_end=30,
    share_end=40,
    commit_end=50,
    sketch_block=50,
    vouch_end=50,
    affirm_end=50,
    recover_end=60,
    close_end=60,
)
ME = 1
GAS = 7
ONCE = {"seed": SeedFixed, "draw_end": DrawEnded, "sealed": Sealed, "voided": Voided}


def entry_with(number=1, draws=(), shares=(), commits=(), releases=(), **parts):
    """A round's records, as far as phases look at them; clients by index."""
    opened = SimpleNamespace(round=number, opened_at=0, sampling_rate=1_000_000, barred=())
    if shares or commits or releases:
        parts.setdefault("sealed", object())
    once = {ONCE[name]: parts.pop(name) for name in ONCE if name in parts}
    current = RoundRecords(opened, once=once, order=tuple(draws), **parts)
    for records, clients in (
        (current.draws, draws),
        (current.shares, shares),
        (current.commits, commits),
        (current.releases, releases),
    ):
        records.update({client: SimpleNamespace(client=client, digest=bytes(32)) for client in clients})
    return current


def turn_at(block, current):
    """A coordinator's turn."""
    return Turn(current, DEADLINES, block)


def client_turn_at(block, current, active_from=0):
    """The turn of client ``ME``."""
    return ClientTurn(current, DEADLINES, block, Member(ME, "0x1", 0, 0, b"", active_from))


class Events(list):
    """What was done, in order."""

    def noting(self, name, result=None):
        """A function that notes its call, and returns or raises something."""

        def call(*arguments):
            self.append((name, *arguments))
            if isinstance(result, Exception):
                raise result
            return result

        return call

    def names(self):
        return [event[0] for event in self]


class Book:
    """A ledger that takes every transaction, but for those of the functions in ``refuses``."""

    chain_id, address = 1, "0x" + 40 * "0"

    def __init__(self, events, refuses=()):
        self._events, self.refuses = events, set(refuses)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def send(*arguments):
            self._events.append((name, *arguments))
            if name in self.refuses:
                raise ContractRevert("too late")
            return SimpleNamespace(gas_used=GAS)

        return send


class Shelf:
    """A store in memory."""

    def __init__(self, events):
        self._events, self.blobs, self.pinned = events, {}, set()

    def put(self, data):
        self._events.append(("put", data))
        self.blobs[cid_of(data).digest] = data
        return cid_of(data)

    def has(self, digest):
        return digest in self.blobs

    def available(self, digest, most):
        return self.has(digest)

    def pin(self, digest):
        self.pinned.add(digest)

    def fetch(self, digest, most):
        return self.blobs[digest]


def view_at(block, **parts):
    """A ledger's view."""
    found = {"recover_window": 8, "quorum": 3, "releases": 2, "is_bounded": False}
    settings = SimpleNamespace(**{**found, **parts.pop("settings", {})})
    return SimpleNamespace(block=block, settings=settings, deadlines=lambda current: DEADLINES, **parts)


def context_with(events, view=None, refuses=(), **parts):
    """The collaborators of a role: ledger, store and outbox are here, the rest is given."""
    view = view or view_at(0)
    made = {"ledger": Book(events, refuses), "store": Shelf(events), "view": view, "outbox": Outbox(view)}
    return SimpleNamespace(**{**made, **parts})
