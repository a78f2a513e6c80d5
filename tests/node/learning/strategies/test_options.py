"""What holds of every strategy's options: their ranges, and which other strategy it is with a weight of zero."""

import re

import pytest

from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.learning.settings import STRATEGIES
from fedgrove.node.learning.strategies import make_strategy
from fedgrove.node.learning.strategies.fedaom import FedAom
from fedgrove.node.protocol.terms import StrategySettings

REFUSED = [
    ("fedmagic", {}, r"strategy\.name must be one of fedaom, fedaomsam, .*, not 'fedmagic'"),
    ("fedavg", {"mu": 1.0}, r"strategy\.options must be left out: fedavg has none"),
    ("fedaom", {"Q": 1.0}, r"unknown key strategy\.options\.Q; known in .*: beta, epsilon, q, refresh, shared_batch"),
    ("fedaom", {"q": 1.5}, r"strategy\.options\.q must be of type int, not 1\.5"),
    ("fedaom", {"beta": float("nan")}, r"strategy\.options\.beta must be a finite number"),
    ("fedaom", {"beta": "1"}, r"strategy\.options\.beta must be of type float"),
]
OUT_OF_RANGE = {
    "fedaom": [("q", 0), ("epsilon", 0.0), ("shared_batch", -1), ("refresh", -1.0)],
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
    with pytest.raises(InvalidConfig, match=rf"strategy\.options\.{option} must be (a whole number )?from [01]"):
        make_strategy(name, {option: value})


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_other_names_and_options_are_a_sentence(name, options, message):
    with pytest.raises(InvalidConfig, match=message):
        make_strategy(name, options)


def test_terms_may_write_counts_as_numbers_with_a_point():
    assert make_strategy("fedaom", {"q": 4.0, "beta": 2, "refresh": 0.0}) == FedAom(q=4, beta=2.0, refresh=0)


@pytest.mark.parametrize(("name", "zero", "other", "options"), WITHOUT_WEIGHT)
def test_with_a_weight_of_zero_it_is_another_strategy_to_the_bit(trained, same, name, zero, other, options):
    plain, ours = trained(make_strategy(other, options)), trained(make_strategy(name))
    assert same(trained(make_strategy(name, zero)), plain)
    assert set(ours.tensors) == set(trained(make_strategy(name, zero)).tensors)
    assert ours.state.keys() == plain.state.keys()
    assert not same(ours, plain)


def test_the_help_of_the_option_names_every_strategy():
    named = re.findall(r"[a-z]+", StrategySettings.__doc__.partition("Local training:")[2].partition(";")[0])
    assert set(named) - {"or"} == set(STRATEGIES)
