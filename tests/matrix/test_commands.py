"""Every command that reads a run, on a run of every kind; and what scripts read of it.

A command, or a name of ``fedgrove``, that is not listed here fails a test: whoever adds one says whether it reads runs,
and then it is tried on all of them.
"""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.core import TyperGroup

import fedgrove as fg
from fedgrove.chain.errors import BadHistory
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import StoreError
from fedgrove.node.audit.archive import export_car
from fedgrove.node.cli.listing import all_commands
from fedgrove.node.cli.main import command_line
from fedgrove.node.protocol.prediction import ModelChoice
from tests.matrix.kinds import KINDS, Run
from tests.node.cli.test_bad_input import Result, fedgrove
from tests.node.explorer.test_export import links
from tests.node.explorer.test_pages import check_well_formed

pytestmark = pytest.mark.xdist_group("matrix")

_names = (f"written-{number}" for number in itertools.count())


def _car(run: Run) -> Path:
    """A run's CAR file."""
    file = run.path if run.path.is_file() else run.folder / "own.car"
    if not file.exists():
        export_car(run.path, file)
    return file


def _data(run: Run) -> tuple[Path, list[object]]:
    """What a run's model predicts for, and what it needs to know besides."""
    if run.kind == "task":
        return run.folder / "data.csv", ["--task", run.folder / "task"]
    if run.kind in ("table", "images"):
        return run.folder / {"table": "sites/0.csv", "images": "pictures"}[run.kind], []
    shape = (6, 2) if run.kind == "kmeans" else (6, 1, 8, 8)
    values = np.random.default_rng(0).random(shape, np.float32)
    np.savez(run.folder / "new.npz", **{"points" if run.kind == "kmeans" else "x": values})
    return run.folder / "new.npz", ["--cluster", "1"] if run.kind == "procfl" else []


def _predict(run: Run, new: Path) -> list[object]:
    data, more = _data(run)
    return [run.path, "--data", data, *more, "--out", new, "--sandbox", "off"]


READS: dict[str, Callable[[Run, Path], list[object]]] = {
    "audit": lambda run, new: [run.path],
    "audit export": lambda run, new: [run.path, new],
    "audit verify": lambda run, new: [_car(run)],
    "history export": lambda run, new: [run.path, "--csv", new],
    "model save": lambda run, new: [run.path, new],
    "predict": _predict,
    "explorer": lambda run, new: [run.path, "--export", new, "--index", run.folder / "indexes"],
    "status": lambda run, new: ["--config", run.path],
    "doctor": lambda run, new: ["--config", run.path],
    "estimate": lambda run, new: ["--config", run.path, "--members", "3"],
}
"""Arguments with which a command reads a run, and writes what is new."""

ONLY_SOME = {
    **{command: {"live"} for command in ("status", "doctor", "estimate")},
    "audit export": set(KINDS) - {"car", "live"},
    "audit verify": set(KINDS) - {"live", "tampered"},
}
"""Kinds that a command takes, if not all: live federations, directories, and what can be made a CAR file of."""
CELLS = [(command, kind) for command in READS for kind in KINDS if kind in ONLY_SOME.get(command, KINDS)]

READS_NONE = {
    *("demo", "deploy", "register", "approve", "client", "coordinator", "simulate", "experiment", "attack"),
    *("keys new", "keys show", "keys backup", "keys restore", "keys rotate", "keys weigh", "keys attest"),
    *("task new", "task check", "task pack", "task base", "task show", "task approve", "task fetch"),
    *("network up", "network down", "network status", "privacy plan", "privacy spent", "completion"),
    *("kmeans", "unlearn"),  # they run a federation, and a member; what they leave is of the kind `kmeans`
    *(f"bench {name}" for name in ("bounds", "vrf", "chain", "masking", "privacy", "ipfs", "dropouts", "engine")),
    *(f"bench {name}" for name in ("unlearn", "unlearn-losses", "similarity", "explorer")),
}
"""Commands that read no run that somebody has."""

