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

if TYPE_CHECKING:
    from sim.control import Control


class Failures:
    """Lets hosts die and come back, and tells recovery what was lost once the failure is noticed."""

    def __init__(self, control: Control) -> None:
        self.control, self.scenario = control, control.plan.scenario

    def start(self) -> None:
        """Start the processes: events in file order, then the laws of the hosts."""
        clock = self.control.clock
        for event in self.scenario.events.values():
            if isinstance(event, HostFailure):
                clock.process(self._event(event))
        for host, group in enumerate(self.control.plan.host_groups):
            law = group.failures
            if isinstance(law, ExponentialFailures):
                clock.process(self._random(host, law))
            elif isinstance(law, ScheduledFailures):
                clock.process(self._scheduled(host, law))

    def _event(self, failure: HostFailure) -> Process:
        """A failure that the scenario asks for."""
        yield self.control.clock.sleep(to_ns(failure.at_s))
        host = self.control.plan.host_names.index(failure.host)
        self.fail(host, None if failure.repair_s is None else to_ns(failure.repair_s))

    def _scheduled(self, host: int, law: ScheduledFailures) -> Process:
        """Failures of one host at given times."""
        for at_s in sorted(law.at_s):
            yield self.control.clock.sleep(to_ns(at_s))
            self.fail(host, to_ns(law.repair_s))

    def _random(self, host: int, law: ExponentialFailures) -> Process:
        """Failures of one host after exponential times of being up."""
        clock, repair_ns, plan = self.control.clock, to_ns(law.repair_s), self.control.plan
        rng = generator(self.scenario.seed, plan.replication, plan.host_names[host], "failures")
        while True:
            yield clock.sleep(clock.now_ns() + at_least_one_ns(float(rng.exponential(law.mtbf_s))))
            self.fail(host, repair_ns)
            yield clock.sleep(clock.now_ns() + repair_ns)

    def fail(self, host: int, repair_ns: int | None) -> None:
        """The host dies: queues, services, state, what it had not sent, and checkpoints it holds are gone."""
        control, recorder = self.control, self.control.recorder
        now, cluster = control.clock.now_ns(), control.cluster
        if not cluster.host_alive[host]:
            why = "the host is not in use" if host in cluster.spare else "the host is already down"
            recorder.decision(now, f"failure of {control.plan.host_names[host]} ignored", why)
            return
        lost = cluster.units_on(host)
        cluster.host_alive[host] = False
        for unit in lost:
            control.recovery.lost_again(unit)
        control.plane.crash(host)
        cluster.lose_tasks(host)
        row = len(recorder.rows["failures"])
        recorder.rows["failures"].append((host, now, NEVER, NEVER, sum(map(cluster.counts, lost)), NEVER))
        control.clock.process(self._after(host, lost, now, repair_ns, row))

    def _after(self, host: int, lost: list[int], failed: int, repair_ns: int | None, row: int) -> Process:
        """Detection and repair, whichever comes first; a host that comes back says so itself."""
        clock, rows = self.control.clock, self.control.recorder.rows["failures"]
        back_at = None if repair_ns is None else failed + repair_ns
        detect_at = self._detection_ns(failed)
        yield clock.sleep(detect_at if back_at is None else min(detect_at, back_at))
        rows[row] = (*rows[row][:2], clock.now_ns(), *rows[row][3:])
        if not lost:
            rows[row] = (*rows[row][:-1], clock.now_ns())
        self.control.migrations.host_died(host)
        self.control.recovery.recover([Loss(unit, host, failed, row) for unit in lost])
        if back_at is None:
            return
        if back_at > clock.now_ns():
            yield clock.sleep(back_at)
        rows[row] = (*rows[row][:3], back_at, *rows[row][4:])
        self.control.cluster.host_alive[host] = True
        self.control.recovery.host_is_back()

    def _detection_ns(self, failed_ns: int) -> int:
        """The last heartbeat was sent before the failure; the host counts as dead a time-out after it."""
        detector = self.scenario.detector
        heartbeat_ns = max(1, to_ns(detector.heartbeat_s))
        last = (failed_ns - 1) // heartbeat_ns * heartbeat_ns if failed_ns > 0 else 0
        return max(failed_ns, last + to_ns(detector.timeout_s))
