"""When hosts die, what is gone with them, and when their failure is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.cluster import ExponentialFailures, ScheduledFailures
from models.events import HostFailure
from models.records import NEVER
from models.units import to_ns
from sim.clock import Process
from sim.draws import at_least_one_ns, generator
from sim.recovery import Loss
from sim.unit import Unit

if TYPE_CHECKING:
    from sim.host import Host
    from sim.world import World


class Failures:
    """Lets hosts die and come back, and tells recovery what was lost once the failure is noticed."""

    def __init__(self, world: World) -> None:
        self.world = world

    def start(self) -> None:
        """Start the processes: events in file order, then the laws of the hosts."""
        clock = self.world.clock
        for event in self.world.scenario.events.values():
            if isinstance(event, HostFailure):
                clock.process(self._event(event))
        for host in self.world.hosts:
            law = host.group.failures
            if isinstance(law, ExponentialFailures):
                clock.process(self._random(host, law))
            elif isinstance(law, ScheduledFailures):
                clock.process(self._scheduled(host, law))

    def _event(self, failure: HostFailure) -> Process:
        """A failure that the scenario asks for."""
        yield self.world.clock.sleep(to_ns(failure.at_s))
        host = next(host for host in self.world.hosts if host.name == failure.host)
        self.fail(host, None if failure.repair_s is None else to_ns(failure.repair_s))

    def _scheduled(self, host: Host, law: ScheduledFailures) -> Process:
        """Failures of one host at given times."""
        for at_s in sorted(law.at_s):
            yield self.world.clock.sleep(to_ns(at_s))
            self.fail(host, to_ns(law.repair_s))

    def _random(self, host: Host, law: ExponentialFailures) -> Process:
        """Failures of one host after exponential times of being up."""
        clock, repair_ns = self.world.clock, to_ns(law.repair_s)
        rng = generator(self.world.scenario.seed, self.world.replication, host.name, "failures")
        while True:
            yield clock.sleep(clock.now_ns() + at_least_one_ns(float(rng.exponential(law.mtbf_s))))
            self.fail(host, repair_ns)
            yield clock.sleep(clock.now_ns() + repair_ns)

    def fail(self, host: Host, repair_ns: int | None) -> None:
        """The host dies: queues, services, state, what it had not sent, and checkpoints it holds are gone."""
        now, recorder = self.world.clock.now_ns(), self.world.recorder
        if not host.alive:
            recorder.decision(now, f"failure of {host.name} ignored", "the host is already down")
            return
        lost = self._lose_tasks(host, now)
        for unit in self.world.all_units():
            if unit.checkpoint and unit.checkpoint.holder == host.index:
                unit.checkpoint = None
        row = len(recorder.rows["failures"])
        recorder.rows["failures"].append((host.index, now, NEVER, NEVER, len(lost), NEVER))
        self.world.clock.process(self._after(host, lost, now, repair_ns, row))

    def _lose_tasks(self, host: Host, now: int) -> list[Unit]:
        """End the host's tasks; returns the units that were there."""
        world, tasks = self.world, host.crash()
        dead = set(tasks)
        lost = [unit for unit in world.all_units() if unit.task in dead]
        for unit in lost:
            world.recovery.lost_again(unit)
        for task in tasks:
            for visit in task.crash(now):
                world.drop(visit, task, "crash")
        for unit in lost:
            for visit in unit.forget_volatile():
                assert unit.task is not None
                world.drop(visit, unit.task, "crash")
        world.cut_links(host)
        return lost

    def _after(self, host: Host, lost: list[Unit], failed: int, repair_ns: int | None, row: int) -> Process:
        """Detection and repair, whichever comes first; a host that comes back says so itself."""
        clock, rows = self.world.clock, self.world.recorder.rows["failures"]
        back_at = None if repair_ns is None else failed + repair_ns
        detect_at = self._detection_ns(failed)
        yield clock.sleep(detect_at if back_at is None else min(detect_at, back_at))
        rows[row] = (*rows[row][:2], clock.now_ns(), *rows[row][3:])
        if not lost:
            rows[row] = (*rows[row][:-1], clock.now_ns())
        self.world.recovery.recover([Loss(unit, host, failed, row) for unit in lost])
        if back_at is None:
            return
        if back_at > clock.now_ns():
            yield clock.sleep(back_at)
        rows[row] = (*rows[row][:3], back_at, *rows[row][4:])
        host.alive = True
        self.world.recovery.host_is_back()

    def _detection_ns(self, failed_ns: int) -> int:
        """The last heartbeat was sent before the failure; the host counts as dead a time-out after it."""
        detector = self.world.scenario.detector
        heartbeat_ns = max(1, to_ns(detector.heartbeat_s))
        last = (failed_ns - 1) // heartbeat_ns * heartbeat_ns if failed_ns > 0 else 0
        return max(failed_ns, last + to_ns(detector.timeout_s))
