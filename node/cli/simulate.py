"""``fedgrove simulate``: federated learning of many clients, without chain and store."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from fedgrove.common.errors import Error, RunFailed
from fedgrove.node.cli.log_to import LogTarget, LogTo, log_targets, opened_logs
from fedgrove.node.cli.output import FAILED, CommandError, answer, complain, note, print_json, read_seeds
from fedgrove.node.cli.scenario_options import Asked, takes
from fedgrove.node.cli.simulated_runs import print_runs
from fedgrove.node.scenario.reading import MANY_CLIENTS, left_out
from fedgrove.node.simulation.checks import check_simulated
from fedgrove.node.simulation.logged_rounds import LoggedRounds
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the records to stdout.")] = False,
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
