"""Client-level differential privacy in the ring (Geyer et al. 2017): ``node.privacy.client_level`` for real rounds.

The whole upload is clipped as one vector, the model's weights and whatever the strategy sends with them.
All clients weigh the same. Where the terms ask for an evaluation, each client's rates stand behind its update, within
the same sensitivity and noise; in the round that only evaluates the last model they stand alone.
"""

import os
from collections.abc import Iterable
from hashlib import sha256

import numpy as np
from eth_utils import keccak

from fedgrove.common.errors import InvalidContent, InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.client import MaskingRefused
from fedgrove.node.masking.graph import Group
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.masking.limits import check_sum
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.survivors import opened_groups
from fedgrove.node.methods.training.codec import ModelCodec, ModelUpdate, settings_of, uploaded
from fedgrove.node.methods.training.metric_sums import rates_of
from fedgrove.node.privacy.accountant import GaussianRelease, Release
from fedgrove.node.privacy.client_level import (
    ClientLevelRound,
    ClientLevelSum,
    decode_rates,
    fill_up,
    upload_layout,
)
from fedgrove.node.privacy.clipping import clip_range
from fedgrove.node.privacy.mechanism import Weight
from fedgrove.node.privacy.records import ClientLevelRecord
from fedgrove.node.privacy.sampling import sampling_fault
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.accounting import Accounting
from fedgrove.node.protocol.cells import Cells
from fedgrove.node.protocol.masked_sum import masked_bytes, unmasked_sum
from fedgrove.node.protocol.members_rates import MembersRates
from fedgrove.node.protocol.round_inputs import Outcome, RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.terms import PPM, FederationConfig


class ClientLevelUploads(ModelCodec):
    """Clipped updates on a grid, each with its share of the noise, under masks."""

    kind = ClientLevelSum

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, ClientLevelSettings)
        self._rates = rate_names(config)

    def upload_bytes(self, layout: Layout) -> int:
        vote = self._settings.clipping == "quantile" and bool(layout.names)
        return WORD.itemsize * (layout.length + vote + len(self._rates))

    def groups(self, cells: Cells, current: RoundRecords) -> tuple[Group, ...]:
        """Half of the clients, by a coin each, where sums must not be split: noise is made for one sum.

        The others send nothing this time. A spoiler is among them every other round.
        """
        if not current.apart:
            return ()
        return (Group.of(current.positions(in_half(current, current.order)), cells.crowd(current)),)

    def encode(self, inputs: RoundInputs[Tensors], client: int, secrets: RoundSecrets, update: ModelUpdate) -> bytes:
        if not inputs.sums(client):
            return b""
        mechanism = ClientLevelSum(Layout.of(update.tensors), self._round(inputs))
        try:
            grid = mechanism.round.grid
        except InvalidInput as fault:
            raise MaskingRefused(str(fault)) from None
        rates = rates_of(update.metrics, self._rates)
        trained = flatten(update.tensors) if mechanism.round.trains else np.empty(0, np.float32)
        words = mechanism.encode(trained, lambda: inputs.previous, Weight(1, 1), os.urandom, rates)
        mechanism.add_noise(words, os.urandom)
        return masked_bytes(inputs, client, secrets, words, upload_layout(uploaded(inputs), grid), grid.rates)

    def mean(self, inputs: RoundInputs[Tensors], record: RecoveryRecord) -> Outcome[Tensors]:
        planned = self._round(inputs)
        try:
            grid = planned.grid
        except InvalidInput as fault:
            raise InvalidUpdate(str(fault), 0) from None
        (group,) = opened_groups(inputs.graph, inputs.survivors, record.left_out)
        layout = upload_layout(uploaded(inputs), grid)
        words = unmasked_sum(inputs, record, layout, group, grid.rates)
        survivors = shares = len(group)
        if self._settings.participation == "secret":
            fill_up(grid, words, survivors, _ledger_bytes(record))
            shares = grid.sharers
        words, behind = np.split(words, [layout.length])
        check_sum(words, grid.limits(survivors, shares))
        members = self._members(inputs, planned, behind, (survivors, shares)) if self._rates else None
        if inputs.only_evaluates:
            return Outcome(inputs.previous, planned.record(survivors, None), members)
        vector, stated = ClientLevelSum(inputs.layout, planned).close(words, lambda: inputs.previous, survivors)
        return Outcome(unflatten(vector, inputs.layout), stated, members)

    def _members(
        self, inputs: RoundInputs[Tensors], planned: ClientLevelRound, words: np.ndarray, summed: tuple[int, int]
    ) -> MembersRates:
        """The rates in the words behind the model's; ``summed`` counts the uploads and the shares of noise in them."""
        most, last = planned.grid.rate_limit(*summed), inputs.only_evaluates
        beyond = [name for name, word in zip(self._rates, words.view("<i4").tolist(), strict=True) if abs(word) > most]
        void = f"the members' words of {', '.join(beyond)} exceed what they can add up to" if beyond else ""
        if not inputs.graph.is_whole and self._settings.participation == "secret":
            void = "only a part of the members is summed in this round, and nobody is to know how many are expected"
        if void:
            return MembersRates({}, 0.0, void, last)
        rates = decode_rates(planned.grid, words, planned.divisor(summed[0]))
        return MembersRates(dict(zip(self._rates, rates, strict=True)), planned.rate_deviation(summed[0]), last=last)

    def _round(self, inputs: RoundInputs[Tensors]) -> ClientLevelRound:
        trains = not inputs.only_evaluates
        return round_of(self.config, inputs.current, inputs.layout.length, self._clip(inputs), trains)

    def _clip(self, inputs: RoundInputs[Tensors]) -> float:
        """S: of the terms, or where it follows a quantile, what the round before left."""
        base = inputs.base if self._settings.clipping == "quantile" else None
        if not isinstance(base, ClientLevelRecord):
            return self._settings.clip
        least, most = clip_range(self._settings)
        if not least <= base.next_clip <= most:
            raise InvalidContent(f"the round before states {base.next_clip} as the next clip, which is impossible")
        return base.next_clip


