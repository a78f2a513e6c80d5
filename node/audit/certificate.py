"""A certificate of forgetting: that the model in force after a block was made without what a member took back.

Everything in it follows from ledger and store, so an audit makes it again and compares. What it rests on:

- **the client is in the sum no more** (it left, or was away): all others were summed anew, and no upload of that client
  is in the sum. Nobody need trust it;
- **points were taken back**: everybody was summed anew after the request, from seedings that were drawn for that sum.
  So the process is exact. That the client left out the points it named, the masks hide from everybody but the client,
  whose request commits to them (``node.methods.kmeans.request``);
- **nothing had been made of them**: the model in force when the client asked held no point of it, nor did any since.

It speaks of the model in force, and of no earlier one: those are public, and whoever has read them keeps them. There is
none while a round is open, whose sum may hold what was taken back. If members void the round that it names, it no
longer holds, and an audit says so.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

from fedgrove.chain.records import Record, Withdrawn
from fedgrove.common.errors import Refused
from fedgrove.common.wire import Count, Digest, Malformed, Table
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.methods.kmeans.method import KMeans
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.terms import fetch_method
from fedgrove.node.protocol.bad_record import BadRecord
from fedgrove.node.protocol.chain_facts import ChainFacts
from fedgrove.node.protocol.rounds import RoundRecords, Rounds

_EARLIER = "Earlier models stay public."


class NoCertificate(Refused):
    """There is nothing to certify, yet; the message says why."""

    exit_code = 1


class CertifiedRequest(Table, frozen=True):
    """The request, as the ledger shows it."""

    client: Count
    account: str
    points: Count
    digest: Digest
    block: Count
    transaction: str


class CertifiedRound(Table, frozen=True):
    """The round that honoured it: its clients, and all requests that it honours."""

    number: Count
    opened_at: Count
    closed_at: Count
    block_hash: Digest
    summed: tuple[Count, ...]
    requests: tuple[Digest, ...]


class CertifiedModel(Table, frozen=True):
    """A model before or after, and what it counts."""

    round: Count
    model: Digest
    counted: Count
    bins: Count
    clients: Count


class Certificate(Table, frozen=True, tag_field="format", tag="fedgrove-certificate-1"):
    """One request, and the round that honoured it; ``statement`` says it to people."""

    chain_id: int
    registry: str
    ledger: str
    request: CertifiedRequest
    round: CertifiedRound | None
    recomputed: Literal["all", "nothing"]
    statement: str
    before: CertifiedModel | None = None
    after: CertifiedModel | None = None

    def to_bytes(self) -> bytes:
        """JSON, for a file."""
        return (json.dumps(self.to_table(), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote; NoCertificate for anything else."""
        try:
            return super().from_bytes(data)
        except (Malformed, UnicodeEncodeError) as fault:
            raise NoCertificate(
                f"this is not a certificate of `fedgrove unlearn`, or it was changed ({fault})"
            ) from None


def certify(
    facts: ChainFacts, records: Sequence[Record], store: ContentReader, client: int, digest: bytes
) -> Certificate:
    """The certificate for a request.

    Parameters
    ----------
    client : int
        Who asked.
    digest : bytes
        Of the request, as the ledger shows it.

    Raises
    ------
    NoCertificate
        The ledger has no such request, no round has honoured it, or one is open.
    ipfs.store.StoreError
        A state cannot be fetched.
    """
    search = _Search(facts, records, store)
    refuse_open(search.rounds)
    return search.certificate(client, digest)


def refuse_open(rounds: Rounds, before: int | None = None) -> None:
    """Raise NoCertificate if a round is open (that was opened before a block): its sum may hold anything."""
    latest = rounds.latest
    if latest is not None and latest.end is None and (before is None or latest.opened.opened_at < before):
        raise NoCertificate(
            f"round {latest.number} is open and may still sum the withdrawn points: try again when it has ended"
        )


def certificate_fault(
    certificate: Certificate, facts: ChainFacts, records: Sequence[Record], store: ContentReader
) -> BadRecord | None:
    """The fault of a certificate, given an audited history; None if it is valid."""
    try:
        request = certificate.request
        again = _Search(facts, records, store).certificate(request.client, bytes.fromhex(request.digest))
    except NoCertificate as fault:
        return BadRecord(None, None, "certificate", str(fault))
    for key in certificate.__struct_fields__:
        if getattr(certificate, key) != getattr(again, key):
            return BadRecord(None, None, f"certificate: {key}", "it does not follow from the ledger and the store")
    return None


