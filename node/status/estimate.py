"""What a federation will cost its members and its coordinator, before anybody has founded it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from fedgrove.chain.crypto.tree import EVERYONE
from fedgrove.chain.face.founding import MOST_NAMED
from fedgrove.chain.face.ledger import MAX_APPROVED
from fedgrove.chain.records.phases import Deadlines, Ends
from fedgrove.node.protocol.clock import slot_ends
from fedgrove.node.protocol.terms import FederationConfig
from fedgrove.node.status import gas
from fedgrove.node.status.price import ETHER, GWEI, Price

ROLES = ("founder", "admin", "coordinator", "members")


@dataclass(frozen=True)
class CallCost:
    """One kind of call in a whole federation: who pays, how often it is made, gas of one on average."""

    role: str
    call: str
    times: float
    gas: float

    @property
    def whole(self) -> float:
        """Gas of all of them."""
        return self.times * self.gas


@dataclass(frozen=True)
class RoundSpan:
    """Least and most blocks from a round's opening to its end, without the time of training, and their seconds."""

    least: int
    most: int
    block_seconds: float

    def to_dict(self) -> dict:
        """By field, JSON-ready, with seconds."""
        bounds = {"least": self.least, "most": self.most}
        return asdict(self) | {f"{name}_seconds": blocks * self.block_seconds for name, blocks in bounds.items()}


@dataclass(frozen=True)
class Fees:
    """Base fee and tip, in wei a unit of gas, and the price of one ether, if it is given."""

    base: int
    tip: int
    price: Price | None = None

    def ether(self, amount: float) -> float:
        """Cost of an amount of gas, in ether."""
        return amount * (self.base + self.tip) / ETHER


@dataclass(frozen=True)
class Estimate:
    """Expected gas of a federation in which everybody who is drawn does their part and no round is repeated.

    Attributes
    ----------
    drawn : float
        Clients in a round, on average.
    calls : tuple of CallCost
        All calls from the founding to the last closing.
    once : float
        Gas of founding and joining, which no round repeats.
    """

    members: int
    rounds: int
    drawn: float
    calls: tuple[CallCost, ...]
    once: float
    span: RoundSpan

    @cached_property
    def gas(self) -> dict[str, float]:
        """Gas of each role, of one member, of a round on average, and of the whole."""
        roles = {role: sum(each.whole for each in self.calls if each.role == role) for role in ROLES}
        whole = sum(roles.values())
        each = {"member": roles["members"] / self.members, "round": (whole - self.once) / self.rounds}
        return roles | each | {"whole": whole}

    def to_dict(self, fees: Fees) -> dict:
        """JSON-ready; ``cost`` and ``currency`` are there where the fees have a price of ether."""
        ether = {name: fees.ether(amount) for name, amount in self.gas.items()}
        price = fees.price
        costs = {name: price.amount * amount for name, amount in ether.items()} if price else {}
        return {
            "members": self.members,
            "rounds": self.rounds,
            "drawn": self.drawn,
            "base_fee_gwei": fees.base / GWEI,
            "tip_gwei": fees.tip / GWEI,
            "calls": [asdict(each) for each in self.calls],
            "gas": {name: round(amount) for name, amount in self.gas.items()},
            "ether": ether,
            **({"cost": costs, "currency": price.currency} if price else {}),
            "round_blocks": self.span.to_dict(),
        }


def estimate(config: FederationConfig, members: int, rounds: int, block_seconds: float) -> Estimate:
    """Estimate a federation under these terms.

    Parameters
    ----------
    block_seconds : float
        Between two blocks of the chain.
    """
    rates = [config.rate_ppm(number) / EVERYONE for number in range(1, rounds + 1)]
    drawn = [min(members * rate, config.ledger.max_clients) for rate in rates]
    founding, training = _founding(config, members), _training(config, members, rates, drawn)
    once = sum(each.whole for each in founding)
    return Estimate(members, rounds, sum(drawn) / rounds, (*founding, *training), once, _span(config, block_seconds))


