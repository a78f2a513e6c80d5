"""``fedgrove privacy``: what a budget asks for, and what a training has spent."""

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from fedgrove.common.errors import InvalidInput
from fedgrove.node.cli.options import JsonFlag, group
from fedgrove.node.cli.output import CommandError, answer, answer_with, print_json
from fedgrove.node.cli.values import words
from fedgrove.node.privacy.settings import ClientLevelSettings

if TYPE_CHECKING:  # imported where it is used, as what it needs takes a second to load
    from fedgrove.node.privacy.plan import Cost, Outlook, PlannedSpending, PlannedTraining

app = group("Plan and count client-level differential privacy.")

Clients = Annotated[int, typer.Option(help="Clients of the federation, K.")]
Rate = Annotated[float, typer.Option(help="Probability that a client is drawn in a round.")]
Rounds = Annotated[int, typer.Option(help="Rounds of the training, T.")]
Delta = Annotated[float, typer.Option(help="δ: less than 1 / number of clients.")]
Dropouts = Annotated[float, typer.Option(help="Fraction of a round's clients that may drop out with their noise.")]


@app.command("plan")
def plan(
    clients: Clients,
    rate: Rate,
    rounds: Rounds,
    epsilon: Annotated[float, typer.Option(help="ε of the whole training.")] = 8.0,
    delta: Delta = 1e-5,
    parameters: Annotated[int, typer.Option(help="Parameters of the model, d.")] = 1_600_000,
    dropouts: Dropouts = 0.0,
    participation: Annotated[
        str,
        typer.Option(
            help="public: participation is known, as on a ledger; secret: only models are seen.",
            **words("public", "secret"),
        ),
    ] = "public",
    as_json: JsonFlag = False,
) -> int:
    """Compute how much noise a budget requires, and how long that noise is compared with the update.

    Example: fedgrove privacy plan --clients 1000 --rate 0.22 --rounds 54 --epsilon 8 --delta 1e-5
    """
    from fedgrove.node.privacy.plan import outlook

    if participation not in ("public", "secret"):
        raise CommandError(f"--participation must be public or secret, not {participation!r}")
    if not 1e-3 <= epsilon <= 1000:
        raise CommandError(f"--epsilon must be from 0.001 to 1000, not {epsilon:g}")
    training = _training(clients, rate, rounds, parameters, delta, dropouts)
    found = outlook(training, epsilon, participation)
    secret = participation == "secret"
    advice = _advice(training, found, epsilon if secret else 0.0)
    if as_json:
        terms = {**dataclasses.asdict(training), "epsilon": epsilon, "participation": participation}
        print_json({"training": terms, "outlook": _finite(dataclasses.asdict(found)), "advice": advice})
        return 0
    counted = "all rounds" if secret else "rounds a client may take part in"
    _show(
        f"ε = {epsilon:g} at δ = {delta:g}, {clients:,} clients, {training.drawn:,.4g} expected a round",
        [
            ("noise multiplier σ", f"{found.noise_multiplier:g}"),
            (f"{counted}", f"{found.counted_rounds:,}"),
            ("noise in a parameter of the mean", f"{found.noise_deviation:.3g} · S"),
            ("noise to signal, at best", f"{found.noise_to_signal:.3g}"),
            ("clients a round for a ratio of 1", f"{found.drawn_for_one:,}"),
            ("noise to signal with local noise", f"{found.local_noise_to_signal:.3g}"),
            *((f"ε towards {who}", f"{spent.epsilon:.4g}") for who, spent in _towards(found.cost)),
        ],
    )
    for sentence in advice:
        answer(sentence)
    return 0


