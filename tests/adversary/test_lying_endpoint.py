"""An endpoint shows a client a ledger that is not the chain's, to read the update that the client hides.

It signs for nobody but itself and its friends, the colluders. It can make up whole chains: headers that link up, roots
that fit, receipts as it likes, transactions that others signed. It can leave out, replay and invent, and seal orders,
as anybody may.

What stops it, with one endpoint: every record must follow from a transaction that its author signed, and from the
records before it, by the ledger's rules. What that leaves, and `membership.members` narrows: a chain of its own with
members of its own, and a fork without others' draws. Where two endpoints must agree (``network.rpc_quorum``), nothing
is read of a chain that one of them makes up, unless the other does, too.
"""

import os
from contextlib import ExitStack

import pytest

from fedgrove.chain.crypto import tree
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ConnectionFailed, ContractRevert
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.face.networks import connect, embedded
from fedgrove.chain.network import log_index
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import Drawn, Record
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.signed_transactions import decode_transaction
from fedgrove.common.errors import InvalidContent
from fedgrove.node.learning.settings import TrainingSettings
from fedgrove.node.masking.keys import RoundSecrets
from fedgrove.node.protocol import policy
from fedgrove.node.protocol.ledger_view import LedgerView
from fedgrove.node.protocol.terms import FederationSettings, MembershipSettings
from tests.adversary.lying import OmittedMembers, SwappedKeys, live, read_update, sealed_data, victim_of
from tests.adversary.served import served
from tests.node.federation import Federation

QUICK = TrainingSettings(epochs=1, batch_size=20)


@pytest.fixture
def network():
    with embedded() as running:
        yield running


def federation_of(network, directory, clients=4, **changes) -> Federation:
    made = Federation.found(network, directory, clients, training=QUICK, **changes)
    made.register()
    return made


@pytest.fixture
def federation(network, tmp_path):
    return federation_of(network, tmp_path)


@pytest.fixture
def anybodys(network, tmp_path):
    """A federation in which anybody takes part."""
    practice = FederationSettings(rounds=1, practice=True)
    return federation_of(network, tmp_path, membership=MembershipSettings(mode="open"), federation=practice)


def is_read(federation, victim, stolen) -> bool:
    """Whether the endpoint knows the victim's update, bit for bit."""
    words = victim.words(victim.view.rounds.latest)  # behind them is one that counts who could not train
    return bool((read_update(federation, victim, stolen)[: len(words)] == words).all())


PUBLISHED = "published its masked update"
UNSIGNED = "Drawn does not follow from its transaction: its calldata differs from the record"

# --- keys of its own in others' draws ---------------------------------------------------------------------------------


def test_keys_that_nobody_signed_are_refused(federation):
    story = live(federation, victim_of(federation, SwappedKeys(federation.network, federation.deployment, victim=1)))
    assert UNSIGNED in story.faults[-1]
    assert "shared" not in story.did


@pytest.mark.mutants
def test_without_the_authors_word_the_update_is_read_bit_for_bit(federation, monkeypatch):
    monkeypatch.setattr(Record, "is_argument_of", lambda *_: True)
    lying = SwappedKeys(federation.network, federation.deployment, victim=1)
    victim = victim_of(federation, lying)
    assert PUBLISHED in live(federation, victim).did
    assert is_read(federation, victim, lying.stolen)


# --- one of several endpoints -----------------------------------------------------------------------------------------


class SwappedBodies(SwappedKeys):
    """Shows the headers of the true chain, and bodies with keys of its own in others' draws."""

    def reorder(self, sealed):
        """The order is the true one: the hashes are."""

    def headers(self, first, last):
        return self.truth.headers(first, last)

    def agreed_head(self):
        super().agreed_head()
        return self.truth.agreed_head()


def beside_honest(federation, lying: Network, honest: int, quorum: int = 0) -> tuple[ExitStack, Network]:
    """A connection to the liar, which is asked first, and to honest endpoints."""
    stack = ExitStack()
    urls = [stack.enter_context(served(each)) for each in (lying, *[federation.network] * honest)]
    return stack, stack.enter_context(connect(urls, timeout=30, quorum=quorum))


@pytest.mark.parametrize("honest", [1, 2])
def test_bodies_that_do_not_fit_the_agreed_header_are_had_from_another_endpoint(federation, honest):
    lying = SwappedBodies(federation.network, federation.deployment, victim=1)
    stack, network = beside_honest(federation, lying, honest)
    with stack:
        victim = victim_of(federation, network)
        story = live(federation, victim)
        assert PUBLISHED in story.did, (story.did, story.faults)
        assert lying.stolen and not story.faults
        genuine = federation.ledger(federation.keys[0]).records()
        assert list(victim.view.rounds.latest.draws.values()) == [each for each in genuine if isinstance(each, Drawn)]


def no_roots(monkeypatch):
    monkeypatch.setattr(log_index, "check_body", lambda *_: None)


def no_authors(monkeypatch):
    monkeypatch.setattr(Record, "is_argument_of", lambda *_: True)


