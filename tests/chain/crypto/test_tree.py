"""The tree and sortition in Python: properties, and a recursive definition as the oracle."""

import math
import random

import pytest
from eth_utils import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgrove.chain.crypto import tree

SEED = keccak(b"order seed")


def recursive_partners(n: int) -> list[set[int]]:
    """Spec 01 word for word: at every node, left j with right min(j, size − 1), right j with left j."""
    found = [set() for _ in range(n)]

    def visit(lo: int, hi: int) -> None:
        if hi - lo < 2:
            return
        mid = lo + math.ceil((hi - lo) / 2)
        for j in range(mid - lo):
            right = mid + min(j, hi - mid - 1)
            found[lo + j].add(right)
            found[right].add(lo + j)
        visit(lo, mid)
        visit(mid, hi)

    visit(0, n)
    return found


def check(n: int) -> None:
    lists = [tree.partners(position, n) for position in range(n)]
    assert [set(partners) for partners in lists] == recursive_partners(n)
    depth = math.ceil(math.log2(n)) if n > 1 else 0
    for position, partners in enumerate(lists):
        assert list(partners) == sorted(set(partners))
        assert position not in partners
        assert depth - 1 <= len(partners) <= 2 * depth
        assert all(position in lists[partner] for partner in partners)
    assert sum(map(len, lists)) <= n * (depth + 1)


@pytest.mark.parametrize("n", range(1, 65))
def test_partners_equal_the_recursive_definition(n):
    check(n)


@settings(max_examples=12, deadline=None)
@given(st.integers(65, 10_000))
def test_partners_of_large_trees(n):
    check(n)


def test_every_leaf_has_a_partner_at_each_of_its_levels():
    for n in range(2, 65):
        for position in range(n):
            lo, hi, partners = 0, n, set(tree.partners(position, n))
            while hi - lo > 1:
                mid = lo + (hi - lo + 1) // 2
                other = range(mid, hi) if position < mid else range(lo, mid)
                assert partners & set(other)
                lo, hi = (lo, mid) if position < mid else (mid, hi)


@pytest.mark.parametrize(("position", "n"), [(0, 0), (3, 3), (-1, 3)])
def test_a_position_outside_the_tree_is_refused(position, n):
    with pytest.raises(ValueError, match="position"):
        tree.partners(position, n)


def test_a_ticket_is_the_head_of_beta_and_the_client():
    beta = bytes(range(32))
    ticket = tree.ticket(beta, 7)
    assert ticket.to_bytes(16, "big") == beta[:12] + b"\0\0\0\7"
    assert tree.client_of(ticket) == 7
    assert tree.client_of(tree.ticket(beta, tree.MAX_CLIENT)) == tree.MAX_CLIENT == 2**32 - 1


@pytest.mark.parametrize(("beta", "client"), [(bytes(31), 1), (bytes(32), 0), (bytes(32), 1 << 32)])
def test_a_ticket_of_anything_else_is_refused(beta, client):
    with pytest.raises(ValueError):
        tree.ticket(beta, client)


def test_threshold_is_an_integer_division_first():
    assert tree.threshold(1) == 2**256 // 10**6
    assert tree.threshold(500_000) == (2**256 // 10**6) * 500_000
    with pytest.raises(ValueError):
        tree.threshold(0)


def test_is_drawn_at_the_edge():
    edge = tree.threshold(250_000)
    assert tree.is_drawn((edge - 1).to_bytes(32, "big"), 250_000)
    assert not tree.is_drawn(edge.to_bytes(32, "big"), 250_000)
    assert tree.is_drawn(b"\xff" * 32, tree.EVERYONE)


def test_the_order_seed_is_the_hash_of_chain_ledger_round_and_randomness():
    ledger, randomness = "0x" + "12" * 20, bytes(range(32))
    words = [5 * 32, 31337, int(ledger, 16), 7, int.from_bytes(randomness, "big"), len(b"order")]
    encoded = b"".join(word.to_bytes(32, "big") for word in words) + b"order".ljust(32, b"\0")
    assert tree.order_seed(31337, ledger, 7, randomness) == keccak(encoded)


def test_a_key_is_the_hash_of_order_seed_and_ticket():
    assert tree.key(0x0102, SEED) == keccak(SEED + bytes(14) + b"\1\2")


@given(st.lists(st.integers(0, 2**128 - 1), unique=True, max_size=50), st.binary(min_size=32, max_size=32))
def test_permutation_sorts_by_the_keys(tickets, seed):
    indices = tree.permutation(tickets, seed)
    assert sorted(indices) == list(range(len(tickets)))
    ordered = tree.order(tickets, seed)
    assert ordered == tuple(tickets[index] for index in indices)
    assert ordered == tuple(sorted(tickets, key=lambda ticket: keccak(seed + ticket.to_bytes(16, "big"))))


def test_the_order_does_not_depend_on_the_order_of_the_draws():
    tickets = list(range(100, 120))
    shuffled = random.Random(3).sample(tickets, len(tickets))
    assert tree.order(tickets, SEED) == tree.order(shuffled, SEED)


def test_another_seed_gives_another_order():
    tickets = list(range(20))
    orders = {tree.order(tickets, keccak(bytes([number]))) for number in range(10)}
    assert len(orders) == 10
    assert tuple(tickets) not in orders


@pytest.mark.parametrize("function", [tree.order, tree.permutation])
def test_equal_tickets_are_refused(function):
    with pytest.raises(ValueError, match="equal"):
        function([5, 6, 5], SEED)


@pytest.mark.parametrize("ticket", [-1, 1 << 128])
def test_what_is_no_ticket_has_no_key(ticket):
    with pytest.raises(ValueError, match="128-bit"):
        tree.key(ticket, SEED)
    with pytest.raises(ValueError, match="128-bit"):
        tree.order([1, ticket], SEED)


def rfc6962_root(leaves: list[bytes]) -> bytes:
    """The recursive definition of RFC 6962, section 2.1, over given leaf hashes."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return keccak(b"\x01" + rfc6962_root(leaves[:split]) + rfc6962_root(leaves[split:]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 100])
def test_order_root_has_the_shape_of_rfc_6962(n):
    tickets = tree.order(list(map(random.Random(n).getrandbits, [100] * n)), SEED)
    leaves = [keccak(b"\0" + i.to_bytes(4, "big") + ticket.to_bytes(16, "big")) for i, ticket in enumerate(tickets)]
    assert tree.order_root(tickets) == rfc6962_root(leaves)


def test_order_root_of_nobody_is_zero():
    assert tree.order_root([]) == bytes(32)
