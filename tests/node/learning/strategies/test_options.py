"""What holds of every strategy's options: their ranges, and which other strategy it is with a weight of zero."""

import pytest

from fedgrove.node.learning.strategies import make_strategy

OUT_OF_RANGE = {
    "fedaomsam": [("rho", -0.1), ("rho", 1001.0), ("beta", -1.0)],
    "fedcurv": [("weight", -1.0), ("weight", 1e10)],
    "feddyn": [("alpha", 0.0), ("alpha", 1001.0), ("forget", -0.1), ("forget", 1.1)],
    "fedlc": [("tau", -0.1), ("tau", 1001.0)],
    "fedntd": [("beta", -0.1), ("tau", 0.0)],
    "fedprox": [("mu", -0.1), ("mu", 1001.0)],
    "fedsam": [("rho", -0.1), ("rho", 1001.0)],
    "fedspeed": [("alpha", 0.0), ("rho", -0.1), ("forget", 1.1)],
    "moon": [("mu", -1.0), ("mu", 1e4), ("temperature", 0.0), ("temperature", 1e4)],
    "scaffold": [("forget", -0.1), ("forget", 1.1)],
}
WITHOUT_WEIGHT = [
    ("fedlc", {"tau": 0.0}, "fedavg", {}),
    ("fedntd", {"beta": 0.0}, "fedavg", {}),
    ("fedprox", {"mu": 0.0}, "fedavg", {}),
    ("fedsam", {"rho": 0.0}, "fedavg", {}),
    ("fedspeed", {"rho": 0.0}, "feddyn", {"alpha": 0.1}),
]


@pytest.mark.parametrize(
    ("name", "option", "value"), [(name, *each) for name, found in OUT_OF_RANGE.items() for each in found]
)
def test_an_option_out_of_range_is_a_sentence(name, option, value):
    with pytest.raises(ValueError, match=f"the option {option} of {name} must be from 0"):
        make_strategy(name, {option: value})


@pytest.mark.parametrize(("name", "zero", "other", "options"), WITHOUT_WEIGHT)
def test_with_a_weight_of_zero_it_is_another_strategy_to_the_bit(trained, same, name, zero, other, options):
    plain, ours = trained(make_strategy(other, options)), trained(make_strategy(name))
    assert same(trained(make_strategy(name, zero)), plain)
    assert set(ours.tensors) == set(trained(make_strategy(name, zero)).tensors)
    assert ours.state.keys() == plain.state.keys()
    assert not same(ours, plain)
