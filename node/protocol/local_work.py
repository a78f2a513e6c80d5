"""What a client computes in a round: it trains a model, or clusters its points; the libraries come with the choice."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol, Union

import numpy as np
from fedgrove.chain.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.protocol.content import Update
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.protocol.uploads import UploadRound

if TYPE_CHECKING:
    from fedgrove.node.learning.samples import Samples


class CannotTakePart(RuntimeError):
    """The client has nothing to upload in this round; the message says why."""


class Diverged(CannotTakePart):
    """Training left the numbers."""


class StateLost(RuntimeError):
    """What the strategy kept after an earlier round cannot be read; it has been removed."""


class LocalWork(Protocol):
    """A client's own part of every round."""

    def samples(self, entry: RoundRecords, client: int) -> int:
        """How many samples the client states when it draws.

        Raises
        ------
        CannotTakePart
        """

    def result(self, entry: RoundRecords, client: int) -> Update | None:
        """What it computed in a round; None while that is under way.

        Raises
        ------
        CannotTakePart, StateLost, InvalidModel
        """

    def settle(self, client: int) -> None:
        """Destroy what the ledger shows that no later round can ask for.

        Raises
        ------
        StoreError, InvalidModel, InvalidBlob
            What the last round left cannot be read.
        """

    def leave(self) -> None:
        """Destroy what is kept for later rounds: there will be none."""


def local_work(
    config: FederationConfig,
    store: ContentStore,
    data: Union["Samples", np.ndarray],
    journal: Journal,
    executor: Executor | None,
    rounds: Callable[[], Rounds],
    place: Callable[[RoundRecords], UploadRound],
    keys: Keys,
) -> LocalWork:
    """The work that the terms ask for; ``data`` are samples to train on, or points to cluster.

    ``place`` gives the public inputs of a sealed round.
    """
    if config.clustering is not None:
        from fedgrove.node.methods.kmeans.client_work import LocalClustering

        return LocalClustering(config, data, journal, rounds, place)
    if config.clusters is not None:
        from fedgrove.node.methods.procfl.client_work import LocalClusters

        return LocalClusters(store, config, data, journal, executor, rounds, place, keys)
    from fedgrove.node.methods.training.local_training import LocalTraining

    return LocalTraining(store, config, data, journal, executor)
