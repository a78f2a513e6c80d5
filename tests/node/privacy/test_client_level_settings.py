"""Terms of client-level privacy: what is refused, and what a schedule means."""

import math

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy.settings import ClientLevelSettings


@pytest.mark.parametrize(
    "name, values",
    [
        ("epsilon", {"epsilon": 0.0}),
        ("epsilon", {"epsilon": math.nan}),
        ("delta", {"delta": 0.0}),
        ("delta", {"delta": 0.2}),
        ("participation", {"participation": "hidden"}),
        ("noise_multipliers", {"noise_multipliers": ()}),
        ("noise_multipliers", {"noise_multipliers": (1.0, 2.0)}),
        ("noise_multipliers", {"noise_multipliers": (0.0,)}),
        ("noise_multipliers", {"noise_multipliers": (math.nan,)}),
        ("sampling_rates", {"sampling_rates": (0.1, 0.2)}),
        ("sampling_rates", {"sampling_rates": (0.0,)}),
        ("phases", {"phases": (1,), "noise_multipliers": (1.0, 2.0)}),
        ("phases", {"phases": (5, 5), "noise_multipliers": (1.0, 2.0, 3.0)}),
        ("clipping", {"clipping": "mean"}),
        ("clip", {"clip": 0.0}),
        ("clip", {"clip": math.inf}),
        ("quantile", {"quantile": 1.0}),
        ("quantile_rate", {"quantile_rate": 0.0}),
        ("quantile_noise", {"quantile_noise": 0.01}),
        ("dropouts", {"dropouts": 1.0}),
        ("dropouts", {"dropouts": -0.1}),
    ],
)
def test_bad_terms_are_refused(name, values):
    with pytest.raises(InvalidInput, match=f"^{name} must be"):
        ClientLevelSettings(**values)


def test_a_schedule_holds_from_its_round_on():
    terms = ClientLevelSettings(noise_multipliers=(1.0, 1.5, 2.0), sampling_rates=(0.1, 0.2, 0.4), phases=(3, 10))
    assert [terms.noise_multiplier_of(number) for number in (1, 2, 3, 9, 10, 99)] == [1.0, 1.0, 1.5, 1.5, 2.0, 2.0]
    assert [terms.sampling_rate_of(number, 1.0) for number in (1, 3, 10)] == [0.1, 0.2, 0.4]
    assert ClientLevelSettings().sampling_rate_of(7, 0.25) == 0.25
