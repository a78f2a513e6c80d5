"""How contracts are founded, and how members join, change their keys, come back, are approved and are revoked."""

from dataclasses import replace

import pytest

from fedgrove.chain.records import (
    LedgerFounded,
    MailboxKeyRotated,
    RegistryFounded,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.node.protocol.bad_record import BadRecord, bad
from tests.node.protocol.ledger_story import (
    ACCOUNTS,
    ADMIN,
    COORDINATOR,
    DELAY,
    FOUNDER,
    NOTHING,
    OPENED,
    STRANGER,
    Story,
)

NAMED = (ACCOUNTS[1], ACCOUNTS[2])
MEMBERSHIPS = ("named", "approved", "open")

# --- founding ---------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("membership", ["named", "approved"])
def test_the_registry_brings_the_approvals_of_those_that_the_terms_name_once_each(membership):
    story = Story(membership, (*NAMED, NAMED[0]))
    registry = RegistryFounded(story.at(1, FOUNDER))
    first, second = (replace(story.approved(client), at=registry.at._replace(log_index=client)) for client in (1, 2))
    wrong = [second, registry, LedgerFounded(story.at(1)), story.registered(1), story.approved(1, 1)]
    wrong += [replace(first, active_from=1), replace(first, at=story.at(1, FOUNDER))]
    story.add(registry)
    assert {story.bad(each).field for each in wrong} == {"approval"}
    story.add(first)
    assert story.bad(first).field == story.bad(story.registered(1)).field == "approval"
    story.add(second)
    assert story.bad(first) is not None and story.bad(LedgerFounded(story.at(1))) is None


# --- members ----------------------------------------------------------------------------------------------------------


def test_a_registration_takes_the_next_index_an_unused_account_and_key_and_the_delay():
    story = Story().joined(1)
    good = story.registered(2)
    for wrong in ({"client": 3}, {"client": 1}, {"account": ACCOUNTS[1]}):
        assert story.bad(replace(good, **wrong)).field == "registration.index"
    assert story.bad(story.registered(2, key=1)).field == "registration.vrf key"
    for wrong in (good.active_from - 1, good.active_from + 1):
        assert story.bad(replace(good, active_from=wrong)).field == "registration.active from"
    assert "does not verify" in story.bad(replace(good, proof=story.registered(3).proof)).reason
    assert story.bad(replace(good, vrf_y=good.vrf_y + 2)).reason == "the VRF key is not on the curve"
    assert story.bad(replace(good, mailbox_key=NOTHING)).field == "registration.mailbox key"
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
def test_keys_and_data_are_changed_and_idleness_ends_by_their_own_member_only(client, account):
    story = Story().joined(1)
    key = story.registered(1, 5, key=5)
    rotated = VrfKeyRotated(story.at(5), ACCOUNTS[1], 1, key.vrf_x, key.vrf_y, key.active_from, key.proof)
    mailbox = MailboxKeyRotated(story.at(5), ACCOUNTS[1], 1, b"\5" * 32)
    withdrawn, resumed = Withdrawn(story.at(5), ACCOUNTS[1], 1, 1, NOTHING), story.resumed(1, 5)
    for own in (rotated, mailbox, withdrawn, resumed):
        assert story.bad(own) is None
        assert story.bad(replace(own, account=account, client=client)).field == own.FIELD
    for own in (rotated, resumed):
        for wrong in (own.active_from - 1, own.active_from + 1):
            assert story.bad(replace(own, active_from=wrong)).field == f"{own.FIELD}.active from"
    assert story.bad(replace(mailbox, mailbox_key=NOTHING)).field == "mailbox rotation.mailbox key"
    story.add(rotated)
    assert story.bad(rotated).field == "rotation.vrf key"


# --- who may take part ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("membership", MEMBERSHIPS)
def test_who_registers_was_approved_unless_membership_is_open(membership):
    story = Story(membership, NAMED if membership != "open" else ()).founded()
    assert story.bad(story.registered(1)) is None
    stranger = story.bad(replace(story.registered(3), client=1))
    assert stranger is None if membership == "open" else stranger.field == "registration.account"


def test_who_was_revoked_before_it_registered_does_not():
    story = Story("approved").founded()
    story.add(story.approved(1), story.revoked(1, 3))
    assert story.bad(story.registered(1)).field == "registration.account"
    story.add(story.approved(1, 4))
    assert story.bad(story.registered(1)) is None


@pytest.mark.parametrize("author", [FOUNDER, ADMIN, COORDINATOR, "0x" + 40 * "0"])
@pytest.mark.parametrize(
    ("membership", "entitled", "revokes"), [("named", FOUNDER, None), ("approved", ADMIN, ADMIN), ("open", None, None)]
)
def test_the_founder_names_members_and_the_admin_approves_and_revokes(membership, entitled, revokes, author):
    story = Story(membership, () if membership == "open" else NAMED).founded()
    assert (story.bad(story.approved(3, author=author)) is None) == (author == entitled)
    assert (story.bad(story.revoked(1, 5, author)) is None) == (author == revokes)


@pytest.mark.parametrize(("membership", "author", "lawful"), [("named", FOUNDER, False), ("approved", ADMIN, True)])
def test_named_members_are_fixed_with_the_first_opening(membership, author, lawful):
    story = Story(membership, NAMED).founded()
    story.add(story.registered(1), story.registered(2))
    assert story.bad(story.approved(3, 30, author)) is None
    story.to_opened()
    assert (story.bad(story.approved(3, 30, author)) is None) == lawful


def test_approvals_and_revocations_alternate():
    story = Story("approved").joined(1)
    assert story.bad(story.approved(1, 5)).reason.endswith("was approved before")
    assert story.bad(story.revoked(2, 5)).reason.endswith("was not approved")
    story.add(story.revoked(1, 5))
    assert story.bad(story.revoked(1, 5)).reason.endswith("was not approved")


@pytest.mark.parametrize("active_from", [0, 1, 2 + DELAY])
def test_an_approval_before_the_registration_begins_with_it(active_from):
    story = Story("approved").founded()
    told = story.bad(story.approved(1, active_from=active_from))
    assert told is None if active_from == 0 else told.field == "approval.active from"


@pytest.mark.parametrize(
    ("revoked", "opened", "acts"), [(9, None, False), (OPENED - 1, OPENED, True), (OPENED, OPENED, False)]
)
def test_a_revocation_acts_from_the_next_opening_and_until_then_can_be_taken_back(revoked, opened, acts):
    """Who is approved again after it acted waits for the delay; before, it is as if nothing had been."""
    story = Story("approved").joined()
    story.add(*[story.revoked(1, revoked)] * (revoked < OPENED)).add(*[story.opened(OPENED)] * bool(opened))
    story.add(*[story.revoked(1, revoked)] * (revoked >= OPENED))
    member, before = story.rounds.members[1], 2 + DELAY
    assert not story.rules.is_active(ACCOUNTS[1], 900)
    assert (ACCOUNTS[1] in story.rules.barred_from(1, revoked)) is False
    assert ACCOUNTS[1] in story.rules.barred_from(1, revoked + 1)
    if opened:
        assert story.rules.barred(member, story.current) == ("the client was not approved" if acts else "")
    right = 21 + DELAY if acts else before
    for active_from in {before, 21 + DELAY, 0}:
        bad_one = story.bad(story.approved(1, 21, active_from=active_from))
        assert (bad_one is None) == (active_from == right)
    story.add(story.approved(1, 21, active_from=right))
    assert story.rules.barred_from(2, right) == []
    assert story.rules.barred_from(2, right - 1) == [ACCOUNTS[1]] if acts else True
    assert story.rules.is_active(ACCOUNTS[1], right) and not story.rules.is_active(ACCOUNTS[1], right - 1)


def test_who_left_is_not_made_a_member_by_an_approval():
    story = Story("approved").joined()
    story.add(Withdrawn(story.at(9, ACCOUNTS[1]), ACCOUNTS[1], 1, 0, NOTHING), story.revoked(1, 9))
    story.add(story.approved(1, 10, active_from=2 + DELAY))
    assert not story.rules.is_active(ACCOUNTS[1], 900)
    assert story.rules.barred_from(1, 900) == [ACCOUNTS[1]]
