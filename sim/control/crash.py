"""The steps when a host dies, when the failure is detected, and when the host is back, in one place.

When a host dies nobody knows: tasks, state and messages are gone, and control goes on as before (`lose`). When the
detector notices (`detected`), moves that lost somebody are called off, replicas take over, and every other partition is
restored elsewhere (`recover`). A host that comes back is empty (`back`). The order of the steps is the protocol between
the managers; each step whose order matters says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from models.records.tables import THE_JOB
from sim.clock import Process
from sim.control.catch_up import CatchUps
from sim.control.cluster import LostPartition
from sim.control.failover_regions import FailoverRegions
from sim.control.instances import Outages
from sim.control.micro_batches import MicroBatches
from sim.control.recoveries import PartitionRecovery, Recoveries
from sim.control.recovery import Recovery
from sim.control.replicas import Replicas
from sim.control.restart_attempts import JOB, RestartAttempts
from sim.control.run_state import RunState
from sim.migration.moves import Migrations
from sim.recovery.micro_batch import MicroBatch
from sim.recovery.region_restart import RegionRestart


class CrashCoordinator:
    """Has each manager do its part of a crash, in order."""

    def __init__(
        self,
        state: RunState,
        outages: Outages,
        catch_ups: CatchUps,
        replicas: Replicas,
        migrations: Migrations,
        recoveries: Recoveries,
        recovery: Recovery,
    ) -> None:
        self.state, self.cluster, self.outages, self.catch_ups = state, state.cluster, outages, catch_ups
        self.replicas, self.migrations, self.recoveries, self.recovery = replicas, migrations, recoveries, recovery
        self._attempts = RestartAttempts(state)
        self.together = state.plan.scenario.workers.together  # tasks of a host start as one worker
        self.regions = None
        if isinstance(recovery.method, RegionRestart):
            self.regions = FailoverRegions(
                state, recovery.method, recoveries, self._attempts, self._start, self._kill_all
            )
        self.batches = None
        if isinstance(recovery.method, MicroBatch):
            instances = replicas.instances
            self.batches = MicroBatches(state, recovery.method, recoveries, instances, self._attempts, self._start)
        self.checkpoints_end: Callable[[], None] | None = None  # called when tasks are lost; set where barriers are
        if self.batches is not None:
            self.checkpoints_end = self.batches.undo
        self.slots_freed: Callable[[], None] = lambda: None  # called when a host is back; set by who scales the job
        self.host_back: Callable[[int], None] = lambda _: None  # called when a host is back; set by whom it concerns
        self.dies: Callable[[int], None] = lambda _: None  # called with a host that is about to be lost
        self.in_steps: Callable[[Sequence[LostPartition], LostPartition], list[LostPartition]] = lambda lost, _: [*lost]
        """Says what is lost, given what was there, where key groups move in steps."""
        self.host_died: list[Callable[[int], None]] = [migrations.host_died]
        """Have successors send what former owners on a host may not have sent; each kind of plan adds its own."""

    # -- the host dies

    def lose(self, host: int) -> list[int]:
        """Lose all that is on the host, which nobody knows; return its partitions.

        Until the failure is detected, what is sent to the host joins the list.
        """
        self.dies(host)
        # Control still trusts the host and what it has, checkpoints included: note that while it is there.
        lost = self.state.view.died(host, self._checkpoints_on(host))
        if self.batches is not None:
            if self.batches.driver == host:
                self.batches.dies()
            elif self._is_sending(host):
                self.batches.lost_on_the_way(host)
        # The host is dead before the plane drops what it had: nothing that ends there may start anything else.
        self.cluster.host_alive[host] = False
        self.recovery.copies.lost(host)
        self.recovery.method.host_died(host)
        self.lose_what_is_there(host)
        return lost

    def lose_what_is_there(self, host: int) -> None:
        """Lose what is on a dead host: what was there when it died, or what was sent to it since."""
        # Recoveries end with what the plane has counted for them so far, and outages begin for partitions that were
        # live: both are asked of partitions that the crash of the plane is about to empty.
        for partition in self.cluster.partitions_on(host):
            self.recoveries.lost_again(partition)
        coming = [one for one, task in self.cluster.on_the_way.items() if self.cluster.task_host[task] == host]
        self.outages.lost([*self.cluster.partitions_on(host), *coming])
        # The plane drops task by task, as the cluster still lists them.
        self.state.plane.crash(host)
        for task in self.cluster.host_tasks[host]:
            self.recovery.task_died(task)
        self.cluster.lose_tasks(host)

    def _is_sending(self, host: int) -> bool:
        """Return whether something may be on its way that tasks of the host have sent."""
        operators = {self.cluster.task_operator[task] for task in self.cluster.host_tasks[host]}
        alive = (task for task, is_alive in enumerate(self.cluster.task_alive) if is_alive)
        return any(self.state.plane.last_arrival_ns(task, operators) is not None for task in alive)

    def lose_driver(self) -> list[int]:
        """Lose all tasks with the driver, whose host lives; return the partitions."""
        assert self.batches is not None
        self.batches.dies()
        # What is being restored is lost once more, although it is not live.
        return sorted(self._kill_all())

    def lose_workers(self, host: int) -> list[int]:
        """Lose all tasks on a host that lives; return their partitions."""
        tasks = [task for task in self.cluster.host_tasks[host] if self.cluster.task_alive[task]]
        return [partition for task in tasks for partition in self._kill(task)]

    def lose_job(self) -> list[int]:
        """Kill all tasks of the job, whose hosts live; return their partitions.

        What is on a host that is dead, which nobody has detected, is lost with that.
        """
        lost = self._kill_all()
        if self.checkpoints_end is not None:
            self.checkpoints_end()
        return lost

    def restart_job(self, losses: Sequence[LostPartition]) -> None:
        """Restart all regions of the job, which has just been lost, as one."""
        assert self.regions is not None
        self.regions.add(losses, together=True)

    def stop_job(self, failed_ns: int, row: int, wait_ns: int, *, new_job: bool) -> None:
        """Kill all tasks on purpose, and start the job again after a time, as another job or as this one.

        `row`: of the stop, among the failures. What is on a host that is dead, which nobody has detected, joins the
        rest when it is.
        """
        assert self.regions is not None
        lost = self.lose_job()
        if new_job:
            self._attempts.forget()
        now = self.state.clock.now_ns()
        self.regions.stopped([LostPartition(one, THE_JOB, failed_ns, row, detected_ns=now) for one in lost], wait_ns)

    def lose_once_more(self, host: int) -> None:
        """Lose what was sent to a host that is dead, which nobody has detected."""
        self.state.view.died(host, {})
        self.lose_what_is_there(host)

    def _checkpoints_on(self, host: int) -> dict[int, int]:
        """Return the partitions whose newest checkpoint the host holds, with the host."""
        checkpoint_host = self.state.plane.checkpoint_host
        return {
            partition: host
            for partition in range(len(self.cluster.partition_task))
            if checkpoint_host(partition) == host
        }

    # -- the failure is detected

    def detected(self, host: int, lost: Sequence[int], failed_ns: int, row: int, dead_ns: int) -> None:
        """Recover what was lost with the host, which counts until `dead_ns`; `row` is that of the failure."""
        # From here on nothing is placed there and its checkpoints do not count: every choice below needs that.
        held = self.state.view.detected(host)
        self.recovery.method.host_lost(host)
        # What a former owner on the host had sent may not have left. Its successor sends it before anything is called
        # off: the moves that are called off next have not completed, and send for themselves.
        for resend in self.host_died:
            resend(host)
        like = LostPartition(-1, host, failed_ns, row, counts_until_ns=dead_ns)
        losses = self.in_steps([like._replace(partition=partition) for partition in lost], like)
        # First what goes on where it was: else the rest might take its slots.
        self.recover([*self._roll_back(losses, like), *losses])
        # Last, where all that goes on is live.
        self.recovery.method.checkpoints_lost(held)

    def _roll_back(self, losses: Sequence[LostPartition], like: LostPartition) -> list[LostPartition]:
        """Kill the tasks that go back together with what is lost, and return their partitions as lost, too, `like` it.

        They end before anything is assigned: nothing that they still did would be part of the state that comes back.
        """
        down, found = [loss for loss in losses if self._is_lost(loss)], list[LostPartition]()
        goes_back = down or self.recovery.method.has_lost_empty_tasks()
        for task in self.recovery.method.rolled_back(down) if goes_back else ():
            found += [like._replace(partition=partition) for partition in self._kill(task)]
        if self.checkpoints_end is not None:
            if down or found:  # else the checkpoint of the job goes on: nothing of it was on the host
                self.checkpoints_end()
        elif self.state.plan.scenario.fault_tolerance.aborts_checkpoints:
            self.state.plane.abort_checkpoints([loss.partition for loss in (*down, *found)])
        return found

    def _kill(self, task: int) -> list[int]:
        """Kill a live task, and return its partitions."""
        partitions = self.cluster.partitions_at(task)
        for partition in partitions:
            self.recoveries.lost_again(partition)
        self.outages.lost(partitions)
        self.state.plane.kill(task)
        self.recovery.task_died(task)
        self.cluster.lose_task(task)
        return partitions

    def _kill_all(self) -> list[int]:
        """Kill all tasks that are alive, and return their partitions."""
        alive = [task for task, alive in enumerate(self.cluster.task_alive) if alive]
        return [partition for task in alive for partition in self._kill(task)]

    def recover(self, losses: Sequence[LostPartition]) -> None:
        """Bring lost partitions back: on a replica or the target of a move, or from a checkpoint elsewhere."""
        down = [loss for loss in losses if self._is_lost(loss)]
        task = self.cluster.partition_task
        before = {loss.partition: task[loss.partition] for loss in down}  # until they are assigned
        # 1. Moves that lost somebody are called off. A group may go on with the instance it was moving to: then it is
        #    not lost any more, and its replica must not take over as well.
        coordinator = self.migrations.coordinator
        coordinator.cancel_affected(losses)
        #    Runs that have copies of their own, such as a rebalance that has killed tasks, bring back what is theirs.
        #    Those of a worker come with the rest of it.
        own = set[int]() if self.together else coordinator.take_back([loss.partition for loss in down])
        returns = [self.recoveries.taken_back(loss) for loss in down if loss.partition in own]
        losses = [loss for loss in losses if loss.partition not in own]
        down = [loss for loss in down if loss.partition not in own]
        instead = [(loss, self._successor(loss)) for loss in down if not self.cluster.is_owner(loss.partition)]
        self.replicas.unfinished(instead)
        # 2. Replicas take over, before anything is assigned: what they answer for is not restored.
        instead += self.replicas.fail_over(losses)
        taken = [self.recoveries.take_over(*one) for one in instead]
        successors = [(before[loss.partition], entry.task) for (loss, _), entry in zip(instead, taken, strict=True)]
        losses = [loss for loss in losses if self._is_lost(loss)]
        if self.regions is not None:
            self.regions.add(losses)
        elif self.batches is not None:
            self.batches.recover(losses)
        elif self._takes_time and losses:
            self.catch_ups.redirect(successors)
            if taken or returns:
                self.recoveries.watch([*taken, *returns])
            self.state.clock.process(self._start_later(losses))
            self.migrations.renew_replicas()
        else:
            self._start(losses, successors, [*taken, *returns])

    def _start_later(self, losses: Sequence[LostPartition]) -> Process:
        """Start what is lost again when its strategy says so, once it has slots, which takes time; then recover it.

        What waited for a host, as none could take it, has its slots at once when there is one.
        """
        waiting, first = self.recoveries.starting, losses[0]
        new = any(loss.detected_ns is None for loss in losses)
        detected = [loss.noticed(self.state.clock.now_ns()) for loss in losses]
        waiting += detected
        if new:
            host = self.state.plan.host_names[first.host]
            subject = JOB if self.state.plan.scenario.fault_tolerance.rolls_back else f"what was on {host}"
            if not (yield from self._attempts.pass_by(subject, first.failure, lambda: first)):
                for loss in detected:
                    waiting.remove(loss)
                return
            # A host that lives, or is back, starts its workers by itself.
            yield from self._attempts.allocate(
                first.failure, at_once=self.together and self.cluster.trusted[first.host]
            )
        found = [loss for loss in map(self.recovery.allocate, filter(self._is_lost, detected)) if loss]
        for loss in detected:
            waiting.remove(loss)
        waiting += found
        yield from self._attempts.restart(first, self.recovery.method.restarts(first.failed_ns) if new else 1)
        for loss in found:
            waiting.remove(loss)
        self._start([loss for loss in found if self._is_lost(loss)])

    @property
    def _takes_time(self) -> bool:
        scenario = self.state.plan.scenario
        if self.together:  # also where no time is given: a host that is back takes its workers again
            return True
        times, noticed_s = scenario.recovery, scenario.detector.connection_s
        return any(one is not None for one in (times.allocate, times.restart, times.strategy, noticed_s))

    def _start(
        self,
        losses: Sequence[LostPartition],
        successors: Sequence[tuple[int, int]] = (),
        others: Sequence[PartitionRecovery] = (),
    ) -> None:
        """Recover what is lost from checkpoints elsewhere; `others` go on already, the tasks in `successors` do.

        `successors` are (task before, task now).
        """
        before = {loss.partition: self.cluster.partition_task[loss.partition] for loss in losses}
        if self.together:  # now, and not before: a worker that has not started takes nothing
            own = self.migrations.coordinator.take_back([loss.partition for loss in losses])
            others = [*others, *(self.recoveries.taken_back(loss) for loss in losses if loss.partition in own)]
            losses = [loss for loss in losses if loss.partition not in own]
        # 3. Everything is assigned to a live host. All of it before one goes on: a source that is restored emits what
        #    has waited there, and none of that may be sent to a task that is dead.
        begun = [entry for entry in map(self.recovery.assign, losses) if entry]
        # 4. A host that was chosen may be dead as well, and nobody has detected: what was sent there is lost once more.
        for host in sorted({self.cluster.task_host[entry.task] for entry in begun}):
            if not self.cluster.host_alive[host]:
                self.lose_once_more(host)
        # 5. Earlier outages that await a dead task now await its successors; then this one is awaited itself.
        self.catch_ups.redirect([*((before[entry.partition], entry.task) for entry in begun), *successors])
        if begun or others:
            self.recoveries.watch([*begun, *others])
        # 6. Live upstream partitions replay before anything is restored: one that is restored sends what it keeps by
        #    itself, and would send it twice.
        for entry in begun:
            self.recovery.ask_upstream(entry.partition)
        for entry in begun:
            self.recovery.restore(entry)
        # 7. Last, groups without a replica ask for one: owners and hosts are known again.
        self.migrations.renew_replicas()
        self.recovery.method.settled()

    def _is_lost(self, loss: LostPartition) -> bool:
        """Return True if the partition owns its group and is not live."""
        return self.cluster.is_owner(loss.partition) and not self.cluster.partition_live[loss.partition]

    def _successor(self, loss: LostPartition) -> int:
        """Return the instance that goes on for the partition: a replica or a move that had a state already."""
        return self.cluster.owner_of(self.cluster.group_of(loss.partition))

    # -- hosts that come and go

    def back(self, host: int) -> None:
        """Use the host, which is there again, empty."""
        self.begin(host)
        self.recovery.method.came(host)
        self._go_on()
        self.host_back(host)

    def resume(self, host: int, lost: Sequence[int], failed_ns: int, row: int) -> None:
        """Have a host that is back before its failure is detected go on with what it had: it is the same to all others.

        `row`: that of the failure.
        """
        self.state.view.detected(host)
        self.begin(host)
        losses = [LostPartition(partition, host, failed_ns, row) for partition in lost]
        losses = [loss for loss in losses if self._is_lost(loss)]
        self.recovery.method.resumed(host, [loss.partition for loss in losses])
        self._start(losses)
        self._go_on()

    def _go_on(self) -> None:
        """Go on with what waited for a host."""
        # Partitions that stay down come first; moves may wait for them, and replicas for their owners.
        self.recover_orphans()
        self.migrations.coordinator.begin_what_can()
        self.migrations.renew_replicas()

    def recover_orphans(self) -> None:
        """Recover the partitions for which no host was alive, where one is now."""
        if self.regions is not None:
            self.regions.go_on()
            self.slots_freed()
            return
        if self.batches is not None and self.batches.go_on():
            return
        self.recover(self.recovery.take_orphans())

    def begin(self, host: int) -> None:
        """Start using a host, which is empty; control knows it."""
        self.cluster.host_alive[host] = True
        self.state.view.back(host)

    def end(self, host: int) -> None:
        """Stop using a host, which is empty; control knows it."""
        self.cluster.host_alive[host] = False
        self.cluster.trusted[host] = False
        self.state.plane.crash(host)
        self.cluster.lose_tasks(host)
        # What it may not have sent yet is sent again by those who have its key groups now.
        for resend in self.host_died:
            resend(host)
