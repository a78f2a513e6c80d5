"""A coordinator that lies, clients that say on the ledger what is right, and what becomes of the round."""

import numpy as np
import pytest

from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Closed, Drawn, Judged, Phase, Replaced, RoundOpened, Voided
from fedgrove.ipfs.disk import DiskStore
from fedgrove.ipfs.store import NotFound
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import dump, load
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.methods.terms import method_of
from fedgrove.node.protocol.closing import Result
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import FederationSettings
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.summing import Close
from tests.node.federation import Federation, LyingCoordinator, with_phase

QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)
NOTHING = bytes(32)


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


class ClosesWith(Close):
    """Closes round 2 with other bytes: ``made``, given those of the right model and metrics."""

    made = staticmethod(lambda model, metrics: (model, metrics))

    def _close(self, turn, inputs, record, result):
        number, store = turn.current.number, self.context.store
        if number != 2:
            return super()._close(turn, inputs, record, result)
        metrics, _ = self._metrics(turn, inputs, store.put(record.to_bytes()).digest, result)
        model, metrics = self.made(self.context.method.model_bytes(result.model), metrics.to_bytes())
        receipt = self.context.ledger.close(number, store.put(model).digest, store.put(metrics).digest)
        return Step.act("close", "closed", receipt.gas_used)


def closing_with(make):
    """A kind of coordinator."""
    unit = type("ClosesOtherwise", (ClosesWith,), {"made": staticmethod(make)})
    return with_phase(Coordinator, Phase.RECOVER, unit)


ON_JUNK = closing_with(lambda model, metrics: (b"no model at all", b"no metrics"))
WITHOUT_METRICS = closing_with(lambda model, metrics: (model, b"no metrics"))
VILLAINS = [LiesInRoundTwo, HidesASurvivor, ON_JUNK, WITHOUT_METRICS]


@pytest.mark.parametrize("villain", VILLAINS, ids=["zeros", "a survivor hidden", "junk", "no metrics"])
def test_what_is_right_takes_the_place_of_a_lie_and_training_goes_on_from_it(federation, villain, tmp_path):
    with embedded() as other:
        honest = Federation.found(other, tmp_path / "honest", clients=5, rounds=4, training=QUICK)
        honest.register()
        honest.run()
        right = [record.model_digest for record in honest.of(Closed)]
    federation.run(federation.coordinator(villain), standbys=[federation.standby(1)])
    (replaced,) = federation.of(Replaced)
    assert replaced.round == 2 and not federation.of(Voided)
    closed = {record.round: record for record in federation.of(Closed)}
    assert [closed[1].model_digest, replaced.model_digest, *(closed[n].model_digest for n in (3, 4))] == right
    said = [record for record in federation.of(Judged) if record.round == 2]
    assert len(said) == 3 and {record.model_digest for record in said} == {right[1]}  # a majority of five
    assert {closed[n].at.author for n in (3, 4)} == {federation.keys[0].address}
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    assert 2 in [remark.round for remark in verdict.remarks if remark.field.startswith("closed.")]


def opened_on_a_lie(federation, villain):
    """The villain closes round 2, and opens the next before anybody judges; its coordinator, and the clients."""
    coordinator, clients = federation.coordinator(villain), federation.clients()
    while not [record for record in federation.of(Closed) if record.round == 2]:
        if not coordinator.step().acted and not any(client.step().acted for client in clients.values()):
            federation.network.advance_to(federation.network.block_number() + 1)
    while len(federation.of(RoundOpened)) < 3:
        coordinator.step()
    return coordinator, clients


@pytest.mark.parametrize("villain", [LiesInRoundTwo, ON_JUNK], ids=["zeros", "junk"])
def test_a_round_that_was_opened_on_a_lie_ends_with_it_and_nobody_draws_in_it(federation, villain):
    coordinator, clients = opened_on_a_lie(federation, villain)
    federation.run(coordinator, clients, [federation.standby(1)])
    assert [record.round for record in federation.of(Replaced)] == [2]
    assert [record.round for record in federation.of(Voided)] == [3]
    assert 3 not in {record.round for record in federation.of(Drawn)}
    assert len(coordinator.view.rounds.ended()) == 5 and coordinator.view.rounds.closed == 4
    verdict = federation.audit()
    assert verdict.verdict == "verified", verdict
    remarks = [(remark.round, remark.field) for remark in verdict.remarks]
    assert ((3, "opened.model") in remarks) is (villain is ON_JUNK)


