"""A coordinator does what the unit of the phase does, and opens the next round after one that ended."""

from types import SimpleNamespace

import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Phase
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.context import Turn
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One whose only round has closed."""
    with embedded() as network:
        made = Federation.found(network, tmp_path_factory.mktemp("closed"), training=QUICK)
        made.register()
        made.run()
        yield made


@pytest.fixture
def coordinator(federation):
    """A coordinator whose units only name themselves."""
    made = federation.coordinator()
    made.units = {phase: naming(Step.act("done", phase.name)) for phase in made.units}
    made._open = naming(Step.act("done", "opened"))
    return made


def naming(result):
    return SimpleNamespace(act=lambda turn: result)


ENDED = {Phase.CLOSED, Phase.SKIPPED, Phase.FAILED, Phase.VOIDED}


def test_each_phase_of_a_running_round_has_a_unit(federation):
    assert set(federation.coordinator().units) == set(Phase) - {Phase.NONE, *ENDED}


def test_the_unit_of_the_phase_acts_while_a_round_runs(coordinator):
    coordinator.view.refresh().end = None
    assert coordinator.step().acted == Turn(*turn(coordinator)).phase.name


def turn(coordinator):
    current = coordinator.view.rounds.last
    return current, coordinator.view.deadlines(current), coordinator.view.block


def test_after_a_round_it_opens_the_next(coordinator):
    assert coordinator.step().acted == "opened"


def test_what_the_ledger_refuses_is_looked_at_again(coordinator):
    def refused(turn):
        raise ContractRevert("somebody was quicker")

    coordinator._open = SimpleNamespace(act=refused)
    step = coordinator.step()
    assert step.phase == "refused" and step.until == coordinator.view.block + 1


def test_it_has_finished_when_no_round_follows(coordinator):
    coordinator.view.refresh()
    assert coordinator.finished


def test_a_coordinator_whose_closing_fell_leaves_the_rest_to_members(coordinator):
    """The ledger refuses its openings and closings, and it would pay for none of them."""
    coordinator.view.law.is_struck = lambda account: account == coordinator.account
    step = coordinator.step()
    assert (step.phase, step.until) == ("struck", 0) and "members to stand by" in step.waiting


@pytest.mark.parametrize(("members", "needed"), [(0, 3), (2, 3), (5, 5)])
def test_the_first_round_waits_for_as_many_members_as_it_was_told_and_for_the_quorum(tmp_path, members, needed):
    with embedded() as network:
        made = Federation.found(network, tmp_path, training=QUICK)
        step = made.coordinator(members=members).step()
        assert step.waiting == f"members to register: 0 of the {needed} needed are active"
