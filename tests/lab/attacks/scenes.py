"""A small federation on digits, for all tests of attacks."""

from functools import cache

from fedgrove.node.learning.datasets import load_dataset
from fedgrove_lab.attacks.scene import Scene, make_scene


@cache
def digits(seed: int = 0) -> Scene:
    return make_scene(load_dataset("digits"), seed, quick=True)
