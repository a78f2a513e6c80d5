"""Terms of privacy: what is refused, and what a schedule means."""

import math

import pytest

from fedgrove.common.errors import InvalidInput
from fedgrove.node.privacy.settings import ClientLevelSettings, LocalSettings, SignDsSettings

REFUSED = {
    ClientLevelSettings: {
        **{"epsilon": (0.0, math.nan), "delta": (0.0, 0.2), "participation": ("hidden",), "clipping": ("mean",)},
        **{"noise_multipliers": ((), (1.0, 2.0), (0.0,), (math.nan,)), "sampling_rates": ((0.1, 0.2), (0.0,))},
        **{"clip": (0.0, math.inf), "quantile": (1.0,), "quantile_rate": (0.0,), "quantile_noise": (0.01,)},
        "dropouts": (1.0, -0.1),
    },
    LocalSettings: {"epsilon": (0.0, 101.0), "delta": (0.0, 0.2), "clip": (0.0, math.nan)},
    SignDsSettings: {
        **{"epsilon": (0.0, math.nan, 1001.0), "top": (0.0, 0.6), "dimensions": (-1, 1025), "share": (1.1,)},
        **{"step": (0.0, math.inf), "step_decay": (0.0, 1.5)},
    },
}


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind, table in REFUSED.items() for name, values in table.items() for value in values],
)
def test_bad_terms_are_refused(kind, name, value):
    with pytest.raises(InvalidInput, match=f"^{name} must be"):
        kind(**{name: value})


@pytest.mark.parametrize(("phases", "noise"), [((1,), (1.0, 2.0)), ((5, 5), (1.0, 2.0, 3.0))])
def test_phases_ascend(phases, noise):
    with pytest.raises(InvalidInput, match=r"^phases must be"):
        ClientLevelSettings(phases=phases, noise_multipliers=noise)


def test_a_schedule_holds_from_its_round_on():
    terms = ClientLevelSettings(noise_multipliers=(1.0, 1.5, 2.0), sampling_rates=(0.1, 0.2, 0.4), phases=(3, 10))
    assert [terms.noise_multiplier_of(number) for number in (1, 2, 3, 9, 10, 99)] == [1.0, 1.0, 1.5, 1.5, 2.0, 2.0]
    assert [terms.sampling_rate_of(number, 1.0) for number in (1, 3, 10)] == [0.1, 0.2, 0.4]
    assert ClientLevelSettings().sampling_rate_of(7, 0.25) == 0.25


def test_the_step_decays_from_round_1_on():
    settings = SignDsSettings(step=4.0, step_decay=0.5)
    assert [settings.step_of(number) for number in (1, 2, 4)] == [4.0, 2.0, 0.5]
