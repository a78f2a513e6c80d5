"""A member that wants the coordinator of a federation that does K-means, its members or its auditors to fall over.

It claims as many points as the ledger takes, and puts them all into a corner of the grid; or it sends anything else
under its masks, or instead of them. It wants an exception that nobody expects, or a state that nobody can read or build
on: either would be the end of the federation, as everybody meets the same bytes for ever.

What stops it: the terms refuse a ledger that takes more points than can be clustered exactly, a sum counts no more than
its members state, and whatever a sum decodes to is either a state in its form or an invalid update.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Failed, SeedFixed
from fedgrove.ipfs.disk import DiskStore
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.devnet.windows import windows
from fedgrove.node.masking.aggregate import InvalidUpdate
from fedgrove.node.masking.client import mask_keys
from fedgrove.node.methods.kmeans import field as gf
from fedgrove.node.methods.kmeans.code import MAX_LIMIT, Code
from fedgrove.node.methods.kmeans.codec import CountCodec, _lay
from fedgrove.node.methods.kmeans.counts import BinCounts
from fedgrove.node.methods.kmeans.method import KMeans
from fedgrove.node.methods.kmeans.round_inputs import exchange_of
from fedgrove.node.methods.kmeans.state import KMeansState
from fedgrove.node.methods.kmeans.terms import KMeansTerms
from fedgrove.node.methods.kmeans.vector import draw_vector
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.round_inputs import RoundInputs
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.terms import FederationConfig
from tests.node.devnet.kmeans_members import TERMS, Federation
from tests.node.masking.rounds import Round

ATTACKER = 1
FINE = replace(TERMS, step=1e-5, retry_blocks=3)
"""So fine that 2²⁴ points of each of four members are too many in a corner."""

CORNER = np.full((1, 2), FINE.grid.half)


# --- a giant in a corner ----------------------------------------------------------------------------------------------


def a_giant(
    directory: Path, claimed: int, sent: int, rounds: int = 1, **ledger
) -> tuple[Federation, KMeansState | None]:
    with embedded() as network:
        one = Federation.found(network, directory, FINE, 4, **ledger)
        one.register()
        one.claims[ATTACKER] = claimed
        one.lies[ATTACKER] = lambda vector, current: BinCounts.of(CORNER, np.array([sent]))
        for _ in range(rounds):
            one.hold()
        one.ends = [current.end for current in one.rounds().rounds.values()]
        one.verdict = one.audit().verdict
        base = one.rounds().base
        return one, method_of(one.config).fetch_model(one.store, base.end.model_digest) if base else None


def test_a_ledger_that_takes_more_points_than_can_be_clustered_is_refused():
    with pytest.raises(InvalidConfig, match=r"ledger\.max_samples must be at most 28147 with this number of clients"):
        FederationConfig(FINE, ledger=windows(4))


def test_as_many_points_as_the_ledger_takes_are_clustered(tmp_path):
    """The model is then the liar's, as far as its weight goes, and its claim is on record; nobody falls over."""
    one, state = a_giant(tmp_path, 1 << 14, 1 << 14, max_samples=1 << 14)
    assert state.counts.counts.max() == 1 << 14 and one.verdict == "verified"


@pytest.mark.parametrize("sent", [1 << 15, 1 << 24, 1 << 39, -5])
def test_more_than_was_claimed_fails_the_round_and_honest_members_go_on(tmp_path, sent):
    one, state = a_giant(tmp_path, 1 << 14, sent, rounds=2, max_samples=1 << 14)
    assert [type(end) for end in one.ends] == [Failed, Failed] and state is None
    assert one.verdict == "consistent, no round closed"


@pytest.mark.mutants
def test_the_coordinator_would_fall_over_if_totals_had_no_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(KMeansTerms, "most_points", MAX_LIMIT)
    with pytest.raises(ValueError, match="too large for exact clustering"):
        a_giant(tmp_path, 1 << 24, 1 << 24)


# --- a state of no round ----------------------------------------------------------------------------------------------


