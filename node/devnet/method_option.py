"""``--method`` of a federation on this machine: what becomes of it in the terms."""

import tomllib

from fedgrove.node.base.inline import inline_table
from fedgrove.node.base.strict_tables import InvalidConfig, build
from fedgrove.node.methods.procfl.course import FEWEST
from fedgrove.node.methods.procfl.terms import MAX_CLUSTERED, ProCflTerms
from fedgrove.node.protocol.terms import MembershipSettings

FEWEST_CLIENTS = 2 * FEWEST
NOBODY = "0x" + 40 * "0"
TRAINING = "training"
_PROCFL = "procfl"
_ALIKE = 0.5  # suits groups of clients that have a fifth of their samples in common with all


def membership_for(clusters: ProCflTerms | None) -> MembershipSettings:
    """Open to all, but where a counter of overlaps must be no member (spec 08, finding 20)."""
    return MembershipSettings("open" if clusters is None else "approved")


def cluster_terms(given: str, counter: bytes = bytes(32), signer: str = NOBODY) -> ProCflTerms | None:
    """The ``[procfl]`` table that ``--method`` asks a federation on this machine for; None for ``training``.

    Parameters
    ----------
    counter, signer : bytes, str
        The coordinator's mailbox key and account; without them the terms can be looked at, and not used.

    Raises
    ------
    InvalidConfig
        Another method, an unknown key, or a value that is not allowed.
    """
    try:
        name, table = inline_table(given or TRAINING)
    except tomllib.TOMLDecodeError as fault:
        raise InvalidConfig(f"--method must be like 'procfl, seats = 3', not {given!r}: {fault}") from None
    if name not in (TRAINING, _PROCFL) or (name == TRAINING and table):
        raise InvalidConfig(f"--method must be training, or procfl and settings, not {given!r}")
    if name == TRAINING:
        return None
    return build(ProCflTerms, {"alpha": _ALIKE, **table}, "--method", counter=counter.hex(), signer=signer)


def ledger_rounds(rounds: int, given: str) -> int:
    """Rounds on the ledger: those that train, and before them, where clients are to cluster, those that compare."""
    terms = cluster_terms(given)
    return rounds + (terms.first_rounds if terms else 0)


def check_method(given: str, clients: int) -> None:
    """Raise InvalidConfig unless this number of clients can be split into the groups that ``--method`` asks for."""
    terms = cluster_terms(given)
    if terms is None:
        return
    if clients < FEWEST_CLIENTS:
        raise InvalidConfig(
            f"--method needs --clients {FEWEST_CLIENTS} or more, two groups of {FEWEST}: smaller groups are not summed"
        )
    if clients > MAX_CLUSTERED:
        raise InvalidConfig(f"--method takes at most {MAX_CLUSTERED} clients: all overlaps are in one statement")
