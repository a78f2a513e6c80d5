"""Draw the diagrams of the documentation: ``python scripts/diagrams.py [--check]`` writes ``docs/diagrams/*.svg``.

Each picture has its own background and two sets of colours, so that it is readable on light and dark pages.
"""

import argparse
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "docs" / "diagrams"
# Colours of the light page, then of the dark one.
COLOURS = {
    "page": ("#ffffff", "#14201a"),
    "ink": ("#16241d", "#eaf3ee"),
    "soft": ("#3b4d44", "#b9ccc1"),
    "line": ("#1f6b4a", "#6fcf9f"),
    "ledger": ("#e3f1e9", "#1e3a2c"),
    "store": ("#f6efdc", "#3a3220"),
    "box": ("#f6faf8", "#1b2b23"),
    "gold": ("#8a6410", "#e3b755"),
    "bad": ("#a3262a", "#ff9d9a"),
}
LINE = 19  # between lines of text, in pixels


def style() -> str:
    light, dark = (";".join(f"--{name}:{pair[n]}" for name, pair in COLOURS.items()) for n in (0, 1))
    return (
        f"svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
        "text{fill:var(--ink);font:14px system-ui,sans-serif}.h{font-weight:600}.s{fill:var(--soft);font-size:13px}"
        ".bad{fill:var(--bad)}.mid{text-anchor:middle}.page{fill:var(--page)}"
        ".box{fill:var(--box);stroke:var(--line)}.ledger{fill:var(--ledger);stroke:var(--line)}"
        ".store{fill:var(--store);stroke:var(--gold)}"
        ".wire{fill:none;stroke:var(--line);stroke-width:1.6;marker-end:url(#a)}"
        ".blob{fill:none;stroke:var(--gold);stroke-width:1.6;stroke-dasharray:5 4;marker-end:url(#b)}"
        ".rule{stroke:var(--line);stroke-width:.6}.ma{fill:var(--line)}.mb{fill:var(--gold)}"
    )


def text(x: float, y: float, lines: str | Iterable[str], kind: str = "s") -> str:
    """Lines of text, the first baseline at y."""
    several = [lines] if isinstance(lines, str) else lines
    return "".join(f'<text class="{kind}" x="{x}" y="{y + n * LINE}">{escape(s)}</text>' for n, s in enumerate(several))


def box(
    x: float, y: float, width: float, height: float, title: str, lines: Iterable[str] = (), kind: str = "box"
) -> str:
    """A box with a title and lines below it."""
    frame = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>'
    return frame + text(x + 12, y + 24, title, "h") + text(x + 12, y + 24 + LINE, lines)


def arrow(path: str, kind: str = "wire") -> str:
    """An arrow along a path: ``wire`` for what goes to or comes from the ledger, ``blob`` for the store."""
    return f'<path class="{kind}" d="{path}"/>'


def picture(name: str, title: str, description: str, size: tuple[int, int], parts: Iterable[str]) -> str:
    """The whole file."""
    marker = '<marker id="{0}" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
    marker += '<path class="m{0}" d="M0,0 L6,3 L0,6z"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img"'
        f' aria-labelledby="{name}-t {name}-d">\n<title id="{name}-t">{escape(title)}</title>\n'
        f'<desc id="{name}-d">{escape(description)}</desc>\n<style>{style()}</style>\n'
        f"<defs>{marker.format('a')}{marker.format('b')}</defs>\n"
        f'<rect class="page" width="{size[0]}" height="{size[1]}" rx="8"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def a_round() -> str:
    phases = [
        ("1 open", ["coordinator:", "model in force,", "terms"]),
        ("2 draw", ["member: proof of", "its lot, and two", "fresh keys"]),
        ("3 seal", ["anyone: random", "order, so who is", "whose partner"]),
        ("4 share", ["member: sealed", "shares of its", "secrets; trains"]),
        ("5 commit", ["member: digest,", "then its masked", "update"]),
        ("6 release", ["holders: shares", "that unmask only", "the sum"]),
        ("7 close", ["coordinator: the", "sum, and from it", "the next model"]),
    ]
    parts = [
        box(
            14,
            14,
            972,
            62,
            "Ledger",
            ["signed records with digests; a phase ends when the last member has acted, or at a fixed block"],
            "ledger",
        )
    ]
    for n, (title, lines) in enumerate(phases):
        x = 14 + n * 140
        parts += [box(x, 124, 132, 96, title, lines), arrow(f"M{x + 66},124 V82")]
    parts += [arrow(f"M{80 + n * 140},220 V268", "blob") for n in (0, 3, 4, 5, 6)]
    parts += [
        box(
            14,
            274,
            972,
            62,
            "Store",
            ["the bytes behind the digests: models, sealed shares, masked updates, released shares"],
            "store",
        ),
        arrow("M920,336 V362 H40 V342", "blob"),
        text(
            500, 356, "members check the model, and more than half replace a false one; the next round begins", "s mid"
        ),
    ]
    return picture(
        "round",
        "A round in seven steps",
        "Open, draw, seal, share, commit, release, close. Each step writes signed records to the ledger; models,"
        " shares and masked updates go to the store.",
        (1000, 374),
        parts,
    )