def closing_with_a_state_of_another_round(directory: Path) -> Federation:
    """A coordinator closes with a state that says it was summed in round 9; members look at nothing, and go on."""
    with embedded() as network:
        one = Federation.found(network, directory, TERMS, 4)
        one.register()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("fedgrove.node.protocol.closing.Closings.fault", lambda *_: "")
            with pytest.MonkeyPatch.context() as closing:
                closing.setattr(KMeans, "model_bytes", lambda self, model: replace(model, round=9, whole=9).to_bytes())
                one.run(until="never", done=lambda rounds: rounds.base is not None)
            coordinator, client = one.coordinator(), one.client(2)
            for _ in range(3):
                one.step = coordinator.step(), client.step()
            one.bad = one.audit().first_bad_record
    return one


def test_a_state_of_a_round_that_never_was_stops_nobody(tmp_path, monkeypatch):
    one = closing_with_a_state_of_another_round(tmp_path / "now")
    assert one.step[0].phase == "content" and "a round that does not precede it (9)" in one.step[0].waiting
    assert (one.bad.round, one.bad.field) == (1, "closed.model")
    monkeypatch.setattr("fedgrove.node.methods.kmeans.schedule.checked", lambda rounds, state, number: state)
    with pytest.raises(KeyError):
        closing_with_a_state_of_another_round(tmp_path / "mutant")


# --- anything under the masks -----------------------------------------------------------------------------------------

