"""While clients share and commit, the coordinator says for which it waits."""

from fedgrove.node.roles.coordinator.summing import AwaitMembers
from tests.node.roles.fakes import DEADLINES, entry_with, turn_at


def test_it_waits_for_the_shares_of_those_that_drew():
    step = AwaitMembers(None).act(turn_at(35, entry_with(draws=(1, 2, 3), shares=(2,))))
    assert (step.phase, step.waiting, step.until) == ("share", "clients 1, 3 to share", DEADLINES.share_end)


def test_it_waits_for_the_commitments_of_those_that_shared():
    step = AwaitMembers(None).act(turn_at(45, entry_with(draws=(1, 2, 3), shares=(1, 2), commits=(2,))))
    assert (step.phase, step.waiting, step.until) == ("commit", "client 1 to commit", DEADLINES.commit_end)
