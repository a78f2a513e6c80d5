"""Augmentation as in FedAom section 4.1: random crop, horizontal flip, random erasing; each image on its own."""

import torch
from torch.nn import functional

from fedgrove.node.learning.settings import TrainingSettings

# Of Zhong et al. 2020, "Random Erasing Data Augmentation": share of the image's area, and aspect ratio.
ERASED_AREA = (0.02, 0.4)
ERASED_ASPECT = (0.3, 1 / 0.3)


def augment(x: torch.Tensor, settings: TrainingSettings, generator: torch.Generator) -> torch.Tensor:
    """Augment images (n, c, h, w) as the settings say; without augmentation ``x`` itself is returned."""
    if settings.crop:
        x = random_crop(x, settings.crop, generator)
    if settings.flip:
        x = random_flip(x, generator)
    if settings.erase:
        x = random_erase(x, settings.erase, generator)
    return x


def random_crop(x: torch.Tensor, border: int, generator: torch.Generator) -> torch.Tensor:
    """Add ``border`` black pixels a side and cut out the original size at a random place."""
    count, channels, height, width = x.shape
    padded = functional.pad(x, (border,) * 4)
    offsets = torch.randint(0, 2 * border + 1, (2, count, 1), generator=generator)
    rows = (offsets[0] + torch.arange(height))[:, None, :, None]
    columns = (offsets[1] + torch.arange(width))[:, None, None, :]
    images = torch.arange(count)[:, None, None, None]
    return padded[images, torch.arange(channels)[None, :, None, None], rows, columns]


def random_flip(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror each image left to right with probability 1/2."""
    mirrored = torch.rand(len(x), generator=generator) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(3), x)


def random_erase(x: torch.Tensor, probability: float, generator: torch.Generator) -> torch.Tensor:
    """Black out a rectangle of random place, area and aspect in each image, with the given probability."""
    count, _, height, width = x.shape
    chance, area, aspect, top, left = torch.rand(5, count, 1, generator=generator)
    area = (ERASED_AREA[0] + area * (ERASED_AREA[1] - ERASED_AREA[0])) * (height * width)
    low, high = torch.tensor(ERASED_ASPECT).log()
    aspect = torch.exp(low + aspect * (high - low))
    tall = (area * aspect).sqrt().round().clamp(1, height)
    wide = (area / aspect).sqrt().round().clamp(1, width)
    top, left = (top * (height - tall + 1)).floor(), (left * (width - wide + 1)).floor()
    rows, columns = torch.arange(height), torch.arange(width)
    in_rows = ((rows >= top) & (rows < top + tall))[:, :, None]
    in_columns = ((columns >= left) & (columns < left + wide))[:, None, :]
    erased = in_rows & in_columns & (chance < probability)[:, :, None]
    return x.masked_fill(erased[:, None], 0.0)