@pytest.mark.parametrize("mends", [[no_roots], [no_authors], [no_roots, no_authors]])
def test_roots_and_authors_each_keep_wrong_bodies_out(federation, monkeypatch, mends):
    for take_out in mends:
        take_out(monkeypatch)
    lying = SwappedBodies(federation.network, federation.deployment, victim=1)
    stack, network = beside_honest(federation, lying, honest=1)
    with stack:
        victim = victim_of(federation, network)
        story = live(federation, victim)
        if len(mends) == 2:
            assert PUBLISHED in story.did and is_read(federation, victim, lying.stolen)
        elif PUBLISHED in story.did:
            assert not is_read_by_some(federation, victim, lying.stolen)


def is_read_by_some(federation, victim, stolen) -> bool:
    """As ``is_read``; it is not where somebody's secrets are missing, or do not open the shares."""
    try:
        return is_read(federation, victim, stolen)
    except (InvalidContent, KeyError):
        return False


# --- a fork without others' draws -------------------------------------------------------------------------------------

LATE = 5
"""The colluder that is the last to act in each phase."""


def pinned(network, directory, monkeypatch, least: float) -> Federation:
    """Five members that the terms name."""
    keys = [Keys.generate() for _ in range(6)]
    given = iter(keys)
    with monkeypatch.context() as patch:
        patch.setattr(Keys, "generate", lambda: next(given))
        accounts = tuple(each.address for each in keys[1:])
        membership = MembershipSettings(mode="named", members=accounts, least=least)
        made = Federation.found(network, directory, 5, training=QUICK, membership=membership)
    made.register()
    return made


def colluders(story) -> dict[int, RoundSecrets]:
    """The fourth and the fifth member give their secrets away."""
    return {number: story.others[number].context.disclosure.secrets(1) for number in (4, 5)}


@pytest.mark.parametrize("least", [0.5, 0.7])
def test_one_endpoint_and_two_colluders_isolate_a_member_as_far_as_its_terms_let_them(
    network, tmp_path, monkeypatch, least
):
    """The draws of the second and the third member are not shown. Nobody signed that they are missing.

    The endpoint seals the order of the others itself: it needs neither the coordinator nor a member for that.
    """
    federation = pinned(network, tmp_path, monkeypatch, least)
    lying = OmittedMembers(network, federation.deployment, {2, 3})
    victim = victim_of(federation, lying)
    story = live(federation, victim, LATE)
    assert not story.faults
    current = victim.view.rounds.latest
    assert set(current.draws) == {1, 4, 5} and current.sealed.at.author == lying.account.address
    if least == 0.5:
        assert PUBLISHED in story.did and is_read(federation, victim, colluders(story))
    else:
        assert any("only 3 of the 5 members that it counts on have drawn" in each for each in story.did)
        assert "shared" not in story.did


class UnsignedOrder(OmittedMembers):
    """Leaves the true seal's transaction, and changes what it left to the order of the shown draws."""

    def reorder(self, sealed):
        self.alter(sealed.at, sealed_data(*self.shown_order(sealed)))


def test_an_order_that_nobody_signed_is_refused(network, tmp_path, monkeypatch):
    federation = pinned(network, tmp_path, monkeypatch, least=0.5)
    story = live(federation, victim_of(federation, UnsignedOrder(network, federation.deployment, {2, 3})), LATE)
    assert "Sealed does not follow from its transaction: its calldata differs from the record" in story.faults[-1]
    assert "shared" not in story.did


@pytest.mark.parametrize("honest", [1, 2])
def test_a_fork_that_only_one_of_several_shows_is_not_followed(network, tmp_path, monkeypatch, honest):
    federation = pinned(network, tmp_path, monkeypatch, least=0.5)
    lying = OmittedMembers(network, federation.deployment, {2, 3})
    stack, connection = beside_honest(federation, lying, honest)
    with stack:
        victim = victim_of(federation, connection)
        story = live(federation, victim, LATE)
        if honest == 1:
            assert PUBLISHED not in story.did and "do not agree on block" in story.faults[-1]
        else:
            assert PUBLISHED in story.did, (story.did, story.faults)
            assert not is_read_by_some(federation, victim, colluders(story))


def test_a_client_that_asks_for_no_agreement_follows_the_first_it_asks(network, tmp_path, monkeypatch):
    federation = pinned(network, tmp_path, monkeypatch, least=0.5)
    lying = OmittedMembers(network, federation.deployment, {2, 3})
    stack, connection = beside_honest(federation, lying, honest=2, quorum=1)
    with stack:
        victim = victim_of(federation, connection)
        story = live(federation, victim, LATE)
        assert PUBLISHED in story.did and is_read(federation, victim, colluders(story))


# --- a chain of its own with members of its own -----------------------------------------------------------------------


