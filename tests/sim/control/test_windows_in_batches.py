"""Windows in micro-batches: with which batch their results come, also after failures.

Oracles: instants by hand, both planes, the run without crashes, and mutants.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from scripts import unchecked
from seeds import parts
from small_jobs import Run, drain, random_job, random_windows, state_losses, without_crashes
from test_micro_batches import MS, batched, driver_dies, fixed, job, ran
from test_planes import differences
from test_recovery import conserved, every_partition_has_one_owner, losses_are_legitimate

from models.scenario.rules.support import not_simulated
from models.units import to_ns
from sim.control.micro_batches import MicroBatches
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.partition import EventTime
from sim.plain.plane import PlainPlane


def windowed(length: str = "2 s", **changes: Any) -> dict[str, Any]:
    """The job of the tests of batches, in which each key is counted in windows; batches of 1 s."""
    raw = job(**changes)
    del raw["operators"]["count"]["state"]
    raw["operators"]["count"]["window"] = {"length": length}
    return raw


def results(raw: dict[str, Any]) -> list[tuple[float, list[int]]]:
    """When results are visible [ms], and of which windows of 2 s they are."""
    table = ran(raw).tables["deliveries"]
    at, created = (table[name] / MS for name in ("delivered_ns", "created_ns"))
    return [(float(one), sorted({int(when // 2000) for when in created[at == one]})) for one in np.unique(at)]


def check_next_batch() -> None:
    """A window that ends at 2 s: the batch of that trigger has the rest of it, and the next one its results."""
    found = results(windowed())
    assert [numbers for _, numbers in found] == [[number] for number in range(9)]
    assert [round(at) for at, _ in found] == [3170 + 2000 * number for number in range(9)]


def test_results_of_a_window_come_with_the_batch_after_the_one_that_has_the_rest_of_it() -> None:
    check_next_batch()


def check_last_window() -> None:
    """After the last record there is one more batch, without data, for what its watermark ends."""
    raw = windowed()
    steps = [{"at": "0 s", "rate": "10 /s"}, {"at": "5950 ms", "rate": "0 /s"}]
    raw["workload"]["in"]["rate"] = {"steps": steps}
    found = results(raw)
    assert [numbers for _, numbers in found] == [[0], [1], [2]]
    # Nothing is left to do for it but to plan.
    assert found[-1][0] == pytest.approx(7100, abs=30)


def test_a_batch_without_data_ends_the_last_window() -> None:
    check_last_window()


def check_restart() -> None:
    """The batch of 9 s has the results of the window that ends at 8 s; the driver dies in it."""
    found = results(windowed(**driver_dies(9130)))
    before = [numbers for at, numbers in found if at < 9130]
    (again, numbers), (_, after) = [(at, numbers) for at, numbers in found if at > 9130][:2]
    assert before == [[0], [1], [2]]
    # Started after 3 s, planned in 1.1 s: the same range with the same watermark, and so the same results.
    assert numbers == [3]
    assert again == pytest.approx(9130 + 3000 + 1100 + 10 * 7, abs=25)
    assert after == [4, 5]  # with the backlog up to then


def test_an_interrupted_batch_runs_again_with_its_watermark() -> None:
    check_restart()


@pytest.mark.parametrize("at_ms", [9020, 9115, 9140, 9165])
def test_an_executor_that_dies_has_the_results_of_its_windows_in_the_same_batch(at_ms: int) -> None:
    kill = {"kind": "host-failure", "host": "w-1", "at": f"{at_ms} ms", "repair": "3 s"}
    found = results(windowed(events={"kill": kill}))
    assert [numbers for _, numbers in found] == [[number] for number in range(9)]
    assert found[3][0] < 9500


def test_windows_that_slide_end_one_after_the_other() -> None:
    raw = windowed()
    raw["operators"]["count"]["window"] = {"length": "2 s", "slide": "1 s"}
    at = [round(one) for one, _ in results(raw)]
    assert at == [3170 + 1000 * number for number in range(17)]


# -- random jobs


def with_windows(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job in micro-batches in which some aggregates have windows, whose driver and executors die."""
    raw, crashes = random_windows(draw, **more), random_job(draw)
    raw["hosts"]["h"]["count"] = crashes["hosts"]["h"]["count"]
    raw |= {"events": crashes["events"], "detector": crashes["detector"]}
    behind = set[str]()  # operators with a window, and those behind one
    for name, operator in raw["operators"].items():
        if behind & {*operator.get("inputs", {})}:
            operator.pop("window", None)
            behind.add(name)
        elif "window" in operator:
            behind.add(name)
    return batched(draw, raw)


