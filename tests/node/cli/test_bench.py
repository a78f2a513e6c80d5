"""The benchmarks run and say what they compare with; gas, which does not depend on the machine, meets its goals."""

import json

import pytest

from node.cli import bench_chain, bench_ipfs, bench_masking, bench_vrf
from tests.node.cli.test_bad_input import fedgrove


def by_name(result):
    return {row["name"]: row for row in result["rows"]}


def test_gas_of_a_round_meets_its_goals():
    rows = by_name(bench_chain.run(40))
    assert rows["register"]["value"] <= 120_000
    assert rows["share"]["value"] <= 32_000
    assert rows["commit"]["value"] <= 35_000
    assert rows["draw, one root"]["value"] <= 65_000


def test_gas_of_a_proof_meets_its_goal_and_contract_and_python_agree():
    rows = by_name(bench_vrf.run())
    assert rows["verify on chain, 1 roots"]["value"] < rows["verify on chain, mean"]["value"] <= 16_000
    assert rows["message, mean"]["value"] <= 345
    assert {"prove, coincurve", "verify, ecdsa, pure Python", "Chainlink VRF.sol"} <= set(rows)


def test_masking_names_its_limit_and_its_rival():
    rows = by_name(bench_masking.run(20_000))
    assert rows["client: mask, 7 partners"]["limit_name"].startswith("raw AES-CTR")
    upload = rows["client: upload"]["value"]
    assert 4 * 20_000 < upload < 4 * 20_000 + 10_000
    assert any("Flower" in name for name in rows)


def test_the_store_names_its_limit(tmp_path):
    for row in bench_ipfs.run(2_000_000, tmp_path)["rows"]:
        assert row["value"] > 0 and "sha2-256" in row["limit_name"]


@pytest.mark.parametrize("line", ["bench masking --parameters 20000", "bench chain --clients 3"])
def test_the_command_prints_a_table_or_json(tmp_path, line):
    shown = fedgrove(*line.split(), cwd=tmp_path)
    assert shown.returncode == 0 and "measured" in shown.stderr and not shown.stdout
    printed = fedgrove(*line.split(), "--json", cwd=tmp_path)
    assert printed.returncode == 0 and json.loads(printed.stdout)["rows"]
