"""Sortition and the cooperation tree: who is drawn, in which order, who is whose partner.

The same functions as in ``contracts/CooperationTree.sol`` and ``TrainingLedger.sol``, so that anyone can recompute what
the ledger fixed. All functions are pure; ``beta`` is a 32-byte VRF output, a ticket an unsigned 128-bit integer.
"""

from collections.abc import Sequence

from eth_abi import encode
from eth_utils import keccak

EVERYONE = 1_000_000
MAX_CLIENT = (1 << 32) - 1
_CLIENT_BITS = 32
_TICKET_BITS = 128


def ticket(beta: bytes, client: int) -> int:
    """The place that a draw gives: top 96 bits of the VRF output ‖ 32-bit client index, so no two are equal."""
    if len(beta) != 32:
        raise ValueError(f"a VRF output is 32 bytes, not {len(beta)}")
    if not 1 <= client <= MAX_CLIENT:
        raise ValueError(f"a client index is from 1 to {MAX_CLIENT}, not {client}")
    return int.from_bytes(beta[:12], "big") << _CLIENT_BITS | client


def client_of(ticket: int) -> int:
    """The client index in a ticket's low 32 bits."""
    return ticket & MAX_CLIENT


def threshold(rate_ppm: int) -> int:
    """τ for a sampling rate in parts per million: ⌊2²⁵⁶ / 10⁶⌋ · rate, as the contract computes it."""
    if not 1 <= rate_ppm <= EVERYONE:
        raise ValueError(f"a sampling rate is from 1 to {EVERYONE} parts per million, not {rate_ppm}")
    return ((1 << 256) // EVERYONE) * rate_ppm


def is_drawn(beta: bytes, rate_ppm: int) -> bool:
    """Whether the lot falls on the client with this VRF output: β < τ; a rate of 1,000,000 draws everyone."""
    return rate_ppm == EVERYONE or int.from_bytes(beta, "big") < threshold(rate_ppm)


def order_seed(chain_id: int, ledger: str, number: int, randomness: bytes) -> bytes:
    """Key that orders a round's tickets: keccak256(abi.encode("order", chain id, ledger, round, randomness)).

    ``randomness`` is the hash, or the RANDAO mix, of a block after the last draw: who can still choose whether to draw
    does not know where its ticket will stand.
    """
    types = ["string", "uint256", "address", "uint64", "bytes32"]
    return keccak(encode(types, ["order", chain_id, ledger, number, randomness]))


def key(ticket: int, order_seed: bytes) -> bytes:
    """keccak256(order seed ‖ uint128 ticket), by which the order sorts."""
    if not 0 <= ticket < 1 << _TICKET_BITS:
        raise ValueError(f"a ticket is an unsigned {_TICKET_BITS}-bit integer")
    return keccak(order_seed + ticket.to_bytes(16, "big"))


def order(tickets: Sequence[int], order_seed: bytes) -> tuple[int, ...]:
    """The tickets along the leaves: by ascending key. Raises ValueError when two are equal."""
    return tuple(tickets[index] for index in permutation(tickets, order_seed))


def permutation(tickets: Sequence[int], order_seed: bytes) -> tuple[int, ...]:
    """Indices such that leaf i holds ``tickets[permutation[i]]``. Raises ValueError when two tickets are equal."""
    keys = [key(ticket, order_seed) for ticket in tickets]
    if len(set(keys)) != len(keys):
        raise ValueError("two tickets are equal")
    return tuple(sorted(range(len(tickets)), key=keys.__getitem__))


def order_root(ordered: Sequence[int]) -> bytes:
    """Merkle root over tickets in order: the shape of RFC 6962, 32 zero bytes when there is none.

    Leaf i is keccak256(0x00 ‖ uint32 i ‖ uint128 ticket), an inner node keccak256(0x01 ‖ left ‖ right); an odd node is
    promoted unchanged.
    """
    level = [
        keccak(b"\x00" + position.to_bytes(4, "big") + ticket.to_bytes(16, "big"))
        for position, ticket in enumerate(ordered)
    ]
    while len(level) > 1:
        pairs = [keccak(b"\x01" + left + right) for left, right in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0] if level else bytes(32)


def partners(position: int, n: int) -> tuple[int, ...]:
    """Leaf positions that cooperate with ``position`` in the tree over n leaves, ascending; about log₂ n of them.

    A node over [lo, hi) splits at mid = lo + ⌈(hi − lo)/2⌉. Left leaf j and right leaf min(j, right size − 1) are
    partners, so the last right leaf has two left partners where the left side is the larger.
    """
    if not 0 <= position < n:
        raise ValueError(f"a position is from 0 to {n - 1}, not {position}")
    found = []
    lo, hi = 0, n
    while hi - lo > 1:
        mid = lo + (hi - lo + 1) // 2
        if position < mid:
            found.append(min(position - lo + mid, hi - 1))
            hi = mid
        else:
            mirrored = position - mid + lo
            found.append(mirrored)
            if position == hi - 1 and mirrored + 1 < mid:
                found.append(mirrored + 1)
            lo = mid
    return tuple(sorted(found))


def seed(block_hash: bytes, previous_root: bytes) -> bytes:
    """A round's seed: keccak256(abi.encode(hash of its seed block, order root of the last sealed round or zero))."""
    return keccak(encode(["bytes32", "bytes32"], [block_hash, previous_root]))


def draw_alpha(chain_id: int, ledger: str, number: int, seed: bytes) -> bytes:
    """VRF input of a round: keccak256(abi.encode("draw", chain id, ledger, round, seed))."""
    types = ["string", "uint256", "address", "uint64", "bytes32"]
    return keccak(encode(types, ["draw", chain_id, ledger, number, seed]))


def registration_alpha(chain_id: int, registry: str, account: str) -> bytes:
    """VRF input of a proof of possession: keccak256(abi.encode("register", chain id, registry, account))."""
    types = ["string", "uint256", "address", "address"]
    return keccak(encode(types, ["register", chain_id, registry, account]))
