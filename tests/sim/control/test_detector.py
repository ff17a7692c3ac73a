"""Hosts that are suspected: the search for silences against one event for each heartbeat, and closed forms.

Oracles: a plain statement of the detector, heartbeat after heartbeat; the law of runs of losses; the plain plane.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import Any

import numpy as np
import pytest
from moving_jobs import Crash, moving_job, run
from seeds import sample
from small_jobs import random_job, scenario, simulate, storm
from test_planes import differences, on_both

from models.records.tables import NEVER
from models.scenario.fault_tolerance import Detector
from models.units import to_ns
from sim.control.failures import Heartbeats, Silence
from sim.draws import code_of, source_id, time_sampler, uniform
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

S = 10**9


def made(**keys: Any) -> Detector:
    return Detector.model_validate(keys, context={"units": True}, by_alias=True, by_name=False)


def delay_of(draw: Random) -> dict[str, str] | None:
    mean = f"{draw.choice([1, 20, 90, 300])} ms"
    return draw.choice(
        [
            None,
            {"distribution": "exponential", "mean": mean},
            {"distribution": "deterministic", "value": mean},
            {"distribution": "uniform", "low": "0 s", "high": mean},
        ]
    )


def random_detector(draw: Random) -> Detector:
    late = delay_of(draw)
    keys = {} if late is None else {"delay": late}
    heartbeat = draw.choice([50, 100])
    timeout = draw.choice([1, 1.5, 2, 3]) * heartbeat + draw.choice([0, 1])
    return made(heartbeat=f"{heartbeat} ms", timeout=f"{timeout} ms", loss=draw.choice([0.0, 0.1, 0.5]), **keys)


class Plain:
    """The detector of one host, one event for each heartbeat, each draw by itself."""

    def __init__(self, detector: Detector, seed: int, host: str) -> None:
        self.interval, self.timeout = to_ns(detector.heartbeat_s), to_ns(detector.timeout_s)
        self.detector, self.code = detector, code_of(seed, 0, host, "heartbeat")
        self.lost, self.late = (code_of(seed, 0, host, what) for what in ("loss", "delay"))
        self.delay = None if detector.delay is None else self._law(detector)

    def _law(self, detector: Detector) -> Any:
        sampler = time_sampler(detector.delay, 0, 0, "x")  # type: ignore[arg-type]
        own = code_of(0, 0, "x", "service")
        return lambda identity: sampler((identity + self.late - own) % 2**64)

    def sent(self, until: int) -> list[tuple[int, int]]:
        """(arrives, sent) of the heartbeats that arrive, of those sent before an instant, by arrival."""
        heap: list[tuple[int, int]] = []
        for number in range(1, (until - 1) // self.interval + 1):
            identity = source_id(self.code, number)
            if uniform(identity, self.lost) >= self.detector.loss:
                at = number * self.interval
                heappush(heap, (at + (self.delay(identity) if self.delay else 0), at))
        return [heappop(heap) for _ in range(len(heap))]

    def outages(self, until: int) -> list[tuple[int, int]]:
        """(fenced, back) up to an instant."""
        found, heard, after, down = [], 0, 0, False
        for arrives, sent in self.sent(until):
            if not down and arrives > heard + self.timeout:
                after, down = heard + self.timeout, True
                found.append((after, NEVER))
            if sent > after:
                if down:
                    found[-1] = (after, arrives)
                heard, down = arrives, False
        return found


def outages(detector: Detector, seed: int, until: int) -> list[tuple[int, int]]:
    """The same by the search in blocks."""
    beats = Heartbeats(detector, seed, 0, "h")
    found: list[tuple[int, int]] = []
    silence = Silence(beats, 0, 0)
    while silence.known_ns < until:
        strike = silence.check()
        if strike is not None:
            found.append((strike, beats.first_after(strike)))
            silence = Silence(beats, *found[-1])
    return found


@pytest.mark.parametrize("seed", sample(3, 40))
def test_silences_are_those_of_one_event_for_each_heartbeat(seed: int) -> None:
    detector, until = random_detector(Random(seed)), 300 * S
    expected = [one for one in Plain(detector, seed, "h").outages(until) if NEVER < one[1] < until - 10 * S]
    assert outages(detector, seed, until)[: len(expected)] == expected


@pytest.mark.parametrize("seed", sample(3, 40))
def test_a_crash_is_detected_a_time_out_after_the_last_heartbeat_that_arrived(seed: int) -> None:
    draw = Random(seed)
    detector = random_detector(draw)
    first = next(iter(outages(detector, seed, 200 * S)), (200 * S, NEVER))[0]
    plain, beats = Plain(detector, seed, "h"), Heartbeats(detector, seed, 0, "h")
    for _ in range(20):
        failed = draw.choice(
            [draw.randrange(1, first), draw.randrange(max(1, first // plain.interval)) * plain.interval + 1]
        )
        silence = Silence(beats, 0, 0)
        while silence.known_ns < failed:
            silence.check()
        expected = 0
        for arrives, _sent in plain.sent(failed):
            if arrives > expected + plain.timeout:
                break
            expected = max(expected, arrives)
        assert silence.detected_ns(failed) == max(failed, expected + plain.timeout)


def test_without_loss_or_delay_nobody_is_suspected_and_crashes_are_detected_as_ever() -> None:
    beats = Heartbeats(made(heartbeat="100 ms", timeout="250 ms"), 1, 0, "h")
    silence = Silence(beats, 0, 0)
    assert silence.check() is None
    for failed in (1, 99 * 10**6, 100 * 10**6, 100 * 10**6 + 1, 5 * S):
        assert silence.detected_ns(failed) == (failed - 1) // 10**8 * 10**8 + 250 * 10**6


@pytest.mark.parametrize(("loss", "ratio"), [(0.5, 3), (0.2, 2.5), (0.1, 2)])
def test_suspicions_are_runs_of_losses(loss: float, ratio: float) -> None:
    # A heartbeat that arrives is followed by k lost ones with probability loss^k; then the host is down from the
    # time-out until the next that arrives, 1 / (1 - loss) heartbeats after the k on average.
    detector, beats = made(heartbeat="1 s", timeout=f"{ratio} s", loss=loss), 60_000
    found = [outages(detector, seed, beats * S) for seed in range(3)]
    count, k = sum(map(len, found)), int(ratio)
    expected = 3 * beats * detector.suspicions_per_s
    assert expected == pytest.approx(3 * beats * (1 - loss) * loss**k)
    assert abs(count - expected) < 3.3 * expected**0.5  # 99.9 %: less spread than a Poisson number
    down = np.array([back - strike for one in found for strike, back in one]) / S
    mean = k + 1 / (1 - loss) - ratio
    assert abs(down.mean() - mean) < 3.3 * loss**0.5 / (1 - loss) / count**0.5


def test_crashes_are_detected_earlier_the_more_is_lost() -> None:
    # The last heartbeat that arrived before an instant is as old as a uniform part of one and a geometric number.
    detector, draw, n = made(heartbeat="1 s", timeout="30 s", loss=0.25), Random(4), 4000
    beats, silence = Heartbeats(detector, 1, 0, "h"), None
    found = []
    for failed in sorted(draw.randrange(S, 200_000 * S) for _ in range(n)):
        while silence is None or silence.known_ns < failed:
            silence = silence or Silence(beats, 0, 0)
            assert silence.check() is None  # 30 in a row: once in 10^18
        found.append((silence.detected_ns(failed) - failed) / S)
    mean, variance = 30 - 0.5 - 0.25 / 0.75, 1 / 12 + 0.25 / 0.75**2
    assert abs(np.mean(found) - mean) < 3.3 * (variance / n) ** 0.5


@pytest.mark.parametrize("heartbeat", ["30 d", "18000 d", "36000 d"])
def test_heartbeats_that_are_rarer_than_any_run_is_long_are_counted_in_whole_numbers(heartbeat: str) -> None:
    beats = Heartbeats(made(heartbeat=heartbeat, timeout="36500 d", loss=0.5), 1, 0, "h")
    assert Silence(beats, 0, 0).known_ns > 0
    assert beats.first_after(10**18) > 10**18


JOB: dict[str, Any] = {
    "duration": "20 s",
    "workload": {"in": {"rate": "100 /s", "keys": {"distribution": "uniform", "count": 20}}},
    "operators": {
        "in": {"kind": "source"},
        "sum": {
            "kind": "aggregate",
            "inputs": {"in": "key"},
            "key_groups": 4,
            "parallelism": 2,
            "service": {"distribution": "exponential", "mean": "2 ms"},
            "state": {"model": "per-key", "bytes": "1 kB"},
        },
        "out": {"kind": "sink", "inputs": {"sum": "shuffle"}},
    },
    "hosts": {"h": {"count": 4}},
    "network": {"latency": "1 ms"},
    "fault_tolerance": {"method": "checkpoint", "interval": "1 s"},
    "detector": {"heartbeat": "200 ms", "timeout": "500 ms", "loss": 0.15},
}


def test_a_host_that_is_fenced_loses_what_it_has_and_comes_back_empty() -> None:
    records = simulate(scenario(JOB))
    table = {name: column.tolist() for name, column in records.tables["failures"].items()}
    assert set(table["cause"]) == {"suspicion"}
    assert table["detected_ns"] == table["failed_ns"]
    assert max(table["lost_partitions"]) > 0
    for number, host in enumerate(table["host"]):
        beats = Heartbeats(scenario(JOB).detector, scenario(JOB).seed, 0, f"h-{host}")
        back = beats.first_after(table["failed_ns"][number])
        assert table["repaired_ns"][number] == (back if back < 20 * S else NEVER)
    assert len(records.tables["recoveries"]["host"]) >= sum(table["lost_partitions"])


def test_a_fenced_host_that_dies_is_not_back_before_it_is_repaired() -> None:
    table = simulate(scenario(JOB)).tables["failures"]
    longest = int((table["repaired_ns"] - table["failed_ns"]).argmax())
    host, fenced, back = (int(table[name][longest]) for name in ("host", "failed_ns", "repaired_ns"))
    at = (fenced + back) // 2
    crash = {"kind": "host-failure", "host": f"h-{host}", "at": f"{at / S!r} s", "repair": "2 s"}
    seen = simulate(scenario(JOB | {"events": {"dies": crash}})).tables["failures"]
    rows = {name: column[seen["host"] == host].tolist() for name, column in seen.items()}
    before = rows["failed_ns"].index(fenced)
    assert rows["repaired_ns"][before] == NEVER
    assert rows["cause"][before + 1] == "crash"
    assert rows["failed_ns"][before + 1] == rows["detected_ns"][before + 1] == pytest.approx(at, abs=2)
    assert rows["repaired_ns"][before + 1] == rows["failed_ns"][before + 1] + 2 * S
    assert rows["lost_partitions"][before + 1] == 0


@pytest.mark.parametrize("method", ["checkpoint", "none"])
def test_planes_agree_where_hosts_are_fenced(method: str) -> None:
    crash = {"kind": "host-failure", "host": "h-1", "at": "7 s", "repair": "3 s"}
    late = {"distribution": "exponential", "mean": "60 ms"}
    tolerance = {"method": method} | ({"interval": "1 s"} if method == "checkpoint" else {})
    raw = JOB | {"events": {"dies": crash}, "fault_tolerance": tolerance, "detector": JOB["detector"] | {"delay": late}}
    assert on_both(raw) == []


@pytest.mark.parametrize("seed", sample(3, 10))
def test_planes_agree_in_random_jobs_where_hosts_are_fenced_and_die(seed: int) -> None:
    raw = (random_job if seed % 2 else storm)(Random(seed)) | {"duration": "6 s"}
    raw["detector"] = {"heartbeat": "200 ms", "timeout": f"{Random(seed).choice([210, 450])} ms", "loss": 0.2}
    assert on_both(raw) == []


@pytest.mark.parametrize("seed", sample(3, 6))
def test_nothing_is_lost_where_a_host_is_fenced_in_a_move(seed: int) -> None:
    protocol = ["cpa", "cpal", "direct"][seed % 3]
    job = moving_job(seed, protocol)
    calm = run(job, CompiledPlane)
    draw = Random(seed)
    for _ in range(2):
        at = draw.choice(calm.moments) + draw.randrange(2)
        crash = Crash(draw.randrange(5), at, draw.choice([1, 30, 400]) * 10**6, fenced=True)
        plain, compiled = (run(job, plane, crash) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain.records, compiled.records) == []
        assert compiled.faults == []
        assert "suspicion" in compiled.records.tables["failures"]["cause"]
