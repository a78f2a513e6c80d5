"""All methods that a scenario can have, by the names of their tables."""

from fedgrove.node.base.nested_tables import Tables
from fedgrove.node.scenario.clusters import GlobalSettings, IfcaSettings, SimulatedProCfl
from fedgrove.node.scenario.kmeans import KMeansChoice
from fedgrove.node.scenario.method import MethodChoice, TrainingChoice

METHODS: dict[str, type[MethodChoice]] = {
    kind.name: kind for kind in (SimulatedProCfl, IfcaSettings, GlobalSettings, KMeansChoice)
}
"""Without a table of one of these, one model is trained."""
MEANINGS = "; ".join(f"{kind.name}: {kind.meaning}" for kind in (TrainingChoice, *METHODS.values()))
"""What each of them computes, for help."""


def method_in(tables: Tables) -> type[MethodChoice]:
    """The method whose table is among these; several are refused where a scenario is made of them."""
    return next((kind for name, kind in METHODS.items() if name in tables), TrainingChoice)
