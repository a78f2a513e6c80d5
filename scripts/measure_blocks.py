"""How many blocks and seconds a round takes with everybody present, phase by phase, on chains of several speeds.

    python scripts/measure_blocks.py [--clients 5] [--rounds 5] [--seconds 1 12] [--out FILE]

What runs is what people run: ``fedgrove network up --wait``, each member a process on this machine, on an anvil that
makes a block every so many seconds. Training lies in the commit phase, between the last share and the last commitment.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedgrove.chain.founding import read_deployment
from fedgrove.chain.history import capture
from fedgrove.chain.networks import connect
from fedgrove.node.devnet.testnet.layout import TestnetPaths, read_record
from fedgrove.node.protocol.rounds import RoundRecords, Rounds
from measured_page import MADE

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
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {"made": MADE, "runs": [measure(options.clients, options.rounds, each) for each in options.seconds]}
    text = json.dumps(found, indent=1) + "\n"
    if options.out:
        options.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
