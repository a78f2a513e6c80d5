"""What a coordinator's service does in addition to driving rounds, where a task reads its test data."""

from types import SimpleNamespace

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.node.cli import services
from fedgrove.node.learning.task_settings import TaskSettings
from fedgrove.node.methods.procfl.statements import ClusterStatements
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.protocol.terms import (
    FederationConfig,
    FederationSettings,
    MembershipSettings,
    StartSettings,
    StrategySettings,
)


def test_a_coordinator_of_clusters_that_evaluates_a_task_also_states_overlaps(monkeypatch, tmp_path):
    keys, made = Keys.generate(), []
    terms = FederationConfig(
        ProCflTerms(counter=keys.mailbox_public.hex(), signer=keys.address, labels=3),
        TaskSettings("b" + "a" * 58),
        FederationSettings(rounds=10),
        strategy=StrategySettings("fedavg"),
        membership=MembershipSettings("approved"),
        ledger=LedgerSettings(max_clients=100),
        start=StartSettings("ab" * 32),
    )
    ledger = SimpleNamespace(address="0x", deployment=SimpleNamespace(coordinator=keys.address))
    place = SimpleNamespace(ledger=ledger, store=SimpleNamespace(fetch=lambda *_: b"first"), log=None)
    replaced = {
        "load_config": lambda _: (terms, NetworkSettings()),
        "read_password": lambda _: "",
        "load": lambda *_: keys,
        "_arrive": lambda *_: place,
        "approved_data": lambda *_, **__: SimpleNamespace(evaluate=None),
        "_serve": lambda *_: 0,
    }
    for name, value in replaced.items():
        monkeypatch.setattr(services, name, value)
    monkeypatch.setattr("fedgrove.node.roles.coordinator.Coordinator", lambda *given, **_: made.extend(given))
    given = {"data": tmp_path / "test.csv", "directory": tmp_path / "coordinator"}
    assert services.coordinator(tmp_path / "federation.toml", tmp_path / "keys.json", **given) == 0
    *_, first, aides = made
    assert first == b"first" and isinstance(aides.statements, ClusterStatements)
