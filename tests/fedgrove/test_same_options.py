"""The runners of a federation take the same options, but for what has a reason.

``demo``, ``network up`` and ``simulate`` are commands, ``fg.demo`` and ``fg.simulate`` are calls from Python.
"""

import inspect

import fedgrove as fg
from fedgrove.node.cli.main import command_line

RUNNERS = ("demo", "network up", "fg.demo", "simulate", "fg.simulate")
NAMES = {
    "source": "data",
    "base": "bases",
    "dataset": "task",  # in Python one parameter, which names a task or a data set
    "change": "settings",  # --set of simulate
    "directory": "out",
    "seeds": "seed",  # a simulation's command runs several
}
"""Parameters that have another name in one place than in the others."""
NOT_IN_PYTHON = "print as JSON: a call returns objects"
ONLY_IN_PYTHON = "a call says what goes on by it; a command prints it"
PROCESSES = "each member is a process of its own"
NO_LEDGER = "a simulation has no ledger, store, masks or pages"
IN_PLAN = "a simulation's plan has it, and --set or settings change it"
A_PLAN = "a demonstration and a testnet have no plan's file"
TESTNET = "only a testnet has processes to lay out"
LACKS = {
    "as_json": {"fg.demo": NOT_IN_PYTHON, "fg.simulate": NOT_IN_PYTHON},
    "progress": {"demo": ONLY_IN_PYTHON, "network up": ONLY_IN_PYTHON, "simulate": ONLY_IN_PYTHON},
    "drop": {"network up": f"{PROCESSES}: end one to drop it out", "simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "workers": {"network up": PROCESSES},
    "log_to": {"network up": f"{PROCESSES}, and its coordinator logs by its own --log-to"},
    "resume": {"network up": "`network up` resumes by itself"},
    "masking": {"simulate": NO_LEDGER, "fg.simulate": NO_LEDGER},
    "chain": {"simulate": NO_LEDGER, "fg.simulate": NO_LEDGER},
    "store": {"simulate": NO_LEDGER, "fg.simulate": NO_LEDGER},
    "explorer": {"simulate": NO_LEDGER, "fg.simulate": NO_LEDGER},
    "held_out": {"simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "patience": {"simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "epsilon": {"simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "portable": {"simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "table_format": {"simulate": IN_PLAN, "fg.simulate": IN_PLAN},
    "plan": {"demo": A_PLAN, "network up": A_PLAN, "fg.demo": A_PLAN},
    "executor": dict.fromkeys(("demo", "network up", "fg.demo"), "trained by workers, or by processes"),
    "keep_models": {
        **dict.fromkeys(("demo", "network up", "fg.demo"), "the store keeps all models"),
        "simulate": "a command has nobody to give them to",
    },
    **{
        name: dict.fromkeys(("demo", "fg.demo", "simulate", "fg.simulate"), TESTNET)
        for name in ("kubo_nodes", "block_seconds", "standby", "wait")
    },
    "k": dict.fromkeys(("demo", "fg.demo", "simulate", "fg.simulate"), "`fedgrove kmeans` has it"),
}
"""What each lacks, and why; whatever else one takes, all take."""


def options(runner: str) -> set[str]:
    if runner.startswith("fg."):
        names = set(inspect.signature(getattr(fg, runner.removeprefix("fg."))).parameters)
    else:
        command = command_line
        for word in runner.split():
            command = command.commands[word]
        names = {parameter.name for parameter in command.params}
    return {NAMES.get(name, name) for name in names}


def test_the_runners_take_the_same_options_or_there_is_a_reason():
    taken = {runner: options(runner) for runner in RUNNERS}
    lacking = {
        name: {runner for runner in RUNNERS if name not in taken[runner]} for name in set().union(*taken.values())
    }
    assert {name: found for name, found in lacking.items() if found} == {name: set(why) for name, why in LACKS.items()}
