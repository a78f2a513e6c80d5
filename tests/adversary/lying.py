"""What lying endpoints share: a federation that goes on around a victim, and how its hidden update is read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from eth_abi import encode as abi_encode
from eth_account import Account as EthAccount

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import (
    Committed,
    DrawEnded,
    Drawn,
    Position,
    Record,
    Released,
    RoundOpened,
    Sealed,
    Shared,
    events,
)
from fedgrove.chain.records.deployment import Deployment
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.base.tensors import flatten
from fedgrove.node.masking.keys import RoundSecrets, pair_mask_key, self_mask_key
from fedgrove.node.masking.prg import Mask, apply_masks
from fedgrove.node.masking.ring import WORD
from fedgrove.node.masking.sealing import Kind, open_shares, parse_shares
from fedgrove.node.masking.shamir import combine
from fedgrove.node.methods.training.codec import weight_of
from fedgrove.node.protocol.content import Update
from fedgrove.node.protocol.rounds import RoundRecords
from fedgrove.node.protocol.step import Step
from fedgrove.node.roles.client import Client
from tests.adversary.forged_chain import ForgedChain
from tests.node.federation import Federation


class Watched(Client):
    """A client, and what it was going to hide."""

    hidden: Update | None = None

    def __init__(self, *parts: object, **options: object) -> None:
        super().__init__(*parts, **options)
        mask = self.context.disclosure.masked

        def masked(current: RoundRecords, client: int, update: Update) -> bytes:
            self.hidden = update
            return mask(current, client, update)

        self.context.disclosure.masked = masked

    def words(self, current: RoundRecords) -> np.ndarray:
        """The hidden update as the ring's words, before any mask."""
        inputs, client = self.context.inputs(current), self.view.rounds.member(self.account).client
        weight = weight_of(inputs, [current.order.index(client)])
        mechanism = self.context.method.codec.mechanism(inputs.layout)
        return mechanism.encode(flatten(self.hidden.tensors), lambda: inputs.previous, weight, os.urandom)


def read_update(federation: Federation, victim: Watched, stolen: Mapping[int, RoundSecrets]) -> np.ndarray:
    """The victim's words, by the secrets behind the keys that it took for those of all others; nothing of its own."""
    current = victim.view.rounds.latest
    inputs, client = victim.context.inputs(current), victim.view.rounds.member(victim.account).client
    graph, owner = inputs.graph, current.order.index(client)
    sealed = parse_shares(federation.store.fetch(current.shares[client].digest, 1 << 20), graph, owner)
    opened = {
        number: open_shares(graph, owner, holder, stolen[graph.client(holder)], sealed)[Kind.SEED].share
        for number, holder in enumerate(graph.holders[owner])
    }
    seed = combine(dict(list(opened.items())[: graph.threshold])).to_bytes(32)
    everything = ((0, inputs.layout.length),)
    masks = [Mask(self_mask_key(graph.context, seed, client), True, everything)]
    for partner in graph.neighbours[owner]:
        other = graph.client(partner)
        if other in current.shares:
            key = graph.participants[owner].mask_key
            mask = pair_mask_key(graph.context, stolen[other].mask_secret, key, client, other)
            masks.append(Mask(mask, partner > owner, everything))
    words = np.frombuffer(federation.store.fetch(current.commits[client].digest, 1 << 24), WORD).copy()
    apply_masks(words, masks)
    return words


class MadeUp(ForgedChain):
    """Shows a chain that follows the true one, with the changes that ``lie`` makes; the order fits its own blocks.

    Anybody may seal an order: the endpoint signs the seal with an account of its own.
    """

    def __init__(self, truth: Network, deployment: Deployment) -> None:
        super().__init__(truth)
        self.deployment = deployment
        self.account, self.seals = Keys.generate().account, 0

    def agreed_head(self) -> tuple[int, bytes]:
        first = self.block_number() + 1
        self.follow()
        for record in self.seen(first):
            self.lie(record)
        for record in self.seen(first):
            if isinstance(record, Sealed):
                self.reorder(record)
        return super().agreed_head()

    def lie(self, record: Record) -> None:
        """Change what the record's block holds, or leave it."""

    def seen(self, first: int = 0) -> list[Record]:
        """Records as shown, from a block on."""
        addresses = (self.deployment.registry, self.deployment.ledger)
        return [
            events.decode(log) for log in self.logs(max(first, self.deployment.block), self.block_number(), addresses)
        ]

    def reorder(self, sealed: Sealed) -> None:
        """Seal the order that the shown draws have by the shown block."""
        seed, tickets = self.shown_order(sealed)
        packed = b"".join(ticket.to_bytes(16, "big") for ticket in tickets)
        permutation = b"".join(index.to_bytes(2, "big") for index in tree.permutation(tickets, seed))
        contract = Contract(self, "TrainingLedger", self.deployment.ledger)
        self.seal(sealed.at, contract.data("seal", sealed.round, packed, permutation, b""))
        (own,) = [record for record in self.seen(sealed.at.block) if isinstance(record, Sealed)]
        self.alter(own.at, sealed_data(seed, tickets))

    def shown_order(self, sealed: Sealed) -> tuple[bytes, list[int]]:
        """The seed of the order, and the tickets as drawn."""
        shown = [
            record
            for record in self.seen()
            if isinstance(record, RoundOpened | Drawn | DrawEnded) and record.round == sealed.round
        ]
        opened, *draws = (record for record in shown if not isinstance(record, DrawEnded))
        ends = Ends(draw=next((record.at.block for record in shown if isinstance(record, DrawEnded)), 0))
        block = Deadlines.of(opened.opened_at, self.deployment.settings, ends).order_block
        seed = tree.order_seed(self.chain_id, self.deployment.ledger, sealed.round, self.block_hash(block))
        return seed, [tree.ticket(vrf.proof_to_hash(draw.proof), draw.client) for draw in draws]

    def seal(self, at: Position, data: bytes) -> None:
        """Put a transaction of its own in the place of the true seal; the receipt stays."""
        fees = {"gas": 3_000_000, "maxFeePerGas": 3 * 10**9, "maxPriorityFeePerGas": 0}
        call = {"to": self.deployment.ledger, "value": 0, "data": data, "chainId": self.chain_id, "nonce": self.seals}
        signed = EthAccount.from_key(self.account.key).sign_transaction(fees | call)
        self.replace(at.transaction, bytes(signed.raw_transaction))
        self.seals += 1


