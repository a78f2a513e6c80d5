"""The one endpoint that a client asks shows it a ledger that is not the chain's, to read the update that it hides."""

import pytest

from chain import authors
from chain.networks import embedded
from node.learning.settings import TrainingSettings
from tests.adversary.lying import SwappedKeys, live, read_update, victim_of
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20)


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, training=QUICK)
        made.register()
        yield made


def test_keys_that_nobody_signed_are_refused(federation):
    lying = SwappedKeys(federation.network, federation.deployment, victim=1)
    story = live(federation, victim_of(federation, lying))
    assert "shared" not in story.did, story.did
    assert "Drawn does not follow from its transaction: its calldata says something else" in story.faults[-1]


def test_without_the_authors_word_the_update_is_read_bit_for_bit(federation, monkeypatch):
    monkeypatch.setattr(authors, "_says", lambda *_: True)
    lying = SwappedKeys(federation.network, federation.deployment, victim=1)
    victim = victim_of(federation, lying)
    story = live(federation, victim)
    assert "published its masked update" in story.did, story.did
    assert (read_update(federation, victim, lying.stolen) == victim.words(victim.view.rounds.latest)).all()
