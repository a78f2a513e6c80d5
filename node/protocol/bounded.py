"""Bounds on the updates of a round: who vouched for its own, whose are summed, and whether the sum bears that out.

All of it follows from what the ledger lists and from the blobs under its digests. Whoever cannot fetch one of them that
counts comes to no verdict: another list of survivors than the others' would open masks of members that are summed.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.masking.bounds.affirmation import Observation, attested, decode_affirmation, encode_affirmation
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.equation import OuterMasks, equation_holds, worn
from fedgrove.node.masking.bounds.expulsion import after_expulsion, disproven
from fedgrove.node.masking.bounds.sketch import Sketch, norm_limit, sketch_seed
from fedgrove.node.masking.bounds.verdict import Reveal, Verdict, contradicted, reveal, valid_vouchers, verdict_on
from fedgrove.node.masking.bounds.vouching import Limits, Setting, Voucher, vouch, voucher_bytes
from fedgrove.node.masking.keys import RoundSecrets, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, fraction_bits
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.content import fetch_available, unavailable
from fedgrove.node.protocol.misstated import Misstated
from fedgrove.node.protocol.reveals import most_reveal_bytes, read_reveals, reveal_bytes
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords

_KEPT = 4  # rounds at a time: the one that runs, and the one whose model it trains from


class BoundedRounds:
    """Bounds on the updates of a federation's rounds, each voucher checked once.

    Parameters
    ----------
    codec : Codec
        How updates become uploads.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._kept: dict[bytes, BoundedRound] = {}

    def of(self, inputs: RoundInputs) -> "BoundedRound":
        """The bounds on the updates of a round, as the ledger shows it to these inputs."""
        key = _listed(inputs)
        found = self._kept.pop(key, None)
        if found is None:
            words = self._codec.expected_bytes(inputs, inputs.current.order[0]) // WORD.itemsize
            earlier = next((each for each in reversed(self._kept.values()) if _is_same(each.inputs, inputs)), None)
            bare = replace(inputs, current=_now(inputs.current))  # without the model that the round trains from
            known = earlier.known if earlier is not None else Known()
            found = BoundedRound(bare, words, self._codec.metric_limits(), known)
        self._kept = {**dict(list(self._kept.items())[-_KEPT:]), key: found}
        return found


