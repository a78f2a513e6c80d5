"""A simulation and a federation of the same terms, seed and data publish the same bytes, whatever the mechanism.

Both take their randomness from the plan's seed here, and the noise that a federation's clients share and a simulation
adds at once is left out. Clusters are compared in ``tests/node/methods/procfl/test_federation.py``, K-means in
``kmeans/test_same_as_federation.py``.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import tomli_w

from fedgrove.chain.records import Closed
from fedgrove.node.base.tensors import dump
from fedgrove.node.devnet.subjects import DatasetSubject
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.server_steps import MomentumStep
from fedgrove.node.methods.terms import method_of, with_first_model
from fedgrove.node.methods.training import client_level, masked, signds
from fedgrove.node.methods.training.client_level import ClientLevelUploads
from fedgrove.node.methods.training.masked import MaskedUploads
from fedgrove.node.methods.training.signds import SignDsUploads
from fedgrove.node.privacy.client_level import ClientLevelSum
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.protocol.terms import MaskingSettings, StartSettings
from fedgrove.node.scenario.reading import read_scenario, scenario
from fedgrove.node.simulation.executors import InlineExecutor
from fedgrove.node.simulation.run import Simulation
from fedgrove.node.simulation.uploads import seeded
from tests.node.conftest import run_federation

CLIENTS, ROUNDS, SEED = 4, 2, 5
DELTA = MaskingSettings(masked="delta")
PRIVATE = ClientLevelSettings(epsilon=100.0, delta=1e-3, clip=0.5)
TERMS = {
    "weights": {},
    "weights cut off at the bound": {"masking": MaskingSettings(bound=0.34)},
    "updates": {"masking": DELTA},
    "updates cut off at the bound": {"masking": MaskingSettings(masked="delta", bound=0.01)},
    "weights and a server's step": {"server": MomentumStep(momentum=0.5), "masking": MaskingSettings(bound=0.34)},
    "client-level privacy": {"masking": DELTA, "privacy": PRIVATE},
    "client-level privacy, a quantile": {"masking": DELTA, "privacy": replace(PRIVATE, clipping="quantile")},
    "local privacy": {"privacy": LocalSettings(epsilon=100.0)},
    "local privacy of updates": {"masking": DELTA, "privacy": LocalSettings(epsilon=100.0)},
    "SignDS": {"privacy": SignDsSettings()},
}
PURPOSES = {
    MaskedUploads: (masked, "local"),
    ClientLevelUploads: (client_level, "rounding"),
    SignDsUploads: (signds, "signds"),
}


class WithTerms(DatasetSubject):
    """A demonstration's federation on digits under other terms."""

    def __init__(self, terms) -> None:
        super().__init__(load_dataset("digits"))
        self._terms = terms

    def found(self, plan, store, keys):
        config, _ = super().found(plan, store, keys)
        config = with_first_model(replace(config, start=StartSettings(), **self._terms))
        return config, method_of(config).first_model()


@pytest.fixture
def seeds(monkeypatch):
    """Uploads of a federation with the randomness of a simulation, and no noise in sums."""
    for kind, (module, purpose) in PURPOSES.items():
        encode, source = kind.encode, SimpleNamespace(urandom=None)

        def seeded_encode(codec, inputs, client, *rest, encode=encode, source=source, purpose=purpose):
            source.urandom = seeded(purpose, SEED, inputs.current.number, client)
            return encode(codec, inputs, client, *rest)

        monkeypatch.setattr(kind, "encode", seeded_encode)
        monkeypatch.setattr(module, "os", source)
    monkeypatch.setattr(ClientLevelSum, "add_noise", lambda *_: None)


@pytest.mark.parametrize("name", TERMS)
def test_a_simulation_has_the_models_of_the_federation(name, seeds, tmp_path):
    demo = scenario(clients=CLIENTS, rounds=ROUNDS, strategy="fedavg", seed=SEED)
    run = run_federation(tmp_path / "kept", demo, WithTerms(TERMS[name]))
    (tmp_path / "federation.toml").write_text(tomli_w.dumps(run.report["config"]))
    plan = read_scenario(tmp_path / "federation.toml", {"scenario": {"clients": CLIENTS}})
    simulation, models = Simulation(plan, load_dataset("digits"), InlineExecutor(), 1), []
    simulation.keep = lambda number, model: models.append(dump(model))
    rounds = list(simulation.run())
    closed = [record for record in run.records if isinstance(record, Closed)]
    assert models == [run.store.fetch(record.model_digest, 1 << 26) for record in closed] and len(models) == ROUNDS
    assert any(result.cut_off for result in rounds) == ("bound" in name or "step" in name)
