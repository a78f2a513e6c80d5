"""How many blocks a round takes with everybody present, phase by phase, on chains of several speeds.

    python scripts/measure_blocks.py [--clients 5] [--rounds 5] [--seconds 1 12] [--out DIR]

What runs is what people run: ``fedgrove network up --wait``, each member a process on this machine. ``--seconds`` are
those between two blocks, a federation for each value. Training lies between the last share and the last commitment.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedgrove.chain.founding import read_deployment
from fedgrove.chain.history import capture
from fedgrove.chain.networks import connect
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from measured_page import write_results

COMMAND = (str(Path(sys.executable).parent / "fedgrove"), "network")


def measure(clients: int, rounds: int, seconds: float) -> dict[str, Any]:
    """One federation on a chain with a block every ``seconds``."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "testnet"
        options = {"clients": clients, "rounds": rounds, "block-seconds": seconds, "store": "disk", "standby": 0}
        options |= {"dataset": "digits", "strategy": "fedavg", "dir": directory}
        given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        try:
            subprocess.run([*COMMAND, "up", "--no-explorer", "--wait", *given], check=True)
            found = _rounds(directory)
        finally:
            subprocess.run([*COMMAND, "down", "--dir", str(directory)], check=False)
    return {
        "block seconds": seconds,
        "clients": clients,
        "rounds": [phases(*each) for each in pairwise([None, *found])],
    }


def _rounds(directory: Path) -> list[RoundRecords]:
    record = read_record(TestnetPaths(directory))
    with connect(f"http://127.0.0.1:{record.ports['chain']}") as network:
        history = capture(network, read_deployment(network, record.ledger))
    sorted_records = Rounds()
    for each in history.records():
        sorted_records.add(each)
    return sorted_records.ended()


def phases(before: RoundRecords | None, current: RoundRecords) -> dict[str, int]:
    """Blocks from each record that ends a phase to the next; ``training`` holds the way to the last commitment.

    ``open`` counts from the closing of the round before to the opening of this one, and is no part of ``all``.
    """
    ends = {
        "draw": max(each.at.block for each in current.draws.values()),
        "order": current.sealing.at.block,
        "share": max(each.at.block for each in current.shares.values()),
        "training": max(each.at.block for each in current.commits.values()),
        "recover": current.recovery.at.block,
        "close": current.ending.at.block,
    }
    blocks, last = {}, current.opened.at.block
    for name, end in ends.items():
        blocks[name], last = end - last, end
    waited = current.opened.at.block - before.ending.at.block if before else 0
    early = sum(end is not None for end in (current.draw_end, current.share_end, current.commit_end))
    return {"open": waited} | blocks | {"all": last - current.opened.at.block, "phases that ended early": early}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 12.0])
    parser.add_argument("--out", type=Path, default=Path("docs/results/blocks"))
    options = parser.parse_args()
    for seconds in options.seconds:
        found = measure(options.clients, options.rounds, seconds)
        write_results(options.out, f"{options.clients}-clients-{seconds:g}s", {}, found, PAGE)


def _row(found: Mapping[str, Any]) -> str:
    rounds = found["rounds"]
    cells = [f"{found['block seconds']:g} s", str(found["clients"]), str(len(rounds))]
    for name in (*PHASES, "all"):
        least, most = min(each[name] for each in rounds), max(each[name] for each in rounds)
        cells.append(f"{least}" if least == most else f"{least} to {most}")
    return " | ".join([*cells, str(min(each["phases that ended early"] for each in rounds))])


PHASES = ("draw", "order", "share", "training", "recover", "close")
PAGE = (
    "Blocks of a round",
    """Rounds in which everybody is present, all roles as processes of one machine (`fedgrove network up --wait`,
digits, FedAvg): blocks from the opening to the closing, phase by phase. Training lies between the last share and the
last commitment, together with the block that takes the commitments. The next round is opened in the block after a
closing, or a little later.

Where no phase could end early, a round lasted as long as the windows of draw, share and commit: that row was measured
with the commit that it names.
""",
    f"a block every | clients | rounds | {' | '.join(PHASES)} | all | phases that ended early",
    _row,
)


if __name__ == "__main__":
    main()
