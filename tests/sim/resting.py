"""When a job has come to rest in the plain plane: what began is over, and no tuple is on its way or waits."""

from __future__ import annotations

from sim.control.assembly import Control
from sim.plain.partition import Bundle, Partition, Visit
from sim.plain.plane import PlainPlane
from sim.plain.task import Task

STEP_NS = 10**9
LONG_NS = 600 * 10**9  # what is not over by then waits for ever


def run_to_rest(control: Control, last_arrival_ns: int, from_ns: int) -> int:
    """Run to an instant, and on until the job is at rest, or for long; returns when that is [ns].

    Its sources have no arrivals from `last_arrival_ns` on, and here its timers do not either: else it would never come
    to rest.
    """
    _end_timers(control, last_arrival_ns)
    at_ns = from_ns
    control.run(at_ns)
    while at_ns < from_ns + LONG_NS and undone(control):
        at_ns += STEP_NS
        control.run(at_ns)
    return at_ns


def _end_timers(control: Control, end_ns: int) -> None:
    """No timer emits for an instant from this one on."""
    plane = control.plane
    assert isinstance(plane, PlainPlane)
    emit_ticks = plane.emit_ticks

    def emit_before_the_end(partition: Partition, upto: int) -> None:
        emit_ticks(partition, min(upto, (end_ns - 1) // partition.operator.timer_ns))

    plane.emit_ticks = emit_before_the_end  # type: ignore[method-assign]


def undone(control: Control) -> list[str]:
    """What is not over yet of a job whose sources and timers are."""
    plane, cluster, recoveries = control.plane, control.cluster, control.recoveries
    assert isinstance(plane, PlainPlane)
    owners = [partition.owner for partition in plane.all_partitions()]
    found = {
        "a failure is not detected": cluster.trusted != cluster.host_alive,
        "a recovery does not end": recoveries.busy or not all(owner.live for owner in owners),
        "a move does not begin or end": bool(control.migrations.bound_for()),
        "sources are stuck": any(lag for _, lag in plane.lag()),
        "tuples do not arrive": bool(plane.wire),
        "tuples wait for ever": any(map(_has_tuples, plane.tasks))
        or any(partition.held for partition in plane.instances()),
        "windows do not end": any(owner.time.windows for owner in owners),
    }
    return [what for what, is_so in found.items() if is_so]


def _has_tuples(task: Task) -> bool:
    """Whether tuples wait at the task, are in service there, or have not left it."""
    lanes = (task.front, task.queue, task.serving, task.back, task.side)
    waits = any(isinstance(item, Visit | Bundle) for lane in lanes for item in lane)
    return waits or bool(task.outbox.unsent)
