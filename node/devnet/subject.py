"""What a federation on this machine learns, and on which data: one kind for each way in which data come."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.ipfs.store import ContentStore
from fedgrove.node.devnet.members import COORDINATOR, ParticipantPaths, client_name
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.scenario.scenario import Scenario


class Subject(ABC):
    """What a federation learns, and on which data."""

    @abstractmethod
    def found(self, scenario: Scenario, store: ContentStore, keys: Keys) -> tuple[FederationConfig, bytes]:
        """The terms, complete, and the first model's bytes; what the terms name is put into the store.

        Raises
        ------
        ValueError
            The data do not suit the scenario.
        """

    @abstractmethod
    def parts(self, config: FederationConfig) -> Sequence[Any]:
        """Each client's data."""

    @abstractmethod
    def test(self, config: FederationConfig) -> Any:
        """What the coordinator evaluates on; None for nothing."""

    @abstractmethod
    def seconds(self, config: FederationConfig, first: bytes) -> float:
        """About how long the clients compute in a round here, all together; ``first`` is the first model."""

    @abstractmethod
    def hand_out(
        self, config: FederationConfig, places: Mapping[str, ParticipantPaths], everyone: Mapping[str, Keys]
    ) -> dict[str, list[str]]:
        """Bring all participants their data; the options of their services that say where these are."""

    def workers(self, asked: int) -> int:
        """How many processes are worth it where all train in one; 0 are ``asked`` for where the user does not care."""
        return 1


class ArraysSubject(Subject):
    """A subject whose data are written to files of arrays, one for each participant."""

    @abstractmethod
    def arrays(self, data: Any, use: str) -> dict[str, np.ndarray]:
        """The arrays of a client's data, to ``train``, or of the coordinator's, to ``test``."""

    def hand_out(
        self, config: FederationConfig, places: Mapping[str, ParticipantPaths], everyone: Mapping[str, Keys]
    ) -> dict[str, list[str]]:
        """As ``Subject`` says; each service finds its file by a path in its own folder."""
        files = {client_name(number): (part, "train") for number, part in enumerate(self.parts(config), 1)}
        test = self.test(config)
        if test is not None:
            files[COORDINATOR] = (test, "test")
        for name, (data, use) in files.items():
            _save_arrays(places[name].data, **self.arrays(data, use))
        return {COORDINATOR: []} | {name: ["--data", places[name].data.name] for name in files}


def _save_arrays(path: Path, **arrays: np.ndarray) -> None:
    path.touch(mode=0o600)
    np.savez(path, allow_pickle=True, **arrays)
