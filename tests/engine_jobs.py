"""Small jobs of each engine in which something fails, and what is refused of them, for tests of engines' rules."""

from __future__ import annotations

from typing import Any

import flink_job
import pytest

from models.errors import InputError
from models.scenario.reading import scenario_from

JOB: dict[str, Any] = flink_job.JOB | {
    "events": {"kill": {"kind": "host-failure", "host": "tm-1", "at": "5 min"}},
}
QUERY: dict[str, Any] = JOB | {
    "engine": "spark",
    "hosts": {"executor": {"count": 3, "cores": 4}},
    "fault_tolerance": {"interval": "1 s"},
    "events": {"kill": {"kind": "driver-failure", "at": "5 min"}},
}
APPLICATION: dict[str, Any] = JOB | {
    "engine": "kafka-streams",
    "hosts": {"broker": {"count": 2}, "app": {"count": 3, "cores": 4}},
    "placement": {"method": "round-robin", "operators": {"in": "broker", "out": "broker"}, "hosts": ["app"]},
    "fault_tolerance": {},
    "events": {"kill": {"kind": "host-failure", "host": "app-1", "at": "5 min"}},
}


def refused(raw: dict[str, Any], **changes: Any) -> list[str]:
    """What is wrong with a job with these changes."""
    with pytest.raises(InputError) as caught:
        scenario_from(raw | changes)
    return [str(fault) for fault in caught.value.faults]
