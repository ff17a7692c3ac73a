"""Makers of small records for the tests of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from small_runs import make

__all__ = ["make"]
