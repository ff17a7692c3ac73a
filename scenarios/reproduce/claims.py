"""Claims of papers, their tolerances, and what came out here."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

from models.errors import InputError
from models.words import nearest
from scenarios.reproduce.tasks import Desk, check_directory

_STUDIES = {"checkpoint-assisted": "scenarios.reproduce.checkpoint_assisted"}  # module with `findings`


@dataclass(frozen=True)
class Claim:
    """What a paper says, and in words what counts as the same.

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
    """What came out: `ours` beside the paper's value, whether the claim holds by its tolerance, and if not why."""

    ours: str
    holds: bool
    cause: str = ""


def claims() -> tuple[Claim, ...]:
    """All claims that are known, in the order of their file."""
    text = (resources.files("scenarios") / "data" / "claims.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(Claim(row["study"], row["id"], row["claim"], row["role"], row["paper"], row["accept"]) for row in rows)


def study_names() -> list[str]:
    """The studies that have claims."""
    return list(dict.fromkeys(claim.study for claim in claims()))


def reproduce(studies: Sequence[str] = (), desk: Desk | None = None, *, quick: bool = False) -> list[dict[str, Any]]:
    """One row for each claim of the studies (all without any): the paper's value, ours, and whether it holds.

    `holds` is None for a claim that was not tried. `quick` takes fewer seeds; `desk` says where and how the pieces are
    made. Raises InputError for an unknown study or a directory of something else.
    """
    known = study_names()
    for name in studies:
        if name not in known:
            raise InputError.at("STUDY", name, "is no study", nearest(name, known))
    chosen = [name for name in known if not studies or name in studies]
    desk = desk or Desk()
    if desk.directory is not None:
        check_directory(desk.directory)
    found: dict[str, Mapping[str, Finding]] = {}
    for name in chosen:
        if name in _STUDIES:
            found[name] = import_module(_STUDIES[name]).findings(desk, quick=quick)
    return [_row(claim, found.get(claim.study, {}).get(claim.id)) for claim in claims() if claim.study in chosen]


def _row(claim: Claim, finding: Finding | None) -> dict[str, Any]:
    return {
        "study": claim.study,
        "claim": claim.id,
        "text": claim.text,
        "role": claim.role,
        "paper": claim.paper,
        "ours": None if finding is None else finding.ours,
        "tolerance": claim.accept,
        "holds": None if finding is None else finding.holds,
        "cause": "" if finding is None else finding.cause or ("" if finding.holds else "not looked into"),
    }
