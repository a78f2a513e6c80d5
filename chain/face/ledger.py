"""The facade of a federation's contracts: one method for each transition, reads as dataclasses, records in order.

Every transition waits until its transaction is in a block, returns it as ``Mined``, and raises ``ContractRevert`` with
the contract's own reason, ``InsufficientFunds``, ``ConnectionFailed`` or another ``ChainError``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from eth_utils import to_checksum_address

from fedgrove.chain.crypto import tree, vrf
from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.keys import Keys
from fedgrove.chain.errors import ChainError
from fedgrove.chain.face.contract import Contract
from fedgrove.chain.network.access import Mined, Network
from fedgrove.chain.network.indexes import index_of
from fedgrove.chain.network.transactions import sender_of
from fedgrove.chain.records import (
    Affirmed,
    Closed,
    Committed,
    Drawn,
    Failed,
    Judged,
    MailboxKeyRotated,
    Phase,
    Position,
    Record,
    Registered,
    Released,
    Resumed,
    Revealed,
    Revoked,
    RoundOpened,
    SeedFixed,
    Shared,
    Skipped,
    Vouched,
    VrfKeyRotated,
    Withdrawn,
)
from fedgrove.chain.records.deployment import Deployment
from fedgrove.chain.records.phases import Deadlines
from fedgrove.chain.records.signed_draws import SignedDraw, key_tag

# Limits of gas where the need depends on the arguments, about twice what was measured; what is left over is not paid.
SEAL_GAS, SEAL_GAS_PER_CLIENT = 250_000, 3_000
CHUNK_GAS, CHUNK_GAS_PER_CLIENT = 1_200_000, 12_000
BATCH_GAS, BATCH_GAS_PER_DRAW = 200_000, 350_000
OPEN_GAS_PER_BARRED = 15_000
APPROVE_GAS, APPROVE_GAS_PER_ACCOUNT = 60_000, 60_000
_BLOCKS = len(fields(Deadlines))
MAX_SEAL, MAX_CHUNK, MAX_BATCH, MAX_APPROVED, MAX_BARRED = 1_000, 500, 32, 250, 250


@dataclass(frozen=True, slots=True)
class ClientView:
    """The registry's entry of an account; ``client`` is 0 if it is not registered."""

    client: int
    active_from: int
    approved: bool
    has_left: bool
    key_tag: int


@dataclass(frozen=True)
class RoundView(Deadlines):
    """One round as the ledger sees it. All zero when there is none."""

    phase: Phase
    sampling_rate: int
    drawn: int
    committed: int
    released: int
    vouched: int
    affirmed: int
    stage: int
    seed: bytes
    order_root: bytes
    model_digest: bytes
    sketch_hash: bytes