def _founding(config: FederationConfig, members: int) -> tuple[CallCost, ...]:
    mode = config.membership.mode
    each = gas.REGISTER_OPEN if mode == "open" else gas.REGISTER_APPROVED
    named = min(members, MOST_NAMED) if mode == "named" else 0  # at once; more are approved as an admin does it
    approved = members - named if mode != "open" else 0
    calls = -(-approved // MAX_APPROVED)
    approver, each_call = "founder" if mode == "named" else "admin", gas.APPROVE * approved / max(1, calls)
    return (
        CallCost("founder", "deploy", 1, gas.DEPLOY_REGISTRY + gas.DEPLOY_LEDGER + gas.APPROVE * named),
        CallCost(approver, "approve", calls, gas.APPROVE_CALL + each_call),
        CallCost("members", "register", members, each + gas.FIRST_REGISTRATION / members),
    )


def _training(
    config: FederationConfig, members: int, rates: Sequence[float], drawn: Sequence[float]
) -> tuple[CallCost, ...]:
    rounds, total = len(rates), sum(drawn)
    sealed = sum(gas.seal_gas(round(each), config.ledger.randao) for each in drawn) / rounds
    sealed += gas.SEAL_OF_ALL * min(rates.count(1), config.ledger.absence_limit) / rounds
    ended = gas.LAST * rounds / total
    drawing = gas.DRAW + (_first_draws(members, rates) * gas.FIRST_DRAW + gas.LAST * rates.count(1)) / total
    return (
        CallCost("coordinator", "open", rounds, gas.OPEN + gas.FIRST_OPENING / rounds),
        CallCost("coordinator", "fix_seed", rounds, gas.FIX_SEED),
        CallCost("members", "draw", total, drawing),
        CallCost("coordinator", "seal", rounds, sealed),
        CallCost("members", "share", total, gas.SHARE + ended),
        CallCost("members", "commit", total, gas.COMMIT + ended),
        *_bounding(config, rounds, total),
        CallCost("coordinator", "close", rounds, gas.CLOSE + gas.FIRST_CLOSING / rounds),
        CallCost("members", "judge", drawn[-1], gas.JUDGE + gas.FIRST_JUDGEMENT / drawn[-1]),
    )


def _bounding(config: FederationConfig, rounds: int, total: float) -> tuple[CallCost, ...]:
    """Releases and, where updates have bounds, what comes before them."""
    if config.bounds is None:
        return (CallCost("members", "release", total, gas.RELEASE),)
    ended = gas.LAST * rounds / total
    return (
        CallCost("members", "vouch", total, gas.VOUCH + gas.FIRST_VOUCH * rounds / total + ended),
        CallCost("members", "affirm", total, gas.AFFIRM + ended),
        CallCost("members", "release", total, gas.RELEASE_BOUNDED),
    )


def _first_draws(members: int, rates: Sequence[float]) -> float:
    """Members that are expected to be drawn at least once."""
    never = 1.0
    for rate in rates:
        never *= 1 - rate
    return members * (1 - never)


def _span(config: FederationConfig, block_seconds: float) -> RoundSpan:
    """Blocks of a round in which each phase ends with the next block, and of one in which each takes its window."""
    settings, sampled = config.ledger, config.rate_ppm(1) < EVERYONE
    longest = Deadlines.of(0, settings, Ends())
    draw_end = longest.draw_end if sampled else longest.seed_block + 1
    sealed = Deadlines.of(0, settings, Ends(draw=draw_end)).order_block + 1
    # Shares, commitments, releases and closing: each a block after what it waits for, commitments after a slot, and
    # vouchers after the block of the sketch.
    ends = slot_ends(config.commit_slots, 0, settings.commit_window)
    bounding = settings.order_delay + 2 if settings.is_bounded else 0
    return RoundSpan(sealed + 4 + (ends[0] if ends else 0) + bounding, longest.recover_end, block_seconds)
