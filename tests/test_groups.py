"""Tests that share a process do so: versions of pytest and pytest-xdist that do not fit split the groups, silently.

Since pytest 9.2 an id cannot be changed any more as pytest-xdist 3.8 does to tell the group of a test.
"""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("told")
def test_whoever_gives_out_tests_is_told_their_groups(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("tests are not given out by groups")
    assert request.node.nodeid.endswith("@told"), "install the versions of constraints.txt"
