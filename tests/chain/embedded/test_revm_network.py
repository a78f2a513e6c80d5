"""The chain that most tests run on is the embedded one: the same transactions leave the same blocks, byte by byte."""

import pytest

pytest.importorskip("pyrevm")

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError, ContractRevert, InsufficientFunds, NonceConflict, TransactionRefused
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.network.blocks import MIX_FIELD, header_fields
from fedgrove.chain.network.history import capture
from fedgrove.chain.network.transactions import Content, Offer, signed
from fedgrove.node.learning.settings import TrainingSettings
from tests.embedded_evm import py_evm
from tests.node.federation import Federation
from tests.revm_network import RevmNetwork

STATE_ROOT = 3  # among a header's fields
QUICK = TrainingSettings(epochs=1, batch_size=20, learning_rate=0.05)


class Follower(RevmNetwork):
    """Has the embedded chain make each block first, and makes the same: only the root of the state may differ."""

    def __init__(self):
        self.leader = py_evm()
        super().__init__()

    def send(self, raw):
        sent = self.leader.send(raw)
        assert super().send(raw) == sent
        assert self.mined(sent) == self.leader.mined(sent)
        assert self.paid([sent]) == self.leader.paid([sent])
        return sent

    def mine(self, blocks=1):
        for _ in range(blocks):
            self.leader.mine()
            super().mine()

    def _moment(self):
        number = len(self._blocks)
        mix = header_fields(number, self.leader.headers(number, number)[0])[MIX_FIELD]
        return self.leader.block_time(number), mix

    def _header(self, block):
        leaders = self.leader.headers(block.number, block.number)[0]
        fields = [header_fields(block.number, each) for each in (super()._header(block), leaders)]
        assert self.leader.bodies([block.number])[0].receipts == ((block.receipt,) if block.receipt else ())
        assert [at for at, (own, other) in enumerate(zip(*fields, strict=True)) if own != other] == [STATE_ROOT]
        return leaders


def test_a_federation_leaves_the_same_blocks(tmp_path):
    network = Follower()
    federation = Federation.found(network, tmp_path, clients=4, rounds=2, training=QUICK)
    federation.register()
    coordinator, clients = federation.coordinator(), federation.clients()
    while federation.turn(coordinator, clients):
        if coordinator.round == 2 and federation.said("client 4")[-1:] == ["shared"]:
            clients.pop(4, None)
    assert federation.audit().verdict == "verified"
    assert capture(network.leader, federation.deployment).records() == federation.records()
    for account in (federation.coordinator_keys, *federation.keys):
        assert network.balance(account.address) == network.leader.balance(account.address)
        assert network.nonce(account.address) == network.leader.nonce(account.address)
    addresses = (federation.deployment.ledger, federation.deployment.registry)
    for address in addresses:
        assert network.code(address) == network.leader.code(address) != b""
    last = network.block_number()
    assert network.logs(0, last, addresses) == network.leader.logs(0, last, addresses) != []


def test_a_call_is_answered_upon_the_block_that_it_names(tmp_path):
    network = Follower()
    federation = Federation.found(network, tmp_path, clients=3, rounds=1, training=QUICK)
    founded = network.block_number()
    federation.register()
    federation.run()
    blocks = range(founded, network.block_number() + 1)
    ledger = Contract(network, "TrainingLedger", federation.deployment.ledger)
    for function, *arguments in (("currentRound",), ("currentModel",), ("round", 1)):
        data = ledger.data(function, *arguments)
        answers = [_answer(network, ledger.address, data, block) for block in blocks]
        assert answers == [_answer(network.leader, ledger.address, data, block) for block in blocks]
        assert len(set(answers)) > 1


def _answer(network, to, data, block):
    try:
        return network.call(to, data, block=block)
    except ContractRevert as refusal:
        return str(refusal)


def test_what_a_contract_refuses_is_charged_the_same_and_for_the_same_reason(tmp_path):
    network = Follower()
    federation = Federation.found(network, tmp_path, clients=3, rounds=1, training=QUICK)
    outsider = Keys.generate()
    network.fund(outsider.address, 1)
    member, stranger = map(federation.ledger, (federation.keys[0], outsider))
    for act in (lambda: member.open(bytes(32)), lambda: stranger.open(bytes(32)), lambda: member.fix_seed(7)):
        with pytest.raises(ContractRevert) as here:
            act()
        assert here.value.name


def test_what_a_chain_does_not_take_is_refused_by_the_same_errors():
    rich, poor = Keys.generate().account, Keys.generate().account
    for network in (RevmNetwork(), py_evm()):
        network.fund(rich.address, 1)
        for account, chain_id, nonce, fee, gas, value, error in (
            (rich, 0, 1, 100, 21_000, 0, NonceConflict),
            (poor, 0, 0, 100, 21_000, 0, InsufficientFunds),
            (rich, 0, 0, 100, 21_000, 10**18, InsufficientFunds),
            (rich, 0, 0, 100, 20_999, 0, TransactionRefused),
            (rich, 0, 0, 100, 40_000_000, 0, TransactionRefused),
            (rich, 0, 0, 6, 21_000, 0, TransactionRefused),
        ):
            content = Content(poor.address, b"", gas, value)
            with pytest.raises(error):
                network.send(signed(account, network.chain_id + chain_id, nonce, Offer(fee, 0), content))
        assert network.balance(rich.address) == 10**18
        with pytest.raises(ChainError):
            network.block_hash(network.block_number() + 1)
