"""Addresses of a federation's contracts, the terms fixed in them, and the code that they must have."""

from dataclasses import asdict, astuple, dataclass
from itertools import pairwise
from typing import Annotated, Literal

from eth_utils import is_checksum_address, keccak, to_canonical_address, to_checksum_address
from msgspec import Meta

from fedgrove.chain.errors import WrongChain, artifact
from fedgrove.chain.records.abi import creation, snake_case
from fedgrove.chain.records.rlp_bytes import rlp_bytes
from fedgrove.common.settings import Settings
from fedgrove.common.wire import Digest, Malformed, canonical_json, decode

PRACTICE_CHAINS = frozenset({1337, 31337, 131277322940537})
"""Chain ids that no public chain has: Ganache's and geth's --dev, Hardhat's and Anvil's, the embedded chain's."""

MAX_RATES = 1_000
EVERYONE = 1_000_000
MOST_NAMED = 300
"""Members that the registry takes when it is created; the founder approves the others before the first round."""
MAX_JSON_BYTES = 1 << 15
Membership = Literal["named", "approved", "open"]
MEMBERSHIPS: tuple[Membership, ...] = ("named", "approved", "open")
"""As the registry numbers them."""
MOST_STAGES = 32
_UINT32 = 2**32 - 1
_Whole = Annotated[int, Meta(ge=1, le=2**16 - 1)]
_WholeOrZero = Annotated[int, Meta(ge=0, le=2**16 - 1)]
_Block = Annotated[int, Meta(ge=0, le=2**63 - 1, description="a block's number")]


@dataclass(frozen=True)
class LedgerSettings(Settings):
    """Windows (in blocks) and limits of a federation, fixed at deployment; the ledger's immutables.

    Attributes
    ----------
    seed_delay : int
        Blocks from the opening to the block whose hash seeds the round.
    draw_window, seal_window, share_window, commit_window, vouch_window, affirm_window, recover_window : int
        Length of each phase at most: it ends earlier once nobody is missing, the last one with the closing. Where all
        members draw, the draws go on beyond their window until there are as many as the quorum. With a
        ``vouch_window`` and an ``affirm_window`` updates are bounded: members prove it, and say which proofs they hold,
        before they release shares. Without bounds both are 0.
    order_delay : int
        Blocks from the end of the draws to the block whose randomness orders the drawn clients; the order can be sealed
        once that block has passed. Also blocks from the end of the commits to the block whose hash the sketch of the
        updates follows from, where these are bounded.
    coordinator_grace : int
        Blocks in which the coordinator may act alone before others may act in its place; at most a quarter of
        ``recover_window``, so that they have time to.
    quorum, max_clients : int
        Minimum and maximum number of clients in a round.
    releases : int
        With fewer clients that released shares than this a round is not closed.
    stages : int
        How often members may release further shares, to leave out those who lied; 0 where updates are not bounded.
    judges : int
        With fewer clients that judge a round alike than this nothing follows from it.
    absence_limit : int
        A client that drew in none of the last sealed rounds of all members, this many, need not be waited for.
    max_samples : int
        Highest sample count that a client may state.
    randao : bool
        The order's randomness is the RANDAO mix in its block's header instead of the block's hash. Use it on chains
        whose validators take turns, as Ethereum's do: a validator can then only withhold its part of the randomness,
        not try out hashes. Choose an ``order_delay`` of 4 or more with it.
    """

    seed_delay: _Whole = 2
    draw_window: _Whole = 50
    order_delay: _Whole = 1
    seal_window: _Whole = 20
    share_window: _Whole = 50
    commit_window: _Whole = 100
    vouch_window: _WholeOrZero = 0
    affirm_window: _WholeOrZero = 0
    recover_window: _Whole = 100
    coordinator_grace: _WholeOrZero = 20
    quorum: _Whole = 3
    releases: _Whole = 2
    stages: Annotated[int, Meta(ge=0, le=MOST_STAGES)] = 0
    judges: _Whole = 2
    max_clients: _Whole = 1000
    absence_limit: _Whole = 3
    max_samples: Annotated[int, Meta(ge=1, le=_UINT32)] = 1 << 24
    randao: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.max_clients >= self.quorum, "max_clients", f"at least the quorum of {self.quorum}")
        for name in ("releases", "judges"):
            self.require(getattr(self, name) <= self.quorum, name, f"at most the quorum of {self.quorum}")
        both = "0 where vouch_window is, and 1 or more where that is"
        self.require(self.is_bounded == (self.affirm_window > 0), "affirm_window", both)
        self.require(self.is_bounded or self.stages == 0, "stages", "0 where vouch_window is")
        least = 4 * self.coordinator_grace
        self.require(self.recover_window >= least, "recover_window", f"at least {least}, four times coordinator_grace")

    @property
    def is_bounded(self) -> bool:
        """Whether members prove that their updates are bounded."""
        return self.vouch_window > 0


