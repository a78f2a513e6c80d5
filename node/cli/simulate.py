"""``fedgrove simulate``: federated learning of many clients, without chain and store."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from fedgrove.common.errors import Error, RunFailed
from fedgrove.node.cli.log_to import LogTarget, LogTo, log_targets, opened_logs
from fedgrove.node.cli.options import JsonFlag
from fedgrove.node.cli.output import FAILED, CommandError, answer, answer_with, complain, note, print_json, read_seeds
from fedgrove.node.cli.scenario_options import Asked, takes
from fedgrove.node.protocol.members_metrics import described
from fedgrove.node.scenario.reading import MANY_CLIENTS, left_out
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.logged_rounds import LoggedRounds
from fedgrove.node.simulation.record import RunRecord
from fedgrove.node.simulation.session import Runs, SimulatedRun, open_session


@takes(
    *("clients", "rounds", "dataset", "task", "data", "alpha", "strategy", "method", "bases", "sandbox", "data_dir"),
    *("executor", "workers"),
    preset=MANY_CLIENTS,
)
def simulate(
    asked: Asked,
    seeds: Annotated[str | None, typer.Option(help="Seeds of the randomness, one run each: 0,1,2.")] = None,
    out: Annotated[Path | None, typer.Option(help="Keep checkpoints, records and figures here.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    log_to: LogTo = None,
    as_json: JsonFlag = False,
) -> None:
    """Train many clients on this machine's cores or on a cluster; the same scenario gives the same bytes anywhere.

    Example: fedgrove simulate --clients 100 --rounds 20 --strategy fedaom --alpha 0.1 --seeds 0,1,2 --out runs/skewed
    """
    scenario = asked.scenario()
    check_simulated(scenario)
    unfollowed = left_out(scenario)
    if unfollowed:
        note(unfollowed)
    if resume and out is None:
        raise CommandError("--resume needs --out, the directory of the run to go on with")
    runs = _run_all(Runs(scenario, () if seeds is None else read_seeds(seeds), out, resume), log_targets(log_to))
    if as_json:
        print_json({"runs": [{"record": run.record.to_json(), "seconds": run.seconds} for run in runs]})
    else:
        print_runs(runs)
        if out is not None:
            answer(f"Kept in {out}")


def _run_all(runs: Runs, targets: tuple[LogTarget, ...]) -> list[SimulatedRun]:
    """Run from one seed after the other, and draw the figures; every end of a run in one sentence."""
    out = runs.out
    go_on = f"; what is done is kept in {out}, --resume goes on" if out else ""
    try:
        return _run_on(runs, targets)
    except OSError as fault:
        raise CommandError(f"{fault.strerror or fault}: {fault.filename or out or 'no file'}{go_on}") from None
    except Error as failure:
        kept = go_on if failure.exit_code == FAILED else ""
        raise CommandError(f"{failure}{kept}", failure.exit_code) from None
    except KeyboardInterrupt:
        raise CommandError(f"stopped{go_on}", 130) from None


def _run_on(runs: Runs, targets: tuple[LogTarget, ...]) -> list[SimulatedRun]:
    with ExitStack() as stack:
        logs = stack.enter_context(opened_logs(targets, complain))
        session = stack.enter_context(open_session(runs))
        # Imported here, when the workers have been started: these bring torch.
        from fedgrove.node.cli.rounds_progress import RoundsDisplay

        display = stack.enter_context(RoundsDisplay(sum(each.rounds for each in runs.scenarios)))
        watcher = LoggedRounds(display, logs)
        done = [session.run(each, watcher) for each in runs.scenarios]
        if runs.out is not None:
            try:
                session.draw([run.record for run in done])
            except RunFailed as fault:
                note(f"No figures: {fault}")
    return done


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
    from fedgrove.node.simulation.kinds import kind_of  # it brings torch

    for sentence in filter(None, (kind_of(plan).summary(run.record) for run in runs)):
        answer(sentence)
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


def _figure(value: float | None) -> str:
    """A figure of a round; a dash where there is none, as for the accuracy of a regression."""
    return "-" if value is None else f"{value:.4f}"