WEIGHTS = (1, 2, 63, 64, 65, 1 << 24, 1 << 40, 1 << 60, gf.PRIME - 1, gf.PRIME - 64, gf.PRIME // 2)
SETTINGS = [
    KMeansTerms(k=2, dimensions=2, step=0.05, restarts=2),
    KMeansTerms(k=2, dimensions=2, step=1e-4, restarts=2),
    KMeansTerms(k=3, dimensions=20, step=0.05, restarts=2),
    KMeansTerms(k=1, dimensions=2, step=1.0, restarts=2),
]


class Sum:
    """A round of four members, sealed, shared and recovered; the attacker's upload is the test's to say."""

    def __init__(self, directory: Path, settings: KMeansTerms, rng: np.random.Generator) -> None:
        self.store, self.settings = DiskStore(directory), settings
        self.config = FederationConfig(settings, ledger=replace(windows(4), max_samples=1 << 10))
        masks = Round.make(4, mode="pairwise")
        order = tuple(each.client for each in masks.graph.participants)
        current = RoundRecords(SimpleNamespace(round=1, opened_at=5, model_digest=b""), order=order)
        current.once[SeedFixed] = SimpleNamespace(seed=bytes(32))
        current.draws.update({client: SimpleNamespace(samples=64) for client in order})
        current.shares.update(dict.fromkeys(order))
        place = (self.store, lambda: KMeansState.empty(settings.dimensions))
        self.round = RoundInputs(Rounds(rounds={1: current}), current, masks.graph, self.config, *place)
        self.code: Code = exchange_of(self.round).sums[0].code
        points = [np.clip(rng.normal(0, 0.3, (20, settings.dimensions)), -1, 1) for _ in order]
        self.vectors = [draw_vector(part, settings, rng) for part in points]
        for place, (client, vector) in enumerate(zip(order, self.vectors, strict=True)):
            self.keys = mask_keys(masks.graph, place, masks.secrets[place], range(4))
            self.upload(client, _lay(self.code.encode(vector), self.keys).astype(gf.ELEMENT).tobytes())
        self.attacker = order[-1]
        everybody = range(4)
        self.record = masks.record({p: masks.blob(p) for p in everybody}, everybody, everybody)

    def upload(self, client: int, data: bytes) -> None:
        self.round.current.commits[client] = SimpleNamespace(digest=self.store.put(data).digest)

    def outcome(self, data: bytes) -> KMeansState | None:
        """What the round comes to if the attacker uploads this; None: it fails for an invalid update."""
        self.upload(self.attacker, data)
        try:
            state = CountCodec(self.config).outcome(self.round, self.record).model
        except InvalidUpdate:
            return None
        assert KMeansState.from_bytes(state.to_bytes(), self.settings).counts == state.counts
        assert state.counts.total <= 4 * 64 and np.abs(state.centres).max(initial=0) <= 1 + self.settings.step
        return state


def any_upload(sum_: Sum, rng: np.random.Generator) -> bytes:
    """Bytes that are no upload, elements that are no sum, or a sum that no honest member has."""
    code, own = sum_.code, sum_.code.encode(sum_.vectors[-1])
    match int(rng.integers(8)):
        case 0:
            return rng.bytes(int(rng.choice([0, 1, code.upload_bytes - 8, code.upload_bytes, code.upload_bytes + 8])))
        case 1:
            data = bytearray(_lay(own, sum_.keys).tobytes())
            data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            return bytes(data)
        case 2:
            elements = _lay(own, sum_.keys)
            elements[int(rng.integers(len(elements)))] = gf.PRIME + int(rng.integers(2))
            return elements.tobytes()
        case 3:  # some bins, and counts beyond all bounds
            many = int(rng.integers(1, 4))
            levels = rng.choice([-1, 0, 1], (many, sum_.settings.dimensions)) * sum_.settings.grid.half
            counts = np.array([int(rng.choice([-(1 << 38), -1, 1, 64, 1 << 24, 1 << 38])) for _ in range(many)])
            wide = replace(code, capacity=code.capacity + 9, limit=MAX_LIMIT, signed=True)
            elements = gf.add(own, _cut(wide.encode(BinCounts.of(levels, counts)), wide, code))
        case 4:  # a point of no bin, or of one, with any weight, and whatever beside it
            elements = gf.add(own, _point(code, rng))
        case 5:  # all that the others send is taken away: nothing is counted, and more or less comes with it
            elements = own
            for vector in sum_.vectors:
                elements = gf.subtract(elements, code.encode(vector))
            if rng.integers(2):
                elements = gf.add(elements, _point(code, rng))
        case 6:
            elements = np.full(code.length, int(rng.integers(gf.PRIME)), gf.ELEMENT)
        case _:
            fewer = rng.random(len(sum_.vectors[-1])) < 0.5
            elements = code.encode(BinCounts.at(sum_.vectors[-1].levels, sum_.vectors[-1].counts * fewer))
    return _lay(elements.astype(gf.ELEMENT), sum_.keys).astype(gf.ELEMENT).tobytes()


def _cut(elements: np.ndarray, wide: Code, code: Code) -> np.ndarray:
    """A code's elements out of those of one for more bins."""
    rows = elements[wide.syndromes :].reshape(wide.rows, wide.capacity)[:, : code.capacity]
    return np.concatenate([elements[: code.syndromes], rows.ravel()])


def _point(code: Code, rng: np.random.Generator) -> np.ndarray:
    x = int(rng.choice([0, 1, code.largest_point, code.largest_point + 1, gf.PRIME - 1])) % gf.PRIME
    powers = gf.powers(np.array([x], gf.ELEMENT), code.syndromes)[0]
    weighted = gf.multiply(powers, np.uint64(int(rng.choice(WEIGHTS))))
    rows = [gf.multiply(weighted[: code.capacity], np.uint64(int(rng.integers(gf.PRIME)))) for _ in range(code.rows)]
    return np.concatenate([weighted, *rows])


@pytest.mark.parametrize("uploads", [50, pytest.param(750, marks=pytest.mark.statistics)])
@pytest.mark.parametrize("settings", SETTINGS)
def test_whatever_a_member_uploads_the_round_comes_to_a_state_or_fails(tmp_path, settings, uploads):
    rng = np.random.default_rng(uploads)
    sum_ = Sum(tmp_path, settings, rng)
    honest = sum_.outcome(_lay(sum_.code.encode(sum_.vectors[-1]), sum_.keys).astype(gf.ELEMENT).tobytes())
    assert honest.clients == tuple(sum_.round.current.order)
    found = [sum_.outcome(any_upload(sum_, rng)) for _ in range(uploads)]
    assert any(state is None for state in found) and any(state is not None for state in found)


@pytest.mark.mutants
def test_it_would_be_seen_if_counts_had_no_bounds(tmp_path, monkeypatch):
    """The mutant: neither the decoder nor what follows looks at the counts. The coordinator meets another exception."""
    monkeypatch.setattr("fedgrove.node.methods.kmeans.decoder._check_counts", lambda *_: None)
    monkeypatch.setattr("fedgrove.node.methods.kmeans.exchange._fits", lambda *_: True)
    rng = np.random.default_rng(0)
    sum_ = Sum(tmp_path, SETTINGS[1], rng)
    with pytest.raises((ValueError, AssertionError)) as caught:
        for _ in range(200):
            sum_.outcome(any_upload(sum_, rng))
    assert not isinstance(caught.value, InvalidUpdate)
