"""What was released about the clients of a run, round by round; the next model is the mechanism's own.

One class a mechanism (``node.privacy.mechanism``), with what its rounds so far have cost. They know those by ``resume``
and ``close`` alone, so that a run that goes on from a checkpoint continues as if nothing had happened.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors
from fedgrove.node.learning.local_update import HeldOutSums
from fedgrove.node.learning.settings import SENDING
from fedgrove.node.masking.ring import WORD
from fedgrove.node.methods.training.metric_sums import figures_of, figures_of_rates
from fedgrove.node.privacy.accountant import GaussianRelease, epsilon_of, spending
from fedgrove.node.privacy.client_level import (
    ClientLevelRound,
    ClientLevelSum,
    between_clients_variance,
    decode_rates,
    update_scale,
)
from fedgrove.node.privacy.clipping import median_clip
from fedgrove.node.privacy.grid import Grid
from fedgrove.node.privacy.local import LocalMean
from fedgrove.node.privacy.mechanism import Mechanism, Weight
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings
from fedgrove.node.privacy.signds import SignDsVotes
from fedgrove.node.privacy.weighted import WeightedMean
from fedgrove.node.scenario.scenario import Scenario
from fedgrove.node.simulation.record import Released, RoundResult
from fedgrove.node.simulation.uploads import Encoder, Measured, Upload, measured_rates, seeded
from fedgrove.node.simulation.work import ClientResult

# Of what a federation's record states, a simulation's has these.
_STATED = ("noise_multiplier", "effective_multiplier", "clip", "rate", "below", "next_clip")


@dataclass(frozen=True)
class Uploads:
    """A round's uploads.

    Attributes
    ----------
    start : Tensors
        The global model that the round began with.
    """

    round: int
    words: np.ndarray
    clients: Sequence[ClientResult]
    start: Tensors

    def mean(self, mechanism: Mechanism) -> np.ndarray:
        """The model behind the sum, float32 (parameters,); the words are overwritten."""
        samples = sum(client.samples for client in self.clients)
        counted = samples if mechanism.weighs_samples else len(self.clients)
        return mechanism.mean(self.words, lambda: self.start, Weight(counted, counted))


class Releases(ABC):
    """A run's privacy mechanism, and what its rounds released."""

    def resume(self, rounds: Iterable[RoundResult]) -> None:  # noqa: B027 (not all count their rounds)
        """Take note of the rounds that a checkpoint holds."""

    @abstractmethod
    def encoder(self, number: int, clients: int, measured: Sequence[ClientResult] = ()) -> Encoder:
        """How the round's clients (this many are drawn) upload; ``Measured`` asks for their norms first."""

    @abstractmethod
    def close(self, uploads: Uploads) -> tuple[np.ndarray | None, Released | None]:
        """The next global model, float32 (parameters,), and what was released; None where there was no sum."""

    def members(self, uploads: Uploads) -> Released | None:
        """What the clients' evaluation of the model came to with which the round began; None without one.

        Where uploads are private by themselves it would need noise of its own: scenarios that ask for one are refused.
        """
        return None

    def of_last_model(self, number: int, measured: Mapping[int, HeldOutSums]) -> Released | None:
        """What the evaluation of the last model by these clients came to, in a round in which they do nothing else."""
        return None


def releases_of(scenario: Scenario, layout: Layout) -> Releases:
    """The mechanism of a scenario for a model of this layout.

    Raises
    ------
    InvalidInput
        The model does not suit the mechanism.
    """
    if getattr(scenario.privacy, "budget", 0):
        raise InvalidInput("budget is enforced in federations only: leave it out, the record says what is spent")
    match scenario.privacy:
        case ClientLevelSettings():
            return ClientLevel(scenario, scenario.privacy, layout)
        case LocalSettings():
            return Local(scenario, scenario.privacy, layout)
        case SignDsSettings():
            return SignDs(scenario, scenario.privacy, layout)
    return MasksOnly(scenario, layout)


class MasksOnly(Releases):
    """No mechanism of privacy: nothing but the models is released."""

    def __init__(self, scenario: Scenario, layout: Layout) -> None:
        self._mean, self._evaluation = (
            WeightedMean(layout, scenario.masking.bound, scenario.masking.masked, scenario.norm),
            scenario.evaluation,
        )

    def encoder(self, number: int, clients: int, measured: Sequence[ClientResult] = ()) -> Encoder:
        return Upload(self._mean)

    def close(self, uploads: Uploads) -> tuple[np.ndarray | None, Released | None]:
        return uploads.mean(self._mean), None

    def members(self, uploads: Uploads) -> Released | None:
        return self._figures(client.measured for client in uploads.clients if client.measured is not None)

    def of_last_model(self, number: int, measured: Mapping[int, HeldOutSums]) -> Released | None:
        return self._figures(measured.values())

    def _figures(self, measured: Iterable[HeldOutSums]) -> Released | None:
        return figures_of(measured, self._evaluation) if self._evaluation is not None else None


