"""What an attacker sees of a client's model, by kind of protection.

plain     the weights: no masks, no noise
masked    a masked update as it lies on the store, read as if it were the sum: what coordinator and public have
noise     client-level privacy against its worst case: an attacker who knows the updates of all others, so that the
          round's sum is this client's clipped update and the noise of all
one share what masks and all partners leave bare when they collude: the clipped update and this client's noise alone

S is the length of the very update under attack: clipping takes nothing away, only the noise protects.
"""

from dataclasses import dataclass

import numpy as np

from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.tensors import Layout, Tensors, flatten, unflatten
from fedgrove.node.masking.keys import Random
from fedgrove.node.masking.ring import decode
from fedgrove.node.privacy.client_level import decode_sum, quantise
from fedgrove.node.privacy.clipping import l2_norm
from fedgrove.node.privacy.discrete import add_noise
from fedgrove.node.privacy.grid import Grid, RoundTerms
from fedgrove.node.privacy.settings import MAX_CLIP, MAX_NOISE, MIN_CLIP, MIN_NOISE, ClientLevelSettings
from fedgrove_lab.attacks.played_round import AttackedTerms, draw_round

PLAIN, MASKED, NOISE, ONE_SHARE = "plain", "masked", "noise", "one share"
KINDS = (PLAIN, MASKED, NOISE, ONE_SHARE)


@dataclass(frozen=True)
class Noise:
    """Client-level privacy of the attacked federation.

    Attributes
    ----------
    multiplier : float
        σ.
    clients : int
        Drawn in a round; each adds a share of the noise.
    """

    multiplier: float = 1.0
    clients: int = 100

    def __post_init__(self) -> None:
        if not MIN_NOISE <= self.multiplier <= MAX_NOISE:
            raise InvalidInput(
                f"the noise multiplier must be from {MIN_NOISE:g} to {MAX_NOISE:g}, not {self.multiplier}"
            )
        if not 1 <= self.clients <= 10_000:
            raise InvalidInput(f"the noise must be shared by 1 to 10000 clients, not {self.clients}")

    def grid(self, parameters: int, clip: float) -> Grid:
        """The integers that updates and noise become."""
        settings = ClientLevelSettings(noise_multipliers=(self.multiplier,), clip=clip)
        return RoundTerms(settings, 1, parameters, clip, clients=self.clients, rate=1.0, sharers=self.clients).grid


def seen(kind: str, before: Tensors, after: Tensors, terms: AttackedTerms, noise: Noise, random: Random) -> Tensors:
    """The weights that an attacker reads from one client's upload.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    before, after : Tensors
        The global model, and what the client made of it.
    terms, noise : Terms, Noise
        Of the federation.
    random : Random
        Of masks and noise; a client draws its own from the system.
    """
    layout = Layout.of(after)
    match kind:
        case "plain":
            return after
        case "masked":
            return unflatten(masked(flatten(after), layout, terms, random), layout)
        case "noise" | "one share":
            own = flatten(before)
            shares = 1 if kind == ONE_SHARE else noise.clients
            return unflatten(own + noised(flatten(after) - own, noise, shares, random), layout)
    raise InvalidInput(f"there is no kind of upload {kind!r}: choose one of {', '.join(KINDS)}")


def masked(vector: np.ndarray, layout: Layout, terms: AttackedTerms, random: Random, number: int = 1) -> np.ndarray:
    """A model under the masks of a round, decoded as a server would decode the sum; float32 (d,)."""
    drawn = draw_round(terms, number, random)
    words = drawn.masked(0, vector, layout, terms.bound)
    return decode(words, terms.samples, drawn.graph.total_samples, terms.bound)


def noised(update: np.ndarray, noise: Noise, shares: int, random: Random) -> np.ndarray:
    """An update, clipped to its own length, with this many clients' shares of the noise; float32 (d,)."""
    grid = noise.grid(len(update), min(max(l2_norm(update), MIN_CLIP), MAX_CLIP))
    words = quantise(grid, update, random)
    add_noise(words, shares * grid.share_variance, random)
    return decode_sum(grid, words, 1.0)[0]
