"""All that is broken on purpose, and what of it nobody can notice."""

from __future__ import annotations

from lab import broken_coordinators, broken_dataflows, broken_protocols, broken_replicas  # noqa: F401 - what they define is in the list then
from lab.breaking import MUTANTS as REGISTERED
from lab.breaking import Mutant

__all__ = ["EQUIVALENT", "MUTANTS", "Mutant"]

MUTANTS = sorted(REGISTERED, key=lambda mutant: (mutant.protocol, mutant.name))  # whoever was imported first

EQUIVALENT = {
    "the redirect comes before the buffer": "timing only: a handler is one step, so no tuple departs between the two; "
    "what is kept still comes behind nothing but older tuples, and only the end of the pause is told too early",
    "the only state is given up when a move is called off": "slower, not wrong: the old instance is recovered from the "
    "checkpoint that the move had frozen, and everything that is kept for the new one is kept for it and sent again",
}
