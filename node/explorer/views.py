"""What each page says, as plain values out of the index. Foreign text is inert when it leaves this module."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import mean

from chain.phases import Deadlines
from ipfs.cid import CID, InvalidCID
from ipfs.store import ContentStore
from node.explorer import drawings
from node.explorer.checks import Check, Checks
from node.explorer.drawings import Leaf, Phase
from node.explorer.index import Index
from node.explorer.inert import Contents, contents_of_model, document, inert
from node.explorer.placing import Entry, entry_from
from node.explorer.terms import latest_config, parse_config
from node.report import CALLS

MAX_MODEL_BYTES = 1 << 32
MAX_LEAVES = 1024
MAX_RESULTS = 50
ROLES = {
    "model": "model",
    "config": "terms",
    "metrics": "metrics",
    "shares": "sealed shares",
    "update": "masked update",
    "release": "released shares",
    "recovery": "recovery record",
    "evidence": "evidence",
}
KINDS = {
    "Registered": "Registration",
    "Approved": "Approval",
    "Revoked": "End of an approval",
    "VrfKeyRotated": "New VRF key",
    "MailboxKeyRotated": "New mailbox key",
    "Withdrawn": "Withdrawal",
    "AbsenceRecorded": "Absence",
    "RoundOpened": "Round opened",
    "SeedFixed": "Seed fixed",
    "Drawn": "Draw",
    "DrawRejected": "Draw passed over",
    "Sealed": "Order sealed",
    "SealChunk": "Part of the order",
    "Skipped": "Round skipped",
    "Shared": "Sealed shares",
    "Committed": "Masked update",
    "Released": "Released shares",
    "Recovered": "Recovery",
    "Closed": "Round closed",
    "Failed": "Round failed",
    "Disputed": "Dispute",
    "Voided": "Round voided",
}
_PHASES = {
    "seeding": ("RoundOpened", "SeedFixed"),
    "draw": ("Drawn", "DrawRejected"),
    "seal": ("Sealed", "SealChunk", "Skipped"),
    "share": ("Shared",),
    "commit": ("Committed",),
    "recover": ("Released", "Recovered"),
    "close": ("Closed", "Failed", "Disputed", "Voided"),
}
_CALLS = {kind.__name__: call for kind, call in CALLS.items()}


@dataclass(frozen=True)
class Blob:
    """A blob that the ledger names: digest in hex, its role, and what the store said when it was last asked."""

    digest: str
    role: str
    state: str
    cid: str = ""
    size: int | None = None


@dataclass(frozen=True)
class Row:
    """A record for people: where it is on the chain, which blobs it names, how far it is checked."""

    place: int
    kind: str
    title: str
    round: int | None
    client: int | None
    block: int
    transaction: str
    blobs: tuple[Blob, ...]
    check: Check


@dataclass(frozen=True)
class RoundRow:
    """One round in one line; the fields are those of ``node.report.RoundReport``, as far as they are known."""

    number: int
    status: str
    reason: str
    accuracy: float | None
    loss: float | None
    drawn: int
    committed: int
    gas: int
    bytes: int
    epsilon: float | None
    model: str
    check: Check


@dataclass(frozen=True)
class Part:
    """What a client did in a round, or what became of a round for a client."""

    round: int
    client: int
    outcome: str
    samples: int | None
    position: int | None
    status: str
    disputed: bool


OUTCOMES = {
    "counted": "its update counts",
    "recovered": "left after sharing",
    "left": "left after its draw",
    "absent": "was to draw, and did not",
    "running": "takes part",
    "committed": "its update was committed; the round left no model",
}


class Views:
    """The pages' values; one object a request."""

    def __init__(self, index: Index, store: ContentStore, checks: Checks) -> None:
        self._index = index
        self._store = store
        self._checks = checks

    # --- lists ------------------------------------------------------------------------------------------------------

    def rounds(self) -> list[RoundRow]:
        """All rounds, in order."""
        places = self._places()
        return [
            self._round_row(row, places[row["number"]])
            for row in self._index.rows("SELECT * FROM rounds ORDER BY number")
        ]

    def records(self) -> int:
        """How many records there are."""
        return self._index.value("SELECT count(*) FROM records")

    def members(self) -> list[dict]:
        """All members, with what they did in all rounds."""
        return [
            dict(row)
            for row in self._index.rows(
                "SELECT members.*, count(drawn) AS draws, count(committed) AS commits, count(absent) AS absences,"
                " count(disputed) AS disputes FROM members LEFT JOIN parts USING (client)"
                " GROUP BY client ORDER BY client"
            )
        ]

    def charts(self, rounds: list[RoundRow]) -> dict[str, str]:
        """Charts over rounds; only those that have something to show."""
        numbered = list(enumerate(rounds, 1))
        last = len(rounds)
        scores = [(n, row.accuracy) for n, row in numbered if row.accuracy is not None]
        losses = [(n, row.loss) for n, row in numbered if row.loss is not None]
        spent = [(n, row.epsilon) for n, row in numbered if row.epsilon is not None]
        found = {}
        if scores:
            found["Accuracy"] = drawings.lines(
                scores, last, "Accuracy of the closed models over rounds", "accuracy", 1.0
            )
        if losses:
            found["Loss"] = drawings.lines(losses, last, "Loss of the closed models over rounds", "loss")
        if spent:
            found["Privacy spent, ε"] = drawings.lines(
                spent, last, "Largest ε spent by a client over rounds", "epsilon"
            )
        if rounds:
            gas = [(n, float(row.gas)) for n, row in numbered]
            found["Gas"] = drawings.bars(gas, last, "Gas of each round", "gas")
            sizes = [(n, float(row.bytes)) for n, row in numbered]
            found["Uploaded bytes"] = drawings.bars(sizes, last, "Bytes that clients uploaded in each round", "bytes")
        return found

    # --- one round --------------------------------------------------------------------------------------------------

    def round(self, number: int) -> dict | None:
        """Everything about one round."""
        row = self._index.row("SELECT * FROM rounds WHERE number = ?", number)
        if row is None:
            return None
        records = self.rows_of("round = ?", number)
        parts = self._index.rows("SELECT * FROM parts WHERE round = ? ORDER BY position, client", number)
        values = self._round_row(row, [record.place for record in records])
        deadlines = Deadlines.of(row["opened_at"], self._index.deployment.settings)
        end = next((record for record in records if record.place == row["ended"]), None)
        return {
            "row": values,
            "opened_block": row["opened_at"],
            "opened_time": self.time_of(row["opened_at"]),
            "rate": row["rate"],
            "members": row["members"],
            "seed": row["seed"],
            "order_root": row["order_root"],
            "deadlines": asdict(deadlines),
            "trained_from": self.blob(row["trained_from"], "model"),
            "config": self.blob(row["config"], "config"),
            "model": self.blob(row["model"], "model") if row["model"] else None,
            "metrics": self._document(row["metrics"]) if row["metrics"] else "",
            "previous": self._index.value("SELECT max(number) FROM rounds WHERE number < ?", number),
            "next": self._index.value("SELECT min(number) FROM rounds WHERE number > ?", number),
            "groups": self._grouped(records),
            "others": [record for record in records if not _phase_of(record.kind)],
            "ended_block": end.block if end else None,
            "evidence": self._evidence(records),
            "phases": self._phases(deadlines, records),
            "parts": parts,
            "blobs": len({blob.digest for record in records for blob in record.blobs}),
        }

    def leaves(self, number: int, link) -> list[Leaf]:
        """The leaves of a sealed round's cooperation tree, in order; ``link`` makes a client's link."""
        row = self._index.row("SELECT ended, voided, status FROM rounds WHERE number = ?", number)
        query = "SELECT * FROM parts WHERE round = ? AND position IS NOT NULL ORDER BY position"
        return [
            Leaf(
                part["client"],
                _leaf_state(part, row["ended"] is not None),
                bool(part["released"]),
                link(part["client"]),
            )
            for part in self._index.rows(query, number)
        ]

    # --- one client -------------------------------------------------------------------------------------------------

    def client(self, client: int) -> dict | None:
        """Everything about one client."""
        row = self._index.row("SELECT * FROM members WHERE client = ?", client)
        if row is None:
            return None
        parts = self._index.rows(
            "SELECT parts.*, rounds.status, rounds.ended FROM parts JOIN rounds ON number = round WHERE client = ?"
            " ORDER BY round",
            client,
        )
        return {
            "client": client,
            "account": row["account"],
            "vrf_key": row["vrf_key"],
            "mailbox_key": row["mailbox_key"],
            "active_from": row["active_from"],
            "parts": [_part(part) for part in parts],
            "membership": self.rows_of("client = ? AND round IS NULL", client),
            "disputes": self.rows_of("client = ? AND kind = 'Disputed'", client),
            "gas": self._index.value("SELECT coalesce(sum(gas), 0) FROM transactions WHERE sender = ?", row["account"]),
            "bytes": self._index.value(
                "SELECT coalesce(sum(size), 0) FROM records JOIN named ON record = records.id JOIN blobs USING (digest)"
                " WHERE client = ? AND named.role IN ('shares', 'update', 'release')",
                client,
            ),
        }

    # --- models and other blobs -------------------------------------------------------------------------------------

    def lineage(self) -> list[tuple[int, Blob]]:
        """The global models in order: θ₀ with round 0, then that of each round that closed and stands."""
        first = self._index.row("SELECT trained_from FROM rounds ORDER BY number LIMIT 1")
        if first is None:
            return []
        closed = self._index.rows("SELECT number, model FROM rounds WHERE status = 'closed' ORDER BY number")
        return [
            (0, self.blob(first["trained_from"], "model")),
            *((row["number"], self.blob(row["model"], "model")) for row in closed if row["model"]),
        ]

    def blob(self, digest: bytes, role: str) -> Blob:
        """What is known of a blob."""
        row = self._index.row("SELECT * FROM blobs WHERE digest = ?", digest)
        if row is None:
            return Blob(digest.hex(), role, "unseen")
        return Blob(digest.hex(), role, row["state"], row["cid"] or "", row["size"])

    def named(self, digest: bytes) -> tuple[Blob, list[Row]] | None:
        """A blob and the records that name it; None for one that no record names."""
        row = self._index.row("SELECT role FROM blobs WHERE digest = ?", digest)
        if row is None:
            return None
        return self.blob(digest, row["role"]), self.rows_of("id IN (SELECT record FROM named WHERE digest = ?)", digest)

    def contents(self, digest: bytes) -> Contents:
        """A model's table of contents, as its file states it."""
        return contents_of_model(self._store, digest, MAX_MODEL_BYTES)

    def text(self, digest: bytes) -> str:
        """A small JSON blob for reading; empty when it is not at hand."""
        return self._document(digest)

    def terms(self, digest: bytes | None = None) -> dict | None:
        """Tables of the federation's terms: of a blob, or the latest."""
        if digest is None:
            config = latest_config(self._index)
        else:
            text = self._index.value("SELECT text FROM blobs WHERE digest = ?", digest)
            config = parse_config(text) if text is not None else None
        return _inert_tables(config.to_tables()) if config else None

    # --- contracts --------------------------------------------------------------------------------------------------

    def gas(self) -> list[dict]:
        """Gas a call: how many transactions, mean, highest and all."""
        costs: dict[str, dict[int, int]] = defaultdict(dict)
        query = "SELECT DISTINCT kind, tx, gas FROM records JOIN transactions ON transactions.id = tx"
        for row in self._index.rows(query):
            costs[_CALLS[row["kind"]]][row["tx"]] = row["gas"]
        return [
            {
                "call": call,
                "count": len(used),
                "mean": round(mean(used.values())),
                "most": max(used.values()),
                "sum": sum(used.values()),
            }
            for call, used in sorted(costs.items())
        ]

    def memberships(self) -> list[Row]:
        """Records of the registry that belong to no client: approvals and their ends."""
        return self.rows_of("kind IN ('Approved', 'Revoked')")

    # --- search -----------------------------------------------------------------------------------------------------

    def search(self, words: str) -> list[dict]:
        """Pages that a CID, a digest, a transaction, an address or a number leads to."""
        text = words.strip()[:200]
        try:
            text = CID.parse(text).digest.hex()
        except InvalidCID:
            text = text.lower().removeprefix("0x")
        found = []
        if text.isascii() and text.isdecimal() and len(text) < 19:
            found += self._numbered(int(text))
        if len(text) >= 4 and len(text) <= 64 and set(text) <= set("0123456789abcdef"):
            found += self._addresses(text) + self._digests(text) + self._transactions(text)
        return found[:MAX_RESULTS]

    def _numbered(self, number: int) -> list[dict]:
        found = []
        if self._index.row("SELECT 1 FROM rounds WHERE number = ?", number):
            found.append({"what": f"Round {number}", "path": f"rounds/{number}/", "detail": ""})
        if self._index.row("SELECT 1 FROM members WHERE client = ?", number):
            found.append({"what": f"Client {number}", "path": f"clients/{number}/", "detail": ""})
        return found

    def _addresses(self, start: str) -> list[dict]:
        terms = self._index.deployment
        own = {
            "Registry": terms.registry,
            "Ledger": terms.ledger,
            "Coordinator": terms.coordinator,
            "Admin": terms.admin,
        }
        found = [
            {"what": name, "path": "contracts/", "detail": address}
            for name, address in own.items()
            if address[2:].lower().startswith(start)
        ]
        query = "SELECT client, account FROM members WHERE lower(account) LIKE ? LIMIT ?"
        found += [
            {"what": f"Client {row['client']}", "path": f"clients/{row['client']}/", "detail": row["account"]}
            for row in self._index.rows(query, f"0x{start}%", MAX_RESULTS)
        ]
        return found

    def _digests(self, start: str) -> list[dict]:
        low, high = _range(start)
        query = "SELECT digest, role FROM blobs WHERE digest BETWEEN ? AND ? LIMIT ?"
        return [
            {
                "what": ROLES[row["role"]].capitalize(),
                "path": f"blobs/{row['digest'].hex()}/",
                "detail": row["digest"].hex(),
            }
            for row in self._index.rows(query, low, high, MAX_RESULTS)
        ]

    def _transactions(self, start: str) -> list[dict]:
        low, high = _range(start)
        query = (
            "SELECT hash, kind, round, client, records.id AS place"
            " FROM transactions JOIN records ON tx = transactions.id"
            " WHERE hash BETWEEN ? AND ? ORDER BY records.id LIMIT ?"
        )
        found = []
        for row in self._index.rows(query, low, high, MAX_RESULTS):
            path = f"rounds/{row['round']}/#r{row['place']}" if row["round"] is not None else "contracts/"
            path = f"clients/{row['client']}/" if row["round"] is None and row["client"] is not None else path
            found.append(
                {"what": f"Transaction: {KINDS[row['kind']]}", "path": path, "detail": "0x" + row["hash"].hex()}
            )
        return found

    # --- helpers ----------------------------------------------------------------------------------------------------

    def rows_of(self, condition: str, *values: object) -> list[Row]:
        """Records for people, in the order of the chain. ``condition`` is of our own making."""
        query = (
            "SELECT records.*, hash FROM records JOIN transactions ON transactions.id = tx"
            f" WHERE records.id IN (SELECT id FROM records WHERE {condition}) ORDER BY records.id"
        )
        rows = self._index.rows(query, *values)
        blobs = self._blobs_of(condition, values)
        return [self._row(entry_from(row), row["hash"], blobs.get(row["id"], ())) for row in rows]

    def time_of(self, block: int) -> int | None:
        """When a block was made, in seconds since 1970."""
        return self._index.value("SELECT time FROM blocks WHERE number = ?", block)

    def _blobs_of(self, condition: str, values: Iterable[object]) -> Mapping[int, tuple[Blob, ...]]:
        query = (
            "SELECT named.record, named.digest, named.role, state, cid, size FROM named JOIN blobs USING (digest)"
            f" WHERE record IN (SELECT id FROM records WHERE {condition})"
        )
        found: dict[int, tuple[Blob, ...]] = defaultdict(tuple)
        for row in self._index.rows(query, *values):
            blob = Blob(row["digest"].hex(), row["role"], row["state"], row["cid"] or "", row["size"])
            found[row["record"]] += (blob,)
        return found

    def _row(self, entry: Entry, transaction: bytes, blobs: tuple[Blob, ...]) -> Row:
        check = self._checks.record(entry.id, entry.kind, entry.round, entry.client)
        title, place = KINDS[entry.kind], (entry.round, entry.client)
        return Row(entry.id, entry.kind, title, *place, entry.block, "0x" + transaction.hex(), blobs, check)

    def _round_row(self, row, places: Iterable[int]) -> RoundRow:
        return RoundRow(
            number=row["number"],
            status=row["status"],
            reason=(row["reason"] or "").replace("_", " "),
            accuracy=row["accuracy"] if row["status"] == "closed" else None,
            loss=row["loss"] if row["status"] == "closed" else None,
            drawn=row["drawn"],
            committed=row["committed"],
            gas=row["gas"],
            bytes=row["bytes"],
            epsilon=row["epsilon"] if row["status"] == "closed" else None,
            model=row["model"].hex() if row["model"] and row["status"] == "closed" else "",
            check=self._checks.round(row["number"], places),
        )

    def _places(self) -> Mapping[int, tuple[int, ...]]:
        """First and last place of the records of each round; all that a round's check needs."""
        found: dict[int, tuple[int, ...]] = defaultdict(tuple)
        query = "SELECT number, opened, coalesce(voided, ended) AS last FROM rounds"
        for row in self._index.rows(query):
            found[row["number"]] = (row["opened"], row["last"] or (1 << 62))
        return found

    def _grouped(self, records: list[Row]) -> list[tuple[str, list[Row]]]:
        groups = [(phase, [record for record in records if record.kind in kinds]) for phase, kinds in _PHASES.items()]
        return [(phase, rows) for phase, rows in groups if rows]

    def _phases(self, deadlines: Deadlines, records: list[Row]) -> list[Phase]:
        ends = {
            "seeding": deadlines.seed_block,
            "draw": deadlines.draw_end,
            "seal": deadlines.seal_end,
            "share": deadlines.share_end,
            "commit": deadlines.commit_end,
            "recover": deadlines.recover_end,
            "close": deadlines.close_end,
        }
        found, first = [], deadlines.opened_at
        for name, last in ends.items():
            blocks = tuple(record.block for record in records if record.kind in _PHASES[name])
            found.append(Phase(name, first, last, blocks))
            first = last + 1
        return found

    def _evidence(self, records: list[Row]) -> list[tuple[Row, str]]:
        """What is said against a round, with its text."""
        named = ((record, blob) for record in records for blob in record.blobs if blob.role == "evidence")
        return [(record, self._document(bytes.fromhex(blob.digest))) for record, blob in named]

    def _document(self, digest: bytes) -> str:
        text = self._index.value("SELECT text FROM blobs WHERE digest = ?", digest)
        return document(text) if text is not None else ""


