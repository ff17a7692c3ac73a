"""Cores that are shared: priorities, paces that change, processor sharing; both planes, by equality of all rows.

Oracles: the plain plane; the same run on cores that are not shared, where sharing makes no difference; tables by hand.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharing_jobs import changes, share_cores, with_changes
from small_jobs import queue, random_job, scenario, storm
from test_planes import METHODS, differences, on_both

from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.sharing import span_for, times_fraction, work_in
from sim.pace import FAR_NS, FULL, PARTS, pace_of
from sim.plain.plane import PlainPlane

PLANES = {"plain": PlainPlane, "compiled": CompiledPlane}
both = pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)


def read(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def visits_of(records: RunRecords, operator: str) -> dict[str, list[int]]:
    """Arrival, start and end [ms] of the operator's visits, in the order of their ends."""
    visits = records.tables["visits"]
    own = visits["operator"] == records.operators.index(operator)
    return {name: (visits[f"{name}_ns"][own] / 1e6).tolist() for name in ("arrival", "start", "end")}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), stormy=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_on_shared_cores(seed: int, stormy: bool, method: dict[str, Any]) -> None:
    draw = Random(seed)
    make = storm if stormy else random_job
    assert on_both(share_cores(draw, make(draw, fault_tolerance=method))) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), shared=st.booleans(), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_when_control_changes_paces(
    seed: int, shared: bool, method: dict[str, Any]
) -> None:
    draw = Random(seed)
    raw = random_job(draw, fault_tolerance=method)
    made = read(share_cores(draw, raw) if shared else raw)
    script = changes(draw, made)
    assert differences(with_changes(made, script, PlainPlane), with_changes(made, script, CompiledPlane)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows_on_shared_cores(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        draw = Random(seed)
        raw = (storm if seed % 3 == 0 else random_job)(draw, fault_tolerance=METHODS[seed % 4])
        made = read(share_cores(draw, raw))
        script = changes(draw, made) if seed % 2 else []
        assert differences(with_changes(made, script, PlainPlane), with_changes(made, script, CompiledPlane)) == [], (
            seed
        )


# -- where sharing makes no difference


def without_cpu(records: RunRecords) -> RunRecords:
    """The records without the accounts of shared CPUs."""
    tables = {name: columns for name, columns in records.tables.items() if name != "cpu"}
    return RunRecords(**{**vars(records), "tables": tables})


def same_rows(one: RunRecords, other: RunRecords) -> bool:
    return differences(without_cpu(one), without_cpu(other)) == []


@both
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_a_pace_that_changes_and_changes_back_at_once_changes_no_row(
    plane: Any, seed: int, method: dict[str, Any]
) -> None:
    draw = Random(seed)
    made = read(random_job(draw, fault_tolerance=method))
    script = [(at, host, share) for at, host, _ in changes(draw, made) for share in (0.5, 0.0)]
    assert same_rows(with_changes(made, script, plane), simulate(made, plane=plane))


@both
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), stormy=st.booleans())
def test_processor_sharing_with_a_core_for_every_thread_is_dedicated_cores(plane: Any, seed: int, stormy: bool) -> None:
    runs = []
    for cpu in ("dedicated", "processor-sharing"):
        raw = (storm if stormy else random_job)(Random(seed))
        raw["hosts"]["h"] |= {"cpu": cpu, "cores": 100}
        runs.append(simulate(read(raw), plane=plane))
    assert same_rows(*runs)


@both
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_equal_priorities_are_first_come_first_served(plane: Any, seed: int) -> None:
    runs = []
    for priority in (0, -7):
        raw = random_job(Random(seed))
        raw["hosts"]["h"]["cpu"] = "shared"
        for operator in raw["operators"].values():
            operator["priority"] = priority
        runs.append(simulate(read(raw), plane=plane))
    assert same_rows(*runs)


@both
def test_half_the_cpu_doubles_deterministic_services_to_the_nanosecond(plane: Any) -> None:
    def run(service: str, **host: Any) -> RunRecords:
        law = {"distribution": "deterministic", "value": service}
        return simulate(queue(law, workload={"src": {"rate": "45 /s"}}, hosts={"h": host}), plane=plane)

    half = run("10 ms", load={"steps": [{"at": "0 s", "share": 0.5}]})
    assert same_rows_but_work(half, run("20 ms"))


