"""Learning terms of a federation, as plain checked values (no torch here)."""

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from fedgrove.common.settings import Rate, Settings, Share

MODELS = (
    *("paper-cnn", "paper-cnn-centred", "paper-cnn-same", "small-cnn", "small-cnn-centred", "geyer-mlp"),
    "small-mlp",
)
ModelName = Annotated[str, Meta(pattern=rf"\A({'|'.join(MODELS)})\Z", description=f"one of {', '.join(MODELS)}")]


@dataclass(frozen=True)
class StrategyTraits:
    """What terms must know of a strategy, without torch.

    Attributes
    ----------
    shares : bool
        It needs a shared set.
    sends : bool
        It sends more than weights.
    steps : bool
        Its server has a step of its own.
    fine : bool
        It holds layers to differences smaller than bfloat16's rounding.
    """

    shares: bool = False
    sends: bool = False
    steps: bool = False
    fine: bool = False


STRATEGIES = {
    "fedaom": StrategyTraits(shares=True, fine=True),
    "fedaomsam": StrategyTraits(shares=True, fine=True),
    "fedavg": StrategyTraits(),
    "fedcurv": StrategyTraits(sends=True),
    "feddyn": StrategyTraits(sends=True, steps=True),
    "fedlc": StrategyTraits(),
    "fedntd": StrategyTraits(),
    "fedprox": StrategyTraits(),
    "fedsam": StrategyTraits(),
    "fedspeed": StrategyTraits(sends=True, steps=True),
    "moon": StrategyTraits(),
    "scaffold": StrategyTraits(sends=True),
    "share": StrategyTraits(shares=True),
}
"""The strategies, each a module of this name in ``node.learning.strategies``."""
SHARING = tuple(name for name, traits in STRATEGIES.items() if traits.shares)
SENDING = tuple(name for name, traits in STRATEGIES.items() if traits.sends)
STEPPING = tuple(name for name, traits in STRATEGIES.items() if traits.steps)
DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10")
_LATER = {"precision": "fp32", "portable": False}
MAX_CLASSES = 10_000
MAX_SIDE = 1024
_Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]
ImageShape = Annotated[
    tuple[_Side, ...],
    Meta(min_length=3, max_length=3, description=f"[channels, height, width], each from 1 to {MAX_SIDE}"),
]


class ShippedTask(Settings):
    """The options of a task that ships with fedgrove.

    Attributes
    ----------
    inline : bool
        No code but fedgrove's own reads the members' data: it is trained in a member's process, without a sandbox.
    classes : tuple of str, or int
        The classes' names, or their number.
    """

    inline: ClassVar[bool] = False
    classes: Any

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; empty where there are none."""
        return self.classes


@dataclass(frozen=True)
class ModelSpec(ShippedTask):
    """The options of the task ``network``: a shipped network on labelled images. ``[model]`` is short for it.

    Attributes
    ----------
    name : str
        One of ``MODELS``.
    input_shape : tuple of int
        (channels, height, width).
    classes : int
        Number of labels; labels are 0 … classes − 1.
    """

    inline: ClassVar[bool] = True

    name: ModelName
    input_shape: ImageShape
    classes: Annotated[int, Meta(ge=2, le=MAX_CLASSES)]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels, as text."""
        return tuple(map(str, range(self.classes)))


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How a client trains in one round: SGD on mini-batches.

    Attributes
    ----------
    epochs : int
        Local epochs E.
    batch_size : int
        Samples a step.
    learning_rate : float
        η of round 1.
    learning_rate_decay : float
        Factor a round: round t trains with η · decay^(t − 1).
    momentum, weight_decay : float
        Of SGD; the momentum starts from zero in every round.
    crop : int
        Random crop: pixels of black border a side before a crop of the original size; 0 turns it off.
    flip : bool
        Horizontal flip of half the images. Leave it off for digits: a mirrored digit is no digit.
    erase : float
        Probability that a random rectangle of an image is blacked out.
    precision : str
        ``fp32``, or ``bf16``: layers compute in bfloat16, weights and their steps stay float32. For shipped networks,
        on processors with AVX512_BF16 or AMX.
    portable : bool
        Give the same bytes on all x86-64 processors with AVX2, by kernels that use nothing newer.
    """

    epochs: Annotated[int, Meta(ge=1, le=1000)] = 1
    batch_size: Annotated[int, Meta(ge=1, le=65_536)] = 50
    learning_rate: Annotated[float, Meta(gt=0, le=100)] = 0.01
    learning_rate_decay: Rate = 0.998
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    weight_decay: Annotated[float, Meta(ge=0, le=10)] = 1e-4
    crop: Annotated[int, Meta(ge=0, le=64, description="a whole number of pixels from 0 to 64")] = 0
    flip: bool = False
    erase: Annotated[float, Meta(ge=0, le=1, description="a probability from 0 to 1")] = 0.0
    precision: Literal["fp32", "bf16"] = "fp32"
    portable: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = not self.portable or self.precision == "fp32"
        self.require(fine, "portable", "false where precision is bf16, which needs newer instructions")

    @property
    def augmentations(self) -> tuple[str, ...]:
        """Names of the keys that ask for changed images."""
        return tuple(name for name in ("crop", "flip", "erase") if getattr(self, name))

    def rate_of(self, number: int) -> float:
        return self.learning_rate * self.learning_rate_decay ** (number - 1)


def plain_training(settings: TrainingSettings) -> dict[str, Any]:
    """The settings by name, without later ones that have no effect: older terms and plans keep their digests."""
    plain = asdict(settings)
    return {name: value for name, value in plain.items() if name not in _LATER or value != _LATER[name]}


def bf16_fault(settings: TrainingSettings, strategy: str, task: bool) -> str:
    """Why these settings cannot be had with a strategy, or for a task of the members' own; empty where they can."""
    if settings.precision == "fp32":
        return ""
    if task:
        return "fp32 for a task: its own code says how precisely it computes"
    if STRATEGIES[strategy].fine:
        return f"fp32 with the strategy {strategy}: it holds layers to differences smaller than bfloat16's rounding"
    return ""


