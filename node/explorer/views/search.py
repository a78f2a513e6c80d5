"""Pages that a CID, a digest, a transaction, an address or a number leads to."""

import re
from dataclasses import dataclass

from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.words import FOUND

MAX_RESULTS = 50
_MAX_LETTERS = 200
_FEWEST_DIGITS, _DIGITS = 4, 64
_HEXADECIMAL = frozenset("0123456789abcdef")
_NUMBERED = re.compile(r"(?:(?P<kind>round|client|member|block)s?\s*#?\s*|#?)(?P<number>[0-9]{1,18})", re.ASCII)
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_CID = re.compile(rf"b[{_BASE32}]{{10,58}}")
"""A CID, or its beginning with at least 18 bits of the digest."""
_HEAD_BITS = 32
_HEADS = frozenset(f"{int(head, 16):032b}" for head in ("01551220", "01701220"))
"""Version 1, the content's codec (raw or dag-pb), and a SHA-256 digest of 32 bytes."""


@dataclass(frozen=True)
class SearchResult:
    """A page, what it is about, and the whole name that was found."""

    what: str
    path: str
    detail: str = ""


def search(index: Index, words: str) -> list[SearchResult]:
    """Pages for a number, "round 3", "member 5" or "block 80", or for the first letters of a CID or a hash."""
    text = words.strip()[:_MAX_LETTERS].lower()
    numbered = _NUMBERED.fullmatch(text)
    if numbered is not None:
        found = _numbered(index, numbered["kind"] or "", int(numbered["number"]))
        if numbered["kind"]:
            return found
    else:
        found = []
    if _CID.fullmatch(text):
        return _cids(index, text)
    start = text.removeprefix("0x")
    if _FEWEST_DIGITS <= len(start) <= _DIGITS and _HEXADECIMAL.issuperset(start):
        found += _addresses(index, start) + _digests(index, start) + _transactions(index, start)
    return found[:MAX_RESULTS]


def place_of(number: int | None, client: int | None, record: int) -> str:
    """The page that shows a record, and where on it."""
    if number is not None:
        return f"rounds/{number}/#r{record}"
    return f"clients/{client}/#r{record}" if client is not None else f"contracts/#r{record}"


def _numbered(index: Index, kind: str, number: int) -> list[SearchResult]:
    """What has a number; an empty kind: rounds, members and blocks with records."""
    found = []
    if kind in ("", "round") and index.row("SELECT 1 FROM rounds WHERE number = ?", number):
        found.append(SearchResult(f"Round {number}", f"rounds/{number}/"))
    if kind in ("", "client", "member") and index.row("SELECT 1 FROM members WHERE client = ?", number):
        found.append(SearchResult(f"Client {number}", f"clients/{number}/"))
    if kind in ("", "block"):
        found += _of_block(index, number)
    if kind == "block" and not found:
        found += _around(index, number)
    return found


def _of_block(index: Index, number: int) -> list[SearchResult]:
    query = "SELECT id, kind, round, client FROM records WHERE block = ? ORDER BY id LIMIT ?"
    return [
        SearchResult(f"Block {number}: {FOUND[row['kind']]}", place_of(row["round"], row["client"], row["id"]))
        for row in index.rows(query, number, MAX_RESULTS)
    ]


def _around(index: Index, number: int) -> list[SearchResult]:
    """The round during which a block without records was made."""
    query = (
        "SELECT number FROM rounds LEFT JOIN records ON records.id = ended"
        " WHERE opened_at <= ? AND coalesce(records.block, ?) >= ? ORDER BY number LIMIT ?"
    )
    rows = index.rows(query, number, index.head(), number, MAX_RESULTS)
    return [SearchResult(f"Block {number}, in round {row['number']}", f"rounds/{row['number']}/") for row in rows]


def _cids(index: Index, start: str) -> list[SearchResult]:
    """Blobs whose CIDs begin so; a CID of ours is four bytes of format, and a SHA-256 digest."""
    bits = "".join(f"{_BASE32.index(letter):05b}" for letter in start[1:])
    if bits[:_HEAD_BITS] not in _HEADS:
        return []
    known = bits[_HEAD_BITS : _HEAD_BITS + 4 * _DIGITS]
    first, last = (int(known.ljust(4 * _DIGITS, bit), 2).to_bytes(32, "big") for bit in "01")
    query = (
        "SELECT digest, role, cid FROM blobs WHERE digest BETWEEN ? AND ? AND coalesce(cid, ?) LIKE ? || '%' LIMIT ?"
    )
    rows = index.rows(query, first, last, start, start, MAX_RESULTS)
    return [
        SearchResult(
            FOUND[row["role"]].capitalize(), f"blobs/{row['digest'].hex()}/", row["cid"] or row["digest"].hex()
        )
        for row in rows
    ]


def _addresses(index: Index, start: str) -> list[SearchResult]:
    terms = index.deployment
    own = {
        "Registry": terms.registry,
        "Ledger": terms.ledger,
        "Coordinator": terms.coordinator,
        "Admin": terms.admin,
    }
    found = [SearchResult(name, "contracts/", at) for name, at in own.items() if at[2:].lower().startswith(start)]
    query = "SELECT client, account FROM members WHERE lower(account) LIKE ? LIMIT ?"
    return found + [
        SearchResult(f"Client {row['client']}", f"clients/{row['client']}/", row["account"])
        for row in index.rows(query, f"0x{start}%", MAX_RESULTS)
    ]


def _digests(index: Index, start: str) -> list[SearchResult]:
    query = "SELECT digest, role FROM blobs WHERE digest BETWEEN ? AND ? LIMIT ?"
    return [
        SearchResult(FOUND[row["role"]].capitalize(), f"blobs/{row['digest'].hex()}/", row["digest"].hex())
        for row in index.rows(query, *_range(start), MAX_RESULTS)
    ]


def _transactions(index: Index, start: str) -> list[SearchResult]:
    query = (
        "SELECT hash, kind, round, client, records.id AS place"
        " FROM transactions JOIN records ON tx = transactions.id"
        " WHERE hash BETWEEN ? AND ? ORDER BY records.id LIMIT ?"
    )
    return [
        SearchResult(
            f"Transaction: {FOUND[row['kind']]}",
            place_of(row["round"], row["client"], row["place"]),
            "0x" + row["hash"].hex(),
        )
        for row in index.rows(query, *_range(start), MAX_RESULTS)
    ]


def _range(start: str) -> tuple[bytes, bytes]:
    """The 32-byte values that begin with these hexadecimal digits."""
    return bytes.fromhex(start.ljust(_DIGITS, "0")), bytes.fromhex(start.ljust(_DIGITS, "f"))