def same_rows_but_work(one: RunRecords, other: RunRecords) -> bool:
    """As `same_rows`, but for the CPU time in the samples."""
    found = differences(without_cpu(one), without_cpu(other))
    return found == ["samples.busy_ns"]


# -- by hand


def few(*, rate: str = "200 /s", until: str, service: str = "10 ms", **changed: Any) -> Scenario:
    """Deterministic arrivals at `rate` up to `until`, one operator, no latency."""
    steps = [{"at": "0 s", "rate": rate}, {"at": until, "rate": "0 /s"}]
    return queue(
        {"distribution": "deterministic", "value": service},
        duration="1 s",
        workload={"src": {"rate": {"steps": steps}, "arrivals": "deterministic"}},
        **changed,
    )


@both
def test_two_services_on_one_core_go_on_at_half_the_pace_each(plane: Any) -> None:
    made = few(until="11 ms", q={"threads": 9}, hosts={"h": {"cpu": "processor-sharing"}})
    # 5 ms alone, then both at half: the first has 5 ms left for 10 ms, the second then 5 ms alone.
    assert visits_of(simulate(made, plane=plane), "q") == {
        "arrival": [5, 10],
        "start": [5, 10],
        "end": [20, 25],
    }


@both
def test_three_services_on_two_cores_have_two_thirds_of_a_core_each(plane: Any) -> None:
    made = few(until="16 ms", service="12 ms", q={"threads": 9}, hosts={"h": {"cpu": "processor-sharing", "cores": 2}})
    # Arrivals at 5, 10, 15 ms: the first has 2 ms left when the third comes, at 2/3 for 3 ms; then there are two.
    assert visits_of(simulate(made, plane=plane), "q")["end"] == [18, 23, 28]


@both
def test_threads_bound_what_a_task_has_in_service(plane: Any) -> None:
    made = few(until="16 ms", q={"threads": 2}, hosts={"h": {"cpu": "processor-sharing"}})
    found = visits_of(simulate(made, plane=plane), "q")
    # 5 ms alone, both at half until 20; the third starts then, and shares with the second, which has 5 ms left.
    assert found == {"arrival": [5, 10, 15], "start": [5, 10, 20], "end": [20, 30, 35]}


@both
def test_a_service_in_progress_goes_on_at_the_new_pace(plane: Any) -> None:
    load = {"steps": [{"at": "9 ms", "share": 0.75}, {"at": "17 ms", "share": 0.5}, {"at": "1 s", "share": 0.0}]}
    made = few(until="6 ms", hosts={"h": {"load": load}})
    # 4 ms at full pace, 2 ms of work in the next 8, the rest at half.
    assert visits_of(simulate(made, plane=plane), "q") == {"arrival": [5], "start": [5], "end": [25]}


@both
def test_services_that_end_at_one_instant_end_by_task(plane: Any) -> None:
    law = {"distribution": "deterministic", "value": "10 ms"}
    made = scenario(
        {
            "duration": "16 ms",
            "workload": {"src": {"rate": "200 /s", "arrivals": "deterministic"}},
            "operators": {
                "src": {"kind": "source"},
                "early": {"kind": "map", "inputs": {"src": "shuffle"}, "service": law},
                "late": {"kind": "map", "inputs": {"src": "shuffle"}, "service": law},
                "out": {"kind": "sink", "inputs": {"late": "shuffle", "early": "shuffle"}},
            },
            "hosts": {"h": {"cpu": "processor-sharing", "cores": 2}},
        }
    )
    visits = simulate(made, plane=plane).tables["visits"]
    ended = visits["operator"][(visits["end_ns"] == 15 * 10**6) & (visits["start_ns"] < 15 * 10**6)]
    assert ended.tolist() == [1, 2]


