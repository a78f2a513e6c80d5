"""What a simulation leaves: the same scenario and data give the same bytes, so there are no times in it."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.common.wire import convert
from fedgrove.node.methods.training.metric_sums import ending_after
from fedgrove.node.scenario.scenario import Scenario

Released = Mapping[str, Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)] | int | None]
Clients = tuple[int, ...]
Share = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True)
class CommitteeVerdict:
    """What a committee found in a round.

    Attributes
    ----------
    cluster : int
        Number of the suspected model, from 0.
    members, committee : tuple of int
        Who was judged by whom.
    against : tuple of int
        Votes against each member.
    expelled : tuple of int
        Members with more than half of all seats against them.
    """

    cluster: int
    members: Clients
    committee: Clients
    against: Clients
    expelled: Clients


@dataclass(frozen=True)
class ClusterResult:
    """What a round of a clustered training gave in addition to ``RoundResult``.

    Attributes
    ----------
    groups : tuple of (tuple of int)
        Who trained each model, ascending.
    personal_accuracy : float or None
        Expected accuracy of a client's model on new data that are distributed like its own, averaged over the honest
        clients; None where the scenario does not evaluate.
    watched : tuple of float
        Each model's accuracy on the public set, weighted as the labels of its cluster's members; empty where nobody
        watches.
    judgements : tuple of Judgement
        Of the committees that sat.
    attackers : tuple of int
        Who attacks in this round; nobody in a federation knows.
    backdoor : float or None
        Share of test samples of other labels that get the attackers' label for their trigger, averaged over the honest
        clients' models; None without a backdoor, or where the scenario does not evaluate.
    """

    groups: tuple[Clients, ...]
    personal_accuracy: Share | None = None
    watched: tuple[Share, ...] = ()
    judgements: tuple[CommitteeVerdict, ...] = ()
    attackers: Clients = ()
    backdoor: Share | None = None


@dataclass(frozen=True)
class RoundResult:
    """One round.

    Attributes
    ----------
    round : int
        From 1.
    accuracy, loss : float or None
        Of the global model after the round on the test samples: share of right answers in [0, 1], mean cross-entropy in
        nats; None where the scenario does not evaluate.
    train_loss : float or None
        Mean cross-entropy of the drawn clients' last local epoch, weighted by their samples; None where nobody was
        drawn.
    clients : tuple of int
        Who was drawn, ascending.
    samples : int
        Of the drawn clients together.
    ood_accuracy : float or None
        Mean over the drawn clients of their local models' accuracy out of distribution; None where not probed.
    privacy : mapping of str to number or None
        What the scenario's privacy mechanism did, and what ε has been spent at which δ; None where there is none.
    members : mapping of str to number or None
        What the drawn clients' own evaluation of the model came to with which the round began, by name; None where the
        scenario asks for none.
    clustering : ClusterResult or None
        Of a clustered training; ``accuracy`` and ``loss`` are then means over the honest clients, of what their models
        achieve on all test samples.
    cut_off : int
        Values of the drawn clients' models, or updates, that they uploaded at the bound instead.
    """

    round: int
    accuracy: float | None
    loss: float | None
    train_loss: float | None
    clients: Clients
    samples: int
    ood_accuracy: float | None = None
    privacy: Released | None = None
    clustering: ClusterResult | None = None
    members: Released | None = None
    cut_off: int = 0

    @property
    def clusters(self) -> ClusterResult:
        """``clustering`` of a clustered training; AttributeError of any other."""
        if self.clustering is None:
            raise AttributeError(f"round {self.round} was not clustered")
        return self.clustering

    def figure(self, name: str) -> float:
        """A number out of ``privacy``; LookupError where there is none."""
        found = self.privacy[name] if self.privacy is not None else None
        if found is None:
            raise LookupError(f"round {self.round} states no {name}")
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain values; what a scenario does not ask for is left out, except for accuracies and losses."""
        # Apart from its clients: ``asdict`` would copy them one by one, in every round those of all rounds before.
        value = {**asdict(replace(self, clients=())), "clients": list(self.clients)}
        for name in ("privacy", "clustering", "members"):
            if value[name] is None:
                del value[name]
        if not self.cut_off:
            del value["cut_off"]
        if self.clustering is not None and self.clustering.backdoor is None:
            del value["clustering"]["backdoor"]
        return value


