"""What the coordinator of a federation with clusters states: overlaps that it counted, right answers that it found."""

from collections.abc import Callable, Sequence

from chain.keys import Keys
from ipfs.store import BlobError
from node.clustering.ecdh import Comparison
from node.clustering.hash_to_curve import POINT_BYTES
from node.clustering.mailbox import NotForReader, unseal
from node.clustering.messages import InvalidMessage, message_bytes
from node.clustering.state import ClusterState
from node.clustering.stated import Counts, Stated
from node.tensors import Tensors
from node.uploads.clusters import answer_lengths, session_of
from node.uploads.kind import UploadRound

LabelTest = Callable[[Tensors], tuple[Counts, Counts]]
"""Maps a model to right answers, and samples, of each label."""


class ClusterStatements:
    """Counts and tests. It alone opens the clients' answers: who compares both learns more than their number.

    Parameters
    ----------
    keys : Keys
        Of the coordinator; its mailbox key is the terms' ``clusters.counter``.
    test : callable
        Tests a model on the public samples.
    """

    def __init__(self, keys: Keys, test: LabelTest) -> None:
        self._mailboxes = (keys.mailbox, *keys.past_mailboxes)
        self._test = test

    def __call__(self, round: UploadRound, state: ClusterState) -> Stated | None:
        """What is to be stated of a round that ends with this state; None where nothing is."""
        match state.stage:
            case "count":
                return Stated(overlaps=self._overlaps(round, state))
            case "watch":
                return self._tested(state.models)
            case "sorted":
                return self._tested(state.trials)
        return None

    def _tested(self, models: Sequence[Tensors]) -> Stated:
        results = [self._test(model) for model in models]
        return Stated(right=tuple(right for right, _ in results), tested=results[0][1])

    def _overlaps(self, round: UploadRound, state: ClusterState) -> tuple[Counts, ...]:
        """How much all pairs have in common. A pair whose messages do not fit has nothing."""
        clients, session = state.clients, session_of(round)
        blinded = {client: self._blinded(round, state, client) for client in clients}
        answers = {client: self._answers(round, state, client, session) for client in clients}
        rows = [[0] * len(clients) for _ in clients]
        for place, left in enumerate(clients):
            rows[place][place] = state.sets[left][1]
            for other, right in enumerate(clients[:place]):
                pair = Comparison(session, right, left, blinded[right], blinded[left])
                try:
                    found = pair.count(answers[right].get(left, b""), answers[left].get(right, b""))
                except InvalidMessage:
                    continue
                rows[place][other] = rows[other][place] = found.overlap
        return tuple(map(tuple, rows))

    def _blinded(self, round: UploadRound, state: ClusterState, client: int) -> bytes:
        digest, size = state.sets[client]
        return round.store.fetch(bytes.fromhex(digest), message_bytes(size, POINT_BYTES))

    def _answers(self, round: UploadRound, state: ClusterState, client: int, session: bytes) -> dict[int, bytes]:
        """A client's answers by partner; none if they cannot be opened."""
        lengths = answer_lengths(state, client)
        limit = sum(lengths.values()) + (1 << 10)
        try:
            plain = unseal(self._mailboxes, round.store.fetch(round.entry.commits[client].digest, limit), session)
        except (BlobError, NotForReader):
            return {}
        found = {}
        for partner, length in lengths.items():
            found[partner], plain = plain[:length], plain[length:]
        return found
