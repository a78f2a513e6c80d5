"""How members join, change their keys, are approved and are revoked."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import (
    LedgerFounded,
    MailboxKeyRotated,
    RegistryFounded,
    Revoked,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.node.protocol.bad_record import BadRecord, bad
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    ADMIN,
    COORDINATOR,
    DELAY,
    STRANGER,
    Story,
)


def test_the_registry_is_founded_first_then_the_ledger_and_each_once():
    assert Story().bad(LedgerFounded(Story().at(1))).field == "founding"
    registry = RegistryFounded(Story().at(1))
    assert Story().add(registry).bad(registry).field == "founding"
    assert Story().founded().bad(LedgerFounded(Story().at(1))).field == "founding"


def test_members_may_join_before_the_ledger_is_founded_and_not_before_the_registry():
    story = Story()
    assert story.bad(story.registered(1)).field == "founding"
    story.add(RegistryFounded(story.at(1)), story.registered(1))
    assert story.bad(story.opened(20)).field == "founding"


def test_a_registration_takes_the_next_index_an_unused_account_and_key_and_the_delay():
    story = Story().joined(1)
    good = story.registered(2)
    assert story.bad(replace(good, client=3)).field == "registration.index"
    assert story.bad(replace(good, client=1)).field == "registration.index"
    assert story.bad(replace(good, account=ACCOUNTS[1])).field == "registration.index"
    assert story.bad(story.registered(2, key=1)).field == "registration.vrf key"
    for beside in (-1, 1):
        assert story.bad(replace(good, active_from=good.active_from + beside)).field == "registration.active from"
    other = story.registered(3)
    assert "does not verify" in story.bad(replace(good, proof=other.proof)).reason
    assert story.bad(replace(good, vrf_y=good.vrf_y + 2)).reason == "the VRF key is not on the curve"
    assert story.bad(good) is None


def test_vrf_keys_of_either_parity_register():
    story = Story().founded()
    keys = [story.registered(1, key=key) for key in range(1, 9)]
    assert {key.vrf_y % 2 for key in keys} == {0, 1}
    assert [story.bad(key) for key in keys] == [None] * 8


def test_a_bad_record_names_its_round_and_its_client_where_it_has_them():
    assert str(BadRecord(2, 5, "draw", "why")) == str(bad("draw", "why", 2, 5)) == "round 2, client 5, draw: why"
    assert str(BadRecord(None, None, "founding", "why")) == "founding: why"


@pytest.mark.parametrize(("client", "account"), [(2, ACCOUNTS[1]), (1, ACCOUNTS[2]), (1, STRANGER)])
def test_keys_and_data_are_changed_by_their_own_member_only(client, account):
    story = Story().joined(1)
    key = story.registered(1, 5, key=5)
    rotated = VrfKeyRotated(story.at(5), account, client, key.vrf_x, key.vrf_y, key.active_from, key.proof)
    assert story.bad(rotated).field == "rotation"
    assert story.bad(MailboxKeyRotated(story.at(5), account, client, bytes(32))).field == "mailbox rotation"
    assert story.bad(Withdrawn(story.at(5), account, client, 1, bytes(32))).field == "withdrawal"
    own = replace(rotated, account=ACCOUNTS[1], client=1)
    assert story.bad(replace(own, active_from=own.active_from - 1)).field == "rotation.active from"
    assert story.bad(own) is None
    assert story.bad(own).field == "rotation.vrf key"


def test_the_admin_alone_approves_and_revokes_and_nobody_where_membership_is_open():
    story = Story(open_membership=False).joined(1)
    for kind in (type(story.approved(1)), Revoked):
        assert story.bad(kind(story.at(5, ADMIN), ACCOUNTS[1])) is None
        assert "not by the federation's admin" in story.bad(kind(story.at(5, COORDINATOR), ACCOUNTS[1])).reason
        assert Story().joined(1).bad(kind(story.at(5, ADMIN), ACCOUNTS[1])) is not None


def test_a_revocation_acts_from_the_next_round_on_and_can_be_taken_back_until_then():
    story = Story(open_membership=False).joined().to_opened()
    member = story.rounds.members[1]
    story.add(Revoked(story.at(20, ADMIN), ACCOUNTS[1]))
    assert story.rules.barred_from(1, 20) == [] and story.rules.barred_from(2, 21) == [ACCOUNTS[1]]
    assert story.rules.barred(member, story.current) == "" and not story.rules.is_active(ACCOUNTS[1], 21)
    story.add(story.approved(1, 22))
    assert story.rules.barred_from(2, 22) == [] and story.rules.is_active(ACCOUNTS[1], 22)


def test_an_approval_holds_from_the_block_on_in_which_it_begins_to_act():
    story = Story(open_membership=False).founded()
    story.add(story.registered(1), story.approved(1, 20 - DELAY)).to_opened()
    assert story.rules.barred_from(1, 20) == [] and story.rules.barred_from(1, 19) == [ACCOUNTS[1]]
    story.add(Revoked(story.at(21, ADMIN), ACCOUNTS[1]))
    assert story.rules.barred_from(1, 20) == [] and story.rules.barred_from(1, 19) == [ACCOUNTS[1]]


def test_who_is_approved_again_after_a_revocation_acted_waits_for_the_delay():
    story = Story(open_membership=False).joined()
    story.add(Revoked(story.at(19, ADMIN), ACCOUNTS[1])).to_opened()
    story.add(story.approved(1, 21))
    assert story.rules.barred_from(2, 21 + DELAY - 1) == [ACCOUNTS[1]]
    assert story.rules.barred_from(2, 21 + DELAY) == []
    assert "not approved" in story.rules.barred(story.rounds.members[1], story.current)
