"""A client's part when a cluster is judged: as a member it shows what it sent, as a judge it votes."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import ContentReader
from fedgrove.node.base.tensors import flatten
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.course import Course
from fedgrove.node.methods.procfl.judging import Judging, judge_all
from fedgrove.node.methods.procfl.local_training import ClusterTraining
from fedgrove.node.methods.procfl.mailbox import seal, unseal
from fedgrove.node.methods.procfl.round_inputs import shown_bytes, shown_to, trained_round
from fedgrove.node.methods.procfl.shown_uploads import ShownUploads
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.methods.training.network_trainer import NetworkTrainer, fetch_shared
from fedgrove.node.protocol.content import fetch_available
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

Computed = Callable[[RoundInputs[ClusterState], Callable[[], tuple[Any, ...]]], Any]
"""Has a worker do the work of a round, a function and its arguments; None while it is under way."""

_MOST_SAMPLES = 2  # times the median of a group's members: who claims more may not come further for it


@dataclass(eq=False, repr=False)
class CommitteeWork:
    """Shows, and judges: by the judge's own ``data`` that are not held out, with the ledger as ``rounds`` gives it now.

    The mailbox of ``keys`` opens models that are shown to it.
    """

    store: ContentReader
    config: FederationConfig
    data: NetworkTrainer
    journal: Journal
    course: Course
    training: ClusterTraining
    shown: ShownUploads
    rounds: Callable[[], Rounds]
    keys: Keys

    @property
    def opens_uploads(self) -> bool:
        """Whether members show the very uploads that fell."""
        return self.course.terms.shown == "upload"

    # --- the member -------------------------------------------------------------------------------------------------

    def show(
        self, inputs: RoundInputs[ClusterState], state: ClusterState, current: RoundRecords, client: int
    ) -> bytes | None:
        """Disclosure of a judged member, sealed to each judge; None while it trains for that."""
        case = next((case for case in state.cases if client in case.members), None)
        if case is None:
            return b""
        plain = self.shown.plain(inputs) if self.opens_uploads else self._noised(inputs, case, current, client)
        if plain is None:
            return None
        judges = {judge: self.rounds().members[judge].mailbox_key for judge in case.committee}
        return b"".join(seal(key, plain, shown_to(inputs, client, judge), os.urandom) for judge, key in judges.items())

    def _noised(
        self, inputs: RoundInputs[ClusterState], case: Case, current: RoundRecords, client: int
    ) -> bytes | None:
        """A noisy model, as in the paper: trained again, because the paper does not tie it to the upload."""
        trained = self.training.trained(current, client)
        if trained is None:
            return None
        start, model = flatten(self.training.began(inputs, case.cluster)), flatten(trained)
        deviation = self.course.terms.shown_noise * float(np.linalg.norm(model - start)) / np.sqrt(len(model))
        rng = np.random.default_rng(int.from_bytes(os.urandom(32)))
        return (model + deviation * rng.standard_normal(len(model))).astype("<f4").tobytes()

    # --- the judge --------------------------------------------------------------------------------------------------

    def votes(
        self, inputs: RoundInputs[ClusterState], state: ClusterState, client: int, computed: Computed
    ) -> bytes | None:
        """This judge's ballots, with their evidence, on each cluster that it is to judge; None while it trains."""
        stored = self.journal.read(inputs.current.number, "update")
        if stored is not None:
            return stored
        cases = [case for case in state.cases if client in case.committee]
        found = computed(inputs, lambda: (judge_all, [self._task(inputs, state, case, client) for case in cases]))
        if found is not None:
            self.journal.write(inputs.current.number, "update", found)
        return found

    def _task(self, inputs: RoundInputs[ClusterState], state: ClusterState, case: Case, client: int) -> Judging:
        models = self._models(inputs, case, self._disclosed(inputs, state, case, client))
        config = self.config
        return Judging(
            cluster=case.cluster,
            judge=client,
            model=config.network,
            training=config.training,
            strategy=make_strategy(config.strategy.name, config.strategy.options),
            start=self.training.began(inputs, case.cluster),
            reference=state.reference_of(case.cluster),
            shown=tuple(models.get(member) for member in case.members),
            steps=steps_of(state, case.cluster, case.members, client),
            labels=state.labels_of(case.cluster),
            samples=self.data.training_samples,
            rule=self.course.terms.rule,
            shared=fetch_shared(self.store, config),
            position=self.training.again(state),
        )

    def _disclosed(
        self, inputs: RoundInputs[ClusterState], state: ClusterState, case: Case, judge: int
    ) -> dict[int, bytes]:
        """Disclosures to this judge by members of a suspected cluster; members without one are left out."""
        length = shown_bytes(self.config, state.layout)
        base = inputs.rounds.base_before(inputs.current.number)
        digests = {member: base.commits[member].digest for member in case.members if member in base.commits}
        blobs = fetch_available(self.store, digests, length * len(case.committee))
        place, shown = length * case.committee.index(judge), {}
        mailboxes = (self.keys.mailbox, *self.keys.past_mailboxes)
        for member, blob in blobs.items():
            with suppress(InvalidContent):
                shown[member] = unseal(mailboxes, blob[place : place + length], shown_to(inputs, member, judge))
        return shown

    def _models(self, inputs: RoundInputs[ClusterState], case: Case, shown: dict[int, bytes]) -> dict[int, np.ndarray]:
        """The models that are judged: float32 (d,) by member; who showed nothing that can be judged has none."""
        if self.opens_uploads:
            return self.shown.models(trained_round(inputs), case, shown)
        length = 4 * inputs.previous.layout.length
        vectors = {member: np.frombuffer(data, "<f4") for member, data in shown.items() if len(data) == length}
        return {member: vector for member, vector in vectors.items() if np.isfinite(vector).all()}


def steps_of(state: ClusterState, cluster: int, members: Cluster, judge: int) -> tuple[float, ...]:
    """Each member's samples for each of the judge's, it may claim twice as many as most of its group have."""
    size = state.sizes
    most = _MOST_SAMPLES * median(size[client] for client in state.groups[cluster])
    return tuple(min(size[member], most) / size[judge] for member in members)
