"""The names for what a ledger holds."""

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
"""What a record is, by its type."""

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
    "recovered": "left after sharing",
    "left": "left after its draw",
    "absent": "was to draw, and did not",
    "running": "takes part",
    "committed": "its update was committed; the round left no model",
}
"""What became of a round for a client."""
