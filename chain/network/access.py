"""The interface behind the facade: what this package requires of any chain."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from fedgrove.chain.errors import ChainError
from fedgrove.chain.network.blocks import MIX_FIELD, Body, header_fields
from fedgrove.chain.network.fees import FeeHistory
from fedgrove.chain.records import Log

if TYPE_CHECKING:
    from web3 import Web3

GWEI = 10**9
MAX_FEE_GWEI = 500.0
MAX_TIP_GWEI = 3.0
RESEND_SECONDS = 30.0

_Shared = TypeVar("_Shared")


@dataclass(frozen=True, slots=True)
class Payer:
    """Whom a call is made for: the checksummed account, its limit of gas, its price of a unit in wei."""

    account: str
    gas: int
    price: int


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction in a block, whether or not it took effect; ``contract`` is the address that it created."""

    transaction: bytes
    block: int
    gas_used: int
    succeeded: bool
    contract: str | None


@dataclass(frozen=True, slots=True)
class Paid:
    """What a transaction in a block cost: its checksummed sender, gas, and the whole fee in wei."""

    sender: str
    gas_used: int
    fee: int


class Network(ABC):
    """A chain that one can read, send to and, if it is a test chain, mine on. Use it as a context manager.

    Attributes
    ----------
    web3 : Web3
        For whatever this interface lacks.
    chain_id : int
        As in every transaction's signature.
    can_mine : bool
        Whether a block comes with each transaction, and others when ``mine`` asks for them; true for test chains only.
    poll_seconds : float
        Pause between two looks for a receipt or a block.
    max_fee : int
        The most that a transaction offers for a unit of gas, in wei.
    max_tip : int
        The most of it that is offered to the maker of the block beyond the base fee.
    resend_seconds : float
        After so long in no block a transaction is sent again with higher fees.
    head_tolerance : int
        By this many blocks the latest block may go back without any having been abandoned: with several nodes, the one
        that is asked next may be a little behind.
    proofs : str
        How records are proven: ``headers`` by the headers of their blocks, ``endpoints`` by the word of several.
    """

    web3: "Web3"
    chain_id: int
    can_mine: bool
    poll_seconds: float = 0.0
    max_fee: int = int(MAX_FEE_GWEI * GWEI)
    max_tip: int = int(MAX_TIP_GWEI * GWEI)
    resend_seconds: float = RESEND_SECONDS
    head_tolerance: int = 0
    proofs: str = "headers"

    def __init__(self) -> None:
        self._sharing = threading.Lock()
        self._shared: dict[Hashable, object] = {}

    # --- reading ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def block_number(self) -> int:
        """Number of the latest block."""

    def known_head(self) -> int:
        """Number of the latest block as of the last answer that stated one, ``nonce`` among them; asks no node."""
        return self.block_number()

    @abstractmethod
    def block_hash(self, number: int) -> bytes:
        """Hash of a block, 32 bytes."""

    def agreed_head(self) -> tuple[int, bytes]:
        """Number and hash of the latest block on which as many endpoints agree as must (``RpcNetwork.quorum``)."""
        number = self.block_number()
        return number, self.block_hash(number)

    def agreed_block(self, number: int) -> tuple[bytes, bytes]:
        """Hash and RANDAO mix of a block, 32 bytes each, as endpoints state them that agree as in ``agreed_head``."""
        return self.block_hash(number), header_fields(number, self.headers(number, number)[0])[MIX_FIELD]

    def agreed_logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        """``logs``, as endpoints state them that agree as in ``agreed_head``."""
        return self.logs(first, last, addresses)

    @abstractmethod
    def signed_transaction(self, transaction: bytes) -> bytes:
        """EIP-2718 encoding of the transaction with this hash."""

    @abstractmethod
    def block_time(self, number: int) -> int:
        """When a block was made, in seconds since 1970 by its maker's clock."""

    @abstractmethod
    def call(self, to: str, data: bytes, payer: Payer | None = None, block: int | None = None) -> bytes:
        """Result of a call upon a block, by default the latest. Raises ContractRevert."""

    @abstractmethod
    def code(self, address: str) -> bytes:
        """Code of a contract, empty for other accounts."""

    @abstractmethod
    def balance(self, address: str) -> int:
        """Balance in wei."""

    @abstractmethod
    def nonce(self, address: str) -> int:
        """Nonce of the account's next transaction, those in blocks counted, pending ones not."""

    @abstractmethod
    def base_fee(self) -> int:
        """Base fee of the latest block, in wei a unit of gas."""

    def fees(self) -> FeeHistory:
        """Fees of recent blocks; of the latest block alone where the chain states no others."""
        return FeeHistory(self.base_fee())

    def price(self) -> int:
        """What a unit of gas costs now: base fee and tip, in wei."""
        fees = self.fees()
        return fees.base + min(fees.tip, self.max_tip)

    @abstractmethod
    def logs(self, first: int, last: int, addresses: Sequence[str]) -> list[Log]:
        """Logs of these contracts in blocks first to last, both included, in the order of the chain."""

    @abstractmethod
    def headers(self, first: int, last: int) -> list[bytes]:
        """RLP of the headers of blocks first to last, both included."""

    @abstractmethod
    def bodies(self, numbers: Sequence[int]) -> list[Body]:
        """Transactions and receipts of these blocks."""

    # --- writing ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def send(self, raw: bytes) -> bytes:
        """Hand in a signed transaction; returns its hash. Raises TransactionRefused or InsufficientFunds."""

    @abstractmethod
    def mined(self, transaction: bytes) -> Mined | None:
        """Receipt of a transaction; None while it is not in a block."""

    @abstractmethod
    def paid(self, transactions: Sequence[bytes]) -> list[Paid | None]:
        """What these transactions cost, in their order; None where the node has no receipt. Nothing of it is proven."""

    @abstractmethod
    def knows(self, transaction: bytes) -> bool:
        """Whether the node has a transaction, in a block or waiting for one."""

    @abstractmethod
    def fund(self, address: str, ether: float) -> None:
        """Give an account test ether; on a chain that has none to give, raise InsufficientFunds."""

    @abstractmethod
    def mine(self, blocks: int = 1) -> None:
        """Make empty blocks, on a test chain."""

    @property
    def mines_when_asked(self) -> bool:
        """Whether ``mine`` makes blocks, though others may come by time."""
        return self.can_mine

    @property
    def without_blocks(self) -> str:
        """What to do when it makes no blocks, as the end of a sentence."""
        return "check that its node is synchronised, and that those who make its blocks run"

    def distrust(self, reason: str) -> None:  # noqa: B027
        """Leave the endpoint that is asked now for another, if there is one: what it said does not hold together."""

    @abstractmethod
    def close(self) -> None:
        """End what was started and free what is held; twice does no harm."""

    # --- shared by all facades on this chain ------------------------------------------------------------------------

    def advance_to(self, block: int, timeout: float = 600.0) -> None:
        """Return once the latest block is ``block`` or later: mine on a test chain, wait on any other.

        Raises ChainError after ``timeout`` seconds.
        """
        if self.can_mine:
            self.mine(max(0, block - self.block_number()))
            return
        deadline = time.monotonic() + timeout
        while (latest := self.block_number()) < block:
            if time.monotonic() > deadline:
                raise ChainError(
                    f"Waited {timeout:.0f} s for the chain to reach block {block}, but it is at {latest}; "
                    f"if it makes no blocks, {self.without_blocks}."
                )
            time.sleep(self.poll_seconds)

    def shared(self, kind: type[_Shared], key: Hashable, make: Callable[[], _Shared]) -> _Shared:
        """The one object of a kind, by a key, that all facades on this chain use; made when it is asked for first."""
        with self._sharing:
            found = self._shared.setdefault((kind, key), None) or make()
            self._shared[kind, key] = found
        assert isinstance(found, kind)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
