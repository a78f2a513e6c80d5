"""Leaders of clusters, drawn from the members by the outputs of their verifiable random functions."""

import hashlib
from collections.abc import Mapping, Sequence

_DRAW = b"fedgrove cluster leader 1"


def draw_leader(members: Sequence[int], outputs: Mapping[int, bytes]) -> int | None:
    """The member with the least ticket SHA-256(β ‖ members).

    A member can neither choose its β nor know another's beforehand. The members are part of the ticket, so that a
    client with a low β does not lead every cluster it is in.

    Parameters
    ----------
    members : sequence of int
        The cluster.
    outputs : mapping
        β, 32 bytes, by client: of those who took part in the draw, their proofs verified.

    Returns
    -------
    int or None
        The leader; None if no member took part.
    """
    cluster = b"".join(member.to_bytes(4) for member in sorted(members))
    tickets = {
        hashlib.sha256(_DRAW + outputs[member] + cluster).digest(): member for member in members if member in outputs
    }
    return tickets[min(tickets)] if tickets else None
