"""Records of an experiment's runs on disk: one file a label and seed, used again when its plan is the same."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.files import write_atomically
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import RunRecord

RUNS = "runs"


class RunStore:
    """``OUT/runs``: records by label and seed.

    Experiments share arms, so a run is also taken from the folders next to ``OUT`` where one with the same plan lies.
    Other commands keep results of other forms there, which are passed over.
    """

    def __init__(self, out: Path) -> None:
        self._runs = out / RUNS
        self._earlier = out.parent

    def find(self, label: str, plan: Scenario) -> RunRecord | None:
        """The finished record of this plan, if there is one."""
        own = self._path(label, plan.seed)
        if own.is_file() and _is_of(record := read_record(own), own, plan):
            return record
        for path in sorted(self._earlier.glob(f"*/{RUNS}/*-seed{plan.seed}.json")):
            with suppress(InvalidInput):
                if path != own and _is_of(record := read_record(path), path, plan):
                    self.put(label, record)
                    return record
        return None

    def put(self, label: str, record: RunRecord) -> None:
        """Keep a record; one of another plan under the same label and seed is replaced."""
        self._runs.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(label, record.scenario.seed), record.to_bytes())

    def gathered(self, labels: Iterable[str]) -> dict[str, list[RunRecord]]:
        """What is there for each label: records of one plan, ascending in the seed; labels without any are left out.

        Where plans differ in more than the seed, as half-way through a second run with other options, the plan with
        most seeds counts, of several the one with most rounds.
        """
        found = {}
        for label in labels:
            groups: dict[str, list[RunRecord]] = defaultdict(list)
            for record in self._of(label):
                groups[record.scenario.with_seed(0).digest()].append(record)
            if groups:
                best = max(groups.values(), key=lambda group: (len(group), group[0].scenario.rounds))
                found[label] = sorted(best, key=lambda record: record.scenario.seed)
        return found

    def _of(self, label: str) -> Iterator[RunRecord]:
        for path in sorted(self._runs.glob("*.json")):
            name, _, seed = path.stem.rpartition("-seed")
            if name == label and seed.isdecimal():
                yield read_record(path)

    def _path(self, label: str, seed: int) -> Path:
        return self._runs / f"{label}-seed{seed}.json"


def _is_of(record: RunRecord, path: Path, plan: Scenario) -> bool:
    """Whether it is the record of this very plan; not one of before there was some setting.

    What a setting's default does now was not done then.
    """
    return json.loads(path.read_bytes())["scenario"] == plan.to_json() == record.scenario.to_json()


def read_record(path: Path) -> RunRecord:
    """Parse a record's file; InvalidInput where it is none."""
    try:
        return RunRecord.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, InvalidContent) as fault:
        raise InvalidInput(f"{path} cannot be used, remove it: {fault}") from None
