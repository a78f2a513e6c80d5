"""A random walk through a federation's life by odd transactions: after each, readers must follow the contracts."""

import random
from collections.abc import Callable
from dataclasses import replace

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import Closed, Phase
from fedgrove.chain.records.deployment import Deployment
from fedgrove.chain.records.signed_draws import SignedDraw, sign_draw, signed_by
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.adversary.odd_transactions import Odd
from tests.chain.federations import SETTINGS, TERMS, Federation, found

LEDGER, REGISTRY = "TrainingLedger", "ClientRegistry"
OFTEN = 0.8


class Walk:
    """One federation, its accounts, and what they may try. ``taken`` counts the calls that took effect, by function."""

    def __init__(self, network: Network, seed: int, open_membership: bool) -> None:
        self.random = random.Random(seed)
        windows = {"draw_window": 20, "share_window": 16, "commit_window": 16}
        settings = replace(SETTINGS, absence_limit=1, max_clients=5, randao=seed % 2 == 1, **windows)
        terms = replace(TERMS, rates=((1, 1_000_000), (3, 600_000), (4, 1_000_000)), rounds=1_000, repeats=1_000)
        self.federation: Federation = found(
            network, clients=4, settings=settings, terms=terms, open_membership=open_membership, activation_delay=2
        )
        self.network = network
        self.odd = Odd(network, self.random)
        self.ledger = Ledger(network, self.federation.deployment)
        self.view = LedgerView(self.ledger)
        self.strangers = [self._funded() for _ in range(2)]
        self.taken: dict[str, int] = {}
        for keys in self.federation.keys * (not open_membership):
            self.federation.coordinator.approve(keys.address)
        network.mine(2)
        self._logs = len(self._new_logs(self.federation.deployment.block))

    def step(self) -> None:
        """Let somebody do something, and see that the reader and the contracts agree on it."""
        first = self.network.block_number() + 1
        try:
            self.random.choice(self._choices())()
        except (ChainError, ValueError):
            return  # what cannot even be encoded, as a seal before its block
        self._logs += len(self._new_logs(first))
        assert len(self.ledger.records()) == self._logs
        self.view.refresh()

    def _new_logs(self, first: int) -> list:
        addresses = (self.federation.deployment.registry, self.federation.deployment.ledger)
        return self.network.logs(first, self.network.block_number(), addresses)

    def _choices(self) -> list[Callable[[], None]]:
        membership = [
            self._join,
            self._rotate,
            self._rotate_mailbox,
            self._withdraw,
            self._approve,
            self._revoke,
            self._look,
        ]
        number = self.federation.coordinator.current_round()
        phase = self.federation.coordinator.round(number).phase
        fitting = {
            Phase.SEEDING: [self._wait],
            Phase.DRAW: [self._draw, self._draw, self._draw, self._batch, self._fix_seed, self._wait, self._look],
            Phase.SEAL: [self._wait, self._seal, self._seal_chunk, self._skip],
            Phase.SHARE: [self._share] * 8 + [self._on],
            Phase.COMMIT: [self._commit] * 8 + [self._on],
            Phase.RECOVER: [self._release] * 3 + [self._recover] * 4 + [self._on],
            Phase.CLOSE: [self._close] * 6 + [self._fail, self._dispute],
            Phase.OVERDUE: [self._fail, self._skip],
        }
        ended = [*[self._open] * 4, self._report, self._dispute, self._dispute, *membership]
        if self.random.random() < OFTEN or self.view.rounds.latest is None:
            return fitting.get(phase, ended)
        every = [act for acts in fitting.values() for act in acts]
        return [*every, *ended]

    # --- calls ------------------------------------------------------------------------------------------------------

    def _send(self, keys: Keys, contract: str, function: str, *arguments: object) -> None:
        self._deliver(keys, contract, function, self.odd.call(contract, function, *arguments))

    def _deliver(self, keys: Keys, contract: str, function: str, data: bytes) -> None:
        to = self.federation.deployment.registry if contract == REGISTRY else self.federation.deployment.ledger
        self.taken[function] = self.taken.get(function, 0) + self.odd.send(keys.account, to, data)

    def _funded(self) -> Keys:
        keys = Keys.generate()
        self.network.fund(keys.address, 1)
        return keys

    @property
    def _anybody(self) -> Keys:
        return self.random.choice([*self.federation.keys, *self.strangers, *[self.federation.founder] * 3])

    @property
    def _member(self) -> Keys:
        return self.random.choice(self.federation.keys)

    @property
    def _drawn(self) -> Keys:
        """Mostly a client of the latest round."""
        latest = self.view.rounds.latest
        accounts = {self.view.rounds.members[client].account for client in (latest.draws if latest else ())}
        found = [keys for keys in self.federation.keys if keys.address in accounts]
        return self.random.choice(found) if found and self.random.random() < OFTEN else self._anybody

    def _message(self, keys: Keys, alpha: bytes) -> bytes:
        return vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)

    def _possession(self, keys: Keys) -> bytes:
        return self._message(keys, tree.registration_alpha(*self._registry, keys.address))

    @property
    def _registry(self) -> tuple[int, str]:
        return self.network.chain_id, self.federation.deployment.registry

    @property
    def _round(self) -> int:
        number = self.federation.coordinator.current_round()
        return number if self.random.random() < 0.95 else self.random.choice([0, 1, number + 1])

    def _digest(self) -> bytes:
        return self.random.randbytes(32)

    # --- membership -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        keys = self._funded()
        coordinates = vrf.coordinates(keys.vrf_public)
        self._send(keys, REGISTRY, "register", *coordinates, keys.mailbox_public, self._possession(keys))
        self.federation.keys.append(keys)

    def _rotate(self) -> None:
        place = self.random.randrange(len(self.federation.keys))
        keys = self.federation.keys[place].with_new_vrf()
        before = self.taken.get("rotateVrfKey", 0)
        coordinates = vrf.coordinates(keys.vrf_public)
        self._send(keys, REGISTRY, "rotateVrfKey", *coordinates, self._possession(keys))
        if self.taken["rotateVrfKey"] > before:
            self.federation.keys[place] = keys

    def _rotate_mailbox(self) -> None:
        self._send(self._anybody, REGISTRY, "rotateMailboxKey", self._digest())

    def _withdraw(self) -> None:
        self._send(self._anybody, REGISTRY, "withdraw", self.random.choice([0, 7]), self._digest())

    def _approve(self) -> None:
        self._send(self._admin, REGISTRY, "approve", self._anybody.address)

    def _revoke(self) -> None:
        self._send(self._admin, REGISTRY, "revoke", self._member.address)

    @property
    def _admin(self) -> Keys:
        return self.federation.founder if self.random.random() < 0.9 else self._anybody

    def _look(self) -> None:
        """A transaction that takes effect and leaves nothing: a view, a registration that stands, an empty batch."""
        number = self.federation.coordinator.current_round()
        match self.random.randrange(4):
            case 0:
                self._send(self._anybody, LEDGER, self.random.choice(["settings", "terms", "currentModel"]))
            case 1:
                self._send(self._anybody, REGISTRY, "clientOf", self._member.address)
            case 2:
                keys = self._member
                coordinates = vrf.coordinates(keys.vrf_public)
                self._send(keys, REGISTRY, "register", *coordinates, keys.mailbox_public, self._possession(keys))
            case 3:
                self._deliver(self._anybody, LEDGER, "drawBatch", self.odd.batch(number, []))

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        self.network.mine(1)

    def _on(self) -> None:
        deadlines = self.view.deadlines(self.view.rounds.latest)
        ends = (deadlines.share_end, deadlines.commit_end, deadlines.recover_end, deadlines.close_end)
        block = self.network.block_number()
        self.network.advance_to(min((end for end in ends if end > block), default=block + 1))

    def _open(self) -> None:
        if self.random.random() < 0.5:
            self.network.mine(3)
        barred = [self._member.address] if self.random.random() < 0.3 else []
        self._send(self._anybody, LEDGER, "open", self.federation.coordinator.current_model(), barred)

    def _fix_seed(self) -> None:
        self._send(self._anybody, LEDGER, "fixSeed", self._round)

    def _alpha(self, number: int) -> bytes:
        self.ledger.records()
        return tree.draw_alpha(*self._place, number, self.view.seed(self.view.rounds.latest))

    def _draw(self) -> None:
        number, keys = self._round, self._member
        message = self._message(keys, self._alpha(number))
        coordinates = vrf.coordinates(keys.vrf_public)
        samples = self.random.choice([1, 5, 1000, 0, 1001])
        self._send(keys, LEDGER, "draw", number, *coordinates, self._digest(), self._digest(), samples, message)

    def _batch(self) -> None:
        number = self._round
        alpha = self._alpha(number)
        items = []
        for keys in self.random.sample(self.federation.keys, self.random.randint(0, 4)):
            round_keys = (self._digest(), self._digest())
            signed = sign_draw(self.federation.deployment, number, keys, alpha, *round_keys, self.random.choice([5, 9]))
            items += [signed] if self.random.random() < 0.7 else [self._copy(signed, number), signed]
        items += [replace(item, signature=self.random.randbytes(65)) for item in items[:1]]
        self.random.shuffle(items)
        self._deliver(self._anybody, LEDGER, "drawBatch", self.odd.batch(number, items))

    def _copy(self, item: SignedDraw, number: int) -> SignedDraw:
        """Somebody else's draw, signed by the copier."""
        return copied(item, self._anybody, self.federation.deployment, number)

    def _tickets(self) -> tuple[list[int], bytes, bytes]:
        current = self.view.rounds.latest
        block = self.view.deadlines(current).order_block
        self.ledger.records()
        if self.view.settings.randao:
            header, randomness = self.network.headers(block, block)[0], self.ledger.block_randomness(block)
        else:
            header, randomness = b"", self.ledger.block_hash(block)
        return current.tickets, tree.order_seed(*self._place, current.number, randomness), header

    @property
    def _place(self) -> tuple[int, str]:
        return self.network.chain_id, self.ledger.address

    def _seal(self) -> None:
        tickets, seed, header = self._tickets()
        permutation = b"".join(index.to_bytes(2, "big") for index in tree.permutation(tickets, seed))
        self._send(self._anybody, LEDGER, "seal", self._round, _packed(tickets), permutation, header)

    def _seal_chunk(self) -> None:
        tickets, seed, header = self._tickets()
        keys = self._anybody
        ledger = Contract(self.network, LEDGER, self.ledger.address)
        placed = ledger.call("placedSoFar", ledger.call("currentRound"), keys.address)
        count = self.random.randint(1, 3)
        chunk = tree.order(tickets, seed)[placed : placed + count]
        self._send(keys, LEDGER, "sealChunk", self._round, _packed(chunk), header)

    def _skip(self) -> None:
        self._send(self._anybody, LEDGER, "skip", self._round)

    def _share(self) -> None:
        self._send(self._drawn, LEDGER, "share", self._round, self._digest())

    def _commit(self) -> None:
        self._send(self._drawn, LEDGER, "commit", self._round, self._digest(), self._digest())

    def _release(self) -> None:
        self._send(self._drawn, LEDGER, "release", self._round, self._digest())

    def _recover(self) -> None:
        self._send(self._anybody, LEDGER, "recover", self._round, self._digest())

    def _close(self) -> None:
        self._send(self._anybody, LEDGER, "close", self._round, self._digest(), self._digest())

    def _fail(self) -> None:
        self._send(self._anybody, LEDGER, "fail", self._round, self.random.randrange(7), self._digest())

    def _dispute(self) -> None:
        standing = [past for past in self.view.rounds.rounds.values() if isinstance(past.end, Closed)]
        number = standing[-1].number if standing else 0
        members = [self.view.rounds.members[client].account for client in (standing[-1].commits if standing else ())]
        keys = [each for each in self.federation.keys if each.address in members] or self.federation.keys
        self._send(self.random.choice(keys), LEDGER, "disputeRound", number, self._digest())

    def _report(self) -> None:
        ended = self.view.rounds.ended()
        absent = [client for client in ended[-1].order if client not in ended[-1].commits] if ended else []
        accounts = sorted((self.view.rounds.members[client].account for client in absent), key=lambda one: int(one, 16))
        number = ended[-1].number if ended else 0
        data = Contract(self.network, LEDGER, self.ledger.address).data("reportAbsences", number, accounts)
        self._deliver(self._anybody, LEDGER, "reportAbsences", data + self.odd.rubbish())


def copied(item: SignedDraw, by: Keys, deployment: Deployment, number: int) -> SignedDraw:
    """A draw that another account signs as its own: same keys, same proof."""
    return signed_by(by.account, deployment, number, replace(item, account=by.address))


def _packed(tickets: list[int]) -> bytes:
    return b"".join(ticket.to_bytes(16, "big") for ticket in tickets)
