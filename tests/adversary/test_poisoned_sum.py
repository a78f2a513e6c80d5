"""A member that wants to stop a federation for good with one word of its upload.

Nobody sees what lies under its masks. It adds so much to one parameter that the sum decodes to almost twice the bound.
If that became the model, no honest client could ever upload again: what it trains from lies beyond what may be
uploaded, so all of them sit out, round after round. What stops it: a sum that no honest
uploads can give is an invalid update, the round fails, and the model before stands; and a model at the bound, which
honest uploads could give, can still be trained from, as values beyond the bound are uploaded at the bound.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Failed, RoundOpened, Voided
from fedgrove.node.base.tensors import flatten, load
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.learning.server_steps import ServerSettings
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.masking.limits import check_sum
from fedgrove.node.masking.ring import WORD, encode, fraction_bits
from fedgrove.node.privacy.client_level import decode_sum
from fedgrove.node.privacy.clipping import next_clip
from fedgrove.node.privacy.grid import RoundTerms
from fedgrove.node.privacy.settings import MAX_CLIP, MIN_CLIP, ClientLevelSettings, LocalSettings
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.coordinator import Coordinator
from tests.node.federation import Federation, sending, with_word

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
POISONER, BOUND = 4, 8.0
UNIT = 2.0 ** fraction_bits(BOUND)


@dataclass(frozen=True)
class Terms:
    """A federation under attack: its terms, and what the attacker adds to a word of its upload (None: an insider)."""

    masked: str
    privacy: ClientLevelSettings | LocalSettings | None
    word: int | None
    server: ServerSettings | None = None
    evaluation: EvaluationSettings | None = None
    rounds: int = 2
    repeats: int = 1

    def poisoner(self, federation: Federation, clients: dict[int, Client]) -> Client:
        if self.word is not None:
            return federation.client(POISONER, sending(partial(poisoned, self.word)))
        client = federation.client(POISONER, Insider)
        client.others = tuple(clients[number] for number in clients if number != POISONER)
        return client


def poisoned(more, inputs, upload):
    """So much more in the first word of an upload, in round 1."""
    return with_word(upload, 0, more) if inputs.current.number == 1 else upload


LOCAL = LocalSettings(epsilon=20.0, delta=1e-3, clip=0.5)
CLIENT = ClientLevelSettings(epsilon=50.0, delta=1e-3, clip=0.5)
TRACKED = ClientLevelSettings(epsilon=50.0, delta=1e-3, clip=0.5, clipping="quantile")
TWICE = round(1.95 * BOUND * UNIT)
ATTACKS = {
    "weights": Terms("weights", None, TWICE),
    "updates": Terms("delta", None, TWICE),
    "local": Terms("weights", LOCAL, TWICE),
    "client": Terms("delta", CLIENT, 1 << 30, repeats=20),
    "client, a quantile tracked": Terms("delta", TRACKED, -(1 << 30), repeats=20),
}


@pytest.fixture
def attacked(tmp_path):
    """``attacked(terms)``: a federation of four, two rounds, whose last member poisons the first."""
    with embedded() as network:

        def run(terms: Terms, coordinator: type[Coordinator] = Coordinator) -> Federation:
            masking = MaskingSettings(masked=terms.masked, bound=BOUND)
            agreed = {"masking": masking, "privacy": terms.privacy, "server": terms.server}
            agreed |= {"training": QUICK, "evaluation": terms.evaluation}
            made = Federation.found(network, tmp_path, 4, terms.rounds, terms.repeats, **agreed)
            made.register()
            clients = made.clients()
            clients[POISONER] = terms.poisoner(made, clients)
            made.run(made.coordinator(coordinator), clients)
            return made

        yield run


def model(federation, digest):
    return flatten(without_state(load(federation.store.fetch(digest, 1 << 24))))


def honest_idle(federation):
    """Accounts of honest members for which some opening says that nobody waits for them."""
    listed = {account for record in federation.of(RoundOpened) for account in record.barred}
    return listed - {federation.keys[POISONER - 1].address}


def trained_after_the_first_round(federation):
    return {record.client for record in federation.of(Committed) if record.round > 1}


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_round_fails_the_model_stands_and_training_goes_on(attacked, attack):
    federation = attacked(ATTACKS[attack])
    first, *others = federation.of(Failed)
    assert first.round == 1
    # With noise half of the members are summed next, by a coin each, which may be too few.
    assert not others or isinstance(ATTACKS[attack].privacy, ClientLevelSettings)
    opened = {record.round: record.model_digest for record in federation.of(RoundOpened)}
    assert opened[2] == opened[1]
    assert len(federation.of(Closed)) == 2
    assert not honest_idle(federation)
    assert federation.audit().verdict == "verified"


class Accomplice(Coordinator):
    """Closes over whatever the sum decodes to."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        honestly = self.context.outcomes.of

        def outcome(number, record):
            with pytest.MonkeyPatch.context() as patch:
                unlimited(patch)
                return honestly(number, record)

        self.context.outcomes.of = outcome


