"""Result of one call of a role's ``step``: an action, or a wait with its reason and deadline."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from fedgrove.ipfs.store import BlobError, DiskFull, QuotaExceeded, StoreError


class Kind(Enum):
    """What a step was: what is done next, and what is shown, depends on nothing else of it."""

    ACTED = auto()
    DEPLOYED = auto()
    OPENED = auto()
    COMMITTED = auto()
    ENDED = auto()
    JUDGED = auto()
    REQUESTED = auto()
    WAITS = auto()
    WORKS = auto()
    """Waits for its own computation. No block announces its end."""
    FETCHES = auto()
    """Waits for what others publish in a store. No block announces that, either."""
    SITS_OUT = auto()
    """Takes no part until the round is over."""
    IDLE = auto()
    """Nobody needs another round."""
    CUT_OFF = auto()
    """Cannot reach its store."""


@dataclass(frozen=True)
class Step:
    """Outcome of one step of a role.

    Attributes
    ----------
    phase : str
        What it was about, in one word for logs and metrics.
    kind : Kind
        What it was.
    acted : str
        What it did, in the past tense; empty when it waits.
    waiting : str
        Who is waited for, and why; empty when it acted.
    until : int
        The last block worth waiting for; 0 when no deadline applies.
    gas : int
        Gas used by the transaction it sent.
    warns : bool
        People should look at what it did.
    detail : str
        What may quote the member's data, as the text of a task's fault: for its own terminal, where it asks for that.
    """

    phase: str
    kind: Kind
    acted: str = ""
    waiting: str = ""
    until: int = 0
    gas: int = 0
    warns: bool = False
    detail: str = ""

    @classmethod
    def act(cls, phase: str, acted: str, gas: int = 0, kind: Kind = Kind.ACTED) -> "Step":
        """A step in which something was done."""
        return cls(phase, kind, acted=acted, gas=gas)

    @classmethod
    def wait(cls, phase: str, reason: str, until: int = 0, kind: Kind = Kind.WAITS) -> "Step":
        """A step in which nothing could be done yet."""
        return cls(phase, kind, waiting=reason, until=until)


def missing(expected: Iterable[int], present: Container[int], what: str) -> str:
    """Name the clients that have not done their part: ``clients 2, 5 to share``, or ``nobody``."""
    absent = sorted(client for client in expected if client not in present)
    return f"{name_clients(absent)} to {what}" if absent else "nobody"


def name_clients(clients: Sequence[int]) -> str:
    """``client 3`` or ``clients 2, 5``."""
    return f"client{'s' if len(clients) != 1 else ''} {', '.join(map(str, clients))}"


def attempt(act: Callable[[], Step], block: int) -> Step:
    """Do something that needs the store; what store or blobs make impossible is tried again by the next block.

    Raises
    ------
    DiskFull
        Only people make room: the command ends, and goes on where it was when it is run again.
    """
    try:
        return act()
    except BlobError as fault:
        return Step.wait("content", f"content of the others: {fault}", block + 1, Kind.FETCHES)
    except DiskFull:
        raise
    except QuotaExceeded as fault:
        return Step.wait("quota", f"space in this member's store (network.quota_mib): {fault}", block + 1)
    except StoreError as fault:
        return Step.wait("store", f"the store: {fault}", block + 1, Kind.CUT_OFF)