class ClientLevel(Releases):
    """Clipped updates and noise in their sum (Geyer et al. 2017, algorithm 1).

    In a federation each of s clients adds its share of the noise, N_ℤ(0, V₁); here N_ℤ(0, s·V₁) is added to the sum.
    The distributions are the same except for a factor in each probability whose logarithm is below 10⁻⁶⁰
    (``discrete.sum_log_ratio``). Nobody drops out. Where it is secret who takes part, a round for which nobody was
    drawn has the noise of one client: that there was nobody must not show.
    """

    def __init__(self, scenario: Scenario, settings: ClientLevelSettings, layout: Layout) -> None:
        self._scenario = scenario
        self._settings = settings
        self._layout = layout
        self._clip: float = settings.clip
        self._secret = settings.participation == "secret"
        # Of the models, towards those who see nothing else; and of each client, by the rounds it took part in.
        self._spent: Counter[GaussianRelease] = Counter()
        self._spent_by: dict[int, Counter[GaussianRelease]] = {}
        for number in (1, *settings.phases):  # a ring that is too small shows at once
            expected = scenario.clients * self._rate(number)
            most = math.ceil(expected + 10 * math.sqrt(expected))
            self._round(number, min(scenario.clients, most)).grid  # noqa: B018

    def resume(self, rounds: Iterable[RoundResult]) -> None:
        for result in rounds:
            self._spend(result.round, result.clients, result.figure("effective_multiplier"))
            self._clip = result.figure("next_clip")

    def encoder(self, number: int, clients: int, measured: Sequence[ClientResult] = ()) -> Encoder:
        if self._settings.clipping == "median" and clients:
            if not measured:
                return Measured()
            self._clip = median_clip(client.norm for client in measured)
        return Upload(self._sum(self._round(number, clients)), "rounding", self._scenario.evaluation)

    def close(self, uploads: Uploads) -> tuple[np.ndarray | None, Released | None]:
        clients, number = uploads.clients, uploads.round
        planned = self._round(number, len(clients))
        grid, shares, divisor = planned.grid, planned.sharers, planned.divisor(len(clients))
        vector, stated = None, planned.record(shares, None)
        if divisor:
            summing, words = self._sum(planned), uploads.words[: grid.length - grid.rates].copy()
            summing.add_noise(words, seeded("noise", self._scenario.seed, number), shares)
            vector, stated = summing.close(words, lambda: uploads.start, shares)
        self._spend(number, [client.client for client in clients], stated.effective_multiplier)
        self._clip = stated.next_clip
        epsilon, delta, towards_readers = self._spending()
        return vector, {
            **{name: getattr(stated, name) for name in _STATED},
            "noise": grid.noise_deviation(shares) / divisor if divisor else 0.0,
            "epsilon": epsilon,
            "delta": delta,
            "ledger_epsilon": towards_readers,
            **_scales(grid, uploads.words, [client.norm for client in clients]),
        }

    def members(self, uploads: Uploads) -> Released | None:
        if self._scenario.evaluation is None:
            return None
        planned = self._round(uploads.round, len(uploads.clients))
        return self._rates(planned, uploads.words[-planned.grid.rates :], len(uploads.clients))

    def of_last_model(self, number: int, measured: Mapping[int, HeldOutSums]) -> Released | None:
        planned = self._round(number, len(measured), trains=False)
        summing, words = self._sum(planned), np.zeros(planned.grid.rates, WORD)
        for client, found in measured.items():
            random = seeded("rounding", self._scenario.seed, number, client)
            rates = measured_rates(found, self._scenario.evaluation)
            words += summing.encode(np.empty(0, np.float32), dict, Weight(1, 1), random, rates)
        figures = self._rates(planned, words, len(measured))
        if figures is None:
            return None
        self._spend(number, measured, planned.grid.multiplier_of(planned.sharers))
        epsilon, delta, towards_readers = self._spending()
        return {**figures, "epsilon": epsilon, "delta": delta, "ledger_epsilon": towards_readers}

    def _rates(self, planned: ClientLevelRound, words: np.ndarray, clients: int) -> Released | None:
        """The rates in the words of a sum of ``clients`` uploads without noise; None where nothing is told."""
        divisor, names = (
            planned.divisor(clients),
            self._scenario.evaluation.metrics if self._scenario.evaluation else (),
        )
        if not divisor:
            return None
        noisy = words.copy()
        random = seeded("noise of rates", self._scenario.seed, planned.number)
        self._sum(planned).add_noise(noisy, random, planned.sharers)
        rates = dict(zip(names, decode_rates(planned.grid, noisy, divisor), strict=True))
        return figures_of_rates(rates, planned.rate_deviation(planned.sharers))

    def _rate(self, number: int) -> float:
        return self._settings.sampling_rate_of(number, self._scenario.federation.sampling_rate)

    def _round(self, number: int, clients: int, trains: bool = True) -> ClientLevelRound:
        public = self._scenario.clients, self._rate(number), max(1, clients)
        rates = len(self._scenario.evaluation.metrics) if self._scenario.evaluation is not None else 0
        return ClientLevelRound(self._settings, number, self._layout.length, self._clip, *public, rates, trains)

    def _sum(self, planned: ClientLevelRound) -> ClientLevelSum:
        return ClientLevelSum(self._layout, planned)

    def _spend(self, number: int, clients: Iterable[int], sigma: float) -> None:
        self._spent[GaussianRelease(sigma, self._rate(number))] += 1
        for client in clients:
            self._spent_by.setdefault(client, Counter())[GaussianRelease(sigma)] += 1

    def _spending(self) -> tuple[float, float, float]:
        """ε at the budget's δ and δ at its ε, of the client that has spent most; its ε towards readers of a ledger."""
        most_drawn = _releases(max(self._spent_by.values(), key=_gaussian_cost, default=Counter()))
        counted = _releases(self._spent) if self._secret else most_drawn
        epsilon, delta = spending(counted, self._settings.epsilon, self._settings.delta)
        return epsilon, delta, epsilon_of(most_drawn, self._settings.delta)


