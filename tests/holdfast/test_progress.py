"""Progress that measures where the time goes."""

from __future__ import annotations

import pytest

from holdfast import progress
from holdfast.progress import Stopwatch


def test_a_stopwatch_passes_on_what_it_hears_and_adds_up_each_text(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 13.5, 14.0, 20.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    heard: list[tuple[str, float | None]] = []
    watch = Stopwatch(lambda text, share: heard.append((text, share)), "checking")
    watch("reading", None)  # after 1 s
    watch("reading", 0.5)
    watch("writing", None)  # after 2.5 s more
    watch("reading", None)  # after 0.5 s more
    assert watch.seconds() == {"checking": 1.0, "reading": 8.5, "writing": 0.5}
    assert heard == [("reading", None), ("reading", 0.5), ("writing", None), ("reading", None)]
