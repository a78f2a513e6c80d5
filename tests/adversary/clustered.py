"""Small federations with clusters for attackers: a real EVM and store, members of few samples, quick training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.crypto.signatures import sign_message
from fedgrove.chain.face.networks import Network
from fedgrove.chain.records import Closed, Phase
from fedgrove.common.wire import canonical_json
from fedgrove.ipfs.unixfs import cid_of
from fedgrove.node.base.tensors import Tensors, flatten, unflatten
from fedgrove.node.learning.datasets import load_dataset
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.recovery import RecoveryRecord
from fedgrove.node.methods.procfl.round_inputs import state_after
from fedgrove.node.methods.procfl.state import ClusterState
from fedgrove.node.methods.procfl.stated import Stated
from fedgrove.node.methods.procfl.terms import ProCflTerms
from fedgrove.node.methods.terms import method_of
from fedgrove.node.methods.training.codec import ModelUpdate
from fedgrove.node.protocol.aggregation import outcome, recovered_without_spoilt, released_shares
from fedgrove.node.protocol.content import Metrics
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from fedgrove.node.protocol.step import Step
from fedgrove.node.protocol.terms import FederationSettings, MaskingSettings, MembershipSettings
from fedgrove.node.roles.client import Client
from fedgrove.node.roles.context import Turn
from fedgrove.node.roles.coordinator import Coordinator
from fedgrove.node.roles.coordinator.context import CoordinatorUnit
from fedgrove.node.roles.coordinator.summing import Close
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=3, batch_size=10, learning_rate=0.1, momentum=0.5)
LABELS = ((0, 1, 2), (3, 4, 5), (6, 7, 8))
"""Main labels of the groups; a quarter of the samples is of any label."""
SAMPLES = 48
APPROVED = MembershipSettings("approved")


def found(network: Network, directory: Path, groups: Sequence[int], rounds: int, **terms: object) -> Federation:
    """A federation with a member for each entry of ``groups``, which says whose labels it has."""
    settings = FederationSettings(rounds=rounds, seed=terms.pop("seed", 5), patience=terms.pop("patience", 0))
    training, evaluation, repeats = terms.pop("training", QUICK), terms.pop("evaluation", None), terms.pop("repeats", 0)
    keys, masking = Keys.generate(), terms.pop("masking", MaskingSettings())
    given = {"alpha": 0.5, "global_share": 0.0, "public_samples": 300, **terms}
    clusters = ProCflTerms(**given, counter=keys.mailbox_public.hex(), signer=keys.address)
    changes = {"federation": settings, "training": training, "method": clusters, "membership": APPROVED}
    changes |= {"evaluation": evaluation, "repeats": repeats, "masking": masking}
    made = Federation.found(network, directory, len(groups), coordinator=keys, **changes)
    made.ledger(keys).approve(*(each.address for each in made.keys))
    made.samples = dealt(groups)
    return made


def dealt(groups: Sequence[int]) -> list[Samples]:
    """Three in four of a member's samples have the labels of its group."""
    data, rng = load_dataset("digits").train(), np.random.default_rng(1)
    free = rng.permutation(len(data.y))
    parts = []
    for group in groups:
        main = [place for place in free if data.y[place] in LABELS[group]][: SAMPLES * 3 // 4]
        rest = [place for place in free if place not in set(main)][: SAMPLES - len(main)]
        free = np.array([place for place in free if place not in {*main, *rest}])
        parts.append(data.take(np.array([*main, *rest])))
    return parts


def coordinator(made: Federation, kind: type[Coordinator] = Coordinator) -> Coordinator:
    """A coordinator that states what it must."""
    tasks = method_of(made.config).aides(made.coordinator_keys, made.test)
    ledger = made.ledger(made.coordinator_keys)
    return kind(ledger, made.store, made.config, method_of(made.config).first_model(), tasks, members=len(made.keys))


# --- attackers --------------------------------------------------------------------------------------------------------


def poison(client: Client, send: Callable[[Tensors, Tensors, int], Tensors]) -> None:
    """Have a member send something else in rounds of training.

    ``send`` makes it of the model that it trained, the one that the round began with, and the round of training.
    """
    training = client.context.work._training
    honest = training.result

    def result(current: RoundRecords, number: int, last: bool = False) -> ModelUpdate | None:
        trained, state = honest(current, number, last), client.context.inputs(current).previous
        if trained is None or state.stage != "train":
            return trained
        return replace(trained, tensors=send(trained.tensors, training._begin(current, number)[0], state.trained + 1))

    training.result = result


def reversed_update(trained: Tensors, start: Tensors, times: float) -> Tensors:
    """The opposite of an update, so many times as long, within the bound."""
    layout = ClusterState.first(start).layout
    wrong = flatten(start) - np.float32(times) * (flatten(trained) - flatten(start))
    return unflatten(np.clip(wrong, -8, 8), layout)


def says_only(label: int, start: Tensors, members: int) -> Tensors:
    """What makes the mean of a group a model that always gives one label: it takes out what the others have learned."""
    sent = {name: tensor.copy() for name, tensor in start.items()}
    bias = next(name for name, tensor in sent.items() if tensor.shape == (10,))
    weight = next(name for name, tensor in sent.items() if tensor.ndim == 2 and len(tensor) == 10)
    sent[weight] = np.clip((1 - members) * start[weight], -8, 8)
    sent[bias] = np.full(10, -8, np.float32)
    sent[bias][label] = 8
    return sent


def state_falsely(made: Federation, role: Coordinator, lie: Callable[[ClusterState, Stated], Stated]) -> None:
    """Have the coordinator state something else of models, with its signature."""
    context = role.context
    honest = context.aides.statements

    def statements(number, state):
        truth = honest(number, state)
        if truth is None or state.stage != "watch":
            return truth
        return signed(made, state, lie(state, Stated.from_table(truth))).to_table()

    aides = replace(context.aides, statements=statements)
    role.units[Phase.RECOVER] = Close(replace(context, aides=aides))


def signed(made: Federation, state: ClusterState, stated: Stated) -> Stated:
    """A statement with the coordinator's signature."""
    message = stated.message(cid_of(state.to_bytes()).digest)
    return stated.replace(signature=sign_message(made.coordinator_keys.account, message).hex())


def nothing_right(stated: Stated, *models: int) -> Stated:
    """A statement by which some models get nothing right."""
    rows = tuple((0,) * len(row) if k in models else row for k, row in enumerate(stated.right))
    return stated.replace(right=rows)


def until_released(made: Federation, role: Coordinator, clients: dict[int, Client], number: int) -> RoundRecords:
    """Let everybody work until the updates of a round can be summed, and the coordinator is yet to close it."""
    honest = role.units[Phase.RECOVER]
    role.units[Phase.RECOVER] = WaitsFrom(number, honest)
    while made.turn(role, clients):
        current = role.view.refresh()
        if current.number == number and current.order and len(current.releases) == len(current.order):
            role.units[Phase.RECOVER] = honest
            return current
    raise AssertionError(f"the shares of round {number} were never released: {made.log[-5:]}")


@dataclass
class WaitsFrom:
    """Closes the rounds before one, and nothing more."""

    number: int
    honest: CoordinatorUnit

    def act(self, turn: Turn) -> Step:
        if turn.current.number < self.number:
            return self.honest.act(turn)
        return Step.wait("recover", "nobody", turn.deadlines.recover_end)


def close_instead(made: Federation, client: Client, model: bytes, metrics: bytes) -> None:
    """Close the latest round in the coordinator's stead, when its grace is over."""
    current = client.view.refresh()
    lot = client.view.law.closing_lot(current, client.account)
    committed = current.deadlines(made.config.ledger).commit_end
    made.network.advance_to(committed + made.config.ledger.coordinator_grace + lot + 1)
    client.context.ledger.close(current.number, made.store.put(model).digest, made.store.put(metrics).digest)


def right_state(client: Client) -> ClusterState:
    """What the latest round, whose shares are released, comes to."""
    return outcome(client.context.method, client.context.inputs(client.view.refresh()), recovered(client)).model


def recovered(client: Client) -> RecoveryRecord:
    """The recovery record of the latest round, whose shares are released."""
    inputs = client.context.inputs(client.view.refresh())
    return recovered_without_spoilt(inputs, released_shares(inputs), (), final=True)


def metrics_with(made: Federation, client: Client, clusters: object) -> bytes:
    """Metrics of the latest round that state something of clusters, as nobody's code writes it."""
    current = client.view.rounds.last
    committed = current.deadlines(made.config.ledger).commit_end
    record = made.store.put(recovered(client).to_bytes()).digest
    right = Metrics(current.number, record.hex(), (committed, made.network.block_hash(committed).hex()))
    return canonical_json(right.to_table() | ({"stated": clusters} if clusters is not None else {}))


# --- what became of it ------------------------------------------------------------------------------------------------


def rounds_of(made: Federation) -> Rounds:
    """The ledger."""
    observer = made.client(1)
    observer.view.refresh()
    return observer.view.rounds


def states(made: Federation) -> list[ClusterState]:
    """Where each closed round that stands left the federation, with what was stated of it."""
    entries = [each for each in rounds_of(made).rounds.values() if each.stands]
    return [state_after(each, made.config, made.store) for each in entries]


def stated(made: Federation) -> list[Metrics]:
    """What was published of them beside."""
    ends = [each.end for each in rounds_of(made).rounds.values() if isinstance(each.end, Closed) and each.stands]
    return [Metrics.from_bytes(made.store.fetch(end.metrics_digest, 1 << 20)) for end in ends]