def sealed_data(seed: bytes, tickets: list[int]) -> bytes:
    """Data of the log of a seal."""
    root = tree.order_root(tree.order(tickets, seed))
    return abi_encode(["uint32", "bytes32", "bytes32"], (len(tickets), seed, root))


class SwappedKeys(MadeUp):
    """Has keys of its own in all draws but the victim's; ``stolen`` holds their secrets, by client."""

    def __init__(self, truth: Network, deployment: Deployment, victim: int) -> None:
        super().__init__(truth, deployment)
        self.victim, self.stolen = victim, {}

    def lie(self, record: Record) -> None:
        if isinstance(record, Drawn) and record.client != self.victim:
            secrets = self.stolen.setdefault(record.client, RoundSecrets.generate(os.urandom))
            values = (record.samples, secrets.mask_key, secrets.seal_key, record.proof)
            self.alter(record.at, abi_encode(["uint32", "bytes32", "bytes32", "bytes"], values))


class OmittedMembers(MadeUp):
    """Leaves out all that some members do in rounds. The coordinator fixes the seed before they draw.

    That everyone has drawn is left out, too, as it does not follow from the draws that are shown. A colluder draws as
    late as it can, so that the draws end in the same block without that.
    """

    def __init__(self, truth: Network, deployment: Deployment, omitted: set[int]) -> None:
        super().__init__(truth, deployment)
        self.omitted = omitted

    def lie(self, record: Record) -> None:
        if isinstance(record, Drawn | Shared | Committed | Released) and record.client in self.omitted:
            self.drop(record.at.transaction)
        elif isinstance(record, DrawEnded):
            self.omit(record.at)


class Late:
    """A colluder that draws in the last block of the window, and acts after all others."""

    def __init__(self, client: Client, ledger: Ledger, network: Network) -> None:
        self._client, self._ledger, self._network = client, ledger, network

    def step(self) -> Step:
        number = self._ledger.current_round()
        last = self._ledger.round(number).draw_end - 1 if number else 1
        if self._network.block_number() < last:
            return Step.wait("draw", "nobody: it is to be the last", last)
        return self._client.step()


@dataclass
class Story:
    """What a victim did, and what it called a fault of the chain, while the others went on."""

    victim: Watched
    others: dict[int, Client] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def turn(self) -> int:
        """One step; until which block it waits, 0 for no time."""
        try:
            step = self.victim.step()
        except ChainError as fault:
            self.faults.append(str(fault))
            return 0
        self.did += [step.acted or step.waiting]
        return 0 if step.acted else step.until


def victim_of(federation: Federation, network: Network, number: int = 1) -> Watched:
    """A member that reaches the ledger through this network alone."""
    keys = federation.keys[number - 1]
    return federation.client(number, Watched, ledger=Ledger(network, federation.deployment, keys.account))


def live(federation: Federation, victim: Watched, late: int = 0, turns: int = 60) -> Story:
    """Let all act, the first member as the victim and one ``late``, until the victim has acted in round 1's commits."""
    coordinator, clients = federation.coordinator(), federation.clients()
    del clients[1]
    story = Story(victim, clients)
    ledger, network = federation.ledger(federation.coordinator_keys), federation.network
    others = [client for number, client in clients.items() if number != late]
    last = [Late(clients[late], ledger, network)] if late else []
    for _ in range(turns):
        if ledger.current_round() and network.block_number() >= ledger.round(1).commit_end:
            story.turn()  # it may have committed as the last one, and publishes now
            return story
        block = network.block_number()
        waits = [coordinator.step().until, *(client.step().until for client in others), story.turn()]
        waits += [client.step().until for client in last]
        if network.block_number() == block:
            network.advance_to(min((until for until in waits if until > block), default=block + 1))
    raise AssertionError(f"the round does not end: {story.did[-3:]} {story.faults[-3:]}")
