"""What a running round asks of a client."""

import pytest

from fedgrove.node.roles.client.role import Duty, duty_of
from tests.node.roles.fakes import ME, client_turn_at, entry_with

SEALED = {"draws": (ME, 2, 3), "sealed": object()}
FIRST, LAST = 0, 69


def duty(block, **parts):
    return duty_of(client_turn_at(block, entry_with(**parts)))


@pytest.mark.parametrize("block", [FIRST, 19, 20, LAST])
def test_a_client_that_has_not_drawn_is_in_draw_whatever_the_block(block):
    assert duty(block, draws=(2, 3), sealed=object(), shares=(2, 3)) is Duty.DRAW


@pytest.mark.parametrize("block", [FIRST, 29, LAST])
def test_a_client_that_drew_waits_for_the_order_until_it_is_sealed(block):
    assert duty(block, draws=(ME, 2)) is Duty.SEAL


@pytest.mark.parametrize(("block", "due"), [(30, Duty.SHARE), (39, Duty.SHARE), (40, Duty.RELEASE)])
def test_a_client_shares_while_shares_are_taken(block, due):
    assert duty(block, **SEALED, shares=(2, 3)) is due


@pytest.mark.parametrize(("block", "due"), [(30, Duty.COMMIT), (49, Duty.COMMIT), (50, Duty.RELEASE)])
def test_a_client_that_shared_commits_while_commitments_are_taken(block, due):
    assert duty(block, **SEALED, shares=(ME, 2, 3)) is due


@pytest.mark.parametrize("block", [45, 50, LAST])
def test_a_client_that_did_not_share_never_commits(block):
    assert duty(block, **SEALED, shares=(2, 3)) is Duty.RELEASE


@pytest.mark.parametrize("block", [40, 50, LAST])
def test_a_client_that_committed_publishes_before_anything_else(block):
    assert duty(block, **SEALED, shares=(ME, 2, 3), commits=(ME, 2)) is Duty.PUBLISH


def test_what_others_did_does_not_change_the_duty():
    assert duty(45, **SEALED, shares=(ME, 2, 3), commits=(2, 3), releases=(2,)) is Duty.COMMIT
