"""One account that ends rounds, or keeps members out, by its word alone.

The coordinator wants rounds to fail after its members released their shares, so that the same updates are summed again
with others; a member wants nobody to read the ledger any more; a stranger wants to be counted. What stops them: only
the clock, a count that the contract has, or more than half of those who committed end a round without a model; an
opening lists only who may not draw, at every rate; who is not approved cannot register.
"""

import importlib
import shutil
import sys
from dataclasses import replace

import pytest

from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import BadHistory, ContractRevert
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import embedded
from fedgrove.chain.records import Phase, abi
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.chain.face.test_ledger_endings import committed
from tests.chain.federations import SETTINGS, TERMS, found
from tests.test_docs import ROOT

ZERO = bytes(32)


@pytest.fixture
def federation():
    with embedded() as network:
        yield found(network)


def refuses(name, call, *arguments) -> None:
    with pytest.raises(ContractRevert) as refusal:
        call(*arguments)
    assert refusal.value.name == name


def test_coordinator_fails_no_round_after_its_releases(federation):
    ledger, number = federation.coordinator, committed(federation, 4)
    refuses("WrongPhase", ledger.fail, number)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    for end in (ledger.fail, ledger.skip, federation.clients[0].fail):
        with pytest.raises(ContractRevert):
            end(number)
    assert ledger.round(number).phase is Phase.RECOVER


def test_coordinator_fails_no_round_by_a_judgement_of_its_own(federation):
    number = committed(federation, 4)
    refuses("NotCommitted", federation.coordinator.judge, number, Phase.RECOVER, ZERO, ZERO)


def test_coordinator_closes_nothing_that_nobody_could_recompute(federation):
    """With fewer shares than open the sum, no right result would ever be known."""
    number = committed(federation, 4)
    federation.clients[0].release(number, b"r" * 32)
    refuses("ReleasesMissing", federation.coordinator.close, number, b"\x08" * 32, b"M" * 32)


def test_grace_lets_no_member_fail_a_round_whose_update_it_withholds(federation):
    number = committed(federation, 4)
    federation.network.mine(3)  # more than the coordinator's grace
    refuses("WrongPhase", federation.clients[0].fail, number)


def test_junk_judgement_of_less_than_half_changes_nothing(federation):
    number = committed(federation, 4)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    federation.coordinator.close(number, b"\x08" * 32, b"M" * 32)
    for client, model in zip(federation.clients[:2], (b"\x01" * 32, b"\x02" * 32), strict=True):
        client.judge(number, Phase.CLOSED, model, b"M" * 32)
    federation.clients[2].judge(number, Phase.CLOSED, ZERO, ZERO)
    assert federation.coordinator.current_model() == b"\x08" * 32
    assert not federation.coordinator.is_struck(federation.founder.address)
    LedgerView(federation.coordinator).refresh()


@pytest.mark.parametrize("rate", [300_000, 1_000_000])
def test_barred_lists_only_who_may_not_draw(rate):
    """With the rate below one such a list went unseen by the contract, and no reader could go on after it."""
    with embedded() as network:
        federation = found(network, terms=replace(TERMS, rates=((1, rate),)))
        ledger, member = federation.coordinator, federation.keys[0].address
        refuses("NotBarred", ledger.open, ledger.current_model(), [member])
        federation.clients[0].withdraw(0, ZERO)
        ledger.open(ledger.current_model(), [member])
        assert LedgerView(ledger).refresh().opened.barred == (member,)


def test_strangers_do_not_register_where_the_members_are_named():
    with embedded() as network:
        federation = found(network, clients=0, membership="approved")
        stranger = Keys.generate()
        network.fund(stranger.address, 1)
        before = federation.coordinator.records()
        refuses("NotApproved", Ledger(network, federation.deployment, stranger.account).register, stranger)
        assert federation.coordinator.records() == before


def hung(network, windows: int = 60) -> Phase:
    """The phase of a round in which a member that the quorum needs hangs for so many windows, before it draws."""
    federation = found(network, settings=replace(SETTINGS, quorum=3))
    number = federation.open()
    federation.to_draw(number)
    for member in (0, 1):
        federation.draw(number, member)
    federation.network.mine(windows * SETTINGS.draw_window)
    phase = federation.coordinator.round(number).phase
    if phase is Phase.DRAW:
        federation.draw(number, 2)
    return phase


def test_hung_member_uses_no_repeat():
    with embedded() as network:
        assert hung(network) is Phase.DRAW


