"""A server's step in real federations: its state travels with the model, and everybody repeats it to the bit."""

from dataclasses import replace

import numpy as np
import pytest
import tomli_w

from fedgrove.api.history import History
from fedgrove.api.saving import model_file
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Failed, RoundOpened
from fedgrove.node.audit.auditor import Auditor
from fedgrove.node.base.tensors import Layout, Tensors, dump, load
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.server_side import without_state
from fedgrove.node.learning.server_steps import AdamStep, MomentumStep
from fedgrove.node.learning.settings import EvaluationSettings, TrainingSettings
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.protocol.terms import MaskingSettings, StartSettings, StrategySettings
from fedgrove.node.scenario.reading import read_scenario, scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from tests.node.conftest import run_federation
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
STEPS = {
    "momentum": ("fedavg", MomentumStep(rate=0.8, momentum=0.7)),
    "fedacg": ("fedprox", MomentumStep(momentum=0.85, lookahead=True)),
    "adam": ("fedcurv", AdamStep()),
}
ROUNDS = 3


class WithStep(DatasetSubject):
    """A demonstration's federation on digits, with a server's step in its terms."""

    def __init__(self, step) -> None:
        super().__init__(load_dataset("digits"))
        self._step = step

    def found(self, plan, store, keys):
        config, _ = super().found(plan, store, keys)
        config = with_first_model(replace(config, start=StartSettings(), server=self._step))
        return config, method_of(config).first_model()


@pytest.fixture(scope="module", params=list(STEPS))
def kept(request, tmp_path_factory):
    """A run of four clients and three rounds, kept; no test may change it."""
    strategy, step = STEPS[request.param]
    plan = scenario(clients=4, rounds=ROUNDS, strategy=strategy, seed=5)
    return run_federation(tmp_path_factory.mktemp(request.param) / "kept", plan, WithStep(step))


@pytest.fixture
def found(tmp_path):
    """``found(server=STEP, …)``: a federation on a chain of its own, whose members have registered."""
    with embedded() as network:

        def make(clients=3, rounds=ROUNDS, repeats=0, **terms):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            made = Federation.found(network, folder, clients, rounds, repeats, training=QUICK, **terms)
            made.register()
            return made

        yield make


def published(federation) -> list[Tensors]:
    return [load(federation.store.fetch(record.model_digest, 1 << 24)) for record in federation.of(Closed)]


def momentum(content: Tensors) -> np.ndarray:
    return content["server/momentum/hidden.weight"]


# --- a run, its audit, and what is made of it -------------------------------------------------------------------------


def test_every_round_is_verified(kept):
    verdict = Auditor(kept.facts, kept.records, kept.store).run()
    assert verdict.verdict == "verified" and not verdict.remarks, verdict


def test_a_simulation_has_the_bytes_of_the_federation(kept, tmp_path):
    (tmp_path / "federation.toml").write_text(tomli_w.dumps(kept.report["config"]))
    plan = read_scenario(tmp_path / "federation.toml", {"scenario": {"clients": 4}})
    simulation = Simulation(plan, load_dataset("digits"), InlineExecutor(), 1)
    accuracies = [result.accuracy for result in simulation.run()]
    closed = [record for record in kept.records if isinstance(record, Closed)]
    assert kept.store.fetch(closed[-1].model_digest, 1 << 26) == dump(simulation.tensors)
    assert [entry["accuracy"] for entry in kept.report["rounds"]] == accuracies


def test_an_upload_has_nothing_of_the_state(kept):
    ends, uploads = ([each for each in kept.records if isinstance(each, kind)] for kind in (Closed, Committed))
    content = load(kept.store.fetch(ends[-1].model_digest, 1 << 26))
    model = without_state(content)
    assert 0 < len(model) < len(content)
    sizes = {len(kept.store.fetch(upload.digest, 1 << 26)) for upload in uploads}
    assert sizes == {4 * (Layout.of(model).length + 1)}  # a word counts who could not train


