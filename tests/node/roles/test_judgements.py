"""A coordinator that lies, clients that say so on the ledger, and what becomes of the round."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Disputed, Drawn, Phase, RoundOpened, Voided
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.aggregation import recovery
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.summing import Close
from tests.node.federation import Federation, LyingCoordinator, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


@pytest.fixture
def federation(tmp_path):
    with embedded() as network:
        made = Federation.found(network, tmp_path, clients=5, rounds=4, training=QUICK)
        made.register()
        yield made


class LiesInRoundTwo(LyingCoordinator):
    """Closes round 2 with a model of its own."""

    def lie(self, current, model):
        return super().lie(current, model) if current.number == 2 else model


class HidesASurvivor(LyingCoordinator):
    """Closes round 2 with the sum of all updates but one, taken as it would be without that client."""

    def lie(self, current, model):
        if current.number != 2:
            return model
        gone = next(iter(current.commits))
        samples = {client: draw.samples for client, draw in current.draws.items()}
        kept = sum(samples[client] for client in current.commits if client != gone)
        return {name: (tensor * np.float32(sum(samples.values()) / kept)) for name, tensor in model.items()}


@pytest.mark.parametrize("villain", [LiesInRoundTwo, HidesASurvivor])
def test_a_lie_is_disputed_voided_and_training_goes_on_from_the_model_before(federation, villain):
    federation.run(coordinator=federation.coordinator(villain))
    closed = {record.round: record.model_digest for record in federation.of(Closed)}
    opened = {record.round: record.model_digest for record in federation.of(RoundOpened)}
    voided = federation.of(Voided)
    assert next(record.round for record in voided) == 2
    assert all(record.model_digest == closed[1] for record in voided)
    assert len(federation.of(Disputed)) == 3  # a majority of five; the rest finds it void
    resumed = min(number for number in opened if number > max(record.round for record in voided))
    assert opened[resumed] == closed[1] and resumed in closed
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert (2, "closed.model") in [(remark.round, remark.field) for remark in verdict.remarks]


def test_nobody_draws_in_a_round_that_trains_from_a_lie(federation):
    federation.run(coordinator=federation.coordinator(LiesInRoundTwo))
    void = {record.round for record in federation.of(Voided)}
    drawn = {record.round for record in federation.of(Drawn)}
    assert void and drawn & void <= {2}


def test_a_minority_refuses_for_good_and_says_so(federation):
    """Only client 1 looks: it disputes, takes no part in what was trained from the lie, also after a restart."""
    careless = {number: federation.client(number, check_rounds=0.0) for number in range(2, 6)}
    for client in careless.values():
        client.context.closings._recompute = lambda current, end: ""  # colludes: it says that all is well
    clients = {1: federation.client(1), **careless}
    coordinator = federation.coordinator(LiesInRoundTwo)
    while federation.turn(coordinator, clients):
        if federation.said("client 1")[-1:] and "disputed" in federation.said("client 1")[-1]:
            clients[1] = federation.client(1)
    assert [record.client for record in federation.of(Disputed)] == [1]
    assert not federation.of(Voided)
    assert {record.round for record in federation.of(Drawn) if record.client == 1} == {1, 2}
    assert "disputes round 2" in clients[1].step().waiting
    verdict = federation.audit()
    assert (verdict.first_bad_record.round, verdict.first_bad_record.field) == (2, "closed.model")


def test_clients_that_check_no_round_look_when_somebody_disputes(federation):
    clients = {number: federation.client(number, check_rounds=0.0) for number in range(2, 6)}
    federation.run(coordinator=federation.coordinator(LiesInRoundTwo), clients={1: federation.client(1), **clients})
    assert next(record.round for record in federation.of(Voided)) == 2


def test_a_false_dispute_changes_nothing_and_is_a_remark(federation):
    clients = federation.clients()
    clients[4].context.closings.fault = lambda current, client: "it is not to my taste" if current.number == 2 else ""
    federation.run(clients=clients)
    assert [record.client for record in federation.of(Disputed)] == [4]
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(4, "dispute")]


def test_a_right_round_that_a_majority_voids_is_a_remark(federation):
    clients = federation.clients()
    for number in (1, 2, 3):
        clients[number].context.closings.fault = lambda current, client: (
            "we do not like it" if current.number == 2 else ""
        )
    federation.run(clients=clients)
    assert federation.of(Voided)
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert (2, "voided") in [(remark.round, remark.field) for remark in verdict.remarks]


def test_a_round_whose_updates_are_gone_is_refused_when_the_next_draw_is_over(federation):
    """A blob that is not there yet is waited for; one that nobody can fetch any more is a reason to dispute."""

    class Forgetting(DiskStore):
        gone: bytes = b""

        def stream(self, digest, max_bytes):
            if digest == self.gone:
                raise NotFound(cid_of(b""), "the store lost it")
            return super().stream(digest, max_bytes)

    store = Forgetting(federation.directory / "store")
    clients = {number: federation.client(number, store=store) for number in range(1, 6)}
    coordinator = federation.coordinator()
    while not federation.of(Closed):
        federation.turn(coordinator, clients)
        latest = coordinator.view.rounds.latest
        if latest is not None and latest.commits:
            store.gone = next(iter(latest.commits.values())).digest
    while federation.turn(coordinator, clients) and not federation.of(Disputed):
        pass
    (first, *_) = federation.of(Disputed)
    second = next(record for record in federation.of(RoundOpened) if record.round == 2)
    settings = federation.config.ledger
    assert first.round == 1 and first.at.block > second.opened_at + settings.seed_delay + settings.draw_window
    assert b"lost it" in federation.store.fetch(first.evidence, 1000)


def test_metrics_that_are_none_are_part_of_the_lie(federation):
    class LiesAboutAccuracy(Close):
        def act(self, turn):
            current, made = turn.current, self.context
            if current.number != 2:
                return super().act(turn)
            inputs = made.inputs(current)
            record = recovery(inputs, made.store.fetch(current.recovered.digest, 1 << 24))
            model = made.store.put(dump(made.outcomes.of(inputs, record).model)).digest
            receipt = made.ledger.close(current.number, model, made.store.put(b"no metrics").digest)
            return Step.act("close", "closed", receipt.gas_used)

    federation.run(coordinator=federation.coordinator(with_phase(Coordinator, Phase.CLOSE, LiesAboutAccuracy)))
    assert next(record.round for record in federation.of(Voided)) == 2
    assert federation.audit().verdict == "verified"


def test_a_round_opened_on_a_lie_that_is_no_model_falls_with_it_and_spoils_no_history(federation):
    """The next round is open before anybody disputes: then both are void, and the audit says so in remarks."""

    class ClosesOnJunk(Close):
        def act(self, turn):
            if turn.current.number != 2:
                return super().act(turn)
            digest = self.context.store.put(b"no model at all").digest
            receipt = self.context.ledger.close(turn.current.number, digest, digest)
            return Step.act("close", "closed", receipt.gas_used)

    coordinator = federation.coordinator(with_phase(Coordinator, Phase.CLOSE, ClosesOnJunk))
    clients = federation.clients()
    while not [record for record in federation.of(Closed) if record.round == 2]:
        if not coordinator.step().acted and not any(client.step().acted for client in clients.values()):
            block = federation.network.block_number()
            federation.network.advance_to(block + 1)
    while len(federation.of(RoundOpened)) < 3:
        coordinator.step()
    federation.run(coordinator, clients)
    assert [record.round for record in federation.of(Voided)] == [2, 3]
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert (3, "opened.model") in [(remark.round, remark.field) for remark in verdict.remarks]


def test_no_round_opens_with_a_first_model_that_is_not_the_terms(federation):
    ledger = federation.ledger(federation.coordinator_keys)
    zeros = {name: np.zeros_like(tensor) for name, tensor in load(method_of(federation.config).first_model()).items()}
    step = Coordinator(ledger, federation.store, federation.config, dump(zeros)).step()
    assert step.phase == "refused" and "must start from the model in force" in step.waiting
    assert not federation.of(RoundOpened)


def test_absences_are_not_counted_in_a_void_round(federation):
    coordinator = federation.coordinator(LiesInRoundTwo)
    federation.run(coordinator=coordinator)
    assert not any(each.absences for each in coordinator.view.rounds.rounds.values() if each.voided)
    assert federation.audit().verdict == "verified"