# --- the same with contracts whose guards are gone --------------------------------------------------------------------

GUARDS = {
    "contracts/TrainingLedger.sol": {
        "        if (state.released() < releases) revert ReleasesMissing(round, state.released(), releases);\n": "",
        "            revert WrongPhase(round, current, Phase.Overdue);\n": "",
    },
    "contracts/ledger/JudgePhase.sol": {
        "        if (count < judges || 2 * count <= state.committed()) return;\n": "",
        "        if (!client.isAt(round, COMMITTED, COMMITTED)) revert NotCommitted(round, msg.sender);\n": "",
    },
    "contracts/ledger/DrawPhase.sol": {
        "            if (!_isIdle(member, client.state, since)) revert NotBarred(round, before);\n": "",
    },
    "contracts/ledger/RoundClock.sol": {
        "return waits ? LONGEST_DRAW : _drawWindowEnd();": "return _drawWindowEnd();",
        "bool waits = state.status() == Status.Open && state.samplingRate() == EVERYONE && state.drawn() < quorum;": "",
        "import {COMMIT_END, LONGEST_DRAW, RoundState,": "import {COMMIT_END, RoundState,",
    },
    "contracts/ClientRegistry.sol": {
        "        if (membership != Membership.Open && !record.approved()) revert NotApproved(msg.sender);\n": "",
    },
}
"""By file: what goes, and what comes in its place. Each attack meets one of them."""


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    """The contracts without their guards."""
    copy = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "contracts", copy / "contracts")
    (copy / "node_modules").symlink_to(ROOT / "node_modules")
    for path, changes in GUARDS.items():
        source = (copy / path).read_text()
        for guard, instead in changes.items():
            assert source.count(guard) == 1, guard
            source = source.replace(guard, instead)
        (copy / path).write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        compiler = importlib.import_module("compile")
        patch.setattr(compiler, "ROOT", copy)
        found = compiler.compile_contracts()
        sys.modules.pop("compile")
        patch.setattr(abi, "artifact", found.__getitem__)
        yield


def coordinator_fails(network) -> bool:
    federation = found(network)
    number = committed(federation, 4)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    federation.coordinator.fail(number)
    return federation.coordinator.round(number).phase is Phase.FAILED


def coordinator_fails_by_judging(network) -> bool:
    federation = found(network)
    number = committed(federation, 4)
    federation.coordinator.judge(number, Phase.RECOVER, ZERO, ZERO)
    return federation.coordinator.round(number).phase is Phase.FAILED


def coordinator_closes_first(network) -> bool:
    federation = found(network)
    federation.coordinator.close(committed(federation, 4), b"\x08" * 32, b"M" * 32)
    return federation.coordinator.current_model() == b"\x08" * 32


def withheld_after_the_grace(network) -> bool:
    federation = found(network)
    number = committed(federation, 4)
    network.mine(3)
    federation.clients[0].fail(number)
    return federation.coordinator.round(number).phase is Phase.FAILED


def junk_judgement(network) -> bool:
    federation = found(network)
    number = committed(federation, 4)
    for client in federation.clients:
        client.release(number, b"r" * 32)
    federation.coordinator.close(number, b"\x08" * 32, b"M" * 32)
    federation.clients[0].judge(number, Phase.CLOSED, b"\x01" * 32, b"M" * 32)
    return federation.coordinator.current_model() != b"\x08" * 32


def barred_at_will(network) -> bool:
    """Nobody reads the ledger after it."""
    federation = found(network)
    federation.coordinator.open(federation.coordinator.current_model(), [federation.keys[0].address])
    with pytest.raises(BadHistory, match="lists accounts that may draw"):
        LedgerView(federation.coordinator).refresh()
    return True


def strangers_register(network) -> bool:
    federation = found(network, clients=0, membership="approved")
    stranger = Keys.generate()
    network.fund(stranger.address, 1)
    before = len(federation.coordinator.records())
    Ledger(network, federation.deployment, stranger.account).register(stranger)
    return len(federation.coordinator.records()) > before


def hung_member(network) -> bool:
    return hung(network) is not Phase.DRAW


ATTACKS = (
    coordinator_fails,
    coordinator_fails_by_judging,
    coordinator_closes_first,
    withheld_after_the_grace,
    junk_judgement,
    barred_at_will,
    strangers_register,
    hung_member,
)


@pytest.mark.mutants
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_it_wins_without_its_guard(unguarded, attack):
    with embedded() as network:
        assert attack(network)
