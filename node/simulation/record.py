"""What a simulation leaves: the same plan and data give the same bytes, so there are no times in it."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType
from typing import Any

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.methods.procfl.training import global_rounds
from fedgrove.node.methods.training.metric_sums import ending_after
from fedgrove.node.scenario.scenario import Scenario

Released = Mapping[str, float | int | None]
Clients = tuple[int, ...]

# Types of a round's values in JSON; the others are numbers or missing.
_TYPES = {"round": (int,), "samples": (int,), "cut_off": (int,)}


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
        clients; None where the plan does not evaluate.
    watched : tuple of float
        Each model's accuracy on the public set, weighted as the labels of its cluster's members; empty where nobody
        watches.
    judgements : tuple of Judgement
        Of the committees that sat.
    attackers : tuple of int
        Who attacks in this round; nobody in a federation knows.
    backdoor : float or None
        Share of test samples of other labels that get the attackers' label for their trigger, averaged over the honest
        clients' models; None without a backdoor, or where the plan does not evaluate.
    """

    groups: tuple[Clients, ...]
    personal_accuracy: float | None = None
    watched: tuple[float, ...] = ()
    judgements: tuple[CommitteeVerdict, ...] = ()
    attackers: Clients = ()
    backdoor: float | None = None

    @classmethod
    def from_json(cls, value: Any) -> "ClusterResult":
        """Parse what ``asdict`` gave, after JSON; ValueError, TypeError or KeyError for anything else."""
        judgements = tuple(
            CommitteeVerdict(int(entry.pop("cluster")), **{name: _clients(entry[name]) for name in entry})
            for entry in map(dict, value["judgements"])
        )
        personal, backdoor = value["personal_accuracy"], value.get("backdoor")
        groups = tuple(map(_clients, value["groups"]))
        if value.keys() | {"backdoor"} != {item.name for item in fields(cls)}:
            raise ValueError("clustering has other keys")
        accuracy, reached = (None if share is None else _share(share) for share in (personal, backdoor))
        return cls(groups, accuracy, _shares(value["watched"]), judgements, _clients(value["attackers"]), reached)


@dataclass(frozen=True)
class RoundResult:
    """One round.

    Attributes
    ----------
    round : int
        From 1.
    accuracy, loss : float or None
        Of the global model after the round on the test samples: share of right answers in [0, 1], mean cross-entropy in
        nats; None where the plan does not evaluate.
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
        What the plan's privacy mechanism did, and what ε has been spent at which δ; None where there is none.
    members : mapping of str to number or None
        What the drawn clients' own evaluation of the model came to with which the round began, by name; None where the
        plan asks for none.
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
    clients: tuple[int, ...]
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
        """Plain values; what a plan does not ask for is left out, except for accuracies and losses."""
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
    plan asks for none.
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
            results = tuple(_result(entry) for entry in value["rounds"])
            last_model = value.get("last_model")
            _check_released("last_model", last_model)
            record = cls(Scenario.from_tables(value["scenario"]), results, str(value["model_digest"]), last_model)
        except (KeyError, TypeError, ValueError, InvalidInput, InvalidContent) as fault:
            raise InvalidContent(f"it is not the record of a simulation: {fault}") from None
        if [result.round for result in results] != list(range(1, len(results) + 1)):
            raise InvalidContent("it is not the record of a simulation: its rounds do not follow each other")
        return record


def ending_of(plan: Scenario, rounds: Iterable[RoundResult]) -> str:
    """Why the plan's patience is over after these rounds, in one clause: by the rule of federations; else empty."""
    if not plan.federation.patience:
        return ""
    return ending_after((each.members or {} for each in rounds), plan.federation.patience, _first_stage(plan))


def _first_stage(plan: Scenario) -> int:
    """Rounds that train one model for all before each cluster has its own."""
    if not isinstance(plan.method, ProCflSettings):
        return 0
    last_global = global_rounds(plan.rounds, plan.method.global_share)
    return last_global if last_global < plan.rounds else 0


def _result(entry: dict[str, Any]) -> RoundResult:
    result = RoundResult(**{**entry, "clients": _clients(entry["clients"])})
    if result.clustering is not None:
        result = replace(result, clustering=ClusterResult.from_json(result.clustering))
    for name, value in vars(result).items():
        allowed = _TYPES.get(name, (float, int, NoneType))
        if name in ("privacy", "members"):
            _check_released(name, value)
        elif name not in ("clients", "clustering") and type(value) not in allowed:
            raise TypeError(f"{name} cannot be {value!r}")
    return result


def _check_released(name: str, value: Any) -> None:
    if value is None:
        return
    fine = isinstance(value, dict) and all(
        entry is None or (type(entry) in (int, float) and math.isfinite(entry)) for entry in value.values()
    )
    if not fine:
        raise TypeError(f"{name} cannot be {value!r}")


def _clients(value: Any) -> Clients:
    return tuple(int(client) for client in value)


def _shares(value: Any) -> tuple[float, ...]:
    return tuple(map(_share, value))


def _share(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise TypeError(f"{value!r} is not an accuracy")
    return float(value)
