"""A small federation on digits, for all tests of attacks."""

from functools import cache

from fedgrove.node.lab.attacks.scene import Scene, make_scene
from fedgrove.node.learning.datasets import load_dataset


@cache
def digits(seed: int = 0) -> Scene:
    return make_scene(load_dataset("digits"), seed, quick=True)
