"""Transactions as no library makes them: every type, odd contents of unused fields, odd encodings of calldata."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rlp
from eth_abi import encode
from eth_keys.datatypes import PrivateKey
from eth_utils import keccak, to_canonical_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.network.access import Network
from fedgrove.chain.records.abi import functions
from fedgrove.chain.records.signed_draws import SignedDraw

GAS = 3_000_000
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
    """Makes odd transactions for any account of one chain; the same ``random`` makes the same ones.

    ``taken`` counts the transactions that took effect, by their kind.
    """

    network: Network
    random: random.Random
    kinds: tuple[str, ...] = KINDS
    taken: dict[str, int] = field(default_factory=dict)

    # --- transactions -----------------------------------------------------------------------------------------------

    def send(self, account: Account, to: str, data: bytes, kind: str = "", gas: int = GAS) -> bool:
        """Send it as a transaction of some kind; whether it took effect."""
        kind = kind or self.random.choice(self.kinds)
        raw = self.signed(account, to, data, kind, gas)
        self.network.send(raw)
        while (mined := self.network.mined(keccak(raw))) is None:
            pass
        self.taken[kind] = self.taken.get(kind, 0) + mined.succeeded
        return mined.succeeded

    def signed(self, account: Account, to: str, data: bytes, kind: str, gas: int = GAS) -> bytes:
        """The EIP-2718 encoding."""
        nonce, chain_id, target = self.network.nonce(account.address), self.network.chain_id, to_canonical_address(to)
        key = PrivateKey(bytes(account.key))
        if kind in (LEGACY, UNPROTECTED):
            content = [nonce, FEE, gas, target, 0, data]
            domain = [chain_id, 0, 0] if kind == LEGACY else []
            v, r, s = key.sign_msg_hash(keccak(rlp.encode([*content, *domain]))).vrs
            return rlp.encode([*content, v + (35 + 2 * chain_id if domain else 27), r, s])
        number = {ACCESS_LIST: 1, DYNAMIC_FEE: 2, BLOB: 3, SET_CODE: 4}[kind]
        prices = [FEE] if kind == ACCESS_LIST else [0, FEE]
        content = [chain_id, nonce, *prices, gas, target, 0, data, self._access_list()]
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
        chain_id = self.random.choice([0, self.network.chain_id, 5])
        content = [chain_id, self.random.randbytes(20), self.random.choice([0, 7])]
        if self.random.random() < 0.5:
            signer = PrivateKey(self.random.randbytes(32))
            return [*content, *signer.sign_msg_hash(keccak(b"\5" + rlp.encode(content))).vrs]
        return [*content, self.random.randint(0, 255), self.random.getrandbits(256), self.random.getrandbits(250)]

    # --- calldata ---------------------------------------------------------------------------------------------------

    def call(self, contract: str, function: str, *arguments: Any) -> bytes:
        """Calldata with dynamic arguments anywhere, gaps between them, no padding behind the last, or some rubbish."""
        found = functions(contract)[function]
        typed = list(zip(found.inputs, arguments, strict=True))
        tails = [place for place, (kind, _) in enumerate(typed) if kind == "bytes" or kind.endswith("[]")]
        parts = [
            _tail(kind, value) if place in tails else encode([kind], [value])
            for place, (kind, value) in enumerate(typed)
        ]
        self.random.shuffle(tails)
        body, offsets = b"", {}
        for place in tails:
            body += self._gap()
            offsets[place] = WORD * len(parts) + len(body)
            body += parts[place]
        head = b"".join(_word(offsets[place]) if place in offsets else part for place, part in enumerate(parts))
        return found.selector + head + body + self.rubbish()

    def batch(self, number: int, items: Sequence[SignedDraw]) -> bytes:
        """Calldata of a batch whose array, structs and byte strings lie in any order, pointing backwards, too."""
        pieces: list[tuple[Any, bytes]] = [("array", bytes(WORD * (len(items) + 1)))]
        for index, item in enumerate(items):
            pieces += [((index, "struct"), bytes(WORD * 8)), ((index, 6), _counted(item.message))]
            pieces += [((index, 7), _counted(item.signature))]
        self.random.shuffle(pieces)
        places, body = {}, b""
        for name, piece in pieces:
            body += self._gap()
            places[name] = 2 * WORD + len(body)
            body += piece
        words = {0: number, WORD: places["array"], places["array"]: len(items)}
        first = places["array"] + WORD
        for index, item in enumerate(items):
            start = places[index, "struct"]
            words[first + WORD * index] = start - first
            fixed = (int(item.account, 16), item.vrf_x, item.vrf_y, item.mask_key, item.seal_key, item.samples)
            words |= {start + WORD * place: value for place, value in enumerate(fixed)}
            words |= {start + WORD * place: places[index, place] - start for place in (6, 7)}
        data = bytearray(bytes(2 * WORD) + body)
        for place, value in words.items():
            data[place : place + WORD] = value if isinstance(value, bytes) else _word(value)
        return functions("TrainingLedger")["drawBatch"].selector + bytes(data) + self.rubbish()

    def _gap(self) -> bytes:
        return self.random.randbytes(self.random.choice([0, 0, 1, 31, 32, 100]))

    def rubbish(self) -> bytes:
        """What may follow the arguments."""
        return self.random.randbytes(self.random.choice([0, 0, 0, 1, 33, 500]))


def _word(value: int) -> bytes:
    return (value % (1 << 256)).to_bytes(WORD, "big")


def _tail(kind: str, value: Any) -> bytes:
    """What the offset of a dynamic argument points to."""
    return _counted(value) if kind == "bytes" else encode([kind], [value])[WORD:]


def _counted(content: bytes) -> bytes:
    return _word(len(content)) + content
