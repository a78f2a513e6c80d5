"""What an audit reads from a store, and what it finds wrong without calling the history wrong."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

from fedgrove.ipfs.store import ContentReader, Malformed, NotFound, StoreError, TooLarge, Unreachable
from fedgrove.node.audit.verdict import CannotTell
from fedgrove.node.masking.recovery import RecoveryRecord, Revealed, TooFewShares
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.protocol.aggregation import recovered, released_shares, sealed_shares
from fedgrove.node.protocol.bad_record import BadRecord, bad
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.step import name_clients

Content = TypeVar("Content")


@dataclass
class Findings:
    """Reads blobs, and judges what is missing or altered.

    Attributes
    ----------
    remarks : list of BadRecord
        What members did wrong without spoiling a model.
    """

    store: ContentReader
    remarks: list[BadRecord] = field(default_factory=list)

    def remark(self, what: str, reason: str, number: int, client: int | None = None) -> None:
        """Note what a member did wrong."""
        self.remarks.append(BadRecord(number, client, what, reason))

    def is_named(self, what: str, number: int, client: int | None) -> bool:
        """Whether there is a remark on this already."""
        return any((each.round, each.client, each.field) == (number, client, what) for each in self.remarks)

    def fetch(self, digest: bytes, max_bytes: int, what: str, number: int, client: int | None = None) -> bytes:
        """Fetch a blob that a model depends on; raise as ``get`` does."""
        return self.get(lambda: self.store.fetch(digest, max_bytes), what, number, client)

    def absorbed(
        self, digest: bytes, max_bytes: int, what: str, number: int, client: int | None = None
    ) -> bytes | None:
        """Fetch a blob that no model depends on.

        When it is missing, too large or no file it is a remark, else any member could spoil an honest history by
        recording the digest of nothing. Bytes that do not match their digest are a bad record.
        """
        try:
            return self.store.fetch(digest, max_bytes)
        except Unreachable as fault:
            raise CannotTell(str(fault)) from None
        except (NotFound, TooLarge, Malformed) as fault:
            self.remark(what, str(fault), number, client)
            return None
        except StoreError as fault:
            raise bad(what, str(fault), number, client) from None

    def get(self, work: Callable[[], Content], what: str, number: int, client: int | None = None) -> Content:
        """Run ``work``; a blob that is missing or altered is a bad record, a store that is away is not."""
        try:
            return work()
        except Unreachable as fault:
            raise CannotTell(str(fault)) from None
        except NotFound:
            raise bad(what, "it is not in the store", number, client) from None
        except StoreError as fault:
            raise bad(what, str(fault), number, client) from None


def name_liars(inputs: RoundInputs, findings: Findings) -> None:
    """Name who released a share that is not what its owner committed to."""
    number = inputs.current.number
    needed = needed_secrets(inputs.graph, inputs.sharers, inputs.survivors)
    shares = findings.get(lambda: sealed_shares(inputs, range(inputs.graph.n)), "share.content", number)
    releases = findings.get(lambda: released_shares(inputs), "release.content", number)
    for holder in Revealed.parse(inputs.graph, needed, releases, shares).lying_holders(inputs.graph):
        client = inputs.graph.client(holder)
        findings.remark("release.content", "a share in it does not match its owner's commitment", number, client)


def name_misstating(inputs: RoundInputs, record: RecoveryRecord, findings: Findings) -> None:
    """Name those who lied about the update that they vouched for, where updates have bounds."""
    if inputs.bounds is None:
        return
    number, verdict = inputs.current.number, inputs.bounded.verdict_words()
    for position, said in verdict.items():
        findings.remark("voucher.content", said, number, inputs.graph.client(position))
    for position in record.expelled:
        said = "its opened keys disprove its voucher, so its update is not in the sum"
        findings.remark("voucher.content", said, number, inputs.graph.client(position))


def name_lacking(inputs: RoundInputs, findings: Findings) -> None:
    """Name the clients to blame for a round that failed, if its shares say who."""
    number = inputs.current.number
    try:
        _recovered(inputs)
    except Unreachable as fault:
        raise CannotTell(str(fault)) from None
    except TooFewShares as lack:
        if lack.client is None:
            return  # the lists themselves forbade a recovery
        name_liars(inputs, findings)
        # Whose blob could not be fetched or read is named for that already.
        if lack.owner_lied and not findings.is_named("share.content", number, lack.client):
            findings.remark("share.content", str(lack), number, lack.client)


def name_left_out(inputs: RoundInputs, group: int, findings: Findings) -> None:
    """Say why a group is in no sum: for a member's lie, or as shares or an update came too late."""
    number, graph = inputs.current.number, inputs.graph
    who = f"group {group} ({name_clients([graph.client(position) for position in graph.groups[group].positions])})"
    others = [other for other in range(len(graph.groups)) if other != group]
    try:
        _recovered(inputs, others)
    except TooFewShares as lack:
        liar = lack.client if lack.owner_lied else None  # else its holders may lie, or be away
        findings.remark("recovery.left out", f"{who}: {lack}", number, liar)
    except Unreachable as fault:
        raise CannotTell(str(fault)) from None
    else:
        findings.remark("recovery.left out", f"{who}: an update was not there in time", number)


def _recovered(inputs: RoundInputs, left_out: Collection[int] = ()) -> RecoveryRecord:
    return recovered(inputs, released_shares(inputs), left_out)
