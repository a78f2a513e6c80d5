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

from chain.errors import KeystoreError, WrongPassword

STANDARD_COST = 1 << 18
MAX_COST = 1 << 20
MAX_MEMORY_BYTES = 1 << 31
MAX_SECRET_BYTES = 1 << 16
_BLOCK_SIZE, _PARALLEL, _KEY_BYTES = 8, 1, 32


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
        raise KeystoreError("The keystore is no web3 secret storage of version 3; restore it from its backup.")
    key = _derive(password, salt, cost, block, parallel)
    if not hmac.compare_digest(keccak(key[16:] + ciphertext), mac):
        raise WrongPassword("The password does not open the keystore, or the file was altered; try the password again.")
    return _aes_ctr(key[:16], vector, ciphertext)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("not a whole number")
    return value


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 128 * block * (cost + parallel + 2)
    power_of_two = 1 < cost <= MAX_COST and cost & (cost - 1) == 0
    if not (power_of_two and 1 <= block <= 64 and 1 <= parallel <= 16 and memory <= MAX_MEMORY_BYTES):
        raise KeystoreError(f"Scrypt with n={cost}, r={block}, p={parallel} is refused; use n = 2^18, r = 8, p = 1.")
    return hashlib.scrypt(
        password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=memory + (1 << 20), dklen=_KEY_BYTES
    )


def _aes_ctr(key: bytes, vector: bytes, data: bytes) -> bytes:
    stream = Cipher(algorithms.AES128(key), modes.CTR(vector)).encryptor()
    return stream.update(data) + stream.finalize()
