"""Mutants of what others publish of clusters: anything anywhere, and others that may be."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

from fedgrove.chain.records import Committed
from fedgrove.node.methods.procfl.state import STAGES
from fedgrove.node.protocol.rounds import RoundRecords


def with_commits(current: RoundRecords, commits: dict) -> RoundRecords:
    """A round's records with other uploads."""
    return replace(current, by_member=current.by_member | {Committed: commits})


ODD = [None, True, -1, 0, 1, 1 << 31, 1 << 53, 1 << 64, 0.5, 1e300, "", "x", "ab" * 32, [], [[]], {}, [0], [[1], []]]


def mutated(value: object, random: Random) -> object:
    """A copy of a JSON value with one thing changed: replaced, removed, repeated, cut short, moved by one."""
    if isinstance(value, dict | list) and value and random.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(list(keys))
        copy = value.copy()
        roll = random.random()
        if roll < 0.7:
            copy[key] = mutated(value[key], random)
        elif roll < 0.8:
            del copy[key]
        elif isinstance(copy, dict):
            copy[random.choice(["7", "-1", "99999999999", "x", "1e3", str(key) + "0"])] = value[key]
        elif roll < 0.9:
            copy.insert(random.randrange(len(copy) + 1), value[key])
        else:
            copy = copy[: random.randrange(len(copy))]
        return copy
    if type(value) is int and random.random() < 0.6:
        return value + random.choice([-1, 1, 1 << 16, 1 << 32])
    return random.choice(ODD)


def other_state(head: dict, random: Random) -> dict:
    """A state's head with some things others that may be."""
    clients, several = head["clients"] or list(range(1, 8)), len(head["clusters"])

    def some(of: list[int], least: int = 0) -> list[int]:
        return sorted(random.sample(of, random.randint(min(least, len(of)), len(of))))

    def apart() -> list[list[int]]:
        places = {client: random.randrange(several + 1) for client in clients}
        return [[client for client in clients if places[client] == k] for k in range(several)]

    def case(cluster: int) -> dict:
        mixed = random.sample(clients, len(clients))
        cut = random.randint(1, len(clients) - 1)
        suspects, pool = sorted(mixed[:cut]), sorted(mixed[cut:])
        members, committee = some(suspects, 1), some(pool, 1)
        if random.random() < 0.4:
            members = committee = []
        against = random.choice([[], [random.randrange(4) for _ in members]])
        named = {"suspects": suspects, "pool": pool, "members": members, "committee": committee, "against": against}
        return {"cluster": cluster, **named}

    def labels() -> list[list[int]]:
        rows = [random.choice([[], [random.randrange(1, 1 << 18) for _ in range(10)]]) for _ in range(several)]
        return rows if any(rows) else []

    def scores() -> dict:
        tested = [random.randrange(40) for _ in range(9)] + [7]
        rows = [[random.randint(0, most) for most in tested] for _ in range(head["references"])]
        return {"tested": tested, "right": rows}

    changes: list[Callable[[], dict]] = [
        lambda: {"stage": random.choice(STAGES)},
        lambda: {"trained": random.randrange(20)},
        lambda: {"clusters": [some(clients) for _ in range(several)]},
        lambda: {"groups": random.choice([apart(), []]), "spoilt": []},
        lambda: {"spoilt": some(list(range(len(head["groups"]))))},
        lambda: {"judged": {str(client): random.randrange(9) for client in some(clients)}},
        lambda: {"expelled": {str(client): random.randrange(max(1, several)) for client in some(clients)}},
        lambda: {"cases": [case(cluster) for cluster in some(list(range(several)))]},
        lambda: {"labels": labels()},
        scores,
        lambda: {
            "sets": {str(client): ["ab" * 32, random.randrange(1, 999)] for client in clients},
            "overlaps": [],
        },
    ]
    for change in random.sample(changes, random.randint(1, 4)):
        head = {**head, **change()}
    return head


def other_statement(table: dict, random: Random) -> dict:
    """A statement of other overlaps, or of other right answers."""
    overlaps = [list(row) for row in table["overlaps"]]
    for _ in range(random.randrange(1, 30) if overlaps else 0):
        left, right = random.sample(range(len(overlaps)), 2)
        overlaps[left][right] = overlaps[right][left] = random.randint(0, overlaps[left][right])
    right = [[random.randint(0, most) for most in table["tested"]] for _ in table["right"]]
    return {**table, "overlaps": overlaps, "right": right}


def flipped(data: bytes, random: Random) -> bytes:
    """Bytes with some changed, removed, repeated, or added."""
    copy = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(copy) + 1)
        roll = random.random()
        if roll < 0.5 and place < len(copy):
            copy[place] ^= 1 << random.randrange(8)
        elif roll < 0.7:
            del copy[place : place + random.randrange(1, 40)]
        elif roll < 0.85:
            copy[place:place] = random.randbytes(random.randrange(1, 40))
        else:
            copy[place:place] = copy[: random.randrange(1, 80)]
    return bytes(copy)


def canonical(value: object) -> bytes:
    """As the code writes it: clients, which are keys of tables, in the order of their numbers."""
    return json.dumps(_keyed(value), sort_keys=True, separators=(",", ":")).encode()


def _keyed(value: object) -> object:
    if isinstance(value, list):
        return [_keyed(each) for each in value]
    if not isinstance(value, dict):
        return value
    numbers = all(key.isdecimal() for key in value)
    return {int(key) if numbers else key: _keyed(each) for key, each in value.items()}