_METRIC = re.compile("[A-Za-z_][A-Za-z0-9_]{0,39}")
RIGHT = "right"
"""The metric that counts right answers."""
LOSSES = ("loss", "squared_loss")
"""Sums that are always there: of the samples' losses, and of their squares."""
MAX_METRICS = 20
CONFUSION = "confusion"
"""The metric that counts, for each class, how often its samples are predicted as which."""
MAX_CONFUSED = 32
"""Classes that it is for: each pair takes a word of every upload."""
_PAIR = re.compile(r"confusion/(0|[1-9][0-9]?)/(0|[1-9][0-9]?)")  # no task's own metric has a slash in its name


def is_metric(name: str) -> bool:
    return bool(_METRIC.fullmatch(name))


def confused(true: int, predicted: int) -> str:
    """Name of the count of samples of one class that are predicted as another, or the same."""
    return f"{CONFUSION}/{true}/{predicted}"


def confusion_names(classes: int) -> tuple[str, ...]:
    """The names of all pairs of classes, in the order of a matrix's rows."""
    return tuple(confused(true, predicted) for true in range(classes) for predicted in range(classes))


def is_pair(name: str) -> bool:
    return bool(_PAIR.fullmatch(name))


def is_count(name: str) -> bool:
    """Whether a metric of this name counts samples, and so is a whole number."""
    return name == RIGHT or is_pair(name)


@dataclass(frozen=True)
class EvaluationSettings(Settings):
    """How the members evaluate the model that a round begins with, on samples that they hold out.

    Attributes
    ----------
    held_out : float
        Share of a member's samples that it never trains on; 0: those that the task's own data hold out.
    metrics : tuple of str
        Names of the metrics that are summed in addition to the loss: ``right``, a count; ``confusion``, the confusion
        matrix of a shipped network, of images or of a table's classes (32 at most); or others of the task's.
    """

    held_out: Annotated[float, Meta(ge=0, le=0.9)] = 0.2
    metrics: tuple[str, ...] = (RIGHT,)

    def __post_init__(self) -> None:
        super().__post_init__()
        fine = len(set(self.metrics)) == len(self.metrics) <= MAX_METRICS
        self.require(fine, "metrics", f"at most {MAX_METRICS} different names")
        fine = all(is_metric(name) and name not in LOSSES for name in self.metrics)
        self.require(fine, "metrics", f"names of letters, digits and _, other than {' and '.join(LOSSES)}")

    def samples_of(self, total: int) -> int | None:
        """How many of ``total`` samples a member holds out; None where the task's data say."""
        return self.millionths * total // 1_000_000 if self.held_out else None

    @property
    def of_networks(self) -> bool:
        """Whether a shipped network can be evaluated so: nothing but this says which samples are held out."""
        return self.held_out > 0 and set(self.metrics) <= {RIGHT, CONFUSION}

    @property
    def millionths(self) -> int:
        """The share in parts per million, with which everybody computes."""
        return round(self.held_out * 1_000_000)


PartitionKind = Literal["dirichlet", "shards", "groups", "iid"]


@dataclass(frozen=True)
class PartitionSettings(Settings):
    """How a data set is split among clients.

    Attributes
    ----------
    kind : str
        ``dirichlet``, ``shards``, ``groups`` or ``iid``.
    alpha : float
        Concentration of the Dirichlet distribution over clients, per label; small is skewed.
    per_client : int
        Single-class shards per client.
    copies : int
        Repeat the partition this many times over equal subsets of the clients; each sample has this many owners.
    groups : int
        Groups of clients with main labels of their own (clustered label skew).
    others : float
        Fraction of each label's samples that goes to the clients of all groups alike.
    """

    kind: PartitionKind = "dirichlet"
    alpha: Annotated[float, Meta(ge=1e-3, le=1e6)] = 0.3
    per_client: Annotated[int, Meta(ge=1, le=10_000)] = 2
    copies: Annotated[int, Meta(ge=1, le=100_000)] = 1
    groups: Annotated[int, Meta(ge=1, le=MAX_CLASSES)] = 5
    others: Share = 0.2


def default_model(dataset: str, input_shape: tuple[int, ...] | None = None) -> str:
    """Name of the model that suits a data set; for the user's own data its ``input_shape`` (c, h, w) decides."""
    if dataset in DATASETS:
        return {"digits": "small-cnn", "cifar10": "paper-cnn-centred"}.get(dataset, "paper-cnn")
    if input_shape is None or min(input_shape[1:]) < 20:
        return "small-cnn"
    return "paper-cnn-centred" if input_shape[0] == 3 else "paper-cnn"


def default_settings(dataset: str) -> TrainingSettings:
    """Training settings with which a demonstration of a few rounds learns visibly."""
    if dataset == "digits":
        return TrainingSettings(epochs=5, batch_size=16, learning_rate=0.05, momentum=0.9)
    if dataset == "cifar10":
        return TrainingSettings(learning_rate=0.01, momentum=0.9, crop=4, flip=True)
    return TrainingSettings(learning_rate=0.03, momentum=0.9)
