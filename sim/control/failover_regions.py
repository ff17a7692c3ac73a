"""Failover regions that are down: one loop of restarts for each, until all of its tasks are up again.

A region is restarted as a whole. If another host dies meanwhile, what is lost with it joins the region, and the loop
goes on; the restart strategy is asked once for each restart, not for each host. Where the strategy gives up, the job
has failed: nothing of it runs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from models import display
from models.records.decisions import Action, Verdict
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import LostPartition
from sim.control.recoveries import Recoveries
from sim.control.restart_attempts import JOB, RestartAttempts
from sim.control.run_state import StateOn
from sim.data_plane import RecoverablePlane
from sim.recovery.region_restart import RegionRestart

_NS = 1_000_000_000


@dataclass(eq=False)
class _Down:
    """A region that is down: what is lost of it, and whether it waits for something other than time.

    `asked_ns` is when it first had too few slots in this restart.
    """

    losses: list[LostPartition] = field(default_factory=list)
    waits: bool = False
    asked_ns: int | None = None


class FailoverRegions:
    """Starts regions again, each once all of it is known to be lost and has slots."""

    def __init__(
        self,
        state: StateOn[RecoverablePlane],
        method: RegionRestart,
        recoveries: Recoveries,
        attempts: RestartAttempts,
        start: Callable[[Sequence[LostPartition]], None],
        kill_all: Callable[[], object],
    ) -> None:
        self.state, self.cluster, self.method, self.recoveries = state, state.cluster, method, recoveries
        self._attempts, self._start, self._kill_all = attempts, start, kill_all
        self.has_slots: Callable[[], bool] = lambda: True  # asked before slots are taken; set by who scales the job
        self.started: Callable[[], None] = lambda: None  # called when a region has its tasks again
        self._down: dict[int, _Down] = {}  # by region
        self._failed = False

    @property
    def runs(self) -> bool:
        """Return whether the job runs, as far as control knows: no region is down."""
        return not self._failed and not self._down

    def add(self, losses: Sequence[LostPartition], together: bool = False) -> None:
        """Restart the regions of what is lost, which has just been detected; a job that has failed stays down.

        The strategy is asked for each region, or once for all of them where they have failed `together`.
        """
        if self._failed:
            return
        now, begun = self.state.clock.now_ns(), list[int]()
        for loss in losses:
            region = self.method.region_of(loss.partition)
            if region not in self._down:
                self._down[region] = _Down()
                begun.append(region)
            detected = loss.noticed(now)
            self._down[region].losses.append(detected)
            self.recoveries.starting.append(detected)
        for regions in [begun] if together and begun else [[region] for region in begun]:
            self.state.clock.process(self._restart(regions))
        self.go_on()

    def stopped(self, losses: Sequence[LostPartition], wait_ns: int) -> None:
        """Start the job again, which was stopped on purpose, after a time; no strategy is asked."""
        for loss in losses:
            self._down.setdefault(self.method.region_of(loss.partition), _Down()).losses.append(loss)
            self.recoveries.starting.append(loss)
        for region in self._down:
            self.state.clock.process(self._start_again(region, wait_ns))

    def _start_again(self, region: int, wait_ns: int) -> Process:
        yield self.state.clock.sleep(self.state.clock.now_ns() + wait_ns)
        if not self._failed:
            yield from self._attempts.allocate(self._down[region].losses[0].failure)
            yield from self._deploy(region)

    def go_on(self) -> None:
        """Have regions look again that wait for slots, or for the rest of what is lost."""
        for region, down in self._down.items():
            if down.waits:
                down.waits = False
                self.state.clock.process(self._deploy(region))

    def _restart(self, regions: Sequence[int]) -> Process:
        if (yield from self._pass_by(regions)):
            for region in regions[1:]:
                self.state.clock.process(self._deploy(region))
            yield from self._deploy(regions[0])

    def _pass_by(self, regions: Sequence[int]) -> Generator[simpy.Event, Any, bool]:
        """Sleep until the restart that is not in vain, and the allocation of slots; return False for a failed job."""
        if self._failed:
            return False
        down = [self._down[region] for region in regions]
        failure = down[0].losses[0].failure

        def longest() -> LostPartition:
            return max((loss for one in down for loss in one.losses), key=_counts_until)

        if not (yield from self._attempts.pass_by(JOB, failure, longest)):
            self.give_up()
        if self._failed:
            return False
        yield from self._attempts.allocate(failure)
        return not self._failed

    def _deploy(self, region: int) -> Process:
        """Take slots for all tasks and start them; a host that dies meanwhile makes the restart one in vain."""
        while not self._failed:
            down = self._down[region]
            if not self._is_known(region) or not self.has_slots():
                down.waits = True
                return
            if not self._take_slots(down):
                down.waits = True
                self._ask(region, down)
                return
            down.asked_ns = None
            yield from self._attempts.restart(down.losses[0])
            if self._failed or not self._is_known(region):
                continue
            dead = sorted({host for host in self.method.hosts_of(down.losses) if not self.cluster.host_alive[host]})
            if not dead and all(loss.allocated_ns is not None for loss in down.losses):
                for loss in down.losses:
                    self.recoveries.starting.remove(loss)
                del self._down[region]
                self.method.start_others(down.losses)
                self._start(down.losses)
                self.method.started(down.losses)
                self.started()
                return
            if dead:
                self.method.release(down.losses)
                name = self.state.plan.host_names[dead[0]]
                why = f"it got a slot of {name}, which is dead"
                self.state.decide(Action.RESTART, JOB, why, verdict=Verdict.REFUSED)
                if self._attempts.is_steady:  # no strategy says when: look again at once, or when its death is detected
                    if self._is_to_be_detected(dead):
                        down.waits = True
                        return
                    continue
                yield from self._attempts.fail()
                if not (yield from self._pass_by([region])):
                    return

    def _ask(self, region: int, down: _Down) -> None:
        """Have the restart fail if the region does not have its slots in time."""
        timeout_s = self.state.plan.scenario.recovery.slot_timeout_s
        if timeout_s is not None and down.asked_ns is None:
            down.asked_ns = self.state.clock.now_ns()
            self.state.clock.process(self._expires(region, down, down.asked_ns, to_ns(timeout_s)))

    def _expires(self, region: int, down: _Down, asked_ns: int, timeout_ns: int) -> Process:
        clock = self.state.clock
        yield clock.sleep(asked_ns + timeout_ns)
        while down.asked_ns == asked_ns and not down.waits:  # it looks for slots at this instant
            yield clock.sleep(clock.now_ns())
        if self._failed or down.asked_ns != asked_ns:
            return
        down.asked_ns, down.waits = None, False
        why = f"not all tasks of a region had a slot within {display.duration(timeout_ns / _NS)}"
        self.state.decide(Action.RESTART, JOB, why, verdict=Verdict.REFUSED)
        if (yield from self._pass_by([region])):
            yield from self._deploy(region)

    def _is_known(self, region: int) -> bool:
        """Return whether control knows of all partitions of the region that they are lost.

        Of a silent host it does not: its tasks cannot be cancelled before the host counts as dead.
        """
        return len(self._down[region].losses) == len(self.method.partitions_in(region))

    def _is_to_be_detected(self, dead: Sequence[int]) -> bool:
        """Return whether control does not know yet that one of these hosts is dead."""
        return any(map(self.state.view.host_alive, dead))

    def _take_slots(self, down: _Down) -> bool:
        """Find a slot for each task, or for none of them; return whether there are enough."""
        name, target = self.cluster.partition_name, self.method.host_for
        found = all(target(loss.partition).host is not None for loss in down.losses)
        if not (found and self.method.has_other_slots(down.losses)):
            self.method.release(down.losses)
            for loss in down.losses:
                why = "not all tasks of its region have a slot"
                self.state.decide(Action.RESTORE, name(loss.partition), why, verdict=Verdict.REFUSED)
            return False
        now = self.state.clock.now_ns()
        for k, loss in enumerate(down.losses):
            self.recoveries.starting.remove(loss)
            down.losses[k] = loss._replace(allocated_ns=now)
            self.recoveries.starting.append(down.losses[k])
        return True

    def give_up(self) -> None:
        """Let the job fail: all of it ends, and nothing is started any more."""
        self._failed = True
        for down in self._down.values():
            for loss in down.losses:
                self.recoveries.starting.remove(loss)
        self._down.clear()
        self._kill_all()


def _counts_until(loss: LostPartition) -> int:
    return loss.counts_until_ns
