"""K-means in a scenario: the clients cluster points in place of training."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedgrove.node.base.nested_tables import Tables
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.scenario.method import MethodChoice

_ROUNDS = 10_000  # one is held when somebody asks for something, and at no other time


@dataclass(frozen=True)
class KMeansChoice(MethodChoice):
    """The table ``[kmeans]``: the clients cluster points in place of training a model.

    Attributes
    ----------
    k : int
        Clusters; 0: the number known for the data set.
    iterations : int
        Lloyd iterations at each client; 0: its centroids are some of its points.
    clusters_each : int
        Clusters of the central solution per client; 0: all.
    """

    name: ClassVar[str] = "kmeans"
    meaning: ClassVar[str] = "points are clustered, and can be forgotten"
    stated: ClassVar[str] = "dimensions"
    trains: ClassVar[bool] = False
    on_request: ClassVar[bool] = True
    unsimulated: ClassVar[str] = "trains no model: `fedgrove kmeans --simulate` compares clusterings"

    k: Annotated[int, Meta(ge=0, le=1000)] = 0
    iterations: Annotated[int, Meta(ge=0, le=1000)] = 0
    clusters_each: Annotated[int, Meta(ge=0, le=1000)] = 0

    @classmethod
    def suited(cls, tables: Tables) -> Tables:
        return {"federation": {"rounds": _ROUNDS}, "scenario": {"dataset": "gaussian"}}

    @classmethod
    def of_terms(cls, table: Tables) -> Tables:
        """Refuse: what the terms name, as the width of a bin, follows from the points of a scenario."""
        raise InvalidConfig("kmeans trains no model: `fedgrove kmeans` and `fedgrove network up --k` cluster points")
