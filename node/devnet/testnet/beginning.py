"""Initial contents of a testnet: the federation's terms, everybody's data, and the store's blobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.devnet.testnet.layout import TestnetPlan
from fedgrove.node.devnet.testnet.windows import comparing_seconds, judging_seconds, training_seconds, windows
from fedgrove.node.learning.samples import Dataset
from fedgrove.node.methods.kmeans.datasets import Points
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings

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


def beginning(plan: TestnetPlan, data: Dataset | Points, counter: bytes, signer: str) -> Beginning:
    """Deal samples to train on, or points to cluster where the plan says so.

    Parameters
    ----------
    counter, signer : bytes, str
        The coordinator's mailbox key and account: it counts what clients who are to cluster have in common.

    Raises
    ------
    ValueError
        The data do not suit the plan.
    """
    return _clustering(plan, data) if isinstance(data, Points) else _training(plan, data, counter, signer)


def _training(plan: TestnetPlan, dataset: Dataset, counter: bytes, signer: str) -> Beginning:
    from fedgrove.node.devnet.demo import deal, make_config
    from fedgrove.node.learning.shared import shared_to_bytes

    demo = plan.as_demo()
    parts, shared = deal(demo, dataset)
    blob = shared_to_bytes(shared)
    config = make_config(demo, dataset, cid_of(blob).digest, counter, signer)
    seconds = training_seconds(config, parts, shared)
    clusters = config.method if isinstance(config.method, ProCflTerms) else None
    if clusters is not None:
        seconds = max(judging_seconds(clusters, seconds), comparing_seconds(parts))
    test = dataset.test()
    return Beginning(
        replace(
            config,
            federation=replace(config.federation, name=_name(dataset)),
            ledger=windows(plan.clients, plan.block_seconds, seconds, patient=clusters is not None),
        ),
        [{"x_train": samples.x, "y_train": samples.y} for samples in parts],
        {"x_test": test.x, "y_test": test.y},
        blob,
    )


def _clustering(plan: TestnetPlan, points: Points) -> Beginning:
    gather = max(1, round(_GATHER_SECONDS / plan.block_seconds))
    config = FederationConfig(
        federation=FederationSettings(name=_name(points), rounds=plan.rounds, seed=plan.seed),
        method=KMeansTerms(k=points.k, dimensions=points.parts[0].shape[1], step=points.step, gather_blocks=gather),
        ledger=windows(plan.clients, plan.block_seconds, _CLUSTERING_SECONDS),
    )
    return Beginning(config, [{"points": part} for part in points.parts], {}, b"")


def _name(data: Dataset | Points) -> str:
    return f"{data.name} testnet"
