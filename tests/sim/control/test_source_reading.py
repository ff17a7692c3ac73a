"""Sources that read files or polls: when records are there, in which order after a restart, and what is read again.

Oracles: instants and orders by hand, both planes, the guarantees of random jobs, and mutants that these must catch.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from scripts import unchecked
from small_jobs import applied, drain, with_buffers, without_crashes
from test_barriers import job, run, with_barriers
from test_cluster_view import MS, dies
from test_planes import differences
from test_recovery import (
    audit_equals_the_run_without_crashes,
    rows_that_took_one_path_are_in_order,
    the_guarantee_holds,
)
from test_region_restart import NOTICED
from test_unaligned import nothing_comes_twice

from models.records.tables import EVENT_LOOP, NEVER, RunRecords
from models.scenario.inputs import RunInputs
from sim.control.cluster import RunPlan
from sim.control.source_reading import SourceReading
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.reading import NumberSet
from sim.plain.channels import Source
from sim.plain.plane import PlainPlane

RESTARTED_MS = 2400  # of the tasks on the host that dies at 2180


def fixed(value: str) -> dict[str, str]:
    return {"distribution": "deterministic", "value": value}


def reading(barriers: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """The job of two sources with a record each 50 ms, of which `fast` reads as the keys say."""
    raw = job(barriers)
    raw["operators"]["fast"]["reading"] = keys
    return raw


def restarted(**keys: Any) -> dict[str, Any]:
    """The same, whose tasks all start again; the last checkpoint was begun at 1010 ms and is complete at 1243 ms."""
    raw = reading(**keys)
    raw |= {"events": {"dies": dies(0, 2180)}, "detector": NOTICED, "duration": "6 s"}
    raw["operators"]["late"]["service"] = fixed("1 ms")
    return raw


def emitted(found: RunRecords, operator: int = 0) -> list[tuple[int, list[int]]]:
    """(when records of a source were emitted [ms], when they had been written [ms])."""
    visits = found.tables["visits"]
    rows: dict[int, list[int]] = {}
    chosen = visits["operator"] == operator
    for arrival, end in zip(visits["arrival_ns"][chosen] // MS, visits["end_ns"][chosen] // MS, strict=True):
        rows.setdefault(int(end), []).append(int(arrival))
    return sorted(rows.items())


def written(first_ms: int, end_ms: int) -> list[int]:
    """The records that are written from an instant on and before another [ms]."""
    return [at for at in range(first_ms, end_ms, 50) if at]


# -- instants


def test_a_file_is_read_once_it_is_complete_and_its_records_come_at_one_instant() -> None:
    found = emitted(run(reading(file="200 ms", cost=fixed("30 ms"))))
    assert found == [(200 * (k + 1) + 30, written(200 * k, 200 * (k + 1))) for k in range(19)]


def test_without_a_cost_a_file_comes_at_its_end() -> None:
    assert emitted(run(reading(file="200 ms")))[:2] == [(200, written(0, 200)), (400, written(200, 400))]


def test_a_source_that_reads_slowly_reads_one_file_after_the_other() -> None:
    found = emitted(run(reading(file="200 ms", cost=fixed("300 ms"))))
    assert found == [(500 + 300 * k, written(200 * k, 200 * (k + 1))) for k in range(12)]


def test_a_poll_returns_what_is_there_up_to_its_number() -> None:
    found = emitted(run(reading(poll=2, cost=fixed("80 ms"))))
    # The first begins at 50 with one record. While it lasts one more comes, then two.
    assert found[:4] == [(130, [50]), (210, [100]), (290, [150, 200]), (370, [250])]
    slow = emitted(run(reading(poll=2, cost=fixed("200 ms"))))
    assert [at for _, at in slow[:3]] == [[50], [100, 150], [200, 250]]
    assert [at for at, _ in slow[:3]] == [250, 450, 650]


def test_a_poll_without_a_cost_is_as_if_nothing_was_read() -> None:
    with_polls, without = run(reading(poll=1)), run(job())
    assert emitted(with_polls) == emitted(without)
    assert differences(with_polls, without) == []


def test_a_source_reads_on_when_all_that_it_has_read_is_sent() -> None:
    raw = reading(file="200 ms")
    raw["operators"]["quick"] |= {"buffer": 1, "service": fixed("100 ms")}
    # `quick` serves three records until 500, and then four in 400 ms. All of a file are sent when the last but one of
    # its records begins, and the file after it is there.
    assert [at for at, _ in emitted(run(raw))][:5] == [200, 400, 700, 1100, 1500]


def test_a_source_in_a_chain_reads_beside_its_thread() -> None:
    raw = reading(file="200 ms", cost=fixed("30 ms")) | {"events": {"dies": dies(0, 2180)}, "detector": NOTICED}
    raw["operators"] = {
        name: {**one, "chain": True} if name in ("quick", "late") else one for name, one in raw["operators"].items()
    }
    assert emitted(run(raw))[:2] == [(230, written(0, 200)), (430, written(200, 400))]


def test_the_lag_has_what_is_written_and_not_read() -> None:
    rows = run(reading(file="1 s", cost=fixed("10 ms"))).tables["lag"]
    lag = rows["lag"][rows["operator"] == 0]
    assert lag.tolist()[:3] == [19, 20, 20]  # each second, before the file is read


# -- after a restart


def after_restart(**keys: Any) -> list[list[int]]:
    """Return the files in the order in which they are read from the restart on."""
    return [records for at, records in emitted(run(restarted(**keys))) if at >= RESTARTED_MS]


def files(first: int, end: int) -> list[list[int]]:
    return [written(200 * k, 200 * (k + 1)) for k in range(first, end)]


def test_files_since_the_checkpoint_are_read_again_as_they_were_written() -> None:
    # Files 0 to 4 were emitted before the barrier left at 1011. Twelve are complete at the restart.
    found = after_restart(file="200 ms", cost=fixed("10 ms"))
    assert found[:10] == files(5, 15)


def test_the_newest_file_comes_first_among_those_that_are_read_again_and_those_that_came_since() -> None:
    found = after_restart(file="200 ms", cost=fixed("10 ms"), order="newest-first")
    assert found[:7] == files(5, 12)[::-1]
    assert found[7:9] == files(12, 14)


def test_a_file_that_comes_meanwhile_is_newer_than_those_that_wait() -> None:
    found = after_restart(file="200 ms", cost=fixed("70 ms"), order="newest-first")
    # Three are read from 2400 to 2610, and then that which is complete at 2600.
    assert found[:5] == [*files(9, 12)[::-1], *files(12, 13), *files(8, 9)]


def test_a_shuffled_order_is_another_one_with_each_seed_and_the_same_with_the_same() -> None:
    orders = []
    for seed in (1, 1, 2, 3):
        raw = restarted(file="200 ms", cost=fixed("10 ms"), order="shuffled") | {"seed": seed}
        orders.append([one for at, one in emitted(run(raw)) if at >= RESTARTED_MS][:7])
    assert all(sorted(one) == files(5, 12) for one in orders)
    assert orders[0] == orders[1]
    assert len({str(one) for one in orders}) >= 3


def test_polls_begin_again_at_the_position_of_the_checkpoint() -> None:
    found = after_restart(poll=4, cost=fixed("10 ms"))
    assert found[0] == written(1050, 1250)
    assert found[1] == written(1250, 1450)


def caught_up_ms(raw: dict[str, Any]) -> float:
    found = run(raw)
    assert not found.tables["ledger"]["lost"].any()
    assert not found.tables["ledger"]["duplicated"].any()
    at: float = (found.tables["recoveries"]["caught_up_ns"] / MS).max()
    return at


def test_many_small_files_make_a_catch_up_longer() -> None:
    def until(file: str, **keys: Any) -> float:
        raw = restarted(file=file, **keys)
        raw["workload"]["slow"]["rate"] = "1 /s"  # the other source has caught up long before
        return caught_up_ms(raw)

    # From 1000 to 2400 there are 14 files of 100 ms, and 7 of 200 ms. Reading one takes 50 ms, in which half a file is
    # written, or a quarter of one.
    assert until("100 ms", cost=fixed("50 ms")) - RESTARTED_MS == pytest.approx(14 * 50 / (1 - 1 / 2), abs=60)
    assert until("200 ms", cost=fixed("50 ms")) - RESTARTED_MS == pytest.approx(7 * 50 / (1 - 1 / 4), abs=60)


def test_a_source_that_is_behind_has_not_caught_up() -> None:
    found = run(restarted(file="200 ms", cost=fixed("100 ms")))
    rows = found.tables["recoveries"]
    source = (rows["caught_up_ns"][rows["operator"] == 0] / MS).tolist()
    last = max(at for at, one in emitted(found) if one[-1] < RESTARTED_MS)
    assert source[0] >= last
    assert NEVER not in rows["caught_up_ns"].tolist()


# -- guarantees, both planes


ORDERS = ("written", "newest-first", "shuffled")


def with_readings(draw: Random, **more: Any) -> dict[str, Any]:
    """A random job with barriers, aligned or not, whose sources read files or polls."""
    raw = with_barriers(draw, **more)
    if draw.random() < 0.5:
        raw = with_buffers(draw, raw)
    if draw.random() < 0.5:
        raw["fault_tolerance"]["barriers"] |= {"unaligned": True}
        raw["fault_tolerance"]["barriers"] |= draw.choice([{}, {"alignment_timeout": "30 ms"}])
    for operator in raw["operators"].values():
        if operator["kind"] == "source":
            law = {"distribution": "exponential", "mean": draw.choice(["1 ms", "20 ms", "60 ms"])}
            file = {"file": draw.choice(["20 ms", "100 ms", "130 ms"]), "order": draw.choice(ORDERS)}
            operator["reading"] = draw.choice([file, file, {"poll": draw.choice([1, 3, 20])}])
            operator["reading"] |= draw.choice([{}, {"cost": law}])
    return raw


def holds(seed: int) -> bool:
    """Check what must hold for a random job; False where it stands still in the end."""
    raw = with_readings(Random(f"readings {seed}"))
    found, clean = drain(raw), drain(without_crashes(raw), least_s=14)
    nothing_comes_twice(found)
    if not (found.drained and clean.drained):
        assert not any(found.control.cluster.host_alive)
        return False
    audit_equals_the_run_without_crashes(found.plane, applied(clean.plane))
    the_guarantee_holds(found, "exactly-once")
    if all(one.get("reading", {}).get("order", "written") == "written" for one in raw["operators"].values()):
        rows_that_took_one_path_are_in_order(found.plane)
    return True


def test_exactly_once_holds_whatever_crashes_and_in_whatever_order_files_are_read() -> None:
    assert sum(map(holds, range(10))) >= 6


@pytest.mark.slow
def test_exactly_once_holds_in_many_random_jobs() -> None:
    assert sum(map(holds, range(10, 200))) >= 120


def planes_agree(seed: int) -> None:
    raw = with_readings(Random(f"readings {seed}"))
    if seed % 4 == 3 and not raw["fault_tolerance"]["barriers"].get("unaligned"):
        raw["fault_tolerance"]["guarantee"] = "at-least-once"
    made = unchecked(raw)
    assert differences(*(simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane))) == [], seed


def test_both_planes_give_equal_rows() -> None:
    for seed in range(15):
        planes_agree(seed)


@pytest.mark.slow
def test_both_planes_give_equal_rows_in_many_random_jobs() -> None:
    for seed in range(15, 200):
        planes_agree(seed)


def test_files_and_polls_are_read_in_the_event_loop_where_nothing_fails_too() -> None:
    raw = reading(file="200 ms")
    raw["fault_tolerance"] = {"method": "none"}
    made = unchecked(raw)
    kernel = kernel_for(RunPlan.of(made, RunInputs(), 0))
    assert (kernel.name, kernel.why) == (EVENT_LOOP, "fast does not read each record at once")
    found = [simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane)]
    assert differences(*found) == []
    assert found[0].tables["ledger"]["expected"][0] == 75  # of 79 records; the last four are in no complete file


# -- mutants


def what_was_emitted_is_not_read_again(patch: pytest.MonkeyPatch) -> None:
    begin = SourceReading.begin_again

    def broken(self: SourceReading, partition: int) -> None:
        for reader in self._readers.values():
            reader.emitted = []
        begin(self, partition)

    patch.setattr(SourceReading, "begin_again", broken)


def a_file_is_forgotten_that_was_being_read(patch: pytest.MonkeyPatch) -> None:
    begin = SourceReading.begin_again

    def broken(self: SourceReading, partition: int) -> None:
        for reader in self._readers.values():
            reader.current = None
        begin(self, partition)

    patch.setattr(SourceReading, "begin_again", broken)


def what_a_checkpoint_has_is_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceReading, "completed", lambda self, token: None)


def a_position_is_that_of_the_end(patch: pytest.MonkeyPatch) -> None:
    completed = SourceReading.completed

    def broken(self: SourceReading, token: int) -> None:
        for reader in self._readers.values():
            reader.passed[token] = len(reader.emitted)
        completed(self, token)

    patch.setattr(SourceReading, "completed", broken)


def what_is_kept_is_sent_again_as_well(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Source, ranges: Any) -> None:
        for first, end in ranges:
            self.read_numbers.difference_update(range(first, end))

    patch.setattr(Source, "read_again", broken)


def a_dead_task_reads_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceReading, "_runs", lambda self, reader, task: True)


@pytest.mark.parametrize(
    "mutant",
    [
        what_was_emitted_is_not_read_again,
        a_file_is_forgotten_that_was_being_read,
        what_a_checkpoint_has_is_read_again,
        a_position_is_that_of_the_end,
        what_is_kept_is_sent_again_as_well,
        a_dead_task_reads_on,
    ],
)
def test_the_guarantee_catches_a_wrong_rule(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(80):
            holds(seed)


def test_an_order_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = SourceReading._enter

    def broken(self: SourceReading, reader: Any, first: int, end: int) -> None:
        reader.reading = reader.reading.model_copy(update={"order": "written"})
        enter(self, reader, first, end)

    monkeypatch.setattr(SourceReading, "_enter", broken)
    with pytest.raises(AssertionError):
        test_the_newest_file_comes_first_among_those_that_are_read_again_and_those_that_came_since()


# -- sets of numbers


def test_a_set_of_numbers_is_one() -> None:
    draw = Random("numbers")
    for _ in range(200):
        ranges, plain = NumberSet(), set[int]()
        for _ in range(30):
            first = draw.randint(0, 30)
            end = first + draw.randint(1, 8)
            if draw.random() < 0.6:
                ranges.add(first, end)
                plain.update(range(first, end))
            else:
                ranges.remove(first, end)
                plain.difference_update(range(first, end))
            found = [*ranges]
            assert {one for begin, stop in found for one in range(begin, stop)} == plain
            assert len(ranges) == len(plain)
            assert all(stop < begin for (_, stop), (begin, _) in pairwise(found))
            assert ranges.first_missing() == next(one for one in range(100) if one not in plain)
