"""A history in which a round was really disputed and voided, and what a villain may then change in it."""

from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Disputed, Registered, RoundOpened, Voided
from fedgrove.node.audit.archive import chain_facts
from fedgrove.node.learning.settings import TrainingSettings
from tests.node.audit.test_tampering import Scene
from tests.node.federation import Federation, LyingCoordinator


class LiesInRoundTwo(LyingCoordinator):
    """Closes round 2 with a model of its own."""

    def lie(self, current, model):
        return super().lie(current, model) if current.number == 2 else model


@pytest.fixture(scope="module")
def disputed(tmp_path_factory):
    """Round 2 was a lie, three of four members said so, round 3 trained from it and fell with it."""
    with embedded() as network:
        quick = TrainingSettings(batch_size=20, learning_rate=0.05)
        made = Federation.found(network, tmp_path_factory.mktemp("disputed"), rounds=4, training=quick)
        made.register()
        made.run(coordinator=made.coordinator(LiesInRoundTwo))
        history = made.history()
        yield history.records(), made.store, chain_facts(history)


@pytest.fixture
def scene(disputed):
    records, store, facts = disputed
    return Scene(list(records), store, facts)


def test_as_it_is_the_history_is_verified(scene):
    verdict = scene.audit()
    assert verdict.verdict == "verified" and [remark.field for remark in verdict.remarks] == ["closed.model"]


def hidden_voiding(scene):
    del scene.records[scene.find(Voided)]
    return 2, None, "closed.model"  # without the voiding it stands, and is a lie


def hidden_dispute(scene):
    del scene.records[scene.find(Disputed)]
    return 2, None, "voided"


def voided_too_early(scene):
    place = scene.find(Disputed)
    scene.records.insert(place + 1, replace(scene.record(Voided), disputes=1))
    return 2, None, "voided"


def another_model_stands(scene):
    scene.change(Voided, 2, model_digest=bytes(32))
    return 2, None, "voided.model"


def the_void_model_is_opened_again(scene):
    opened = max(record.round for record in scene.records if isinstance(record, RoundOpened))
    lie = scene.record(Closed, 2).model_digest
    scene.change(RoundOpened, opened, model_digest=lie)
    return opened, None, "opened.model"


def dispute_of_a_stranger(scene):
    scene.change(Disputed, 2, client=99)
    return 2, 99, "dispute.client"


def dispute_twice(scene):
    place = scene.find(Disputed, 2)
    scene.records.insert(place + 1, scene.records[place])
    return 2, scene.records[place].client, "dispute"


def dispute_in_another_clients_name(scene):
    first = scene.record(Disputed, 2, 0)
    scene.change(Disputed, 2, 1, client=first.client)
    return 2, first.client, "dispute.author"


def dispute_of_an_older_round(scene):
    client = scene.record(Disputed, 2).client
    scene.change(Disputed, 2, round=1)
    return 1, client, "dispute"


def dispute_after_the_voiding(scene):
    record = scene.record(Disputed, 2)
    voter = {r.client for r in scene.records if isinstance(r, Disputed)}
    other = next(r.client for r in scene.records if isinstance(r, Committed) and r.round == 2 and r.client not in voter)
    last = max(place for place, each in enumerate(scene.records) if isinstance(each, Voided))
    account = next(r.account for r in scene.records if isinstance(r, Registered) and r.client == other)
    scene.records.insert(last + 1, replace(record, client=other, at=record.at._replace(author=account)))
    return 2, other, "dispute"


KINDS = [
    hidden_voiding,
    hidden_dispute,
    voided_too_early,
    another_model_stands,
    the_void_model_is_opened_again,
    dispute_of_a_stranger,
    dispute_twice,
    dispute_in_another_clients_name,
    dispute_of_an_older_round,
    dispute_after_the_voiding,
]


@pytest.mark.parametrize("tamper", KINDS, ids=lambda kind: kind.__name__)
def test_tampering_is_found_and_named(scene, tamper):
    number, client, field = tamper(scene)
    verdict = scene.audit()
    assert verdict.verdict == "bad record"
    found = verdict.first_bad_record
    assert (found.round, found.client, found.field) == (number, client, field)