def test_a_coordinator_that_closes_over_it_is_judged_wrong(attacked):
    federation = attacked(ATTACKS["weights"], Accomplice)
    assert 1 in {record.round for record in federation.of(Voided)}
    assert (1, "closed.model") in [(remark.round, remark.field) for remark in federation.audit().remarks]


# --- the next attack: as far as honest uploads go ---------------------------------------------------------------------


class Insider(Client):
    """Knows what the others upload in round 1, and brings each bias of the last layer to the bound, and not beyond.

    The model computes what it did before, but training carries some bias of every client beyond the bound.
    """

    others: tuple[Client, ...] = ()

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        codec = self.context.method.codec
        codec.encode = partial(self._encode, codec.encode)

    def _encode(self, encode_honestly, inputs, client, secrets, update):
        words = np.frombuffer(encode_honestly(inputs, client, secrets, update), WORD).copy()
        if inputs.current.number == 1:
            own, *others = [self._words(inputs, peer) for peer in (self, *self.others)]
            bias = self._bias(inputs.layout)
            wanted = np.uint32(BOUND * UNIT) - sum(others)[bias]
            words[bias] += wanted - own[bias]
        return words.tobytes()

    def _words(self, inputs, peer):
        samples, trained = len(peer.context.work._trainer), peer.context.journal.read(1, "update")
        vector = flatten(inputs.previous if trained is None else load(trained))  # where training failed
        return encode(vector, inputs.layout, samples, inputs.graph.total_samples, BOUND)

    def _bias(self, layout):
        (place,) = (place for place, shape in enumerate(layout.shapes) if shape == (10,))
        start = sum(layout.sizes[:place])
        return slice(start, start + 10)


def test_a_model_at_the_bound_can_be_trained_from(attacked):
    federation = attacked(Terms("weights", None, None))
    closed = {record.round: record for record in federation.of(Closed)}
    assert model(federation, closed[1].model_digest).max() == BOUND
    assert set(closed) == {1, 2} and not honest_idle(federation)
    assert model(federation, closed[2].model_digest).max() <= BOUND
    said = [sentence for client in (1, 2, 3) for sentence in federation.said(f"client {client}")]
    assert any(sentence.endswith("cut off at masking.bound") for sentence in said)
    assert federation.audit().verdict == "verified"


def voted_down(rounds: int) -> float:
    """S after so many rounds whose votes a member has outvoted, as far as a sum of honest votes goes: none below S."""
    grid = RoundTerms(TRACKED, 1, 10, 0.5, clients=4, rate=1.0, sharers=4).grid
    clip = TRACKED.clip
    for _ in range(rounds):
        words = np.zeros(grid.length, np.uint32)
        words[-1:] -= np.uint32(4 * grid.vote)
        check_sum(words, grid.limits(4, 4))
        clip = next_clip(clip, decode_sum(grid, words, 4)[1], TRACKED)
    return clip


def test_votes_that_one_member_casts_for_all_leave_s_in_its_range():
    assert voted_down(1000) == 10 * TRACKED.clip


# --- the mend taken out -----------------------------------------------------------------------------------------------


def unlimited(patch: pytest.MonkeyPatch) -> None:
    """Any sum is taken for one of honest uploads."""
    patch.setattr("fedgrove.node.methods.training.masked.check_sum", lambda words, limits: None)
    patch.setattr("fedgrove.node.methods.training.client_level.check_sum", lambda words, limits: None)
    patch.setattr("fedgrove.node.privacy.weighted.kept_within", lambda vector, bound: vector)


@pytest.mark.mutants
def test_without_limits_one_word_stops_the_federation_for_good(attacked, monkeypatch):
    unlimited(monkeypatch)
    federation = attacked(ATTACKS["weights"])
    closed = {record.round: record.model_digest for record in federation.of(Closed)}
    assert set(closed) == {1} and model(federation, closed[1]).max() > 1.9 * BOUND
    assert trained_after_the_first_round(federation) <= {POISONER}
    assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_without_limits_one_word_of_a_private_sum_destroys_the_model(attacked, monkeypatch):
    unlimited(monkeypatch)
    federation = attacked(ATTACKS["client"])
    (first, *_) = federation.of(Closed)
    assert model(federation, first.model_digest).max() > 1e4  # honest updates have a norm of one half


def test_clients_that_refuse_what_is_beyond_the_bound_never_train_again(attacked, monkeypatch):
    monkeypatch.setattr("fedgrove.node.privacy.weighted.kept_within", lambda vector, bound: vector)
    federation = attacked(Terms("weights", None, None))
    assert {record.round for record in federation.of(Closed)} == {1}
    assert trained_after_the_first_round(federation) <= {POISONER}


def test_votes_without_a_range_raise_s_and_the_noise_for_good(monkeypatch):
    monkeypatch.setattr("fedgrove.node.privacy.clipping.clip_range", lambda settings: (MIN_CLIP, MAX_CLIP))
    assert voted_down(1000) == MAX_CLIP
