"""Runs of jobs whose outputs are trimmed by acks, from the root of the project.

`PYTHONPATH=tests python -m lab.slices --seed 17` replays the schedule of a seed. `--measure` finds how soon each mutant
is noticed, and writes the table of the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lab.broken_trimming import HARMLESS, MUTANTS
from lab.slicing import BEYOND, BOLD, OTHERS, WITHIN, Slicing, Tamper

HERE = Path(__file__).parent
FILE, PAGE = HERE / "data" / "trimming_detection.json", HERE / "README.md"
SCHEDULES, MOST = 1_200, 24_000  # for the share; until the first, where that is later
BEGIN, END = "<!-- trimming: begin -->", "<!-- trimming: end -->"
Row = dict[str, Any]


def recorded() -> dict[str, Row]:
    """Return the results in the file, by mutant."""
    found: dict[str, Row] = json.loads(FILE.read_text())
    return found


def measured(tamper: Tamper, most: int = MOST) -> Row:
    """Return the first seed that is at fault, how many are, how many have lost something, and the first of those."""
    row: Row = {"first": None, "noticed": 0, "lossy": 0, "first_lossy": None, "by": ""}
    said = Counter[str]()
    for seed in range(most):
        if seed >= SCHEDULES and row["first"] is not None:
            break
        faults = Slicing.drawn(seed, tamper=tamper).run()
        if not faults:
            continue
        row["first"] = seed if row["first"] is None else row["first"]
        said[_plain(faults[0])] += 1
        lossy = any(fault.startswith("lost") for fault in faults)
        if lossy and row["first_lossy"] is None:
            row["first_lossy"] = seed
        if seed < SCHEDULES:
            row["noticed"] += 1
            row["lossy"] += lossy
    row["by"] = said.most_common(1)[0][0] if said else ""
    return row


def _plain(fault: str) -> str:
    """Return a fault without names."""
    return " ".join(word for word in fault.split() if "[" not in word)


def measure() -> None:
    """Measure all mutants; write the file and the table of the page."""
    found = {}
    for name, tamper in MUTANTS.items():
        found[name] = measured(tamper)
        print(name, found[name], flush=True)
    for name, tamper in HARMLESS.items():
        print(name, measured(tamper, SCHEDULES), flush=True)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), table(found)))


def table(rows: dict[str, Row]) -> str:
    """Return the rows of the page."""
    lines = [
        f"| mutant | first seed | of {SCHEDULES:,} | first that loses | of {SCHEDULES:,} | said most often |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        lossy = "none" if row["first_lossy"] is None else format(row["first_lossy"], ",")
        cells = (name, format(row["first"], ","), row["noticed"], lossy, row["lossy"], row["by"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def page(text: str, rows: str) -> str:
    """Return the page with this table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{rows}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Return 1 if the schedule is at fault."""
    parser = argparse.ArgumentParser(prog="python -m lab.slices", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reading", choices=["safe", "literal"], default="safe")
    parser.add_argument("--assumption", choices=[WITHIN, BOLD, BEYOND], default=WITHIN)
    parser.add_argument(
        "--jobs", choices=[*OTHERS], default="", help="draw it for a job with a join, or bounded queues"
    )
    parser.add_argument("--mutant", help="break this on purpose", choices=[*MUTANTS, *HARMLESS])
    parser.add_argument("--measure", action="store_true", help="measure all mutants, and write the table")
    asked = parser.parse_args()
    if asked.measure:
        measure()
        return 0
    tamper = (MUTANTS | HARMLESS).get(asked.mutant)
    one = Slicing.drawn(asked.seed, asked.reading, asked.assumption, tamper, asked.jobs)
    faults = one.run()
    lost = f", {one.met['lost']} lost" if one.met["lost"] else ""
    print(f"{one.lab.job}\n{one.lab.clock.now_ns()} steps{lost}: {'; '.join(faults) or 'nothing is wrong'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
