"""The table ``[bounds]``, and what other tables must say with it."""

import tomllib
from dataclasses import replace

import pytest

from fedgrove.chain.records.deployment import LedgerSettings
from fedgrove.common.errors import InvalidInput
from fedgrove.node.base.strict_tables import InvalidConfig
from fedgrove.node.masking.parameters import Assumed
from fedgrove.node.methods.terms import config_of, parse_config
from fedgrove.node.privacy.settings import LocalSettings
from fedgrove.node.protocol.bounds_settings import BoundsSettings, largest_norm
from fedgrove.node.protocol.terms import FederationConfig, MaskingSettings
from tests.node.protocol.test_terms import MINIMAL

LEDGER = LedgerSettings(vouch_window=20, affirm_window=20, stages=4)


@pytest.fixture
def bounded() -> FederationConfig:
    config, _ = config_of(tomllib.loads(MINIMAL))
    return replace(config, masking=MaskingSettings(masked="delta"), ledger=LEDGER, bounds=BoundsSettings(0.5))


def test_terms_with_bounds_are_read_back(bounded):
    assert parse_config(bounded.to_bytes()) == bounded
    assert b'"bounds"' not in config_of(tomllib.loads(MINIMAL))[0].to_bytes()


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("masking.masked", {"masking": MaskingSettings()}),
        ("masking.kappa", {"masking": MaskingSettings(masked="delta", kappa=0.5)}),
        ("bounds.norm", {"bounds": BoundsSettings(0.7)}),
        ("ledger.vouch_window", {"ledger": LedgerSettings()}),
        ("ledger.stages", {"ledger": replace(LEDGER, stages=0)}),
        ("ledger.vouch_window", {"bounds": None}),
        ("bounds", {"privacy": LocalSettings(epsilon=8.0, delta=1e-5, clip=1.0)}),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_key(bounded, key, changes):
    with pytest.raises(InvalidConfig, match=f"^{key} must be"):
        replace(bounded, **changes)


@pytest.mark.parametrize(
    "values", [{"norm": 0.0}, {"norm": -1.0}, {"norm": 1.0, "width": 300}, {"norm": 1, "width": 128}]
)
def test_values_out_of_range_are_refused(values):
    with pytest.raises(InvalidInput):
        BoundsSettings(**values)


@pytest.mark.parametrize("bound", [0.01, 1.0, 7.0, 8.0, 9.0, 1000.0])
def test_the_largest_norm_is_less_than_the_largest_value(bound):
    assert 0 < largest_norm(bound) < bound / 4


@pytest.mark.parametrize(("clients", "words"), [(4, 256), (300, 256), (600, 512), (1000, 512)])
def test_a_sketch_is_as_long_as_its_colluders_ask_for(clients, words):
    assert BoundsSettings(1.0).words_of(clients, Assumed()) == words
    assert BoundsSettings(1.0, width=1024).words_of(clients, Assumed()) == 1024
