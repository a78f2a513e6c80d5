"""Write tests/contracts/vectors/tree.json: what Python's cooperation tree says, for the Solidity tests to agree with.

Partner lists are given by the Keccak-256 of their ABI encoding, to keep the file small: one list as uint32[], all lists
of a tree as uint32[][].
"""

import json
import random
from pathlib import Path

from eth_abi import encode
from eth_utils import keccak

from fedgrove.chain.crypto import tree

TARGET = Path(__file__).resolve().parent.parent / "tests" / "contracts" / "vectors" / "tree.json"
SMALL = 64
LARGE = 200
ORDERS = (1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, 257)


def partners_digest(position: int, n: int) -> str:
    """Keccak-256 of abi.encode(uint32[]) of the partners, 0x-prefixed hex."""
    return "0x" + keccak(encode(["uint32[]"], [tree.partners(position, n)])).hex()


def tree_digest(n: int) -> str:
    """Keccak-256 of abi.encode(uint32[][]) of all partners in a tree over n leaves, 0x-prefixed hex."""
    lists = [tree.partners(position, n) for position in range(n)]
    return "0x" + keccak(encode(["uint32[][]"], [lists])).hex()


def order_vector(count: int, rng: random.Random) -> tuple[str, str, str, str]:
    """Random tickets as drawn, an order seed, the permutation that sorts them by it, and the order root.

    Each is 0x-prefixed hex.
    """
    tickets = [tree.ticket(rng.randbytes(32), client) for client in range(1, count + 1)]
    seed = rng.randbytes(32)
    permutation = tree.permutation(tickets, seed)
    root = tree.order_root(tree.order(tickets, seed))
    packed = b"".join(ticket.to_bytes(16, "big") for ticket in tickets)
    indices = b"".join(index.to_bytes(2, "big") for index in permutation)
    return "0x" + packed.hex(), "0x" + seed.hex(), "0x" + indices.hex(), "0x" + root.hex()


def vectors() -> dict:
    """All vectors, from a fixed seed."""
    rng = random.Random(1)
    large = [(n, rng.randrange(n)) for n in (rng.randrange(SMALL + 1, 10_001) for _ in range(LARGE))]
    orders = [order_vector(count, rng) for count in ORDERS]
    return {
        "small": {"digest": [tree_digest(n) for n in range(1, SMALL + 1)]},
        "large": {
            "n": [n for n, _ in large],
            "position": [position for _, position in large],
            "digest": [partners_digest(position, n) for n, position in large],
        },
        "orders": {
            "tickets": [order[0] for order in orders],
            "seed": [order[1] for order in orders],
            "permutation": [order[2] for order in orders],
            "root": [order[3] for order in orders],
        },
    }


if __name__ == "__main__":
    TARGET.write_text(json.dumps(vectors(), indent=1) + "\n", "utf-8")
