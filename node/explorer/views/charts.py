"""What is drawn over the rounds."""

from collections.abc import Sequence

from markupsafe import Markup

from fedgrove.node.explorer import drawings
from fedgrove.node.explorer.figures import UNITS, unit_of
from fedgrove.node.explorer.views.rounds import MAX_OWN_METRICS, CheckedRound, stated
from fedgrove.node.status.price import Price


def charts(rounds: Sequence[CheckedRound], price: Price | None, practice: bool) -> dict[str, Markup]:
    """Charts by their captions; only those that have something to show. With a price, fees are in its currency."""
    last = len(rounds)
    scores, losses, spent = (stated(rounds, name) for name in ("accuracy", "loss", "privacy.epsilon"))
    found = {}
    if scores:
        found["Accuracy"] = drawings.lines(scores, last, "Accuracy of the closed models over rounds", "accuracy", 1.0)
    if losses:
        found["Loss"] = drawings.lines(losses, last, "Loss of the closed models over rounds", "loss")
    found |= _of_members(rounds, last)
    if spent:
        title = "Largest ε spent by a client over rounds"
        found["Privacy spent, ε"] = drawings.lines(spent, last, title, "epsilon")
    if any(row.fee for row in rounds):
        unit = unit_of(row.fee or 0.0 for row in rounds)
        paid = f"{'Practice fees' if practice else 'Fees'}, {unit}"
        caption, factor = (f"Cost, {price.currency}", price.amount) if price else (paid, 1 / UNITS[unit])
        costs = [(place, fee * factor) for place, fee in stated(rounds, "fee")]
        found[caption] = drawings.bars(costs, last, f"{caption}, of each round", "gas")
    if rounds:
        found["Gas"] = drawings.bars(stated(rounds, "gas_used"), last, "Gas of each round", "gas")
        title = "Bytes that clients uploaded in each round"
        found["Uploaded bytes"] = drawings.bars(stated(rounds, "bytes"), last, title, "bytes")
    return found


def _of_members(rounds: Sequence[CheckedRound], last: int) -> dict[str, Markup]:
    """What the members found, each for the model that a round began with."""
    scores, losses = (stated(rounds, name) for name in ("members.accuracy", "members.loss"))
    found = {}
    if scores:
        title = "Accuracy that the members found for the model that each round began with"
        found["Members’ accuracy"] = drawings.lines(scores, last, title, "accuracy", 1.0)
    if losses:
        title = "Loss that the members found for the model that each round began with"
        found["Members’ loss"] = drawings.lines(losses, last, title, "loss")
    for name in sorted({name for row in rounds for name in row.own_metrics})[:MAX_OWN_METRICS]:
        points = [(place, row.own_metrics[name]) for place, row in enumerate(rounds, 1) if name in row.own_metrics]
        if min(value for _, value in points) < 0:  # it has no place on these scales; the page of each round states it
            continue
        title = f"{name} that the members found for the model that each round began with"
        found[f"Members’ {name}"] = drawings.lines(points, last, title, "accuracy")
    return found
