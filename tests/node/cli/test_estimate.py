"""``fedgrove estimate``: fees from a chain or as given; a table for people, JSON for machines."""

import json

import pytest

from fedgrove.chain.face.networks import anvil
from tests.node.cli.test_bad_input import FEDERATION, fedgrove

LINE = ("estimate", "--config", "federation.toml", "--members", "10")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "federation.toml").write_text(FEDERATION + "[federation]\nrounds = 4\n")
    return tmp_path


def estimate(place, *more) -> dict:
    result = fedgrove(*LINE, *more, "--json", cwd=place)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_given_fee_needs_no_chain(place):
    found = estimate(place, "--base-fee", "2", "--tip", "0.5", "--price", "1000 EUR")
    assert (found["members"], found["rounds"], found["drawn"]) == (10, 4, 10)
    gas, ether = found["gas"], found["ether"]
    assert ether["whole"] == pytest.approx(gas["whole"] * 2.5e-9)
    assert found["cost"]["member"] == pytest.approx(1000 * ether["member"]) and found["currency"] == "EUR"
    assert gas["members"] == pytest.approx(10 * gas["member"], abs=10)
    assert found["round_blocks"]["least_seconds"] == 12 * found["round_blocks"]["least"]
    assert not {"cost", "currency"} & set(estimate(place, "--base-fee", "2"))


def test_a_tip_that_is_not_given_is_what_members_would_offer(place):
    assert estimate(place, "--base-fee", "2")["tip_gwei"] == 0.2
    assert estimate(place, "--base-fee", "400")["tip_gwei"] == 3  # network.max_tip_gwei


def test_more_rounds_cost_more_and_founding_is_paid_once(place):
    short, long = (estimate(place, "--base-fee", "1", "--rounds", rounds)["gas"] for rounds in ("10", "20"))
    assert long["founder"] == short["founder"]
    assert long["whole"] - short["whole"] == pytest.approx(10 * long["round"], rel=0.05)


def test_a_chain_says_its_fees_and_its_pace(place):
    with anvil(block_seconds=1) as network:
        network.advance_to(4)
        found = estimate(place, "--rpc", network.url)
        reached = f'[network]\nrpc = "{network.url}"\n'
        (place / "federation.toml").write_text(FEDERATION + reached)
        assert estimate(place)["base_fee_gwei"] > 0
    assert 0 < found["base_fee_gwei"] <= 1 and found["tip_gwei"] > 0
    assert found["round_blocks"]["block_seconds"] == pytest.approx(1, abs=0.5)


def test_people_see_a_table(place):
    shown = fedgrove(*LINE, "--base-fee", "1", "--price", "2500 EUR", cwd=place)
    assert shown.returncode == 0 and not shown.stderr
    for words in ("one member", "the coordinator", "whole federation", "EUR", "9 blocks (108 s)"):
        assert words in shown.stdout
    assert "approving" not in shown.stdout
