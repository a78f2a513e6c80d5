"""Terms of privacy that make no sense are refused with a sentence."""

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy.settings import LocalSettings, SignDsSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
        ("epsilon", 1001.0),
        ("top", 0.0),
        ("top", 0.6),
        ("dimensions", -1),
        ("dimensions", 1025),
        ("share", 1.1),
        ("step", 0.0),
        ("step", float("inf")),
        ("step_decay", 0.0),
        ("step_decay", 1.5),
    ],
)
def test_bad_terms_of_signds_are_refused(name, value):
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        SignDsSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.0), ("epsilon", 101.0), ("delta", 0.0), ("delta", 0.2), ("clip", 0.0), ("clip", float("nan"))],
)
def test_bad_terms_of_local_privacy_are_refused(name, value):
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        LocalSettings(**{name: value})


def test_the_step_decays_from_round_1_on():
    settings = SignDsSettings(step=4.0, step_decay=0.5)
    assert [settings.step_of(number) for number in (1, 2, 4)] == [4.0, 2.0, 0.5]
