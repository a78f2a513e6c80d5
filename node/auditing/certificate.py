"""A certificate of forgetting: that the model in force after a block was made without what a member took back.

Everything in it follows from ledger and store, so an audit makes it again and compares. What it rests on:

- **a client left**: all others were summed anew, and no upload of that client is in the sum. Nobody need trust it;
- **points were taken back**: the client was summed again after its request, bins have lost and gained points as stated,
  and lost as many more as were taken back. That the points left over are all but those named, the masks hide from
  everybody but the client, whose request commits to them (``node.unlearning.request``);
- **nothing had been made of them**: no sum that stands held any point of the client.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chain.records import Closed, Record, Withdrawn
from chain.strict_json import parse_json
from ipfs.store import ContentStore
from node.auditing.verdict import Verdict
from node.config import FederationConfig
from node.content import fetch_config, fetch_model
from node.kmeans.state import State
from node.ledger_rules import BadRecord, ChainFacts
from node.rounds import RoundRecords, Rounds

FORMAT = "fedgrove-certificate-1"
MAX_BYTES = 1 << 20


class NoCertificate(ValueError):
    """There is nothing to certify, yet; the message says why."""


@dataclass(frozen=True)
class Certificate:
    """One request, and the round that honoured it; ``table`` is its JSON form."""

    table: dict[str, Any]

    @property
    def sentence(self) -> str:
        """What it says, for people."""
        return self.table["statement"]

    def to_bytes(self) -> bytes:
        """JSON, for a file."""
        return (json.dumps(self.table, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Certificate":
        """Parse what ``to_bytes`` wrote; raises NoCertificate for anything else."""
        try:
            if len(data) > MAX_BYTES:
                raise ValueError
            certificate = cls(parse_json(data))
            request = certificate.table["request"]
            if len(bytes.fromhex(request["digest"])) != 32 or type(request["client"]) is not int:
                raise ValueError
            if certificate.table["format"] != FORMAT or certificate.to_bytes() != data:
                raise ValueError
        except (ValueError, TypeError, KeyError):
            raise NoCertificate("this is no certificate of `fedgrove unlearn`, or it was changed") from None
        return certificate


def certify(
    facts: ChainFacts, records: Sequence[Record], store: ContentStore, client: int, digest: bytes
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
        The ledger has no such request, or no round has honoured it.
    ipfs.store.StoreError
        A state cannot be fetched.
    """
    return _Search(facts, records, store).certificate(client, digest)


def certificate_fault(
    certificate: Certificate, facts: ChainFacts, records: Sequence[Record], store: ContentStore
) -> BadRecord | None:
    """What is wrong with a certificate, given a history that was audited; None when it holds."""
    try:
        request = certificate.table["request"]
        again = certify(facts, records, store, request["client"], bytes.fromhex(request["digest"]))
    except NoCertificate as fault:
        return BadRecord(None, None, "certificate", str(fault))
    for key, value in again.table.items():
        if certificate.table.get(key) != value:
            return BadRecord(None, None, f"certificate: {key}", "it does not follow from the ledger and the store")
    unknown = sorted(set(certificate.table) - set(again.table))
    return BadRecord(None, None, f"certificate: {unknown[0]}", "no certificate has such a key") if unknown else None