@dataclass(frozen=True)
class Known:
    """What holds whatever else the ledger comes to list of a round, so that it is computed once.

    Attributes
    ----------
    settings : dict of bytes to Setting
        By the hash of the block from which the sketch follows.
    valid : dict of bytes to bool
        Whether a voucher proves what it must, by the digest of the voucher and of what it is about.
    sums : dict of bytes to Misstated or None
        What is wrong with the sum by a recovery record, by the digest of the record and of the sketch.
    """

    settings: dict[bytes, Setting] = field(default_factory=dict)
    valid: dict[bytes, bool] = field(default_factory=dict)
    sums: dict[bytes, Misstated | None] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class BoundedRound:
    """Bounds on the updates of one round.

    Parameters
    ----------
    inputs : RoundInputs
        The round, as the ledger showed it at some time.
    words : int
        Of every upload, those of the metrics too.
    metrics : tuple of int
        The largest value of each metric word.
    known : Known
        What was computed before.
    """

    inputs: RoundInputs
    words: int
    metrics: tuple[int, ...]
    known: Known

    # --- what is proven ----------------------------------------------------------------------------------------------

    @property
    def setting(self) -> Setting:
        """The facts under which vouchers are checked; there must be one."""
        return self.setting_of(self.inputs.current.sketch_hash)

    def setting_of(self, block_hash: bytes) -> Setting:
        """The same, given the hash of the block from which the sketch follows."""
        settings = self.known.settings
        if block_hash not in settings:
            settings[block_hash] = self._make_setting(block_hash)
        return settings[block_hash]

    def _make_setting(self, block_hash: bytes) -> Setting:
        inputs = self.inputs
        graph, config, current = inputs.graph, inputs.config, inputs.current
        uploads = {current.order.index(client): each.digest for client, each in current.commits.items()}
        length = self.words - len(self.metrics)
        assert config.bounds is not None, "rounds without bounds have no vouchers"
        words = config.bounds.words_of(graph.n, config.masking.assumed)
        seed = sketch_seed(graph.context, block_hash, (each.digest for each in current.commits.values()))
        bits, norm, total = fraction_bits(config.masking.bound), config.bounds.norm, graph.total_samples
        limits = {
            position: Limits(norm_limit(norm, graph.participants[position].samples, total, bits, length), self.metrics)
            for position in uploads
        }
        sketch = Sketch(seed, length, words, len(self.metrics))
        return Setting(graph, frozenset(inputs.sharers), sketch, uploads, limits)

    def vouch(self, position: int, secrets: RoundSecrets, upload: bytes, block_hash: bytes) -> bytes:
        """A member's voucher for what it uploaded, under the sketch that follows from a block.

        Raises MaskingRefused: its update is beyond a bound.
        """
        setting = self.setting_of(block_hash)
        return vouch(setting, position, secrets, np.frombuffer(upload, WORD), os.urandom)

    # --- what members say of each other ------------------------------------------------------------------------------

    @cached_property
    def vouched(self) -> tuple[int, ...]:
        """Positions whose vouchers are listed, ascending."""
        return self.inputs.current.positions(self.inputs.current.vouches)

    def voucher_bytes(self, position: int) -> int:
        """How long a member's voucher is."""
        return voucher_bytes(self.setting, position)

    def most_reveal_bytes(self, position: int) -> int:
        """How long what a member reveals is at most."""
        return most_reveal_bytes(len(self.setting.partners(position)))

    def missing(self, position: int) -> list[int]:
        """Clients whose upload or voucher a witness cannot have, of those it speaks of; raises Unreachable."""
        current, graph = self.inputs.current, self.inputs.graph
        clients = [graph.client(owner) for owner in attested(graph, position, self.vouched)]
        uploads = dict.fromkeys(clients, self.words * WORD.itemsize)
        vouchers = {client: voucher_bytes(self.setting, current.order.index(client)) for client in clients}
        gone = unavailable(self.inputs.store, {client: current.commits[client].digest for client in clients}, uploads)
        lost = unavailable(self.inputs.store, {client: current.vouches[client].digest for client in clients}, vouchers)
        return sorted({*gone, *lost})

    def affirmation(self, position: int, missing: Collection[int]) -> bytes:
        """A witness's word on those it speaks of, 32 bytes, given those that it ``missing``; raises Unreachable."""
        graph = self.inputs.graph
        owners = [owner for owner in attested(graph, position, self.vouched) if graph.client(owner) not in missing]
        valid = self._valid(self._fetched(owners)) if owners else {}
        seen = {owner: Observation(True, owner in valid) for owner in owners}
        return encode_affirmation(graph, position, self.vouched, seen)

    def contradicting(self, position: int) -> tuple[int, ...]:
        """Partners whose vouchers contradict a member's on an edge that it has not revealed, where both are valid.

        Raises StoreError.
        """
        if position not in self.vouched:
            return ()
        partners = [other for other in self.setting.partners(position) if other in self.vouched]
        vouchers = self._valid(self._fetched([position, *partners]))
        edges = contradicted(self.setting, vouchers) if position in vouchers else ()
        found = {low + high - position for low, high in edges if position in (low, high)}
        shown = {each.partner for each in self._reveals_of(position)} if found else set()
        return tuple(sorted(found - shown))

    def reveal(self, position: int, partners: Collection[int], secrets: RoundSecrets) -> bytes:
        """A blob that shows the points which a member shares with partners that contradict it."""
        edges = [reveal(self.setting, position, partner, secrets, os.urandom) for partner in sorted(partners)]
        return reveal_bytes(edges)

    # --- whose updates are summed ------------------------------------------------------------------------------------

    @cached_property
    def present(self) -> tuple[int, ...]:
        """Positions of which more witnesses say that upload and voucher can be had than that they cannot."""
        current, graph = self.inputs.current, self.inputs.graph
        votes = dict.fromkeys(self.vouched, 0)
        for client, record in current.affirmations.items():
            try:
                said = decode_affirmation(record.word, graph, current.order.index(client), self.vouched)
            except InvalidContent:
                continue  # a witness that writes nonsense says nothing
            for owner, seen in said.items():
                votes[owner] += 1 if seen.available else -1
        return tuple(owner for owner, count in votes.items() if count > 0)

    @cached_property
    def vouchers(self) -> dict[int, Voucher]:
        """The valid vouchers of those who are present, by position.

        Raises StoreError: one of those that their witnesses affirm cannot be had.
        """
        blobs = self._fetched(self.present)
        for position in self.present:
            if position not in blobs:
                digest = self.inputs.current.vouches[self.inputs.graph.client(position)].digest
                with suppress(TooLarge, Malformed):  # that is no voucher, and whoever fetches it finds the same
                    blobs[position] = self.inputs.store.fetch(digest, voucher_bytes(self.setting, position))
        return self._valid(blobs)

    @cached_property
    def verdict(self) -> Verdict:
        """Whose updates are summed, and why the others' are not; raises StoreError."""
        return verdict_on(self.setting, self.present, self.vouchers, self._reveals)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Positions of those whose updates may be summed, ascending; raises StoreError."""
        return self.verdict.survivors if self.vouched else ()

    def verdict_words(self) -> dict[int, str]:
        """Why members who published a voucher are not summed, in one clause each, by position; raises StoreError."""
        if not self.vouched:
            return {}
        verdict, absent = self.verdict, set(self.vouched) - set(self.present)
        unresolved = {end for edge in verdict.unresolved for end in edge}
        why = {
            "most of its witnesses could not have its update and voucher": absent,
            "its voucher proves nothing under this round's sketch": set(verdict.invalid),
            "a partner contradicts it, and neither showed the point that they share": unresolved,
            "a revealed point disproves what it says of a mask": set(verdict.named),
        }
        return {position: said for said, positions in why.items() for position in sorted(positions)}

    @property
    def named(self) -> tuple[int, ...]:
        """Positions of those who lied about an edge, or misstated a sum that was looked at, ascending."""
        faults = [fault for fault in self.known.sums.values() if fault is not None]
        edges = self.verdict.named if self.vouched else ()
        return tuple(sorted({*edges, *(position for fault in faults for position in fault.liars)}))

    @property
    def _reveals(self) -> list[Reveal]:
        """What was revealed before the verdict; raises StoreError."""
        current = self.inputs.current
        return [each for client in current.reveals for each in self._reveals_of(current.order.index(client))]

    def _reveals_of(self, position: int) -> list[Reveal]:
        current = self.inputs.current
        last = current.deadlines(self.inputs.config.ledger).affirm_end
        listed = current.reveals.get(self.inputs.graph.client(position), [])
        most = self.most_reveal_bytes(position)
        digests = [record.digest for record in listed if record.at.block <= last]
        return [each for digest in digests for each in read_reveals(self.inputs.store, digest, most, position)]

    # --- the sum -----------------------------------------------------------------------------------------------------

    def check(self, record: RecoveryRecord, group: Collection[int], words: np.ndarray) -> None:
        """Raise Misstated unless a sum is what its members vouched for, and those whom the record expels lied.

        Parameters
        ----------
        record : RecoveryRecord
            The round's, checked.
        group : collection of int
            Positions of those who are summed.
        words : uint32 array
            Their sum, with all masks off.
        """
        key = hashlib.sha256(self.setting.sketch.seed + record.to_bytes()).digest()
        if key not in self.known.sums:
            self.known.sums[key] = self._misstated(record, frozenset(group), words)
        fault = self.known.sums[key]
        if fault is not None:
            raise fault.with_traceback(None)  # it is kept

    def _misstated(self, record: RecoveryRecord, group: frozenset[int], words: np.ndarray) -> Misstated | None:
        innocent = record.expelled.keys() - self._proven(record)
        if innocent:
            client = self.inputs.graph.client(min(innocent))
            return Misstated(f"it leaves out client {client}, which did not lie", client, {})
        sketch, vouchers = self.setting.sketch, self.vouchers
        outer = OuterMasks.recomputed(sketch, worn(left_over(self.inputs.graph, group, record)))
        if equation_holds({position: vouchers[position] for position in sorted(group)}, sketch.of(words), outer):
            return None
        liars = disproven(self.setting, vouchers, group, record, self._upload)
        assert liars, "by linearity the equation holds where nobody differs"
        client = self.inputs.graph.client(min(liars))
        named = "; ".join(
            f"client {self.inputs.graph.client(position)}: {lie.value}" for position, lie in liars.items()
        )
        return Misstated(
            f"the sum is not what its members vouched for ({named})",
            client,
            {position: record.self_seeds[position] for position in sorted(liars)},
        )

    def _proven(self, record: RecoveryRecord) -> set[int]:
        """Those whom a record expels and whom the keys in it prove to have lied."""
        return {position for position, seed in record.expelled.items() if self._lied(position, seed, record)}

    def _lied(self, position: int, seed: bytes, record: RecoveryRecord) -> bool:
        """Whether a voucher differs from what follows from the member's upload, its self-mask and its open edges."""
        setting, voucher = self.setting, self.vouchers[position]
        if not np.array_equal(setting.sketch.of(self._upload(position)), voucher.upload):
            return True
        graph = setting.graph
        client, context = graph.client(position), graph.context
        keys = [MaskKey(self_mask_key(context, seed, client), False)]
        for partner in setting.partners(position):
            for mine, other in ((partner, position), (position, partner)):
                if mine in record.mask_secrets:
                    public, ends = graph.participants[other].mask_key, (graph.client(mine), graph.client(other))
                    key = pair_mask_key(context, record.mask_secrets[mine], public, *ends)
                    keys.append(MaskKey(key, False, (position, partner)))
                    break
        own, *edges = (mask.commitment for mask in sketched_masks(setting.sketch, keys))
        stated = [voucher.pairs[key.pair[1]] for key in keys if key.pair is not None]
        return own != voucher.own or edges != stated

    def check_connected(self, record: RecoveryRecord, liars: Collection[int]) -> None:
        """Raise MaskingRefused unless masks connect all who are left of a sum without some liars."""
        after_expulsion(self.setting, record.self_seeds.keys(), liars)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _fetched(self, positions: Collection[int]) -> dict[int, bytes]:
        """Vouchers of these, as far as they can be had and have the right size; raises Unreachable."""
        current, graph = self.inputs.current, self.inputs.graph
        digests = {position: current.vouches[graph.client(position)].digest for position in positions}
        sizes = {position: voucher_bytes(self.setting, position) for position in positions}
        return fetch_available(self.inputs.store, digests, sizes)

    def _valid(self, blobs: Mapping[int, bytes]) -> dict[int, Voucher]:
        """Those that are valid, each checked once."""
        keys = {position: self._key_of(position, data) for position, data in blobs.items()}
        checked = self.known.valid
        fresh = {position: data for position, data in blobs.items() if keys[position] not in checked}
        found = valid_vouchers(self.setting, fresh) if fresh else {}
        checked.update({keys[position]: position in found for position in fresh})
        known = [position for position in blobs if position not in fresh and checked[keys[position]]]
        found |= {position: Voucher.parse(blobs[position], self.setting, position) for position in known}
        return dict(sorted(found.items()))

    def _key_of(self, position: int, data: bytes) -> bytes:
        about = (self.setting.sketch.seed, self.setting.uploads[position], position.to_bytes(4), data)
        return hashlib.sha256(b"".join(about)).digest()

    def _upload(self, position: int) -> np.ndarray:
        """What a member uploaded: uint32; raises StoreError."""
        digest = self.inputs.current.commits[self.inputs.graph.client(position)].digest
        return np.frombuffer(self.inputs.store.fetch(digest, self.words * WORD.itemsize), WORD)


