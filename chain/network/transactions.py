"""Sending transactions: one sender for each account, nonces counted from the chain, gas and fees always stated.

A transaction that stays out of the blocks is sent again at the same nonce with higher fees, and whichever of the
versions is mined counts. What the chain says of an account's nonce always goes before what was counted here: a chain
may abandon blocks, and a process that used the account before this one may have left transactions in the pool. Those
are replaced, not waited for.
"""

import threading
import time
from dataclasses import dataclass, field

from eth_utils import keccak, to_canonical_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.errors import (
    ChainError,
    ContractRevert,
    FeeAboveCap,
    InsufficientFunds,
    NonceConflict,
    TransactionRefused,
    Underpriced,
)
from fedgrove.chain.network.access import GWEI, Mined, Network, Payer
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.network.standstill import Standstill
from fedgrove.chain.records.rlp_bytes import rlp_bytes

_DYNAMIC_FEE = b"\x02"  # EIP-2718 type of EIP-1559's transactions
FEE_BLOCKS = 2
RECEIPT_SECONDS = 120.0
LOOK_SECONDS = 1.0
MAX_PAUSE_SECONDS = 0.5
LOOKS_UNTIL_LOST = 3
KEPT_NONCES = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """The most that is offered for a unit of gas, and the tip in it; in wei."""

    fee: int
    tip: int


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a transaction: recipient (None creates a contract), calldata, limit of gas, value in wei."""

    to: str | None
    data: bytes = field(repr=False)
    gas: int
    value: int


@dataclass(slots=True, eq=False)
class Attempt:
    """A content under way at one nonce, in one or more versions that differ in their fees (wei a unit of gas).

    ``raw`` is the latest version, ``hashes`` are those of all. ``head`` is the chain's height when the fees were last
    looked at, ``lost`` how many looks in a row it seemed lost. ``waiting``: a thread waits for it. ``ended``: it was
    seen in a block, or gave its nonce up.
    """

    content: Content
    nonce: int
    fee: int
    tip: int
    raw: bytes = b""
    hashes: list[bytes] = field(default_factory=list)
    head: int | None = None
    lost: int = 0
    waiting: bool = True
    ended: bool = False

    def raise_fees(self, factor: tuple[int, int], least: Offer, cap: int) -> bool:
        """Multiply fee and tip by the fraction, to at least ``least``; False, and no change, above ``cap``."""
        above, below = factor
        fee = max(-(-self.fee * above // below), min(least.fee, cap))
        if fee > cap:
            return False
        self.fee, self.tip = fee, min(fee, max(-(-self.tip * above // below), least.tip))
        return True

    def sign(self, account: Account, chain_id: int) -> None:
        """Make ``raw`` with the fees of now."""
        self.raw = signed(account, chain_id, self.nonce, Offer(self.fee, self.tip), self.content)
        self.hashes.append(keccak(self.raw))


def signed(account: Account, chain_id: int, nonce: int, offer: Offer, content: Content) -> bytes:
    """A transaction of type 2 without an access list (EIP-1559), signed, as it is sent."""
    to = to_canonical_address(content.to) if content.to is not None else b""
    head = [chain_id, nonce, offer.tip, offer.fee, content.gas, to, content.value, content.data, []]
    parity, r, s = account.sign(keccak(_DYNAMIC_FEE + rlp_bytes(head)))
    return _DYNAMIC_FEE + rlp_bytes([*head, parity, r, s])


class Sender:
    """Signs and sends for one account; safe to share among threads."""

    def __init__(self, network: Network, account: Account) -> None:
        self._network = network
        self._account = account
        self._lock = threading.Lock()
        self._attempts: dict[int, Attempt] = {}
        self._fees: tuple[int, FeeHistory] | None = None

    @property
    def address(self) -> str:
        """The account's checksummed address."""
        return self._account.address

    def next_nonce(self) -> int:
        """The nonce of the next transaction."""
        with self._lock:
            return self._next_nonce()

    def transact(
        self, to: str | None, data: bytes, gas: int, timeout: float = RECEIPT_SECONDS, value: int = 0
    ) -> Mined:
        """Send a transaction and wait until it is in a block; ``to`` is None for the creation of a contract.

        ``gas`` is its limit, ``value`` in wei, ``timeout`` in seconds. After an error other than ContractRevert the
        same call may be made again: if what was sent then is still in the pool, it is waited for, not sent twice.

        Raises
        ------
        ContractRevert
            The contract refused it; the error says why.
        ChainError
            It is in no block after ``timeout`` seconds, and may still get there; or another transaction took its nonce,
            or the chain abandoned an earlier one that it needs.
        FeeAboveCap
            The chain asks for more than the network's ``max_fee``; nothing was sent.
        """
        content = Content(to, data, gas, value)
        attempt = self._resume(content) or self._send(content)
        try:
            mined = self._wait(attempt, timeout)
        finally:
            attempt.waiting = False
        if not mined.succeeded:
            raise self._reason(attempt, mined)
        return mined

    # --- sending ----------------------------------------------------------------------------------------------------

    def _resume(self, content: Content) -> Attempt | None:
        """The attempt that nobody waits for any more, if the same content is still in the pool."""
        with self._lock:
            for attempt in self._attempts.values():
                unresolved = attempt.content == content and not attempt.waiting and not attempt.ended
                if unresolved and self._is_known(attempt) and not self._find(attempt):
                    attempt.waiting, attempt.lost = True, 0
                    return attempt
        return None

    def _send(self, content: Content) -> Attempt:
        with self._lock:
            try:
                return self._send_once(content)
            except NonceConflict:
                # Another process sent from this account: count anew, once.
                return self._send_once(content)

    def _send_once(self, content: Content) -> Attempt:
        nonce = self._next_nonce()  # and with it the chain's height, for which fees are good
        offer = self._offer(self._fees_now().tip)
        attempt = Attempt(content, nonce, offer.fee, offer.tip)
        try:
            self._submit(attempt)
        except (TransactionRefused, InsufficientFunds, FeeAboveCap):
            raise
        except ChainError:
            # It may have got there, so it is known to a later call.
            attempt.waiting = False
            self._attempts[attempt.nonce] = attempt
            raise
        self._attempts[attempt.nonce] = attempt
        return attempt

    def _submit(self, attempt: Attempt) -> None:
        """Send it; where the pool wants more, as for replacing what an earlier process left, double the fees."""
        while True:
            attempt.sign(self._account, self._network.chain_id)
            try:
                self._network.send(attempt.raw)
                return
            except Underpriced:
                least = Offer(0, min(self._fees_now().urgent_tip, self._network.max_tip))
                self._fees = None
                if not attempt.raise_fees((2, 1), least, self._network.max_fee):
                    raise FeeAboveCap(
                        f"The node wants more than {attempt.fee / GWEI:g} gwei for a transaction at nonce "
                        f"{attempt.nonce} of {self.address}; raise max_fee_gwei ({self._cap()}), or wait until the "
                        "pending ones are mined."
                    ) from None

    def _next_nonce(self) -> int:
        """The lowest nonce that the chain has not mined and that nothing known to be under way from here has."""
        nonce = self._network.nonce(self.address)
        self._attempts = {at: attempt for at, attempt in self._attempts.items() if at >= nonce - KEPT_NONCES}
        while (attempt := self._attempts.get(nonce)) is not None and (attempt.waiting or self._is_known(attempt)):
            nonce += 1
        return nonce

    def _is_known(self, attempt: Attempt) -> bool:
        return any(self._network.knows(sent) for sent in reversed(attempt.hashes))

    def _fees_now(self) -> FeeHistory:
        """Fees of the latest block, or of one shortly before: empty blocks each take an eighth off the base fee."""
        head = self._network.known_head()
        if self._fees is None or not 0 <= head - self._fees[0] <= FEE_BLOCKS:
            self._fees = (head, self._network.fees())
        return self._fees[1]

    def _offer(self, tip: int) -> Offer:
        """Twice the base fee and a tip, at most the caps: good for five full blocks in a row."""
        base, cap = self._fees_now().base, self._network.max_fee
        if base > cap:
            self._fees = None
            raise FeeAboveCap(
                f"The chain's base fee of {base / GWEI:g} gwei is above the limit of {self._cap()}; raise "
                "max_fee_gwei, or wait until fees fall."
            )
        tip = min(tip, self._network.max_tip, cap)
        return Offer(min(cap, 2 * base + tip), tip)

    def _cap(self) -> str:
        return f"{self._network.max_fee / GWEI:g} gwei"

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self, attempt: Attempt, timeout: float) -> Mined:
        now = time.monotonic()
        deadline, next_look, next_resend = now + timeout, now + LOOK_SECONDS, now + self._network.resend_seconds
        pause = self._network.poll_seconds
        standing = Standstill(self._network)
        while (mined := self._network.mined(attempt.hashes[-1])) is None:
            now = time.monotonic()
            if now > deadline:
                raise self._too_late(attempt, timeout)
            if warning := standing.note(self._network.known_head()):
                raise ChainError(f"Transaction 0x{attempt.hashes[-1].hex()} waits for a block, but {warning}.")
            if now >= next_look:
                if (mined := self._look(attempt)) is not None:
                    break
                next_look = now + LOOK_SECONDS
            if now >= next_resend:
                self._resend(attempt)
                next_resend = now + self._network.resend_seconds
            time.sleep(pause)
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)
        attempt.ended = True
        return mined

    def _find(self, attempt: Attempt) -> Mined | None:
        """Whichever version is in a block."""
        return next(filter(None, map(self._network.mined, reversed(attempt.hashes))), None)

    def _look(self, attempt: Attempt) -> Mined | None:
        """See whether an earlier version was mined, whether it can still be, and that the pool has it."""
        count = self._network.nonce(self.address)
        if count > attempt.nonce and (mined := self._find(attempt)) is not None:
            return mined
        if count > attempt.nonce:
            self._count_lost(attempt, "another transaction used it, so send it again")
        elif self._has_gap(count, attempt):
            self._count_lost(attempt, "an earlier one was lost with blocks that the chain abandoned, so send it again")
        else:
            attempt.lost = 0
            if attempt.head is None:
                attempt.head = self._network.block_number()
            if not self._network.knows(attempt.hashes[-1]):
                self._hand_in(attempt)
        return None

    def _count_lost(self, attempt: Attempt, why: str) -> None:
        # Not at once: after a failover the node may be a block behind the one that was asked before.
        attempt.lost += 1
        if attempt.lost >= LOOKS_UNTIL_LOST:
            attempt.ended = True
            raise ChainError(
                f"Transaction 0x{attempt.hashes[-1].hex()} of {self.address} will not be mined at nonce "
                f"{attempt.nonce}: {why}."
            )

    def _has_gap(self, count: int, attempt: Attempt) -> bool:
        """Whether nothing is under way at a nonce below, without which this one is never mined."""
        with self._lock:
            before = [self._attempts.get(nonce) for nonce in range(count, attempt.nonce)]
            return any(one is None or not (one.waiting or self._is_known(one)) for one in before)

    def _resend(self, attempt: Attempt) -> None:
        """Raise the fees by at least an eighth, up to the caps, unless no block was made that could have taken it."""
        before, attempt.head = attempt.head, self._network.block_number()
        if before is None or attempt.head <= before:
            return
        try:
            least = self._offer(self._fees_now().urgent_tip)
        except FeeAboveCap:
            least = Offer(self._network.max_fee, 0)
        if attempt.raise_fees((9, 8), least, self._network.max_fee):
            attempt.sign(self._account, self._network.chain_id)
            self._hand_in(attempt)

    def _hand_in(self, attempt: Attempt) -> None:
        """Send the latest version; a refusal is not an error, because an earlier version may be mined by now."""
        try:
            self._network.send(attempt.raw)
        except (TransactionRefused, InsufficientFunds):
            return

    def _too_late(self, attempt: Attempt, timeout: float) -> ChainError:
        return ChainError(
            f"Transaction 0x{attempt.hashes[-1].hex()} of {self.address} (nonce {attempt.nonce}, at most "
            f"{attempt.fee / GWEI:g} of {self._cap()}) is in no block after {timeout:g} s; check that the chain makes "
            "blocks, raise max_fee_gwei or max_tip_gwei if its fees are higher, and look it up before you retry."
        )

    def _reason(self, attempt: Attempt, mined: Mined) -> ContractRevert:
        """Ask the chain again, upon the block in which the transaction failed: its number decides the phase."""
        content = attempt.content
        if content.to is None:
            return ContractRevert("")
        payer = Payer(self.address, content.gas, attempt.fee)  # the contracts refuse calls that do not pay the base fee
        for block in (mined.block, None):  # a pruned node has the latest state only
            try:
                self._network.call(content.to, content.data, payer, block)
            except ContractRevert as refusal:
                return refusal
            except ChainError:
                continue
            break
        return ContractRevert("")


def sender_of(network: Network, account: Account) -> Sender:
    """The one sender of an account on a network, which counts its nonces."""
    return network.shared(Sender, account.address, lambda: Sender(network, account))
