"""A federation of seven clients in two clusters, in each state that a course comes through."""

from dataclasses import replace

import numpy as np

from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.similarity import in_the_clear
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.terms import ProCflTerms

SETTINGS = {"alpha": 0.5, "global_share": 0.5, "seats": 2, "tolerance": 0.1, "pause": 2}
FAIR = {"least_overlap": 0.04, "least_pool": 0.4}
TERMS = ProCflTerms(**SETTINGS, **FAIR, counter="ab" * 32, signer="0x" + "ab" * 20)
COURSE = Course(TERMS, rounds=11, labels=2)
COUNTS = np.array([[20, 1], [18, 2], [19, 0], [1, 20], [0, 18], [2, 22], [3, 19]])
"""Of clients 2, 3, 5, 7, 8, 9 and 10: two groups, of three and of four."""
CLIENTS = (2, 3, 5, 7, 8, 9, 10)
FIRST, SECOND = (2, 3, 5), (7, 8, 9, 10)
TESTED = (100, 100)


def model(number: float):
    return {"weight": np.full((2, 2), number, np.float32), "bias": np.full(2, -number, np.float32)}


def overlaps():
    return tuple(map(tuple, in_the_clear(COUNTS).overlaps.tolist()))


def compared() -> ClusterState:
    """All have answered; the coordinator is to count."""
    sets = {client: ("cd" * 32, int(counts.sum())) for client, counts in zip(CLIENTS, COUNTS, strict=True)}
    return ClusterState("count", (model(0),), sets=sets, clients=CLIENTS)


def clustered() -> ClusterState:
    """The clusters, in the order of the clients."""
    return replace(COURSE.after_statement(compared(), Stated(overlaps=overlaps())), clusters=(FIRST, SECOND))


def watched(found, *, trained=1, models=(1,), course=COURSE, **changes) -> ClusterState:
    """After a round of training, when models were tested."""
    groups = (FIRST, SECOND)
    state = replace(clustered(), stage="watch", labels=((57, 3), (6, 79)), trained=trained, groups=groups)
    trials = (model(7), model(8)) if len(models) == 1 else ()
    state = replace(state, models=tuple(map(model, models)), trials=trials, began="ef" * 32, **changes)
    return course.after_statement(ClusterState.from_bytes(state.to_bytes()), Stated(right=found, tested=TESTED))


def unfair(**terms) -> Course:
    """A course by other terms."""
    return Course(replace(TERMS, **terms), rounds=11, labels=2)


def reference(*right, **changes):
    """What is kept of good rounds before."""
    return {"references": tuple(map(model, range(10, 10 + len(right)))), "right": right, "tested": TESTED, **changes}


def parted() -> ClusterState:
    """After a round of one model in two parts, before anybody tested it."""
    state = replace(clustered(), stage="watch", labels=((57, 3), (6, 79)), trained=1, groups=(FIRST, SECOND))
    return replace(state, trials=(model(7), model(8)))


def full() -> ClusterState:
    state = watched(((10, 90), (50, 60)), models=(1, 2), trained=5, **reference((50, 60)))
    return replace(state, expelled={7: 1}, judged={3: 4}, cases=(Case(0, FIRST, SECOND, (2, 3), (7, 8), (1, 0)),))
