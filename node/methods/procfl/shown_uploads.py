"""How a member of a suspected cluster answers for the very upload that fell (docs/clustering.md, malicious clusters).

It tells each judge its mask secret of the round that is judged. That secret must outlive its round until nobody can ask
for it any more, and is destroyed then: it is in the journal before the upload is committed to, and no longer than until
the vote is closed, or it is plain that there is none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedgrove.ipfs.store import ContentReader
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.methods.procfl.cases import Case
from fedgrove.node.methods.procfl.codec import ClusterCodec
from fedgrove.node.methods.procfl.round_inputs import state_after
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.protocol.aggregation import named_recovery
from fedgrove.node.protocol.journal import Journal
from fedgrove.node.protocol.local_work import CannotTakePart
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig

_SECRET = "shown"
_NUMBER_BYTES = 8


@dataclass(eq=False, repr=False)
class ShownUploads:
    """A member's side: keep, show, destroy; and a judge's: open. ``inputs`` are a sealed round's public ones."""

    store: ContentReader
    config: FederationConfig
    journal: Journal
    inputs: Callable[[RoundRecords], RoundInputs[ClusterState]]
    _settled: tuple[int, bytes, bytes] | None = None

    # --- the member -------------------------------------------------------------------------------------------------

    def keep(self, number: int) -> None:
        """Have the mask secret of a round of training where it outlives the round: durable when this returns."""
        if self._kept_of() != number:
            secrets = RoundSecrets.from_bytes(bytes.fromhex(self.journal.noted(number).secrets))
            self.journal.keep(_SECRET, number.to_bytes(_NUMBER_BYTES) + secrets.mask_secret)

    def plain(self, inputs: RoundInputs[ClusterState]) -> bytes:
        """The disclosure of a suspected member in a "show" round: e, 32 bytes; raises CannotTakePart: it is gone."""
        kept = self.journal.kept(_SECRET)
        if kept is None or self._kept_of() != inputs.rounds.base_before(inputs.current.number).number:
            raise CannotTakePart("its journal has lost the secret that opens its upload")
        return kept[_NUMBER_BYTES:]

    def settle(self, rounds: Rounds, client: int) -> None:
        """Destroy the secret as soon as the ledger shows that nobody may ask for it any more.

        The closing of a round can be voided as long as it is the latest. So the secret stays until the vote is closed:
        a repeated round to show must not find it gone.

        Raises
        ------
        StoreError, InvalidContent
            What the last round left cannot be read: the secret stays.
        """
        number = self._kept_of()
        if number is None or number not in rounds.rounds or rounds.rounds[number].end is None:
            return
        base = rounds.base
        ended = rounds.all_held(self.config.rounds_to_close, self.config.federation.repeats)
        over = base is None or base.number < number or ended
        if base is not None and not over:
            known = (base.number, base.result.model_digest, base.result.metrics_digest)
            if known == self._settled:
                return
            state = state_after(base, self.config, self.store)
            over = not _asked(state, client)
            self._settled = known
        if over:
            self.destroy()

    def destroy(self) -> None:
        """Overwrite the secret; durable when this returns."""
        self.journal.keep(_SECRET, b"")

    def _kept_of(self) -> int | None:
        """The round whose secret is kept."""
        kept = self.journal.kept(_SECRET)
        return int.from_bytes(kept[:_NUMBER_BYTES]) if kept else None

    # --- the judge --------------------------------------------------------------------------------------------------

    def models(self, current: RoundRecords, case: Case, shown: Mapping[int, bytes]) -> dict[int, np.ndarray]:
        """The models that members sent in the round of training that a vote is about: float32 (d,) by member.

        Parameters
        ----------
        current : RoundRecords
            That round.
        shown : mapping of int to bytes
            What members showed to this judge.
        """
        trained = self.inputs(current)
        record = named_recovery(trained)
        return ClusterCodec(self.config).opened(trained, record, case.members, shown)


def _asked(state: ClusterState, client: int) -> bool:
    """Whether a member may be, or was, drawn to show what it sent, and judges may ask for it again."""
    if state.stage == "show":
        return any(client in case.suspects for case in state.cases)
    return state.stage == "vote" and any(client in case.members for case in state.cases)
