"""Settings refuse what cannot work, naming the setting."""

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.learning.settings import (
    ModelSpec,
    PartitionSettings,
    TrainingSettings,
    default_model,
    default_settings,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate_decay", 1.5),
        ("momentum", 1.0),
        ("weight_decay", -0.1),
        ("crop", -1),
        ("erase", 1.1),
    ],
)
def test_training_settings_out_of_range_are_named(name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must be "):
        TrainingSettings(**{name: value})


def test_model_spec_is_checked():
    with pytest.raises(InvalidInput, match="one of paper-cnn"):
        ModelSpec("resnet", (1, 28, 28), 10)
    with pytest.raises(InvalidInput, match="input_shape"):
        ModelSpec("paper-cnn", (28, 28), 10)
    with pytest.raises(InvalidInput, match="classes"):
        ModelSpec("paper-cnn", (1, 28, 28), 1)


def test_partition_settings_are_checked():
    with pytest.raises(InvalidInput, match="alpha"):
        PartitionSettings(alpha=0.0)
    with pytest.raises(InvalidInput, match="kind"):
        PartitionSettings(kind="zipf")  # type: ignore[arg-type]


def test_the_learning_rate_decays_by_round():
    settings = TrainingSettings(learning_rate=0.1, learning_rate_decay=0.5)
    assert [settings.rate_of(number) for number in (1, 2, 3)] == [0.1, 0.05, 0.025]


def test_defaults_follow_the_data():
    assert default_model("digits") == "small-cnn"
    assert default_model("mnist") == "paper-cnn"
    assert default_model("cifar10") == "paper-cnn-centred"
    assert default_model("street:signs", (3, 64, 64)) == "paper-cnn-centred"
    assert default_model("hospital:scans", (1, 64, 64)) == "paper-cnn"
    assert default_model("hospital:scans", (1, 12, 12)) == "small-cnn"
    assert not default_settings("mnist").flip
    assert not default_settings("digits").flip
    assert default_settings("cifar10").flip
