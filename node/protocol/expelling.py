"""Stages of a round whose updates have bounds: who lied about its update is taken out of the sum, and the round closes.

In stage 0 shares are released for all who are to be summed. Where their sum is not what they vouched for, their opened
keys say who lied. In the next stage shares are released for the others, and those of the liars' mask secrets with them;
and so on, as partners may have lied about the same masks. Everybody comes to the same liars, as they follow from keys
that are open.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fedgrove.node.masking.recovery import RecoveryRecord, TooFewShares
from fedgrove.node.masking.sealing import MaskingRefused
from fedgrove.node.protocol.aggregation import recovered, released_shares
from fedgrove.node.protocol.misstated import Misstated
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.step import name_clients

Sum = Callable[[RecoveryRecord], object]
"""Sums the updates of a round by a recovery record; raises Misstated where they are not what was vouched for."""


@dataclass(frozen=True)
class Stage:
    """A stage of a round.

    Attributes
    ----------
    number : int
        From 0.
    expelled : mapping of int to bytes
        b of those who lied, by position, ascending: shares are released for the others.
    """

    number: int = 0
    expelled: Mapping[int, bytes] = field(default_factory=dict[int, bytes], repr=False)


def recovered_in_stages(inputs: RoundInputs, sums: Sum) -> RecoveryRecord:
    """The recovery record of the stage whose sum is right.

    Raises
    ------
    StoreError
        An update cannot be had.
    TooFewShares
        The releases of the last stage do not recover a secret, or no stage can follow it.
    """
    stage = Stage()
    while True:
        record, following = _tried(inputs, stage, sums)
        if following is None:
            return record
        stage = following


def latest_stage(inputs: RoundInputs, sums: Sum) -> Stage | None:
    """The stage whose shares are to be released, or are waited for; None where the sum is right.

    Raises StoreError: an update cannot be had.
    """
    stage = Stage()
    while True:
        try:
            _, following = _tried(inputs, stage, sums)
        except TooFewShares:
            return stage
        if following is None:
            return None
        stage = following


def _tried(inputs: RoundInputs, stage: Stage, sums: Sum) -> tuple[RecoveryRecord, Stage | None]:
    """The recovery record of a stage, and the stage that follows if its sum is not right."""
    record = recovered(inputs, released_shares(inputs, stage.number), expelled=stage.expelled)
    try:
        sums(record)
    except Misstated as lie:
        who = name_clients([inputs.graph.client(position) for position in lie.liars])
        if not lie.liars or stage.number >= inputs.config.ledger.stages:
            raise TooFewShares(f"{who} lied, and no further stage can follow") from None
        try:
            inputs.bounded.check_connected(record, lie.liars)
        except MaskingRefused as fault:
            raise TooFewShares(f"{who} lied, but {fault}") from None
        return record, Stage(stage.number + 1, {**stage.expelled, **lie.liars})
    return record, None
