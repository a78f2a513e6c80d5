"""Run the example and write its results to docs/results/generation.

    python examples/generation/run.py

Ten teams train in a simulation; then four of them hold a round under masks, which is audited. Runs that are done are
kept in runs/generation and not repeated.
"""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE, RUNS = ROOT / "examples" / "generation", ROOT / "runs" / "generation"
RESULTS = ROOT / "docs" / "results" / "generation"
CLIENTS, ROUNDS, MASKED = 10, 12, 4
BEGINNINGS = ("python3-", "lib", "golang-", "fonts-", "game")
PACKAGES = ("torch", "numpy")
PAGE = """# A small model that writes package descriptions

Written by `python examples/generation/run.py`; [the example](../../../examples/generation/README.md) says what is
learned.

## Measured
The loss is the mean over the lines' characters, in nats, on {test} lines of sources that no client has; {chance:.2f} is
that of a model that knows nothing. Right are the characters that the model foretells, given those before them.

| round | {numbers} |
| --- | {dashes} |
| loss | {losses} |
| right | {right} |

Lines that the last model begins with what stands before the bar:

```
{lines}
```

Under masks, {masked} teams, one round: the audit says *{verdict}*, and an upload has {upload} bytes.

## Settings
{clients} clients with 400 lines each; all take part in each round. Seed 0; rate, batch and epochs are those of
`examples/generation/task/terms.toml`. The simulation took {seconds:.0f} seconds in one process; the load of the {cores}
cores was {load:.0f} when it ended. Commit {commit}, task {bundle}.
{versions}.

```
python examples/generation/lines.py runs/generation/data
{commands}
```
"""


def main() -> None:
    data = RUNS / "data"
    if not data.exists():
        run([sys.executable, HERE / "lines.py", data])
    learned, masked = simulated(data), under_masks(data)
    model = RUNS / "learned" / "seed-0" / "checkpoint.safetensors"
    command = [sys.executable, HERE / "write.py", model, *BEGINNINGS]
    lines = said(command).splitlines()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(page(learned, masked, lines, len((data / "test.txt").read_text().splitlines())))
    (RESULTS / "summary.json").write_text(json.dumps(learned | {"masked": masked, "lines": lines}, indent=1) + "\n")


def simulated(data: Path) -> dict:
    """The rounds of all teams: loss and right characters after each, and the seconds that they took."""
    place = RUNS / "learned"
    command = ["fedgrove", "simulate", "--task", HERE / "task", "--data", data, "--clients", CLIENTS]
    command += ["--rounds", ROUNDS, "--set", "federation.sampling_rate=1", "--executor", "inline", "--out", place]
    timing = RUNS / "learned.json"
    if not timing.exists():
        began = time.monotonic()
        run(command)
        timing.write_text(json.dumps({"seconds": time.monotonic() - began, "load": os.getloadavg()[0]}))
    rounds = json.loads((place / "seed-0" / "record.json").read_text())["rounds"]
    found = {"loss": [each["loss"] for each in rounds], "right": [each["accuracy"] for each in rounds]}
    return {"command": shown(command), **found, **json.loads(timing.read_text())}


def under_masks(data: Path) -> dict:
    """A round of a federation with chain, store and masks; what the audit says of it."""
    place, own = RUNS / "masked", RUNS / "masked-data"
    if not (place / "report.json").exists():
        own.mkdir(exist_ok=True)
        for path in [*sorted(data.glob("[0-9]*.txt"))[:MASKED], data / "test.txt"]:
            (own / path.name).write_bytes(path.read_bytes())
    command = ["fedgrove", "demo", "--task", HERE / "task", "--data", own, "--clients", MASKED, "--rounds", 1]
    command += ["--out", place]
    if not (place / "report.json").exists():
        run(command)
    report = json.loads((place / "report.json").read_text())
    upload = max(size for each in report["bytes"].values() for size in each.values())
    verdict = json.loads(said(["fedgrove", "audit", place, "--json"]))["verdict"]
    return {"command": shown(command), "verdict": verdict, "upload_bytes": upload}


def page(learned: dict, masked: dict, lines: list[str], test: int) -> str:
    named = {name: version(name) for name in PACKAGES} | {"python": platform.python_version()}
    return PAGE.format(
        test=test,
        chance=4.5643,  # ln 96
        numbers=" | ".join(map(str, range(1, ROUNDS + 1))),
        dashes=" | ".join(["--:"] * ROUNDS),
        losses=" | ".join(f"{loss:.2f}" for loss in learned["loss"]),
        right=" | ".join(f"{share:.2f}" for share in learned["right"]),
        lines="\n".join(f"{begin}|{line.removeprefix(begin)}" for begin, line in zip(BEGINNINGS, lines, strict=True)),
        masked=MASKED,
        verdict=masked["verdict"],
        upload=masked["upload_bytes"],
        clients=CLIENTS,
        seconds=learned["seconds"],
        cores=os.cpu_count(),
        load=learned["load"],
        commit=said(["git", "-C", ROOT, "rev-parse", "HEAD"])[:12],
        bundle=said(["fedgrove", "task", "pack", HERE / "task"]).strip(),
        versions=", ".join(f"{name} {number}" for name, number in named.items()),
        commands="\n".join([learned["command"], masked["command"]]),
    )


def run(command: list) -> None:
    subprocess.run([*map(str, command)], check=True)


def said(command: list) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def shown(command: list) -> str:
    """A command as somebody in the repository's folder would type it."""
    return " ".join(str(part).removeprefix(f"{ROOT}/") for part in command)


if __name__ == "__main__":
    main()