class _Search:
    """Reads a history for what became of a request."""

    def __init__(self, facts: ChainFacts, records: Sequence[Record], store: ContentStore) -> None:
        self._facts = facts
        self._store = store
        self._rounds = Rounds()
        for record in records:
            self._rounds.add(record)

    def certificate(self, client: int, digest: bytes) -> Certificate:
        asked = [each for each in self._rounds.withdrawals if (each.client, each.digest) == (client, digest)]
        if not asked:
            raise NoCertificate(f"the ledger has no request of client {client} with the digest {digest.hex()}")
        request = asked[0]
        standing = [entry for entry in self._rounds.rounds.values() if entry.stands]
        if not standing:
            raise NoCertificate("no round has closed yet")
        before = [entry for entry in standing if entry.end.at.block < request.at.block]
        if not self._was_summed(request, before):
            return self._nothing(request)
        for entry in standing:
            if entry.opened.opened_at >= request.at.block and self._honours(entry, request):
                return self._honoured(entry, request)
        raise NoCertificate(
            f"no round has honoured the request of client {request.client} in block {request.at.block} yet"
        )

    def _was_summed(self, request: Withdrawn, before: Sequence[RoundRecords]) -> bool:
        """Whether the client's points were in the state that stood, or in a sum under way, when it asked."""
        if before and request.client in self._state(before[-1]).contributions:
            return True
        under_way = [entry for entry in self._rounds.rounds.values() if entry.opened.opened_at < request.at.block]
        return any(
            request.client in entry.draws and entry.end is not None and entry.end.at.block > request.at.block
            for entry in under_way
        )

    def _honours(self, entry: RoundRecords, request: Withdrawn) -> bool:
        part = self._state(entry).contributions.get(request.client)
        return part is None or (
            bool(request.points) and self._rounds.rounds[part.round].opened.opened_at >= request.at.block
        )

    def _nothing(self, request: Withdrawn) -> Certificate:
        statement = (
            f"When client {request.client} asked, in block {request.at.block}, no model held any point of it: "
            "nothing had to be computed."
        )
        return Certificate({**self._head(request), "round": None, "recomputed": "nothing", "statement": statement})

    def _honoured(self, entry: RoundRecords, request: Withdrawn) -> Certificate:
        base = self._rounds.base_of(entry.number)
        before, after = self._state(base), self._state(entry)
        change = after.counts - before.counts
        gained = int(change.counts[change.counts > 0].sum())
        fresh = request.client not in after.contributions
        if fresh and request.client in entry.commits:
            raise NoCertificate(f"client {request.client} had left and uploaded in round {entry.number} all the same")
        end: Closed = entry.end
        others = [
            each.digest.hex()
            for each in self._rounds.withdrawals
            if base.opened.opened_at < each.at.block <= entry.opened.opened_at
        ]
        recomputed = "all" if fresh else "seeding" if gained else "nothing"
        return Certificate(
            {
                **self._head(request),
                "round": {
                    "number": entry.number,
                    "opened_at": entry.opened.opened_at,
                    "closed_at": end.at.block,
                    "block_hash": self._facts.block_hash(end.at.block).hex(),
                    "summed": sorted(entry.commits),
                    "requests": sorted(others),
                },
                "before": _described(base, before),
                "after": _described(entry, after),
                "bins_gained": gained,
                "recomputed": recomputed,
                "statement": _statement(request, entry, before, after, recomputed),
            }
        )

    def _head(self, request: Withdrawn) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "chain_id": self._facts.deployment.chain_id,
            "registry": self._facts.deployment.registry,
            "ledger": self._facts.deployment.ledger,
            "request": {
                "client": request.client,
                "account": request.account,
                "points": request.points,
                "digest": request.digest.hex(),
                "block": request.at.block,
                "transaction": "0x" + request.at.transaction.hex(),
            },
        }

    def _state(self, entry: RoundRecords) -> State:
        config: FederationConfig = fetch_config(self._store, entry.opened.config_digest)
        if config.clustering is None:
            raise NoCertificate("this federation trains a model, which cannot forget: only K-means can")
        return fetch_model(self._store, entry.end.model_digest, config)


def _described(entry: RoundRecords, state: State) -> dict[str, Any]:
    return {
        "round": entry.number,
        "model": entry.end.model_digest.hex(),
        "points": state.samples,
        "bins": len(state.counts),
        "clients": len(state.contributions),
    }


def _statement(request: Withdrawn, entry: RoundRecords, before: State, after: State, recomputed: str) -> str:
    client, number = request.client, entry.number
    made = f"The model in force after block {entry.end.at.block} was made without"
    if recomputed == "all":
        return (
            f"{made} any point of client {client}: the {len(after.contributions)} clients that it counts were summed "
            f"anew in round {number}, without an upload of client {client}."
        )
    how = (
        "No centroid was drawn again: bins only lost points."
        if recomputed == "nothing"
        else "A centroid was drawn again, so that bins gained points, too."
    )
    return (
        f"{made} the {request.points} points that client {client} took back in block {request.at.block}: the sum of "
        f"round {number} has {before.samples - after.samples} points less. {how}"
    )


def with_certificate(
    verdict: Verdict, certificate: Certificate, facts: ChainFacts, records: Sequence[Record], store: ContentStore
) -> Verdict:
    """The verdict on a history and a certificate, given that on the history."""
    if verdict.verdict != "verified":
        return verdict
    fault = certificate_fault(certificate, facts, records, store)
    return (
        verdict if fault is None else replace(verdict, verdict="bad record", first_bad_record=fault, reason=str(fault))
    )
