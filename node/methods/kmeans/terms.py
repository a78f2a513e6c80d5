"""Terms of a federation that runs K-means."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from fedgrove.common.text import counted
from fedgrove.node.base.strict_tables import InvalidConfig, check_value
from fedgrove.node.methods.kmeans.settings import KMeansSettings
from fedgrove.node.protocol.terms import FederationConfig, MethodTerms, MethodWords


@dataclass(frozen=True)
class KMeansTerms(KMeansSettings, MethodTerms):
    """The ``[kmeans]`` table of a federation."""

    name: ClassVar[str] = "kmeans"
    silent: ClassVar[tuple[str, ...]] = ("task", "training", "strategy", "shared", "privacy")
    bound_to_ledger: ClassVar[str] = "its counts are of clients by their numbers on one ledger, and are summed anew"

    def check(self, config: FederationConfig) -> None:
        """Check the requirements of K-means on the other terms."""
        table = "with a [kmeans] table"
        check_value(config.federation.sampling_rate == 1, "federation.sampling_rate", f"1 {table}")
        # Field elements are masked as one vector, by every pair.
        check_value(config.masking.kappa == 1, "masking.kappa", f"1 {table}")
        largest = self.largest_upload(config.ledger.max_clients)
        fine = largest <= config.max_blob_bytes
        allowed = f"at least {-(-largest >> 20)}: an upload has this size when all of ledger.max_clients are summed"
        check_value(fine, "federation.max_blob_mib", allowed)
        # Else members could claim more points than the server can cluster.
        most = self.most_points // config.ledger.max_clients
        fine = config.ledger.max_samples <= most
        check_value(fine, "ledger.max_samples", f"at most {most} with this number of clients and this grid")

    def to_table(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def words(self) -> MethodWords:
        return MethodWords(
            "Each holds counts of points in bins, added to the previous counts under masks, and the centres computed "
            "from them.",
            f"Federated K-means: {counted(self.k, 'centre')} of points with {counted(self.dimensions, 'coordinate')}",
            "computed from masked sums",
            "Members can ask for their points to be forgotten.",
        )


def terms_of(config: FederationConfig) -> KMeansTerms:
    """The ``[kmeans]`` table of terms that have one."""
    if not isinstance(config.method, KMeansTerms):
        raise InvalidConfig("the terms have no [kmeans] table")
    return config.method