AUDITS = ("audit", "audit verify", "explorer")
AUDITED = {"tampered": 1, "broken": 1, "unreadable": 1, "stripped": 1, "no-round": 2, "no-member": 2, "stuck": 2}
"""Exit codes of an audit, where it finds a bad record, or that no round closed."""
_NO_MODEL = {
    "no-round": "the history has no round",
    "no-member": "the history has no round",
    "broken": "",
    "unreadable": "",
    "stripped": "does not hold this block",
}
REFUSED = {
    "audit export": {"tampered": "do not match its CID"},
    "history export": {
        "tampered": "do not match its CID",
        "broken": "",
        "unreadable": "",
        "stripped": "does not hold this block",
    },
    "model save": _NO_MODEL,
    "predict": _NO_MODEL,
}
"""Kinds that a command cannot serve, and what its sentence says of it; it ends with code 2."""


def words_of_commands() -> list[str]:
    """Every command by its words; groups that do something by themselves are ``audit``."""
    found = []
    for name in all_commands():
        command = command_line.commands[name]
        visible = command.commands.items() if isinstance(command, TyperGroup) else ()
        found += [f"{name} {inner}" for inner, each in visible if not each.hidden]
        if not isinstance(command, TyperGroup) or any(each.hidden for _, each in visible):
            found.append(name)
    return found


def test_every_command_is_known_to_read_runs_or_not_to():
    assert sorted(words_of_commands()) == sorted({*READS, *READS_NONE})
    assert not READS_NONE & set(READS)


def run_on(run: Run, command: str, *more: str) -> tuple[Result, Path]:
    """What a command printed, and where it wrote."""
    new = run.folder / next(_names)
    return fedgrove(*command.split(), *map(str, READS[command](run, new)), *more, cwd=run.folder), new


def expected(command: str, kind: str) -> int:
    """The exit code of a command on a kind."""
    if command in AUDITS:
        return AUDITED.get(kind, 0)
    return 2 if is_refused(command, kind) else 0


def is_refused(command: str, kind: str) -> bool:
    """Whether a command has no answer about a kind."""
    return kind in REFUSED.get(command, {})


@pytest.mark.parametrize(("command", "kind"), CELLS)
def test_every_command_reads_every_kind(runs, command, kind):
    result, _ = run_on(runs.of(kind), command)
    code = expected(command, kind)
    assert result.returncode == code, f"{result.returncode}\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stdout + result.stderr and result.stdout + result.stderr
    if code == 1:
        assert "bad record" in result.stdout
    if is_refused(command, kind):
        assert re.fullmatch(r"fedgrove: .+\n", result.stderr), result.stderr
        assert REFUSED[command][kind] in result.stderr
    else:
        assert result.stdout, "the answer is on stdout"


@pytest.mark.parametrize(("command", "kind"), [cell for cell in CELLS if not is_refused(*cell)])
def test_every_command_answers_machines_about_every_kind(runs, command, kind):
    result, _ = run_on(runs.of(kind), command, "--json")
    assert result.returncode == expected(command, kind) and json.loads(result.stdout), result.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_of_every_kind_has_every_page_and_no_dead_link(runs, kind):
    result, site = run_on(runs.of(kind), "explorer", "--json")
    written = json.loads(result.stdout)
    pages = list(site.rglob("*.html"))
    assert written["failed"] == [] and written["pages"] == len(pages)
    for page in pages:
        check_well_formed(page.read_text())
    for page, path in links(site):
        assert (page.parent / path).is_file(), f"{page} links to {path}"


def test_an_export_that_compares_has_runs_of_eight_kinds(runs, tmp_path):
    kinds = ("network", "task", "table", "images", "kmeans", "procfl", "eventful", "no-round")
    given = [str(runs.of(kind).path) for kind in kinds]
    result = fedgrove("explorer", *given, "--export", "site", "--index", "indexes", "--json", cwd=tmp_path)
    assert result.returncode == AUDITED["no-round"] and json.loads(result.stdout)["failed"] == [], result.stderr
    for page, path in links(tmp_path / "site"):
        assert (page.parent / path).is_file(), f"{page} links to {path}"


# --- what scripts read ------------------------------------------------------------------------------------------------

