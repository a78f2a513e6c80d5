"""Records of the registry and of the contracts themselves: who founded, joined, left, changed keys or was absent."""

from dataclasses import dataclass

from fedgrove.chain.records.base import Call, Record


@dataclass(frozen=True, slots=True)
class RegistryFounded(Record):
    """The registry was created."""

    EVENT = ""
    TITLE = "Registry created"


@dataclass(frozen=True, slots=True)
class LedgerFounded(Record):
    """The ledger was created."""

    EVENT = ""
    TITLE = "Ledger created"


@dataclass(frozen=True, slots=True)
class Registered(Record):
    """A client joined; drawable in rounds opened from block ``active_from`` on. ``proof`` is of possession."""

    EVENT = "i:address i:uint32 uint256 uint256 bytes32 uint64 bytes"
    CALLS = ("register",)
    TITLE = "Registration"

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    mailbox_key: bytes
    active_from: int
    proof: bytes

    def follows_from(self, call: Call) -> bool:
        keys = (self.vrf_x, self.vrf_y, self.mailbox_key)
        return call.sender == self.account and (call.number(0), call.number(1), call.words[2]) == keys


@dataclass(frozen=True, slots=True)
class Approved(Record):
    """The admin lets an account take part."""

    EVENT = "i:address"
    CALLS = ("approve",)
    TITLE = "Approval"

    account: str

    def follows_from(self, call: Call) -> bool:
        return call.words[0][12:].hex() == self.account[2:].lower()


@dataclass(frozen=True, slots=True)
class Revoked(Record):
    """The admin ends an approval."""

    EVENT = "i:address"
    CALLS = ("revoke",)
    TITLE = "Approval revoked"

    account: str

    def follows_from(self, call: Call) -> bool:
        return call.words[0][12:].hex() == self.account[2:].lower()


@dataclass(frozen=True, slots=True)
class VrfKeyRotated(Record):
    """A client replaced its VRF key."""

    EVENT = "i:address i:uint32 uint256 uint256 uint64 bytes"
    CALLS = ("rotateVrfKey",)
    TITLE = "New VRF key"

    account: str
    client: int
    vrf_x: int
    vrf_y: int
    active_from: int
    proof: bytes

    def follows_from(self, call: Call) -> bool:
        return call.sender == self.account and (call.number(0), call.number(1)) == (self.vrf_x, self.vrf_y)


@dataclass(frozen=True, slots=True)
class MailboxKeyRotated(Record):
    """A client replaced its X25519 mailbox key."""

    EVENT = "i:address i:uint32 bytes32"
    CALLS = ("rotateMailboxKey",)
    TITLE = "New mailbox key"

    account: str
    client: int
    mailbox_key: bytes

    def follows_from(self, call: Call) -> bool:
        return call.sender == self.account and call.words[0] == self.mailbox_key


@dataclass(frozen=True, slots=True)
class Withdrawn(Record):
    """A client takes back ``points`` of its data points, all that it has if 0; ``digest`` commits to which ones."""

    EVENT = "i:address i:uint32 uint32 bytes32"
    CALLS = ("withdraw",)
    TITLE = "Withdrawal"

    account: str
    client: int
    points: int
    digest: bytes

    def follows_from(self, call: Call) -> bool:
        return call.sender == self.account and (call.number(0), call.words[1]) == (self.points, self.digest)


@dataclass(frozen=True, slots=True)
class AbsenceRecorded(Record):
    """A client was absent in the latest ended round; ``absences`` counts this one too."""

    EVENT = "i:uint32 uint32"
    CALLS = ("reportAbsences",)
    TITLE = "Absence"

    client: int
    absences: int

    def follows_from(self, call: Call) -> bool:
        return True  # that the client was absent, and in which round, is for the rules
