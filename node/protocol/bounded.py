"""Bounds on the updates of a round: who vouched for its own, whose are summed, and whether the sum bears that out.

All of it follows from what the ledger lists and from the blobs under its digests. Whoever cannot fetch one of them that
counts comes to no verdict: another list of survivors than the others' would open masks of members that are summed.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from fedgrove.chain.records import MemberRecord, Revealed, Vouched
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.store import Malformed, TooLarge
from fedgrove.node.masking.aggregate import left_over
from fedgrove.node.masking.bounds.affirmation import Vote, Votes, encode_vote, votes_on
from fedgrove.node.masking.bounds.deposition import Deposition, contradicted, depose, most_deposition_bytes
from fedgrove.node.masking.bounds.edges import sketched_masks
from fedgrove.node.masking.bounds.equation import OuterMasks, equation_holds, worn
from fedgrove.node.masking.bounds.expulsion import after_expulsion, disproven, is_sketched
from fedgrove.node.masking.bounds.sketch import Sketch, norm_limit, sketch_seed
from fedgrove.node.masking.bounds.verdict import Listed, Verdict, judge
from fedgrove.node.masking.bounds.vouching import Bounds, Setting, Voucher, valid_vouchers, vouch, voucher_bytes
from fedgrove.node.masking.keys import RoundSecrets, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import MaskKey
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.masking.ring import WORD, fraction_bits
from fedgrove.node.protocol.affirm_times import AffirmTimes
from fedgrove.node.protocol.codec import Codec
from fedgrove.node.protocol.content import fetch_available, unavailable
from fedgrove.node.protocol.misstated import Misstated
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords

_Record = TypeVar("_Record", bound=MemberRecord)

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
    blobs : dict of bytes to bytes
        Vouchers and depositions by digest.
    """

    settings: dict[bytes, Setting] = field(default_factory=dict)
    valid: dict[bytes, bool] = field(default_factory=dict)
    sums: dict[bytes, Misstated | None] = field(default_factory=dict)
    blobs: dict[bytes, bytes] = field(default_factory=dict)


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
        bounds = {
            position: Bounds(norm_limit(norm, graph.participants[position].samples, total, bits, length), self.metrics)
            for position in uploads
        }
        sketch = Sketch(seed, length, words, len(self.metrics))
        return Setting(graph, frozenset(inputs.sharers), sketch, uploads, bounds)

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

    def most_deposition_bytes(self, position: int) -> int:
        """How long a member's deposition is at most."""
        return most_deposition_bytes(self.setting, position)

    def unpublished(self, position: int, lot: int) -> tuple[int, ...]:
        """Positions whose update a member cannot have, of those that vouched and that it is a witness of.

        Of one other, by a ``lot`` that nobody else knows: all witnesses of somebody may collude. Raises Unreachable.
        """
        graph = self.inputs.graph
        own = [owner for owner in self.vouched if position in graph.witnesses(owner)]
        others = [owner for owner in self.vouched if owner != position and owner not in own]
        return self._lacking([*own, others[lot % len(others)]] if others else own)

    @property
    def times(self) -> AffirmTimes:
        """When members object, and vote."""
        settings = self.inputs.config.ledger
        return AffirmTimes.of(self.inputs.current.deadlines(settings), settings)

    def unvouched(self) -> tuple[int, ...]:
        """Positions whose voucher is listed and cannot be had, ascending; raises Unreachable."""
        return tuple(sorted({*self.vouched} - self._vouchers.keys()))

    def unseen(self) -> tuple[int, ...]:
        """Positions whose voucher or deposition cannot be had, ascending; raises Unreachable."""
        return tuple(sorted({*self.unvouched()} | self._first_depositions.keys() - self._depositions.keys()))

    def deposition(self, position: int, secrets: RoundSecrets, missing: Collection[int]) -> bytes | None:
        """What a member has to say of partners that contradict it, and of updates that it misses; None for nothing.

        Raises Unreachable.
        """
        valid = self._valid(self._vouchers)
        if position not in valid:
            valid = {}
        found = depose(self.setting, position, secrets, valid, missing, os.urandom)
        return found.to_bytes(self.setting) if found is not None else None

    def is_settled(self, position: int) -> bool:
        """Whether a member may vote at once: it is a witness of all on whom it votes, and no edge is contradicted.

        Nor can one come to be, as it has seen all vouchers. Raises Unreachable.
        """
        graph = self.inputs.graph
        if self.unseen():
            return False
        alone = [owner for owner in votes_on(graph, position) if owner in self.vouched]
        if any(position not in graph.witnesses(owner) for owner in alone):
            return False
        return not contradicted(self.setting, self._valid(self._vouchers))

    def vote(self, position: int, late: Collection[int] = ()) -> bytes:
        """A member's word on those whose shares it holds, 32 bytes; raises Unreachable.

        ``late`` are positions whose vouchers were not there in time.
        """
        graph, unseen = self.inputs.graph, {*self.unseen(), *late}
        held = [owner for owner in votes_on(graph, position) if owner in self.vouched and owner not in unseen]
        objected = {owner for each in self._read_depositions() for owner in each.missing}
        looked = [owner for owner in held if owner in objected or position in graph.witnesses(owner)]
        gone = self._lacking(looked)
        return encode_vote(graph, position, [owner for owner in held if owner not in gone])

    # --- whose updates are summed ------------------------------------------------------------------------------------

    @cached_property
    def verdict(self) -> Verdict:
        """Whose updates are summed, and why the others' are not.

        Raises StoreError: something that counts cannot be had.
        """
        current = self.inputs.current
        cast = {at: Vote(_place(each), each.word) for at, each in self._by_position(current.affirmations).items()}
        votes = Votes(self.inputs.graph, cast)
        records = self._by_position(current.vouches)
        vouchers = {at: Listed(_place(each), self._vouchers.get(at)) for at, each in records.items()}
        # Votes may be listed after a deposition and made before it: only those count that were made after all of them.
        first, end = self._first_depositions, ((self.times.deposed + 1) << 32) - 1
        depositions = {at: Listed(end, self._depositions.get(at)) for at in first}
        counted = [(records[at].digest, voucher_bytes(self.setting, at), vouchers, at) for at in votes.present(records)]
        counted += [
            (first[at].digest, self.most_deposition_bytes(at), depositions, at)
            for at, each in depositions.items()
            if votes.has(at, each.listed_at)
        ]
        for digest, size, found, at in counted:
            if found[at].data is None:
                found[at] = replace(found[at], data=self._fetch_again(digest, size))
        return judge(self.setting, vouchers, depositions, votes)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Positions of those whose updates may be summed, ascending; raises StoreError."""
        return self.verdict.survivors if self.vouched else ()

    @cached_property
    def vouchers(self) -> dict[int, Voucher]:
        """The valid vouchers of those whose updates may be summed, by position; raises StoreError."""
        survivors, blobs = self.survivors, self._vouchers
        return self._valid({position: blobs[position] for position in survivors})

    def verdict_words(self) -> dict[int, str]:
        """Why members who published a voucher are not summed, in one clause each, by position; raises StoreError."""
        if not self.vouched:
            return {}
        verdict = self.verdict
        why = {
            "too few of its holders could have its update and voucher": verdict.absent,
            "its voucher proves nothing under this round's sketch": verdict.invalid,
            "a partner contradicts it, and neither showed the point that they share": sum(verdict.unresolved, ()),
            "a revealed point disproves what it says of a mask": verdict.named,
        }
        return {position: said for said, positions in why.items() for position in positions}

    @property
    def named(self) -> tuple[int, ...]:
        """Positions of those who lied about an edge, or misstated a sum that was looked at, ascending."""
        faults = [fault for fault in self.known.sums.values() if fault is not None]
        edges = self.verdict.named if self.vouched else ()
        return tuple(sorted({*edges, *(position for fault in faults for position in fault.liars)}))

    # --- the sum -----------------------------------------------------------------------------------------------------

    def check(self, record: RecoveryRecord, group: Collection[int], words: np.ndarray | None) -> None:
        """Raise Misstated unless a sum is what its members vouched for, and those whom the record expels lied.

        Parameters
        ----------
        record : RecoveryRecord
            The round's, checked.
        group : collection of int
            Positions of those who are summed.
        words : uint32 array or None
            Their sum, with all masks off; None: one of the uploads is none, so that there is no sum.
        """
        key = hashlib.sha256(self.setting.sketch.seed + record.to_bytes()).digest()
        if key not in self.known.sums:
            self.known.sums[key] = self._misstated(record, frozenset(group), words)
        fault = self.known.sums[key]
        if fault is not None:
            raise fault.with_traceback(None)  # it is kept

    def _misstated(self, record: RecoveryRecord, group: frozenset[int], words: np.ndarray | None) -> Misstated | None:
        innocent = record.expelled.keys() - self._proven(record)
        if innocent:
            client = self.inputs.graph.client(min(innocent))
            return Misstated(f"it leaves out client {client}, which did not lie", client, {})
        vouchers = self.vouchers
        if words is not None and self._holds(record, group, words):
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

    def _holds(self, record: RecoveryRecord, group: frozenset[int], words: np.ndarray) -> bool:
        """Whether a sum is what its members vouched for."""
        sketch, vouchers = self.setting.sketch, self.vouchers
        outer = OuterMasks.recomputed(sketch, worn(left_over(self.inputs.graph, group, record)))
        return equation_holds({position: vouchers[position] for position in sorted(group)}, sketch.of(words), outer)

    def _proven(self, record: RecoveryRecord) -> set[int]:
        """Those whom a record expels and whom the keys in it prove to have lied."""
        return {position for position, seed in record.expelled.items() if self._lied(position, seed, record)}

    def _lied(self, position: int, seed: bytes, record: RecoveryRecord) -> bool:
        """Whether a voucher differs from what follows from the member's upload, its self-mask and its open edges."""
        setting, voucher = self.setting, self.vouchers[position]
        if not is_sketched(setting, self._upload(position), voucher):
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

    @property
    def _vouchers(self) -> dict[int, bytes]:
        """Vouchers by position, as far as they can be had and have the right size; raises Unreachable."""
        sizes = {position: voucher_bytes(self.setting, position) for position in self.vouched}
        return self._fetched(self._by_position(self.inputs.current.vouches), sizes)

    @property
    def _depositions(self) -> dict[int, bytes]:
        """The first depositions by position, likewise."""
        sizes = {position: self.most_deposition_bytes(position) for position in self._first_depositions}
        return self._fetched(self._first_depositions, sizes)

    @cached_property
    def _first_depositions(self) -> dict[int, Revealed]:
        """What each position revealed first, in time for the verdict."""
        current, last = self.inputs.current, self.times.deposed
        early = {client: each[0] for client, each in current.reveals.items() if each[0].at.block <= last}
        return self._by_position(early)

    def _read_depositions(self) -> list[Deposition]:
        found: list[Deposition] = []
        for position, data in self._depositions.items():
            with suppress(InvalidContent):  # it says nothing
                found.append(Deposition.parse(data, self.setting, position))
        return found

    def _by_position(self, records: Mapping[int, _Record]) -> dict[int, _Record]:
        order = self.inputs.current.order
        return dict(sorted((order.index(client), record) for client, record in records.items()))

    def _fetched(self, records: Mapping[int, Vouched | Revealed], sizes: Mapping[int, int]) -> dict[int, bytes]:
        """Blobs by position, as far as they can be had; each is asked for until it is there."""
        blobs = self.known.blobs
        digests = {at: each.digest for at, each in records.items() if each.digest not in blobs}
        blobs.update({digests[at]: data for at, data in fetch_available(self.inputs.store, digests, sizes).items()})
        return {at: blobs[each.digest] for at, each in records.items() if each.digest in blobs}

    def _fetch_again(self, digest: bytes, size: int) -> bytes:
        """A blob that counts; what others would not take for one either is empty. Raises StoreError."""
        try:
            self.known.blobs[digest] = self.inputs.store.fetch(digest, size)
        except (TooLarge, Malformed):
            return b""
        return self.known.blobs[digest]

    def _lacking(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Those of the positions whose update cannot be had, ascending; raises Unreachable."""
        current, graph = self.inputs.current, self.inputs.graph
        digests = {position: current.commits[graph.client(position)].digest for position in positions}
        return tuple(unavailable(self.inputs.store, digests, dict.fromkeys(digests, self.words * WORD.itemsize)))

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
        """What a member uploaded: uint32, of no words if it is not as long as uploads are; raises StoreError."""
        digest, size = (
            self.inputs.current.commits[self.inputs.graph.client(position)].digest,
            self.words * WORD.itemsize,
        )
        try:
            data = self.inputs.store.fetch(digest, size)
        except (TooLarge, Malformed):  # every block was there: its author published no upload
            data = b""
        return np.frombuffer(data if len(data) == size else b"", WORD)


def _place(record: MemberRecord) -> int:
    """Where a record stands among all of the ledger."""
    return record.at.block << 32 | record.at.log_index


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
        [current.deadlines(inputs.config.ledger).vouch_end.to_bytes(8)],
        [each.client.to_bytes(4) + each.digest for each in current.commits.values()],
        [each.client.to_bytes(4) + each.digest for each in current.vouches.values()],
        [_place(each).to_bytes(12) + each.client.to_bytes(4) + each.word for each in current.affirmations.values()],
        [_place(each).to_bytes(12) + each.client.to_bytes(4) + each.digest for each in shown],
    )
    state = hashlib.sha256(inputs.graph.digest + current.sketch_hash)
    for part in parts:
        state.update(len(part).to_bytes(4) + b"".join(part))
    return state.digest()


def _is_same(one: RoundInputs, other: RoundInputs) -> bool:
    """Whether two are of one round, on one branch of the chain, with the same commitments."""
    digests = [[each.digest for each in inputs.current.commits.values()] for inputs in (one, other)]
    return one.graph.digest == other.graph.digest and digests[0] == digests[1]
