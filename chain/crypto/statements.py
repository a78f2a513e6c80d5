"""Statements that an account signs and that travel as files, in one line of canonical JSON."""

from typing import Any, ClassVar, Self

from eth_utils import is_checksum_address

from fedgrove.chain.crypto.account import Account
from fedgrove.chain.crypto.signatures import is_signed_by, sign_message
from fedgrove.common.wire import Malformed, Signature, Table


class SignedStatement(Table, frozen=True, kw_only=True, tag_field="format"):
    """A statement of one account.

    Attributes
    ----------
    account : str
        A checksummed address.
    signature : str
        The account's, of ``message``.
    """

    max_bytes: ClassVar[int] = 1 << 12
    account: str
    signature: Signature

    def message(self) -> bytes:
        """The signed bytes; they differ from every transaction and from every other kind of statement."""
        raise NotImplementedError

    @classmethod
    def sign(cls, account: Account, **fields: Any) -> Self:
        """State these fields under an account's signature."""
        bare = cls(account=account.address, signature="", **fields)
        return bare.replace(signature=sign_message(account, bare.message()).hex())

    def to_bytes(self) -> bytes:
        """One line of canonical JSON."""
        return super().to_bytes() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote, with a signature that is the account's; Malformed for anything else."""
        found = super().from_bytes(data)
        signed = is_signed_by(found.account, found.message(), bytes.fromhex(found.signature))
        if not (is_checksum_address(found.account) and signed):
            raise Malformed("its signature is not that of the account it names")
        return found
