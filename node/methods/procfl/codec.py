"""Clusters by private similarity, two stages of training, and committees (ProCFL, Xu et al. 2025).

Every step is a round of the ledger: who compared, trained, showed or voted has committed to it there, and what comes
next follows from the commitments (``node.methods.procfl.course``). Comparisons, what is shown, and ballots wear no
masks: they are blinded, sealed, or public; the phases of sharing and recovery stay, and recover seeds that hide
nothing. Label counts and models are summed under masks, each group by itself.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.base.tensors import Layout, flatten
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.opening import open_update, valid_secrets
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, decode
from fedgrove.node.methods.procfl.committee import Ballot, vote_bytes
from fedgrove.node.methods.procfl.comparing import answer_lengths, blinded_bytes, set_size
from fedgrove.node.methods.procfl.course import FEWEST
from fedgrove.node.methods.procfl.evaluating import evaluated, not_evaluated, raised
from fedgrove.node.methods.procfl.labels import is_sum_of_shares
from fedgrove.node.methods.procfl.mailbox import OVERHEAD
from fedgrove.node.methods.procfl.round_inputs import (
    ballots_in,
    counts_sent_before,
    course_of,
    label_layout,
    numbers_in,
    session_of,
    shown_bytes,
)
from fedgrove.node.methods.procfl.sets import MAX_ELEMENTS
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts
from fedgrove.node.methods.procfl.sums import checked, counted, group_sums
from fedgrove.node.methods.procfl.suspicion import shown, voted
from fedgrove.node.methods.procfl.training import Cluster
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.methods.training.metric_sums import metric_words, words_behind
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.content import fetch_available
from fedgrove.node.protocol.masked_sum import masked_bytes
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.terms import FederationConfig

ClusterUpdate = ModelUpdate | np.ndarray | bytes
"""A trained model, and how the one before it did; shares of labels; or an open message."""

_NOTHING = Layout((), ())


class ClusterCodec(Codec[ClusterState, ClusterUpdate]):
    """Uploads of a federation with clusters, stage by stage; ``round.previous`` is a ``ClusterState``."""

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._course = course_of(config)

    def check_model(self, model: ClusterState, number: int) -> None:
        if number == 1 and model.to_bytes() != ClusterState.first(model.models[0]).to_bytes():
            raise InvalidContent("the first round must start without clusters")

    def expected_bytes(self, inputs: RoundInputs[ClusterState], client: int) -> int:
        state = inputs.previous
        behind = words_behind(self.config)
        if inputs.only_evaluates:
            return WORD.itemsize * behind if _masks(inputs, client) else 0
        case = next((case for case in state.cases if client in case.members), None)
        match state.stage:
            case "blind":
                return blinded_bytes(min(inputs.current.draws[client].samples, MAX_ELEMENTS))
            case "answer":
                return _answer_bytes(state, client)
            case "show":
                return len(case.committee) * shown_bytes(self.config, state.layout) if case else 0
            case "vote":
                return sum(vote_bytes(len(case.members)) for case in state.cases if client in case.committee)
            case "labels":
                length = self._course.labels
            case _:
                length = state.layout.length + behind
        return WORD.itemsize * length if _masks(inputs, client) else 0

    def encode(
        self, inputs: RoundInputs[ClusterState], client: int, secrets: RoundSecrets, update: ClusterUpdate
    ) -> bytes:
        """An open message as it is, a vector under masks; nothing of a client that is in no group."""
        if isinstance(update, bytes):
            return update
        group, state = _group(inputs, client), inputs.previous
        if group is None:
            return b""
        if isinstance(update, np.ndarray):
            return masked_bytes(inputs, client, secrets, update.astype(WORD), label_layout(self._course.labels))
        behind = metric_words(inputs, update, state.is_measured(group))
        if inputs.only_evaluates:
            return masked_bytes(inputs, client, secrets, behind, _NOTHING, len(behind))
        weight, model = counted(self._weights(inputs, state)[client]), update.tensors
        # A model beyond the bound is refused, not cut off: ``ClusterTraining`` has taken what training began with.
        words = self._mean_of(state.layout).encode(flatten(model), lambda: model, weight, os.urandom)
        return masked_bytes(inputs, client, secrets, np.concatenate([words, behind]), state.layout, len(behind))

    def caution(self, inputs: RoundInputs[ClusterState], update: ClusterUpdate) -> str:
        return update.caution if isinstance(update, ModelUpdate) else ""

    def detail(self, update: ClusterUpdate) -> str:
        return update.detail if isinstance(update, ModelUpdate) else ""

    def outcome(self, inputs: RoundInputs[ClusterState], record: RecoveryRecord) -> Outcome[ClusterState]:
        state, behind = inputs.previous, words_behind(self.config)
        if inputs.only_evaluates:
            sums = group_sums(inputs, record, _NOTHING, behind)
            return Outcome(state, members=evaluated(inputs, sums), raised=raised(inputs, sums))
        if state.stage == "train":
            weights = self._weights(inputs, state)
            sums = checked(group_sums(inputs, record, state.layout, behind), weights, self.config.masking.bound)
            bound, began = self.config.masking.bound, inputs.current.opened.model_digest.hex()
            numbers = numbers_in(inputs.current.draws)
            after = self._course.trained(state, sums, weights, bound, numbers, began)
            return Outcome(after, members=evaluated(inputs, sums), raised=raised(inputs, sums))
        return Outcome(self._without_training(inputs, state, record), members=not_evaluated(inputs))

    def opened(
        self,
        inputs: RoundInputs[ClusterState],
        record: RecoveryRecord,
        members: Cluster,
        shown: Mapping[int, bytes],
    ) -> dict[int, np.ndarray]:
        """The very models that members of a group sent in a round of training, as far as they can be opened.

        Parameters
        ----------
        inputs : RoundInputs[ClusterState]
            Of training, closed.
        record : RecoveryRecord
            Its recovery, checked.
        members : Cluster
            Of the group, all of them summed.
        shown : mapping of int to bytes
            What members say that their mask secrets of the round are; wrong ones count as none.

        Returns
        -------
        dict of int to float32 array of shape (d,)
            By member. Of whom neither it nor all its partners showed a secret, and whose upload is gone, has none.
        """
        current, layout, bound = inputs.current, inputs.previous.layout, self.config.masking.bound
        secrets = valid_secrets(inputs.graph, {current.order.index(member): secret for member, secret in shown.items()})
        digests = {member: current.commits[member].digest for member in members}
        weights, models = self._weights(inputs, inputs.previous), {}
        most = WORD.itemsize * (layout.length + words_behind(self.config))
        for member, data in fetch_available(inputs.store, digests, most).items():
            place, masked = current.order.index(member), np.frombuffer(data, WORD)
            words = open_update(inputs.graph, place, secrets, inputs.sharers, record, masked)
            if words is not None:
                own = words[: layout.length]
                models[member] = decode(own, weights[member].numerator, weights[member].denominator, bound)
        return models

    # --- one round --------------------------------------------------------------------------------------------------

    def _without_training(
        self, inputs: RoundInputs[ClusterState], state: ClusterState, record: RecoveryRecord
    ) -> ClusterState:
        """The state after a round in which nobody trains."""
        match state.stage:
            case "blind":
                return self._blinded(inputs, state)
            case "answer":
                return self._answered(inputs, state)
            case "labels":
                return self._labelled(inputs, state, record)
            case "show":
                return shown(state)
        return voted(state, self._ballots(inputs, state))

    def _blinded(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> ClusterState:
        """Whose sets can be compared."""
        session, sets = session_of(inputs), {}
        for client, data in _read(inputs, self).items():
            try:
                sets[client] = (inputs.current.commits[client].digest.hex(), set_size(data, session, client))
            except InvalidContent:
                continue
        if len(sets) < FEWEST:
            return state
        found = dict(sorted(sets.items()))
        return replace(state, stage="answer", session=session.hex(), sets=found, clients=tuple(found))

    def _answered(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> ClusterState:
        """Clients that answered. Only the counter can open their answers."""
        found = sorted(client for client in _read(inputs, self) if client in state.sets)
        if len(found) < FEWEST:
            return ClusterState.first(state.models[0])
        return replace(state, stage="count", clients=tuple(found))

    def _labelled(self, inputs: RoundInputs[ClusterState], state: ClusterState, record: RecoveryRecord) -> ClusterState:
        """Summed label shares of each part, if the sum is consistent with its members.

        Where honest members send zeros, as these were summed before, whatever adds up is somebody's invention.
        """
        again = counts_sent_before(inputs)
        found: list[tuple[Cluster, Counts]] = []
        for each in group_sums(inputs, record, label_layout(self._course.labels)):
            shares = () if each.words is None else tuple(each.words.tolist())
            known = is_sum_of_shares(shares, len(each.group)) and not again
            found.append((each.group, shares if known else ()))
        return self._course.labelled(state, found)

    def _mean_of(self, layout: Layout) -> WeightedMean:
        """How models are uploaded and averaged."""
        return WeightedMean(layout, self.config.masking.bound)

    def _ballots(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> dict[int, list[Ballot]]:
        """Votes of the judges; a judge without a ballot whose evidence opens has not voted."""
        found: dict[int, list[Ballot]] = {case.cluster: [] for case in state.cases}
        for client, data in _read(inputs, self).items():
            for cluster, ballot in ballots_in(data, state.cases, client, self._course.terms.rule).items():
                found[cluster].append(ballot)
        return found

    def _weights(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> Mapping[int, Fraction]:
        """How much each client counts in the mean of its group."""
        return self._course.weights(state, [clients_at(inputs, group.positions) for group in inputs.graph.groups])


def _answer_bytes(state: ClusterState, client: int) -> int:
    if client not in state.sets:
        return 0
    return sum(answer_lengths(state.sizes, client).values()) + OVERHEAD


def _masks(inputs: RoundInputs[ClusterState], client: int) -> bool:
    """Whether a client is in a group."""
    return _group(inputs, client) is not None


def _group(inputs: RoundInputs[ClusterState], client: int) -> int | None:
    """The number of a client's group; None where it is in none."""
    position = inputs.current.order.index(client)
    numbers = (number for number, group in enumerate(inputs.graph.groups) if position in group.positions)
    return next(numbers, None)


def clients_at(inputs: RoundInputs[ClusterState], positions: frozenset[int] | tuple[int, ...]) -> Cluster:
    return tuple(sorted(inputs.graph.client(position) for position in positions))


def _read(inputs: RoundInputs[ClusterState], kind: ClusterCodec) -> dict[int, bytes]:
    """Open uploads of the right size, by client; others count as none."""
    found = {}
    for client, commit in inputs.current.commits.items():
        size = kind.expected_bytes(inputs, client)
        try:
            data = inputs.store.fetch(commit.digest, size)
        except (TooLarge, Malformed):
            continue
        if len(data) == size:
            found[client] = data
    return found
