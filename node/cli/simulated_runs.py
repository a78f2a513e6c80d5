"""Runs of ``fedgrove simulate`` that have ended, as a table."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from fedgrove.node.cli.output import answer, answer_with
from fedgrove.node.protocol.members_metrics import described
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.session import SimulatedRun

# The paper's accuracy is the mean over this many last rounds.
LAST_ROUNDS = 20


def print_runs(runs: Sequence[SimulatedRun]) -> None:
    """Print a table with a line a run, and the sentences that a reader of its figures needs."""
    plan = runs[0].record.scenario
    stepped = f" and the server's {plan.server.step}" if plan.server else ""
    table = Table(title=f"{plan.strategy.name}{stepped} on {plan.subject}", box=box.SIMPLE_HEAD)
    headings = ("seed", "rounds", "accuracy", f"mean of last {LAST_ROUNDS}", "loss", "seconds")
    for heading in (*headings, *(("ε", "δ") if plan.privacy else ())):
        table.add_column(heading, justify="right")
    for run in runs:
        rounds = run.record.rounds
        accuracies = [result.accuracy for result in rounds[-LAST_ROUNDS:] if result.accuracy is not None]
        spent = rounds[-1].privacy
        table.add_row(
            str(run.record.scenario.seed),
            str(len(rounds)),
            _figure(rounds[-1].accuracy),
            _figure(sum(accuracies) / len(accuracies) if accuracies else None),
            _figure(rounds[-1].loss),
            f"{run.seconds:.1f}",
            *((f"{spent['epsilon']:.3g}", f"{getattr(plan.privacy, 'delta', 0):g}") if spent else ()),
        )
    answer_with(table)
    for run in runs if plan.method else ():
        answer(_of_clusters(run.record))
    if plan.task and runs[0].record.rounds[-1].loss is None:
        sentence = "The task's data() holds nothing out, so models are not evaluated; the records have train_loss."
        answer(sentence)
    for record in (run.record for run in runs):
        _print_members(record)
    if any(result.cut_off for run in runs for result in run.record.rounds):
        values = ", ".join(str(sum(result.cut_off for result in run.record.rounds)) for run in runs)
        answer(
            f"Values that clients uploaded at masking.bound ({plan.masking.bound:g}) instead of beyond it: {values}."
        )
    if plan.privacy and any(len(run.record.rounds) < plan.rounds for run in runs):
        answer(f"The privacy budget ends before round {plan.rounds}.")
    if getattr(plan.privacy, "participation", "") == "secret":
        readers = ", ".join(f"{run.record.rounds[-1].figure('ledger_epsilon'):.3g}" for run in runs)
        sentence = f"ε holds towards those who see only models; readers of a ledger, who know who was drawn: {readers}."
        answer(sentence)
    if plan.privacy:
        sentence = "Simulated noise follows from the seed: it shows what privacy costs, and protects nobody."
        answer(sentence)


def _print_members(record: RunRecord) -> None:
    """What the clients found of the last model, and why their loss ended the run; nothing where it is not asked for."""
    found, seed = record.last_model, record.scenario.seed
    if found and (found.get("samples") or "noise" in found):
        line = f"members for the last model, seed {seed}: {described(found)}"
        answer(line)
    if record.ending:
        line = f"ended after round {len(record.rounds)}, seed {seed}: {record.ending}"
        answer(line)


def _of_clusters(record: RunRecord) -> str:
    """A sentence on a clustered run."""
    last = record.rounds[-1].clusters
    expelled = sum(len(found.expelled) for result in record.rounds for found in result.clusters.judgements)
    return (
        f"Seed {record.scenario.seed}: personalised accuracy {last.personal_accuracy:.4f}, "
        f"{sum(map(bool, last.groups))} models in the last round, {expelled} clients expelled"
    )


def _figure(value: float | None) -> str:
    """A figure of a round; a dash where there is none, as for the accuracy of a regression."""
    return "-" if value is None else f"{value:.4f}"
