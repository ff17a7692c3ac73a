"""How soon each mutant is noticed: `PYTHONPATH=tests python -m lab.detection` measures it and writes the table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.campaigns import Draw, drawn, drawn_shaped
from lab.mutants import EQUIVALENT, MUTANTS, Mutant
from lab.schedule import run

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
MOST = 9_000  # schedules until the first, where that is later than those of the share
BEGIN, END = "<!-- detection: begin -->", "<!-- detection: end -->"
Row = dict[str, Any]


@dataclass(frozen=True)
class Measurement:
    """Schedules under which mutants are looked for, and the file with the results."""

    draw: Draw
    schedules: int  # for the share
    file: Path

    def applies(self, mutant: Mutant) -> bool:
        """Return whether the mutant can show here."""
        return self is OTHERS or not mutant.shaped

    def recorded(self) -> dict[str, Row]:
        """Return the results in the file."""
        found: dict[str, Row] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return found

    def measured(self, mutant: Mutant) -> Row:
        """Return the first seed that is at fault, how many of the schedules are, and what is said most often."""
        first, noticed, said = None, 0, Counter[str]()
        for seed in range(MOST):
            if seed >= self.schedules and (first is not None or mutant.name in EQUIVALENT):
                break
            found = run(self.draw(mutant.protocol, seed), mutant.tamper).faults
            if found:
                first = seed if first is None else first
                noticed += seed < self.schedules
                said[plain(found[0])] += 1
        return {
            "protocol": mutant.protocol,
            "first": first,
            "noticed": noticed,
            "by": [fault for fault, _ in said.most_common(1)],
        }

    def measure(self, asked: list[str]) -> None:
        """Measure all mutants, or those whose names or protocols are given, and write the file."""
        found = self.recorded()
        for mutant in filter(self.applies, MUTANTS):
            if not asked or mutant.name in asked or mutant.protocol in asked:
                found[mutant.name] = self.measured(mutant)
                print(mutant.name, found[mutant.name], flush=True)
        found = {mutant.name: found[mutant.name] for mutant in MUTANTS if mutant.name in found}
        self.file.write_text(json.dumps(found, indent=1) + "\n")


CHAINS = Measurement(drawn, 1_080, HERE / "data" / "detection.json")
OTHERS = Measurement(drawn_shaped, 1_120, HERE / "data" / "shape_detection.json")


def plain(fault: str) -> str:
    """Return a fault without names and numbers."""
    words = [word for word in fault.replace(":", " ").split() if not any(c.isdigit() or c in "[](){}" for c in word)]
    return " ".join(words[:7])


def table(chains: dict[str, Row], others: dict[str, Row]) -> str:
    """Return the rows of the page."""
    rows = [
        f"| mutant | protocol | chains: first seed | of {CHAINS.schedules:,} "
        f"| other shapes: first seed | of {OTHERS.schedules:,} | said most often |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, other in others.items():
        chain = chains.get(name)
        by = (chain or other)["by"] or other["by"]
        rows.append(f"| {name} | `{other['protocol']}` | {_cells(chain)} | {_cells(other)} | {', '.join(by)} |")
    return "\n".join(rows)


def _cells(one: Row | None) -> str:
    if one is None:
        return "cannot | 0"
    return f"{'never' if one['first'] is None else format(one['first'], ',')} | {one['noticed']}"


def page(text: str, rows: str) -> str:
    """Return the page with this table."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{rows}\n{END}{rest.split(END)[1]}"


def main() -> int:
    """Measure all, or those whose names or protocols are given, and write files and page."""
    asked = sys.argv[1:]
    only = "--shapes" in asked
    for measurement in (OTHERS,) if only else (CHAINS, OTHERS):
        measurement.measure([name for name in asked if name != "--shapes"])
    PAGE.write_text(page(PAGE.read_text(), table(CHAINS.recorded(), OTHERS.recorded())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
