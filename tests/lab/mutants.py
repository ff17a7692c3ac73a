"""All that is broken on purpose, and what of it nobody can notice."""

from __future__ import annotations

from lab import broken_coordinators, broken_protocols  # noqa: F401 - what they define is in the list then
from lab.breaking import MUTANTS, Mutant

__all__ = ["EQUIVALENT", "MUTANTS", "Mutant"]

EQUIVALENT: dict[str, str] = {}