@both
def test_the_highest_priority_goes_first_and_interrupts_nothing(plane: Any) -> None:
    law = {"distribution": "deterministic", "value": "12 ms"}
    made = scenario(
        {
            "duration": "1 s",
            "workload": {
                "src": {
                    "rate": {"steps": [{"at": "0 s", "rate": "200 /s"}, {"at": "11 ms", "rate": "0 /s"}]},
                    "arrivals": "deterministic",
                }
            },
            "operators": {
                "src": {"kind": "source"},
                "low": {"kind": "map", "inputs": {"src": "shuffle"}, "service": law},
                "high": {"kind": "map", "inputs": {"src": "shuffle"}, "service": law, "priority": 1},
                "out": {"kind": "sink", "inputs": {"low": "shuffle", "high": "shuffle"}},
            },
            "hosts": {"h": {"cpu": "shared"}},
        }
    )
    records = simulate(made, plane=plane)
    # Low has the core at 5 ms before high arrives; then both of high, the second of which came after low's second.
    assert visits_of(records, "low")["start"] == [5, 41]
    assert visits_of(records, "high")["start"] == [17, 29]


@both
def test_busy_is_the_work_done_and_cpu_splits_services_at_the_warm_up(plane: Any) -> None:
    made = few(until="11 ms", q={"threads": 9}, hosts={"h": {"cpu": "processor-sharing"}}, warmup="12 ms").model_copy(
        update={"duration_s": 0.024}
    )
    records = simulate(made, plane=plane)
    task = records.tasks.index("q-0")
    row = np.flatnonzero(records.tables["cpu"]["task"] == task)[0]
    # From 12 to 24 ms: the first is in service for 8 ms, the second for 12; the core is busy all the time.
    assert records.tables["cpu"]["served_ns"][row] == 20 * 10**6
    assert records.tables["cpu"]["used_ns"][row] == 12 * 10**6


def test_both_planes_agree_about_a_share_that_is_none() -> None:
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="less than 1"):
            pace_of(share)
    assert [pace_of(share) for share in (0.0, 0.5, 1 / 3, 1 - 1e-9)] == [FULL, FULL // 2, 666_667, 1]


# -- the accounts


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32))
def test_the_accounted_time_in_service_is_that_of_the_rows(seed: int) -> None:
    draw = Random(seed)
    raw = share_cores(draw, storm(draw))
    raw["hosts"] = {"h": raw["hosts"]["h"] | {"cpu": "processor-sharing"}}
    records = simulate(read(raw), plane=CompiledPlane)
    visits, dropped = records.tables["visits"], records.tables["dropped"]
    low, high = records.warmup_ns, records.duration_ns
    cut = dropped["start_ns"] != NEVER
    begin = np.concatenate([visits["start_ns"], dropped["start_ns"][cut]])
    end = np.concatenate([np.where(visits["end_ns"] == NEVER, high, visits["end_ns"]), dropped["at_ns"][cut]])
    task = np.concatenate([visits["task"], dropped["task"][cut]])
    lengths = np.maximum(end - np.maximum(begin, low), 0)
    by_task = [int(lengths[task == k].sum()) for k in range(len(records.tasks))]
    assert records.tables["cpu"]["served_ns"].tolist() == by_task
    assert (records.tables["cpu"]["used_ns"] <= records.tables["cpu"]["served_ns"]).all()


# -- whole numbers


@settings(max_examples=300, deadline=None)  # the first example compiles
@given(data=st.data(), num=st.integers(1, 10**6 * 2**24), den=st.integers(1, 10**6 * 2**24), span=st.integers(0, 2**61))
def test_fractions_are_exact_where_products_do_not_fit(data: Any, num: int, den: int, span: int) -> None:
    num, den = min(num, den), max(num, den)
    a, part = data.draw(st.integers(0, den - 1)), data.draw(st.integers(0, PARTS - 1))
    assert times_fraction(a, num, den) == divmod(a * num, den)
    assert work_in(span, num, den) == divmod(span * num * PARTS // den, PARTS)
    exact, found = -(-(span * PARTS + part) * den // (num * PARTS)), span_for(span, part, num, den)
    assert found == exact if exact < FAR_NS // 2 else found > FAR_NS // 4
