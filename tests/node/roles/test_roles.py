"""The roles on a real chain: restarts, refusals, and a coordinator that lies."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrove.chain.errors import BadHistory
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Committed, Failed, Registered, Released, Resumed, RoundOpened, Shared
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import Unreachable
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.audit.verdict import NONE_CLOSED
from fedgrove.node.base.tensors import flatten, load
from fedgrove.node.devnet.windows import windows
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.sealing import OPENING_BYTES
from fedgrove.node.protocol.journal import Journal, JournalDamaged
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.terms import FederationSettings, MaskingSettings, MembershipSettings
from tests.node.federation import Federation, LyingCoordinator

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture
def network():
    with embedded() as chain:
        yield chain


@pytest.fixture
def federation(network, tmp_path):
    made = Federation.found(network, tmp_path, training=QUICK)
    made.register()
    return made


def closed_models(federation):
    return [record.model_digest for record in federation.of(Closed)]


def test_roles_that_restart_before_every_step_close_the_same_model(federation, tmp_path):
    with embedded() as other:
        undisturbed = Federation.found(other, tmp_path / "undisturbed", training=QUICK)
        undisturbed.register()
        undisturbed.run()
        expected = closed_models(undisturbed)
    coordinator = federation.coordinator()
    for _ in range(1000):
        if not federation.turn(coordinator, federation.clients()):
            break
        coordinator = federation.coordinator()
    assert closed_models(federation) == expected and len(expected) == 1
    assert federation.audit().verdict == "verified"


def test_registering_again_changes_nothing(federation):
    before = len(federation.history().records())
    federation.register()
    assert len(federation.history().records()) == before


def test_the_update_leaves_only_after_its_commitment_and_secrets_go_with_the_round(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    watched = clients[1]
    ledger, seen = federation.ledger(federation.keys[0]), set()
    while federation.turn(coordinator, clients):
        committed = {r.client: r.digest for r in ledger.records() if isinstance(r, Committed)}
        last = federation.said("client 1")[-1:]
        if last == ["committed"]:
            assert not federation.store.has(committed[1])
            seen.add("held back")
        if last == ["published its masked update"]:
            assert federation.store.has(committed[1])
            seen.add("published")
    assert seen == {"held back", "published"}
    watched.step()
    left = {path.name for path in (federation.directory / "client-1").iterdir()}
    assert left == {"keys", "begun.sealed", "weight.sealed", "federation.sealed"}


def test_a_client_refuses_the_journal_of_another_federation(federation, network, tmp_path):
    federation.client(1)
    other = Federation.found(network, tmp_path / "other")
    other.keys[0] = federation.keys[0]
    with pytest.raises(JournalDamaged, match="another federation"):
        replace(other, directory=federation.directory).client(1)


def test_a_client_refuses_other_terms(federation):
    other = replace(federation.config, federation=FederationSettings(rounds=1, seed=99))
    coordinator, clients = federation.coordinator(), {**federation.clients(), 4: federation.client(4, config=other)}
    waits = set()
    while federation.turn(coordinator, clients):
        waits.add(clients[4].step().waiting)
    assert any("did not agree" in wait for wait in waits)
    assert not federation.said("client 4")
    assert federation.audit().verdict == "verified"


def test_a_parameter_over_the_bound_keeps_the_client_out_and_names_the_tensor(network, tmp_path):
    federation = Federation.found(network, tmp_path, training=QUICK, masking=MaskingSettings(bound=0.05))
    federation.register()
    federation.run()
    (reason,) = set(federation.said("client 1")[2:])
    assert "'" in reason and "bound" in reason, reason  # the tensor's name, quoted
    (failed,) = federation.of(Failed)
    current = federation.coordinator().view.refresh()
    assert not current.commits and failed.at.block <= current.deadlines(federation.config.ledger).recover_end
    assert federation.audit().verdict == NONE_CLOSED


def test_diverging_training_keeps_the_client_out(network, tmp_path):
    federation = Federation.found(network, tmp_path, training=replace(QUICK, learning_rate=100.0, epochs=20))
    federation.register()
    federation.run()
    assert "committed" not in federation.said("client 1"), federation.said("client 1")
    assert any("learning rate" in reason or "bound" in reason for reason in federation.said("client 1"))
    assert federation.audit().verdict == "verified"


class ForgetfulLedger:
    """A ledger as a lying endpoint shows it: without one client's commitment."""

    def __init__(self, ledger, client):
        self._ledger, self._client = ledger, client

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    def records(self):
        hidden = lambda record: isinstance(record, Committed) and record.client == self._client  # noqa: E731
        return [record for record in self._ledger.records() if not hidden(record)]


