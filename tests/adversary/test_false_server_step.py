"""A coordinator that cheats in the server's step, where no upload shows it.

The sum is right, and so is every upload. But the coordinator takes another rate, forgets the momentum, brings back that
of an earlier round, or publishes a right model with a state of its own, which spoils only the rounds to come. The terms
name the step and all its numbers, and its state is published with the model: whoever recomputes the round finds out.
"""

from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Replaced, RoundOpened
from fedgrove.node.base.tensors import Tensors, load
from fedgrove.node.learning.server_side import ServerSide
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.protocol.rounds import RoundRecords
from tests.adversary.standing_in import with_standbys
from tests.node.federation import Federation, LyingCoordinator

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
BOUND = 8.0
LIE = 2
"""The round that is closed with a lie."""


class Cheat(LyingCoordinator):
    """Closes round 2 as another step would."""

    def lie(self, current: RoundRecords, model: Tensors) -> Tensors:
        return self.cheated(current, model) if current.number == LIE else model

    def cheated(self, current: RoundRecords, right: Tensors) -> Tensors:
        raise NotImplementedError

    def began(self, current: RoundRecords) -> Tensors:
        """What the round before published."""
        return load(self.context.store.fetch(current.opened.model_digest, 1 << 24))

    def again(self, current: RoundRecords, right: Tensors, before: Tensors, **changes) -> Tensors:
        """The round's own changes, by a step with these changes from this state on."""
        step, began = self.context.config.server, self.began(current)
        mean = {
            name: began[name] + _change(step, began, right, name) for name in began if not name.startswith("server/")
        }
        return ServerSide(replace(step, **changes), "fedavg", BOUND).next(lambda: before, mean)


def _change(step, began: Tensors, right: Tensors, name: str):
    """Δ, from the momentum before and after."""
    kept, now = (content[f"server/momentum/{name}"] for content in (began, right))
    own = now - step.momentum * kept
    return own if isinstance(step, MomentumStep) else own / (1 - step.momentum)


class OtherRate(Cheat):
    """Takes ten times the rate, for the model to jump."""

    def cheated(self, current, right):
        return self.again(current, right, self.began(current), rate=10 * self.context.config.server.rate)


class ForgetsTheState(Cheat):
    """Steps as if from rest: what the members moved before counts no more."""

    def cheated(self, current, right):
        return self.again(current, right, ServerSide(self.context.config.server, "fedavg", BOUND).first(
            {name: value for name, value in self.began(current).items() if not name.startswith("server/")}
        ))  # fmt: skip


class StateOfAnotherRound(Cheat):
    """Publishes the right model with the state of the round before."""

    def cheated(self, current, right):
        began = self.began(current)
        return {name: (began if name.startswith("server/") else right)[name] for name in right}


class OwnState(Cheat):
    """Publishes the right model with a momentum that it likes, in one value of one tensor."""

    def cheated(self, current, right):
        changed = right["server/momentum/output.bias"].copy()
        changed[0] += 1
        return right | {"server/momentum/output.bias": changed}


CHEATS = (OtherRate, ForgetsTheState, StateOfAnotherRound, OwnState)
STEPS = {"momentum": MomentumStep(rate=0.1, momentum=0.9), "adam": AdamStep()}


@pytest.fixture
def found(tmp_path):
    """``found(step, rounds)``: a federation of four whose members have registered."""
    with embedded() as network:

        def make(step, rounds):
            made = Federation.found(network, tmp_path, 4, rounds, training=QUICK, server=step)
            made.register()
            return made

        yield make


def of_kind(federation, kind) -> dict:
    """Records of a kind by round."""
    return {record.round: record for record in federation.of(kind)}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("step", STEPS)
def test_the_audit_names_the_closing_and_a_member_that_looks_refuses_it(found, cheat, step):
    federation = found(STEPS[step], LIE)
    clients = federation.clients()
    for client in clients.values():
        client.context.closings._recompute = lambda current, end: ""  # colludes: it says that all is well
    federation.run(federation.coordinator(cheat), clients)
    assert sorted(of_kind(federation, Closed)) == [1, LIE]
    verdict = federation.audit()
    bad = verdict.first_bad_record
    assert verdict.verdict == "bad record" and (bad.round, bad.field) == (LIE, "closed.model"), verdict
    looks = federation.client(1).context
    looks.view.refresh()
    rounds = looks.view.rounds.rounds
    assert looks.closings.fault(rounds[1]) == ""
    assert looks.closings.fault(rounds[LIE]).startswith("its model is wrong: it is not the server's step on the sum")


def test_where_members_look_the_right_state_takes_the_place_of_the_lie(found):
    federation = found(STEPS["momentum"], 3)
    liar, clients = federation.coordinator(StateOfAnotherRound), federation.clients()
    while LIE not in of_kind(federation, Closed):
        federation.turn(liar, clients)
    federation.run(liar, with_standbys(federation, clients))
    closed, opened = of_kind(federation, Closed), of_kind(federation, RoundOpened)
    right = of_kind(federation, Replaced)
    assert list(right) == [LIE] and right[LIE].model_digest != closed[LIE].model_digest
    resumed = max(closed)
    assert resumed > LIE and opened[resumed].model_digest == right[LIE].model_digest
    assert federation.audit().verdict == "verified"
