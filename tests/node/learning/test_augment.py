"""Augmentation moves pixels as stated, per image, and only with the generator it is given."""

import torch

from fedgrove.node.learning.augment import augment, random_crop, random_erase, random_flip
from fedgrove.node.learning.settings import TrainingSettings


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 64) -> torch.Tensor:
    return torch.rand(count, 3, 12, 10, generator=generator(9)) * 0.9 + 0.1


def test_without_augmentation_the_same_object_comes_back():
    x = images()
    assert augment(x, TrainingSettings(), generator()) is x


def test_a_crop_is_a_window_of_the_padded_image():
    x = images()
    cropped = random_crop(x, 2, generator())
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    offsets = set()
    for before, after in zip(padded, cropped, strict=True):
        places = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if torch.equal(before[:, top : top + 12, left : left + 10], after)
        ]
        assert len(places) == 1
        offsets.update(places)
    assert len(offsets) > 15


def test_a_flip_mirrors_about_half_of_the_images_and_leaves_the_rest():
    x = images()
    flipped = random_flip(x, generator())
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(flipped, x, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(flipped, x, strict=True)]
    assert all(m != k for m, k in zip(mirrored, kept, strict=True))
    assert 16 < sum(mirrored) < 48


def test_erasing_blacks_out_one_rectangle_in_all_channels():
    x = images(200)
    erased = random_erase(x, 0.5, generator())
    black = erased == 0
    assert torch.equal(erased[~black], x[~black])
    assert torch.equal(black[:, 0], black[:, 1]) and torch.equal(black[:, 0], black[:, 2])
    touched = black[:, 0].flatten(1).any(1)
    assert 70 < int(touched.sum()) < 130
    for mask in black[touched, 0]:
        rows, columns = mask.any(1), mask.any(0)
        assert int(mask.sum()) == int(rows.sum()) * int(columns.sum()), "not a rectangle"
        assert mask.float().mean() < 0.55
    assert torch.equal(random_erase(x, 0.0, generator()), x)


def test_equal_generators_give_equal_images_and_the_global_one_is_left_alone():
    settings = TrainingSettings(crop=2, flip=True, erase=0.5)
    before = torch.get_rng_state()
    first, second, other = (augment(images(), settings, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())
