"""Statements of the coordinator of a federation with clusters: overlaps and correct answers that it counted."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import BlobError
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import Tensors
from fedgrove.node.methods.procfl.comparing import answer_lengths, part_of
from fedgrove.node.methods.procfl.ecdh import Comparison
from fedgrove.node.methods.procfl.mailbox import OVERHEAD, unseal
from fedgrove.node.methods.procfl.round_inputs import first_message
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Counts, Stated
from fedgrove.node.protocol.round_inputs import RoundInputs

LabelTest = Callable[[Tensors], tuple[Counts, Counts]]
"""Maps a model to right answers, and samples, of each label."""


class ClusterStatements:
    """Counts and tests. It alone opens the clients' answers: who compares both learns more than their number.

    Parameters
    ----------
    keys : Keys
        Of the coordinator: its mailbox key is the terms' ``procfl.counter``, its account ``procfl.signer``.
    test : callable or None
        Tests a model on the public samples; not needed where there are no committees.
    """

    def __init__(self, keys: Keys, test: LabelTest | None = None) -> None:
        self._account = keys.account
        self._mailboxes = (keys.mailbox, *keys.past_mailboxes)
        self._test = test

    def __call__(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> dict[str, Any] | None:
        """Signed, JSON-ready statement on a round that ends with this state; None if it needs none."""
        match state.stage:
            case "count":
                stated = Stated(overlaps=self._overlaps(inputs, state))
            case "watch":
                stated = self._tested((*state.models, *state.trials))
            case _:
                return None
        message = stated.message(cid_of(state.to_bytes()).digest)
        return stated.replace(signature=sign_message(self._account, message).hex()).to_table()

    def _tested(self, models: Sequence[Tensors]) -> Stated:
        if self._test is None:
            raise TypeError("scoring the clusters' models needs test data, and there is none")
        results = [self._test(model) for model in models]
        return Stated(right=tuple(right for right, _ in results), tested=results[0][1])

    def _overlaps(self, inputs: RoundInputs[ClusterState], state: ClusterState) -> tuple[Counts, ...]:
        """How much all pairs have in common. A pair whose messages do not fit has nothing."""
        clients, session = state.clients, bytes.fromhex(state.session)
        blinded = {client: first_message(inputs, client) for client in clients}
        answers = {client: self._answers(inputs, state, client) for client in clients}
        rows = {client: dict.fromkeys(clients, 0) | {client: state.sizes[client]} for client in clients}
        for left, right in combinations(clients, 2):
            pair = Comparison(session, left, right, blinded[left], blinded[right])
            with suppress(InvalidContent):
                found = pair.count(answers[left].get(right, b""), answers[right].get(left, b""))
                rows[left][right] = rows[right][left] = found.overlap
        return tuple(tuple(row.values()) for row in rows.values())

    def _answers(self, inputs: RoundInputs[ClusterState], state: ClusterState, client: int) -> dict[int, bytes]:
        """A client's answers by partner; none if they cannot be opened."""
        lengths = answer_lengths(state.sizes, client)
        digest, size = inputs.current.commits[client].digest, OVERHEAD + sum(lengths.values())
        try:
            plain = unseal(self._mailboxes, inputs.store.fetch(digest, size), bytes.fromhex(state.session))
        except (BlobError, InvalidContent):
            return {}
        return {partner: part_of(lengths, partner, plain) for partner in lengths}
