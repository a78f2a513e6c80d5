"""``fedgrove attack``: from the command to tables and pictures."""

import json

import pytest

from tests.node.cli.test_bad_input import fedgrove

DIGITS = ["--dataset", "digits", "--quick"]


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_seed_writes_the_same_report(tmp_path):
    for out in ("one", "two"):
        result = fedgrove("attack", "protocol", *DIGITS, "--out", out, "--json", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert json.loads(result.stdout)["protocol"]["shares"] == {"opened": 0, "sealed": 56}


def test_pictures_stand_beside_the_tables_and_earlier_attacks_stay_on_the_page(tmp_path):
    (tmp_path / "out").mkdir()
    assert fedgrove("attack", "protocol", *DIGITS, "--out", "out", cwd=tmp_path).returncode == 0
    result = fedgrove("attack", "model", *DIGITS, "--seed", "1", "--out", "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    written = files(tmp_path / "out")
    assert written["model.png"].startswith(b"\x89PNG")
    page = written["README.md"].decode()
    assert "## Model inversion" in page and "## Protocol attacks" in page and "![model](model.png)" in page
    assert json.loads(written["model.json"])["settings"]["seed"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mind"], "there is no attack 'mind': choose one of gradient, model, gan, protocol, all"),
        (["model", "--dataset", "letters"], "unknown dataset 'letters'"),
        (["model", *DIGITS, "--noise-multiplier", "nan"], "noise multiplier must be from 0.01 to 1000, not nan"),
        (["model", *DIGITS, "--noise-clients", "0"], "shared by 1 to 10000 clients, not 0"),
        (["model", *DIGITS, "--seed", "-1"], "--seed"),
        (["model", *DIGITS, "--seed", "1" + 30 * "0"], "--seed"),
        (["model", *DIGITS, "--out", "file"], "file"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("in the way")
    result = fedgrove("attack", *arguments, cwd=tmp_path)
    assert result.returncode == 2 and sentence in result.stderr and "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("fedgrove:")]) == 1


def test_a_broken_file_of_an_earlier_report_is_named(tmp_path):
    (tmp_path / "gan.json").write_text("{}")
    result = fedgrove("attack", "protocol", *DIGITS, "--out", ".", cwd=tmp_path)
    assert result.returncode == 2 and "gan.json cannot be used, remove it" in result.stderr
