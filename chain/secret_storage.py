"""Web3 secret storage, version 3: bytes under a password, by scrypt, AES-128-CTR and a Keccak MAC.

The format that Ethereum wallets read. The MAC covers the ciphertext but not the initialisation vector, so whoever opens
a seal must be able to tell the right plaintext from a garbled one.
"""

import hashlib
import hmac
import os
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from eth_utils import keccak
from fedgrove.chain.errors import KeystoreError, WrongPassword

STANDARD_COST = 1 << 18
MAX_SECRET_BYTES = 1 << 16
_BLOCK_SIZE, _PARALLEL, _KEY_BYTES = 8, 1, 32
MAX_WORK = STANDARD_COST * _BLOCK_SIZE * _PARALLEL
"""Largest n·r·p that is computed: that of the keystores which this writes (a second, and 128·n·r = 256 MiB)."""
MAX_BLOCKS = 64
"""Largest r·p: scrypt hashes 128·r·p bytes before and after its real work."""


def seal(secret: bytes, password: str, cost: int = STANDARD_COST) -> dict[str, Any]:
    """The ``crypto`` object of a version 3 file. ``cost`` is scrypt's N, a power of two; memory is 1 KiB · N."""
    if not password:
        raise KeystoreError("An empty password protects nothing; give one of at least one character.")
    salt, vector = os.urandom(32), os.urandom(16)
    key = _derive(password, salt, cost, _BLOCK_SIZE, _PARALLEL)
    ciphertext = _aes_ctr(key[:16], vector, secret)
    return {
        "cipher": "aes-128-ctr",
        "cipherparams": {"iv": vector.hex()},
        "ciphertext": ciphertext.hex(),
        "kdf": "scrypt",
        "kdfparams": {"dklen": _KEY_BYTES, "n": cost, "p": _PARALLEL, "r": _BLOCK_SIZE, "salt": salt.hex()},
        "mac": keccak(key[16:] + ciphertext).hex(),
    }


def unseal(crypto: Any, password: str) -> bytes:
    """The secret in a ``crypto`` object.

    Raises
    ------
    WrongPassword
        The MAC, compared in constant time, does not fit: the password is wrong or the file was altered.
    KeystoreError
        Not a version 3 ``crypto`` object with scrypt, or scrypt parameters that would exhaust the machine.
    """
    try:
        if (crypto["cipher"], crypto["kdf"]) != ("aes-128-ctr", "scrypt"):
            raise KeystoreError("The keystore uses a cipher or key derivation other than aes-128-ctr with scrypt.")
        ciphertext, mac = bytes.fromhex(crypto["ciphertext"]), bytes.fromhex(crypto["mac"])
        vector, parameters = bytes.fromhex(crypto["cipherparams"]["iv"]), crypto["kdfparams"]
        salt = bytes.fromhex(parameters["salt"])
        cost, block, parallel = (_whole(parameters[name]) for name in "nrp")
        well_formed = parameters["dklen"] == _KEY_BYTES and len(vector) == 16 and len(ciphertext) <= MAX_SECRET_BYTES
    except (KeyError, TypeError, ValueError):
        well_formed = False
    if not well_formed:
        raise KeystoreError("The keystore is not web3 secret storage, version 3; restore it from its backup.")
    key = _derive(password, salt, cost, block, parallel)
    if not hmac.compare_digest(keccak(key[16:] + ciphertext), mac):
        raise WrongPassword("The password is wrong, or the keystore file was altered; try the password again.")
    return _aes_ctr(key[:16], vector, ciphertext)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("not a whole number")
    return value


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    # A file may come from anybody, and its parameters say how much memory and time it takes to open it.
    if min(cost, block, parallel) < 1 or block * parallel > MAX_BLOCKS or cost * block * parallel > MAX_WORK:
        raise KeystoreError(
            "The keystore asks for too much memory or time: its scrypt parameters must be above 0, with "
            f"n * r * p at most {MAX_WORK} and r * p at most {MAX_BLOCKS}; restore it from its backup."
        )
    if cost < 2 or cost & (cost - 1):
        raise KeystoreError(
            f"The keystore's scrypt parameter n = {cost} is not a power of two; restore it from its backup."
        )
    try:
        secret = password.encode()
    except UnicodeEncodeError:
        raise WrongPassword("The password is not valid Unicode; try again.") from None
    memory = 128 * block * (cost + parallel + 2)
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=memory + (1 << 20), dklen=_KEY_BYTES)


def _aes_ctr(key: bytes, vector: bytes, data: bytes) -> bytes:
    stream = Cipher(algorithms.AES128(key), modes.CTR(vector)).encryptor()
    return stream.update(data) + stream.finalize()
