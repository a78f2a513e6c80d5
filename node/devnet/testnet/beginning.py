"""Initial contents of a testnet: the federation's terms, everybody's data, and the store's blobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.devnet.terms import terms_of_points, terms_on
from fedgrove.node.devnet.testnet.windows import comparing_seconds, judging_seconds, training_seconds, windows
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.methods.kmeans.datasets import Points
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario

_CLUSTERING_SECONDS = 1.0  # seeding and a sum of counts, all clients together
_GATHER_SECONDS = 5.0  # for which requests are gathered: people are looking on


@dataclass(frozen=True)
class Beginning:
    """The terms, and the arrays of everybody's file of data.

    Attributes
    ----------
    config : FederationConfig
    parts : list of mapping of str to array
        Each client's.
    test : mapping of str to array
        The coordinator's; none where nothing is evaluated.
    shared : bytes
        The blob of the shared samples; empty where there are none.
    """

    config: FederationConfig
    parts: list[Mapping[str, np.ndarray]]
    test: Mapping[str, np.ndarray]
    shared: bytes


def beginning(scenario: Scenario, data: Dataset | Points, counter: bytes, signer: str) -> Beginning:
    """Deal samples to train on, or points to cluster where the scenario says so.

    Parameters
    ----------
    counter, signer : bytes, str
        The coordinator's mailbox key and account: it counts what clients who are to cluster have in common.

    Raises
    ------
    ValueError
        The data do not suit the scenario.
    """
    return _clustering(scenario, data) if isinstance(data, Points) else _training(scenario, data, counter, signer)


def _training(scenario: Scenario, dataset: Dataset, counter: bytes, signer: str) -> Beginning:
    from fedgrove.node.devnet.demo import deal
    from fedgrove.node.learning.shared import shared_to_bytes

    parts, shared = deal(scenario, dataset)
    blob = shared_to_bytes(shared)
    config = terms_on(scenario, dataset, cid_of(blob).digest, counter, signer)
    seconds = training_seconds(config, parts, shared)
    clusters = config.method if isinstance(config.method, ProCflTerms) else None
    if clusters is not None:
        seconds = max(judging_seconds(clusters, seconds), comparing_seconds(parts))
    test = dataset.test()
    ledger = windows(scenario.cast.clients, scenario.run.block_seconds, seconds, patient=clusters is not None)
    return Beginning(
        replace(config, ledger=ledger),
        [{"x_train": samples.x, "y_train": samples.y} for samples in parts],
        {"x_test": test.x, "y_test": test.y},
        blob,
    )


def _clustering(scenario: Scenario, points: Points) -> Beginning:
    block_seconds = scenario.run.block_seconds
    ledger = windows(scenario.cast.clients, block_seconds, _CLUSTERING_SECONDS)
    config = terms_of_points(scenario, points, ledger, gather_blocks=max(1, round(_GATHER_SECONDS / block_seconds)))
    return Beginning(config, [{"points": part} for part in points.parts], {}, b"")
