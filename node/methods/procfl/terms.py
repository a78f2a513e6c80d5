"""Terms of a federation with clusters."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from fedgrove.node.base.strict_tables import InvalidConfig, check_value
from fedgrove.node.methods.procfl.comparing import STAGES
from fedgrove.node.methods.procfl.settings import ProCflSettings
from fedgrove.node.protocol.terms import FederationConfig, MethodTerms, MethodWords

MAX_CLUSTERED = 400
MAX_TASK_LABELS = 10_000


@dataclass(frozen=True)
class ProCflTerms(ProCflSettings, MethodTerms):
    """The ``[procfl]`` table of a federation: ProCFL by its members and its coordinator.

    Attributes
    ----------
    counter : str
        X25519 mailbox key of the coordinator, hexadecimal: only this key opens the answers, and its holder counts
        overlaps. So ``membership.mode`` must not be ``open``.
    signer : str
        Address of the coordinator's account: overlaps and scores count only with its signature.
    labels : int
        How many labels a task's samples have, from 0; 0 for a shipped model, whose classes they are.
    shown : str
        Evidence that a suspected member shows to its committee. ``noised``: a model with noise (``shown_noise``), as in
        the paper; nothing ties it to what was sent. ``upload``: the secret that opens the very upload that is judged,
        which its judges see without noise.
    """

    evaluates: ClassVar[bool] = True
    staged: ClassVar[bool] = True
    bound_to_ledger: ClassVar[str] = "its clusters are of clients by their numbers on one ledger"

    counter: str = ""
    signer: str = ""
    labels: Annotated[int, Meta(ge=0, le=MAX_TASK_LABELS)] = 0
    shown: Literal["upload", "noised"] = "noised"

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = len(self.counter) == 64 and set(self.counter) <= set("0123456789abcdef")
        self.require(fine, "counter", "the coordinator's mailbox key, 64 hexadecimal characters")
        account = "the address of the coordinator's account, 0x and 40 hexadecimal digits"
        self.require(re.fullmatch("0x[0-9a-fA-F]{40}", self.signer), "signer", account)

    @property
    def counter_key(self) -> bytes:
        """The counter's key, 32 bytes."""
        return bytes.fromhex(self.counter)

    @property
    def first_rounds(self) -> int:
        """Rounds before the first that trains: those of comparisons and, for committees, one of label counts."""
        return len(STAGES) + (self.seats > 0)

    def check(self, config: FederationConfig) -> None:
        """Check the requirements of clusters on the other terms."""
        table = "with a [procfl] table"
        self._check_labels(config)
        check_value(config.privacy is None, "privacy.mechanism", f"none {table}")
        check_value(config.federation.sampling_rate == 1, "federation.sampling_rate", f"1 {table}")
        check_value(config.masking.kappa == 1, "masking.kappa", f"1 {table}: only whole sums of a group are safe")
        check_value(config.masking.masked == "weights", "masking.masked", f"weights {table}")
        fine = config.ledger.max_clients <= MAX_CLUSTERED
        check_value(fine, "ledger.max_clients", f"at most {MAX_CLUSTERED} {table}: all overlaps are stated at once")
        # The counter and one member together learn the label counts of all others.
        fine = config.membership.mode != "open"
        check_value(fine, "membership.mode", f"named or approved {table}: otherwise the counter could be a member")
        fine = self.signer not in config.membership.members
        check_value(
            fine, "membership.members", f"other accounts than procfl.signer {table}: the counter must be no member"
        )
        least = self.first_rounds + 1
        fine = config.federation.rounds >= least
        check_value(fine, "federation.rounds", f"at least {least} {table}: this many rounds come before training")

    def _check_labels(self, config: FederationConfig) -> None:
        """A task's samples are compared by their labels; its models cannot be watched without running its code."""
        if config.contained is None:
            check_value(not self.labels, "procfl.labels", "left out where [model] is given: it says how many classes")
            return
        check_value(self.labels >= 2, "procfl.labels", "given where [task] is: how many labels its samples have")
        committees = "0 where [task] is given: a coordinator does not run a task's code, so it cannot watch models"
        check_value(self.seats == 0, "procfl.seats", committees)

    def to_table(self) -> dict[str, Any]:
        """The table; without committees nobody shows anything, and a shipped model says how many labels there are."""
        silent = {name for name, spoken in (("shown", self.seats), ("labels", self.labels)) if not spoken}
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in silent}

    @property
    def words(self) -> MethodWords:
        return MethodWords(
            "Each is a state: the next step, the models, and the members of each cluster. It is computed from the "
            "previous state and the clients' commitments.",
            manner=", with one model for each cluster of similar clients,",
        )


def labels_of(config: FederationConfig) -> int:
    """How many labels the samples of a federation with clusters have."""
    return terms_of(config).labels or config.network.classes


def terms_of(config: FederationConfig) -> ProCflTerms:
    """The ``[procfl]`` table of terms that have one."""
    if not isinstance(config.method, ProCflTerms):
        raise InvalidConfig("the terms have no [procfl] table")
    return config.method
