"""In which phase a running round is for a client."""

import pytest
from fedgrove.node.roles.client.phase import ClientPhase, phase_of

from tests.node.roles.fakes import DEADLINES, ME, entry_with

SEALED = {"draws": (ME, 2, 3), "sealed": object()}
FIRST, LAST = 0, 69


def phase(block, **parts):
    return phase_of(entry_with(**parts), DEADLINES, block, ME)


@pytest.mark.parametrize("block", [FIRST, 19, 20, LAST])
def test_a_client_that_has_not_drawn_is_in_draw_whatever_the_block(block):
    assert phase(block, draws=(2, 3), sealed=object(), shares=(2, 3)) is ClientPhase.DRAW


@pytest.mark.parametrize("block", [FIRST, 29, LAST])
def test_a_client_that_drew_waits_for_the_order_until_it_is_sealed(block):
    assert phase(block, draws=(ME, 2)) is ClientPhase.SEAL


@pytest.mark.parametrize(
    ("block", "due"), [(30, ClientPhase.SHARE), (39, ClientPhase.SHARE), (40, ClientPhase.RECOVER)]
)
def test_a_client_shares_while_shares_are_taken(block, due):
    assert phase(block, **SEALED, shares=(2, 3)) is due


@pytest.mark.parametrize(
    ("block", "due"), [(30, ClientPhase.COMMIT), (49, ClientPhase.COMMIT), (50, ClientPhase.RECOVER)]
)
def test_a_client_that_shared_commits_while_commitments_are_taken(block, due):
    assert phase(block, **SEALED, shares=(ME, 2, 3)) is due


@pytest.mark.parametrize("block", [45, 50, LAST])
def test_a_client_that_did_not_share_never_commits(block):
    assert phase(block, **SEALED, shares=(2, 3)) is ClientPhase.RECOVER


@pytest.mark.parametrize("block", [40, 50, LAST])
def test_a_client_that_committed_publishes_before_anything_else(block):
    assert phase(block, **SEALED, shares=(ME, 2, 3), commits=(ME, 2)) is ClientPhase.PUBLISH


def test_what_others_did_does_not_change_the_phase():
    assert phase(45, **SEALED, shares=(ME, 2, 3), commits=(2, 3), releases=(2,)) is ClientPhase.COMMIT
