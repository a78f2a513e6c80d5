"""A scenario's file."""

from fedgrove.node.scenario.scenario import Scenario


def scenario_bytes(scenario: Scenario) -> bytes:
    """The TOML file of a scenario, with all keys; read again it gives an equal scenario."""
    import tomli_w

    return tomli_w.dumps(scenario.to_tables()).encode()
