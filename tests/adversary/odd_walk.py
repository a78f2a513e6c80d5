"""A random walk through a federation's life by odd transactions.

After each step readers must follow the contracts, and must see what these see; of a call that the contracts refuse, the
record that it would have left is one that the law refuses.
"""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, fields, replace
from typing import get_type_hints

import pytest
from msgspec import Meta

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.face.ledger import Ledger
from fedgrove.chain.network.access import Network
from fedgrove.chain.records import (
    Affirmed,
    AffirmEnded,
    Approved,
    Closed,
    CommitEnded,
    Committed,
    DrawEnded,
    Drawn,
    DrawRejected,
    Failed,
    Judged,
    MailboxKeyRotated,
    MemberRecord,
    Phase,
    Position,
    Record,
    Registered,
    Released,
    Replaced,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    SealChunk,
    Sealed,
    SeedFixed,
    Shared,
    ShareEnded,
    Skipped,
    Voided,
    Vouched,
    VouchEnded,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.deployment import EVERYONE, MEMBERSHIPS, Deployment, LedgerSettings
from fedgrove.chain.records.signed_draws import SignedDraw, sign_draw, signed_by
from fedgrove.node.protocol.bad_record import RuleBroken
from fedgrove.node.protocol.clock import phase_of
from fedgrove.node.protocol.ledger_view import LedgerView
from tests.adversary.odd_transactions import KINDS, Odd
from tests.chain.federations import CONFIG, MODEL, SETTINGS, TERMS, Federation, found

LEDGER, REGISTRY = "TrainingLedger", "ClientRegistry"
OFTEN = 0.9
NOTHING = bytes(32)
RIGHT = (b"r" * 32, b"m" * 32)
"""The result that members mean who judge that a closing should have been another."""
HASHES = 256
"""Blocks whose hash the chain of a walk knows."""
LONG = 1 << 16
"""Blocks after which a member may skip a round that waits for its quorum."""
RATES = (
    ((1, EVERYONE),),
    ((1, EVERYONE), (3, 600_000), (4, EVERYONE)),
    ((1, 700_000), (6, EVERYONE)),
    ((1, 1),),
    ((1, 700_000), (2, 1), ((1 << 40) - 1, EVERYONE)),
)
BOUNDS = {
    name: (meta.ge, meta.le)
    for name, hint in get_type_hints(LedgerSettings, include_extras=True).items()
    for meta in getattr(hint, "__metadata__", ())
    if isinstance(meta, Meta)
}
"""The least and the largest value of each setting that is a number."""


def extremes(seed: int) -> dict[str, int]:
    """The least value of one setting and the largest one of another; some seed has each."""
    names = sorted(BOUNDS)
    least, largest = names[seed % len(names)], names[(seed + 3) % len(names)]
    return {least: BOUNDS[least][0], largest: BOUNDS[largest][1]}


def chosen(seed: int, some: random.Random) -> LedgerSettings:
    """Settings of a walk: as they are in a test, some of them as little or as much as the ledger takes."""
    quorum, windows = some.choice([1, 2, 3]), {"draw_window": some.choice([1, 20, 20]), "commit_window": 24}
    windows |= {"share_window": some.choice([4, 24, 24]), "recover_window": some.choice([24, 40])}
    windows |= {"coordinator_grace": some.choice([0, 2, 6]), "seed_delay": some.choice([1, 3])}
    limits = {"quorum": quorum, "releases": some.choice([1, quorum]), "judges": some.choice([1, quorum])}
    limits |= {"absence_limit": some.choice([1, 2]), "max_clients": some.choice([3, 5, 8])}
    own = windows | limits | _bounds(seed, some) | {"order_delay": some.choice([1, 2]), "max_samples": 1000}
    own |= extremes(seed)
    if "recover_window" not in extremes(seed):  # at least four graces, so that there is time for others
        own["recover_window"] = max(own["recover_window"], min(4 * own["coordinator_grace"], (1 << 16) - 4))
    own["coordinator_grace"] = min(own["coordinator_grace"], own["recover_window"] // 4)
    own["max_clients"] = max(own["max_clients"], own["quorum"])
    own |= {name: min(own[name], own["quorum"]) for name in ("releases", "judges")}
    return replace(SETTINGS, randao=seed % 2 == 1, **own)


def _bounds(seed: int, some: random.Random) -> dict[str, int]:
    """Bounds on updates in half of the walks, and where an extreme value needs them; none where one forbids them."""
    extreme = extremes(seed)
    if extreme.get("vouch_window") == 0 or extreme.get("affirm_window") == 0:
        return {}
    if seed % 4 > 1 and not extreme.keys() & {"vouch_window", "affirm_window", "stages"}:
        return {}
    windows = {name: some.choice([4, 24, 24]) for name in ("vouch_window", "affirm_window")}
    return windows | {"stages": some.choice([0, 1, 2, 2])}


class Walk:
    """One federation, its accounts, and what they may try; a seed makes the same choices while the hashes are alike.

    ``far`` says how often it may wait for more than a thousand blocks, and counts down; ``taken`` counts the calls that
    took effect, ``refused`` those of whose records the law was asked, by function.
    """

    def __init__(self, network: Network, seed: int, kinds: tuple[str, ...] = KINDS, far: int = 0) -> None:
        self.random, self.network = random.Random(seed), network
        self.named = [self._funded() for _ in range(2)] if seed % 3 != MEMBERSHIPS.index("open") else []
        self.federation: Federation = self._found(network, seed)
        self.far = far
        self.odd = Odd(network, self.random, kinds)
        self.ledger = Ledger(network, self.federation.deployment)
        self.contracts = {
            name: Contract(network, name, address) for name, address in self.federation.deployment.contracts.items()
        }
        self.view = LedgerView(self.ledger)
        self._waiting = list(self.named)
        self.strangers = [*self.named, *[self._funded() for _ in range(2)]]
        self.taken: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        network.mine(2)
        self._logs = len(self._new_logs(self.federation.deployment.block))

    def _found(self, network: Network, seed: int) -> Federation:
        """Every membership, and every setting, term and delay from the least to the largest."""
        some = self.random.choice
        ends = some([{"rounds": 2}, {"repeats": 0}, {"repeats": 1}, *[{"rounds": 2**32 - 1, "repeats": 2**32 - 1}] * 4])
        return found(
            network,
            settings=chosen(seed, self.random),
            terms=replace(TERMS, rates=some([RATES[0], RATES[0], *RATES]), **ends),
            membership=MEMBERSHIPS[seed % 3],
            activation_delay=2**32 - 1 if seed % 20 == 13 else some([1, 2, 9]),
            members=[keys.address for keys in self.named],
            new_keys=self._new_keys,
        )

    def _new_keys(self) -> Keys:
        """Keys of this walk's own."""
        account, secret = (self.random.randrange(1, 1 << 255).to_bytes(32, "big") for _ in range(2))
        return Keys(Account(account), secret, self.random.randbytes(32), self.random.randbytes(32))

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
        self._compare()
        self._unasked()

    def _unasked(self) -> None:
        """What follows from other records comes in no other way."""
        number, digests = self.view.rounds.last.number if self.view.rounds.rounds else 1, (self._digest(), RIGHT[1])
        kind = self.random.choice([DrawEnded, ShareEnded, CommitEnded, VouchEnded, AffirmEnded, Voided, Replaced])
        at = Position(self.network.block_number(), NOTHING, 0, self._anybody.address)
        self._refused(kind(at, number, *digests[: len(fields(kind)) - 2]))

    def _compare(self) -> None:
        """The contracts and the reader see the same round, model, counts and members."""
        rounds, law, block = self.view.rounds, self.view.law, self.network.block_number()
        told = {name: self.contracts[LEDGER].call(name) for name in ("currentRound", "closedRounds", "failedRounds")}
        assert tuple(told.values()) == (max(rounds.rounds, default=0), rounds.closed, rounds.failed)
        assert self.contracts[LEDGER].call("currentModel") == (rounds.model_digest if rounds.rounds else MODEL)
        for number in {max(rounds.rounds, default=0), self.random.choice([0, *rounds.rounds])} - {0}:
            seen, current = self.ledger.round(number), rounds.rounds[number]
            deadlines = current.deadlines(self.view.settings)
            assert asdict(deadlines) == {name: getattr(seen, name) for name in asdict(deadlines)}
            assert seen.phase is phase_of(current, deadlines, block)  # calls see the latest block
            sealed = current.sealed is not None
            counts = (len(current.draws), *([len(current.commits), len(current.releases)] if sealed else [0, 0]))
            assert (seen.drawn, seen.committed, seen.released, seen.model_digest) == (
                *counts,
                current.opened.model_digest,
            )
            bounds = (len(current.vouches), len(current.affirmations), current.stage, current.sketch_hash)
            assert (seen.vouched, seen.affirmed, seen.stage, seen.sketch_hash) == bounds
        changed = self.contracts[REGISTRY].call("changedAt")
        assert law.members_changed_since(changed) and not law.members_changed_since(changed + 1)
        account = self._anybody.address
        assert self.ledger.is_struck(account) == law.is_struck(account)
        member, entry = rounds.member(account), self.ledger.client_of(account)
        if member is not None:
            known = (member.client, member.active_from, member.approved, member.left)
            assert known == (entry.client, entry.active_from, entry.approved, entry.has_left)
        assert bool(entry.client) == (member is not None)

    def _new_logs(self, first: int) -> list:
        addresses = (self.federation.deployment.registry, self.federation.deployment.ledger)
        return self.network.logs(first, self.network.block_number(), addresses)

    def _choices(self) -> list[Callable[[], None]]:
        membership = [
            *(self._join, self._rotate, self._rotate_mailbox, self._withdraw, self._resume),
            *(self._approve, self._revoke, self._look),
        ]
        number = self.federation.coordinator.current_round()
        phase = self.federation.coordinator.round(number).phase
        fitting = {
            Phase.SEEDING: [*[self._wait] * 4, *membership],
            Phase.DRAW: [
                *[self._draw] * 6,
                self._batch,
                self._fix_seed,
                self._wait,
                self._look,
                self._skip,
                self._late,
            ],
            Phase.SEAL: [self._wait, self._seal, self._seal_chunk, self._skip],
            Phase.SHARE: [self._share] * 24 + [self._on],
            Phase.COMMIT: [self._commit] * 24 + [self._on],
            Phase.VOUCH: [self._vouch] * 16 + [self._wait] * 4 + [self._reveal, self._on, self._fail],
            Phase.AFFIRM: [self._affirm] * 16 + [self._reveal] * 4 + [self._on, self._fail],
            Phase.RECOVER: [
                *[self._release] * 4,
                *[self._close] * 4,
                *(self._further, self._reveal) * self.view.settings.is_bounded * 2,
                *(self._nothing, self._fail, self._on, self._wait),
            ],
            Phase.OVERDUE: [self._fail, self._skip],
        }
        ended = [*[self._open] * 6, *[self._judge] * 4, self._release, *membership]
        if self.random.random() < OFTEN or self.view.rounds.latest is None:
            return fitting.get(phase, ended)
        every = [act for acts in fitting.values() for act in acts]
        return [*every, *ended]

    # --- calls ------------------------------------------------------------------------------------------------------

    def _call(self, keys: Keys, kind: type[Record], *arguments: object, certain: bool = True, **rest: object) -> bool:
        """Call the function whose own record this kind is; whether it took effect.

        If it did not, or left nothing, the law refuses the record that it would have left, if that is ``certain``: its
        fields are the arguments of the same names, and the ``rest``.
        """
        contract, function = kind.CALLED or kind.CONTRACT, kind.CALLS[0]
        took = self._send(keys, contract, function, *arguments)
        block = self.network.block_number()
        if certain and not (took and self._new_logs(block)):
            known = {"account": keys.address, "client": self._client(keys), "active_from": block + self._delay}
            known |= dict(zip(functions(contract)[function].names, arguments, strict=True)) | rest
            content = {each.name: known[each.name] for each in fields(kind) if each.name != "at"}
            self._refused(kind(at=Position(block, NOTHING, 0, keys.address), **content))
            self.refused[function] = self.refused.get(function, 0) + 1
        return took

    def _refused(self, record: Record) -> None:
        law = self.view.law
        with pytest.raises(RuleBroken):
            deepcopy(law, {id(part): part for part in (law.facts, law.rounds)}).check(record)
            pytest.fail(f"the contracts refused what the law takes: {record}")

    def _send(self, keys: Keys, contract: str, function: str, *arguments: object) -> bool:
        return self._deliver(keys, contract, function, self.odd.call(contract, function, *arguments))

    def _deliver(self, keys: Keys, contract: str, function: str, data: bytes) -> bool:
        took = self.odd.send(keys.account, self.federation.deployment.contracts[contract], data)
        self.taken[function] = self.taken.get(function, 0) + took
        return took

    def _funded(self) -> Keys:
        keys = self._new_keys()
        self.network.fund(keys.address, 1)
        return keys

    @property
    def _anybody(self) -> Keys:
        return self.random.choice([*self.federation.keys, *self.strangers, *[self.federation.founder] * 3])

    @property
    def _member(self) -> Keys:
        return self.random.choice(self.federation.keys)

    def _one_of(self, clients: Sequence[int]) -> Keys:
        """Mostly one of these clients."""
        accounts = {self.view.rounds.members[client].account for client in clients}
        found = [keys for keys in self.federation.keys if keys.address in accounts]
        return self.random.choice(found) if found and self.random.random() < OFTEN else self._anybody

    def _due(self, after: type[MemberRecord], kind: type[MemberRecord]) -> Keys:
        """Mostly one that has left the one record in the latest round and not the other."""
        latest = self.view.rounds.latest
        return self._one_of([*latest.of(after).keys() - latest.of(kind).keys()] if latest else [])

    def _client(self, keys: Keys) -> int:
        member = self.view.rounds.member(keys.address)
        return member.client if member else 0

    def _message(self, keys: Keys, alpha: bytes) -> bytes:
        return vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)

    @property
    def _round(self) -> int:
        number = self.federation.coordinator.current_round()
        return number if self.random.random() < 0.95 else self.random.choice([0, 1, number + 1])

    def _digest(self) -> bytes:
        return self.random.randbytes(32) if self.random.random() < 0.95 else NOTHING

    @property
    def _delay(self) -> int:
        return self.federation.deployment.activation_delay

    # --- membership -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        keys = self._waiting.pop() if self._waiting and self.random.random() < 0.2 else self._funded()
        if self.random.random() < 0.5 and self.federation.deployment.membership == "approved":
            self._call(self.federation.founder, Approved, [keys.address], account=keys.address)
            self.view.refresh()
        self._register(keys)
        self.federation.keys.append(keys)

    def _register(self, keys: Keys) -> None:
        x, y, message, proof = self._key(keys)
        client = len(self.view.rounds.members) + 1
        self._call(keys, Registered, x, y, keys.mailbox_public, message, client=client, proof=proof)

    def _rotate(self) -> None:
        place = self.random.randrange(len(self.federation.keys))
        keys = replace(self.federation.keys[place], vrf=self._new_keys().vrf)
        *arguments, proof = self._key(keys)
        if self._call(keys, VrfKeyRotated, *arguments, proof=proof):
            self.federation.keys[place] = keys

    def _key(self, keys: Keys) -> tuple[int, int, bytes, bytes]:
        """The VRF key, and the proof that it is possessed: as the contract takes it, and whole."""
        alpha = tree.registration_alpha(self.network.chain_id, self.federation.deployment.registry, keys.address)
        return (*vrf.coordinates(keys.vrf_public), self._message(keys, alpha), vrf.prove(keys.vrf, alpha))

    def _rotate_mailbox(self) -> None:
        self._call(self._anybody, MailboxKeyRotated, self._digest())

    def _withdraw(self) -> None:
        self._call(self._anybody, Withdrawn, 0 if self.random.random() < 0.1 else 7, self._digest())

    def _resume(self) -> None:
        self._call(self._anybody, Resumed)

    def _approve(self) -> None:
        """Approve some accounts, perhaps one twice; who is not entitled to would approve the first."""
        accounts = [self._anybody.address for _ in range(self.random.randint(1, 3))]
        active_from = {} if self.view.rounds.member(accounts[0]) else {"active_from": 0}
        self._call(self._admin, Approved, accounts, account=accounts[0], **active_from)

    def _revoke(self) -> None:
        self._call(self._admin, Revoked, self._member.address)

    @property
    def _admin(self) -> Keys:
        return self.federation.founder if self.random.random() < 0.9 else self._anybody

    def _look(self) -> None:
        """A transaction that leaves nothing: a view, a registration that stands, an empty batch or list."""
        number = self.federation.coordinator.current_round()
        match self.random.randrange(5):
            case 0:
                self._send(self._anybody, LEDGER, self.random.choice(["registry", "coordinator", "currentModel"]))
            case 1:
                self._send(self._anybody, REGISTRY, "clientOf", self._member.address)
            case 2:
                self._register(self._member)
            case 3:
                self._deliver(self._anybody, LEDGER, "drawBatch", self.odd.batch(number, []))
            case 4:
                self._send(self._admin, REGISTRY, "approve", [])

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """One block, or until the block is there whose hash is the seed, or orders the draws, or makes the sketch."""
        block, current = self.network.block_number(), self.view.rounds.latest
        deadlines = self.view.deadlines(current) if current else None
        phase = phase_of(current, deadlines, block + 1) if current else None
        awaited = {Phase.SEEDING: "seed_block", Phase.SEAL: "order_block", Phase.VOUCH: "sketch_block"}.get(phase)
        self._advance(max(block + 1, getattr(deadlines, awaited) if awaited else 0))

    def _late(self) -> None:
        """Go beyond the draw window, or for as long as a chain remembers hashes, or as a round waits for its quorum."""
        if self.random.random() < 0.1 and self.far:
            self.far -= 1
            self.network.advance_to(self.view.rounds.last.opened.opened_at + LONG + self.random.randint(-3, 3))
        else:
            self.network.mine(HASHES + self.random.randint(-3, 3) if self.random.random() < 0.1 else 21)

    def _on(self) -> None:
        deadlines = self.view.deadlines(self.view.rounds.last)
        block = self.network.block_number()
        ends = (deadlines.share_end, deadlines.commit_end, deadlines.vouch_end, deadlines.affirm_end)
        ends = (*ends, deadlines.recover_end)
        self._advance(min((end for end in ends if end > block), default=block + 1))

    def _advance(self, end: int) -> None:
        """To this block, or, if it is far away and the walk went far too often, some blocks nearer to it."""
        block = self.network.block_number()
        if end - block > 4 * HASHES:
            end, self.far = (end, self.far - 1) if self.far else (block + HASHES, 0)
        self.network.advance_to(end)

    def _open(self) -> None:
        if self.random.random() < 0.5:
            self.network.mine(3)
        number, block = self.federation.coordinator.current_round() + 1, self.network.block_number() + 1
        listed = {each for each in self.view.law.barred_from(number, block) if self.random.random() < 0.7}
        listed |= {self._member.address} if self.random.random() < 0.2 else set()
        barred = sorted(listed, key=lambda account: int(account, 16))
        if self.random.random() < 0.1:
            self.random.shuffle(barred)
        model = self.federation.coordinator.current_model() if self.random.random() < 0.95 else self._digest()
        terms, delay = self.federation.deployment.terms, self.view.settings.seed_delay
        rest = {"round": number, "config_digest": CONFIG, "sampling_rate": terms.rate_of(number), "opened_at": block}
        self._call(self._anybody, RoundOpened, model, barred, seed_block=block + delay, **rest)

    def _fix_seed(self) -> None:
        number, last = self._round, self.network.block_number()
        current = self.view.rounds.rounds.get(number)
        seed_block = current.opened.seed_block if current else 0
        found = self.network.block_hash(seed_block) if seed_block <= last else NOTHING
        seed = tree.seed(found, self.view.rounds.root_before(number))
        certain = self._remembers(seed_block)
        self._call(self._anybody, SeedFixed, number, certain=certain, block_hash=found, seed=seed)

    def _remembers(self, number: int) -> bool:
        """Whether every chain still knows the hash of this block; some do for longer, so the law does not ask."""
        return self.network.block_number() + 1 - number <= HASHES

    def _alpha(self, number: int) -> bytes:
        self.ledger.records()
        return tree.draw_alpha(*self._place, number, self.view.seed(self.view.rounds.last))

    def _draw(self) -> None:
        number, keys = self._round, self._member
        alpha, samples = self._alpha(number), self._samples()
        content = (*vrf.coordinates(keys.vrf_public), self._digest(), self._digest(), samples)
        self._call(keys, Drawn, number, *content, self._message(keys, alpha), proof=vrf.prove(keys.vrf, alpha))

    def _samples(self) -> int:
        most = self.view.settings.max_samples
        return self.random.choice([*[1, min(5, most), most] * 2, 0, min(most + 1, (1 << 32) - 1)])

    def _batch(self) -> None:
        number = self._round
        alpha = self._alpha(number)
        items = []
        for keys in self.random.sample(self.federation.keys, self.random.randint(0, 4)):
            round_keys = (self._digest(), self._digest())
            signed = sign_draw(self.federation.deployment, number, keys, alpha, *round_keys, self._samples())
            items += [signed] if self.random.random() < 0.7 else [self._copy(signed, number), signed]
        items += [replace(item, signature=self.random.randbytes(65)) for item in items[:1]]
        self.random.shuffle(items)
        keys = self._anybody
        if not self._deliver(keys, LEDGER, "drawBatch", self.odd.batch(number, items)):
            at = Position(self.network.block_number(), NOTHING, 0, keys.address)
            self._refused(DrawRejected(at, number, keys.address, bytes(4)))
            self.refused["drawBatch"] = self.refused.get("drawBatch", 0) + 1

    def _copy(self, item: SignedDraw, number: int) -> SignedDraw:
        """Somebody else's draw, signed by the copier."""
        return copied(item, self._anybody, self.federation.deployment, number)

    def _tickets(self) -> tuple[list[int], bytes, bytes]:
        current = self.view.rounds.last
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
        order = {"order_seed": seed, "order_root": tree.order_root(tree.order(tickets, seed))}
        content = (self._round, _packed(tickets), permutation, header)
        certain = self._remembers(self.view.deadlines(self.view.rounds.last).order_block)
        self._call(self._anybody, Sealed, *content, certain=certain, drawn=len(tickets), **order)

    def _seal_chunk(self) -> None:
        tickets, seed, header = self._tickets()
        keys = self._anybody
        ledger = self.contracts[LEDGER]
        placed = ledger.call("placedSoFar", ledger.call("currentRound"), keys.address)
        count = self.random.randint(1, 3)
        chunk = tree.order(tickets, seed)[placed : placed + count]
        number = self._round
        if self._send(keys, LEDGER, "sealChunk", number, _packed(chunk), header):
            return
        current, block = self.view.rounds.last, self.network.block_number()
        if self._remembers(self.view.deadlines(current).order_block) or number != current.number:
            self._refused(SealChunk(Position(block, NOTHING, 0, keys.address), number, placed + len(chunk)))
            self.refused["sealChunk"] = self.refused.get("sealChunk", 0) + 1

    def _skip(self) -> None:
        self._call(self._anybody, Skipped, self._round, drawn=len(self.view.rounds.last.draws))

    def _share(self) -> None:
        self._call(self._due(Drawn, Shared), Shared, self._round, self._digest())

    def _commit(self) -> None:
        self._call(self._due(Shared, Committed), Committed, self._round, self._digest(), self._digest())

    def _vouch(self) -> None:
        """Before anybody has, the contract needs the hash of a block that the chain may know no more."""
        current = self.view.rounds.last
        block = self.view.deadlines(current).sketch_block
        found = self.network.block_hash(block) if block <= self.network.block_number() else NOTHING
        certain = bool(current.vouches) or self._remembers(block)
        keys, content = self._due(Committed, Vouched), (self._round, self._or_other(found), self._digest())
        self._call(keys, Vouched, *content, certain=certain)

    def _affirm(self) -> None:
        self._call(self._due(Committed, Affirmed), Affirmed, self._round, self._sketch, self._digest())

    def _reveal(self) -> None:
        self._call(self._one_of([*self.view.rounds.last.commits]), Revealed, self._round, self._sketch, self._digest())

    def _release(self) -> None:
        self._call(self._due(Drawn, Released), Released, self._round, self._sketch, self._digest(), 0)

    def _further(self) -> None:
        """Release shares in the stage that runs, or in one before or after it."""
        current = self.view.rounds.last
        stage = max(0, current.stage + self.random.choice([-1, 0, 0, 1, 1, 1, 2]))
        keys = self._one_of([*current.releases.keys() - current.releases_in(stage).keys()])
        self._call(keys, Released, self._round, self._sketch, self._digest(), stage)

    @property
    def _sketch(self) -> bytes:
        """Mostly the hash of the block that the sketch of the latest round follows from."""
        latest = self.view.rounds.latest
        return self._or_other(latest.sketch_hash if latest else NOTHING)

    def _or_other(self, block_hash: bytes) -> bytes:
        """This hash or, now and then, another."""
        return block_hash if self.random.random() < 0.95 else self._digest()

    def _close(self) -> None:
        keys = self.random.choice([self.federation.founder, self._due(Committed, Released), self._anybody])
        self._call(keys, Closed, self._round, self._digest(), self._digest())

    def _fail(self) -> None:
        self._call(self._anybody, Failed, self._round)

    def _nothing(self) -> None:
        """Judge that nothing may be summed in the round that runs."""
        keys = self._one_of([*self.view.rounds.last.commits])
        self._call(keys, Judged, self._round, Phase.RECOVER, NOTHING, NOTHING)

    def _judge(self) -> None:
        """Judge the closing that stands, or an older one."""
        closed = [each for each in self.view.rounds.rounds.values() if isinstance(each.end, Closed)]
        if not closed:
            return
        current = closed[-1] if self.random.random() < 0.95 else self.random.choice(closed)
        stands = (current.result.model_digest, current.result.metrics_digest)
        most = [stands, RIGHT, (NOTHING, NOTHING)][current.number % 3]  # so that more than half say the same of some
        verdicts = [*[most] * 6, stands, RIGHT, (NOTHING, NOTHING), (stands[0], RIGHT[1]), (stands[0], NOTHING)]
        asked = Phase.CLOSED if self.random.random() < 0.9 else self.random.choice([*Phase])
        keys, verdict = self._one_of([*current.commits]), self.random.choice(verdicts)
        self._call(keys, Judged, current.number, asked, *verdict)


def copied(item: SignedDraw, by: Keys, deployment: Deployment, number: int) -> SignedDraw:
    """A draw that another account signs as its own: same keys, same proof."""
    return signed_by(by.account, deployment, number, replace(item, account=by.address))


def _packed(tickets: list[int]) -> bytes:
    return b"".join(ticket.to_bytes(16, "big") for ticket in tickets)
