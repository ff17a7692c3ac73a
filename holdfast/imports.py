"""Whether the packages that are imported as models, sim, ... are ours: their names are common ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGES = ("models", "sim", "optimizer", "analysis", "scenarios")


def places() -> dict[str, str]:
    """Return package -> the folder that Python would import it from, "" where it would find none."""
    found = {}
    for package in PACKAGES:
        # Finds the package without importing it: what hides ours must not run.
        spec = importlib.util.find_spec(package)
        # A module file of that name has no locations: its own path is where it is.
        locations = list(spec.submodule_search_locations or []) if spec else []
        found[package] = locations[0] if locations else (spec.origin or "" if spec else "")
    return found


def shadowed() -> str:
    """Return one sentence about packages of ours that something else hides; "" when all are ours."""
    home = Path(__file__).resolve().parents[1]
    others = {name: place for name, place in places().items() if not _is_ours(place, home / name)}
    if not others:
        return ""
    listed = ", ".join(f"{name} ({place or 'not found'})" for name, place in others.items())
    return (
        f"these packages are not those of holdfast in {home}: {listed}; set PYTHONSAFEPATH=1 and take their "
        "folder out of PYTHONPATH"
    )


def _is_ours(place: str, ours: Path) -> bool:
    # Resolved, as an installation may be a link to the sources.
    return bool(place) and Path(place).resolve() == ours
