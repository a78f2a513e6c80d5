"""Records of the registry and of the contracts themselves: who founded, joined, left, came back or changed keys."""

from dataclasses import dataclass
from types import MappingProxyType

from fedgrove.chain.records.base import Call, Record, record
from fedgrove.chain.records.calldata import list_argument

__all__ = [
    "AccountRecord",
    "AdminRecord",
    "Approved",
    "FoundingRecord",
    "LedgerFounded",
    "MailboxKeyRotated",
    "Registered",
    "RegistryFounded",
    "Resumed",
    "Revoked",
    "VrfKeyRotated",
    "Withdrawn",
]


@dataclass(frozen=True, slots=True)
class FoundingRecord(Record):
    """A contract was created."""

    FIELD = "founding"


@record
class RegistryFounded(FoundingRecord):
    """The registry was created."""

    CONTRACT = "ClientRegistry"
    TITLE = "Registry created"


@record
class LedgerFounded(FoundingRecord):
    """The ledger was created."""

    TITLE = "Ledger created"


@dataclass(frozen=True, slots=True)
class AccountRecord(Record):
    """A record of the registry by an account about itself."""

    CONTRACT = "ClientRegistry"

    account: str
    client: int

    def follows_from(self, call: Call) -> bool:
        return call.sender == self.account and self.is_argument_of(call)


@record
class Registered(AccountRecord):
    """A client joined; drawable in rounds opened from block ``active_from`` on. ``proof`` is of possession."""

    CALLS = ("register",)
    LEAVES = MappingProxyType({"register": "(Registered )?"})
    GAS = 400_000
    FIELD = "registration"
    TITLE = "Registration"

    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int
    proof: bytes


@record
class Resumed(AccountRecord):
    """A client that was idle takes part again, with the keys that it has."""

    CALLS = ("resume",)
    GAS = 120_000
    FIELD = "return"
    TITLE = "Return"

    active_from: int


@record
class VrfKeyRotated(AccountRecord):
    """A client replaced its VRF key."""

    CALLS = ("rotateVrfKey",)
    GAS = 400_000
    FIELD = "rotation"
    TITLE = "New VRF key"

    vrf_x: int
    vrf_y: int
    active_from: int
    proof: bytes


@record
class MailboxKeyRotated(AccountRecord):
    """A client replaced its X25519 mailbox key."""

    CALLS = ("rotateMailboxKey",)
    GAS = 120_000
    FIELD = "mailbox rotation"
    TITLE = "New mailbox key"

    mailbox_key: bytes


@record
class Withdrawn(AccountRecord):
    """A client takes back ``points`` of its data points, all that it has if 0; ``digest`` commits to which ones."""

    CALLS = ("withdraw",)
    GAS = 60_000
    FIELD = "withdrawal"
    TITLE = "Withdrawal"

    points: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class AdminRecord(Record):
    """A record of the registry by the federation's admin about an account."""

    CONTRACT = "ClientRegistry"
    GAS = 120_000

    account: str


@record
class Approved(AdminRecord):
    """An account may take part: the terms name it, or the admin lets it in.

    ``active_from`` is the block from which it may be drawn, 0 for one that has not registered. Those that the terms
    name are approved when the registry is founded, or by the founder before the first round.
    """

    CALLS = ("approve",)
    LEAVES = MappingProxyType({"approve": "(Approved )*"})
    GAS = 0
    FIELD = "approval"
    TITLE = "Approval"

    active_from: int

    def follows_from(self, call: Call) -> bool:
        return int(self.account, 16) in list_argument(call.data, 0)


@record
class Revoked(AdminRecord):
    """The admin ends an approval."""

    CALLS = ("revoke",)
    LEAVES = MappingProxyType({"revoke": "(Revoked )?"})
    FIELD = "revocation"
    TITLE = "Approval revoked"
