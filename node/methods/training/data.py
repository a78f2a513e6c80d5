"""Labelled samples out of a member's or a coordinator's file, for the methods that train."""

from pathlib import Path

from fedgrove.node.learning.reproducible import keep_freed_memory
from fedgrove.node.learning.samples import Samples
from fedgrove.node.learning.userdata import part_from_file
from fedgrove.node.protocol.terms import FederationConfig


def member_samples(config: FederationConfig, path: Path) -> Samples:
    """The private samples of a member, ``x_train`` and ``y_train``; DatasetError if the model cannot train on them."""
    samples = part_from_file(path, "train", config.trained)
    keep_freed_memory()
    return samples


def held_out_samples(config: FederationConfig, path: Path) -> Samples:
    """The coordinator's test data, ``x_test`` and ``y_test``; raises as ``member_samples``."""
    return part_from_file(path, "test", config.trained)
