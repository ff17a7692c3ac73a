"""How many watermarks a run is said to send, beside those that the plain plane sends."""

from __future__ import annotations

from typing import Any

import pytest
from small_jobs import scenario

from models.errors import InputError
from models.scenario.scenario import Scenario
from models.steady_state.estimate import SECONDS_PER_WATERMARK, check_limits, estimate, watermarks
from sim.engine import simulate
from sim.plain.plane import PlainPlane
from sim.plain.watermarks import Watermarks


def job(window: bool = True, **changes: Any) -> Scenario:
    """Two sources with tasks and watermarks of their own, a map of one of them, a window of both, and a sink."""
    service = {"distribution": "deterministic", "value": "10 us"}
    mid = {"kind": "map", "inputs": {"a": "shuffle"}, "parallelism": 3, "service": service}
    last = {"kind": "aggregate", "inputs": {"mid": "key", "b": "key"}, "parallelism": 2, "service": service}
    operators = {
        "a": {"kind": "source", "parallelism": 2},
        "b": {"kind": "source"},
        "mid": mid,
        "last": last | ({"window": {"length": "1 s"}} if window else {}),
        "out": {"kind": "sink", "inputs": {"last": "shuffle", "mid": "shuffle"}},
    }
    raw: dict[str, Any] = {
        "duration": "20 s",
        "workload": {
            "a": {"rate": "20 /s", "watermark": "50 ms"},
            "b": {"rate": "0 /s", "watermark": "200 ms"},
        },
        "operators": operators,
        "hosts": {"h": {"count": 2}},
    }
    return scenario(raw | changes)


def test_as_many_watermarks_go_over_channels_as_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    arrive = Watermarks._arrive
    monkeypatch.setattr(Watermarks, "_arrive", lambda *args: (sent.append(1), arrive(*args))[1])
    made = job()
    simulate(made, plane=PlainPlane)
    # a to mid 20 /s over 6 channels, mid to last the same over 6, b to last 5 /s over 2
    assert watermarks(made) == pytest.approx(20 * (20 * 6 + 20 * 6 + 5 * 2))
    assert len(sent) == pytest.approx(watermarks(made), rel=0.02)


def test_there_are_none_without_a_window() -> None:
    assert watermarks(job(window=False)) == 0


def test_a_run_of_watermarks_that_would_take_for_ever_is_refused() -> None:
    calm, endless = job(), job(duration="3650 d")
    assert estimate(calm).time_s > watermarks(calm) * SECONDS_PER_WATERMARK > 0
    with pytest.raises(InputError, match=r"limits\.time = 30 min: the run needs about"):
        check_limits(endless, estimate(endless))
