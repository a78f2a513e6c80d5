"""``fedgrove privacy``: tables, JSON, and mistakes in one sentence."""

import json

from tests.node.cli.test_bad_input import fedgrove

GEYER = ["--clients", "1000", "--rate", "0.22", "--rounds", "54"]


def test_a_plan_says_how_much_noise_and_what_to_do(tmp_path):
    shown = fedgrove("privacy", "plan", *GEYER, "--participation", "secret", cwd=tmp_path)
    assert shown.returncode == 0 and not shown.stderr
    assert "1.251" in shown.stdout and "draw more clients" in shown.stdout and "useless here" in shown.stdout
    assert "is not 8 but 15 for an average client and 22.4 for the most-drawn client" in shown.stdout
    assert "ledger.max_clients must be at least 329" in shown.stdout
    printed = fedgrove("privacy", "plan", *GEYER, "--delta", "0.002", "--parameters", "100", "--json", cwd=tmp_path)
    found = json.loads(printed.stdout)
    assert found["training"]["participation"] == "public" and found["outlook"]["counted_rounds"] == 19
    assert any("lower it" in sentence for sentence in found["advice"]) and not printed.stderr
    assert not any("ledger" in sentence for sentence in found["advice"])
    assert found["outlook"]["cost"]["most_drawn"]["rounds"] == 19


def test_what_was_spent_is_told_for_both_who_look(tmp_path):
    line = ["privacy", "spent", "--clients", "100", "--rate", "0.5", "--rounds", "11", "--noise-multiplier", "1"]
    shown = fedgrove(*line, "--delta", "1e-3", "--participations", "6", "--epsilon", "10", cwd=tmp_path)
    assert shown.returncode == 0
    assert "rounds left" in shown.stdout
    for figure in ("7.793", "average client (6 rounds)", "9.928", "most-drawn client (9 rounds)", "13.09"):
        assert figure in shown.stdout
    assert "a client drawn 6 times" in shown.stdout
    printed = fedgrove(*line, "--delta", "1e-3", "--lost", "0.5", "--json", cwd=tmp_path)
    found = json.loads(printed.stdout)
    assert found["models"]["epsilon"] > 12 and found["models"]["rounds_left"] is None and found["own"] is None
    assert found["most_drawn"]["rounds"] == 9 and found["average"]["epsilon"] < found["most_drawn"]["epsilon"]
