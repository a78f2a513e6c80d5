"""Releases of a round about its clients, as stated in its metrics on the ledger; everybody recomputes them.

One dataclass a mechanism. All fields are exact functions of the ledger and the uploads, except for ε, which a library
computes in floating point: two statements of it agree within ``AGREEMENT``.
"""

import math
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, get_args, get_type_hints

from fedgrove.node.privacy.accountant import AGREEMENT


class InvalidPrivacyRecord(ValueError):
    """A statement of what was released is not in its form; the message says where."""


@dataclass(frozen=True)
class PrivacyRecord:
    """Common fields of every mechanism's record.

    Attributes
    ----------
    epsilon, delta : float
        The largest ε that any client has spent, this round included, at this δ, as the terms count it; None where
        nothing bounds it.
    """

    mechanism: ClassVar[str]

    epsilon: float | None
    delta: float

    def to_table(self) -> dict:
        """A JSON-ready form."""
        return {"mechanism": self.mechanism, **asdict(self)}


@dataclass(frozen=True)
class ClientLevelRecord(PrivacyRecord):
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

    mechanism: ClassVar[str] = "client"

    ledger_epsilon: float | None
    noise_multiplier: float
    clip: float
    clients: int
    rate: float
    sharers: int
    needed: int
    survivors: int
    effective_multiplier: float
    below: float | None
    next_clip: float


@dataclass(frozen=True)
class LocalRecord(PrivacyRecord):
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

    mechanism: ClassVar[str] = "local"

    upload_epsilon: float
    clip: float
    uploads: int


@dataclass(frozen=True)
class SignDsRecord(PrivacyRecord):
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

    mechanism: ClassVar[str] = "signds"

    upload_epsilon: float
    dimensions: int
    threshold: int
    step: float
    uploads: int
    refused: int


_MOST = 1e300  # as a number: larger whole ones are no float
_COMPUTED = ("epsilon", "ledger_epsilon")

RECORDS: dict[str, type[PrivacyRecord]] = {
    kind.mechanism: kind for kind in (ClientLevelRecord, LocalRecord, SignDsRecord)
}
"""By mechanism."""


def record_from(table: object) -> PrivacyRecord:
    """Read what ``to_table`` made of a record.

    Raises
    ------
    InvalidRecord
        An unknown mechanism, a missing or unknown key, a value of the wrong type or not finite.
    """
    mechanism = table.get("mechanism") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(mechanism, str) or mechanism not in RECORDS:
        raise InvalidPrivacyRecord(f"privacy.mechanism must be one of {', '.join(RECORDS)}")
    kind = RECORDS[mechanism]
    values = {name: value for name, value in table.items() if name != "mechanism"}
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    if set(values) != set(names):
        raise InvalidPrivacyRecord(f"privacy must have the keys {', '.join(names)}")
    for name in names:
        allowed = get_args(hints[name]) or (hints[name],)
        value = values[name]
        if type(value) not in allowed or (value is not None and not abs(value) < _MOST):
            raise InvalidPrivacyRecord(f"privacy.{name} has the wrong type or is not finite")
    return kind(**values)


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