def _phase_of(kind: str) -> str | None:
    return next((phase for phase, kinds in _PHASES.items() if kind in kinds), None)


def _leaf_state(part, ended: bool) -> str:
    if part["committed"]:
        return "survived"
    if not ended:
        return "running"
    return "recovered" if part["shared"] else "left"


def _part(row) -> Part:
    if row["drawn"] is None:
        outcome = "absent"
    elif row["committed"]:
        outcome = "counted" if row["status"] == "closed" else "committed" if row["ended"] else "running"
    elif row["ended"] is None:
        outcome = "running"
    else:
        outcome = "recovered" if row["shared"] else "left"
    return Part(
        row["round"], row["client"], outcome, row["samples"], row["position"], row["status"], bool(row["disputed"])
    )


def _range(start: str) -> tuple[bytes, bytes]:
    """The 32-byte values that begin with these hexadecimal digits."""
    return bytes.fromhex(start.ljust(64, "0")), bytes.fromhex(start.ljust(64, "f"))


def _inert_tables(tables: dict) -> dict:
    return {inert(name): _inert_value(value) for name, value in tables.items()}


def _inert_value(value: object) -> object:
    if isinstance(value, dict):
        return {inert(name): _inert_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return ", ".join(inert(item) for item in value)
    return inert(value)