def who_knows_what() -> str:
    columns = ["data", "own update", "masked updates", "sum, models", "who took part", "account key"]
    yes, own, no = "sees", "its own", "–"
    rows = [
        ("a member", [own, own, yes, yes, yes, own]),
        ("the coordinator", [no, no, yes, yes, yes, own]),
        ("the store", [no, no, yes, yes, yes, no]),
        ("an auditor, or anybody", [no, no, yes, yes, yes, no]),
        ("all partners of a member, colluding", [no, "that one's", yes, yes, yes, own]),
    ]
    parts = [text(230 + n * 128 + 58, 36, name, "h mid") for n, name in enumerate(columns)]
    for r, (who, cells) in enumerate(rows):
        y = 66 + r * 46
        parts.append(f'<path class="rule" d="M14,{y - 18} H986"/>')
        name, _, rest = who.partition(" of ")
        parts.append(
            text(20, y + 8, who, "h") if not rest else text(20, y + 1, [f"{name} of a member", "that collude"], "h")
        )
        parts += [
            text(230 + n * 128 + 58, y + 8, cell, "bad mid h" if cell == "that one's" else "s mid")
            for n, cell in enumerate(cells)
        ]
    parts += [
        f'<path class="rule" d="M14,{66 + 5 * 46 - 18} H986"/>',
        text(
            20,
            314,
            [
                "A masked update is noise to everybody who lacks the masks. The sum is over three members at least.",
                "With differential privacy the sum and the models carry noise. Committees of a cluster see more.",
            ],
        ),
    ]
    return picture(
        "who-knows-what",
        "Who knows what",
        "Only a member sees its data and its own update. Coordinator, store, auditors and anybody else see masked"
        " updates, the sum, the models and who took part. If all partners of a member collude, they see its update.",
        (1000, 346),
        parts,
    )


def unlearning() -> str:
    parts = [
        box(14, 20, 210, 96, "Member", ["wants some points, or", "all of them, forgotten:", "fedgrove unlearn"]),
        box(
            394,
            20,
            226,
            96,
            "Ledger",
            ["the signed request;", "a member that left draws", "in no later round"],
            "ledger",
        ),
        box(
            760,
            20,
            226,
            96,
            "Next round",
            ["every member that is there", "sends counts anew, from a", "fresh seeding, under masks"],
        ),
        arrow("M224,68 H388"),
        text(306, 60, "request", "s mid"),
        arrow("M620,68 H754"),
        text(687, 60, "starts", "s mid"),
        arrow("M873,116 V176"),
        box(760, 182, 226, 96, "New clustering", ["made from what members", "have now; no old sum", "goes into it"]),
        arrow("M760,230 H626"),
        box(
            394,
            182,
            226,
            96,
            "Certificate",
            ["a file that names request,", "round and clustering; any", "audit checks it"],
            "store",
        ),
        arrow("M394,230 H230"),
        box(
            14,
            182,
            210,
            96,
            "Anybody",
            ["audits the history with", "the certificate: the sum", "holds nothing withdrawn"],
        ),
        text(14, 308, "Earlier clusterings stay public. Which points a member left out is its own word."),
    ]
    return picture(
        "unlearning",
        "How K-means forgets",
        "A member requests on the ledger that points be forgotten. The next round sums everybody anew. The new"
        " clustering is made without the withdrawn points, and a certificate that anybody can audit says so.",
        (1000, 326),
        parts,
    )


def audit() -> str:
    steps = [
        ("0–2 chain", ["headers link up,", "receipts hash to", "their roots"]),
        ("3–4 authors", ["each record in a", "transaction that its", "author signed"]),
        ("5 rules", ["phases, lots, order,", "keys: the contracts'", "rules, once more"]),
        ("6 content", ["blobs have their", "digests, sizes and", "shapes"]),
        ("7 mask equation", ["the model follows", "from the masked", "updates, bit for bit"]),
        ("8–10 the rest", ["privacy budgets, the", "run's report, the", "head that you name"]),
    ]
    parts = [
        box(14, 14, 480, 62, "Ledger", ["or ledger.jsonl of a run, or a CAR file"], "ledger"),
        box(506, 14, 480, 62, "Store", ["or the folder store/ of a run"], "store"),
    ]
    for n, (title, lines) in enumerate(steps):
        x = 14 + n * 163.4
        parts.append(box(x, 124, 152, 96, title, lines))
        if n:
            parts.append(arrow(f"M{x - 11.4},172 H{x - 5}"))
    parts += [arrow(f"M{90 + n * 163.4},76 V118") for n in (0, 1, 2)]
    parts += [arrow(f"M{90 + n * 163.4},76 V118", "blob") for n in (3, 4, 5)]
    parts += [
        arrow("M500,220 V262"),
        box(14, 268, 316, 62, "verified", ["exit code 0: everything follows"], "ledger"),
        box(342, 268, 316, 62, "the first bad record, by name", ["exit code 1: and whose it is"], "box"),
        box(670, 268, 316, 62, "cannot tell", ["exit code 2: something is out of reach"], "store"),
        text(
            14,
            356,
            "Needs no key, no torch and no running process. What a member trained on its own data stays its own.",
        ),
    ]
    return picture(
        "audit",
        "What an audit recomputes",
        "From ledger and store: the chain, the authors of records, the rules, the content, the sums and models, the"
        " rest. The verdict is verified, the first bad record, or cannot tell.",
        (1000, 374),
        parts,
    )


PICTURES = {"round": a_round, "who-knows-what": who_knows_what, "unlearning": unlearning, "audit": audit}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a file is not as this script draws it")
    check = parser.parse_args().check
    stale = []
    for name, draw in PICTURES.items():
        path, drawn = OUT / f"{name}.svg", draw()
        if check and (not path.exists() or path.read_text() != drawn):
            stale.append(f"{path.name} is not as scripts/diagrams.py draws it: run it")
        elif not check:
            path.write_text(drawn)
    print("\n".join(stale) or "the diagrams are as drawn")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
