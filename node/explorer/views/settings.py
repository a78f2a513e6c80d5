"""Values of a federation's terms one by one, and those that decide how the curves look."""

from collections.abc import Iterator, Mapping

from fedgrove.node.explorer.inert import inert
from fedgrove.node.methods.registry import METHODS
from fedgrove.node.methods.training.terms import TrainingTerms
from fedgrove.node.protocol.terms import FederationConfig

LEARNING = (
    "task",
    "strategy",
    "training",
    "server",
    *(kind.name for kind in METHODS if kind is not TrainingTerms),
    "privacy",
    "masking",
    "evaluation",
    "federation",
)
"""Tables with hyper-parameters, in the order in which people look for them."""

_KEYS = {
    "task": ("name", "options.name"),
    "masking": ("mode", "masked", "kappa"),
    "federation": ("rounds", "sampling_rate", "seed", "patience"),
}
"""Of these tables only these keys; of others all."""

_LONGEST = 40


def hyper_parameters(config: FederationConfig | None) -> dict[str, list[tuple[str, str]]]:
    """Names and values by table; what is off, and digests, are left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    tables = config.to_tables() if config is not None else {}
    for (table, key), value in flat({name: tables[name] for name in LEARNING if name in tables}):
        if value and key in _KEYS.get(table, (key,)) and len(shown(value)) <= _LONGEST:
            found.setdefault(table, []).append((key.replace("_", " "), shown(value)))
    return found


def flat(tables: Mapping[str, object]) -> Iterator[tuple[tuple[str, str], object]]:
    """Each value of the terms by its table and key; keys of tables in tables are joined by a dot."""
    for table, values in tables.items():
        for key, value in _flat(values if isinstance(values, Mapping) else {"": values}):
            yield (inert(table), inert(key)), value


def shown(value: object) -> str:
    """A value of the terms as inert text."""
    if isinstance(value, list | tuple):
        return inert(", ".join(map(str, value)))
    return inert(value)


def _flat(values: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for key, value in sorted(values.items(), key=lambda each: isinstance(each[1], Mapping)):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