class OwnWorld:
    """A chain that the endpoint runs by itself: it replays what founder, coordinator and victim signed, and no more.

    With ``founder``, who is the coordinator, too, it has that one's keys as well, who may approve before a round opens.
    """

    def __init__(self, federation: Federation, chain: Network, founder: Keys | None = None) -> None:
        self.chain, self.deployment = chain, federation.deployment
        self.keys = [Keys.generate() for _ in range(3)]
        self.stolen: dict[int, RoundSecrets] = {}
        for account in [federation.coordinator_keys, federation.keys[0], *self.keys]:
            chain.fund(account.address, 1)
        chain.advance_to(self.deployment.block - 1)
        for raw in signed_by(federation, {federation.coordinator_keys.address, federation.keys[0].address}):
            if not opens(raw):
                chain.send(raw)
                continue
            for keys in self.keys:
                if founder is not None:
                    self.ledger(founder).approve(keys.address)
                self.ledger(keys).register(keys)
            chain.mine(1)
            if founder is None:
                chain.send(raw)
            else:
                self.ledger(founder).open(bytes.fromhex(self.deployment.terms.model))

    def ledger(self, keys: Keys) -> Ledger:
        return Ledger(self.chain, self.deployment, keys.account)

    def play(self, victim) -> list[str]:
        """The round: all members but the victim are the endpoint's."""
        did, judge = [], self.ledger(self.keys[0])
        view = LedgerView(judge)
        current = view.refresh()
        while PUBLISHED not in did and self.chain.block_number() <= view.deadlines(current).commit_end:
            block, deadlines = self.chain.block_number(), view.deadlines(current)
            if block > deadlines.seed_block and not self.stolen:
                for keys in self.keys:
                    self.draw(keys, view)
            if block > deadlines.order_block and current.sealed is None:
                judge.records()
                judge.seal(1, current.tickets, deadlines.order_block)
                for keys in self.keys:
                    self.ledger(keys).share(1, b"s" * 32)
            step = victim.step()
            did.append(step.acted or step.waiting)
            if not step.acted:
                self.chain.mine(1)
            current = view.refresh()
        return did

    def draw(self, keys: Keys, view: LedgerView) -> None:
        secrets, ledger = RoundSecrets.generate(os.urandom), self.ledger(keys)
        alpha = tree.draw_alpha(self.chain.chain_id, self.deployment.ledger, 1, view.seed(view.rounds.latest))
        ledger.draw(1, keys, alpha, secrets.mask_key, secrets.seal_key, 10)
        self.stolen[ledger.client_of(keys.address).client] = secrets


def opens(raw: bytes) -> bool:
    """Whether a transaction opens a round."""
    return decode_transaction(raw).data[:4] == functions("TrainingLedger")["open"].selector


def signed_by(federation, accounts: set[str]) -> list[bytes]:
    """Their genuine transactions, in order."""
    last = federation.network.block_number()
    bodies = federation.network.bodies(list(range(federation.deployment.block, last + 1)))
    raws = [raw for body in bodies for raw in body.transactions]
    return [raw for raw in raws if decode_transaction(raw).sender in accounts]


def test_where_all_may_join_one_endpoint_can_make_up_all_members_but_the_victim(anybodys):
    """Open membership cannot give more: nobody can tell made-up members from others. Two endpoints could."""
    anybodys.coordinator().step()
    with embedded() as chain:
        world = OwnWorld(anybodys, chain)
        victim = victim_of(anybodys, chain)
        assert PUBLISHED in world.play(victim)
        assert is_read(anybodys, victim, world.stolen)


def test_where_the_terms_name_the_members_it_cannot(federation):
    """Approvals are signed by the founder: those that it gave can be replayed, others not be made."""
    federation.coordinator().step()
    with embedded() as chain:
        with pytest.raises(ContractRevert) as refusal:
            OwnWorld(federation, chain)
        assert refusal.value.name == "NotApproved"


def test_members_that_the_terms_do_not_name_are_refused_though_their_founder_approves(network, tmp_path, monkeypatch):
    """The founder is the endpoint's friend, and opens the rounds, too."""
    federation = pinned(network, tmp_path, monkeypatch, least=0.2)
    federation.coordinator().step()
    with embedded() as chain:
        world = OwnWorld(federation, chain, founder=federation.coordinator_keys)
        did = world.play(victim_of(federation, chain))
        assert "shared" not in did
        assert any("is not a member that the terms name" in each for each in did), did


def test_clients_that_take_whom_the_founder_approves_are_read_by_its_friend(network, tmp_path, monkeypatch):
    monkeypatch.setattr(policy, "strangers", lambda *_: [])
    federation = pinned(network, tmp_path, monkeypatch, least=0.2)
    federation.coordinator().step()
    with embedded() as chain:
        world = OwnWorld(federation, chain, founder=federation.coordinator_keys)
        victim = victim_of(federation, chain)
        assert PUBLISHED in world.play(victim)
        assert is_read(federation, victim, world.stolen)


def test_one_of_two_endpoints_cannot_show_its_own_world(anybodys):
    anybodys.coordinator().step()
    with embedded() as chain, ExitStack() as stack:
        world = OwnWorld(anybodys, chain)
        urls = [stack.enter_context(served(each)) for each in (chain, anybodys.network)]
        connection = stack.enter_context(connect(urls, timeout=30))
        chain.mine(3)
        with pytest.raises(ConnectionFailed, match="do not agree on block"):
            victim_of(anybodys, connection).step()
        assert world.chain.block_number() != anybodys.network.block_number()
