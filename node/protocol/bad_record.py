"""The first fault of a history, and the exception that carries it."""

from dataclasses import dataclass

from fedgrove.common.errors import Error


@dataclass(frozen=True)
class BadRecord:
    """First fault of a history: round and client (None if it has none), the field, and the reason in a sentence."""

    round: int | None
    client: int | None
    field: str
    reason: str

    def __str__(self) -> str:
        place = [f"round {self.round}"] if self.round is not None else []
        place += [f"client {self.client}"] if self.client is not None else []
        return f"{', '.join([*place, self.field])}: {self.reason}"


class RuleBroken(Error):
    """Raised at the first record that breaks a rule."""

    def __init__(self, record: BadRecord) -> None:
        super().__init__(str(record))
        self.record = record


def bad(field: str, reason: str, number: int | None = None, client: int | None = None) -> RuleBroken:
    """The exception that names a bad record."""
    return RuleBroken(BadRecord(number, client, field, reason))
