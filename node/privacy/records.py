"""What a round released about its clients, as its metrics state it on the ledger; everybody recomputes it.

One dataclass a mechanism. All fields are exact functions of the ledger and the uploads, but for ε, which a library
computes in floating point: two statements of it agree within ``AGREEMENT``.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, get_args, get_type_hints

from node.privacy.accountant import AGREEMENT


class InvalidRecord(ValueError):
    """A statement of what was released is not in its form; the message says where."""


@dataclass(frozen=True)
class PrivacyRecord:
    """What holds for every mechanism.

    Attributes
    ----------
    epsilon, delta : float
        The largest ε that any client has spent, this round included, at this δ.
    """

    mechanism: ClassVar[str]

    epsilon: float
    delta: float

    def to_table(self) -> dict:
        """A JSON-ready form."""
        return {"mechanism": self.mechanism, **asdict(self)}


def record_from(table: object, kinds: Mapping[str, type[PrivacyRecord]] | None = None) -> PrivacyRecord:
    """Read what ``to_table`` made of a record.

    Raises
    ------
    InvalidRecord
        An unknown mechanism, a missing or unknown key, a value of the wrong type or not finite.
    """
    kinds = kinds or RECORDS
    if not isinstance(table, dict) or not isinstance(table.get("mechanism"), str) or table["mechanism"] not in kinds:
        raise InvalidRecord(f"privacy.mechanism must be one of {', '.join(kinds) or 'none'}")
    kind = kinds[table["mechanism"]]
    values = {name: value for name, value in table.items() if name != "mechanism"}
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)]
    if set(values) != set(names):
        raise InvalidRecord(f"privacy must have the keys {', '.join(names)}")
    for name in names:
        allowed = get_args(hints[name]) or (hints[name],)
        value = values[name]
        if type(value) not in allowed or (isinstance(value, float) and not math.isfinite(value)):
            raise InvalidRecord(f"privacy.{name} is not of its type, or not finite")
    return kind(**values)


def difference(stated: PrivacyRecord | None, computed: PrivacyRecord | None) -> str:
    """Where a statement departs from what was computed, in one sentence; empty when it does not."""
    if type(stated) is not type(computed):
        have, should = (each.mechanism if each else "none" for each in (stated, computed))
        return f"privacy.mechanism is stated as {have}, and is {should}"
    if stated is None or computed is None:
        return ""
    for item in fields(computed):
        have, should = getattr(stated, item.name), getattr(computed, item.name)
        close = item.name == "epsilon" and math.isclose(have, should, rel_tol=AGREEMENT)
        if have != should and not close:
            return f"privacy.{item.name} is stated as {have}, and is {should}"
    return ""


RECORDS: dict[str, type[PrivacyRecord]] = {}
"""By mechanism; a new one is added here."""
