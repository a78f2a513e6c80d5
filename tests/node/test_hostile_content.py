"""Blobs of dishonest members end in an error that the caller expects, never in another exception."""

import pytest

from chain.networks import embedded
from chain.records import Failed, FailureReason, Recovered
from ipfs.store import Unreachable
from node.config import FederationConfig, InvalidConfig
from node.content import InvalidBlob, Metrics
from node.coordinator import Coordinator
from node.learning.settings import TrainingSettings
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, training=QUICK)
        made.register()
        yield made


@pytest.mark.parametrize("number", [b"1e999", b"1" + b"0" * 400])
def test_metrics_beyond_all_numbers_are_refused(number):
    with pytest.raises(InvalidBlob):
        Metrics.from_bytes(b'{"accuracy":' + number + b',"loss":0.5,"round":' + number + b',"samples":1}')


def test_a_configuration_with_a_number_beyond_all_floats_is_refused(federation):
    data = federation.config.to_bytes().replace(b'"bound":8.0', b'"bound":1' + b"0" * 400)
    with pytest.raises(InvalidConfig, match="finite"):
        FederationConfig.from_bytes(data)


def test_a_key_that_no_terminal_can_print_is_escaped():
    with pytest.raises(InvalidConfig) as caught:
        FederationConfig.from_bytes(b'{"\\ud800\\u001b[2J":1}')
    assert str(caught.value).isprintable()


class JunkRecovery(Coordinator):
    """Records a recovery whose blob is no recovery record."""

    def _recover(self, entry, graph, survivors, deadlines):
        self._ledger.recover(entry.number, self._store.put(b"junk").digest)
        return super()._recover(entry, graph, survivors, deadlines)


def test_a_junk_recovery_of_somebody_else_fails_the_round(federation):
    federation.run(federation.coordinator(JunkRecovery))
    records = federation.history().records()
    assert any(isinstance(record, Recovered) for record in records)
    assert [r.reason for r in records if isinstance(r, Failed)] == [FailureReason.INVALID_RELEASE]
    verdict = federation.audit()
    assert verdict.verdict == "verified"  # no model came of it
    assert [remark.field for remark in verdict.remarks] == ["recovery.content"]


def test_roles_wait_for_a_store_that_is_away(federation, monkeypatch):
    def away(*_):
        raise Unreachable("the store does not answer")

    monkeypatch.setattr(federation.store, "put", away)
    step = federation.coordinator().step()
    assert not step.acted and "does not answer" in step.waiting and step.until
