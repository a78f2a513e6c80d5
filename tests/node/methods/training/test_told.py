"""What people are told of a privacy budget: by report, status and the terms of demo and testnet."""

import shutil
from dataclasses import replace

import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.common.errors import InvalidContent
from fedgrove.common.wire import canonical_json
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.archive import audit_directory, write_archive
from fedgrove.node.audit.verdict import Verdict
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.devnet.testnet.processes import _write_config
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.methods.terms import load_config, parse_config
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of
from fedgrove.node.privacy.records import difference
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.network_settings import NetworkSettings
from fedgrove.node.scenario.reading import scenario
from fedgrove.node.status.federation import PrivacyReader, StatusReader
from fedgrove.node.status.report import build_report
from tests.node.federation import Federation
from tests.node.methods.training.conftest import TERMS


def test_the_report_has_what_every_round_released_and_is_audited(run, tmp_path):
    federation = run.federation
    report = build_report(federation.history(), federation.store, {1: 0.0, 2: 0.0})
    assert [each["privacy"] for each in report["rounds"]] == [m.privacy.to_table() for m in run.metrics()]
    assert report["config"]["privacy"]["mechanism"] == "client"
    assert parse_config(federation.config.to_bytes()).to_tables() == report["config"]
    report["audit"] = Verdict("verified", practice=True).entry()
    shutil.copytree(federation.directory / "store", tmp_path / "store")
    write_archive(tmp_path, federation.history(), report)
    assert audit_directory(tmp_path).verdict == "verified"
    report["rounds"][0]["privacy"]["epsilon"] = 0.1
    write_archive(tmp_path, federation.history(), report)
    assert audit_directory(tmp_path).first_bad_record.field == "report.json: rounds"


def test_a_report_without_a_mechanism_says_nothing_of_it(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, 3, 1, **TERMS)
        made.register()
        made.run()
        report = build_report(made.history(), made.store, {})
        assert "privacy" not in report["config"] and report["rounds"][0]["privacy"] is None
        assert made.audit().privacy is None


def test_status_shows_what_a_client_has_spent(run, tmp_path):
    federation = run.federation
    view = federation.coordinator().view
    view.refresh()
    sight = PrivacyReader(federation.config, federation.store).read(view)
    spent = f"ε = {run.metrics()[1].privacy.epsilon:.4g} of 20 at δ = 0.001 spent by client {sight['spent'].client}"
    assert str(sight["spent"]) == spent and not sight["exhausted"]
    mine = PrivacyReader(federation.config, federation.store, federation.keys[4].address).read(view)
    assert (mine["spent"].client, mine["refusal"]) == (5, "")
    assert mine["spent"].epsilon < sight["spent"].epsilon
    reader = federation.ledger(federation.keys[0])
    lacking = StatusReader(federation.network, reader, federation.config, DiskStore(tmp_path / "empty")).read()
    assert lacking.spent is None and lacking.to_dict()["privacy"] is None
    assert lacking.faults["privacy"].startswith("unknown, because the store cannot be read: ")


def test_status_says_who_draws_no_more_and_when_training_is_over(run):
    federation = run.federation
    view = federation.coordinator().view
    view.refresh()
    rounds = replace(federation.config.federation, rounds=9)
    tight = replace(federation.config, federation=rounds, privacy=replace(federation.config.privacy, epsilon=5.0))
    for each in view.rounds.rounds.values():  # as if it had been held under the tight terms
        each.opened = replace(each.opened, config_digest=cid_of(tight.to_bytes()).digest)
    sight = PrivacyReader(tight, federation.store, federation.keys[0].address).read(view)
    assert "round 3 would make it" in sight["refusal"] and "members can afford" in sight["exhausted"]


def test_a_demos_noise_lets_every_client_take_part_in_all_rounds():
    config = terms_on(scenario(clients=4, rounds=3, drop=0.25, epsilon=8.0), load_dataset("digits"), b"")
    settings = config.privacy
    assert config.masking.masked == "delta" and (settings.epsilon, settings.dropouts) == (8.0, 0.25)
    spent = epsilon_of([GaussianRelease(settings.noise_multipliers[0], count=3)], settings.delta)
    assert 7.9 < spent <= 8
    assert terms_on(scenario(), load_dataset("digits"), b"").privacy is None


def test_a_testnets_files_carry_the_terms(tmp_path):
    config = terms_on(scenario(clients=3, rounds=2, epsilon=4.0), load_dataset("digits"), bytes(32))
    assert config.privacy.epsilon == 4.0
    _write_config(tmp_path / "federation.toml", config, NetworkSettings())
    assert load_config(tmp_path / "federation.toml")[0] == config


HOSTILE = {
    "no table": lambda table: [],
    "another mechanism": lambda table: table | {"mechanism": "magic"},
    "no mechanism": lambda table: {key: value for key, value in table.items() if key != "mechanism"},
    "a list as mechanism": lambda table: table | {"mechanism": []},
    "a missing key": lambda table: {key: value for key, value in table.items() if key != "clip"},
    "one key more": lambda table: table | {"extra": 1},
    "a text as number": lambda table: table | {"clip": "0.5"},
    "a float as count": lambda table: table | {"sharers": 5.0},
    "a truth as count": lambda table: table | {"sharers": True},
    "infinite": lambda table: table | {"epsilon": float("inf")},
    "a table inside": lambda table: table | {"below": {}},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_records_that_are_none_are_refused(run, kind):
    honest = run.metrics()[0]
    assert Metrics.from_bytes(canonical_json(honest.to_table())) == honest
    lie = honest.to_table() | {"privacy": HOSTILE[kind](honest.privacy.to_table())}
    with pytest.raises(InvalidContent, match="JSON form"):
        Metrics.from_bytes(canonical_json(lie))


def test_metrics_round_trip_with_and_without_a_record(run):
    stated = run.metrics()[0]
    assert Metrics.from_bytes(stated.to_bytes()) == stated
    plain = stated.replace(privacy=None)
    assert Metrics.from_bytes(plain.to_bytes()) == plain and b"privacy" not in plain.to_bytes()
    with pytest.raises(InvalidContent):
        Metrics.from_bytes(plain.to_bytes()[:-1] + b',"privacy":null}')


def test_two_records_differ_where_their_first_field_does(run):
    first, second = (metrics.privacy for metrics in run.metrics())
    assert difference(first, first) == difference(None, None) == ""
    assert "mechanism is stated as none but is client" in difference(None, first)
    assert "is stated as" in difference(second, first)
    assert "privacy.epsilon" in difference(first.replace(epsilon=None), first)
