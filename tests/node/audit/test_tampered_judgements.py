"""A history in which a closing was really false and replaced, and what a villain may then change in it."""

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Judged, Replaced, RoundOpened, Voided
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.roles.standby import Standby
from tests.node.audit.test_tampering import Scene
from tests.node.federation import Federation, LyingCoordinator


class LiesInRoundTwo(LyingCoordinator):
    """Closes round 2 with a model of its own."""

    def lie(self, current, model):
        return super().lie(current, model) if current.number == 2 else model

    def step(self):
        """Go on at once after a closing, before anybody can judge it."""
        step = super().step()
        return super().step() if step.phase == "close" and step.acted else step


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Round 2 was a lie, three of four members named its right result, round 3 fell with it, a stand-by went on."""
    with embedded() as network:
        quick = TrainingSettings(batch_size=20, learning_rate=0.05)
        made = Federation.found(network, tmp_path_factory.mktemp("judged"), rounds=4, training=quick)
        made.register()
        method, ledger = method_of(made.config), made.ledger(made.keys[0])
        standby = Standby(ledger, made.store, made.config, method.first_model())
        made.run(coordinator=made.coordinator(LiesInRoundTwo), clients={**made.clients(), 5: standby})
        history = made.history()
        yield history.records(), made.store, chain_facts(history)


@pytest.fixture
def scene(judged):
    records, store, facts = judged
    return Scene(list(records), store, facts)


def test_as_it_is_the_history_is_verified(scene):
    verdict = scene.audit()
    assert verdict.verdict == "verified", verdict.reason
    assert [remark.field for remark in verdict.remarks] == ["closed.model"]


def hidden_replacement(scene):
    del scene.records[scene.find(Replaced)]
    return 2, None, "closed.model"  # without it the lie stands


def hidden_end_of_the_round_that_ran_on_the_lie(scene):
    del scene.records[scene.find(Voided, 3)]
    return 3, None, "voided"


def hidden_judgement(scene):
    del scene.records[scene.find(Judged, 2)]
    return 2, None, "replaced"


def replaced_too_early(scene):
    scene.records.insert(scene.find(Judged, 2) + 1, scene.record(Replaced))
    return 2, None, "replaced"


def another_result_stands(scene):
    scene.change(Replaced, 2, model_digest=scene.record(Closed, 1).model_digest)
    return 2, None, "replaced"


def members_that_judge_the_lie_right(scene):
    """Then nothing takes its place, and it is what it was."""
    lie = scene.record(Closed, 2)
    lied = {"model_digest": lie.model_digest, "metrics_digest": lie.metrics_digest}
    for index in range(3):
        scene.change(Judged, 2, index, **lied)
    del scene.records[scene.find(Replaced) :]
    return 2, None, "closed.model"


def members_that_replace_the_lie_by_another(scene):
    first = scene.record(Closed, 1).model_digest
    for index in range(3):
        scene.change(Judged, 2, index, model_digest=first)
    scene.change(Replaced, 2, model_digest=first)
    scene.change(Voided, 3, model_digest=first)
    return 2, None, "closed.model"


def another_model_stands_after_the_round_that_fell(scene):
    scene.change(Voided, 3, model_digest=bytes(32))
    return 3, None, "voided"


def the_false_model_is_opened_again(scene):
    opened = max(record.round for record in scene.records if isinstance(record, RoundOpened))
    lie = scene.record(Closed, 2).model_digest
    scene.change(RoundOpened, opened, model_digest=lie)
    return opened, None, "opened.model"


def judgement_of_a_stranger(scene):
    scene.change(Judged, 2, client=99)
    return 2, 99, "judgement.client"


def judgement_twice(scene):
    place = scene.find(Judged, 2)
    scene.records.insert(place + 1, scene.records[place])
    return 2, scene.records[place].client, "judgement"


def judgement_in_another_clients_name(scene):
    first = scene.record(Judged, 2, 0)
    scene.change(Judged, 2, 1, client=first.client)
    return 2, first.client, "judgement.author"


def judgement_of_an_older_round(scene):
    client = scene.record(Judged, 2).client
    scene.change(Judged, 2, round=1)
    return 1, client, "judgement"


VILLAINS = [
    hidden_replacement,
    hidden_end_of_the_round_that_ran_on_the_lie,
    hidden_judgement,
    replaced_too_early,
    another_result_stands,
    members_that_judge_the_lie_right,
    members_that_replace_the_lie_by_another,
    another_model_stands_after_the_round_that_fell,
    the_false_model_is_opened_again,
    judgement_of_a_stranger,
    judgement_twice,
    judgement_in_another_clients_name,
    judgement_of_an_older_round,
]


@pytest.mark.parametrize("villain", VILLAINS, ids=lambda kind: kind.__name__)
def test_a_villain_is_found_and_named(scene, villain):
    number, client, field = villain(scene)
    verdict = scene.audit()
    assert verdict.verdict == "bad record"
    found = verdict.first_bad_record
    assert (found.round, found.client, found.field) == (number, client, field), verdict.reason
