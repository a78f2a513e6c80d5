"""Client-level differential privacy in the ring (Geyer et al. 2017): ``node.privacy.client_level`` for real rounds.

What is clipped is the whole upload, the model's weights and whatever the strategy sends beside them, as one vector.
All clients weigh the same.
"""

import os
from hashlib import sha256

from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.graph import Adjacency
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.limits import check_sum
from fedgrove.node.masking.parameters import group_size
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.training.codec import AccountedCodec, settings_of
from fedgrove.node.methods.training.regrouping import half
from fedgrove.node.privacy.accountant import GaussianRelease, Release
from fedgrove.node.privacy.client_level import decode_sum, divisor_for, encode_update, fill_up, upload_layout
from fedgrove.node.privacy.clipping import clip_range, next_clip
from fedgrove.node.privacy.grid import Grid, RingTooSmall, grid_for
from fedgrove.node.privacy.records import ClientLevelRecord
from fedgrove.node.privacy.sampling import sampling_fault
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.content import InvalidBlob
from fedgrove.node.protocol.masked_sum import masked_bytes, unmasked_sum
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import PPM, FederationConfig


class ClientLevelUploads(AccountedCodec):
    """Clipped updates on a grid, each with its share of the noise, under masks."""

    weighs_samples = False
    tells_when_opened = True

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, ClientLevelSettings)
        self.everybody_spends = self._settings.participation == "secret"
        self.budget = self._settings.epsilon
        self.delta = self._settings.delta

    def upload_bytes(self, layout: Layout) -> int:
        return WORD.itemsize * (layout.length + (self._settings.clipping == "quantile"))

    def expected_bytes(self, inputs: RoundInputs[Tensors], client: int) -> int:
        return super().expected_bytes(inputs, client) if inputs.sums(client) else 0

    def parts(self, n: int) -> Adjacency:
        return half(n, self.least(n), self.config.masking.assumed)

    def least(self, n: int) -> int:
        return group_size(n, self.config.masking.assumed)

    def is_summed(self, current: RoundRecords, client: int) -> bool:
        if not current.regrouped or not current.order:
            return True
        return current.order.index(client) in self.parts(len(current.order))[0]

    def encode(self, inputs: RoundInputs[Tensors], client: int, secrets: RoundSecrets, update: Tensors) -> bytes:
        if not inputs.sums(client):
            return b""
        try:
            grid = self._grid(inputs)
        except RingTooSmall as fault:
            raise MaskingRefused(str(fault)) from None
        words = encode_update(grid, inputs.change(update), os.urandom)
        return masked_bytes(inputs, client, secrets, words, upload_layout(inputs.layout, grid))

    def in_place_of_diverged(self, inputs: RoundInputs[Tensors]) -> Tensors:
        """No update at all: it has its noise like any other, so that nobody learns whose training diverged."""
        return inputs.previous

    def outcome(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        try:
            grid = self._grid(inputs)
        except RingTooSmall as fault:
            raise InvalidUpdate(str(fault), 0) from None
        group = opened_groups(inputs.graph, inputs.survivors, record.left_out)[0] if inputs.graph.groups else None
        words = unmasked_sum(inputs, record, upload_layout(inputs.layout, grid), group)
        survivors = shares = self._survivors(inputs.current)
        if self.everybody_spends:
            fill_up(grid, words, survivors, _told_by_the_ledger(record))
            shares = grid.sharers
        check_sum(words, grid.limits(survivors, shares))
        mean, below = decode_sum(grid, words, self._divisor(inputs.current))
        model = unflatten(flatten(inputs.previous) + mean, inputs.layout)
        return Outcome(model, self._record(inputs.current, grid, below))

    def planned_release(self, number: int, parameters: int) -> Release:
        rate = self.config.rate_ppm(number) / PPM if self.everybody_spends else 1.0
        return GaussianRelease(self._settings.noise_multiplier_of(number), rate)

    def release(self, current: RoundRecords, parameters: int) -> Release:
        if not self.everybody_spends:
            return self.release_to_readers(current, parameters)
        grid = self._grid_of(current, parameters, clip=1.0)  # what it costs does not depend on S
        return grid.release(grid.sharers, _rate(current))  # whoever dropped out: the noise was filled up

    def release_to_readers(self, current: RoundRecords, parameters: int) -> Release:
        return self._grid_of(current, parameters, clip=1.0).release(self._survivors(current), 1.0)

    def unfit(self, number: int, members: int) -> str:
        ledger, rate = self.config.ledger, self.config.rate_ppm(number) / PPM
        rounds = self.config.federation.rounds
        return sampling_fault(self._settings, rate, members, ledger.quorum, ledger.max_clients, rounds)

    def later_phases(self, number: int) -> tuple[int, ...]:
        return tuple(phase for phase in self._settings.phases if phase > number)

    # --- one round --------------------------------------------------------------------------------------------------

    def _grid(self, inputs: RoundInputs[Tensors]) -> Grid:
        return self._grid_of(inputs.current, inputs.layout.length, self._clip(inputs))

    def _grid_of(self, current: RoundRecords, parameters: int, clip: float) -> Grid:
        return grid_for(
            self._settings,
            current.number,
            parameters,
            clip,
            clients=current.members,
            rate=_rate(current),
            sharers=sum(self.is_summed(current, client) for client in current.shares),
        )

    def _survivors(self, current: RoundRecords) -> int:
        """How many uploads are in the sum."""
        return sum(self.is_summed(current, client) for client in current.commits)

    def _clip(self, inputs: RoundInputs[Tensors]) -> float:
        """S: of the terms, or where it follows a quantile, what the round before left."""
        base = inputs.base if self._settings.clipping == "quantile" else None
        if not isinstance(base, ClientLevelRecord):
            return self._settings.clip
        least, most = clip_range(self._settings)
        if not least <= base.next_clip <= most:
            raise InvalidBlob(f"the round before states {base.next_clip} as the next clip, which is impossible")
        return base.next_clip

    def _divisor(self, current: RoundRecords) -> float:
        survivors = self._survivors(current)
        return divisor_for(self._settings, clients=current.members, rate=_rate(current), survivors=survivors)

    def _record(self, current: RoundRecords, grid: Grid, below: float | None) -> ClientLevelRecord:
        settings, survivors = self._settings, self._survivors(current)
        following = grid.clip
        if below is not None:
            following = next_clip(grid.clip, below, settings)
        return ClientLevelRecord(
            epsilon=None,
            ledger_epsilon=None,
            delta=self.delta,
            noise_multiplier=grid.noise_multiplier,
            clip=grid.clip,
            clients=current.members,
            rate=_rate(current),
            sharers=grid.sharers,
            needed=grid.needed,
            survivors=survivors,
            effective_multiplier=grid.multiplier_of(survivors),
            below=below,
            next_clip=following,
        )


def _told_by_the_ledger(record: RecoveryRecord) -> bytes:
    """32 bytes that nobody knows before the round is recovered, and then whoever reads the ledger and the store."""
    return sha256(b"fedgrove missing noise 1" + record.transcript + b"".join(record.self_seeds.values())).digest()


def _rate(current: RoundRecords) -> float:
    """The probability with which a client was drawn."""
    return current.opened.sampling_rate / PPM
