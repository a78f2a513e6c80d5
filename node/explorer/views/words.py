"""The names for what a ledger holds."""

from collections.abc import Iterable

from fedgrove.chain.records import KINDS as _KINDS
from fedgrove.chain.records import Phase

_BLOBS = {blob for kind in _KINDS for blob in kind.BLOBS.values()}

ROLES = {blob.role: blob.title for blob in _BLOBS}
"""What a blob is, by its role."""

MEANINGS = {blob.role: blob.meaning for blob in _BLOBS}
"""What a blob is that nobody can read."""

KINDS = {kind.__name__: kind.TITLE for kind in _KINDS}
"""What a record is, by its type."""

FOUND = {**ROLES, **KINDS, "update": "upload", "Committed": "Upload"}
"""What a blob or a record is where nothing says which round it is of: not all uploads are masked updates."""

PHASES = {
    phase.name.lower(): tuple(kind.__name__ for kind in _KINDS if kind.PHASE is phase)
    for phase in (
        *(Phase.SEEDING, Phase.DRAW, Phase.SEAL, Phase.SHARE, Phase.COMMIT),
        *(Phase.VOUCH, Phase.AFFIRM, Phase.RECOVER, Phase.CLOSED),
    )
}
"""The kinds of records that belong to each phase of a round."""

OUTCOMES = {
    "counted": "its update counts",
    "silent": "had nothing to contribute",
    "recovered": "left after sharing",
    "left": "left after its draw",
    "running": "takes part",
    "committed": "its update was committed, but the round did not produce a model",
}
"""What became of a round for a client."""

STAGES = {
    "blind": "blinded sets",
    "answer": "answers",
    "labels": "label shares",
    "train": "training",
    "show": "showing",
    "vote": "votes",
}
"""What a round is for, where there are clusters."""

UPLOADS = {
    "blind": ("blinded set", "Its set of label counts, blinded: only the client's secret opens it."),
    "answer": (
        "answers",
        "Its answers to the others’ sets, from which the reader who can open them learns the overlaps.",
    ),
    "labels": ("masked label shares", "Its label shares, under masks that cancel only in its group's sum."),
    "show": ("sealed for its judges", "The keys that judges need to open its uploads, sealed to each of them."),
    "vote": ("ballot", "Its votes, shown on the page of their round, and the evidence for them."),
}
"""What a client commits to in such a round, if it is no masked update, and what that is."""

NOTHING = ("empty upload", "It had nothing to contribute to this round.")
"""An upload without bytes."""

MAX_PEOPLE = 60


def people(clients: Iterable[int]) -> str:
    """Numbers of clients for reading: the first of many."""
    numbers = list(clients)
    more = f" and {len(numbers) - MAX_PEOPLE:,} more" if len(numbers) > MAX_PEOPLE else ""
    return ", ".join(map(str, numbers[:MAX_PEOPLE])) + more if numbers else "nobody"
