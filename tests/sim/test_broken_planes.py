"""The comparison of the planes notices an engine that is wrong: the plain plane is broken on purpose.

Each fault is one that an engine on arrays could have; without any, the same jobs give equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from random import Random
from typing import Any

import pytest
from lattices import lattice_job
from small_jobs import random_job, storm
from test_planes import METHODS, on_both

import sim.plain.channels
import sim.plain.host
import sim.plain.task
from sim.clock import ARRIVAL, channel
from sim.plain.host import Host
from sim.plain.partition import Partition, Row, Visit, Work
from sim.plain.plane import PlainPlane
from sim.plain.task import Cores, Task

Patch = pytest.MonkeyPatch


Make = Callable[..., dict[str, Any]]


def job(make: Make, seed: int) -> dict[str, Any]:
    """The job of that kind and seed."""
    return make(Random(seed), fault_tolerance=METHODS[0 if seed % 2 else seed // 2 % 4])


def jobs(seeds: int) -> Iterator[dict[str, Any]]:
    """Random jobs, storms of crashes, and lattices."""
    for seed in range(seeds):
        for make in (lattice_job, random_job, storm):
            yield job(make, seed)


def ignore_the_cut(patch: Patch) -> None:
    """A service that runs when its host dies is done to its end, with its outputs."""
    crash = Task.crash

    def done_first(task: Task, now_ns: int) -> list[Visit]:
        for item in [item for item in task.serving if isinstance(item, Visit)]:
            task._complete(item, now_ns)
            del task.serving[item]
        return crash(task, now_ns)

    patch.setattr(Task, "crash", done_first)


def services_before_the_cut(patch: Patch) -> None:
    """`<=` at the cut: a service that ends at an instant is done before control acts there."""
    patch.setattr(sim.plain.task, "SERVICE", -(1 << 40))


def arrivals_before_services(patch: Patch) -> None:
    """A tuple that arrives as a service ends is there before it ends."""
    patch.setattr(
        sim.plain.channels, "channel", lambda kind, *ends: channel(kind, *ends) - 2 * (kind == ARRIVAL) * (1 << 48)
    )


def route_at_arrival(patch: Patch) -> None:
    """A tuple on its way goes where its partition is when it arrives."""
    arrive = PlainPlane._arrive
    patch.setattr(PlainPlane, "_arrive", lambda plane, visit, _task: arrive(plane, visit, visit.partition.task))


def early_forward(patch: Patch) -> None:
    """What a tuple makes is sent when its service begins."""
    serve = Task._serve

    def serve_and_send(task: Task, item: Visit | Work, ns: int, now: int) -> None:
        serve(task, item, ns, now)
        if isinstance(item, Visit):
            for child, key in task.operator.outputs(item.row.id, item.row.key) if task.operator.edges else ():
                task.plane.emit(item.partition, child, item.row.created_ns, key)

    emit = PlainPlane.emit

    def only_then(plane: PlainPlane, partition: Partition, *rest: Any, **more: Any) -> None:
        if partition.operator.is_source or not ending:
            emit(plane, partition, *rest, **more)

    complete, ending = Task._complete, []

    def silently(task: Task, visit: Visit, now: int) -> None:
        ending.append(visit)
        complete(task, visit, now)
        ending.pop()

    patch.setattr(Task, "_serve", serve_and_send)
    patch.setattr(Task, "_complete", silently)
    patch.setattr(PlainPlane, "emit", only_then)


def unsorted_merge(patch: Patch) -> None:
    """What arrives at one instant is taken in the order of sending, not by receiver and sender."""
    patch.setattr(sim.plain.channels, "channel", lambda kind, *_: kind)


def draws_in_order_of_processing(patch: Patch) -> None:
    """Service times are drawn one after the other, whichever tuple comes."""
    served, serve = count(), Task._serve

    def drawn(task: Task, item: Visit | Work, ns: int, now: int) -> None:
        service_ns = task.operator.service_ns
        if isinstance(item, Visit) and service_ns is not None:
            ns = task.host.scaled(service_ns(next(served) * 0x9E3779B97F4A7C15 % 2**64))
        serve(task, item, ns, now)

    patch.setattr(Task, "_serve", drawn)


def links_that_outlive_their_host(patch: Patch) -> None:
    """What has not left a link when its host dies arrives all the same."""
    patch.setattr(PlainPlane, "_cut_links", lambda _world, _host: None)


def replays_behind_the_queue(patch: Patch) -> None:
    """Tuples that were sent again queue behind the others."""

    def behind(task: Task, items: list[Visit] | list[Work]) -> None:
        for item in items:
            if task.operator.service_ns is None:
                task._admit(item)
            elif isinstance(item, Visit):
                task.queue.append(item)
            else:
                task.front.append(item)
        task.cores.dispatch()

    patch.setattr(Task, "put_in_front", behind)


def the_first_task_first(patch: Patch) -> None:
    """A free core takes a tuple of the task that was started first, not the one that arrived first."""

    def lowest(cores: Cores) -> Task | None:
        return next((task for task in cores.tasks if task.idle_threads and (task.front or task.queue)), None)

    patch.setattr(Cores, "_next", lowest)


def times_rounded_down(patch: Patch) -> None:
    """Time on a link is cut to whole nanoseconds instead of rounded."""

    def departure_ns(link: sim.plain.host.Link, now_ns: int, size_bytes: int) -> int:
        begin = max(now_ns, link.free_at_ns)
        link.free_at_ns = begin + (int(size_bytes * 10**9 / link.bytes_per_s) if link.bytes_per_s else 0)
        return link.free_at_ns

    patch.setattr(sim.plain.host.Link, "departure_ns", departure_ns)


def a_link_for_both_lives(patch: Patch) -> None:
    """A host that comes back goes on with the link that it had."""
    crash = Host.crash

    def keep_the_link(host: Host) -> list[Task]:
        link = host.link
        tasks = crash(host)
        host.link = link
        return tasks

    patch.setattr(Host, "crash", keep_the_link)


def held_tuples_forgotten(patch: Patch) -> None:
    """A partition that is live again goes on without what it held."""

    def release(plane: PlainPlane, partition: int) -> None:
        plane._numbered[partition].held = []

    patch.setattr(PlainPlane, "release", release)


def trims_without_a_look_at_the_order(patch: Patch) -> None:
    """Upstream forgets all that is covered, also behind an output that is not."""

    def trim(partition: Partition, receiver: Partition, covered: int) -> int:
        queue = partition.kept[receiver]
        rows: list[Row] = [row for row in queue if receiver.position.get(row.id, covered) >= covered]
        forgotten = len(queue) - len(rows)
        queue.clear()
        queue.extend(rows)
        receiver.trimmed = max(receiver.trimmed, covered)
        return forgotten

    patch.setattr(Partition, "trim", trim)


FAULTS: dict[Callable[[Patch], None], tuple[Make, int]] = {
    ignore_the_cut: (storm, 1),
    services_before_the_cut: (lattice_job, 1),
    arrivals_before_services: (lattice_job, 1),
    route_at_arrival: (storm, 0),
    early_forward: (lattice_job, 0),
    unsorted_merge: (storm, 0),
    draws_in_order_of_processing: (random_job, 0),
    links_that_outlive_their_host: (lattice_job, 5),
    replays_behind_the_queue: (lattice_job, 7),
    the_first_task_first: (random_job, 1),
    times_rounded_down: (storm, 4),
    a_link_for_both_lives: (storm, 49),
    held_tuples_forgotten: (random_job, 3),
    trims_without_a_look_at_the_order: (storm, 8),
}
"""Faults, and the first job that shows each, which is tried before all others."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_makes_rows_differ(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    assert any(on_both(raw) for raw in chain([job(*FAULTS[fault])], jobs(200)))


@pytest.mark.parametrize("seeds", [7, pytest.param(50, marks=pytest.mark.slow)])
def test_without_a_fault_the_same_jobs_give_equal_rows(seeds: int) -> None:
    assert not any(on_both(raw) for raw in jobs(seeds))