def test_a_holder_releases_nothing_when_the_ledger_hides_its_own_commitment(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "shared" not in federation.said("client 4"):
        federation.turn(coordinator, clients)
    del clients[4]  # so that the commitments last their window
    while "committed" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    clients[2] = federation.client(2, ledger=ForgetfulLedger(federation.ledger(federation.keys[1]), 2))
    waits = set()
    while federation.turn(coordinator, clients):
        waits.add(clients[2].step().waiting)
    assert any("client 2 is wrongly" in wait for wait in waits), waits
    assert "released shares" not in federation.said("client 2")


def test_what_was_released_never_changes(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "published its masked update" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    journal = Journal(federation.directory / "client-3", federation.keys[2].storage)
    journal.write(1, "released", b"written before the crash")
    clients[3] = federation.client(3)
    federation.run(coordinator, clients)
    released = [r for r in federation.history().records() if isinstance(r, Released) and r.client == 3]
    assert [federation.store.fetch(r.digest, 100) for r in released] == [b"written before the crash"]
    verdict = federation.audit()
    assert verdict.verdict == NONE_CLOSED and [remark.field for remark in verdict.remarks] == ["release.content"]


class OneUnitOff(LyingCoordinator):
    """Closes with a model that is wrong by one unit in one parameter."""

    def lie(self, current, model):
        model = {name: tensor.copy() for name, tensor in model.items()}
        first = model[min(model)]
        first.flat[0] = np.nextafter(first.flat[0], np.float32(9))
        return model


class ForeignModel(LyingCoordinator):
    """Closes with the model it likes."""


@pytest.mark.parametrize("villain", [OneUnitOff, ForeignModel])
def test_a_coordinator_that_lies_is_named_by_the_audit(federation, villain):
    """Even when no member looks; what members do that look is in test_judgements.py."""
    clients = federation.clients()
    for client in clients.values():
        client.context.closings.fault = lambda *closing, **options: ""
    federation.run(coordinator=federation.coordinator(villain), clients=clients)
    verdict = federation.audit()
    assert verdict.exit_code == 1
    assert (verdict.first_bad_record.round, verdict.first_bad_record.field) == (1, "closed.model")


def test_a_round_with_an_update_that_nobody_can_fetch_fails_and_the_member_is_named(federation):
    class Secretive(DiskStore):
        """A store that keeps no masked update."""

        def put(self, data):
            length = 4 * 10_000
            return cid_of(data) if len(data) > length else super().put(data)

    clients = {**federation.clients(), 2: federation.client(2, store=Secretive(federation.directory / "store"))}
    coordinator, waits = federation.coordinator(), set()
    while federation.turn(coordinator, clients):
        waits.add(coordinator.step().waiting)
    assert len(federation.of(Failed)) == 1 and not federation.of(Closed)
    assert any("the update of client 2 is not available" in wait for wait in waits), waits
    verdict = federation.audit()
    assert verdict.verdict == NONE_CLOSED
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(2, "commit.content")]


def test_an_update_of_the_wrong_length_fails_the_round_and_is_named(federation):
    clients = federation.clients()
    whole = clients[1].context.disclosure.mask
    clients[1].context.disclosure.mask = lambda *arguments: whole(*arguments)[:-4]
    federation.run(clients=clients)
    assert len(federation.of(Failed)) == 1 and not federation.of(Closed)
    assert [remark.client for remark in federation.audit().remarks] == [1]


def test_a_coordinator_that_never_closes_is_overdue(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "released shares" not in federation.said("client 4"):
        federation.turn(coordinator, clients)
    settings = federation.config.ledger
    federation.network.advance_to(federation.network.block_number() + settings.recover_window + 2)
    federation.run(federation.coordinator(), clients)
    assert len(federation.of(Failed)) == 1 and not federation.of(Closed)
    assert federation.audit().verdict == NONE_CLOSED


def test_delta_masking_closes_nearly_the_same_model_with_a_tighter_bound(federation, tmp_path):
    federation.run()
    masking = MaskingSettings(masked="delta", bound=1.0)
    with embedded() as other:
        delta = Federation.found(other, tmp_path / "delta", training=QUICK, masking=masking)
        delta.register()
        delta.run()
        assert delta.audit().verdict == "verified"
        models = [flatten(load(f.store.fetch(closed_models(f)[0], 1 << 24))) for f in (federation, delta)]
    np.testing.assert_allclose(models[0], models[1], atol=1e-6)


class Flaky(DiskStore):
    """A store that is away while ``away`` is set."""

    away = False

    def fetch(self, digest, max_bytes):
        if self.away:
            raise Unreachable("the store at 127.0.0.1 does not answer")
        return super().fetch(digest, max_bytes)


def test_a_client_waits_for_a_store_that_is_away_and_goes_on(federation):
    store = Flaky(federation.directory / "store")
    coordinator, clients = federation.coordinator(), {**federation.clients(), 2: federation.client(2, store=store)}
    while "shared" not in federation.said("client 2"):
        federation.turn(coordinator, clients)
    store.away = True
    step = clients[2].step()
    assert not step.acted and "does not answer" in step.waiting and step.until > federation.network.block_number()
    store.away = False
    federation.run(coordinator, clients)
    assert "released shares" in federation.said("client 2")
    assert federation.audit().verdict == "verified"


def test_a_view_follows_the_chain_when_it_abandons_blocks(federation):
    coordinator, clients = federation.coordinator(), federation.clients()
    while "drew" not in federation.said("client 4"):
        federation.turn(coordinator, clients)
    del clients[4]  # so that the last record is no end of a phase
    while "shared" not in federation.said("client 3"):
        federation.turn(coordinator, clients)
    seen = federation.ledger(federation.keys[0]).records()

    class Forked:
        """A chain that loses its last three records, then grows another way."""

        shown = seen

        def __getattr__(self, name):
            return getattr(federation.ledger(federation.keys[0]), name)

        def records(self):
            return list(self.shown)

    ledger = Forked()
    view = LedgerView(ledger)
    view.refresh()
    before = set(view.rounds.latest.shares)
    ledger.shown = [*seen[:-3], seen[-1]]
    view.refresh()
    assert set(view.rounds.latest.shares) == {r.client for r in ledger.shown if isinstance(r, Shared)} != before


def test_an_outage_is_no_reason_to_release_nothing(federation):
    """What a holder releases is final, so it waits for the store instead of leaving out what it could not fetch."""
    store = Flaky(federation.directory / "store")
    coordinator, clients = federation.coordinator(), {**federation.clients(), 2: federation.client(2, store=store)}
    while "released shares" not in federation.said("client 1"):
        store.away = "published its masked update" in federation.said("client 2")
        federation.turn(coordinator, clients)
    assert "released shares" not in federation.said("client 2")
    store.away = False
    federation.run(coordinator, clients)
    (mine,) = [r for r in federation.history().records() if isinstance(r, Released) and r.client == 2]
    # A share, with what opens its commitment, of each other survivor; nothing is said to be gone, or wrong.
    assert len(federation.store.fetch(mine.digest, 1 << 20)) == 40 + 3 * 4 + 3 * (4 + 1 + OPENING_BYTES)
    assert federation.audit().verdict == "verified"


def test_a_client_that_is_not_approved_waits_for_the_admin(network, tmp_path):
    federation = Federation.found(
        network, tmp_path, training=QUICK, rounds=2, membership=MembershipSettings(mode="approved")
    )
    admin = federation.ledger(federation.coordinator_keys)
    admin.approve(*(keys.address for keys in federation.keys[:3]))
    coordinator, clients = federation.coordinator(), federation.clients()
    while not federation.of(Closed):
        federation.turn(coordinator, clients)
    step = clients[4].step()
    assert step.phase == "register" and "the admin" in step.waiting, step
    admin.approve(federation.keys[3].address)
    federation.run(coordinator, clients)
    assert "drew" in federation.said("client 3")
    assert {record.client for record in federation.of(Registered)} == {1, 2, 3, 4}


def test_a_client_that_was_absent_too_often_is_waited_for_no_more_and_comes_back_by_itself(network, tmp_path):
    settings = replace(windows(5), absence_limit=1)
    federation = Federation.found(network, tmp_path, 5, training=QUICK, rounds=4, ledger=settings)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    asleep = clients.pop(4)
    while coordinator.round < 2:
        federation.turn(coordinator, clients)
    assert federation.of(RoundOpened)[-1].barred == (asleep.account,)
    federation.run(coordinator, {**clients, 4: asleep})
    (resumed,) = federation.of(Resumed)
    assert resumed.client == asleep.view.rounds.member(asleep.account).client
    assert [record.barred for record in federation.of(RoundOpened)] == [(), (asleep.account,), (), ()]
    assert federation.said("client 4").count("drew") == 2
    assert federation.audit().verdict == "verified"


def test_records_that_no_ledger_makes_are_the_endpoints_fault(federation):
    """A node that leaves out the opening of a round makes no service fail but by an error of the chain."""
    coordinator, clients = federation.coordinator(), federation.clients()
    while "drew" not in federation.said("client 1"):
        federation.turn(coordinator, clients)
    ledger = federation.ledger(federation.keys[0])

    class Forgetful:
        forgotten = True

        def __getattr__(self, name):
            return getattr(ledger, name)

        def records(self):
            records = ledger.records()
            return [each for each in records if not (self.forgotten and isinstance(each, RoundOpened))]

    lying = Forgetful()
    view = LedgerView(lying)
    with pytest.raises(BadHistory):
        view.refresh()
    lying.forgotten = False
    assert view.refresh().draws
