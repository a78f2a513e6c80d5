"""Members and coordinators that lie about how well a model does, to end the training early, or to keep it going.

Under masks nobody sees a member's own metrics, but everybody sees the sum. What honest members cannot add up to makes
the metrics void, and the model stands. What a coordinator states of the sum, and of the end that follows from it, is
recomputed by members and audit. What remains: a member that lies within what is possible moves the mean, which the
threat model says.
"""

from itertools import pairwise

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Drawn, Failed, Replaced, RoundOpened
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.metric_sums import SENT_BEFORE
from fedgrove.node.protocol import members_metrics
from fedgrove.node.protocol.members_metrics import LossCourse, MembersMetrics
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.context import RoleContext
from fedgrove.node.roles.coordinator import Coordinator
from tests.adversary.misstating import misstating
from tests.node.federation import Federation, LyingCoordinator, sending, with_word

STALLED = TrainingSettings(epochs=1, batch_size=20, learning_rate=1e-6)
LEARNING = TrainingSettings(epochs=5, batch_size=8, learning_rate=0.05, momentum=0.9)
LIAR, WORDS = 4, 9
"""Index of the lying member; how many words follow its model: samples, right answers, two sums in three words each, and
whether its training failed."""


@pytest.fixture
def attacked(tmp_path):
    """``attacked(...)``: a federation whose loss does not fall, with a patience of two rounds, that has run."""
    with embedded() as network:

        def run(
            member=None,
            coordinator=Coordinator,
            clients=Client,
            checkers=5.0,
            patience=2,
            rounds=3,
            repeats=0,
            training=STALLED,
            size=4,
            most=1000,
        ):
            terms = FederationSettings(rounds=rounds, patience=patience, checkers=checkers)
            parts = {"training": training, "evaluation": EvaluationSettings(), "federation": terms, "repeats": repeats}
            made = Federation.found(network, tmp_path, size, **parts)
            made.register()
            members = {number: made.client(number, clients) for number in range(1, size + 1)}
            if member is not None:
                members[LIAR] = made.client(LIAR, member)
            role = made.coordinator(coordinator)
            while role.round <= most and made.turn(role, members):
                pass
            return made

        yield run


def stated(federation):
    return [each.members for each in federation.stated()]


def lying(word, until=1):
    """A member that adds to one word of its metrics, up to a round."""
    place, more = word
    return sending(
        lambda inputs, upload: upload if inputs.current.number > until else with_word(upload, place - WORDS, more)
    )


IMPOSSIBLE = {
    "samples below zero": (0, -49, "samples, more than a word may"),
    "more right than samples": (1, 1000, "right answers of 48"),
    "fewer right than none": (1, -1000, "right answers of 48"),
    "a limb beyond 16 bits": (2, 1 << 31, "a word of loss is"),
    "a high limb beyond 16 bits": (4, 1 << 20, "a word of loss is"),
    "a limb of the squares": (6, 1 << 20, "a word of squared_loss is"),
    "a loss below nothing": (4, -1, "losses add up to less than nothing"),
}


@pytest.mark.parametrize("lie", IMPOSSIBLE)
def test_impossible_words_make_the_metrics_void_and_the_model_stands(attacked, lie):
    place, more, said = IMPOSSIBLE[lie]
    federation = attacked(lying((place, more)), patience=0, rounds=2)
    first, *others = stated(federation)
    assert said in first.void and first.sums == {} and first.samples == 0
    assert [(each.there, each.samples, each.last) for each in others] == [(True, 48, False), (True, 48, True)]
    assert federation.audit().verdict == "verified"
    assert all("cut off" not in step.acted for _, step in federation.log)


@pytest.mark.mutants
def test_without_the_check_impossible_metrics_would_be_stated(attacked, monkeypatch):
    for check in ("_implausible", "_miscounted"):
        monkeypatch.setattr(members_metrics, check, lambda *_: "")
    federation = attacked(lying((1, 1000)), patience=0, rounds=1)
    assert stated(federation)[0].accuracy > 1


@pytest.mark.mutants
def test_without_the_check_one_lie_in_one_round_ends_a_training_that_learns(attacked, monkeypatch):
    """No honest loss ever falls below that of the liar, which may have left since."""
    monkeypatch.setattr(members_metrics, "_implausible", lambda *_: "")
    federation = attacked(lying((4, -1)), rounds=4, training=LEARNING)
    found = stated(federation)
    assert all(each.loss > other.loss for each, other in pairwise(found[1:]))
    assert len(found) == 4 and found[-1].ending