def longest_ns(raw: dict[str, Any]) -> int:
    found = unchecked(raw).operators.values()
    return max((to_ns(one.window.length_s) for one in found if one.window), default=0)


def contents(run: Run, before_ns: int) -> dict[str, Counter[int]]:
    """Partition -> how often each id was applied, of the tuples that were created before an instant."""
    partitions = [one for one in run.plane.all_partitions() if not one.operator.is_source]
    return {
        one.name: Counter(
            number for number, created in zip(one.applied, one.applied_created_ns, strict=True) if created < before_ns
        )
        for one in partitions
    }


def passed_ns(run: Run) -> int:
    """The watermark of the last batch: what ends later has no results yet."""
    batches = run.control.crash.batches
    assert batches is not None
    return batches._passed_ns


def check_windows(seed: int, guarantee: str) -> bool:
    """One random job: what windows emit is that of the run without crashes; False where overload hid its end."""
    raw = with_windows(Random(f"windows in batches {seed}"), fault_tolerance={"guarantee": guarantee})
    assert not_simulated(unchecked(raw)) == []
    run, clean = drain(raw), drain(without_crashes(raw), least_s=14)
    conserved(run)
    every_partition_has_one_owner(run)
    losses_are_legitimate(run)
    if not (run.drained and clean.drained):
        return not any(run.control.cluster.host_alive)
    until_ns = min(passed_ns(run), passed_ns(clean)) - longest_ns(raw)
    found, expected, complete = contents(run, until_ns), contents(clean, until_ns), not state_losses(run)
    for partition, rows in found.items():
        if complete and guarantee == "exactly-once":
            assert rows == expected[partition], partition
            assert run.plane.watermarks.late == []
        elif complete:
            assert rows.keys() == expected[partition].keys(), partition
    return until_ns > 0


@pytest.mark.parametrize("seeds", parts(2, 8))
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_what_windows_emit_is_that_of_the_run_without_crashes(guarantee: str, seeds: range) -> None:
    assert sum(check_windows(seed, guarantee) for seed in seeds) >= len(seeds) / 2


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_what_windows_emit_in_many_random_jobs_is_that_of_the_run_without_crashes(guarantee: str) -> None:
    assert sum(check_windows(seed, guarantee) for seed in range(8, 150)) >= 71


@pytest.mark.parametrize("seeds", parts(2, 16))
def test_both_planes_give_equal_rows(seeds: range) -> None:
    for seed in seeds:
        made = unchecked(with_windows(Random(f"windows in batches {seed}")))
        assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


# -- mutants


def test_results_that_come_with_the_same_batch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = MicroBatches._is_ready

    def broken(self: MicroBatches, task: int) -> bool:
        self._watermark_ns = self._taken_ns
        return ready(self, task)

    monkeypatch.setattr(MicroBatches, "_is_ready", broken)
    with pytest.raises(AssertionError):
        check_next_batch()


def test_a_watermark_that_waits_for_data_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MicroBatches, "_has_results", lambda _: False)
    with pytest.raises(AssertionError):
        check_last_window()


def test_a_watermark_of_the_batch_that_was_interrupted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    dies = MicroBatches.dies

    def broken(self: MicroBatches) -> None:
        dies(self)
        self._watermark_ns = 0  # as if the driver had to learn it anew

    monkeypatch.setattr(MicroBatches, "dies", broken)
    with pytest.raises(AssertionError):
        check_restart()


def test_windows_that_are_not_in_a_version_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = EventTime.restored

    def broken(self: EventTime, *given: Any) -> EventTime:
        made = restored(self, *given)
        made.windows = {}
        return made

    monkeypatch.setattr(EventTime, "restored", broken)
    with pytest.raises(AssertionError):
        for seed in range(8):
            check_windows(seed, "exactly-once")


# -- what is refused


def refused(raw: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault.path, fault.hint) for fault in not_simulated(unchecked(raw))]


def test_a_window_behind_another_one_is_refused() -> None:
    raw = windowed()
    second = {"kind": "aggregate", "inputs": {"count": "key"}, "service": fixed("1 ms"), "window": {"length": "4 s"}}
    raw["operators"] |= {"most": second, "out": {"kind": "sink", "inputs": {"most": "forward"}}}
    raw["placement"]["tasks"]["most-0"] = "w-0"
    ((path, hint),) = refused(raw)
    assert path == "operators.most.window"
    assert "in batches one window on the way to a sink is" in hint


def test_a_window_beside_a_limit_is_refused() -> None:
    raw = windowed()
    raw["fault_tolerance"]["micro_batches"]["max_offsets"] = 100
    ((path, hint),) = refused(raw)
    assert path == "operators.count.window"
    assert "without micro_batches.max_offsets it is" in hint
    assert refused(windowed()) == []
