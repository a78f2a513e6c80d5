"""Web3 secret storage, version 3: bytes under a password, by scrypt, AES-128-CTR and a Keccak MAC.

The format that Ethereum wallets read. The MAC covers the ciphertext but not the initialisation vector, so whoever opens
a seal must be able to tell the right plaintext from a garbled one.
"""

import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from eth_utils import keccak

from fedgrove.common.errors import InvalidInput

STANDARD_COST = 1 << 18
MAX_SECRET_BYTES = 1 << 16
_BLOCK_SIZE, _PARALLEL, _KEY_BYTES = 8, 1, 32
MAX_WORK = STANDARD_COST * _BLOCK_SIZE * _PARALLEL
"""Largest n·r·p that is computed: that of the keystores which this writes (a second, and 128·n·r = 256 MiB)."""
MAX_BLOCKS = 64
"""Largest r·p: scrypt hashes 128·r·p bytes before and after its real work."""


class _Parameters(NamedTuple):
    """What scrypt derives a key from, other than the password: its salt, N, r and p."""

    salt: bytes
    cost: int
    block: int
    parallel: int


def seal(secrets: Sequence[bytes], password: str, cost: int = STANDARD_COST) -> list[dict[str, Any]]:
    """The ``crypto`` objects of a version 3 file, in the order of their secrets.

    All are under one key, each with a random counter block of its own: scrypt, which takes nearly all the time, runs
    once. ``cost`` is scrypt's N, a power of two; memory is 1 KiB · N.
    """
    if not password:
        raise InvalidInput("An empty password protects nothing; give one of at least one character.")
    parameters = _Parameters(os.urandom(32), cost, _BLOCK_SIZE, _PARALLEL)
    key = _derive(password, parameters)
    return [_sealed(secret, key, parameters) for secret in secrets]


def _sealed(secret: bytes, key: bytes, parameters: _Parameters) -> dict[str, Any]:
    vector = os.urandom(16)
    ciphertext = _aes_ctr(key[:16], vector, secret)
    salt, cost, block, parallel = parameters
    return {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": vector.hex()},
        "ciphertext": ciphertext.hex(),
        "kdf": "scrypt",
        "kdfparams": {"dklen": _KEY_BYTES, "n": cost, "p": parallel, "r": block, "salt": salt.hex()},
        "mac": keccak(key[16:] + ciphertext).hex(),
    }


def unseal(entries: Sequence[Any], password: str) -> list[bytes]:
    """The secrets in ``crypto`` objects; scrypt runs once for all that share its parameters and salt.

    Raises
    ------
    InvalidInput
        A MAC, compared in constant time, does not fit: the password is wrong or the file was altered.
    InvalidInput
        Not a version 3 ``crypto`` object with scrypt, or scrypt parameters that would exhaust the machine.
    """
    keys: dict[_Parameters, bytes] = {}
    return [_unsealed(crypto, password, keys) for crypto in entries]


def _unsealed(crypto: Any, password: str, keys: dict[_Parameters, bytes]) -> bytes:
    """The secret in one object. ``keys`` are those derived so far, and the object's own is added."""
    try:
        if (crypto["cipher"], crypto["kdf"]) != ("aes-128-ctr", "scrypt"):
            raise InvalidInput("The keystore uses a cipher or key derivation other than aes-128-ctr with scrypt.")
        ciphertext, mac = bytes.fromhex(crypto["ciphertext"]), bytes.fromhex(crypto["mac"])
        vector, given = bytes.fromhex(crypto["cipherparams"]["iv"]), crypto["kdfparams"]
        parameters = _Parameters(bytes.fromhex(given["salt"]), *(_whole(given[name]) for name in "nrp"))
        well_formed = given["dklen"] == _KEY_BYTES and len(vector) == 16 and len(ciphertext) <= MAX_SECRET_BYTES
    except (KeyError, TypeError, ValueError):
        well_formed = False
    if not well_formed:
        raise InvalidInput("The keystore is not web3 secret storage, version 3; restore it from its backup.")
    if parameters not in keys:
        keys[parameters] = _derive(password, parameters)
    key = keys[parameters]
    if not hmac.compare_digest(keccak(key[16:] + ciphertext), mac):
        raise InvalidInput("The password is wrong, or the keystore file was altered; try the password again.")
    return _aes_ctr(key[:16], vector, ciphertext)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("not a whole number")
    return value


def _derive(password: str, parameters: _Parameters) -> bytes:
    salt, cost, block, parallel = parameters
    # A file may come from anybody, and its parameters say how much memory and time it takes to open it.
    if min(cost, block, parallel) < 1 or block * parallel > MAX_BLOCKS or cost * block * parallel > MAX_WORK:
        raise InvalidInput(
            "The keystore asks for too much memory or time: its scrypt parameters must be above 0, with "
            f"n * r * p at most {MAX_WORK} and r * p at most {MAX_BLOCKS}; restore it from its backup."
        )
    if cost < 2 or cost & (cost - 1):
        raise InvalidInput(
            f"The keystore's scrypt parameter n = {cost} is not a power of two; restore it from its backup."
        )
    try:
        secret = password.encode()
    except UnicodeEncodeError:
        raise InvalidInput("The password is not valid Unicode; try again.") from None
    memory = 128 * block * (cost + parallel + 2)
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=memory + (1 << 20), dklen=_KEY_BYTES)


def _aes_ctr(key: bytes, vector: bytes, data: bytes) -> bytes:
    stream = Cipher(algorithms.AES128(key), modes.CTR(vector)).encryptor()
    return stream.update(data) + stream.finalize()
