"""Claims of papers, their tolerances, and what came out here."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module, resources
from typing import Any

from analysis.report.parts import ClaimRow
from models.errors import InputError
from models.validation_messages import nearest
from scenarios.studies.reproduce.tasks import TaskRunner, check_directory

_STUDIES = {  # module with `findings`, or with `results` and `findings_of` where there is more to show
    "checkpoint-assisted": "scenarios.studies.reproduce.checkpoint_assisted",
    "elastic-upstream-backup": "scenarios.studies.reproduce.elastic_upstream_backup",
    "live-migration": "scenarios.studies.reproduce.live_migration",
    "rapid-elasticity": "scenarios.studies.reproduce.rapid_elasticity",
    "selective-replication": "scenarios.studies.reproduce.selective_replication",
}


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and in words what counts as the same.

    `role`: whether a figure is predicted, was fitted, is derived from others, is a trend, or a definition.
    """

    study: str
    id: str
    text: str
    role: str
    paper: str
    accept: str


@dataclass(frozen=True)
class Finding:
    """The outcome: `ours` beside the paper's value, whether the claim holds by its tolerance, and if not why.

    `value` is the figure that is compared, where it is one number.
    """

    ours: str
    holds: bool
    cause: str = ""
    value: float | None = None


def said_of_few(verdicts: Mapping[str, Finding], seeds: int, whole: int) -> dict[str, Finding]:
    """Return the verdicts; those that do not hold say so where fewer seeds were tried than in the whole study."""
    if seeds >= whole:
        return dict(verdicts)
    few = f"only {seeds} seeds"
    return {
        claim: one if one.holds else replace(one, cause="; ".join(filter(None, (one.cause, few))))
        for claim, one in verdicts.items()
    }


def claims() -> tuple[Claim, ...]:
    """Return all claims that are known, in the order of their file."""
    text = (resources.files("scenarios") / "data" / "claims.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Claim(row["study"], row["id"], row["claim"], row["role"], row["paper"], _accepted(row["accept"]))
        for row in rows
    )


def _accepted(text: str) -> str:
    """Return the tolerance, without the remark on earlier findings."""
    return re.sub(r" \(a prototype [^)]*\)$", "", text)


def study_names() -> list[str]:
    """Return the studies that have claims."""
    return list(dict.fromkeys(claim.study for claim in claims()))


@dataclass(frozen=True)
class Outcome:
    """One row for each claim, and by study what else a page can show of it."""

    rows: tuple[ClaimRow, ...]
    results: Mapping[str, Any]


def reproduce(
    studies: Sequence[str] = (), runner: TaskRunner | None = None, *, quick: bool = False
) -> tuple[ClaimRow, ...]:
    """Return one row for each claim of the studies (all without any): the paper's value, ours, and whether it holds.

    `holds` is None for a claim that was not tried. `quick` takes fewer seeds; `runner` says where and how the pieces
    are made. Raises InputError for an unknown study or a directory of something else.
    """
    return tried(studies, runner, quick=quick).rows


def tried(studies: Sequence[str] = (), runner: TaskRunner | None = None, *, quick: bool = False) -> Outcome:
    """Return the rows of `reproduce`, and what a page shows beside them; raises as it does."""
    known = study_names()
    for name in studies:
        if name not in known:
            raise InputError.at("STUDY", name, "is no study", nearest(name, known))
    chosen = [name for name in known if not studies or name in studies]
    runner = runner or TaskRunner()
    if runner.directory is not None:
        check_directory(runner.directory)
    found: dict[str, Mapping[str, Finding]] = {}
    results: dict[str, Any] = {}
    for name in chosen:
        # Imported only when asked for: the studies load solvers and the simulator.
        module = import_module(_STUDIES[name]) if name in _STUDIES else None
        if module is not None and hasattr(module, "results"):
            results[name] = module.results(runner, quick=quick)
            found[name] = module.findings_of(results[name])
        elif module is not None:
            found[name] = module.findings(runner, quick=quick)
    rows = (_row(claim, found.get(claim.study, {}).get(claim.id)) for claim in claims() if claim.study in chosen)
    return Outcome(tuple(rows), results)


def _row(claim: Claim, finding: Finding | None) -> ClaimRow:
    cause = "" if finding is None else finding.cause or ("" if finding.holds else "not looked into")
    return ClaimRow(
        study=claim.study,
        claim=claim.id,
        text=claim.text,
        role=claim.role,
        paper=claim.paper,
        ours=None if finding is None else finding.ours,
        tolerance=claim.accept,
        holds=None if finding is None else finding.holds,
        cause=cause,
    )
