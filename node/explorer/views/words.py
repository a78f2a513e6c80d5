"""The names for what a ledger holds."""

from collections.abc import Iterable

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
"""What a blob is, by its role."""

MEANINGS = {
    "update": "A masked update: without the masks, which only the sum of all loses, its bytes are random numbers.",
    "shares": "Shares of this client's two secrets, each sealed for its holder.",
    "release": "The shares that this client held and released after the commitments were in.",
}
"""What a blob is that nobody can read."""

KINDS = {
    "RegistryFounded": "Registry created",
    "LedgerFounded": "Ledger created",
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
"""What a record is, by its type."""

FOUND = {**ROLES, **KINDS, "update": "upload", "Committed": "Upload"}
"""What a blob or a record is where nothing tells of its round: not all uploads are masked updates."""

PHASES = {
    "seeding": ("RoundOpened", "SeedFixed"),
    "draw": ("Drawn", "DrawRejected"),
    "seal": ("Sealed", "SealChunk", "Skipped"),
    "share": ("Shared",),
    "commit": ("Committed",),
    "recover": ("Released", "Recovered"),
    "close": ("Closed", "Failed", "Disputed", "Voided"),
}
"""The kinds of records that belong to each phase of a round."""

OUTCOMES = {
    "counted": "its update counts",
    "silent": "had nothing to say",
    "recovered": "left after sharing",
    "left": "left after its draw",
    "running": "takes part",
    "committed": "its update was committed; the round left no model",
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
    "blind": ("blinded set", "Its set of label counts, blinded: without its secret nobody can tell what is in it."),
    "answer": ("answers", "Its answers to the others’ sets, which tell whoever can open them how much is in common."),
    "labels": ("masked label shares", "Its label shares under masks, which only the sum of its group loses."),
    "show": ("sealed for its judges", "What judges need in order to see what it sent, sealed to each of them."),
    "vote": ("ballot", "Its votes, which are on the page of their round, and the evidence that they follow from."),
}
"""What a client commits to in such a round, if it is no masked update, and what that is."""

NOTHING = ("empty upload", "It had nothing to say in this round.")
"""An upload without bytes."""

MAX_PEOPLE = 60


def people(clients: Iterable[int]) -> str:
    """Numbers of clients for reading: the first of many."""
    numbers = list(clients)
    more = f" and {len(numbers) - MAX_PEOPLE:,} more" if len(numbers) > MAX_PEOPLE else ""
    return ", ".join(map(str, numbers[:MAX_PEOPLE])) + more if numbers else "nobody"