@dataclass(frozen=True)
class Terms(Settings):
    """Terms agreed before the first round, fixed at deployment.

    Attributes
    ----------
    config, model : str
        Digests (64 hexadecimal characters) of the federation's terms, and of the model that round 1 trains from.
    rates : tuple of (int, int)
        First round and sampling rate (clients per million) of each phase of the training, from round 1 on.
    rounds : int
        How many rounds may close.
    repeats : int
        How many sealed rounds may fail; with one more the federation is over.
    """

    config: Digest
    model: Digest
    rates: tuple[tuple[Annotated[int, Meta(ge=1, lt=1 << 40)], Annotated[int, Meta(ge=1, le=EVERYONE)]], ...] = (
        (1, EVERYONE),
    )
    rounds: Annotated[int, Meta(ge=1, le=_UINT32)] = 1
    repeats: Annotated[int, Meta(ge=0, le=_UINT32)] = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("config", "model"):
            self.require(int(getattr(self, name), 16), name, "a digest that is not zero")
        starts = [first for first, _ in self.rates]
        ascending = starts[:1] == [1] and all(before < after for before, after in pairwise(starts))
        self.require(ascending and len(starts) <= MAX_RATES, "rates", f"at most {MAX_RATES}, ascending from round 1")

    def rate_of(self, number: int) -> int:
        """The sampling rate of a round, in clients per million."""
        return next(rate for first, rate in reversed(self.rates) if first <= number)


@dataclass(frozen=True)
class Deployment(Settings):
    """Addresses of a federation's contracts, and the terms fixed in them.

    Attributes
    ----------
    chain_id : int
    registry, ledger : str
        Checksummed addresses.
    block : int
        No record lies below this block.
    founder, coordinator, admin : str
        Checksummed addresses of who deployed the contracts, of the coordinator, and of who approves members, which is
        zero unless ``membership`` is approved.
    membership : str
        Who may take part: ``named``, the founder's ``members`` and nobody else; ``approved``, these and whom the admin
        approves; ``open``, anybody.
    members : tuple of str
        Checksummed addresses that were approved when the registry was created.
    activation_delay : int
        Blocks from a registration to the first round that may draw the client.
    settings : Settings
    terms : Terms
    """

    chain_id: int
    registry: str
    ledger: str
    block: _Block
    founder: str
    coordinator: str
    admin: str
    membership: Membership
    members: tuple[str, ...]
    activation_delay: _Block
    settings: LedgerSettings
    terms: Terms

    @property
    def contracts(self) -> dict[str, str]:
        """The contracts' addresses, by their names."""
        return {"ClientRegistry": self.registry, "TrainingLedger": self.ledger}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(0 <= self.chain_id < 2**256, "chain_id", "a number of 256 bits")
        for name in ("registry", "ledger", "founder", "coordinator", "admin"):
            self.require(is_checksum_address(getattr(self, name)), name, "a checksummed address")
        self.require(all(map(is_checksum_address, self.members)), "members", "checksummed addresses")

    @property
    def practice(self) -> bool:
        """Whether the chain is one that people run to practise: its coins are worth nothing, its fees no measure."""
        return self.chain_id in PRACTICE_CHAINS

    def to_json(self) -> str:
        """Canonical JSON, one line."""
        return canonical_json(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> "Deployment":
        """Parse what ``to_json`` wrote; Malformed for anything else."""
        deployment = decode(cls, text.encode(), MAX_JSON_BYTES)
        if deployment.to_json() != text:
            raise Malformed("the description of the deployment is not in canonical form")
        return deployment


def creation_data(contract: str, deployment: Deployment) -> bytes:
    """Exact calldata of the transaction that creates the shipped contract with these terms."""
    if contract == "ClientRegistry":
        mode = MEMBERSHIPS.index(deployment.membership)
        fixed = (mode, deployment.admin, deployment.ledger, deployment.activation_delay, deployment.members)
        return creation(contract, fixed)
    terms = deployment.terms
    agreed = (bytes.fromhex(terms.config), bytes.fromhex(terms.model), terms.rates)
    settings = (*astuple(deployment.settings), terms.rounds, terms.repeats)
    return creation(contract, (deployment.registry, deployment.coordinator, settings, agreed))


def deployed_code(contract: str, deployment: Deployment) -> bytes:
    """The code of a shipped contract with these terms in the places of its immutables."""
    shipped = artifact(contract)
    code = bytearray.fromhex(shipped["deployedBytecode"][2:])
    values, references = _immutables(deployment), shipped["immutableReferences"]
    if not set(map(snake_case, references)) <= set(values):
        raise WrongChain(f"The {contract} of this version has unexpected immutables; reinstall fedgrove.")
    for name, places in references.items():
        value = values[snake_case(name)]
        for place in places:
            code[place["start"] : place["start"] + place["length"]] = value.to_bytes(place["length"], "big")
    return bytes(code)


def _immutables(deployment: Deployment) -> dict[str, int]:
    """What both contracts fix, as numbers."""
    terms = deployment.terms
    addresses = ("registry", "ledger", "founder", "coordinator", "admin")
    fixed = {name: int(getattr(deployment, name), 16) for name in addresses}
    fixed |= {"membership": MEMBERSHIPS.index(deployment.membership), "activation_delay": deployment.activation_delay}
    fixed |= {name: int(value) for name, value in asdict(deployment.settings).items()}
    return fixed | {"config": int(terms.config, 16), "rounds": terms.rounds, "repeats": terms.repeats}


def created_address(sender: str, nonce: int) -> str:
    """The checksummed address of the contract that an account creates with the transaction of this nonce."""
    return to_checksum_address(keccak(rlp_bytes([to_canonical_address(sender), nonce]))[12:])
