"""Pages that a CID, a digest, a transaction, an address or a number leads to."""

from dataclasses import dataclass

from fedgrove.ipfs.cid import CID, InvalidCID
from fedgrove.node.explorer.index import Index
from fedgrove.node.explorer.views.words import FOUND

MAX_RESULTS = 50
_MAX_LETTERS = 200
_FEWEST_DIGITS, _DIGITS = 4, 64
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class SearchResult:
    """A page, what it is about, and the whole name that was found."""

    what: str
    path: str
    detail: str = ""


def search(index: Index, words: str) -> list[SearchResult]:
    """What the words lead to: a whole CID or number, or the first digits of anything else."""
    text = words.strip()[:_MAX_LETTERS]
    try:
        text = CID.parse(text).digest.hex()
    except InvalidCID:
        text = text.lower().removeprefix("0x")
    found = []
    if text.isascii() and text.isdecimal() and len(text) < 19:
        found += _numbered(index, int(text))
    if _FEWEST_DIGITS <= len(text) <= _DIGITS and _HEXADECIMAL.issuperset(text):
        found += _addresses(index, text) + _digests(index, text) + _transactions(index, text)
    return found[:MAX_RESULTS]


def place_of(number: int | None, client: int | None, record: int) -> str:
    """The page that shows a record, and where on it."""
    if number is not None:
        return f"rounds/{number}/#r{record}"
    return f"clients/{client}/#r{record}" if client is not None else f"contracts/#r{record}"


def _numbered(index: Index, number: int) -> list[SearchResult]:
    found = []
    if index.row("SELECT 1 FROM rounds WHERE number = ?", number):
        found.append(SearchResult(f"Round {number}", f"rounds/{number}/"))
    if index.row("SELECT 1 FROM members WHERE client = ?", number):
        found.append(SearchResult(f"Client {number}", f"clients/{number}/"))
    return found


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
