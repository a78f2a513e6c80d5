"""The counter of overlaps and one member together read a victim's label counts; so the counter must be no member.

The member blinds the elements of each label with an exponent of their own, where it should take one for all, and gives
the exponents to the counter. What the victim answers then tells label by label how many elements are common.
"""

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import ModelSpec
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.procfl import ecdh
from fedgrove.node.methods.procfl.messages import TAG_BYTES, Header, digest, read_sorted, write
from fedgrove.node.methods.procfl.sets import Q_MAX, elements
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.terms import FederationConfig, FederationSettings, LedgerSettings, MembershipSettings

SESSION = bytes(range(32))
MEMBER, VICTIM = 0, 1
COUNTS = np.array([7, 0, 12, 3])
"""The victim's."""
CLAIMED = 15
"""So many samples of each label the member says that it has."""


def labelled(label: int) -> np.ndarray:
    """The elements that stand for the claimed samples of a label."""
    return np.arange(1, CLAIMED + 1, dtype=np.uint64) + np.uint64(label * Q_MAX)


def read_counts(victim: ecdh.EcdhClient) -> list[int]:
    """What the two learn from the victim's two messages, one to all and one to the counter."""
    parts = [ecdh.EcdhClient(SESSION, MEMBER, labelled(n), ecdh.new_secret(os.urandom)) for n in range(len(COUNTS))]
    points = [point for part in parts for point in ecdh.read_points(part.blinded, SESSION, MEMBER)]
    blinded = write(Header(ecdh._BLINDED, SESSION, MEMBER), sorted(points))
    transcript = digest(blinded, victim.blinded)
    sent = victim.answer(MEMBER, blinded)
    tags = set(read_sorted(sent, Header(ecdh._TAGS, SESSION, VICTIM, MEMBER, transcript), TAG_BYTES))
    prefix = hashlib.sha256(ecdh._TAG + SESSION + transcript)
    own = ecdh.read_points(victim.blinded, SESSION, VICTIM)
    return [sum(ecdh._tag(prefix, product) in tags for product in part._times(own)) for part in parts]


def terms(mode: str) -> FederationConfig:
    return FederationConfig(
        task=TaskSettings.of_network(ModelSpec("small-cnn", (1, 8, 8), 10)),
        federation=FederationSettings(rounds=10, practice=mode == "open"),
        method=ProCflTerms(counter="ab" * 32, signer="0x" + "ab" * 20),
        ledger=LedgerSettings(max_clients=100),
        membership=MembershipSettings(mode),
    )


def test_the_counter_and_a_member_together_read_how_many_samples_of_each_label_a_victim_has():
    victim = ecdh.EcdhClient(SESSION, VICTIM, elements(COUNTS), ecdh.new_secret(os.urandom))
    assert read_counts(victim) == COUNTS.tolist()


def test_terms_in_which_the_counter_could_make_itself_a_member_are_refused():
    with pytest.raises(InvalidConfig, match="otherwise the counter could be a member"):
        terms("open")
    with pytest.raises(InvalidConfig, match="otherwise the counter could be a member"):
        replace(terms("approved"), federation=FederationSettings(practice=True), membership=MembershipSettings("open"))


@pytest.mark.mutants
def test_without_the_check_a_federation_with_a_counter_is_open_to_all(monkeypatch):
    monkeypatch.setattr(ProCflTerms, "check", lambda self, config: None)
    assert terms("open").membership.mode == "open"
