"""A job with an acker, periodic waves and rebalances by DSM under the scheduler: what may happen, and what must hold.

Steps beside those of other laboratories: a wave begins, its time-out comes, a tick lets roots fail, a task is killed.
All of them may come at any time, too early as well: then something is done twice, and nothing is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from lab.invariants import NothingWaits, OneLives, Seen
from lab.job import Job, small_job
from lab.laboratory import Laboratory
from lab.scheduler import Chooser, Listed, Seeded
from lab.shapes import CHAIN, SHAPES
from sim.migration.checkpoint_source import CheckpointWaves, PeriodicContext
from sim.migration.protocol import Message, Protocol, Restart
from sim.plain.acker import Acker
from sim.plain.audit import accounts
from sim.plane_values import CONTROL

MOST_STEPS, ROUNDS, EVERY = 20_000, 30, 10
ACKED = [CHAIN, *(shape for shape in SHAPES if "join" not in shape)]  # outputs of joins have no root
Tamper = Callable[[Laboratory], None]


class SteppedWaves(CheckpointWaves):
    """Periodic waves that begin at steps."""

    def start(self, ctx: PeriodicContext) -> None:
        """Do nothing."""

    def on_due(self, ctx: PeriodicContext, message: Message) -> None:
        """Begin a wave, if one can begin."""
        if ctx.begin_wave():
            self.on_step(ctx, message._replace(note="prepare"))


class Storm:
    """One laboratory in which the dataflow is rebalanced by DSM."""

    def __init__(
        self,
        job: Job,
        chooser: Chooser,
        draw: Random,
        crashes: int = 0,
        stepped_links: bool = False,
        early: int = 0,
        waves: type[CheckpointWaves] = CheckpointWaves,
        tamper: Tamper | None = None,
    ) -> None:
        self.draw = draw
        self.lab = Laboratory(job, chooser, stepped_links, early)
        self.seen, self.faults, self.acts = Seen(self.lab, crashes), Counter[str](), 0
        self.told = 0  # steps of protocols
        self.later: list[tuple[int, str, Callable[[], None]]] = []  # steps that come after so many of protocols
        self.healer: Chooser = chooser  # of the steps at the end
        self.covered, self.met = job.acks == "covered", Counter[str]()
        self.source = self.lab.checkpoint_source
        self.source.protocol = type(
            "Own", (SteppedWaves, waves) if waves is not CheckpointWaves else (SteppedWaves,), {}
        )
        if job.together:  # a host counts until it is missed, which is a step
            self.lab.failures._dead_ns = lambda host, failed_ns, silent: failed_ns + 1  # type: ignore[method-assign]
        if tamper:
            tamper(self.lab)
        self.source.start()
        runtime = self.lab.coordinator.runtime
        deliver = runtime.deliver

        def delivers(message: Message) -> None:
            self.acts += 1
            self.told += 1
            self._add_due()
            deliver(message)

        runtime.deliver = delivers  # type: ignore[method-assign]

    @classmethod
    def drawn(
        cls,
        seed: int,
        acks: str,
        waves: type[CheckpointWaves] = CheckpointWaves,
        tamper: Tamper | None = None,
        together: bool = False,
    ) -> Storm:
        """Return that of a seed; where workers start together, those of a host may die alone."""
        draw = Random(f"storm {seed}")
        crashes, early = draw.choice([0, 1, 1, 2]), draw.choice([0, 0, 1, 3])
        job = replace(small_job(seed, ACKED), acks=acks, together=together)
        # What has not left dies with its host; in half of the schedules with crashes all leaves at once.
        stepped_links = crashes > 0 and draw.random() < 0.5
        one = cls(job, Seeded(seed), draw, crashes, stepped_links, early, waves, tamper)
        one._enable(crashes)
        if together:
            later = [
                (draw.choice([0, 50, 100, 200]), "workers die", one._kill_workers) for _ in range(draw.choice([1, 2]))
            ]
            one.later = sorted([*one.later, *later], key=lambda step: step[0])
        return one

    @classmethod
    def tiny(cls, chooser: Chooser, acks: str, waves: int, delayed: bool) -> Storm:
        """Return that of a source with one tuple, a keyed task and a sink, with a rebalance and so many periodic waves.

        Tasks start at once, or, if `delayed`, at steps. At the end, when all is healed, steps come by age.
        """
        one = cls(Job(seed=1, sources=1, stages=1, groups=1, tuples=1, hosts=4, acks=acks), chooser, Random(0))
        one.healer, hosts = Listed(()), one.lab.next_hosts()
        starts = dict.fromkeys(hosts, int(delayed))
        for _ in range(waves):
            one.lab.clock.add_fault("wave", one.wave)
        one.lab.clock.add_fault("rebalance", lambda: one.rebalance(hosts, starts, command_ns=0, gate_ns=1))
        return one

    def _enable(self, crashes: int) -> None:
        draw, add, later = self.draw, self.lab.clock.add_fault, list[tuple[int, str, Callable[[], None]]]()
        for _ in range(draw.choice([2, 4, 8])):
            add("wave", self.wave)
        for _ in range(draw.choice([0, 1, 3])):
            back = draw.choice([0, 0, 20, 100])
            add("tick", lambda back=back: self.tick(back))  # type: ignore[misc]
        # After so many steps of protocols, or later: waves have to store something before all is lost.
        for _ in range(draw.choice([1, 1, 2])):
            later.append((draw.choice([0, 50, 100, 200]), "rebalance", self._rebalance))
        for _ in range(draw.choice([0, 0, 1, 2])):
            later.append((draw.choice([0, 50, 100, 200]), "kill", self._kill))
        for _ in range(crashes):
            later.append((draw.choice([0, 20, 50, 100, 150]), "crash", self._crash))
        self.later = sorted(later, key=lambda one: one[0])

    def _add_due(self, everything: bool = False) -> None:
        while self.later and (everything or self.later[0][0] <= self.told):
            _, what, do = self.later.pop(0)
            self.lab.clock.add_fault(what, do)

    # -- steps

    def rebalance(
        self, hosts: Mapping[int, int], starts: Mapping[int, int], command_ns: int, gate_ns: int | None
    ) -> None:
        """Ask for a rebalance."""
        self.lab.rebalances.request("dsm", hosts, starts, command_ns, gate_ns=gate_ns)

    def _rebalance(self) -> None:
        partitions = range(len(self.lab.cluster.partition_task))
        hosts = {one: self.draw.randrange(self.lab.job.hosts) for one in partitions}
        starts = {one: self.draw.choice([0, 1]) for one in partitions}
        self.rebalance(hosts, starts, self.draw.choice([0, 1]), self.draw.choice([None, 1]))

    def wave(self) -> None:
        """Begin a periodic wave, unless one is open."""
        assert self.source.run is not None
        self.lab.coordinator.runtime.deliver(Message(self.source.run.number, "due", CONTROL, CONTROL))

    def tick(self, back: int) -> None:
        """Let the roots fail that were emitted so many steps ago, or earlier."""
        self.lab.timeouts._expire(max(0, self.lab.clock.now_ns() + 1 - back))

    def _kill(self) -> None:
        cluster, operators = self.lab.cluster, self.lab.plan.operators
        tasks = [
            task
            for task, alive in enumerate(cluster.task_alive)
            if alive and not operators[cluster.task_operator[task]].is_source
        ]
        if not tasks:
            return
        task = self.draw.choice(tasks)
        self.lab.coordinator.runtime.relocation.restart(
            Restart(task, cluster.task_host[task], self.draw.choice([0, 1]), self.draw.choice([None, 1]))
        )
        self.met["kill"] += 1

    def _kill_workers(self) -> None:
        """Kill the workers of a host that lives, which starts them again."""
        alive = [host for host, up in enumerate(self.lab.cluster.host_alive) if up]
        clock, name = self.lab.clock, self.lab.plan.host_names[self.draw.choice(alive)]
        clock.process(self.lab.failures._workers(name, clock.now_ns()))
        self.met["workers"] += 1

    def _crash(self) -> None:
        alive = [host for host, up in enumerate(self.lab.cluster.host_alive) if up]
        if len(alive) >= 3:
            self.lab.failures.fail(self.draw.choice(alive), self.draw.choice([None, 1, 10**15]))
            self.met["crash, wave " + (self.control.wave.kind if self.control.wave else "none")] += 1
            for run in self.lab.coordinator.open.values():
                self.met["crash, rebalance " + [*run.marks][-1]] += 1

    @property
    def control(self) -> CheckpointWaves:
        """The source of checkpoints."""
        assert self.source.run is not None
        found: Protocol[Any] = self.source.run.at(CONTROL)
        assert isinstance(found, CheckpointWaves)
        return found

    # -- the run

    def run(self) -> list[str]:
        """Take all steps, then heal; return what is wrong."""
        try:
            self.lab.clock.settle()
            self._steps()
            self._add_due(everything=True)
            self._steps()
            self.lab.be_patient()
            self.lab.clock.chooser = self.healer
            for _ in range(ROUNDS):
                self.wave()
                self._steps()
                if self._is_quiet():
                    break
                self.tick(0)
                self._steps()
        except Exception as error:  # a verb that refuses, or fails, is a fault
            self.faults[f"raises {type(error).__name__}: {error}"] += 1
            return [*self.faults]
        self._check()
        self._check_rest()
        return [*self.faults]

    def state_lost(self) -> int:
        """Return how many tuples the states lack."""
        return sum(self.seen.lacks(partition).total() for partition in self.seen.owners())

    def _steps(self) -> None:
        clock = self.lab.clock
        while clock.take():
            if self.acts >= EVERY:
                self._check()
            if clock.now_ns() > MOST_STEPS:
                raise RuntimeError("does not come to rest")

    def _is_quiet(self) -> bool:
        acker = self.lab.plane.acker
        assert isinstance(acker, Acker)
        waits = any(acker.pending.values()) or any(source.again for source in self.lab.plane.sources)
        return not (waits or self.lab.moving or self.source.is_open()) and all(self.lab.cluster.partition_live)

    def _check(self) -> None:
        """Whatever was emitted is delivered, or will be emitted again; with covered acks it is in the states, too."""
        self.acts = 0
        operators = self.lab.plan.operators
        for operator, account in accounts(self.lab.plane).items():
            if account.lost and (self.covered or operators[operator].is_sink):
                what = "messages" if operators[operator].is_sink else "state"
                self.faults[f"{what} lost at {operators[operator].name}"] += 1

    def _check_rest(self) -> None:
        if not self._is_quiet():
            self.faults["is not quiet"] += 1
        for invariant in (OneLives(), NothingWaits()):
            self.faults.update(invariant.check(self.seen))
        for partition in (*self.seen.sinks, *(self.seen.owners() if self.covered else ())):
            if self.seen.lacks(partition):
                self.faults[f"{partition.name} lacks something"] += 1
        stored = {parcel.number for kept in self.lab.coordinator.runtime.store._kept.values() for parcel in kept}
        if set(self.lab.plane.parcels) - stored:
            self.faults["parcels are left"] += 1
