"""How soon each mutant is noticed: `PYTHONPATH=tests python -m lab.detection` measures it and writes the table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from lab.campaigns import drawn
from lab.mutants import EQUIVALENT, MUTANTS, Mutant
from lab.schedule import run

HERE = Path(__file__).parent
FILE, PAGE = HERE / "data" / "detection.json", HERE / "README.md"
SCHEDULES = 1_080  # for the share
MOST = 9_000  # for the first, where that is later
BEGIN, END = "<!-- detection: begin -->", "<!-- detection: end -->"


def measured(mutant: Mutant) -> dict[str, Any]:
    """The first schedule that is at fault, how many of so many are, and what is said most often."""
    first, noticed, said = None, 0, Counter[str]()
    for seed in range(MOST):
        if seed >= SCHEDULES and (first is not None or mutant.name in EQUIVALENT):
            break
        found = run(drawn(mutant.protocol, seed), mutant.tamper).faults
        if found:
            first = seed if first is None else first
            noticed += seed < SCHEDULES
            said[plain(found[0])] += 1
    return {
        "protocol": mutant.protocol,
        "first": first,
        "noticed": noticed,
        "by": [what for what, _ in said.most_common(1)],
    }


def plain(fault: str) -> str:
    """A fault without names and numbers."""
    words = [word for word in fault.replace(":", " ").split() if not any(c.isdigit() or c in "[](){}" for c in word)]
    return " ".join(words[:7])


def table(found: dict[str, dict[str, Any]]) -> str:
    """The rows of the page."""
    rows = ["| mutant | protocol | first noticed by seed | share | said most often |", "|---|---|---|---|---|"]
    for name, one in found.items():
        first = "never" if one["first"] is None else f"{one['first']:,}"
        rows.append(
            f"| {name} | `{one['protocol']}` | {first} | {one['noticed']} of {SCHEDULES:,} | {', '.join(one['by'])} |"
        )
    return "\n".join(rows)


def page(text: str, found: dict[str, dict[str, Any]]) -> str:
    """The page with this table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Measure all, or those whose names or protocols are given, and write both files."""
    asked, new = sys.argv[1:], {}
    for mutant in MUTANTS:
        if not asked or mutant.name in asked or mutant.protocol in asked:
            new[mutant.name] = measured(mutant)
            print(mutant.name, new[mutant.name], flush=True)
    found = (json.loads(FILE.read_text()) if FILE.exists() else {}) | new
    found = {mutant.name: found[mutant.name] for mutant in MUTANTS if mutant.name in found}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
