"""Write the tables of the documentation that follow from the code: ``python scripts/docs_tables.py [--check]``."""

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from eth_utils import to_checksum_address

from fedgrove.chain.records import KINDS, Record
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.cli.scenario_options import option
from fedgrove.node.learning.image_settings import ImageSettings
from fedgrove.node.learning.server_steps import SERVER_STEPS
from fedgrove.node.learning.settings import EvaluationSettings, PartitionSettings
from fedgrove.node.learning.strategies import STRATEGIES
from fedgrove.node.learning.tables.formats import TableFormat
from fedgrove.node.learning.tables.settings import Column, TableSettings
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.masking.collusion import FRACTIONS, exposure_table
from fedgrove.node.masking.parameters import DEFAULT_ASSUMED, PPM, Assumed, crowd
from fedgrove.node.methods.procfl.evidence import Rule
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.privacy.settings import MECHANISMS
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.kmeans import KMeansChoice
from fedgrove.node.scenario.names import NAMED
from fedgrove.node.scenario.poisoning import AttackSettings
from fedgrove.node.scenario.settings import Cast, RunSettings, TaskChoice

DOCS = Path(__file__).resolve().parent.parent / "docs"


def collusion() -> str:
    """What the default terms give rounds of this many clients, and the chance of exposing somebody."""
    chances = [f"{fraction:.0%} collude" for fraction in FRACTIONS]
    head = ["clients", "partners", "holders", "threshold", *chances, "two lists gain nothing up to"]
    lines = [_row(head), _row(["---:"] * len(head))]
    for row in exposure_table():
        numbers = (row.clients, row.partners, row.holders, row.threshold)
        cells = [f"{number:,}" for number in numbers] + [_chance(bound) for bound in row.bounds]
        lines.append(_row([*cells, str(row.views)]))
    return "\n".join(lines)


def ledger() -> str:
    """Keys, defaults and meaning of the ``[ledger]`` table."""
    return _fields(LedgerSettings)


def limits() -> str:
    """What suits this many members under the default assumptions, and how few are summed together."""
    task = TaskSettings(name="network", options={"name": "small-cnn", "input_shape": [1, 8, 8], "classes": 10})
    config = FederationConfig(method=TrainingTerms(), task=task)
    lines = [_row(["members", "`quorum`", "`releases`", "`judges`", "fewest in a sum"]), _row(["---:"] * 5)]
    for n in (3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 50, 64, 100):
        ledger = config.with_members([to_checksum_address(number.to_bytes(20, "big")) for number in range(n)]).ledger
        numbers = (n, ledger.quorum, ledger.releases, ledger.judges, crowd(n, DEFAULT_ASSUMED))
        lines.append(_row([str(number) for number in numbers]))
    return "\n".join(lines)


def crowds() -> str:
    """How few are summed together, by how many are assumed to collude, and which part of all members that is."""
    shares = (DEFAULT_ASSUMED.colluders / PPM, 0.2, 0.1, 0.0)
    head = ["members", *(f"`masking.colluders` {share:g}" for share in shares)]
    lines = [_row(head), _row(["---:"] * len(head))]
    for n in (6, 8, 10, 12, 20, 50, 100, 200, 500):
        fewest = [crowd(n, Assumed.of(share, 0)) for share in shares]
        lines.append(_row([str(n), *(f"{each} ({each / n:.0%})" for each in fewest)]))
    return "\n".join(lines)


def records() -> str:
    """What each event of the contracts says, its fields, and the calls that leave it."""
    own = {item.name for item in dataclasses.fields(Record)}
    lines = [_row(["record", "of", "call", "fields", "what"]), _row(["---"] * 5)]
    for kind in KINDS:
        names = (item.name for item in dataclasses.fields(kind) if item.name not in own)
        cells = (f"`{kind.__name__}`", kind.CONTRACT, _words(kind.CALLS) or "deployment", _words(names) or "none")
        lines.append(_row([*cells, " ".join((inspect.getdoc(kind) or "").split()).replace("``", "`")]))
    return "\n".join(lines)


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def network() -> str:
    """Keys, defaults and meaning of the ``[network]`` table, all waits of the services among them."""
    return _fields(NetworkSettings)


def short_names() -> str:
    """The options of the commands that run scenarios, and the keys that they stand for."""
    lines = [_row(["option", "key", "what"]), _row(["---"] * 3)]
    return "\n".join(lines + [_row([f"`{option(name)}`", f"`{each.key}`", each.help]) for name, each in NAMED.items()])


def clusters() -> str:
    """Keys, defaults and meaning of the ``[procfl]`` table."""
    return _procfl(ProCflTerms)


