"""The section about checkpoints: whether they kept up, and what their uploads cost the records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pages import PageReader, Parts, full, rendered

from analysis.runs.checkpoint_summary import Checkpoints, HostDelay, MeanAndMax, OperatorCheckpoints, UploadDelay

pytestmark = pytest.mark.usefixtures("small_script")


def words(given: Checkpoints, *, bounded: bool = True) -> str:
    parts = Parts(uploads=given, delays=full().delays, sharing="fifo", bounded=bounded)
    return " ".join(PageReader(rendered(parts)).words)


def of_full() -> Checkpoints:
    given = full().uploads
    assert given is not None
    return given


def test_the_section_says_what_was_late_skipped_old_and_delayed() -> None:
    said = words(of_full())
    assert "They could not keep up: 13 of 26 were late, and 36 were skipped." in said
    assert "The longest time without a completed one was 42\u00a0s." in said
    assert "its checkpoint was 30\u00a0s old on average, 40\u00a0s at most" in said
    # 50 by 2 s and 150 by 4 s
    assert "Uploads delayed records: of 400 records that these hosts sent, 200 left later" in said
    assert "by 3.5\u00a0s on average, 5\u00a0s at most. Sharing of links: fifo" in said


def test_checkpoints_that_kept_up_are_said_to_have_kept_up() -> None:
    fine = {"sum": OperatorCheckpoints(26, 26, 0, 0, 10.0)}
    given = replace(
        of_full(),
        completed=26,
        late=0,
        skipped=0,
        operators=fine,
        delayed=None,
        age_at_failure_s=MeanAndMax(None, None),
    )
    said = words(given)
    assert "All 26 kept up: none was late, none was skipped. Uploads delayed no records." in said
    assert "They could not" not in said
    assert "old on average" not in said
    assert "No link has a bandwidth" in words(given, bounded=False)


def test_the_figure_says_that_it_leaves_hosts_out() -> None:
    assert "Only the hosts" not in words(of_full())
    many = tuple(HostDelay(f"h{k}", 2, 1, 1.0, 1.0) for k in range(11))
    given = replace(of_full(), delayed=UploadDelay(22, 11, 1.0, 1.0, many))
    assert "Only the hosts whose uploads delayed records most." in words(given)