def test_whose_closing_was_replaced_opens_and_closes_nothing_any_more(federation):
    coordinator = federation.coordinator(LiesInRoundTwo)
    federation.run(coordinator)
    assert [record.round for record in federation.of(Replaced)] == [2]
    assert coordinator.step().phase == "struck" and len(federation.of(RoundOpened)) == 2


def test_a_minority_refuses_for_good_and_says_so(federation):
    """Only client 1 looks: it judges, takes no part in what was trained from the lie, also after a restart."""
    careless = {number: federation.client(number, check_rounds=0.0) for number in range(2, 6)}
    for client in careless.values():
        client.context.closings._recompute = lambda current, end: ""  # colludes: it says that all is well
    clients = {1: federation.client(1), **careless}
    coordinator = federation.coordinator(LiesInRoundTwo)
    while federation.turn(coordinator, clients):
        if federation.said("client 1")[-1:] and "judged" in federation.said("client 1")[-1]:
            clients[1] = federation.client(1)
    assert [record.client for record in federation.of(Judged) if record.round == 2] == [1]
    assert not federation.of(Replaced) and not federation.of(Voided)
    assert {record.round for record in federation.of(Drawn) if record.client == 1} == {1, 2}
    assert "this client judges that round 2 has another result" in clients[1].step().waiting
    verdict = federation.audit()
    assert (verdict.first_bad_record.round, verdict.first_bad_record.field) == (2, "closed.model")


def test_clients_that_check_no_round_look_when_somebody_judges_it_wrong(tmp_path):
    """One checker of five members looks by lot, and two where one judges the closing wrong."""
    with embedded() as network:
        terms = FederationSettings(rounds=4, checkers=1.0)
        federation = Federation.found(network, tmp_path, clients=5, rounds=4, training=QUICK, federation=terms)
        federation.register()
        clients = {number: federation.client(number, check_rounds=0.0) for number in range(2, 6)}
        for client in clients.values():
            client.context.closings.lot = lambda end: 0.3
        clients = {1: federation.client(1, check_rounds=1.0), **clients}
        federation.run(federation.coordinator(LiesInRoundTwo), clients)
        assert [record.round for record in federation.of(Replaced)] == [2]


def dissatisfied(client, right=None):
    """Makes a client judge round 2 wrong, and ``right`` its right result, None for nothing."""
    closings = client.context.closings
    honestly = closings.fault

    def fault(current, *rest, **more):
        return "it is not to my taste" if current.number == 2 else honestly(current, *rest, **more)

    closings.fault, closings.right_result = fault, lambda current: right


def test_a_false_judgement_changes_nothing_and_is_a_remark(federation):
    clients = federation.clients()
    dissatisfied(clients[4], Result(b"model", b"metrics", b"record"))
    federation.run(clients=clients)
    assert [record.client for record in federation.of(Judged) if record.round == 2] == [4]
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert [(remark.client, remark.field) for remark in verdict.remarks] == [(4, "judgement")]


def test_a_right_round_that_a_majority_voids_is_a_remark(federation):
    clients = federation.clients()
    for number in (1, 2, 3):
        dissatisfied(clients[number])
    federation.run(clients=clients, standbys=[federation.standby(5)])
    assert next(record.round for record in federation.of(Voided)) == 2
    verdict = federation.audit()
    assert verdict.verdict == "verified"
    assert (2, "voided") in [(remark.round, remark.field) for remark in verdict.remarks]


def test_a_round_whose_updates_are_gone_is_judged_when_the_next_window_for_draws_is_over(federation):
    """A blob that is not there yet is waited for; one that nobody can fetch any more is a reason to judge."""

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
    while federation.turn(coordinator, clients) and not federation.of(Judged):
        pass
    (first, *_) = federation.of(Judged)
    second = next(record for record in federation.of(RoundOpened) if record.round == 2)
    settings = federation.config.ledger
    end = second.opened_at + settings.seed_delay + settings.draw_window
    assert first.round == 1 and end < first.at.block <= end + settings.recover_window
    assert first.model_digest == NOTHING
    assert any("lost it" in said for number in clients for said in federation.said(f"client {number}"))


def test_no_round_opens_with_a_first_model_that_is_not_the_terms(federation):
    ledger = federation.ledger(federation.coordinator_keys)
    zeros = {name: np.zeros_like(tensor) for name, tensor in load(method_of(federation.config).first_model()).items()}
    step = Coordinator(ledger, federation.store, federation.config, dump(zeros)).step()
    assert step.phase == "refused" and "must start from the model in force" in step.waiting
    assert not federation.of(RoundOpened)