@app.command("spent")
def spent(
    clients: Clients,
    rate: Rate,
    rounds: Annotated[int, typer.Option(help="Rounds so far.")],
    noise_multiplier: Annotated[
        float, typer.Option(help=("σ: standard deviation of the noise in the sum, divided by S."))
    ],
    delta: Delta = 1e-5,
    participations: Annotated[
        int, typer.Option(min=-1, help="Also report a client with this many rounds; -1: none.")
    ] = -1,
    dropouts: Dropouts = 0.0,
    lost: Annotated[
        float, typer.Option(min=0, max=0.99, help=("Fraction of the clients that dropped out with their noise."))
    ] = 0.0,
    epsilon: Annotated[float, typer.Option(help="Budget, to see how many rounds are left; 0: none.")] = 0.0,
    as_json: JsonFlag = False,
) -> int:
    """Compute what rounds with this noise have cost: towards observers of models only, and readers of the ledger.

    Example: fedgrove privacy spent --clients 100 --rate 0.5 --rounds 11 --noise-multiplier 1 --delta 1e-3
    """
    from fedgrove.node.privacy.plan import cost

    if not 0.01 <= noise_multiplier <= 1000:
        raise CommandError(f"--noise-multiplier must be from 0.01 to 1000, not {noise_multiplier:g}")
    if participations > rounds:
        raise CommandError(f"--participations must be at most --rounds, {rounds}, not {participations}")
    if not 0 <= epsilon <= 1000:
        raise CommandError(f"--epsilon must be from 0 to 1000, not {epsilon:g}")
    training = _training(clients, rate, rounds, 1, delta, dropouts)
    own = None if participations < 0 else participations
    found = cost(training, noise_multiplier, own, lost, epsilon or None)
    if as_json:
        print_json(_finite(dataclasses.asdict(found)))
        return 0
    table = Table(title=f"spent at δ = {delta:g}", box=box.SIMPLE_HEAD)
    for heading in ("towards", "ε", *(["rounds left"] if epsilon else [])):
        table.add_column(heading)
    for who, each in _towards(found):
        table.add_row(who, f"{each.epsilon:.4g}", *([f"{each.rounds_left:,}"] if epsilon else []))
    answer_with(table)
    return 0


def _towards(cost: "Cost") -> list[tuple[str, "PlannedSpending"]]:
    """Towards whom a cost holds."""
    readers = "readers of the ledger"
    rows = [
        (f"observers of models only ({cost.models.rounds:,} rounds)", cost.models),
        (f"{readers}: average client ({cost.average.rounds:,} rounds)", cost.average),
        (f"{readers}: most-drawn client ({cost.most_drawn.rounds:,} rounds)", cost.most_drawn),
    ]
    return rows + ([(f"{readers}: a client drawn {cost.own.rounds:,} times", cost.own)] if cost.own else [])


def _training(
    clients: int, rate: float, rounds: int, parameters: int, delta: float, dropouts: float
) -> "PlannedTraining":
    from fedgrove.node.privacy.plan import PlannedTraining

    try:
        return PlannedTraining(clients, rate, rounds, parameters, delta, dropouts)
    except InvalidInput as fault:
        raise CommandError(f"--{fault}") from None


def _advice(training: "PlannedTraining", found: "Outlook", secret: float) -> list[str]:
    """Advice on S, δ and the noise; ``secret``: the ε that assumes secret participation, or 0."""
    sentences = [
        "S: use the median norm of updates trained on public data, or let it adapt (clipping = quantile); "
        "below that, signal and noise shrink equally."
    ]
    if training.delta * training.clients >= 1:
        sentences.append(f"δ = {training.delta:g} permits exposing one of {training.clients:,} clients: lower it.")
    if secret:
        from fedgrove.node.privacy.sampling import least_max_clients

        settings = ClientLevelSettings(epsilon=secret, delta=training.delta, participation="secret")
        cap = least_max_clients(settings, training.rate, training.clients, training.rounds)
        sentences.append(
            f"A ledger reveals participation: towards its readers ε is not {secret:g} but "
            f"{found.cost.average.epsilon:.3g} for an average client and {found.cost.most_drawn.epsilon:.3g} for the "
            "most-drawn client."
        )
        sentences.append(
            f"ledger.max_clients must be at least {cap:,}: a full round breaks the sampling that ε assumes."
        )
    if found.noise_to_signal > 1:
        sentences.append(
            f"The noise is {found.noise_to_signal:.3g} times as long as the mean update at best: draw more clients, "
            "train a smaller model, or fewer rounds."
        )
    if found.local_noise_to_signal > 10 * max(found.noise_to_signal, 1):
        local = found.local_noise_to_signal
        sentences.append(f"With local noise it would be {local:.3g} times as long, which is useless here.")
    return sentences


def _show(title: str, rows: list[tuple[str, str]]) -> None:
    table = Table(title=title, box=box.SIMPLE_HEAD, show_header=False)
    for row in rows:
        table.add_row(*row)
    answer_with(table)


def _finite(table: dict) -> dict:
    """The same with None for what is infinite."""
    tables = {name: _finite(value) if isinstance(value, dict) else value for name, value in table.items()}
    return {name: None if value == math.inf else value for name, value in tables.items()}