def test_with_the_check_it_goes_on(attacked):
    federation = attacked(lying((4, -1)), rounds=4, training=LEARNING)
    assert len(stated(federation)) == 5 and not stated(federation)[-1].ending


def test_one_liar_within_what_is_possible_moves_the_mean(attacked):
    """As the threat model says: it may claim any loss for its own samples, and every answer of others as wrong."""
    federation = attacked(lying((4, 1)), patience=0, rounds=1)
    assert stated(federation)[0].loss > 2.0**8 / 48 and federation.audit().verdict == "verified"


def test_one_liar_takes_samples_of_others_off_the_total(attacked):
    """As the threat model says: fewer are lawful, as somebody may not have been able to evaluate."""
    federation = attacked(lying((0, -20)), patience=0, rounds=1)  # 12 are its own
    assert stated(federation)[0].samples == 28 and federation.audit().verdict == "verified"


def test_in_a_smaller_sum_after_a_spoilt_round_the_samples_are_those_of_its_members(attacked):
    """The liar spoils the model's last word: round 1 fails, and the next two leave out its cell of four.

    Metrics of the first model may be known from the round that failed: nobody sends them again.
    """
    federation = attacked(lying((-1, round(1.95 * 2**30)), until=3), patience=0, rounds=2, repeats=3, size=8)
    assert [record.round for record in federation.of(Failed)] == [1]
    first, *others = stated(federation)
    assert first == SENT_BEFORE and [(each.there, each.samples) for each in others] == [(True, 48), (True, 96)]
    assert federation.audit().verdict == "verified"


def test_the_audit_names_who_states_metrics_that_nobody_sends_again(attacked):
    told = MembersMetrics(48, {"right": 40, "loss": 1 << 24, "squared_loss": 1 << 24})
    liar = misstating(lambda said: told if said == SENT_BEFORE else said)
    spoilt = {"patience": 0, "rounds": 2, "repeats": 3, "size": 8, "checkers": 0.0}
    found = attacked(lying((-1, round(1.95 * 2**30)), until=3), liar, **spoilt).audit()
    assert found.verdict == "bad record" and NO_SUM in found.reason
    assert (found.first_bad_record.round, found.first_bad_record.field) == (2, "closed.metrics")


def test_void_metrics_do_not_end_the_training(attacked):
    federation = attacked(lying((1, 1000)), rounds=4)
    assert [each.course.waited for each in stated(federation)] == [0, 0, 1, 2, 2]
    assert stated(federation)[-1].ending and federation.audit().verdict == "verified"


NO_SUM = "the members' metrics are not the sum of what they sent"
NO_END = "and of the end, does not follow from it"
LIES = {
    "everything was right": (lambda said: said.replace(sums={**said.sums, "right": said.samples}), NO_SUM),
    "the metrics are void": (lambda said: MembersMetrics(0, {}, "nobody knows", said.course), NO_SUM),
    "nothing": (lambda said: None, "they lack the members' metrics"),
    "the loss stood still": (lambda said: said.replace(course=LossCourse(said.course.least_loss, 2, True)), NO_END),
    "it never stands still": (lambda said: said.replace(course=said.course.replace(ends=False)), NO_END),
    "no round follows any": (lambda said: said.replace(last=True), NO_END),
    "a round follows any": (lambda said: said.replace(last=False), NO_END),
}
"""What a coordinator may state, and what is said of it."""


@pytest.mark.parametrize("lie", LIES)
def test_the_audit_names_a_statement_that_does_not_follow(attacked, lie):
    statement, said = LIES[lie]
    late = lie in ("it never stands still", "a round follows any")
    federation = attacked(coordinator=misstating(statement), checkers=0.0, rounds=4 if "never" in lie else 2)
    found = federation.audit()
    number = 3 if late else 1
    assert found.verdict == "bad record" and said in found.reason
    assert (found.first_bad_record.round, found.first_bad_record.field) == (number, "closed.metrics")


@pytest.mark.parametrize("lie", ["everything was right", "the loss stood still"])
def test_members_judge_it_before_they_train_on(attacked, lie):
    federation = attacked(coordinator=misstating(LIES[lie][0]), rounds=2, repeats=1)
    assert [record.round for record in federation.of(Replaced)][:1] == [1]
    assert any("judged round 1 wrong: its metrics are wrong" in said for said in federation.said("client 1"))


