"""What can be simulated, and what not."""

import sys
from collections.abc import Callable

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import CONFUSION, RIGHT, STEPPING, EvaluationSettings
from fedgrove.node.privacy.settings import LEAST_RATED, ClientLevelSettings
from fedgrove.node.scenario.checks import check_subject, check_training
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.clustered.checks import check_clusters


def check_simulated(scenario: Scenario) -> None:
    """Raise InvalidConfig, which names the key, unless the scenario can be simulated."""
    # Whole numbers of JSON may be too large for a float.
    options = scenario.strategy.options.values()
    if not all(type(value) in (int, float) and abs(value) <= sys.float_info.max for value in options):
        raise InvalidConfig(f"strategy.options must be finite numbers by name, not {scenario.strategy.options!r}")
    if scenario.method.name not in _OF_METHODS:
        raise InvalidConfig(f"{scenario.method.name} {scenario.method.unsimulated}")
    check_subject(scenario)
    if scenario.cast.table_format:
        raise InvalidConfig(
            "scenario.table_format is for federations: a simulation finds out how its tables are written"
        )
    if scenario.cast.drop:
        raise InvalidConfig("scenario.drop is for demonstrations: in a simulation everybody who is drawn trains")
    _OF_METHODS[scenario.method.name](scenario)
    _check_evaluation(scenario)
    if scenario.server is not None and scenario.strategy.name in STEPPING:
        raise InvalidConfig(f"server must be left out with {scenario.strategy.name}, which has a step of its own")
    check_training(scenario)
    _check_together(scenario)


def _check_one_model(scenario: Scenario) -> None:
    if scenario.attack is not None:
        raise InvalidConfig("attack is simulated with a method for clusters only: give procfl, ifca or global, too")


def _check_evaluation(scenario: Scenario) -> None:
    evaluation, privacy, patience = scenario.evaluation, scenario.privacy, scenario.federation.patience
    if evaluation is None:
        if patience:
            why = "it waits for the clients' loss to fall"
            raise InvalidConfig(f"federation.patience must be 0 without [evaluation]: {why}, not {patience}")
        return
    if isinstance(privacy, ClientLevelSettings):
        _check_rates(scenario, privacy, evaluation)
    elif privacy is not None:
        name = privacy.mechanism
        raise InvalidConfig(f"evaluation must be left out with {name}: members do not evaluate together there")
    if scenario.task is None and not evaluation.of_networks:
        known = f"{RIGHT} and {CONFUSION}"
        raise InvalidConfig(f"evaluation must have a held_out above 0, and metrics {known} only, without a task")
    if privacy and CONFUSION in evaluation.metrics:
        raise InvalidConfig(f"evaluation.metrics must leave {CONFUSION} out with a privacy mechanism")


def _check_rates(scenario: Scenario, privacy: ClientLevelSettings, evaluation: EvaluationSettings) -> None:
    """What the clients can tell under noise, where enough of them are drawn; as in a federation's terms."""
    drawn = scenario.cast.clients * min(privacy.sampling_rates, default=scenario.federation.sampling_rate)
    with_client = "with privacy.mechanism client"
    if drawn < LEAST_RATED:
        reason = "noise drowns the rates of fewer"
        raise InvalidConfig(f"evaluation {with_client} needs {LEAST_RATED} drawn clients, not {drawn:g}: {reason}")
    if not evaluation.metrics:
        raise InvalidConfig(f"evaluation.metrics must name one at least {with_client}, which tells rates and no loss")
    if scenario.federation.patience:
        raise InvalidConfig(f"federation.patience must be 0 {with_client}, which tells rates and no loss")


def _check_together(scenario: Scenario) -> None:
    """What a network and a strategy must be like is checked where torch is at hand (``node.learning.together``)."""
    others = {
        "evaluation": scenario.evaluation is not None,
        "a method for clusters": scenario.method.several,
        "run.probe_every": scenario.run.probe_every > 0,
        "run.device = 'cuda'": scenario.run.device != "cpu",
        f"training.precision = '{scenario.training.precision}'": scenario.training.precision != "fp32",
    }
    if scenario.run.together > 1 and any(others.values()):
        names = ", ".join(name for name, there in others.items() if there)
        raise InvalidConfig(f"run.together must be 1 with {names}")


_OF_METHODS: dict[str, Callable[[Scenario], None]] = {
    "training": _check_one_model,
    "procfl": check_clusters,
    "ifca": check_clusters,
    "global": check_clusters,
}
"""What each method that is simulated needs; ``kinds`` has their simulations, which bring torch."""
