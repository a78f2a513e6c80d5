"""Result of one call of a role's ``step``: an action, or a wait with its reason and deadline."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from fedgrove.ipfs.store import BlobError, DiskFull, QuotaExceeded, StoreError


@dataclass(frozen=True)
class Step:
    """Outcome of one step of a role.

    Attributes
    ----------
    phase : str
        The phase of the round as the role sees it.
    acted : str
        What it did, in the past tense; empty when it waits.
    waiting : str
        Who is waited for, and why; empty when it acted.
    until : int
        The last block worth waiting for; 0 when no deadline applies.
    busy : bool
        It waits for its own computation, not for the chain.
    content : bool
        It waits for what others publish in a store. As with ``busy``, no block announces it.
    gas : int
        Gas used by the transaction it sent.
    warns : bool
        People should look at what it did.
    """

    phase: str
    acted: str = ""
    waiting: str = ""
    until: int = 0
    busy: bool = False
    content: bool = False
    gas: int = 0
    warns: bool = False

    @classmethod
    def wait(cls, phase: str, reason: str, until: int = 0, *, busy: bool = False, content: bool = False) -> "Step":
        return cls(phase, waiting=reason, until=until, busy=busy, content=content)


def missing(expected: Iterable[int], present: Container[int], what: str) -> str:
    """Name the clients that have not done their part: ``clients 2, 5 to share``, or ``nobody``."""
    absent = [client for client in expected if client not in present]
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
        return Step.wait("content", f"content of the others: {fault}", block + 1, content=True)
    except DiskFull:
        raise
    except QuotaExceeded as fault:
        return Step.wait("quota", f"space in this member's store (network.quota_mib): {fault}", block + 1)
    except StoreError as fault:
        return Step.wait("store", f"the store: {fault}", block + 1)
