"""Transactions as nobody's library makes them: every type, odd contents of unused fields, odd encodings of calldata."""

import random
from dataclasses import dataclass, field

import rlp
from eth_account.signers.local import LocalAccount
from eth_keys.datatypes import PrivateKey
from eth_utils import keccak, to_canonical_address

from chain.access import Network

GAS = 1_900_000
FEE = 3 * 10**9
WORD = 32
LEGACY, UNPROTECTED, ACCESS_LIST, DYNAMIC_FEE, BLOB, SET_CODE = KINDS = (
    "legacy",
    "legacy without chain id",
    "access list",
    "dynamic fee",
    "blob",
    "set code",
)


@dataclass
class Odd:
    """Makes odd transactions for any account of one chain; the same ``random`` makes the same ones."""

    network: Network
    random: random.Random
    kinds: tuple[str, ...] = KINDS
    sent: dict[str, int] = field(default_factory=dict)

    def send(self, account: LocalAccount, to: str, data: bytes, kind: str = "") -> bool:
        """Send it as a transaction of some kind; whether it took effect."""
        kind = kind or self.random.choice(self.kinds)
        raw = self.signed(account, to, data, kind)
        mined = self.network.mined(self.network.send(raw))
        while mined is None:
            mined = self.network.mined(keccak(raw))
        self.sent[kind] = self.sent.get(kind, 0) + mined.succeeded
        return mined.succeeded

    def signed(self, account: LocalAccount, to: str, data: bytes, kind: str) -> bytes:
        """The EIP-2718 encoding."""
        nonce, chain_id, target = self.network.nonce(account.address), self.network.chain_id, to_canonical_address(to)
        key = PrivateKey(bytes(account.key))
        if kind in (LEGACY, UNPROTECTED):
            content = [nonce, FEE, GAS, target, 0, data]
            domain = [chain_id, 0, 0] if kind == LEGACY else []
            v, r, s = key.sign_msg_hash(keccak(rlp.encode([*content, *domain]))).vrs
            return rlp.encode([*content, v + (35 + 2 * chain_id if domain else 27), r, s])
        number = {ACCESS_LIST: 1, DYNAMIC_FEE: 2, BLOB: 3, SET_CODE: 4}[kind]
        prices = [FEE] if kind == ACCESS_LIST else [0, FEE]
        content = [chain_id, nonce, *prices, GAS, target, 0, data, self._access_list()]
        if kind == BLOB:
            content += [FEE, [b"\1" + self.random.randbytes(31)]]
        if kind == SET_CODE:
            content += [[self._authorization() for _ in range(self.random.randint(1, 3))]]
        v, r, s = key.sign_msg_hash(keccak(bytes([number]) + rlp.encode(content))).vrs
        return bytes([number]) + rlp.encode([*content, v, r, s])

    def _access_list(self) -> list:
        some = range(self.random.randint(0, 3))
        return [[self.random.randbytes(20), [self.random.randbytes(32) for _ in some]] for _ in some]

    def _authorization(self) -> list:
        """An EIP-7702 tuple: signed by somebody, or by nobody, for this chain or any."""
        content = [
            self.random.choice([0, self.network.chain_id, 5]),
            self.random.randbytes(20),
            self.random.choice([0, 7]),
        ]
        if self.random.random() < 0.5:
            signer = PrivateKey(self.random.randbytes(32))
            return [*content, *signer.sign_msg_hash(keccak(b"\5" + rlp.encode(content))).vrs]
        return [*content, self.random.randint(0, 255), self.random.getrandbits(256), self.random.getrandbits(250)]
