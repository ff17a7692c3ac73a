"""Descriptions of scenarios with some keys changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def changed(raw: Mapping[str, Any], changes: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy with values at paths (with / between keys); None takes a key away."""
    made = copy.deepcopy(dict(raw))
    for path, value in changes.items():
        here = made
        *above, last = path.split("/")
        for step in above:
            here = here.setdefault(step, {})
        if value is None:
            del here[last]
        else:
            here[last] = copy.deepcopy(value)
    return made