PYTHON = {"audit", "History", "load"}
"""Names of ``fedgrove`` that read a run."""
PYTHON_OTHERS = {
    *("Answers", "Data", "Predictor", "Round", "Run", "Standardise", "Task", "Unlabelled", "Verdict"),
    *("__version__", "demo", "simulate", "Scenario", "scenario"),
    *("Error", "InvalidInput", "InvalidContent", "Refused", "RunFailed", "ChainError", "StoreError"),
}
_OF_A_MODEL = ("model", "state_dict", "state_arrays", "origin", "predicting", "terms_bytes")


def _choice(history: fg.History) -> ModelChoice:
    return ModelChoice(cluster=1 if "procfl" in history.terms else None)


MEMBERS: dict[str, Callable[[fg.History], object]] = {
    "ledger": lambda history: history.ledger.deployment.ledger,
    "records": lambda history: history.records,
    "rounds": lambda history: history.rounds,
    "terms": lambda history: history.terms,
    "frame": lambda history: [history.frame(name) for name in ("rounds", "records", "metrics")],
    "model": lambda history: history.model(),
    "state_dict": lambda history: history.state_dict(),
    "state_arrays": lambda history: history.state_arrays(),
    "origin": lambda history: history.origin(),
    "predicting": lambda history: history.predicting(choice=_choice(history)),
    "terms_bytes": lambda history: history.terms_bytes(),
    "store": lambda history: history.store,
}
"""What is read of a ``History``."""
LACKING = {
    **dict.fromkeys((("no-round", name) for name in _OF_A_MODEL), fg.InvalidInput),
    **dict.fromkeys((("no-member", name) for name in _OF_A_MODEL), fg.InvalidInput),
    **dict.fromkeys(
        ((kind, name) for kind in ("procfl", "kmeans") for name in ("state_dict", "state_arrays")), InvalidContent
    ),
    **dict.fromkeys((("tampered", name) for name in ("rounds", "frame")), StoreError),
    **dict.fromkeys((("stripped", name) for name in MEMBERS if name not in ("ledger", "records", "store")), StoreError),
    **dict.fromkeys(((kind, name) for kind in ("broken", "unreadable") for name in MEMBERS), BadHistory),
}
"""What is raised where a kind has no such thing."""


def test_every_name_for_scripts_is_known_to_read_runs_or_not_to():
    assert set(fg.__all__) == PYTHON | PYTHON_OTHERS
    assert {name for name in dir(fg.History) if not name.startswith("_")} | {"ledger"} == set(MEMBERS)


def _place(run: Run) -> tuple[list, dict]:
    if run.live is None:
        return [run.path], {}
    return [run.live.network.url], {"ledger": run.live.deployment.ledger, "store": f"disk:{run.live.store.path}"}


@pytest.mark.parametrize("kind", KINDS)
def test_scripts_audit_every_kind(runs, kind):
    given, options = _place(runs.of(kind))
    verdict = fg.audit(*given, **options)
    assert verdict.exit_code == AUDITED.get(kind, 0) and verdict.to_dict()


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_scripts_read_every_kind(runs, kind, member):
    given, options = _place(runs.of(kind))
    fault = LACKING.get((kind, member))
    if fault is None:
        assert MEMBERS[member](fg.History(*given, **options)) is not None
        return
    with pytest.raises(fault) as raised:
        MEMBERS[member](fg.History(*given, **options))
    assert str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_scripts_predict_with_a_model_of_every_kind(runs, kind):
    run = runs.of(kind)
    given, options = _place(run)
    source = fg.History(*given, **options) if run.live else run.path
    data, _ = _data(run)
    chosen = {"cluster": 1} if kind == "procfl" else {"task": run.folder / "task"} if kind == "task" else {}
    fault = {"no-round": fg.InvalidInput, "no-member": fg.InvalidInput, "stripped": StoreError, "broken": BadHistory}
    if kind in (*fault, "unreadable"):
        with pytest.raises(fault.get(kind, BadHistory)):
            fg.load(source)
        return
    predictor = fg.load(source, sandbox="off", **chosen)
    found = predictor.predict(data)
    assert len(found.rows) > 0 and predictor.about["round"] and predictor.terms