class ClientLevelAccounting(Accounting):
    """A sum's cost, by the shares of noise that are in it."""

    counts_when_opened = True

    def __init__(self, config: FederationConfig) -> None:
        super().__init__(config)
        self._settings = settings_of(config, ClientLevelSettings)
        self.everybody_spends = self._settings.participation == "secret"
        self.budget = self._settings.epsilon
        self.delta = self._settings.delta

    def is_summed(self, current: RoundRecords, client: int) -> bool:
        return bool(in_half(current, [client]))

    def planned_release(self, number: int, parameters: int) -> Release:
        rate = self.config.rate_ppm(number) / PPM if self.everybody_spends else 1.0
        return GaussianRelease(self._settings.noise_multiplier_of(number), rate)

    def release(self, current: RoundRecords, parameters: int) -> Release:
        if not self.everybody_spends:
            return self.release_to_readers(current, parameters)
        planned = self._round(current, parameters)
        return planned.grid.release(planned.sharers, planned.rate)  # whoever dropped out: the noise was filled up

    def release_to_readers(self, current: RoundRecords, parameters: int) -> Release:
        return self._round(current, parameters).grid.release(len(in_half(current, current.commits)), 1.0)

    def unfit(self, number: int, members: int) -> str:
        ledger, rate = self.config.ledger, self.config.rate_ppm(number) / PPM
        rounds = self.config.rounds_to_close
        return sampling_fault(self._settings, rate, members, ledger.quorum, ledger.max_clients, rounds)

    def later_phases(self, number: int) -> tuple[int, ...]:
        return tuple(phase for phase in self._settings.phases if phase > number)

    def _round(self, current: RoundRecords, parameters: int) -> ClientLevelRound:
        # What it costs does not depend on S, nor on whether there are updates with the rates.
        return round_of(self.config, current, parameters, clip=1.0)


def rate_names(config: FederationConfig) -> tuple[str, ...]:
    """Names of the rates behind every update; none where the terms ask for no evaluation."""
    return config.evaluation.metrics if config.evaluation is not None else ()


def round_of(
    config: FederationConfig, current: RoundRecords, parameters: int, clip: float, trains: bool = True
) -> ClientLevelRound:
    """The mechanism's view of a sealed round."""
    settings, rate = settings_of(config, ClientLevelSettings), current.opened.sampling_rate / PPM
    sharers, rates = len(in_half(current, current.shares)), len(rate_names(config))
    drawn = (current.members, rate, sharers)
    return ClientLevelRound(settings, current.number, parameters, clip, *drawn, rates=rates, trains=trains)


def in_half(current: RoundRecords, clients: Iterable[int]) -> list[int]:
    """Those of the clients of a sealed round that are summed: all, or after a spoilt round those whose coin says so."""
    if not current.apart:
        return list(clients)
    seed = current.sealing.order_seed
    return [client for client in clients if keccak(seed + client.to_bytes(32, "big"))[0] & 1]


def _ledger_bytes(record: RecoveryRecord) -> bytes:
    """32 bytes that nobody knows before the round is recovered, and then whoever reads the ledger and the store."""
    return sha256(b"fedgrove missing noise 1" + record.transcript + b"".join(record.self_seeds.values())).digest()
