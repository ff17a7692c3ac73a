"""Random scripts of actions, run by a control process on any plane; what the listener is told is part of the run."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control, PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import records
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plane_values import CONTROL, Mail, Parcel, Timed

MS = 1_000_000
VERBS = ("pause", "unpause", "hold", "unhold", "mute", "send", "barrier", "unalign", "work", "timed")
PACES = (*VERBS, "speed", "speed")
MOVES = ("instance", "route", "own", "copy", "adopt", "retire", "checkpoint", "trim")
DATAFLOWS = ("kill", "start", "bring", "bring", "snapshot", "snapshot", "capture", "put", "put", "discard", "again")
MOVES_ALONE = ("relocate", "relocate", "relocate", "place", "take")
FRONTIERS = ("frontier", "shift", "shift")
WITHHOLDING = ("withhold", "withhold", "let_out")
ACKS = ("prepare", "commit", "commit", "rollback", "expire", "oldest")


class Scripted(Control):
    """A run in which a process does `count` actions at random instants, and the listener answers with others."""

    def __init__(self, plan: RunPlan, plane: PlaneFactory, seed: int, count: int, verbs: tuple[str, ...]) -> None:
        super().__init__(plan, plane)
        self.draw, self.count, self.verbs = Random(seed), count, verbs
        self.lattice = self.draw.random() < 0.6
        self.told: list[tuple[Any, ...]] = []
        self.sent = 0
        self.later: list[tuple[Any, ...]] = []  # barriers that are still to be sent
        self.answers = 2 * count
        self.groups: dict[int, list[int]] = {}  # partition -> its further instances
        self.fresh: list[tuple[int, int, int]] = []  # (instance, partition, its first task) that control gave no state
        self.parcels: list[Parcel] = []  # that may be there
        self.held: list[int] = []  # tasks at which a rule holds tuples that are to be captured
        self.killed: list[int] = []  # tasks that have no successor
        self.empty: list[tuple[int, int]] = []  # (partition, task) of successors that have no state
        self.moving: dict[int, tuple[int, ...]] = {}  # token of the barriers, or of the message: key groups
        self.goals: dict[int, int] = {}  # partition -> its next task
        self.taken: dict[int, Parcel] = {}  # by the token of the message that they travel as
        self.shifting: dict[int, tuple[int, ...]] = {}  # token of the frontier: key groups
        self.withheld: list[tuple[int, int]] = []  # (task, operator)

    def start(self) -> None:
        super().start()
        self.clock.process(self._script())

    def message(self, token: int, task: int) -> None:
        if token in self.taken:
            self._put_taken(self.taken.pop(token), task)
        self._note("message", token, task)

    def aligned(self, token: int, task: int) -> None:
        if token in self.moving:
            self._take(self.moving.pop(token), task)
        self._note("aligned", token, task)

    def passed(self, token: int) -> None:
        if token in self.shifting:
            partitions = self.shifting.pop(token)
            self._take(partitions, self.cluster.partition_task[partitions[0]])
        self._note("passed", token, None)

    def _note(self, *what: Any) -> None:
        self.told.append((self.clock.now_ns(), *what))
        if self.answers and self.draw.random() < 0.5:
            self.answers -= 1
            verb, task = self.draw.choice(self.verbs), what[2] if self.draw.random() < 0.5 else None
            if verb not in ("expire", "oldest"):  # these are for processes of control, which come first in an instant
                self.act(verb, task)

    def _done(self) -> None:
        self._note("work", 0, None)

    def _instant(self, most_ms: int) -> int:
        ms = self.draw.choice([0, 5, 10, 50, 100, 300]) if self.lattice else 0
        return ms * MS if ms else self.draw.randint(1, most_ms * MS)

    def _script(self) -> Process:
        for _ in range(self.count):
            step = self._instant(300)
            if self.lattice:  # onto the lattice, several at an instant
                at = -(-(self.clock.now_ns() + self.draw.choice([0, 0, step])) // (5 * MS)) * 5 * MS
            else:
                at = self.clock.now_ns() + step
            if at > self.clock.now_ns():
                yield self.clock.sleep(at)
            self.act(self.draw.choice(self.verbs), None)

    def act(self, verb: str, task: int | None) -> None:  # noqa: PLR0912 - one switch
        """One action at random, at that task or any."""
        draw, plane, now = self.draw, self.plane, self.clock.now_ns()
        live = [number for number, alive in enumerate(self.cluster.task_alive) if alive]
        if not live:
            return
        if self.later and draw.random() < 0.5:
            plane.send(*self.later.pop(draw.randrange(len(self.later))))
        if task is None or not self.cluster.task_alive[task]:
            task = draw.choice(live)
        if verb == "pause":
            until = None if draw.random() < 0.2 else now + self._instant(200)
            plane.pause(task, until)
        elif verb == "unpause":
            plane.unpause(task)
        elif verb == "hold":
            plane.hold(task, draw.choice([None, self._partition(task)]), draw.choice([None, draw.choice(live)]))
        elif verb == "unhold":
            plane.unhold(task, draw.choice([None, self._partition(task)]))
        elif verb == "mute" and self.plan.keeps_ids:
            plane.mute(self._partition(task), draw.random() < 0.5)
        elif verb == "send":
            plane.send(*self._message(draw.choice([*live, CONTROL]), task))
        elif verb == "line_up":
            self.sent += 1
            plane.line_up(task, self.sent, draw.random() < 0.3)
        elif verb == "barrier":
            self._barrier(task, live)
        elif verb == "unalign":
            plane.unalign(task)
        elif verb == "work" and self.plan.operators[self.cluster.task_operator[task]].service_ns is not None:
            self.state.work(task, self._instant(20), self._done)
        elif verb == "timed":
            plane.start_actions(self._timed(live))
        elif verb == "timed_mute" and self.plan.keeps_ids:
            steps = sorted(now + self._instant(300) for _ in range(2))
            partition = self._partition(task)
            plane.start_actions([Timed(at, "mute", (partition, k == 0)) for k, at in enumerate(steps)])
        elif verb == "speed":
            plane.speed(draw.randrange(len(self.cluster.host_alive)), draw.choice([0.0, 0.25, 0.5, 0.9, 1 / 3]))
        elif verb == "instance":
            self._instance()
        elif self.groups and verb in MOVES:
            self._move(verb, live)
        elif verb in DATAFLOWS:
            self._dataflow(verb, task)
        elif verb in ACKS and self.plan.acker:
            self._acks(verb, task)
        elif verb in MOVES_ALONE:
            self._relocation(verb)
        elif verb == "frontier":
            self._ask_for_frontier(draw.randrange(len(self.plan.operators)), max(0, now - draw.choice([0, 1, 50 * MS])))
        elif verb == "shift":
            self._shift()
        elif verb in WITHHOLDING:
            self._withhold(verb, task)

    def _withhold(self, verb: str, task: int) -> None:
        """Let a task withhold what is born from a time on, or one that does so send it."""
        if verb == "let_out":
            if self.withheld:
                self.plane.let_out(*self.withheld.pop(self.draw.randrange(len(self.withheld))))
            return
        below = [edge.down.index for edge in self.plan.operators[self.cluster.task_operator[task]].edges]
        operator, step = self.draw.choice(below or [0]), self.draw.choice([-50 * MS, 0, 5 * MS])
        try:
            self.plane.withhold(task, operator, max(0, self.clock.now_ns() + step))
        except ValueError:
            self.told.append((self.clock.now_ns(), "refused", "withhold"))
            return
        self.withheld.append((task, operator))
        self.told.append((self.clock.now_ns(), "withholds", task))

    def _ask_for_frontier(self, operator: int, time_ns: int) -> None:
        self.sent += 1
        try:
            self.plane.passed(operator, time_ns, self.sent)
        except ValueError:
            self.told.append((self.clock.now_ns(), "refused", "passed"))

    def _shift(self) -> None:
        """Key groups of one task have their next task from a time on, and are taken when that has passed."""
        draw, operators = self.draw, self.plan.operators
        inner = [one.index for one in operators if not (one.is_source or one.is_sink)]
        if not inner:
            return
        operator, at = draw.choice(inner), self.clock.now_ns() + draw.choice([0, 5 * MS, self._instant(50)])
        first, end = self.plan.first_partition[operator : operator + 2]
        owners = self.cluster.partition_task[first:end]
        task = draw.choice(owners)
        goal = draw.choice([one for one, its in enumerate(self.cluster.task_operator) if its == operator])
        chosen = [first + k for k, owner in enumerate(owners) if owner == task and draw.random() < 0.6]
        if not chosen or goal == task:
            return
        there = [goal if first + k in chosen else owner for k, owner in enumerate(owners)]
        senders = [one for one in range(len(self.cluster.task_host)) if self._sends_to(one, operator)]
        try:
            self.plane.place(operator, senders, there, at)
        except ValueError:
            self.told.append((self.clock.now_ns(), "refused", "place from"))
            return
        self.goals.update(dict.fromkeys(chosen, goal))
        self.clock.process(self._take_later(operator, at, tuple(chosen)))

    def _take_later(self, operator: int, at: int, chosen: tuple[int, ...]) -> Process:
        """Ask for the frontier at the time from which the key groups have their next task, or a little earlier."""
        yield self.clock.sleep(at)
        if self.draw.random() < 0.1:
            self._take(chosen, self.cluster.partition_task[chosen[0]])  # most often too early
        self.sent += 1
        self.shifting[self.sent] = chosen
        self.told.append((self.clock.now_ns(), "asked", self.sent))
        self.plane.passed(operator, at, self.sent)

    def _relocation(self, verb: str) -> None:
        """One of the verbs for key groups that move without a second instance; what the plane refuses is noted."""
        draw, operators = self.draw, self.plan.operators
        operator = draw.choice([one.index for one in operators if not one.is_source] or [0])
        first, end = self.plan.first_partition[operator : operator + 2]
        tasks = [task for task, one in enumerate(self.cluster.task_operator) if one == operator]
        try:
            if verb == "take":
                chosen = draw.sample(range(first, end), draw.randint(1, min(3, end - first)))
                self._take(tuple(chosen), self.cluster.partition_task[chosen[0]])
                return
            senders = [task for task in range(len(self.cluster.task_host)) if self._sends_to(task, operator)]
            owners = self.cluster.partition_task[first:end]
            if verb == "place":  # some senders alone, or what they cannot be told
                some = draw.sample(senders, draw.randint(0, len(senders)))
                anywhere = [draw.choice(tasks) if draw.random() < 0.2 else owner for owner in owners]
                self._place(operator, some, anywhere)
                return
            task, goal = draw.choice(tasks), draw.choice(tasks)
            chosen = [first + k for k, owner in enumerate(owners) if owner == task and draw.random() < 0.6]
            if chosen and goal != task:
                there = [goal if first + k in chosen else owner for k, owner in enumerate(owners)]
                self._place(operator, senders, there)
                self.sent += 1
                self.moving[self.sent] = tuple(chosen)
                self.plane.send_each([Mail(one, task, self.sent, True, 0, 0, len(senders)) for one in senders])
        except ValueError as error:
            self.told.append((self.clock.now_ns(), "refused", verb, type(error).__name__))

    def _place(self, operator: int, senders: list[int], owners: list[int]) -> None:
        self.plane.place(operator, senders, owners)
        for partition, owner in enumerate(owners, self.plan.first_partition[operator]):
            if senders and owner != self.cluster.partition_task[partition]:
                self.goals[partition] = owner

    def _sends_to(self, task: int, operator: int) -> bool:
        edges = self.plan.operators[self.cluster.task_operator[task]].edges
        return any(edge.down.index == operator for edge in edges)

    def _take(self, partitions: tuple[int, ...], task: int) -> None:
        """Take the key groups, and send them on their way."""
        try:
            parcel = self.plane.take(partitions)
        except ValueError:
            self.told.append((self.clock.now_ns(), "refused", "take"))
            return
        for partition in partitions:
            self.cluster.set_live(partition, False)
        self.told.append((self.clock.now_ns(), parcel))
        goal = self.goals[partitions[0]]
        self.sent += 1
        self.taken[self.sent] = parcel
        self.plane.send(task, goal, self.sent, self.draw.random() < 0.5, parcel.bytes, self._instant(5), 0)

    def _put_taken(self, parcel: Parcel, task: int) -> None:
        for wrong in self.draw.sample(range(len(self.cluster.task_host)), 1):
            if wrong != task:
                with suppress(ValueError):
                    self.plane.put(parcel.number, wrong)
                    raise AssertionError("put at a task where it does not belong")
        for partition in parcel.partitions:
            self.cluster.partition_task[partition] = task
            self.cluster.set_live(partition, True)
        self.plane.put(parcel.number, task)
        self.told.append((self.clock.now_ns(), "put", parcel, task))

    def _acks(self, verb: str, task: int) -> None:
        """One of the verbs of an acker."""
        if verb == "prepare":
            self.plane.prepare_acks(task)
        elif verb == "commit":
            self.plane.commit_acks(task)
        elif verb == "rollback":
            self.told.append((self.clock.now_ns(), verb, *self.plane.fail_acks(task)))
        elif verb == "expire":
            before_ns = self.clock.now_ns() - self._instant(500)
            self.told.append((self.clock.now_ns(), verb, *self.plane.expire(before_ns)))
        else:
            self.told.append((self.clock.now_ns(), verb, self.plane.oldest_root_ns()))

    def _dataflow(self, verb: str, task: int) -> None:
        """One of the verbs for whole dataflows; what the plane refuses is noted."""
        act = {"kill": self._kill, "snapshot": self._snapshot, "capture": self._capture, "put": self._put}
        try:
            if verb in act:
                act[verb](task)
            elif verb == "start":
                self._start_again()
            elif verb == "bring":
                self._bring()
            elif verb == "discard" and self.parcels:
                parcel = self.draw.choice(self.parcels)
                self.plane.discard(parcel.number)
                if self.draw.random() < 0.9:  # now and then it is named once more
                    self.parcels.remove(parcel)
            elif verb == "again":
                numbers = [self.draw.randrange(self.draw.choice([5, 30])) for _ in range(self.draw.randint(0, 6))]
                self.plane.emit_again(self._source(), numbers)
        except ValueError:
            self.told.append((self.clock.now_ns(), "refused", verb))

    def _kill(self, task: int) -> None:
        """As `sim.control.task_relocation` does."""
        partitions = [partition for partition, at in enumerate(self.cluster.partition_task) if at == task]
        if not self.plan.keeps_ids:
            self.plane.kill(task)
        for partition in partitions:
            self.recoveries.lost_again(partition)
        self.outages.lost(partitions)
        self.plane.kill(task)
        self.cluster.lose_task(task)
        self.killed.append(task)
        for _ in range(self.draw.randrange(3)):  # mostly it has a successor soon
            self._start_again()
            self._bring()

    def _start_again(self) -> None:
        """Start the successor of a task that was killed."""
        hosts = [host for host, alive in enumerate(self.cluster.host_alive) if alive and self.cluster.trusted[host]]
        if not self.killed or not hosts:
            return
        old = self.killed.pop(self.draw.randrange(len(self.killed)))
        new = self.cluster.new_task(self.cluster.task_operator[old], self.draw.choice(hosts))
        self.plane.add_task(new)
        for partition, at in enumerate(self.cluster.partition_task):
            if at == old:
                self.cluster.partition_task[partition] = new
                self.plane.assign(partition, new)
                self.empty.append((partition, new))

    def _bring(self) -> None:
        """Give a successor its states, of a parcel or of stored checkpoints, and let it go on."""
        self.empty = [
            (partition, task)
            for partition, task in self.empty
            if self.cluster.partition_task[partition] == task
            and self.cluster.task_alive[task]
            and not self.cluster.partition_live[partition]
        ]
        if not self.empty:
            return
        _, task = self.draw.choice(self.empty)
        here = [partition for partition, at in self.empty if at == task]
        for parcel in self.draw.sample(self.parcels, len(self.parcels)):
            if {*parcel.partitions} & {*here}:
                with suppress(ValueError):
                    self.plane.put(parcel.number, task)
                    self._note("put", parcel, task)
                    self._go_on([partition for partition in here if partition in parcel.partitions])
                    here = [partition for partition in here if partition not in parcel.partitions]
        for partition in here:
            operator = self.plan.operators[self.cluster.partition_operator[partition]]
            if not (operator.is_source or operator.is_sink):
                self.told.append((self.clock.now_ns(), "missing", self.plane.install(partition)))
        self._go_on(here)

    def _go_on(self, partitions: list[int]) -> None:
        """As `sim.control.recovery` does; partitions that are live have nothing to wait for."""
        for partition in partitions:
            if self.cluster.partition_live[partition]:
                continue
            operator = self.plan.operators[self.cluster.partition_operator[partition]]
            for sender in self.plane.senders(partition):
                if self.cluster.partition_live[sender] and self.draw.random() < 0.8:
                    self.plane.replay(sender, partition, self.draw.random() < 0.3)
            self.cluster.set_live(partition, True)
            self.outages.check((partition,))
            self.plane.open(partition)
            for receiver in self.plane.receivers(partition):
                at = self.cluster.partition_task[receiver]
                if at >= 0 and self.cluster.task_alive[at]:
                    self.plane.replay(partition, receiver)
            self.plane.release(partition)
            if operator.is_source or operator.timer_ns:
                self.plane.resume(partition)

    def _snapshot(self, task: int) -> None:
        here = [partition for partition, at in enumerate(self.cluster.partition_task) if at == task]
        if self.draw.random() < 0.8:
            here = [partition for partition in here if self.cluster.partition_live[partition]]
        chosen = self.draw.sample(here, self.draw.randint(0, len(here)))
        self.parcels.append(self.plane.snapshot(chosen))
        self.told.append((self.clock.now_ns(), self.parcels[-1]))

    def _capture(self, task: int) -> None:
        """Capture what a rule has held for a while, or let one begin."""
        held = [task for task in self.held if self.cluster.task_alive[task]]
        if held and self.draw.random() < 0.7:
            task = self.draw.choice(held)
        elif self.draw.random() < 0.8:
            self.plane.hold(task, None, None)
            self.held.append(task)
            return
        self.parcels.append(self.plane.capture(task))
        here = [partition for partition, at in enumerate(self.cluster.partition_task) if at == task]
        self.told.append((self.clock.now_ns(), self.parcels[-1], *map(self.plane.replayed, here)))
        if self.draw.random() < 0.7:
            self.plane.unhold(task, None)
            self.held = [one for one in self.held if one != task]

    def _put(self, task: int) -> None:
        if self.parcels:
            parcel = self.draw.choice(self.parcels)
            if parcel.partitions:
                self.plane.put(parcel.number, self.cluster.partition_task[parcel.partitions[0]])
            else:
                for goal in [task, *range(len(self.cluster.task_alive))]:  # of which one may be where it belongs
                    with suppress(ValueError):
                        self.plane.put(parcel.number, goal)
                        self.told.append((self.clock.now_ns(), "put", goal))
                        break

    def _source(self) -> int:
        operators = self.plan.operators
        sources = [p for p, o in enumerate(self.cluster.partition_operator) if operators[o].is_source]
        return self.draw.choice([*sources, *sources, self.draw.randrange(len(self.cluster.partition_task))])

    def _instance(self) -> None:
        """One more instance of a group, which it holds what comes for until it adopts a state or is opened."""
        draw, cluster = self.draw, self.cluster
        operators = self.plan.operators
        partitions = [
            u
            for u, o in enumerate(cluster.partition_operator[: self.plan.first_partition[-1]])
            if not operators[o].is_source
        ]
        hosts = [host for host, alive in enumerate(cluster.host_alive) if alive]
        partition, host = draw.choice(partitions), draw.choice(hosts)
        task = cluster.task_on(cluster.partition_operator[partition], host)
        if task is None:
            task = cluster.new_task(cluster.partition_operator[partition], host)
            self.plane.add_task(task)
        made = cluster.new_instance(partition, task)
        self.plane.add_instance(made, partition, task)
        self.groups.setdefault(partition, []).append(made)
        self.fresh.append((made, partition, task))

    def _move(self, verb: str, live: list[int]) -> None:  # noqa: PLR0912 - one switch
        draw, plane = self.draw, self.plane
        group = draw.choice(list(self.groups))
        instances = [group, *self.groups[group]]
        one, other = draw.choice(instances), draw.choice(instances)
        if verb == "route":
            for sender in live:
                if draw.random() < 0.7:
                    plane.route(sender, group, draw.choice([(), (one,), (one, other), (other,)]))
        elif verb == "own":
            plane.own(one)
        elif verb == "copy":
            for sender in plane.senders(one):
                plane.copy_kept(sender, one, other)
                if self.cluster.partition_live[sender] and self.cluster.task_alive[self.cluster.partition_task[other]]:
                    plane.replay(sender, other)
        elif verb == "adopt" and self.fresh:
            made, partition, task = self.fresh.pop()
            recovered = self.cluster.partition_task[made] != task
            if self.cluster.task_alive[task] and not recovered and not self.cluster.partition_live[made]:
                plane.adopt(made, partition)
                self.cluster.set_live(made, True)
                plane.open(made)
                plane.release(made)
        elif verb == "checkpoint":
            here = self.cluster.task_host[self.cluster.partition_task[one]]
            others = [host for host, alive in enumerate(self.cluster.host_alive) if alive and host != here]
            if others and self.plan.replays:
                plane.checkpoint(one, draw.choice(others))
        elif verb == "trim":
            plane.trim(one, draw.randint(0, 5))
        elif verb == "retire" and one != group:
            self.cluster.set_live(one, False)
            plane.retire(one)

    def _partition(self, task: int) -> int:
        own = [partition for partition, at in enumerate(self.cluster.partition_task) if at == task]
        return self.draw.choice(own) if own else 0

    def _message(self, sender: int, receiver: int, channels: int = 0) -> tuple[Any, ...]:
        self.sent += 1
        work = self.draw.choice([0, 0, self._instant(20)])
        size = self.draw.choice([0, 0, 100, 20_000])
        return (sender, receiver, self.sent, self.draw.random() < 0.6, size, work, channels)

    def _barrier(self, task: int, live: list[int]) -> None:
        """Over all channels from tasks upstream; now and then one is missing, or there is one too many."""
        operators = self.plan.operators
        goal = operators[self.cluster.task_operator[task]]
        above = [one for one in live if any(e.down is goal for e in operators[self.cluster.task_operator[one]].edges)]
        channels = len(above) + self.draw.choice([0, 0, 0, 0, 1, -1])
        self.sent += 1
        token, at_once = self.sent, []
        for one in above:
            _, _, _, turn, size, work, _ = self._message(one, task)
            message = (one, task, token, turn, size, work, max(1, channels))
            if self.draw.random() < 0.5:
                at_once.append(Mail(*message))
            else:
                self.later.append(message)
        self.plane.send_each(at_once)

    def _timed(self, live: list[int]) -> list[Timed]:
        draw, at, made = self.draw, self.clock.now_ns(), []
        for k in range(draw.randint(1, 6)):
            step = self._instant(100)
            at += step if not k else draw.choice([0, step])
            task = draw.choice(live)
            until = draw.choice([None, at + self._instant(200)])
            what = draw.choice(["pause", "unpause", "chore", "send", "unalign"])
            arguments: dict[str, tuple[Any, ...]] = {
                "pause": (task, until),
                "unpause": (task,),
                "chore": (task, self._instant(20)),
                "send": self._message(draw.choice([*live, CONTROL]), task, draw.choice([0, 0, 1, 2])),
                "unalign": (task,),
            }
            made.append(Timed(at, what, arguments[what]))
        return made


def unchecked(raw: dict[str, Any]) -> Scenario:
    """The scenario of these keys, whatever the rules say about it."""
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def run_script(
    raw: dict[str, Any], plane: PlaneFactory, seed: int, count: int = 40, verbs: tuple[str, ...] = VERBS
) -> tuple[RunRecords, list[tuple[Any, ...]]]:
    """The rows of a scenario under a script, and what the listener was told."""
    made = unchecked(raw)
    control = Scripted(RunPlan.of(made, RunInputs(), 0), plane, seed, count, verbs)
    if {"instance", "again"} & {*verbs} and isinstance(control.plane, CompiledPlane):
        # instances that are over are adopted, and own, which no protocol does; any tuple is emitted again
        control.plane.state.options["forgets_ids"] = 0
    control.start()
    until = max(1, to_ns(made.duration_s))
    control.run(until)
    return records(control, until), control.told
