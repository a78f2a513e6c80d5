"""What can be simulated of a method for clusters."""

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.scenario.scenario import Scenario


def check_clusters(scenario: Scenario) -> None:
    """Raise InvalidConfig, which names the key, unless the scenario's clusters can be simulated."""
    name = scenario.method.name
    if scenario.task is not None:
        raise InvalidConfig(f"{name} trains shipped networks, and no task: leave out one of the tables {name} and task")
    if scenario.privacy is not None:
        raise InvalidConfig(f"privacy and {name} are not simulated together: leave out one of them")
    if scenario.masking.masked != "weights":
        raise InvalidConfig(f"masking.masked must be weights with {name}, not {scenario.masking.masked!r}")
    if scenario.server is not None:
        raise InvalidConfig(f"server must be left out with {name}: its step is on one model")
    if scenario.run.probe_every:
        raise InvalidConfig(f"run.probe_every must be 0 with {name}, which measures personalised accuracy instead")
    if scenario.attack is not None and scenario.partition.copies > 1:
        raise InvalidConfig(
            "partition.copies must be 1 with an attack: samples of several owners cannot be poisoned for one"
        )
