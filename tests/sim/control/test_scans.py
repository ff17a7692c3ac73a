"""Tasks that scan all key groups in each round: equal planes, waits by closed form, and what cannot be beside it.

Oracles: `sim.plain`, by equality of all columns; M/G/1 with gated service, which leaves for a scan after each queue
(Takagi, *Queueing Analysis* 1, 1991); instants by hand.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changed_keys import changed
from closed_forms import PLANES, Sized, agrees, window
from queueing_formulas import SteadyState
from small_jobs import queue
from test_megaphone import job as reconfigured_job
from test_megaphone_times import busy_job
from test_planes import differences

from models.errors import InputError
from models.records.tables import EVENT_LOOP
from models.scenario.inputs import RunInputs
from models.scenario.reading import raw_of, scenario_from
from models.scenario.rules import not_simulated
from models.scenario.scenario import Scenario
from models.steady_state.estimate import estimate
from models.steady_state.latency import MeanTimes
from models.steady_state.load import expected_load
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.cluster import RunPlan
from sim.control.scans import Scans
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

PLAIN_PLANE, *_ = PLANES
FEWER = pytest.param(Sized(CompiledPlane, 100_000), id="compiled")
RATE, SERVICE_S, SCAN_S, GROUPS = 70.0, 0.01, 0.001, 8
ROUND_S = SCAN_S * GROUPS
SCANNED = {"inputs": {"src": "key"}, "kind": "aggregate", "key_groups": GROUPS, "scan": "1 ms"}
DETERMINISTIC = {"distribution": "deterministic", "value": "10 ms"}


def one_queue(service: dict[str, Any], **changes: Any) -> Scenario:
    return queue(service, workload={"src": {"rate": f"{RATE} /s"}}, q=SCANNED, **changes)


def gated(scv: float) -> SteadyState:
    busy = RATE * SERVICE_S
    wait_s = busy * SERVICE_S * (1 + scv) / (2 * (1 - busy)) + ROUND_S * (1 + busy) / (2 * (1 - busy))
    return SteadyState(busy, wait_s, RATE * wait_s)


@pytest.mark.parametrize("plane", [PLAIN_PLANE, FEWER])
@pytest.mark.parametrize(("service", "scv"), [(DETERMINISTIC, 0.0)])
def test_tuples_wait_for_the_scan_and_for_those_that_came_before_its_end(
    plane: Sized, service: dict[str, Any], scv: float
) -> None:
    agrees(plane, one_queue(service, **window(200)), {"q": gated(scv)})


def test_the_expected_wait_is_that_of_gated_service() -> None:
    made = one_queue(DETERMINISTIC, duration="10 s")
    assert MeanTimes(made, expected_load(made)).waits_s()["q"] == pytest.approx(gated(0.0).wait_s)


def test_a_tuple_is_served_after_the_scan_in_which_it_comes() -> None:
    """Scans of 8 ms; a tuple each 100 ms, of which the one at 100 ms comes in the scan from 96 to 104 ms."""
    load = {"rate": "10 /s", "arrivals": "deterministic"}
    service = {"distribution": "deterministic", "value": "3 ms"}
    made = queue(service, workload={"src": load}, q=SCANNED, duration="350 ms", network={"latency": "0 s"})
    found = simulate(made)
    rows = found.tables["visits"]
    own = rows["operator"] == found.operators.index("q")
    starts_ms = rows["start_ns"][own] / 1e6
    # A scan begins behind each service: 203 = 104 + 3 + 12 x 8, and 302 = 203 + 3 + 12 x 8.
    assert starts_ms.tolist() == [104, 203, 302]


def test_both_planes_give_equal_rows_beside_moves() -> None:
    seen = Counter[str]()
    for seed in range(16):
        raw = reconfigured_job(seed)
        for operator in raw["operators"].values():
            if operator["kind"] == "aggregate" and operator.get("service"):
                operator["scan"] = "1 ms"
        made = scenario_from(raw)
        if not_simulated(made):
            continue
        inputs = RunInputs(steps=optimised_steps(made, {}))
        plain, compiled = (simulate(made, inputs, plane=plane) for plane in (PlainPlane, CompiledPlane))
        assert differences(plain, compiled) == [], seed
        seen["installed"] += int((plain.tables["reconfigurations"]["installed_ns"] > 0).sum())
    assert seen["installed"] > 8


def test_a_scan_that_begins_ahead_of_the_queue_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the next scan at once nobody would ever be served."""

    def comes(scans: Scans, token: int, task: int) -> bool:
        found = token in scans._scan_ns
        if found:
            scans.state.work(task, scans._scan_ns[token], lambda: scans._next(token, task))
        return found

    right = simulate(one_queue(DETERMINISTIC, duration="4 s"))
    monkeypatch.setattr(Scans, "comes", comes)
    assert differences(right, simulate(one_queue(DETERMINISTIC, duration="4 s"))) != []


