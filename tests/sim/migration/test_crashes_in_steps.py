"""Hosts that die while key groups move in steps: the move is cancelled, and the job goes back to its last checkpoint.

Oracle: the outputs and states of the same job in which nothing moves and nothing dies, the configuration of the last
step that was over, and rows of the compiled plane against those of the plain one. No tolerance. Rules that are broken
on purpose are noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crashing_steps import NOTICED, job
from seeds import sample
from test_megaphone import MS, made, rows_of
from test_planes import differences

from analysis.runs.reconfigurations import reconfigurations
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER, RunRecords
from models.scenario.reading import scenario_from
from models.scenario.rules import faults as wrong
from models.scenario.rules import not_simulated
from models.units import to_ns
from sim.control import barriers
from sim.control.assembly import Control
from sim.control.cluster import Cluster, ClusterView
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.reconfiguration import ReconfigurationContext
from sim.migration.reconfigurations import Reconfigurations
from sim.migration.transport import ProtocolRuntime
from sim.plain.channels import Channels
from sim.plain.partition import Partition, TaskView
from sim.plain.plane import PlainPlane
from sim.recovery.region_restart import RegionRestart

QUIET_NS = 700 * MS  # before the end: what was born earlier has been delivered by then


def undisturbed(raw: dict[str, Any]) -> dict[str, Any]:
    """The same job, in which nothing moves and nothing dies."""
    return raw | {"events": {}, "fault_tolerance": {"method": "none"}, "detector": {}}


def ran(raw: dict[str, Any]) -> tuple[Control, RunRecords]:
    """The run of a job on the plain plane, and its rows."""
    control = made(raw)
    until = to_ns(control.plan.scenario.duration_s)
    control.start()
    control.run(until)
    return control, records(control, until)


def states(control: Control, until_ns: int) -> dict[tuple[int, int], list[int]]:
    """The tuples in the state of each key group, by operator and index, as far as they were born before an instant."""
    assert isinstance(control.plane, PlainPlane)
    return {
        (one.operator.index, one.index): sorted(
            made for made, born_ns in zip(one.applied, one.applied_created_ns, strict=True) if born_ns < until_ns
        )
        for one in control.plane.all_partitions()
        if not (one.operator.is_source or one.operator.is_sink) and one.operator.description.keyed
    }


def delivered(found: RunRecords, until_ns: int) -> Counter[int]:
    """When the outputs that sinks got were born, as far as that was before an instant."""
    return Counter(one for one in found.tables["deliveries"]["created_ns"].tolist() if one < until_ns)


def faults(raw: dict[str, Any]) -> list[str]:
    """All that must not happen in the run of a job, in words; empty if it is right."""
    return faults_of(*ran(raw), *ran(undisturbed(raw)))


def faults_of(control: Control, found: RunRecords, right: Control, expected: RunRecords) -> list[str]:
    """The same of a run, given that in which nothing moves and nothing dies."""
    before_ns = to_ns(control.plan.scenario.duration_s) - QUIET_NS
    return [*_of_outputs(control, found, right, expected, before_ns), *_of_runs(control, found)]


def _of_outputs(
    control: Control, found: RunRecords, right: Control, expected: RunRecords, before_ns: int
) -> Iterator[str]:
    ledger = found.tables["ledger"]
    if ledger["lost"].sum() or ledger["duplicated"].sum():
        yield "the audit has tuples that are lost, or applied twice"
    if control.cluster.down_owners or control.cluster.on_the_way:
        yield "a key group is down at the end"
    elif states(control, before_ns) != states(right, before_ns):
        yield "states are not those of a run in which nothing moves and nothing dies"
    if delivered(found, before_ns) != delivered(expected, before_ns):
        yield "outputs are not those of a run in which nothing moves and nothing dies"
    operators = control.plan.scenario.operators
    if operators["src"].parallelism == 1 and "map" not in operators:
        assert isinstance(control.plane, PlainPlane)
        for one in control.plane.all_partitions():
            if one.operator.name == "op" and one.applied_created_ns != sorted(one.applied_created_ns):
                yield "tuples of a key group are applied in another order than that of their times"


def _of_runs(control: Control, found: RunRecords) -> Iterator[str]:
    cluster = control.cluster
    operators = [one for one in control.plan.operators if one.description.keyed]
    places = {
        control.plan.first_partition[one.index] + k: one.description.task_of(k)
        for one in operators
        for k in range(one.description.groups)
    }
    for run in control.reconfigurations.runs:
        if not run.over:
            yield "a move never ends"
        for carries, one in zip(run.plan.steps, run.times, strict=True):
            if one.groups == sum(len(carry.partitions) for carry in carries):
                for carry in carries:
                    places |= dict.fromkeys(carry.partitions, run.plan.members.index(carry.target))
    if any(cluster.task_place[cluster.partition_task[one]] != place for one, place in places.items()):
        yield "the configuration is not that of the last step that was over"
    jobs = found.tables["job_checkpoints"]
    for run in control.reconfigurations.runs:
        ends = [one for one in (run.completed_ns, run.cancelled_ns) if one not in (None, NEVER)]
        if ends and run.times[0].from_ns != NEVER:
            inside = (jobs["triggered_ns"] > run.times[0].from_ns) & (jobs["triggered_ns"] < ends[0])
            if inside.any():
                yield "a checkpoint begins while key groups move"


def test_what_it_moves_beside_hosts_that_die_is_accepted() -> None:
    for seed in range(20):
        scenario = scenario_from(job(seed))
        assert [*wrong(scenario), *not_simulated(scenario)] == []


def test_nothing_is_lost_or_applied_twice_whatever_dies() -> None:
    ends: Counter[str] = Counter()
    for seed in range(16):
        raw = job(seed, crashes=1 + seed % 2)
        control, found = ran(raw)
        assert faults_of(control, found, *ran(undisturbed(raw))) == [], seed
        ends.update("done" if one.cancelled_ns == NEVER else "cancelled" for one in control.reconfigurations.runs)
    assert min(ends["done"], 3 * ends["cancelled"]) >= 6


# -- a host that dies in each phase of a step

GROUP_BYTES = 20_000  # 10 ms to write, 20 ms over the link, 5 ms to read


def steps(scope: str = "operator", **changes: Any) -> dict[str, Any]:
    """Four key groups go from a task to another, in steps of two; each task is on a host of its own, the sink too."""
    service = {"distribution": "deterministic", "value": "1 ms"}
    event = {"kind": "reconfigure", "at": "750 ms", "operator": "op", "strategy": "batched", "size": 2, "scope": scope}
    return {
        "duration": "2.5 s",
        "workload": {
            "src": {
                "rate": "200 /s",
                "arrivals": "deterministic",
                "keys": {"distribution": "uniform", "count": 40},
                "tuple": "100 B",
            }
        },
        "operators": {
            "src": {"kind": "source"},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 2,
                "key_groups": 8,
                "service": service,
                "state": {"model": "fixed", "bytes": f"{GROUP_BYTES} B"},
                "serialise": "2 MB/s",
                "deserialise": "4 MB/s",
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 4, "network": "1 MB/s"}},
        "placement": {"tasks": {"src-0": "h-0", "op-0": "h-1", "op-1": "h-2", "out-0": "h-3"}},
        "network": {"latency": "1 ms"},
        "detector": NOTICED,
        "fault_tolerance": {
            "method": "region-restart",
            "store": "remote",
            "remote": "100 MB/s",
            "interval": "300 ms",
            "barriers": {},
        },
        "events": {"move": event | {"owners": [1, 1, 1, 1, 1, 1, 1, 1]}},
    } | changes


def backlogged() -> dict[str, Any]:
    """All key groups leave a task whose outputs wait for its link, which is shared evenly: they come after the states.

    A checkpoint is taken meanwhile; then the reader dies.
    """
    raw = steps(hosts={"h": {"count": 3, "network": "1 MB/s"}, "g": {"count": 1}})
    raw["network"]["sharing"] = "fair"
    raw["placement"] = {"tasks": {"src-0": "g-0", "op-0": "h-1", "op-1": "g-0", "next-0": "h-2", "out-0": "h-2"}}
    service = raw["operators"]["op"]["service"]
    state = {"model": "per-tuple", "bytes": "10 B"}
    raw["operators"]["op"]["output"] = {"tuple": "15 kB"}
    raw["operators"]["next"] = {"kind": "aggregate", "inputs": {"op": "key"}, "service": service, "state": state}
    raw["operators"]["out"]["inputs"] = {"next": "shuffle"}
    raw["events"]["move"] = {name: one for name, one in raw["events"]["move"].items() if name != "size"}
    raw["events"]["move"]["strategy"] = "all-at-once"
    return dies(raw, 1400 * MS, 2)


def dies(raw: dict[str, Any], at_ns: int, host: int, repair: str = "100 ms") -> dict[str, Any]:
    event = {"kind": "host-failure", "at": f"{at_ns / 1e6} ms", "host": f"h-{host}", "repair": repair}
    return raw | {"events": raw["events"] | {"dies": event}}


def phases(raw: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """An instant of each phase of each step, if nothing dies."""
    control, _ = ran(raw)
    (run,) = control.reconfigurations.runs
    for k, one in enumerate(run.times):
        yield f"announced {k}", one.from_ns - MS // 2
        yield f"not passed {k}", (one.from_ns + one.passed_ns) // 2
        yield f"passed, and nobody knows {k}", one.passed_ns + MS // 2
        yield f"written {k}", one.passed_ns + 10 * MS
        yield f"on the way {k}", one.installed_ns - 30 * MS
        yield f"read {k}", one.installed_ns - 5 * MS
        yield f"over, and nobody knows {k}", one.installed_ns + MS // 2


@pytest.mark.parametrize(("scope", "next_time"), [("operator", "now"), ("bin", "now"), ("bin", "lag")])
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_host_may_die_in_each_phase_of_a_step(scope: str, next_time: str, every: int) -> None:
    """Each host in each phase, or every third of these pairs: each phase and each host is among them."""
    raw = steps(scope)
    raw["events"]["move"]["next"] = next_time
    seen, ends, right = set(), Counter[bool](), ran(undisturbed(raw))
    for k, (name, at_ns) in enumerate(phases(raw)):
        for host in range(-k % every, 4, every):
            control, found = ran(dies(raw, at_ns, host))
            assert faults_of(control, found, *right) == [], (name, host)
            (run,) = control.reconfigurations.runs
            ends[run.cancelled_ns != NEVER] += 1
            seen.add(tuple(one.installed_ns != NEVER for one in run.times))
    assert seen == {(False, False), (True, False), (True, True)}
    assert ends[True] > 40 // every


def test_both_planes_have_equal_rows_in_each_phase() -> None:
    raw = steps()
    for k, (name, at_ns) in enumerate(phases(raw)):
        crashing = dies(raw, at_ns, (k + 1) % 4)
        assert differences(*(rows_of(crashing, plane) for plane in (PlainPlane, CompiledPlane))) == [], name


@pytest.mark.parametrize("seed", sample(12, 200))
def test_both_planes_have_equal_rows_whatever_dies(seed: int) -> None:
    raw = job(seed, crashes=seed % 3)
    assert differences(*(rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))) == []


def said(found: RunRecords, action: Action) -> list[tuple[str, str]]:
    table = found.tables["decisions"]
    return [
        (verdict, reason)
        for what, verdict, reason in zip(table["action"], table["verdict"], table["reason"], strict=True)
        if what == action
    ]


def test_a_cancelled_move_says_how_far_it_came_and_later_ones_go_on() -> None:
    raw = steps()
    (at_ns,) = (at for name, at in phases(raw) if name == "on the way 1")
    raw["events"]["back"] = {"kind": "reconfigure", "at": "1 s", "operator": "op", "plan": "back"}
    raw["events"]["back"] |= {"strategy": "all-at-once"}
    control, found = ran(dies(raw, at_ns, 2))
    assert faults(dies(raw, at_ns, 2)) == []
    one, other = control.reconfigurations.runs
    assert [step.installed_ns != NEVER for step in one.times] == [True, False]
    assert said(found, Action.RECONFIGURE)[1] == (
        Verdict.REFUSED,
        "a task that takes part was lost when 1 of 2 steps were over; the others are not done",
    )
    assert other.completed_ns is not None
    # Two key groups had moved for good: these go back, and no others.
    assert sum(len(carry.partitions) for carry in other.plan.steps[0]) == 2
    assert found.tables["reconfigurations"]["cancelled_ns"].tolist() == [one.cancelled_ns] * 2 + [NEVER]
    summary = reconfigurations([found])
    assert [step.over_of_all for step in summary] == ["1 of 2", "1 of 1"]
    assert [step.cancelled_s for step in summary] == [one.cancelled_ns / 1e9, None]
    assert summary[0].duration_s is None


def test_a_task_without_key_groups_comes_back_with_the_others() -> None:
    # op-0 has none any more when its host dies; then it gets some again.
    raw = steps()
    raw["events"]["back"] = {"kind": "reconfigure", "at": "1.2 s", "operator": "op", "plan": "back"}
    raw["events"]["back"] |= {"strategy": "all-at-once"}
    for host in range(4):
        control, found = ran(dies(raw, 950 * MS, host))
        assert faults_of(control, found, *ran(undisturbed(raw))) == []
        assert [one.completed_ns is not None for one in control.reconfigurations.runs] == [True, True]
        assert len(found.tables["recoveries"]["host"]) == 1 + 8 + 1
        assert (found.tables["failures"]["caught_up_ns"] != NEVER).all()


def test_barriers_go_behind_the_last_outputs_of_a_task_without_key_groups() -> None:
    raw = backlogged()
    assert faults(raw) == []
    control, found = ran(raw)
    (run,) = control.reconfigurations.runs
    assert run.completed_ns is not None
    complete = found.tables["job_checkpoints"]["completed_ns"]
    assert ((complete > run.completed_ns) & (complete < 1400 * MS)).sum() == 0  # it waits for them
    assert differences(*(rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))) == []


def test_checkpoints_wait_for_key_groups_and_key_groups_for_checkpoints() -> None:
    raw = steps()
    raw["fault_tolerance"]["interval"] = "100 ms"
    raw["fault_tolerance"]["remote"] = "1 MB/s"  # 160 ms for a checkpoint
    control, found = ran(raw)
    (run,) = control.reconfigurations.runs
    jobs = found.tables["job_checkpoints"]
    before, after = jobs["completed_ns"] < run.times[0].from_ns, jobs["triggered_ns"] > run.times[0].from_ns
    assert ((jobs["completed_ns"] == NEVER) | before | after).all()
    assert said(found, Action.POSTPONE) == [(Verdict.DONE, "a checkpoint is under way")]
    # The one that was due meanwhile begins when the coordinator has heard of the last state.
    assert run.completed_ns is not None
    assert int(jobs["triggered_ns"][after][0]) == run.completed_ns + control.plan.latency_ns


def test_one_that_waits_to_the_end_has_a_row() -> None:
    raw = steps()
    raw["events"]["again"] = raw["events"]["move"] | {"at": "752 ms"}
    raw["duration"] = "754 ms"
    control, found = ran(raw)
    table = found.tables["reconfigurations"]
    assert len(control.reconfigurations.runs) == 1
    assert (table["number"][-1], table["requested_ns"][-1]) == (1, 752 * MS)
    assert (table["from_ns"][-1], table["groups"][-1], table["installed_ns"][-1]) == (NEVER, 0, NEVER)


def test_checkpoints_that_wait_begin_once_where_several_may_be_under_way() -> None:
    raw = job(1)
    raw["fault_tolerance"] |= {"interval": "100 ms", "remote": "1 MB/s"}
    raw["fault_tolerance"]["barriers"] |= {"concurrent": 2}
    _, found = ran(raw)
    begun = found.tables["job_checkpoints"]["triggered_ns"]
    assert begun.size > 10
    assert (begun[1:] > begun[:-1]).all()
    assert differences(*(rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))) == []


# -- rules that are broken

Break = Callable[[pytest.MonkeyPatch], None]


def a_state_on_its_way_survives(patch: pytest.MonkeyPatch) -> None:
    """Who is started again still knows that its key group travels, and to which task."""
    right = Partition.assign

    def assign(self: Partition, task: TaskView) -> None:
        goal, from_ns, taken = self.goal, self.placed_from_ns, self.taken
        right(self, task)
        self.goal, self.placed_from_ns, self.taken = goal, from_ns, taken

    patch.setattr(Partition, "assign", assign)


def it_is_not_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reconfigurations, "can_be_cancelled", lambda *_: False)


def all_go_back_to_where_they_began(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Cluster,
        "place_of",
        lambda self, partition, parallelism: self.plan.operators[
            self.partition_operator[partition]
        ].description.task_of(self.partition_index[partition], parallelism),
    )


def a_step_counts_before_it_is_over(patch: pytest.MonkeyPatch) -> None:
    right = ReconfigurationContext.install

    def install(self: ReconfigurationContext, parcel: Any, step: int) -> None:
        right(self, parcel, step)
        self._cluster.moved |= dict.fromkeys(parcel.partitions, self._cluster.task_place[self.me] or 0)

    patch.setattr(ReconfigurationContext, "install", install)


def checkpoints_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reconfigurations, "_are_wanted", lambda _: False)


def key_groups_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reconfigurations, "waits", lambda self, _: self._is_down())


def barriers_do_not_follow_last_outputs(patch: pytest.MonkeyPatch) -> None:
    """No barrier goes behind what a task has sent that has no key groups any more."""
    right = barriers.subtasks_of

    def without(plan: Any, cluster: Cluster) -> Any:
        moved, cluster.moved = cluster.moved, {}
        found = right(plan, cluster)
        cluster.moved = moved
        return found

    patch.setattr(barriers, "subtasks_of", without)


def the_dead_are_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProtocolRuntime, "reach", ProtocolRuntime.deliver)


def what_has_left_counts_as_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterView, "has_left", lambda *_: None)


def a_task_without_key_groups_stays_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RegionRestart, "host_lost", lambda *_: None)


def a_task_without_key_groups_goes_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RegionRestart, "_without_groups", lambda _: [])


BROKEN: list[Break] = [
    a_state_on_its_way_survives,
    it_is_not_cancelled,
    all_go_back_to_where_they_began,
    a_step_counts_before_it_is_over,
    checkpoints_do_not_wait,
    key_groups_do_not_wait,
    barriers_do_not_follow_last_outputs,
    the_dead_are_told,
    what_has_left_counts_as_lost,
    a_task_without_key_groups_stays_down,
    a_task_without_key_groups_goes_on,
]


def _hard() -> Iterator[dict[str, Any]]:
    """Jobs in which rules matter: first some that break one of them each."""
    raw = steps()
    back = {"kind": "reconfigure", "at": "1 s", "operator": "op", "plan": "back", "strategy": "fluid"}
    more = raw | {"events": raw["events"] | {"back": back}}
    later = raw | {"events": raw["events"] | {"back": back | {"at": "1.2 s"}}}
    yield dies(later, 950 * MS, 1)
    yield backlogged()
    yield from (job(seed, crashes=1 + seed % 2) for seed in (12, 19, 36))
    for name, at_ns in phases(raw):
        if not name.startswith("announced"):
            yield from (dies(more, at_ns, host) for host in (1, 2))
    yield from (job(seed, crashes=1 + seed % 2) for seed in range(60))


def _announced() -> Iterator[dict[str, Any]]:
    """Jobs whose new task dies when it holds tuples for key groups that are still at their old one, or their source."""
    raw = steps("bin")
    raw["events"]["move"]["next"] = "lag"
    for name, at_ns in phases(raw):
        if name.startswith("announced"):
            yield dies(raw, at_ns, 0)
        elif name.startswith(("written", "on the way", "read")):
            yield dies(raw, at_ns, 2)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda one: one.__name__)
def test_what_is_broken_is_noticed(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [*_hard()]
    broken(monkeypatch)
    for raw in jobs:
        try:
            if faults(raw):
                return
        except (ValueError, AssertionError, KeyError):
            return  # a plane, or a manager, refuses it
    raise AssertionError("nothing of it was noticed")


def what_waits_at_a_dead_task_survives(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Channels, "lose_held", lambda *_: None)


def frontiers_pass_what_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PlainPlane, "_has_lost", lambda *_: False)


@pytest.mark.parametrize("broken", [what_waits_at_a_dead_task_survives, frontiers_pass_what_is_lost])
def test_rows_of_a_plane_that_is_broken_differ(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [*_announced()]
    broken(monkeypatch)
    assert any(map(_differs, jobs))


def _differs(raw: dict[str, Any]) -> bool:
    try:
        return differences(*(rows_of(raw, plane) for plane in (PlainPlane, CompiledPlane))) != []
    except ValueError:
        return True  # the broken plane refuses what control asks for
