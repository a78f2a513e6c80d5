"""Model inversion through a generator that was taught with the model under attack (KEDMI: Chen et al. 2021).

Two stages, as in the paper:

1. A GAN learns what images look like from public ones without labels. Its discriminator has K outputs l and takes an
   image for real with the probability Z/(Z + 1), Z = Σ exp l_k; in addition it learns the labels that the attacked
   model gives the public images (section 3.1). The generator matches features, and is to make images that the model
   is sure about.
2. For each class a normal distribution of latent vectors is sought, whose images are real to the discriminator and of
   the class to the model: L_prior + λ·L_id (section 3.2).

Smaller than the paper's: both networks are fully connected, as the images are of 28 × 28 pixels at most.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedgrove.node.base.tensors import Tensors
from fedgrove.node.learning.models import Classifier, empty_model, load_tensors
from fedgrove.node.learning.settings import ModelSpec


@dataclass(frozen=True)
class GanSettings:
    """Sizes and lengths of the attack.

    Attributes
    ----------
    latent : int
        Dimensions of a latent vector.
    steps, batch : int
        Of the GAN.
    rate : float
        Adam's, for both networks.
    certainty : float
        Weight of the entropy of the model's answers in the generator's loss.
    search_steps, drawn : int
        Of the search for a class, and latent vectors a step.
    identity : float
        λ, the weight of the model's answer in the search.
    """

    latent: int = 64
    steps: int = 600
    batch: int = 64
    rate: float = 4e-4
    certainty: float = 0.1
    search_steps: int = 120
    drawn: int = 8
    search_rate: float = 0.03
    identity: float = 100.0


class Generator(nn.Module):
    """Latent vectors (n, latent) to images (n, c, h, w) in [0, 1]."""

    def __init__(self, latent: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self._shape = shape
        self.layers = nn.Sequential(
            nn.Linear(latent, 128),
            nn.BatchNorm1d(128),
            nn.ReLU(),
            nn.Linear(128, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, int(np.prod(shape))),
            nn.Sigmoid(),
        )

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.layers(latent).view(-1, *self._shape)


class Discriminator(nn.Module):
    """Images (n, c, h, w) to features (n, 128) and one output a class (n, K)."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        pixels = int(np.prod(shape))
        self.layers = nn.Sequential(nn.Linear(pixels, 256), nn.LeakyReLU(0.2), nn.Linear(256, 128), nn.LeakyReLU(0.2))
        self.output = nn.Linear(128, classes)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.layers(images.flatten(1))
        return features, self.output(features)


@dataclass(frozen=True)
class Gan:
    """Both networks after the first stage."""

    generator: Generator
    discriminator: Discriminator


def attacked_model(spec: ModelSpec, weights: Tensors) -> Classifier:
    """The model with the uploaded weights, fixed."""
    model = empty_model(spec)
    load_tensors(model, weights)
    return model.requires_grad_(False)


def teach_gan(model: Classifier, spec: ModelSpec, public: np.ndarray, settings: GanSettings, seed: int) -> Gan:
    """Stage 1: the GAN, from public images (n, c, h, w) and what the model says of them."""
    images = torch.from_numpy(public)
    with torch.no_grad():
        answers = torch.cat([functional.softmax(model(part), 1).nan_to_num() for part in images.split(500)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        channels, height, width = spec.input_shape
        shape = (channels, height, width)
        gan = Gan(Generator(settings.latent, shape), Discriminator(shape, spec.classes))
        forger, judge = (
            torch.optim.Adam(network.parameters(), lr=settings.rate, betas=(0.5, 0.999))
            for network in (gan.generator, gan.discriminator)
        )
        for _ in range(settings.steps):
            chosen = torch.randint(len(images), (settings.batch,))
            forged = gan.generator(torch.randn(settings.batch, settings.latent))
            _step(judge, _judge_loss(gan.discriminator, images[chosen], answers[chosen], forged.detach()))
            _step(forger, _forger_loss(gan.discriminator, model, images[chosen], forged, settings.certainty))
    gan.generator.eval()
    return gan


def search_classes(
    model: Classifier, gan: Gan, classes: int, settings: GanSettings, count: int, generator: torch.Generator
) -> np.ndarray:
    """Stage 2: ``count`` images of each class, float32 (classes, count, c, h, w)."""
    shape = (classes, 1, settings.latent)
    centre, spread = torch.zeros(shape, requires_grad=True), torch.zeros(shape, requires_grad=True)
    optimizer = torch.optim.Adam([centre, spread], lr=settings.search_rate)
    labels = torch.arange(classes).repeat_interleave(settings.drawn)

    def draw(number: int) -> torch.Tensor:
        noise = torch.randn((classes, number, settings.latent), generator=generator)
        return gan.generator((centre + spread.exp() * noise).flatten(0, 1))

    for _ in range(settings.search_steps):
        images = draw(settings.drawn)
        prior = functional.softplus(-_realness(gan.discriminator(images)[1])).mean()
        identity = functional.cross_entropy(model(images), labels)
        slopes = torch.autograd.grad(prior + settings.identity * identity, [centre, spread])
        for value, slope in zip((centre, spread), slopes, strict=True):
            value.grad = slope.nan_to_num()
        optimizer.step()
    with torch.no_grad():
        return draw(count).unflatten(0, (classes, count)).numpy()


def _realness(outputs: torch.Tensor) -> torch.Tensor:
    """ln Z: the log-odds that an image is real."""
    return torch.logsumexp(outputs, 1)


def _judge_loss(judge: Discriminator, real: torch.Tensor, answers: torch.Tensor, forged: torch.Tensor) -> torch.Tensor:
    """L_D: the model's answers to real images, real ones real, forged ones forged."""
    seen = judge(real)[1]
    supervised = -(answers * functional.log_softmax(seen, 1)).sum(1).mean()
    real_loss = functional.softplus(-_realness(seen)).mean()
    return supervised + real_loss + functional.softplus(_realness(judge(forged)[1])).mean()


def _forger_loss(
    judge: Discriminator, model: Classifier, real: torch.Tensor, forged: torch.Tensor, certainty: float
) -> torch.Tensor:
    """L_G: mean features as of real images, and sure answers (to a quarter of the batch: the model is slow)."""
    with torch.no_grad():
        wanted = judge(real)[0].mean(0)
    matching = (judge(forged)[0].mean(0) - wanted).square().sum()
    answers = functional.log_softmax(model(forged[: len(forged) // 4]), 1)
    return matching - certainty * (answers.exp() * answers).sum(1).mean()


def _step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