class _Search:
    """Reads a history for what became of a request."""

    def __init__(self, facts: ChainFacts, records: Sequence[Record], store: ContentReader) -> None:
        self._facts = facts
        self._store = store
        self.rounds = Rounds.of(records, facts.settings)

    def certificate(self, client: int, digest: bytes) -> Certificate:
        asked = [each for each in self.rounds.withdrawals if (each.client, each.digest) == (client, digest)]
        if not asked:
            raise NoCertificate(f"the ledger has no request of client {client} with the digest {digest.hex()}")
        request = asked[0]
        refuse_open(self.rounds, request.at.block)
        standing = [past for past in self.rounds.rounds.values() if past.stands]
        if not standing:
            raise NoCertificate("no round has closed yet")
        held = [past for past in standing if self._holds(past, request)]
        if not held:
            return self._nothing(request, standing)
        later = [past for past in standing if past.number > held[-1].number]
        if not later:
            raise NoCertificate(
                f"no round has honoured the request of client {client} in block {request.at.block} yet: the model in "
                f"force, of round {standing[-1].number}, still contains the withdrawn points"
            )
        return self._honoured(later[0], request)

    def _holds(self, current: RoundRecords, request: Withdrawn) -> bool:
        """Whether the model that a round left was made with what the request took back, and was in force after it.

        A round that was opened before the request sums what its clients had then, however late it closed.
        """
        following = next((each for each in self.rounds.rounds.values() if _is_after(each, current)), None)
        if following is not None and _place(following.closing) < _place(request):
            return False
        state = self._state(current)
        return request.client in state.clients and self._opened_at(state) < request.at.block

    def _opened_at(self, state: KMeansState) -> int:
        made = self.rounds.rounds.get(state.round)
        if made is None:
            raise NoCertificate("the state of a closed round names an unknown round: audit the history")
        return made.opened.opened_at

    def _nothing(self, request: Withdrawn, standing: Sequence[RoundRecords]) -> Certificate:
        before = [each for each in standing if _place(each.closing) < _place(request)]
        number = f" of round {before[-1].number}" if before else ""
        statement = (
            f"The model in force{number} when client {request.client} asked, in block {request.at.block}, was made "
            "without any point of it, and no round that was open then summed it: nothing had to be computed. "
            f"{_EARLIER}"
        )
        return self._certificate(request, None, "nothing", statement)

    def _honoured(self, current: RoundRecords, request: Withdrawn) -> Certificate:
        base = self.rounds.base_before(current.number)
        before, after = self._state(base), self._state(current)
        end = current.closing
        others = [
            each.digest.hex()
            for each in self.rounds.withdrawals
            if base.opened.opened_at < each.at.block <= current.opened.opened_at
        ]
        summed = CertifiedRound(
            number=current.number,
            opened_at=current.opened.opened_at,
            closed_at=end.at.block,
            block_hash=self._facts.block_hash(end.at.block).hex(),
            summed=after.clients,
            requests=tuple(sorted(others)),
        )
        found = self._certificate(request, summed, "all", _statement(request, current, after))
        return found.replace(before=_described(base, before), after=_described(current, after))

    def _certificate(
        self, request: Withdrawn, summed: CertifiedRound | None, recomputed: Literal["all", "nothing"], statement: str
    ) -> Certificate:
        deployment = self._facts.deployment
        asked = CertifiedRequest(
            client=request.client,
            account=request.account,
            points=request.points,
            digest=request.digest.hex(),
            block=request.at.block,
            transaction="0x" + request.at.transaction.hex(),
        )
        place = deployment.chain_id, deployment.registry, deployment.ledger
        return Certificate(*place, asked, summed, recomputed, statement)

    def _state(self, current: RoundRecords) -> KMeansState:
        method = fetch_method(self._store, current.opened.config_digest)
        if not isinstance(method, KMeans):
            raise NoCertificate("this federation trains a model and cannot unlearn: only K-means can")
        return method.fetch_model(self._store, current.result.model_digest)


def _place(record: Record) -> tuple[int, int]:
    return record.at.block, record.at.log_index


def _is_after(each: RoundRecords, current: RoundRecords) -> bool:
    return each.stands and each.number > current.number


def _described(current: RoundRecords, state: KMeansState) -> CertifiedModel:
    counts = state.counts
    digest = current.result.model_digest.hex()
    return CertifiedModel(current.number, digest, counts.total, len(counts), len(state.clients))


def _statement(request: Withdrawn, current: RoundRecords, after: KMeansState) -> str:
    client, number = request.client, current.number
    made = f"The model in force since block {current.closing.at.block} was made without"
    summed = f"the {len(after.clients)} clients that it counts were summed anew in round {number}"
    if client not in after.clients:
        return f"{made} any point of client {client}: {summed}, without an upload of client {client}. {_EARLIER}"
    points = f"{request.points} point{'s' if request.points > 1 else ''}"
    return (
        f"{made} the {points} that client {client} took back in block {request.at.block}: {summed}, "
        f"each with what it had left. Which they are, and that client {client} left them out, is its own word: "
        f"masks hide what it sent. {_EARLIER}"
    )


def with_certificate(
    verdict: Verdict, certificate: Certificate, facts: ChainFacts, records: Sequence[Record], store: ContentReader
) -> Verdict:
    """The verdict on a history and a certificate, given that on the history."""
    if not verdict.holds:
        return verdict
    fault = certificate_fault(certificate, facts, records, store)
    return (
        verdict if fault is None else replace(verdict, verdict="bad record", first_bad_record=fault, reason=str(fault))
    )
