"""Who is to blame where shares were missing or false, and whether a round had to fail."""

from collections.abc import Collection

from fedgrove.chain.records import FailureReason
from fedgrove.ipfs.store import StoreError, Unreachable
from fedgrove.node.audit.findings import Findings
from fedgrove.node.audit.verdict import CannotTell
from fedgrove.node.base.tensors import InvalidModel
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.recovery import RecoveryRecord, Revealed, TooFewShares, unavailable_updates
from fedgrove.node.masking.survivors import needed_secrets
from fedgrove.node.protocol.aggregation import outcome, recovered, released_shares, sealed_shares
from fedgrove.node.protocol.method import Method
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.step import name_clients


def name_liars(inputs: RoundInputs, findings: Findings) -> None:
    """Name who released a share that is not what its owner committed to."""
    number = inputs.current.number
    needed = needed_secrets(inputs.graph, inputs.sharers, inputs.survivors)
    shares = findings.get(lambda: sealed_shares(inputs, range(inputs.graph.n)), "share.content", number)
    releases = findings.get(lambda: released_shares(inputs), "release.content", number)
    for holder in Revealed.parse(inputs.graph, needed, releases, shares).lying_holders(inputs.graph):
        client = inputs.graph.client(holder)
        findings.remark("release.content", "a share in it does not match its owner's commitment", number, client)


def name_lacking(inputs: RoundInputs, recovery: RecoveryRecord | None, findings: Findings) -> None:
    """Name the clients to blame for a round that failed for lack of shares, if they are known."""
    number = inputs.current.number
    try:
        _recovered(inputs)
    except TooFewShares as lack:
        if lack.client is None:
            return  # the lists themselves forbade a recovery
        if recovery is None:
            name_liars(inputs, findings)
        # Whose blob could not be fetched or read is named for that already.
        if lack.owner_lied and not findings.is_named("share.content", number, lack.client):
            findings.remark("share.content", str(lack), number, lack.client)


def name_left_out(inputs: RoundInputs, group: int, findings: Findings) -> None:
    """Say why a group is in no sum: for a member's lie, or though its secrets can be recovered."""
    number, graph = inputs.current.number, inputs.graph
    who = f"group {group} ({name_clients([graph.client(position) for position in graph.groups[group]])})"
    others = [other for other in range(len(graph.groups)) if other != group]
    try:
        _recovered(inputs, others)
    except TooFewShares as lack:
        liar = lack.client if lack.owner_lied else None  # else its holders may lie, or be away
        findings.remark("recovery.left out", f"{who}: {lack}", number, liar)
    except Unreachable as fault:
        raise CannotTell(str(fault)) from None
    else:
        findings.remark("recovery.left out", f"{who} was left out, though its secrets can be recovered", number)


def is_unfounded(reason: FailureReason, method: Method, inputs: RoundInputs, recovery: RecoveryRecord | None) -> bool:
    """Whether ledger and store show that a round need not have failed for the reason that was recorded."""
    current = inputs.current
    if reason == FailureReason.TOO_FEW_SHARES:
        return _is_recoverable(inputs)
    if reason == FailureReason.INVALID_RELEASE:
        return current.recovered is None or recovery is not None
    try:
        if reason == FailureReason.UPDATE_UNAVAILABLE:
            releases = released_shares(inputs)
            lost = unavailable_updates(inputs.graph, inputs.sharers, inputs.survivors, releases)
            return len(releases) == len(current.releases) and not lost
        outcome(method, inputs, recovery or _recovered(inputs))
    except Unreachable as fault:
        raise CannotTell(str(fault)) from None
    except (StoreError, TooFewShares, InvalidUpdate, InvalidModel):
        return False
    return True


def _is_recoverable(inputs: RoundInputs) -> bool:
    """Whether what was released recovers the sum."""
    try:
        _recovered(inputs)
    except Unreachable as fault:
        raise CannotTell(str(fault)) from None
    except TooFewShares:
        return False
    return True


def _recovered(inputs: RoundInputs, left_out: Collection[int] = ()) -> RecoveryRecord:
    return recovered(inputs, released_shares(inputs), left_out)
