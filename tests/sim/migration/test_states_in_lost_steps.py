"""Keys that close, tasks that scan, and tasks that are one process, where hosts die in a step and nothing is kept.

Oracles: what becomes of each tuple and state, as `lab.following` has seen it; the tuples of open keys by intervals,
from the times at which outputs wait and states are lost; rows of the compiled plane against those of the plain one. No
tolerance. Rules that are broken are noticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from losing_steps import closing_job, ran, scanning_job, worker_job
from seeds import sample
from test_crashes_in_steps import dies, phases
from test_losses_in_steps import steps
from test_megaphone import MS, made, rows_of
from test_open_keys import merged
from test_planes import differences

from models.scenario.reading import scenario_from
from models.scenario.rules import faults as wrong
from models.scenario.rules import not_simulated
from models.units import to_ns
from sim.clock import END_OF_INSTANT
from sim.control.assembly import Control
from sim.control.scans import Scans
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.channels import Channels
from sim.plain.open_keys import OpenKeys
from sim.plain.partition import Partition, PostDated, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

PLANES = (PlainPlane, CompiledPlane)
KINDS = pytest.mark.parametrize("job", [closing_job, scanning_job, worker_job], ids=lambda one: one.__name__)
Job = Callable[..., dict[str, Any]]
Break = Callable[[pytest.MonkeyPatch], None]
_LAST = 10**18


@KINDS
def test_what_it_has_beside_hosts_that_die_is_accepted(job: Job) -> None:
    for seed in range(20):
        scenario = scenario_from(job(seed))
        assert [*wrong(scenario), *not_simulated(scenario)] == []


@KINDS
def test_each_tuple_and_each_state_is_there_or_lost_with_a_reason(job: Job) -> None:
    cut_short = 0
    for seed in range(16):
        control, _, faults = ran(job(seed, crashes=1 + seed % 3))
        assert faults == [], seed
        cut_short += sum(run.is_cut_short for run in control.reconfigurations.runs)
    assert cut_short > 2


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("part", range(4))
def test_many_jobs(job: Job, part: int) -> None:
    for seed in range(100 + part, 1_000, 4):
        assert ran(job(seed, crashes=1 + seed % 3))[-1] == [], seed


@KINDS
@pytest.mark.parametrize("seed", sample(6, 100))
def test_both_planes_have_equal_rows_whatever_dies(job: Job, seed: int) -> None:
    raw = job(seed, crashes=1 + seed % 3)
    assert differences(*(rows_of(raw, plane) for plane in PLANES)) == []


# -- keys that close


class OpenTuples:
    """The tuples in the state of each key group, each 20 ms: as it counts them, and by intervals."""

    def __init__(self, raw: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
        self.control = made(raw)
        self.counted = list[tuple[int, int, int]]()  # (instant, key group, tuples)
        self._came = list[tuple[int, int, int]]()  # (instant, key group, key)
        self._waits: defaultdict[tuple[int, int], list[list[int]]] = defaultdict(list)  # of a key: [begin, end]
        self._output = dict[int, list[int]]()  # id -> the interval for which it waits
        self._lost: defaultdict[int, list[int]] = defaultdict(list)  # key group -> instants
        until_ns = to_ns(self.control.plan.scenario.duration_s)
        with patch.context() as inner:
            self._watch(inner)
            for at_ns in range(20 * MS, until_ns, 20 * MS):
                self.control.clock.at(at_ns, END_OF_INSTANT, lambda _: self._count())
            self.control.start()
            self.control.run(until_ns)

    def _watch(self, patch: pytest.MonkeyPatch) -> None:
        completes, postpones, emits = Task._complete, Channels.postpone, Channels.emit
        forgets, now_ns = Partition.forget_volatile, self.control.clock.now_ns

        def complete(task: Task, visit: Visit, now: int) -> None:
            if task.operator.closes_keys:
                self._came.append((now, visit.partition.number, visit.row.key))
            completes(task, visit, now)

        def postpone(plane: Channels, partition: Partition, output: PostDated) -> None:
            self._output[output.tuple_id] = [now_ns(), _LAST]
            self._waits[partition.number, output.made_of].append(self._output[output.tuple_id])
            postpones(plane, partition, output)

        def emit(plane: Channels, partition: Partition, tuple_id: int, *rest: Any, **named: Any) -> None:
            if tuple_id in self._output:
                self._output[tuple_id][1] = now_ns()
            emits(plane, partition, tuple_id, *rest, **named)

        def forget(partition: Partition) -> list[Visit]:
            self._lost[partition.number].append(now_ns())
            for (number, _), spans in self._waits.items():
                for span in spans if number == partition.number else ():
                    span[1] = min(span[1], now_ns())
            return forgets(partition)

        patch.setattr(Task, "_complete", complete)
        patch.setattr(Channels, "postpone", postpone)
        patch.setattr(PlainPlane, "emit", emit)
        patch.setattr(Partition, "forget_volatile", forget)

    def _count(self) -> None:
        plane, now = self.control.plane, self.control.clock.now_ns()
        assert isinstance(plane, PlainPlane)
        for one in plane.instances():
            if one.operator.closes_keys and (one.live or one.taken):
                self.counted.append((now, one.number, one.open_keys.tuples))

    @property
    def losses(self) -> int:
        """States that were lost."""
        return sum(map(len, self._lost.values()))

    def by_intervals(self) -> list[tuple[int, int, int]]:
        """The same as `counted`: a tuple stays until its key closes for the first time, or while it is open again."""
        stays = defaultdict[int, list[tuple[int, int]]](list)  # key group -> from when to when a tuple is there
        for now, number, key in self._came:
            times = [(begin, end) for begin, end in self._waits.get((number, key), [])]
            (_, first_end), *others = merged(times) or [(0, _LAST)]
            lost_ns = next((at for at in self._lost[number] if at > now), _LAST)
            spans = [(0, first_end), *others]
            stays[number] += [(now, min(end, lost_ns)) for begin, end in spans if begin <= now <= end]
        return [(at, number, sum(begin <= at < end for begin, end in stays[number])) for at, number, _ in self.counted]


def test_tuples_are_in_the_state_until_their_key_closes_or_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = 0
    for seed in range(8):
        found = OpenTuples(closing_job(seed, crashes=1 + seed % 3), monkeypatch)
        assert found.counted == found.by_intervals(), seed
        assert max(tuples for _, _, tuples in found.counted) > 1
        losses += found.losses
    assert losses > 20


def nothing_closes(patch: pytest.MonkeyPatch) -> None:
    """A key whose outputs are lost is as if it had never opened: what comes later stays for ever."""
    patch.setattr(OpenKeys, "lose", lambda keys: keys.keys.clear())


def all_forget(patch: pytest.MonkeyPatch) -> None:
    """Also keys that closed before begin anew."""
    patch.setattr(OpenKeys, "lose", OpenKeys.__init__)


def tuples_survive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenKeys, "lose", lambda _: None)


@pytest.mark.parametrize("broken", [nothing_closes, all_forget, tuples_survive])
def test_keys_that_a_crash_closes_otherwise_are_noticed(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    jobs = [closing_job(seed, crashes=1 + seed % 3) for seed in range(30)]
    assert any(found.counted != found.by_intervals() for found in (OpenTuples(raw, monkeypatch) for raw in jobs))
    assert any(differences(*(rows_of(raw, plane) for plane in PLANES)) for raw in jobs)


# -- tasks that scan


def scanning() -> dict[str, Any]:
    """The job of `steps` whose tasks scan for 4 ms in a round, with a host that dies as a state travels."""
    raw = steps()
    raw["operators"]["op"]["scan"] = "0.5 ms"
    return dies(raw, dict(phases(raw))["on the way 0"], 2)


def rounds_of(raw: dict[str, Any], patch: pytest.MonkeyPatch) -> tuple[Control, dict[int, list[int]], set[int]]:
    """When rounds of each task ended, and when the tasks caught up that took over what was lost."""
    ended, comes = defaultdict[int, list[int]](list), Scans.comes

    def noting(scans: Scans, token: int, task: int) -> bool:
        found = comes(scans, token, task)
        if found:
            ended[task].append(scans.state.clock.now_ns())
        return found

    with patch.context() as inner:
        inner.setattr(Scans, "comes", noting)
        control, found, faults = ran(raw)
    assert faults == []
    return control, ended, {*found.tables["recoveries"]["caught_up_ns"].tolist()}


def test_a_task_that_starts_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    control, ended, _ = rounds_of(scanning(), monkeypatch)
    cluster, op = control.cluster, control.plan.first_partition[1]
    tasks = {cluster.partition_task[op + k] for k in range(8)}
    started = tasks - set(range(4))
    assert started
    for task in tasks:
        assert all(
            4 * MS <= after - before < 60 * MS for before, after in zip(ended[task], ended[task][1:], strict=False)
        )
        assert max(ended[task], default=0) > 2_490 * MS


def test_a_task_that_scans_catches_up_when_only_rounds_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    _, ended, caught_up_ns = rounds_of(scanning(), monkeypatch)
    assert caught_up_ns
    assert caught_up_ns <= {at for each in ended.values() for at in each}


def no_task_starts_to_scan(patch: pytest.MonkeyPatch) -> None:
    right = Scans.begin
    patch.setattr(Scans, "begin", lambda scans, task: right(scans, task) if not scans.state.clock.now_ns() else None)


def test_a_task_that_starts_and_does_not_scan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    no_task_starts_to_scan(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_task_that_starts_scans(monkeypatch)
