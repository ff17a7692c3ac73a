"""Seeds: one range for every option and key, so that the same number decides the draws of each command."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from models.errors import InputFault

MOST_SEED = 2**63 - 1
SEED_RULE = "must be a whole number between 0 and 2^63 - 1"


def seed_faults(path: str, seed: object) -> Iterator[InputFault]:
    """Yield the fault of a value that is no seed, under the name of its option or key."""
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number <= MOST_SEED:
        yield InputFault(path, seed, SEED_RULE, f"as in {path} 1" if path.startswith("--") else "")