def _now(current: RoundRecords) -> RoundRecords:
    """The records of a round as they are; more may come."""
    by_member = {kind: dict(records) for kind, records in current.by_member.items()}
    reveals = {client: list(records) for client, records in current.reveals.items()}
    further = {stage: dict(records) for stage, records in current.further.items()}
    return replace(current, once=dict(current.once), by_member=by_member, reveals=reveals, further=further)


def _listed(inputs: RoundInputs) -> bytes:
    """SHA-256 of what a verdict depends on, as the ledger lists it."""
    current = inputs.current
    shown = [record for records in current.reveals.values() for record in records]
    parts = (
        [current.deadlines(inputs.config.ledger).affirm_end.to_bytes(8)],
        [each.client.to_bytes(4) + each.digest for each in current.commits.values()],
        [each.client.to_bytes(4) + each.digest for each in current.vouches.values()],
        [each.client.to_bytes(4) + each.word for each in current.affirmations.values()],
        [each.at.block.to_bytes(8) + each.client.to_bytes(4) + each.digest for each in shown],
    )
    state = hashlib.sha256(inputs.graph.digest + current.sketch_hash)
    for part in parts:
        state.update(len(part).to_bytes(4) + b"".join(part))
    return state.digest()


def _is_same(one: RoundInputs, other: RoundInputs) -> bool:
    """Whether two are of one round, on one branch of the chain, with the same commitments."""
    digests = [[each.digest for each in inputs.current.commits.values()] for inputs in (one, other)]
    return one.graph.digest == other.graph.digest and digests[0] == digests[1]
