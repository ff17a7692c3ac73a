"""Run one case: `PYTHONPATH=tests python -m lab.cases --kind aligned --seed 17`, from the root of the project.

`--mutant NAME` breaks something first, `--shrink` makes a case that is at fault smaller.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from lab import barriers, batches, changelogs, losing_windows, moving_plans, reading, scaled, windows
from lab.broken_snapshots import HARMLESS, MUTANTS
from lab.recovering import Case, Recovering, smaller

KINDS: dict[str, tuple[type[Recovering], Callable[[str, int], Case]]] = {
    "aligned": (barriers.Barriers, barriers.drawn),
    "at-least-once": (barriers.Barriers, barriers.drawn),
    "unaligned": (barriers.Barriers, barriers.drawn),
    "shared": (barriers.Barriers, barriers.drawn),
    "rescaled": (scaled.Scaled, scaled.drawn),
    "read": (reading.Read, reading.drawn),
    "moving": (moving_plans.MovingPlans, moving_plans.drawn),
    "post-dated": (moving_plans.PostDatedOutputs, moving_plans.postponing),
    "losing": (moving_plans.LosingPlans, moving_plans.losing),
    "losing windows": (losing_windows.LosingWindows, losing_windows.drawn),
    "windows": (windows.Windowed, windows.drawn),
    "batches": (batches.Batches, batches.drawn),
    "changelogs": (changelogs.Changelogs, changelogs.drawn),
}
MOST_RUNS = 500  # while a case is made smaller


def laboratory(case: Case) -> Recovering:
    """Return the laboratory of a case."""
    return KINDS[case.kind][0](case)


def drawn(kind: str, seed: int) -> Recovering:
    """Return the laboratory of a seed."""
    return laboratory(KINDS[kind][1](kind, seed))


def command(kind: str, seed: int) -> str:
    """Return the command that runs the case of a seed."""
    return f"PYTHONPATH=tests python -m lab.cases --kind {kind} --seed {seed}"


def campaign(kind: str, seeds: Iterable[int]) -> Counter[str]:
    """Run the cases of these seeds; return what they have met."""
    met = Counter[str]()
    for seed in seeds:
        one = drawn(kind, seed)
        faults = one.run()
        assert faults == [], f"{command(kind, seed)}: {faults}"
        met.update(one.met)
    return met


def noticed(title: str, seeds: Iterable[int]) -> int | None:
    """Return the first of these seeds with which something that is broken is noticed, or None."""
    kind, made = (MUTANTS | HARMLESS)[title]
    with pytest.MonkeyPatch.context() as patch:
        made(patch)
        return next((seed for seed in seeds if drawn(kind, seed).run()), None)


def shrunk(case: Case) -> tuple[Case, list[str]]:
    """Return a smaller case that is at fault, with its choices, and its faults."""
    best = laboratory(case)
    faults, runs = best.run(), 0
    assert faults, "there is nothing to shrink"
    found = replace(case, choices=tuple(best.noted.choices))
    while True:
        for less in (*smaller(found), *_calmer(found)):
            if runs >= MOST_RUNS:
                return found, faults
            runs += 1
            one = laboratory(less)
            said = one.run()
            if said:
                found, faults = replace(less, choices=tuple(one.noted.choices)), said
                break
        else:
            return found, faults


def _calmer(case: Case) -> Iterable[Case]:
    """Yield the case with spans of its choices that are the oldest step."""
    choices = case.choices or ()
    span = len(choices)
    while span:
        for begin in range(0, len(choices), span):
            if any(choices[begin : begin + span]):
                zeros = (0,) * len(choices[begin : begin + span])
                yield replace(case, choices=choices[:begin] + zeros + choices[begin + span :])
        span //= 2


def main() -> int:
    """Return 1 if the case is at fault."""
    parser = argparse.ArgumentParser(prog="python -m lab.cases", description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutant", help="break this on purpose", choices=[*MUTANTS, *HARMLESS])
    parser.add_argument("--shrink", action="store_true", help="find a smaller case that is at fault")
    asked = parser.parse_args()
    if asked.kind is None and asked.mutant is None:
        parser.error("give --kind or --mutant")
    kind = asked.kind or (MUTANTS | HARMLESS)[asked.mutant][0]
    with pytest.MonkeyPatch.context() as patch:
        if asked.mutant:
            (MUTANTS | HARMLESS)[asked.mutant][1](patch)
        one = drawn(kind, asked.seed)
        faults = one.run()
        print(f"{one.case}\n{one.lab.clock.now_ns()} steps: {'; '.join(faults) or 'nothing is wrong'}")
        if faults and asked.shrink:
            case, said = shrunk(one.case)
            print(f"shrunk: {case}\n{'; '.join(said)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