def _procfl(kind: type[ProCflSettings]) -> str:
    """What federations or simulations add to the settings of ProCFL, and these."""
    return _extended(kind, ProCflSettings)


def _extended(kind: type, base: type) -> str:
    """A dataclass's own fields, and those of its base."""
    return "\n".join([_fields(kind), *_fields(base).splitlines()[2:]])


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "collusion": ("threat-model.md", collusion),
    "ledger": ("reference.md", ledger),
    "limits": ("reference.md", limits),
    "crowds": ("clustering.md", crowds),
    "network": ("reference.md", network),
    "records": ("reference.md", records),
    "evaluation": ("reference.md", lambda: _fields(EvaluationSettings)),
    **{f"privacy {name}": ("reference.md", lambda kind=kind: _fields(kind)) for name, kind in MECHANISMS.items()},
    **{f"server {name}": ("reference.md", lambda kind=kind: _fields(kind)) for name, kind in SERVER_STEPS.items()},
    **{
        f"clustering {kind.name}": ("clustering.md", lambda kind=kind: _fields(kind))
        for kind in (IfcaSettings, GlobalSettings)
    },
    "clustering procfl": ("clustering.md", lambda: _procfl(SimulatedProCfl)),
    "clusters": ("reference.md", clusters),
    "clustering rule": ("clustering.md", lambda: _fields(Rule)),
    "scenario": ("reference.md", lambda: _fields(Cast)),
    "run": ("reference.md", lambda: _fields(RunSettings)),
    "kmeans choice": ("reference.md", lambda: _fields(KMeansChoice)),
    "short names": ("reference.md", short_names),
    "task": ("simulate.md", lambda: _extended(TaskChoice, TaskSettings)),
    "tabular": ("tables.md", lambda: _fields(TableSettings)),
    "images": ("images.md", lambda: _fields(ImageSettings)),
    "column": ("tables.md", lambda: _fields(Column)),
    "table format": ("tables.md", lambda: _fields(TableFormat)),
    "partition": ("simulate.md", lambda: _fields(PartitionSettings)),
    "attack": ("clustering.md", lambda: _fields(AttackSettings)),
    **{
        name: ("reference.md", lambda kind=kind: _fields(kind))
        for name, kind in STRATEGIES.items()
        if dataclasses.fields(kind)
    },
}


def render(name: str) -> tuple[Path, str]:
    """The page of a table and the page's text with the table as the code has it now."""
    page, make = TABLES[name]
    text = (DOCS / page).read_text()
    pattern = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"docs/{page} has no place for the table {name!r}")
    return DOCS / page, pattern.sub(lambda match: f"{match[1]}\n{make()}\n\n{match[2]}", text)


def _fields(kind: type) -> str:
    """A table of a dataclass's fields; what they mean is taken from the Attributes of its docstring."""
    lines = [_row(["key", "default", "what"]), _row(["---"] * 3)]
    for names, meaning in _attributes(kind):
        fields = {item.name: item for item in dataclasses.fields(kind)}
        keys = ", ".join(f"`{name}`" for name in names)
        lines.append(_row([keys, ", ".join(_default_of(fields[name]) for name in names), meaning]))
    return "\n".join(lines)


def _default_of(item: dataclasses.Field) -> str:
    needed = item.default is item.default_factory is dataclasses.MISSING
    return "required" if needed else _default(item.default)


def _default(value: object) -> str:
    if value is dataclasses.MISSING:
        return "see there"  # a table of its own
    if isinstance(value, tuple) and value:
        return str(list(value))
    if isinstance(value, str) and value:
        return f'`"{value}"`'
    return {"": '`""`', (): "none"}.get(value, str(value))


def _attributes(kind: type) -> list[tuple[list[str], str]]:
    section = (inspect.getdoc(kind) or "").split("----------\n", 1)[1]
    found: list[tuple[list[str], str]] = []
    for line in section.splitlines():
        current = re.match(r"([a-z_, ]+) : ", line)
        if current:
            found.append((current[1].split(", "), ""))
        elif line.strip() and found:
            names, meaning = found[-1]
            found[-1] = (names, f"{meaning} {line.strip()}".strip().replace("``", "`"))
    return found


def _chance(probability: float) -> str:
    return "1" if probability >= 1 else f"{probability:.1g}" if probability else "0"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a table is out of date")
    check = parser.parse_args().check
    stale = []
    for name in TABLES:
        page, text = render(name)
        if page.read_text() != text:
            stale.append(name)
            if not check:
                page.write_text(text)
    found = "out of date" if check else "written"
    print(f"{found}: {', '.join(stale)}" if stale else "all tables are up to date")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
