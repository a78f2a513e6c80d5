"""Tables of TOML or JSON into dataclasses, strictly: unknown keys, wrong types and wrong values are refused."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.settings import InvalidConfig, OutOfRange, hints_of

Scalar = bool | int | float | str
"""A value of a table that may be any of these."""

Option = object
"""A value of a table that somebody else gives a meaning: a scalar, or lists and tables of them."""

_MAX_BITS = 256
_MAX_DEPTH = 8  # of the lists and tables of an option
_MAX_SHOWN = 100


def check_value(fine: bool, key: str, allowed: str) -> None:
    """Raise InvalidConfig, which says what is allowed, unless a value is ``fine``."""
    if not fine:
        raise InvalidConfig(f"{key} must be {allowed}")


def build(kind: type, table: Any, where: str, **settled: Any) -> Any:
    """Build dataclass ``kind`` from a TOML or JSON table.

    Parameters
    ----------
    kind : type
        Keys of the table are its attributes; tables in it become the dataclasses that its hints name.
    where : str
        Dotted name of the table, for messages; empty for the whole.
    **settled
        Attributes that are not the table's to say.

    Raises
    ------
    InvalidConfig
        An unknown or missing key, or a value of the wrong type or out of range.
    """
    label = where or "the configuration"
    if not isinstance(table, dict):
        raise InvalidConfig(f"{label} must be a table")
    hints = hints_of(kind)
    known = {item.name: item for item in dataclasses.fields(kind) if item.name not in settled}
    for key in table:
        if key not in known:
            raise InvalidConfig(f"unknown key {join(where, key)}; known in {label}: {', '.join(sorted(known))}")
    required = {name for name, item in known.items() if _is_required(item)}
    for name in sorted(required - set(table)):
        raise InvalidConfig(f"{join(where, name)} is missing")
    values = {name: _convert(hints[name], value, join(where, name)) for name, value in table.items()}
    try:
        return kind(**values, **settled)
    except OutOfRange as fault:
        key = join(where, fault.key)
        raise InvalidConfig(f"{key} must be {fault.allowed}, not {_shown(fault.value)}") from None
    except InvalidConfig:
        raise
    except (ValueError, InvalidInput, InvalidContent) as fault:
        raise InvalidConfig(f"{label}: {fault}") from None


def build_tagged(kinds: Mapping[str, type], tag: str, table: Any, where: str) -> Any:
    """Build the dataclass that a table's key ``tag`` names, from its other keys; None for ``none``, which has none.

    Raises
    ------
    InvalidConfig
        Another name, or what ``build`` refuses.
    """
    if not isinstance(table, dict):
        raise InvalidConfig(f"{where} must be a table")
    name = table.get(tag)
    known = ("none", *kinds)
    if not isinstance(name, str) or name not in known:
        raise InvalidConfig(f"{join(where, tag)} must be one of {', '.join(known)}")
    values = {key: value for key, value in table.items() if key != tag}
    if name != "none":
        return build(kinds[name], values, where)
    if values:
        raise InvalidConfig(f"{join(where, min(values))} is set, but {join(where, tag)} is none: give a {tag}")
    return None


def _is_required(item: dataclasses.Field) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def _convert(kind: Any, value: Any, where: str) -> Any:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return build(kind, value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _convert(arguments[0], value, where)
    if origin is Literal:
        if value not in arguments:
            raise InvalidConfig(f"{where} must be one of {', '.join(map(str, arguments))}, not {_shown(value)}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise InvalidConfig(f"{where} must be a list")
        return tuple(_convert(arguments[0], item, where) for item in value)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            raise InvalidConfig(f"{where} must be a table")
        return {str(key): _convert(arguments[1], item, join(where, key)) for key, item in value.items()}
    if kind is Option:
        return _option(value, where, _MAX_DEPTH)
    if kind == Scalar:
        if type(value) not in arguments:
            raise InvalidConfig(f"{where} must be text, a number, true or false, not {_shown(value)}")
        return _scalar(type(value), value, where)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _convert(next(a for a in arguments if a is not type(None)), value, where)
    return _scalar(kind, value, where)


def _option(value: Any, where: str, depth: int) -> Option:
    if depth == 0:
        raise InvalidConfig(f"{where} must be nested at most {_MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        return {str(key): _option(item, join(where, key), depth - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_option(item, where, depth - 1) for item in value]
    return _convert(Scalar, value, where)


def _scalar(kind: type, value: Any, where: str) -> Any:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise InvalidConfig(f"{where} must be a number of at most {_MAX_BITS} bits")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise InvalidConfig(f"{where} must be a finite number") from None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidConfig(f"{where} must be of type {kind.__name__}, not {_shown(value)}")
    if kind is float and value - value != 0:
        raise InvalidConfig(f"{where} must be a finite number")
    return value


def join(where: str, key: str) -> str:
    """The dotted name of a key, fit for a message: keys come from peers, too."""
    name = key if key.isprintable() else ascii(key)
    name = _cut(name)
    return f"{where}.{name}" if where else name


def _shown(value: Any) -> str:
    """A value as Python writes it, cut short; thousands of digits, which Python refuses to write, as what they are."""
    try:
        return _cut(repr(value))
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too large to show"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