@pytest.mark.mutants
@pytest.mark.parametrize("lie", ["everything was right", "the loss stood still"])
def test_without_the_comparison_it_would_be_verified(attacked, lie, monkeypatch):
    monkeypatch.setattr(members_metrics, "difference", lambda *_: "")
    assert attacked(coordinator=misstating(LIES[lie][0]), checkers=0.0, rounds=2).audit().verdict == "verified"


class Restless(Coordinator):
    """Opens rounds after the training has ended."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        never_ending(self.context)


class Follower(Client):
    """Takes part in them."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        never_ending(self.context)


def never_ending(context: RoleContext) -> None:
    vars(context)["ending"] = lambda: ""


def test_members_take_no_part_in_a_round_after_the_end(attacked):
    federation = attacked(coordinator=Restless, rounds=4, most=4)
    clients = federation.clients()
    for _ in range(20):
        federation.turn(federation.coordinator(Restless), clients)
    assert [record.round for record in federation.of(Closed)] == [1, 2, 3, 4]
    assert max(record.round for record in federation.of(Drawn)) == 4
    found = federation.audit()
    assert found.verdict == "verified"
    assert {each.field for each in found.remarks} == {"opened"} and found.remarks[0].round == 5
    assert federation.coordinator_keys.address in found.remarks[0].reason


def colluding(attacked):
    return attacked(coordinator=Restless, clients=Follower, checkers=0.0, rounds=4)


def test_the_audit_names_a_round_that_closed_after_the_end(attacked):
    federation = colluding(attacked)
    assert len(federation.of(RoundOpened)) == len(federation.of(Closed)) == 5
    found = federation.audit()
    assert found.verdict == "bad record" and "had ended before this round" in found.reason
    assert (found.first_bad_record.round, found.first_bad_record.field) == (5, "closed.model")


def test_with_the_patience_kept_nobody_is_named(attacked):
    federation = attacked(rounds=6)
    assert len(federation.of(RoundOpened)) == len(federation.of(Closed)) == 4
    found = federation.audit()
    assert (found.verdict, found.remarks) == ("verified", ())
    third, last = [said for said in federation.said("coordinator") if said.startswith("closed")][-2:]
    assert "the training ends, as the members' loss has not fallen" in third
    assert "for the last model" in last and "the training ends" not in last


class Retouching(LyingCoordinator):
    """Closes the round that only evaluates the last model with another model."""

    def lie(self, current, model):
        return super().lie(current, model) if current.number == 2 else model


def test_the_audit_names_who_changes_the_model_in_the_last_round(attacked):
    federation = attacked(coordinator=Retouching, checkers=0.0, patience=0, rounds=1)
    found = federation.audit()
    assert found.verdict == "bad record" and "only evaluates the model that it began with" in found.reason
    assert (found.first_bad_record.round, found.first_bad_record.field) == (2, "closed.model")


def test_members_replace_another_model_in_the_last_round(attacked):
    federation = attacked(coordinator=Retouching, patience=0, rounds=1, repeats=1)
    (first, other), (right,) = federation.of(Closed), federation.of(Replaced)
    assert right.round == 2 and first.model_digest == right.model_digest != other.model_digest
    assert federation.audit().verdict == "verified"


def with_a_model(inputs, upload):
    """Metrics behind a model in the first round that only evaluates."""
    return bytes(WORD.itemsize * inputs.layout.length) + upload if inputs.current.number == 2 else upload


def test_a_model_in_the_last_round_is_no_upload_of_it_and_changes_nothing(attacked):
    """The round fails, and is repeated; the model stays that of the training, and its metrics were sent before."""
    federation = attacked(sending(with_a_model), patience=0, rounds=1, repeats=4)
    model = federation.of(Closed)[0].model_digest
    assert {record.round for record in federation.of(Failed)} == {2}
    assert [end.model_digest for end in federation.of(Closed)] == [model] * 2
    assert [(each.samples, each.last) for each in stated(federation)] == [(48, False), (0, True)]
    found = federation.audit()
    assert found.verdict == "verified"
    assert {(each.round, each.client) for each in found.remarks} >= {(2, LIAR)}
