"""Releases of a round about its clients, as stated in its metrics on the ledger; everybody recomputes them.

One dataclass a mechanism. All fields are exact functions of the ledger and the uploads, except for ε, which a library
computes in floating point: two statements of it agree within ``AGREEMENT``.
"""

import math

from msgspec.structs import fields

from fedgrove.common.wire import Count, Table
from fedgrove.node.privacy.accountant import AGREEMENT


class PrivacyRecordBase(Table, frozen=True, tag_field="mechanism"):
    """Common fields of every mechanism's record.

    Attributes
    ----------
    epsilon, delta : float
        The largest ε that any client has spent, this round included, at this δ, as the terms count it; None where
        nothing bounds it.
    """

    epsilon: float | None
    delta: float

    @property
    def mechanism(self) -> str:
        """Its name in the terms."""
        return str(self.__struct_config__.tag)


class ClientLevelRecord(PrivacyRecordBase, frozen=True, tag="client"):
    """Client-level differential privacy: a sum of clipped updates with Gaussian noise (``client_level``).

    Attributes
    ----------
    ledger_epsilon : float or None
        The largest ε that any client has spent towards those who can read the ledger, and so know who took part. It is
        ``epsilon`` unless the terms count on nobody knowing.
    noise_multiplier : float
        σ, as the terms say.
    clip : float
        S.
    clients : int
        K, members that were active when the round was opened.
    rate : float
        Probability with which each was drawn.
    sharers, needed, survivors : int
        n, who were to upload; k, the number that gives the full noise; s, who did.
    effective_multiplier : float
        The noise multiplier that s shares of the noise count as, towards those who can read the ledger.
    below : float or None
        b̃: the noisy fraction of updates with a norm of at most S, where a quantile is tracked.
    next_clip : float
        S of the next round.
    """

    ledger_epsilon: float | None
    noise_multiplier: float
    clip: float
    clients: Count
    rate: float
    sharers: Count
    needed: Count
    survivors: Count
    effective_multiplier: float
    below: float | None
    next_clip: float


class LocalRecord(PrivacyRecordBase, frozen=True, tag="local"):
    """Local differential privacy: uploads with noise of their own (``local``).

    Attributes
    ----------
    upload_epsilon : float
        ε of one upload, at the δ of the record.
    clip : float
        C; the noise follows from it, ε and δ.
    uploads : int
        How many were summed.
    """

    upload_epsilon: float
    clip: float
    uploads: Count


class SignDsRecord(PrivacyRecordBase, frozen=True, tag="signds"):
    """SignDS: selections of dimensions (``signds``).

    Attributes
    ----------
    upload_epsilon : float
        ε of one upload.
    dimensions, threshold : int
        h and ν_th.
    step : float
        What a dimension moved if all voted for it.
    uploads, refused : int
        How many the ledger lists, and how many of those are no selection and were left out.
    """

    upload_epsilon: float
    dimensions: Count
    threshold: Count
    step: float
    uploads: Count
    refused: Count


PrivacyRecord = ClientLevelRecord | LocalRecord | SignDsRecord

_COMPUTED = ("epsilon", "ledger_epsilon")


def difference(stated: PrivacyRecord | None, computed: PrivacyRecord | None) -> str:
    """Difference between a statement and the computed record, in one sentence; empty if there is none."""
    if type(stated) is not type(computed):
        have, should = (each.mechanism if each else "none" for each in (stated, computed))
        return f"privacy.mechanism is stated as {have} but is {should}"
    if stated is None or computed is None:
        return ""
    for item in fields(computed):
        have, should = getattr(stated, item.name), getattr(computed, item.name)
        close = item.name in _COMPUTED and have and should and math.isclose(have, should, rel_tol=AGREEMENT)
        if have != should and not close:
            return f"privacy.{item.name} is stated as {have} but is {should}"
    return ""
