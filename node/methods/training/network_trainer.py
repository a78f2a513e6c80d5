"""Training of the shipped networks."""

from concurrent.futures import Executor, Future

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.local_update import LocalUpdate, RoundPosition
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.shared import shared_from_bytes
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.training import train
from fedgrove.node.protocol.terms import FederationConfig


class NetworkTrainer:
    """Trains a shipped network on a member's samples, in an executor, or at once without one."""

    def __init__(
        self,
        store: ContentReader,
        config: FederationConfig,
        samples: Samples,
        executor: Executor | None,
        device: str = "cpu",
    ) -> None:
        self._store, self._config, self._samples, self._executor = store, config, samples, executor
        self._device = device

    def __len__(self) -> int:
        return len(self._samples)

    def start(self, model: Tensors, position: RoundPosition, client: int, state: Tensors) -> Future[LocalUpdate]:
        """As ``Trainer`` says; StoreError or InvalidSharedSet where the shared set cannot be had."""
        config = self._config
        strategy = make_strategy(config.strategy.name, config.strategy.options)
        work = (config.trained, model, self._samples, fetch_shared(self._store, config), strategy, config.training)
        if self._executor is not None:
            return self._executor.submit(train, *work, **position, client=client, state=state, device=self._device)
        done: Future = Future()
        done.set_result(train(*work, **position, client=client, state=state, device=self._device))
        return done


def fetch_shared(store: ContentReader, config: FederationConfig) -> Samples | None:
    """The shared set of the terms; None where they have none. Raises StoreError, InvalidSharedSet."""
    if not config.shared.digest:
        return None
    blob = store.fetch(bytes.fromhex(config.shared.digest), config.max_blob_bytes)
    return shared_from_bytes(blob, config.trained)
