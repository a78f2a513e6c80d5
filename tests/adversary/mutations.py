"""Random changes of bytes, RLP, ABI words and JSON lines, for fuzzing; all from one generator."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import rlp

WORD = 32
ODD_WORDS = (0, 1, 31, 33, 2**31, 2**63 - 1, 2**63, 2**64, 2**128, 2**255, 2**256 - 32, 2**256 - 1)
ODD_ITEMS: tuple[Any, ...] = (b"", b"\0", b"\1", [], [[]], [b""], b"\xff" * 31, b"\xff" * 33, b"\0" * 256, [b"\1"] * 32)


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """A few bytes replaced, a piece cut out, or doubled, or the end lost."""
    found = bytearray(data or b"\0")
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(found)) if found else 0
        match chance.randrange(5):
            case 0 | 1:
                found[start : start + 1] = bytes([chance.randrange(256)])
            case 2:
                del found[start : start + chance.randint(1, 40)]
            case 3:
                found[start:start] = found[start : start + chance.randint(1, 40)]
            case 4:
                del found[start:]
    return bytes(found)


def changed_word(data: bytes, chance: random.Random) -> bytes:
    """One word of ABI-encoded bytes replaced by an odd one."""
    if len(data) < WORD:
        return changed_bytes(data, chance)
    place = WORD * chance.randrange(len(data) // WORD)
    return data[:place] + chance.choice(ODD_WORDS).to_bytes(WORD, "big") + data[place + WORD :]


def changed_item(item: Any, chance: random.Random) -> Any:
    """One element of nested lists, each as likely, replaced, taken out or doubled."""
    path, found = chance.choice(list(_paths(item))), deepcopy(item)
    if not path:
        return _changed_leaf(found, chance)
    parent = found
    for place in path[:-1]:
        parent = parent[place]
    match chance.randrange(8):
        case 0:
            del parent[path[-1]]
        case 1:
            parent.insert(path[-1], parent[path[-1]])
        case _:
            parent[path[-1]] = _changed_leaf(parent[path[-1]], chance)
    return found


def _paths(item: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    yield path
    if isinstance(item, list):
        for place, each in enumerate(item):
            yield from _paths(each, (*path, place))


def _changed_leaf(item: Any, chance: random.Random) -> Any:
    """Other bytes, or an odd item; as odd as any is a list of as many items as there were bytes."""
    if isinstance(item, bytes) and item and chance.random() < 0.5:
        return chance.choice([changed_bytes, changed_word])(item, chance)
    return chance.choice([*ODD_ITEMS, [b"\1"] * len(item), [b"\1"] * len(item)])


def changed_rlp(encoded: bytes, chance: random.Random) -> bytes:
    """An EIP-2718 encoding, or a plain RLP one, with another content, or with changed bytes."""
    if chance.random() < 0.3:
        return changed_bytes(encoded, chance)
    kind = encoded[:1] if encoded[0] < 0x80 else b""
    if chance.random() < 0.1:
        kind = bytes([chance.randrange(0x80)])
    return kind + rlp.encode(
        changed_item(rlp.decode(encoded[len(kind) and 1 :] if encoded[0] < 0x80 else encoded), chance)
    )


def changed_line(line: bytes, chance: random.Random) -> bytes:
    """A line of JSON with changed bytes, or another value in canonical form."""
    if chance.random() < 0.5:
        return changed_bytes(line, chance)
    fields = changed_value(json.loads(line), chance)
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def changed_value(value: Any, chance: random.Random) -> Any:
    """Some value inside JSON replaced."""
    odd: list[Any] = [None, True, -1, 2**300, 1.5, "", "0x", "zz", [], {}, [[]] * 9, "a" * 5000]
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        match chance.randrange(6):
            case 0:
                return {name: each for name, each in value.items() if name != key}
            case 1:
                return value | {key + "x": value[key]}
            case _:
                return value | {key: changed_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], changed_value(value[place], chance), *value[place + 1 :]]
    if isinstance(value, str) and value and chance.random() < 0.5:
        place = chance.randrange(len(value))
        return value[:place] + chance.choice("0f zG") + value[place + 1 :]
    return chance.choice(odd)
