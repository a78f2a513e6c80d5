"""Blobs of dishonest members end in an error that the caller expects, never in another exception."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Failed, Phase, Replaced, Skipped
from fedgrove.common.errors import InvalidContent
from fedgrove.ipfs.cid import CID, RAW
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Unreachable
from fedgrove.ipfs.unixfs import DagBlock, cid_of
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.devnet.terms import terms_on
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of, parse_config
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.summing import Close
from fedgrove.node.scenario.reading import scenario
from tests.node.federation import Federation, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
SMALL = FederationSettings(rounds=1, max_blob_mib=1)


@pytest.fixture
def network():
    with embedded() as chain:
        yield chain


@pytest.fixture
def federation(network, tmp_path):
    made = Federation.found(network, tmp_path, training=QUICK)
    made.register()
    return made


@pytest.mark.parametrize("number", [b"1e999", b"1" + b"0" * 400])
def test_metrics_beyond_all_numbers_are_refused(number):
    metrics = Metrics(7, "0" * 64, (1, "0" * 64), loss=0.5).to_bytes()
    for part in (b'"round":7', b'"loss":0.5'):
        name, _, _ = part.partition(b":")
        assert part in metrics
        with pytest.raises(InvalidContent):
            Metrics.from_bytes(metrics.replace(part, name + b":" + number))


def test_a_configuration_with_a_number_beyond_all_floats_is_refused(federation):
    data = federation.config.to_bytes().replace(b'"bound":8.0', b'"bound":1' + b"0" * 400)
    with pytest.raises(InvalidConfig, match="at most 256 bits"):
        parse_config(data)


def test_a_key_that_no_terminal_can_print_is_escaped():
    with pytest.raises(InvalidConfig) as caught:
        parse_config(b'{"\\ud800\\u001b[2J":1}')
    assert str(caught.value).isprintable()


class NamesJunk(Close):
    """States a recovery record that is none."""

    def _metrics(self, turn, inputs, record, result):
        return super()._metrics(turn, inputs, self.context.store.put(b"junk").digest, result)


def test_a_closing_by_a_junk_recovery_record_is_replaced(federation):
    federation.run(federation.coordinator(with_phase(Coordinator, Phase.RECOVER, NamesJunk)))
    (closed,), (replaced,) = federation.of(Closed), federation.of(Replaced)
    assert replaced.model_digest == closed.model_digest and replaced.metrics_digest != closed.metrics_digest
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict.reason
    assert [(remark.round, remark.field) for remark in verdict.remarks] == [(1, "recovery.content")]


def test_roles_wait_for_a_store_that_is_away(federation, monkeypatch):
    def away(*_):
        raise Unreachable("the store does not answer")

    monkeypatch.setattr(federation.store, "put", away)
    step = federation.coordinator().step()
    assert not step.acted and "does not answer" in step.waiting and step.until


def models(config):
    """Blobs that a coordinator may call the first model, by what is wrong with them."""
    honest = method_of(config).first_model()
    tensors = load(honest)
    name = min(tensors)
    poisoned = {kind: dict(tensors) for kind in ("nan", "infinite", "wide", "renamed")}
    poisoned["nan"][name] = np.full_like(tensors[name], np.nan)
    poisoned["infinite"][name] = np.full_like(tensors[name], np.inf)
    poisoned["wide"][name] = np.zeros((3, 3), np.float32)
    poisoned["renamed"][name + "x"] = poisoned["renamed"].pop(name)
    safetensors = {kind: _unchecked(tensors) for kind, tensors in poisoned.items()}
    return {
        **safetensors,
        "truncated": honest[: len(honest) // 2],
        "no safetensors": b"\x80\x04a pickle, say",
        "empty": b"",
        "an endless header": b"\xff" * 8 + honest[8:],
        "huge": bytes(3 << 20),
    }


def _unchecked(tensors):
    from safetensors.numpy import save

    return save(tensors)


@pytest.mark.parametrize(
    "kind",
    ["nan", "infinite", "wide", "renamed", "truncated", "no safetensors", "empty", "an endless header", "huge"],
)
def test_a_hostile_first_model_is_refused_by_name_and_nobody_draws(network, tmp_path, kind):
    blob = models(terms_on(scenario(clients=4, rounds=1), load_dataset("digits"), b""))[kind]
    federation = Federation.found(network, tmp_path, first_model=blob, training=QUICK, federation=SMALL)
    federation.register()
    ledger = federation.ledger(federation.coordinator_keys)
    villain = Coordinator(ledger, federation.store, federation.config, blob)
    clients = federation.clients()
    federation.run(coordinator=villain, clients=clients)  # until the round waits for its quorum, for days
    assert "drew" not in federation.said("client 1") and not federation.of(Skipped)
    verdict = federation.audit()
    if kind in ("wide", "renamed"):
        # Tensors nobody agreed on: the audit does not know the architecture, and nothing came of them.
        assert verdict.holds
    else:
        assert verdict.first_bad_record.field == "opened.model"


@pytest.mark.parametrize("kind", ["nan", "wide", "truncated", "huge"])
def test_a_hostile_model_that_a_client_does_train_on_is_named(network, tmp_path, kind):
    """As it would be if a round's model were replaced in the terms' name: training refuses it, nothing raises."""
    blob = models(terms_on(scenario(clients=4, rounds=1), load_dataset("digits"), b""))[kind]
    federation = Federation.found(network, tmp_path, first_model=blob, training=QUICK, federation=SMALL)
    federation.register()
    clients = federation.clients()
    for client in clients.values():
        client._first_model = cid_of(blob).digest
    ledger = federation.ledger(federation.coordinator_keys)
    federation.run(coordinator=Coordinator(ledger, federation.store, federation.config, blob), clients=clients)
    assert {"drew", "shared"} <= set(federation.said("client 1"))
    assert "committed" not in federation.said("client 1")


def lying_root(size):
    """A root block whose leaves are not what it says."""
    from fedgrove.ipfs.unixfs import UNIXFS_V1_2025, build, chunks

    leaf = DagBlock(CID.of_block(b"short", RAW), b"short")
    (*_, root) = build(chunks(bytes(size), UNIXFS_V1_2025), UNIXFS_V1_2025)
    honest = CID.of_block(bytes(1 << 20), RAW).digest
    data = bytes(root.data).replace(honest, leaf.cid.digest)
    return leaf, DagBlock(CID.of_block(data, RAW), data)


@pytest.mark.parametrize("kind", ["lies about its leaves", "huge", "not there"])
def test_a_hostile_update_fails_the_round_names_the_client_and_spoils_no_history(network, tmp_path, kind):
    """Client 2 commits to a blob that is no update."""
    federation = Federation.found(network, tmp_path, training=QUICK, federation=SMALL)
    federation.register()
    store = DiskStore(federation.directory / "store")
    leaf, root = lying_root(2 << 20)
    blob = {"lies about its leaves": bytes(root.data), "huge": bytes(3 << 20), "not there": b"never put"}[kind]

    class Deaf(DiskStore):
        def put(self, data):
            return cid_of(data) if data == blob else super().put(data)

    if kind == "lies about its leaves":
        store.add_blocks([leaf, root])
    if kind == "huge":
        store.put(blob)
    clients = {**federation.clients(), 2: federation.client(2, store=Deaf(federation.directory / "store"))}
    clients[2].context.disclosure.mask = lambda *arguments: blob
    federation.run(clients=clients)
    assert federation.of(Failed) and not federation.of(Closed)
    verdict = federation.audit()
    assert verdict.holds
    assert {(remark.client, remark.field) for remark in verdict.remarks} == {(2, "commit.content")}


def test_hostile_shares_and_releases_are_remarked(federation):
    """Of four members all three holders are needed: the round fails, and only the liar is named."""
    clients = federation.clients()
    seal = clients[3].context.disclosure.shares
    clients[3].context.disclosure.shares = lambda current, client: seal(current, client) and b"no shares"
    clients[3].context.disclosure.released = lambda current, client, gone: b"no release"
    federation.run(clients=clients)
    verdict = federation.audit()
    assert verdict.holds and not federation.of(Closed)
    assert {remark.client for remark in verdict.remarks} == {3}
    assert {remark.field for remark in verdict.remarks} <= {"share.content", "release.content"}


def test_tensors_that_are_not_finite_are_never_written():
    with pytest.raises(InvalidContent, match=r"finite|NaN|nan"):
        load(dump({"w": np.array([np.nan], np.float32)}))
