"""What the members of a federation with clusters agree on."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedgrove.node.base.strict_tables import InvalidConfig, check_value
from fedgrove.node.methods.procfl.comparing import comparing
from fedgrove.node.methods.procfl.settings import SHOWN, ProCflSettings
from fedgrove.node.protocol.terms import FederationConfig, MethodTerms

MAX_CLUSTERED = 400


@dataclass(frozen=True)
class ProCflTerms(ProCflSettings, MethodTerms):
    """The ``[procfl]`` table of a federation: ProCFL by its members and its coordinator.

    Attributes
    ----------
    psi : str
        How overlaps are found: ``ecdh``, or ``rsa`` as in the paper, which reveals to each client that asks which
        elements are common. With ``ecdh``, ``membership.mode`` must be ``approved``.
    counter : str
        X25519 mailbox key of the coordinator, hexadecimal: with ``ecdh`` only this key opens the answers, and its
        holder counts.
    signer : str
        Address of the coordinator's account: overlaps and scores count only with its signature. Not needed with ``rsa``
        where there are no committees.
    shown : str
        Evidence that a suspected member shows to its committee. ``noised``: a model with noise (``shown_noise``), as in
        the paper; nothing ties it to what was sent. ``upload``: the secret that opens the very upload that is judged,
        which its judges see without noise.
    """

    name: ClassVar[str] = "procfl"

    psi: Literal["ecdh", "rsa"] = "ecdh"
    counter: str = ""
    signer: str = ""
    shown: Literal["upload", "noised"] = "noised"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self.psi in ("ecdh", "rsa"), "psi", "ecdh or rsa", self.psi)
        _check(self.shown in SHOWN, "shown", f"one of {', '.join(SHOWN)}", self.shown)
        fine = len(self.counter) == 64 and set(self.counter) <= set("0123456789abcdef")
        fine = fine or (self.psi == "rsa" and not self.counter)
        _check(fine, "counter", "the coordinator's mailbox key, 64 hexadecimal characters", self.counter)
        fine = re.fullmatch("0x[0-9a-fA-F]{40}", self.signer) or not (self.states or self.signer)
        _check(fine, "signer", "the address of the coordinator's account, 0x and 40 hexadecimal digits", self.signer)

    @property
    def states(self) -> bool:
        """Whether anything is stated: overlaps that the coordinator counted, or how models do on the public set."""
        return self.psi == "ecdh" or self.seats > 0

    @property
    def counter_key(self) -> bytes:
        """The counter's key, 32 bytes."""
        return bytes.fromhex(self.counter)

    @property
    def first_rounds(self) -> int:
        """Rounds before the first that trains: those of comparisons and, for committees, one of label counts."""
        return len(comparing(self.psi).stages) + (self.seats > 0)

    def check(self, config: FederationConfig) -> None:
        """What clusters need of the other terms."""
        table = "where there is a [procfl] table"
        if config.model is None:
            raise InvalidConfig("model is missing: add the [model] table, which says what clusters train")
        check_value(config.privacy is None, "privacy.mechanism", f"none {table}")
        check_value(config.federation.sampling_rate == 1, "federation.sampling_rate", f"1 {table}")
        check_value(config.masking.kappa == 1, "masking.kappa", f"1 {table}: only whole sums of a group are safe")
        check_value(config.masking.masked == "weights", "masking.masked", f"weights {table}")
        fine = config.ledger.max_clients <= MAX_CLUSTERED
        check_value(fine, "ledger.max_clients", f"at most {MAX_CLUSTERED} {table}: all overlaps are stated at once")
        # The counter and one member together learn the label counts of all others.
        apart = self.psi != "ecdh" or config.membership.mode == "approved"
        check_value(apart, "membership.mode", 'approved where procfl.psi is "ecdh": else the counter could be a member')
        least = self.first_rounds + 1
        fine = config.federation.rounds >= least
        check_value(fine, "federation.rounds", f"at least {least} {table}: so many come first")

    def to_table(self) -> dict[str, Any]:
        """The table; without committees nobody shows anything, and where nothing is stated nobody signs."""
        table = dataclasses.asdict(self)
        silent = (() if self.seats else ("shown",)) + (() if self.states else ("signer",))
        return {name: value for name, value in table.items() if name not in silent}


def terms_of(config: FederationConfig) -> ProCflTerms:
    """The ``[procfl]`` table of terms that have one."""
    if not isinstance(config.method, ProCflTerms):
        raise InvalidConfig("these terms have no [procfl] table")
    return config.method


def _check(fine: object, name: str, allowed: str, value: object) -> None:
    if not fine:
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