def test_the_history_gives_the_model_and_the_file_on_record_all_that_was_published(kept):
    history = History(kept.directory)
    names = {name for name in history.model() if not name.startswith(("server/", "fedcurv/"))}
    assert set(history.state_dict()) == names and "hidden.weight" in names
    assert model_file(history).tensors == len(history.model()) > len(names)
    assert model_file(history, as_state_dict=True).tensors == len(names)
    rest = history.terms["server"]
    assert rest["step"] in ("momentum", "adam")


# --- kills, failures, late members ------------------------------------------------------------------------------------


def test_roles_that_restart_before_every_step_publish_the_same(found):
    whole, killed = (found(server=AdamStep(), rounds=2) for _ in range(2))
    whole.run()
    while killed.turn(killed.coordinator(), killed.clients()):
        pass
    digests = [[record.model_digest for record in each.of(Closed)] for each in (whole, killed)]
    assert digests[0] == digests[1] and len(digests[0]) == 2
    assert killed.audit().verdict == "verified"


def test_after_a_round_in_which_too_few_commit_the_state_begins_anew(found):
    """In round 2 two of four fall silent after they have shared; later rounds have all, and dropouts, and close."""
    federation = found(clients=4, rounds=2, repeats=2, server=MomentumStep(momentum=0.5))
    coordinator, clients = federation.coordinator(), federation.clients()
    away = {}
    while federation.turn(coordinator, {**clients}):
        number = coordinator.round
        for client in (3, 4):
            if number == 2 and client in clients and "shared" in " ".join(federation.said(f"client {client}")[-1:]):
                away[client] = clients.pop(client)
        if number == 3 and away:
            clients |= away
            away.clear()
    assert [record.round for record in federation.of(Failed)] == [2]
    opened = {record.round: record.model_digest for record in federation.of(RoundOpened)}
    closed = {record.round: record.model_digest for record in federation.of(Closed)}
    assert sorted(closed) == [1, 3] and opened[3] == closed[1]
    first, second = published(federation)
    assert not np.array_equal(second["hidden.weight"], first["hidden.weight"])
    assert not momentum(second).any()
    assert federation.audit().verdict == "verified"


def test_a_member_that_joins_late_knows_the_state(found):
    federation = found(clients=4, rounds=3, server=AdamStep())
    coordinator, clients = federation.coordinator(), federation.clients()
    late = clients.pop(4)
    while federation.turn(coordinator, clients):
        if federation.of(Closed):
            clients[4] = late
    assert 4 in {record.client for record in federation.of(Committed) if record.round > 1}
    assert len(published(federation)) == 3 and federation.audit().verdict == "verified"


# --- with other terms -------------------------------------------------------------------------------------------------

DELTA = MaskingSettings(masked="delta")
TOGETHER = {
    "updates": {"masking": DELTA},
    "client-level privacy": {"masking": DELTA, "privacy": ClientLevelSettings(epsilon=50.0, delta=1e-3, clip=0.5)},
    "local privacy": {"privacy": LocalSettings()},
    "signds": {"privacy": SignDsSettings()},
    "evaluation": {"evaluation": EvaluationSettings(held_out=0.2), "strategy": StrategySettings("moon")},
}


@pytest.mark.parametrize("terms", TOGETHER.values(), ids=list(TOGETHER))
def test_a_step_goes_with_all_that_leaves_a_mean(found, terms):
    federation = found(rounds=2, server=MomentumStep(rate=0.5, momentum=0.5, lookahead=True), **terms)
    federation.run()
    contents = published(federation)
    evaluated = contents[2:]  # the last model again, in a round that only evaluates it
    assert len(evaluated) == ("evaluation" in terms) and all(dump(each) == dump(contents[1]) for each in evaluated)
    assert momentum(contents[1]).any()
    verdict = federation.audit()
    assert verdict.verdict == "verified" and not verdict.remarks, verdict
    moved = contents[1]["hidden.weight"] - contents[0]["hidden.weight"]
    assert moved == pytest.approx(0.5 * momentum(contents[1]), abs=1e-5)
