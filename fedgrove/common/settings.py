"""Tables of settings: frozen dataclasses whose types say which values are allowed, wherever a value comes from."""

import dataclasses
import typing
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fedgrove.common.errors import InvalidInput

Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(gt=0, le=1)]


class InvalidConfig(InvalidInput):
    """The configuration cannot be used; the message names the key and says what is allowed."""


class OutOfRange(InvalidConfig):
    """A value that its key does not take.

    Attributes
    ----------
    key, allowed : str
        The key within its table, and what it takes.
    """

    def __init__(self, key: str, allowed: str, value: object) -> None:
        super().__init__(f"{key} must be {allowed}, not {value!r}")
        self.key, self.allowed, self.value = key, allowed, value


class Settings:
    """Base of a table's dataclass; raises OutOfRange for the first value that is not of its type's range."""

    def __post_init__(self) -> None:
        for name, hint in _ranges(type(self)).items():
            value = getattr(self, name)
            try:
                msgspec.convert(value, hint)
            except msgspec.ValidationError:
                raise OutOfRange(name, allowed(hint), value) from None

    def require(self, fine: object, key: str, allowed: str) -> None:
        """Raise OutOfRange for a key unless its value is ``fine``, where that depends on other keys."""
        if not fine:
            raise OutOfRange(key, allowed, getattr(self, key))


def bare(hint: Any) -> Any:
    """A type without its range."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Types of a dataclass's fields by name, with their ranges."""
    return typing.get_type_hints(kind, include_extras=True)


@cache
def _ranges(kind: type) -> Mapping[str, Any]:
    names = [item.name for item in dataclasses.fields(kind)]
    return {name: hints_of(kind)[name] for name in names if allowed(hints_of(kind)[name])}


def allowed(hint: Any) -> str:
    """What values of a type are allowed, as the end of a sentence that begins with ``must be``; empty where all are."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _span(arguments[0], arguments[1:])
    if origin is Literal:
        return _either([str(value) for value in arguments])
    if origin is tuple:
        inner = allowed(arguments[0])
        return f"values, each {inner}" if inner else ""
    if origin is None or origin is dict:
        return ""
    return next((words for each in arguments if (words := allowed(each))), "")


def _span(kind: Any, metas: tuple[Any, ...]) -> str:
    """The range in an annotation, in words."""
    found = [meta for meta in metas if isinstance(meta, Meta)]
    if said := next((meta.description for meta in found if meta.description), ""):
        return said
    bounds = {name: getattr(meta, name) for meta in found for name in ("ge", "gt", "le", "lt")}
    least, above, most, below = (bounds.get(name) for name in ("ge", "gt", "le", "lt"))
    if least is None and above is None and most is None and below is None:
        return ""
    number = "a whole number " if kind is int else ""
    if most is None and below is None:
        return f"{_number(least)} or more" if least is not None else f"{number}above {_number(above)}"
    if least is not None:
        return f"{number}from {_number(least)} to {'' if below is None else 'below '}{_number(most, below)}"
    end = f"{'at most' if below is None else 'below'} {_number(most, below)}"
    return f"{number}{'' if above is None else f'above {_number(above)} and '}{end}"


def _number(*either: float | None) -> str:
    value = next(each for each in either if each is not None)
    if 0 < abs(value) < 1e-6:
        return f"{value:g}"
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _either(names: list[str]) -> str:
    return f"one of {', '.join(names)}" if len(names) > 2 else " or ".join(names)