def test_it_runs_in_the_event_loop_and_its_rounds_are_a_part_of_the_estimate() -> None:
    made = one_queue(DETERMINISTIC, duration="100 s")
    assert kernel_for(RunPlan.of(made, RunInputs(), 0)).name == EVENT_LOOP
    without = queue(DETERMINISTIC, workload={"src": {"rate": f"{RATE} /s"}}, duration="100 s")
    assert estimate(made).time_s > estimate(without).time_s + 100 / ROUND_S * 10e-6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operators/q/scan": "1 us", "operators/q/key_groups": 8}, "makes rounds of 8 us"),
        ({"operators/q/scan": "1 us", "operators/q/key_groups": 5}, "makes rounds of 5 us"),
        ({"operators/out/scan": "1 ms"}, "needs an input partitioned by key, and a service"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        scenario_from(changed(raw_of(one_queue(DETERMINISTIC, duration="4 s")), changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"fault_tolerance": {"method": "checkpoint"}, "hosts/h/count": 2},
            'with fault_tolerance.method = "none" it is',
        ),
    ],
)
def test_what_is_not_simulated_beside_it_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    made = scenario_from(changed(raw_of(one_queue(DETERMINISTIC, duration="4 s")), changes))
    assert any(words in fault.hint for fault in not_simulated(made) if fault.path == "operators.q.scan")


# -- steps that wait until queues are as short as a scan leaves them


def draining(gap: str) -> dict[str, Any]:
    """A job with 8 steps of 21 ms, in which tasks are busy for a quarter of the time and scan for 2 ms in a round."""
    raw = busy_job(gap)
    raw["workload"]["src"]["rate"] = "1000 /s"
    raw["operators"]["op"]["scan"] = "62500 ns"
    return raw


def waits_of(gap: str) -> tuple[float, list[float]]:
    """The longest time [ms] for which a tuple waited after all steps, and had waited as each but the first began."""
    found = simulate(scenario_from(draining(gap)), plane=PlainPlane)
    steps, visits = found.tables["reconfigurations"], found.tables["visits"]
    own = visits["operator"] == found.operators.index("op")
    came, began = visits["arrival_ns"][own], visits["start_ns"][own]
    after = came > steps["installed_ns"][-1] + 500_000_000
    had_waited = []
    for at in steps["from_ns"][1:].tolist():
        waits = (came <= at) & (began > at)
        had_waited.append(float((at - came[waits]).max(initial=0) / 1e6))
    return float((began - came)[after].max() / 1e6), had_waited


def test_with_a_drain_nothing_waits_longer_before_a_step_than_without_steps() -> None:
    calm, after = waits_of("drain")
    assert len(after) > 4
    assert max(after) <= calm
    _, at_once = waits_of("0 s")
    assert max(at_once) > 2 * calm


def test_a_drain_that_looks_once_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainPlane, "has_waited", lambda *_: False)
    calm, after = waits_of("drain")
    assert max(after) > calm


def test_a_drain_that_waits_for_an_empty_queue_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that scans has none: the second step never begins."""
    monkeypatch.setattr(PlainPlane, "has_waited", lambda *_: True)
    steps = simulate(scenario_from(draining("drain")), plane=PlainPlane).tables["reconfigurations"]
    assert int((steps["installed_ns"] > 0).sum()) == 1


def test_both_planes_drain_alike() -> None:
    made = scenario_from(draining("drain"))
    assert not_simulated(made) == []
    assert differences(simulate(made, plane=PlainPlane), simulate(made, plane=CompiledPlane)) == []


def test_rounds_are_no_messages() -> None:
    """A task that occupies itself tells nobody anything: only the messages of the move are counted."""
    with_rounds, without = draining("20 ms"), draining("20 ms")
    del without["operators"]["op"]["scan"]
    assert sent(with_rounds) == sent(without) > 0


def sent(raw: dict[str, Any]) -> int:
    """The number of messages of protocols in a run."""
    rows = simulate(scenario_from(raw)).tables["messages"]
    return int(rows["count"][rows["kind"] == "protocol"].sum())
