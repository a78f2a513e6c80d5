"""Block hashes for a chain whose EVM has none: a contract in its genesis, at the address of EIP-2935, that is fed.

On `injectived` 1.20.1 BLOCKHASH is zero for every block: the chain keeps the headers of past blocks without a version,
and then refuses to hash them. A ledger takes hashes that BLOCKHASH lacks from the contract of EIP-2935. That one is
filled by the client itself on a chain that has it; ours is filled by one account, once for each block.

Whoever feeds it could choose a round's seed, so it is as good as nothing until somebody compares: clients and auditors
do, with the hash that their own node gives.
"""

from base64 import b64encode

from eth_utils import keccak, to_canonical_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.network.access import Network
from fedgrove.chain.network.transactions import sender_of

HISTORY = "0x0000F90827F1C53a10cb7A02335B175320002935"
FEED_GAS = 100_000


def history_code(feeder: str) -> bytes:
    """Code that returns the word stored at the one in its calldata, or, given two, stores the second at the first."""
    return bytes.fromhex(
        "3660201460" + "2e57"  # 32 bytes of calldata: read, at 0x2e
        "73" + to_canonical_address(feeder).hex() + "3318"  # not zero for anybody but the feeder,
        "6000355417" + "603b57"  # or where something is stored: revert, at 0x3b
        "60203560003555" + "00"
        "5b600035546000526020" + "6000f3"
        "5b60006000fd"
    )


def code_hash(code: bytes) -> str:
    """How a genesis states the hash of an account's code."""
    return b64encode(keccak(code)).decode()


class Feeder:
    """Feeds the contract with the hashes that a node gives."""

    def __init__(self, network: Network, account: Account) -> None:
        self._network = network
        self._sender = sender_of(network, account)

    def feed(self, number: int) -> None:
        """Wait for a block, and hand its hash in; a second time it changes nothing."""
        self._network.advance_to(number)
        key = number.to_bytes(32, "big")
        if not any(self._network.call(HISTORY, key)):
            self._sender.transact(HISTORY, key + self._network.block_hash(number), FEED_GAS)