@dataclass(frozen=True)
class RunRecord:
    """A run's scenario, its rounds so far, and the SHA-256 (hex) of its model's safetensors bytes.

    ``last_model`` is what the clients' own evaluation of the last model came to, when the run is over; None where the
    scenario asks for none.
    """

    scenario: Scenario
    rounds: tuple[RoundResult, ...]
    model_digest: str
    last_model: Released | None = None

    @property
    def ending(self) -> str:
        """Why the clients' loss has ended the run, in one clause; empty where it has not."""
        return ending_of(self.scenario, self.rounds)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        rounds = [result.to_json() for result in self.rounds]
        found = {"scenario": self.scenario.to_json(), "rounds": rounds, "model_digest": self.model_digest}
        return found | self._behind()

    def to_bytes(self) -> bytes:
        """The record as a file: sorted keys, one line a value of the top level and a round."""
        value = self.to_json()
        rounds = ",\n".join("  " + json.dumps(result, sort_keys=True) for result in value["rounds"])
        head = f'{{\n "model_digest": {json.dumps(value["model_digest"])},\n'
        scenario = f' "scenario": {json.dumps(value["scenario"], sort_keys=True)},\n'
        behind = self._behind()
        head += "".join(f' "{name}": {json.dumps(behind[name], sort_keys=True)},\n' for name in behind)
        return f'{head}{scenario} "rounds": [\n{rounds}\n ]\n}}\n'.encode()

    def _behind(self) -> dict[str, Any]:
        """What there is only where the clients evaluate."""
        last = {} if self.last_model is None else {"last_model": dict(self.last_model)}
        return last | ({"ending": self.ending} if self.ending else {})

    @classmethod
    def from_json(cls, value: Any) -> "RunRecord":
        """Parse what ``to_json`` gave, or the parsed bytes of a record's file.

        Raises
        ------
        InvalidRecord
            Keys or types are not a record's, or its rounds are not 1, 2, … in order.
        """
        try:
            results = tuple(map(_result, value["rounds"]))
            last = value.get("last_model")
            last_model = None if last is None else convert(Released, last)
            record = cls(Scenario.from_tables(value["scenario"]), results, str(value["model_digest"]), last_model)
        except (AttributeError, KeyError, TypeError, ValueError, InvalidInput, InvalidContent) as fault:
            raise InvalidContent(f"it is not the record of a simulation: {fault}") from None
        if [result.round for result in results] != list(range(1, len(results) + 1)):
            raise InvalidContent("it is not the record of a simulation: its rounds do not follow each other")
        return record


def folder_of(out: Path, scenario: Scenario) -> Path:
    """The folder of a run among those from other seeds."""
    return out / f"seed-{scenario.seed}"


def ending_of(scenario: Scenario, rounds: Iterable[RoundResult]) -> str:
    """Why the scenario's patience is over after these rounds, in one clause: by the rule of federations; else empty."""
    if not scenario.federation.patience:
        return ""
    return ending_after(
        (each.members or {} for each in rounds),
        scenario.federation.patience,
        scenario.method.first_stage(scenario.rounds),
    )


def _result(entry: dict[str, Any]) -> RoundResult:
    clustering = entry.get("clustering") or {}
    for kind, table in (
        (RoundResult, entry),
        (ClusterResult, clustering),
        *((CommitteeVerdict, each) for each in clustering.get("judgements", ())),
    ):
        if unknown := table.keys() - {item.name for item in fields(kind)}:
            raise ValueError(f"{', '.join(sorted(unknown))} is not a round's key")
    return convert(RoundResult, entry)
