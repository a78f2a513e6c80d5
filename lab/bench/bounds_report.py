"""What ``fedgrove bench bounds --out`` leaves in a folder: the figures, and a page of them."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedgrove.node.base.files import write_atomically
from fedgrove_lab.bench.rows import BenchResult
from fedgrove_lab.made import Made
from fedgrove_lab.tables import markdown

_HEAD = """\
# Cost of bounded sums

Written by `fedgrove bench bounds --out`; docs/bounded-sums.md says what a voucher is, and what the check of a sum is.

Seconds are processor time on one core. A client's are the least of three runs, for the whole voucher and for its parts;
the stretching of the seed comes on top, once a round. Vouchers were verified one by one and in the best of three
batches. The check of a sum is one run.

"Commitments, one each" shows what protocols pay that commit to every parameter by itself, as RiseFL, RoFL, ACORN and
EIFFeL do: two multiples of points a parameter, with the library that fedgrove uses, and nothing of their proofs. It is
an order of magnitude. No code of theirs was run here; the ratios between them are what RiseFL's authors published.
"""


def write_report(out: Path, result: BenchResult, made: Made) -> None:
    """Write the figures and how they were made, for machines and as a page."""
    out.mkdir(parents=True, exist_ok=True)
    document = {**result.to_json(), "made": asdict(made)}
    write_atomically(out / "bounds.json", (json.dumps(document, indent=1) + "\n").encode())
    write_atomically(out / "README.md", page(document, made).encode())


def page(document: Mapping[str, Any], made: Made) -> str:
    """The page of a stored document."""
    setting = f"{document['clients']} clients, {document['sketch_words']} words of the sketch and"
    rows = [[row["name"], _figure(row["value"]), row.get("unit", ""), _note(row)] for row in document["rows"]]
    table = markdown(["", "measured", "unit", "compared with"], rows, notes=2)
    return "\n".join(
        [_HEAD, "Made by:\n", made.text + "\n", f"{setting} {document['metric_words']} metric words.\n", table]
    )


def _figure(value: float | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}" if isinstance(value, float) else value


def _note(row: Mapping[str, Any]) -> str:
    if "limit" not in row:
        return row.get("note", "")
    ratio = f", ratio {row['ratio']:,}" if "ratio" in row else ""
    return f"{_figure(row['limit'])} {row['unit']} {row['limit_name']}{ratio}"
