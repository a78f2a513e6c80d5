"""A round of a run, as it is on record."""

from dataclasses import dataclass

from fedgrove.node.protocol.content import Metrics


@dataclass(frozen=True)
class Round:
    """One round of a run.

    Attributes
    ----------
    number : int
        From 1.
    outcome : str
        ``closed``, ``voided``, ``skipped``, ``failed: REASON``, or ``running`` where the history ends in it.
    drawn, committed : tuple of int
        Clients (indices on the ledger) that drew, and those whose uploads are listed.
    metrics : Metrics or None
        What was stated of the model that it closed with, and of the one that it began with (``members``); None for a
        round that did not close.
    model_cid : str
        CID of that model, else of the one that it trained from.
    members : int
        Clients that were active when it was opened.
    disputed : tuple of int
        Clients that disputed its closing.
    opened_block, ended_block : int, int or None
        Blocks of its first record and of its end; None while it runs.
    terms_digest : str
        Digest of the terms that it was opened under, hexadecimal.
    """

    number: int
    outcome: str
    drawn: tuple[int, ...]
    committed: tuple[int, ...]
    metrics: Metrics | None
    model_cid: str
    members: int
    disputed: tuple[int, ...]
    opened_block: int
    ended_block: int | None
    terms_digest: str