class _EachUpload(Releases):
    """Mechanisms whose uploads are private by themselves: a client has spent what its own uploads cost."""

    def __init__(self) -> None:
        self._uploads: Counter[int] = Counter()

    def resume(self, rounds: Iterable[RoundResult]) -> None:
        for result in rounds:
            self._uploads.update(result.clients)

    def _most(self, uploads: Uploads) -> int:
        """How many uploads the client made that made most, with these."""
        self._uploads.update(client.client for client in uploads.clients)
        return max(self._uploads.values())


class Local(_EachUpload):
    """Each client's own noise (Balle and Wang 2018), then the weighted mean."""

    def __init__(self, scenario: Scenario, settings: LocalSettings, layout: Layout) -> None:
        super().__init__()
        self._settings = settings
        self._mean = LocalMean(layout, scenario.masking.bound, scenario.masking.masked, settings=settings)

    def encoder(self, number: int, clients: int, measured: Sequence[ClientResult] = ()) -> Encoder:
        return Upload(self._mean, "local")

    def close(self, uploads: Uploads) -> tuple[np.ndarray | None, Released | None]:
        most, mechanism = self._most(uploads), self._mean.mechanism
        return uploads.mean(self._mean), {
            "noise": mechanism.sigma,
            "clip": self._settings.clip,
            "most_uploads": most,
            "epsilon": mechanism.epsilon_after(most, self._settings.delta),
            "delta": self._settings.delta,
        }


class SignDs(_EachUpload):
    """Votes on a few dimensions (Jiang et al. 2022)."""

    def __init__(self, scenario: Scenario, settings: SignDsSettings, layout: Layout) -> None:
        super().__init__()
        if scenario.strategy.name in SENDING:
            raise InvalidInput(f"SignDS moves weights only: choose another strategy than {scenario.strategy.name}")
        self._settings, self._layout = settings, layout
        self._mechanism = self._votes(1).mechanism
        self._costs: dict[int, float] = {}  # ε by number of uploads

    def encoder(self, number: int, clients: int, measured: Sequence[ClientResult] = ()) -> Encoder:
        return Upload(self._votes(number), "signds")

    def close(self, uploads: Uploads) -> tuple[np.ndarray | None, Released | None]:
        most, votes = self._most(uploads), self._votes(uploads.round)
        return uploads.mean(votes), {
            "step": votes.step,
            "upload_bytes": self._mechanism.upload_bytes,
            "dense_bytes": WORD.itemsize * self._mechanism.length,
            "most_uploads": most,
            "epsilon": self._cost(most),
            "delta": self._settings.delta,
        }

    def _votes(self, number: int) -> SignDsVotes:
        return SignDsVotes(self._layout, self._settings, number)

    def _cost(self, uploads: int) -> float:
        """ε of this many uploads of a client."""
        if uploads not in self._costs:
            each = replace(self._mechanism.release, count=uploads)
            self._costs[uploads] = epsilon_of([each], self._settings.delta)
        return self._costs[uploads]


def _releases(history: Counter[GaussianRelease]) -> list[GaussianRelease]:
    return [replace(release, count=count) for release, count in history.items()]


def _gaussian_cost(history: Counter[GaussianRelease]) -> float:
    """Orders clients by what they have spent: unsampled Gaussian mechanisms are one with 1/σ² = Σ 1/σ_t²."""
    return math.fsum(count / release.noise_multiplier**2 for release, count in history.items())


def _scales(grid: Grid, words: np.ndarray, norms: Sequence[float]) -> Released:
    """V_c and U_s of the clipped updates, and their norms: from the sum without noise, so in simulations only.

    Rounding to the grid adds a quarter of a unit squared, over the number of clients, to U_s and takes it from V_c.
    """
    if not norms:
        return {"median_norm": None, "clipped": None, "between_clients_variance": None, "update_scale": None}
    total = words[: grid.parameters].view("<i4") * grid.unit
    squares = math.fsum(min(norm, grid.clip) ** 2 for norm in norms)
    return {
        "median_norm": median(norms),
        "clipped": sum(norm > grid.clip for norm in norms) / len(norms),
        "between_clients_variance": between_clients_variance(total, squares, len(norms)),
        "update_scale": update_scale(total, len(norms)),
    }