class Ledger:
    """A federation's ledger and registry on one network.

    Parameters
    ----------
    network : Network
        Shared by any number of facades.
    deployment : Deployment
        Whose contracts these are.
    account : Account, optional
        Sends the transactions; without one the facade only reads.
    """

    def __init__(self, network: Network, deployment: Deployment, account: Account | None = None) -> None:
        self._network = network
        self._ledger = Contract(network, "TrainingLedger", deployment.ledger)
        self._registry = Contract(network, "ClientRegistry", deployment.registry)
        self._sender = sender_of(network, account) if account is not None else None
        self._index = index_of(network, deployment)
        self.deployment = deployment

    @property
    def chain_id(self) -> int:
        """The chain's id, as in every VRF input."""
        return self.deployment.chain_id

    @property
    def address(self) -> str:
        """The ledger contract's checksummed address."""
        return self.deployment.ledger

    @property
    def account(self) -> str:
        """The checksummed address that sends the transactions; empty for a facade that only reads."""
        return self._sender.address if self._sender is not None else ""

    def leave(self, kind: type[Record], *arguments: object) -> Mined:
        """Call the function whose own record this kind is, with its arguments in the contract's order."""
        contract = next(each for each in (self._registry, self._ledger) if each.name == (kind.CALLED or kind.CONTRACT))
        return self._send(contract, contract.data(kind.CALLS[0], *arguments), kind.GAS)

    # --- membership -------------------------------------------------------------------------------------------------

    def register(self, keys: Keys) -> Mined:
        """Register these keys for the account; with the same keys a second time it changes nothing."""
        x, y = vrf.coordinates(keys.vrf_public)
        return self.leave(Registered, x, y, keys.mailbox_public, self._possession(keys))

    def rotate_vrf_key(self, keys: Keys) -> Mined:
        """Replace the registered VRF key by that of ``keys``, which must be saved by now."""
        x, y = vrf.coordinates(keys.vrf_public)
        return self.leave(VrfKeyRotated, x, y, self._possession(keys))

    def rotate_mailbox_key(self, keys: Keys) -> Mined:
        """Replace the registered mailbox key by that of ``keys``, which must be saved by now."""
        return self.leave(MailboxKeyRotated, keys.mailbox_public)

    def withdraw(self, points: int, digest: bytes) -> Mined:
        """Withdraw this number of the client's data points (0: all, for good); ``digest`` commits to the points."""
        return self.leave(Withdrawn, points, digest)

    def resume(self) -> Mined:
        """Take part again with the keys that are registered, after having been idle."""
        return self.leave(Resumed)

    def approve(self, *accounts: str) -> Mined:
        """Let accounts take part, at most ``MAX_APPROVED``; for the admin, or the founder before the first round."""
        data = self._registry.data("approve", accounts)
        return self._send(self._registry, data, APPROVE_GAS + APPROVE_GAS_PER_ACCOUNT * len(accounts))

    def revoke(self, account: str) -> Mined:
        """End an account's approval; for the admin."""
        return self.leave(Revoked, account)

    # --- rounds -----------------------------------------------------------------------------------------------------

    def open(self, model_digest: bytes, barred: Sequence[str] = ()) -> Mined:
        """Open the next round, which trains from the model in force.

        ``barred`` are accounts of registered clients that may not draw in it, at most ``MAX_BARRED``: where everyone is
        drawn, the draws end when all others have drawn.
        """
        ordered = sorted(barred, key=lambda account: int(account, 16))
        data = self._ledger.data("open", model_digest, ordered)
        return self._send(self._ledger, data, RoundOpened.GAS + OPEN_GAS_PER_BARRED * len(ordered))

    def fix_seed(self, number: int) -> Mined:
        """Fix the round's seed; the first draw also does this."""
        return self.leave(SeedFixed, number)

    def draw(self, number: int, keys: Keys, alpha: bytes, mask_key: bytes, seal_key: bytes, samples: int) -> Mined:
        """Prove this client's VRF output over ``alpha`` (``tree.draw_alpha``) and enter the round.

        ``mask_key`` and ``seal_key`` are the round's public keys, x-only on secp256k1 and on X25519; ``samples`` is the
        client's sample count.
        """
        x, y = vrf.coordinates(keys.vrf_public)
        message = vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)
        return self.leave(Drawn, number, x, y, mask_key, seal_key, samples, message)

    def draw_batch(self, number: int, items: Sequence[SignedDraw]) -> Mined:
        """Hand in draws that others signed (``draws.sign_draw``), at most 32; bad ones are recorded as rejected."""
        if not 1 <= len(items) <= MAX_BATCH:
            raise ValueError(f"a batch holds 1 to {MAX_BATCH} draws, not {len(items)}")
        data = self._ledger.data("drawBatch", number, [item.as_tuple() for item in items])
        return self._send(self._ledger, data, BATCH_GAS + BATCH_GAS_PER_DRAW * len(items))

    def seal(self, number: int, tickets: Sequence[int], order_block: int) -> Mined:
        """Seal the order, given all tickets in the order of the draws; above 1,000 in several transactions.

        ``order_block`` is the block whose randomness orders them, which must be past. A seal in chunks goes on where
        this account stopped. Returns the last transaction.
        """
        randao = self.deployment.settings.randao
        randomness = self.block_randomness(order_block) if randao else self.block_hash(order_block)
        seed = tree.order_seed(self.chain_id, self.address, number, randomness)
        header = self._network.headers(order_block, order_block)[0] if randao else b""
        if len(tickets) > MAX_SEAL:
            return self._seal_in_chunks(number, tree.order(tickets, seed), header)
        permutation = b"".join(index.to_bytes(2, "big") for index in tree.permutation(tickets, seed))
        data = self._ledger.data("seal", number, _pack(tickets), permutation, header)
        return self._send(self._ledger, data, SEAL_GAS + SEAL_GAS_PER_CLIENT * len(tickets))

    def skip(self, number: int) -> Mined:
        """End a round that drew fewer clients than the quorum."""
        return self.leave(Skipped, number)

    def share(self, number: int, digest: bytes) -> Mined:
        """Record this client's encrypted shares."""
        return self.leave(Shared, number, digest)

    def commit(self, number: int, digest: bytes, seed_hash: bytes) -> Mined:
        """Record this client's masked update, and the hash of its self-mask seed."""
        return self.leave(Committed, number, digest, seed_hash)

    def vouch(self, number: int, block_hash: bytes, digest: bytes) -> Mined:
        """Record this client's proof that its update is bounded; ``block_hash`` is that of the sketch's block."""
        return self.leave(Vouched, number, block_hash, digest)

    def affirm(self, number: int, block_hash: bytes, word: bytes) -> Mined:
        """Record what this client says of the members whose witness it is, 32 bytes."""
        return self.leave(Affirmed, number, block_hash, word)

    def reveal(self, number: int, block_hash: bytes, digest: bytes) -> Mined:
        """Record points that this client shares with partners; eight times a round at most."""
        return self.leave(Revealed, number, block_hash, digest)

    def release(self, number: int, digest: bytes, block_hash: bytes = bytes(32), stage: int = 0) -> Mined:
        """Record the shares that this client releases, once in each stage.

        Where updates are bounded, ``block_hash`` is that of the sketch's block; zeros if nobody vouched.
        """
        return self.leave(Released, number, block_hash, digest, stage)

    def close(self, number: int, model_digest: bytes, metrics_digest: bytes) -> Mined:
        """End the round with the next global model."""
        return self.leave(Closed, number, model_digest, metrics_digest)

    def fail(self, number: int) -> Mined:
        """End an overdue round, or one in which too few committed, without a model."""
        return self.leave(Failed, number)

    def judge(self, number: int, asked: Phase, model_digest: bytes, metrics_digest: bytes) -> Mined:
        """Say what a round should come to, zeros for nothing; for a client that committed in it, once each.

        ``asked`` is RECOVER before its closing, when only zeros are taken, and CLOSED after it.
        """
        return self.leave(Judged, number, int(asked), model_digest, metrics_digest)

    # --- reading ----------------------------------------------------------------------------------------------------

    def current_round(self) -> int:
        """Number of the latest round, 0 before the first."""
        return self._ledger.call("currentRound")

    def current_model(self) -> bytes:
        """Digest of the model in force, zero before the first round."""
        return self._ledger.call("currentModel")

    def round(self, number: int) -> RoundView:
        """One round as it stands in the latest block."""
        phase, *rest = self._ledger.call("round", number)
        rest.insert(_BLOCKS, Phase(phase))
        return RoundView(*rest)

    def client_of(self, account: str) -> ClientView:
        """The registry's entry of an account."""
        return ClientView(*self._registry.call("clientOf", to_checksum_address(account)))

    def idle_in(self, account: str) -> int:
        """The latest round whose opening listed the account as idle, 0 for none."""
        return self._ledger.call("idleIn", account)

    def is_struck(self, account: str) -> bool:
        """Whether a closing of the account was replaced or voided."""
        return self._ledger.call("isStruck", account)

    def holds_vrf_key(self, keys: Keys) -> bool:
        """Whether the registry has this VRF key for this account; if not, a rotation was begun and not finished."""
        x, y = vrf.coordinates(keys.vrf_public)
        return self.client_of(keys.address).key_tag == key_tag(x, y)

    def block_hash(self, number: int) -> bytes:
        """Hash of a block that ``records`` has read, 32 bytes; proven."""
        return self._index.block_hash(number)

    def block_randomness(self, number: int) -> bytes:
        """The RANDAO mix in the header of a block that ``records`` has read, 32 bytes; proven."""
        return self._index.randomness(number)

    def confirmed_block(self, confirmations: int = 0) -> int:
        """The latest block that ``records`` has read on which at least ``confirmations`` blocks lie."""
        return max(0, self._index.head - confirmations)

    def records(self, since: Position | None = None) -> list[Record]:
        """All records of both contracts in the order of the chain, or those after ``since``. Reads only new blocks.

        Each is proven to be the chain's, and signed by its author, up to the latest block that the endpoints agree on.
        """
        records = self._index.records()
        if since is None:
            return records
        after = (since.block, since.log_index)
        return [record for record in records if (record.at.block, record.at.log_index) > after]

    def forget(self) -> None:
        """Read all records anew at the next call, from another endpoint if there is one: those at hand break a rule."""
        self._index.forget()
        self._network.distrust("returns records that a ledger cannot hold")

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self, contract: Contract, data: bytes, gas: int) -> Mined:
        if self._sender is None:
            raise ChainError("This facade only reads; construct Ledger with an account to send transactions.")
        return self._sender.transact(contract.address, data, gas)

    def _possession(self, keys: Keys) -> bytes:
        alpha = tree.registration_alpha(self.chain_id, self.deployment.registry, keys.address)
        return vrf.hints(keys.vrf_public, vrf.prove(keys.vrf, alpha), alpha)

    def _seal_in_chunks(self, number: int, ordered: Sequence[int], header: bytes) -> Mined:
        placed = self._ledger.call("placedSoFar", number, self._sender.address) if self._sender else 0
        # The last ticket is sent again when all are placed, so that the ledger says in which phase the round is.
        for start in range(min(placed, len(ordered) - 1), len(ordered), MAX_CHUNK):
            chunk = ordered[start : start + MAX_CHUNK]
            data = self._ledger.data("sealChunk", number, _pack(chunk), header)
            receipt = self._send(self._ledger, data, CHUNK_GAS + CHUNK_GAS_PER_CLIENT * len(chunk))
        return receipt


def _pack(tickets: Sequence[int]) -> bytes:
    return b"".join(ticket.to_bytes(16, "big") for ticket in tickets)
