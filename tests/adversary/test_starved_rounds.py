"""Members that let every round starve: they share, so that all wait for them, and never commit.

They want rounds without end: the work of the others, their privacy budgets, or that no model is ever made. What stops
them: a round with too few survivors is repeated, but only ``federation.repeats`` more rounds than planned are ever
opened, by whomever; nobody releases a share of such a round, so it costs no budget; when they stop within the bound,
all planned rounds close. A round that is spoilt after its shares were released does cost budget, and the federation
ends before anyone's is exceeded.
"""

from itertools import groupby

import pytest

from fedgrove.chain.errors import ContractRevert
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed, Released, RoundOpened
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.privacy.settings import ClientLevelSettings
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.rounds import Rounds
from fedgrove.node.protocol.spending import Spending
from fedgrove.node.protocol.terms import MaskingSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.client.contributing import Commit
from fedgrove.node.roles.client.role import Duty
from fedgrove.node.status.standing import standing
from tests.adversary.test_spoilers import Poisoner
from tests.node.federation import Federation, with_phase

MEMBERS, STARVERS, ROUNDS, REPEATS = 4, (1, 2), 1, 2
PRIVATE = {
    "privacy": ClientLevelSettings(epsilon=20.0, delta=1e-3, noise_multipliers=(1.0,), clip=1.0),
    "masking": MaskingSettings(masked="delta"),
    "training": TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05),
}


class NeverCommits(Commit):
    """Waits where it should commit, for as long as it likes."""

    starving = True

    def act(self, turn):
        return turn.sit_out("it starves the round") if NeverCommits.starving else super().act(turn)


Starver = with_phase(Client, Duty.COMMIT, NeverCommits)


@pytest.fixture(autouse=True)
def starving(monkeypatch):
    monkeypatch.setattr(NeverCommits, "starving", True)


def founded(network, directory, **changes) -> tuple[Federation, dict[int, Client]]:
    """A federation half of whose members starve its rounds."""
    parts = {"training": PRIVATE["training"], "repeats": REPEATS, **changes}
    federation = Federation.found(network, directory, clients=MEMBERS, rounds=ROUNDS, **parts)
    federation.register()
    clients = federation.clients()
    clients.update({number: federation.client(number, Starver) for number in STARVERS})
    return federation, clients


def spent(federation: Federation) -> float:
    """The privacy budget that the honest member with the highest index has spent."""
    view = LedgerView(federation.ledger(federation.coordinator_keys))
    view.refresh()
    method = method_of(federation.config)
    return Spending(method, federation.store, view.rounds, 100).epsilon(MEMBERS, view.rounds.last.number)


def test_they_gain_no_round_beyond_the_bound_and_no_budget(tmp_path):
    with embedded() as network:
        federation, clients = founded(network, tmp_path, **PRIVATE)
        federation.run(clients=clients)
        assert len(federation.of(RoundOpened)) == ROUNDS + REPEATS
        assert len(federation.of(Failed)) == ROUNDS + REPEATS
        pairs = zip(federation.of(Failed), federation.of(RoundOpened)[1:], strict=False)
        pauses = [opened.at.block - failed.at.block - 1 for failed, opened in pairs]
        assert pauses == [0, federation.config.ledger.draw_window], "they wait where rounds fail in a row"
        assert not federation.of(Closed) and not federation.of(Released)
        assert spent(federation) == 0
        ledger = federation.ledger(federation.keys[0])  # one of them, long after the coordinator's grace
        assert standing(ledger).finished and standing(ledger).waiting == "nobody: all rounds have ended"
        network.mine(federation.config.ledger.coordinator_grace + 1)
        with pytest.raises(ContractRevert):
            ledger.open(federation.of(RoundOpened)[-1].model_digest, ())
        for client in federation.clients().values():
            client.step()
            assert client.finished
        assert federation.audit().verdict == "consistent, no round closed"


def test_when_they_stop_within_the_bound_all_planned_rounds_close(tmp_path, monkeypatch):
    with embedded() as network:
        federation, clients = founded(network, tmp_path)
        coordinator = federation.coordinator()
        while federation.turn(coordinator, clients):
            if coordinator.round > REPEATS:
                monkeypatch.setattr(NeverCommits, "starving", False)
        ends = [type(each.end) for each in coordinator.view.rounds.ended()]
        assert [(kind, len(list(which))) for kind, which in groupby(ends)] == [(Failed, REPEATS), (Closed, ROUNDS)]
        assert federation.audit().verdict == "verified"


def test_a_round_that_is_spoilt_after_its_releases_costs_budget_and_nobody_exceeds_it(tmp_path):
    with embedded() as network:
        federation = Federation.found(network, tmp_path, clients=4, rounds=ROUNDS, repeats=50, **PRIVATE)
        federation.register()
        federation.run(clients=federation.clients() | {1: federation.client(1, Poisoner)})
        failed = federation.of(Failed)
        assert failed
        assert 0 < spent(federation) <= PRIVATE["privacy"].epsilon
        assert len(federation.of(RoundOpened)) < ROUNDS + 50, "the budget ended it, not the bound"
        assert federation.audit().verdict == "verified"


@pytest.mark.mutants
def test_without_the_bound_in_the_roles_the_ledger_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(Rounds, "all_held", lambda self, rounds, repeats: False)
    with embedded() as network:
        federation, clients = founded(network, tmp_path)
        coordinator = federation.coordinator()
        ledger = federation.ledger(federation.coordinator_keys)
        while (now := standing(ledger)).round < ROUNDS + REPEATS or now.phase != "failed":
            federation.turn(coordinator, clients)
        network.mine(2 * federation.config.ledger.draw_window)  # the pause of rounds that fail in a row
        assert [coordinator.step().phase for _ in range(2)] == ["refused", "refused"]
        assert len(federation.of(RoundOpened)) == ROUNDS + REPEATS
