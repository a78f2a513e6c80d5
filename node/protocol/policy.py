"""What an honest member refuses although the ledger allows it: pure functions of the records and the terms.

Each returns why, in one clause; an empty string where nothing is in the way.

Whoever can keep members out of a round (a coordinator, an admin, whoever censors transactions) could leave a client
alone among colluders: a round without enough of the members that it knows may be a trap. So a client takes part only
where at least a share ``membership.least`` of the members that it can count on has drawn: those that the terms name, or
else those that committed in one of the last rounds that closed.
"""

import math

from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import PPM, FederationConfig

LOOK_BACK = 3
_DEVIATIONS = 3.0


def strangers(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> list[int]:
    """Clients of a sealed round that are none of the members named in the terms; none where they name nobody."""
    named = config.membership.members
    return [client for client in current.order if named and rounds.members[client].account not in named]


def known_members(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> set[int]:
    """The members that a client counts on to be in a round."""
    named = config.membership.members
    if named:
        opened = current.opened.opened_at
        known = {
            client
            for client, member in rounds.members.items()
            if member.account in named and member.active_from <= opened
        }
    else:
        closed = [each for each in rounds.rounds.values() if each.stands and each.number < current.number]
        known = {client for each in closed[-LOOK_BACK:] for client in each.commits}
    return {client for client in known if not rounds.left(client, current.opened.opened_at)}


def attendance_fault(rounds: Rounds, current: RoundRecords, config: FederationConfig) -> str:
    """Why a client must not take part in a sealed round, given who has drawn.

    Where a sample is drawn, chance may leave out more than usual: three standard deviations are allowed for.
    """
    unknown = strangers(rounds, current, config)
    if unknown:
        return f"client {unknown[0]} is not a member that the terms name (membership.members)"
    known = known_members(rounds, current, config)
    rate = current.opened.sampling_rate / PPM
    expected = rate * len(known)
    least = config.membership.least * expected - _DEVIATIONS * math.sqrt(expected * (1 - rate))
    present = len(known.intersection(current.order))
    if present >= least:
        return ""
    return (
        f"only {present} of the {len(known)} members that it counts on have drawn, but "
        f"{math.ceil(least)} are needed (membership.least)"
    )


def opening_fault(rounds: Rounds, current: RoundRecords, terms: bytes, first_model: bytes, ending: str) -> str:
    """Why a client must not take part in a round that was opened like this.

    Parameters
    ----------
    terms, first_model : bytes
        The digests of the terms that the client agreed to, and of the model that training starts from under them.
    ending : str
        Why the training has ended, in one clause; empty while it goes on.
    """
    if current.opened.config_digest != terms:
        return "the coordinator: it opened the round under terms this client did not agree to"
    if rounds.base is None and current.opened.model_digest != first_model:
        return "its members: training does not start from the model in the terms"
    return f"the coordinator: it opened the round after the training had ended, as {ending}" if ending else ""
