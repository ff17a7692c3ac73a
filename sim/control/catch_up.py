"""Catch-up of the tasks that an outage affected, in the order of the dataflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import networkx as nx

from sim.clock import END_OF_INSTANT
from sim.control.run_state import StateOn
from sim.data_plane import IdlePlane


class CatchUp:
    """The tasks that took partitions over, and every task downstream of them, until each has caught up.

    A task has caught up at the first moment at which it has nothing to do, after all tasks upstream of it have caught
    up and all that they had sent until then has arrived: only then is nothing of the outage on its way to it. A task
    that dies before is replaced by its successors, and the target of a partition that moves is awaited as well.
    `ready` says of a task whether its partitions are restored and their replay is done; `caught_up` is told each task
    as it catches up, and `finished` is called after the last. `changed` is called when the awaited tasks change, except
    in `replace` and `join`, whose callers know.
    """

    def __init__(
        self,
        state: StateOn[IdlePlane],
        tasks: list[int],
        ready: Callable[[int], bool],
        caught_up: Callable[[int], None],
        finished: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.clock, self.plane, self.cluster = state.clock, state.plane, state.cluster
        self._ready, self._caught_up, self._finished, self._changed = ready, caught_up, finished, changed
        self._dataflow, self._fair = state.plan.dataflow, state.plan.fair
        operator_of, alive = self.cluster.task_operator, self.cluster.task_alive
        affected = {operator_of[task] for task in tasks}
        after = _downstream(self._dataflow, affected)
        self._left: dict[int, dict[int, None]] = {}  # by operator: tasks that have not caught up
        for operator in range(len(self._dataflow)):
            if operator in affected or operator in after:
                own = [task for task in tasks if operator_of[task] == operator]
                others = [t for t, o in enumerate(operator_of) if o == operator and alive[t] and operator in after]
                self._left[operator] = dict.fromkeys([*own, *others])
        self._from_ns: dict[int, int] = {}  # when all tuples from upstream have arrived; missing: not known yet
        self._sent: dict[int, int] = {}  # number of the sendings that are awaited
        self._open: set[int] = set()
        self._open_gates()

    def awaited(self) -> list[int]:
        """Return the tasks that have not caught up and do so as soon as they are idle."""
        return [task for tasks in self._left.values() for task in tasks if task in self._from_ns]

    def tasks(self) -> list[int]:
        """Return the tasks that have not caught up."""
        return [task for tasks in self._left.values() for task in tasks]

    def stop(self) -> None:
        """Wait for no task any more; checks that are set find nothing."""
        for tasks in self._left.values():
            tasks.clear()

    def check(self, task: int) -> None:
        """Check whether the task, at which something ended, has caught up.

        Not yet at the very instant at which the last from upstream arrives, which may still be to come.
        """
        if task in self._from_ns and self.clock.now_ns() > self._from_ns[task]:
            self._check_now(task)

    def check_later(self, task: int) -> None:
        """Check at the end of this instant whether the task has caught up."""
        if task in self._from_ns:
            self._check_at(task, max(self.clock.now_ns(), self._from_ns[task]))

    def replace(self, dead: int, successors: list[int]) -> None:
        """Wait for the successors instead of a task that died; there are none if it had no partitions."""
        tasks = self._left.get(self.cluster.task_operator[dead], {})
        if dead in tasks:
            del tasks[dead]
            if successors:
                self._add(successors)
            else:
                self._one_less(tasks)

    def join(self, source: int, target: int) -> None:
        """Wait for both tasks: a partition has moved from one to the other."""
        if source in self._left.get(self.cluster.task_operator[source], {}):
            self._add([target])

    def _add(self, tasks: Sequence[int]) -> None:
        """Wait for these tasks of one operator as well."""
        operator = self.cluster.task_operator[tasks[0]]
        self._left[operator].update(dict.fromkeys(tasks))
        if operator in self._open:
            self._await_arrivals(tasks)

    def _check_at(self, task: int, at_ns: int) -> None:
        self.clock.at(at_ns, END_OF_INSTANT, lambda _: self._check_now(task))

    def _check_now(self, task: int) -> None:
        tasks = self._left[self.cluster.task_operator[task]]
        if task not in tasks or self.clock.now_ns() < self._from_ns[task]:
            return
        if not self.cluster.task_alive[task] or not self.plane.empty(task) or not self._ready(task):
            return
        # On a shared link the arrival that was foreseen is a lower bound.
        if self._fair and self._delayed(task):
            return
        self._caught_up(task)
        del tasks[task]
        self._one_less(tasks)
        self._changed()

    def _one_less(self, tasks: dict[int, None]) -> None:
        """Finish, or go on downstream, if this was the last task of the outage, or of its operator."""
        if not any(self._left.values()):
            self._finished()
        elif not tasks:
            self._open_gates()

    def _open_gates(self) -> None:
        """Let tasks catch up whose upstream has caught up, once what was sent to them has arrived."""
        for operator, tasks in self._left.items():
            if operator not in self._open and not any(self._left[up] for up in self._upstream(operator)):
                self._open.add(operator)
                self._await_arrivals(list(tasks))

    def _await_arrivals(self, tasks: Sequence[int]) -> None:
        now = self.clock.now_ns()
        for task in tasks:
            last = self.plane.last_arrival_ns(task, self._left)
            self._from_ns[task] = now if last is None else max(now, last)
            if self._fair:
                self._sent[task] = self.plane.sendings()
            # At the end of that instant: the last tuple itself arrives there, and may be processed at once.
            self._check_at(task, self._from_ns[task])

    def _delayed(self, task: int) -> bool:
        """Return True if awaited tuples are still on their way because the link was shared with later ones."""
        last = self.plane.last_arrival_ns(task, self._left, self._sent[task])
        if last is None:
            return False
        self._from_ns[task] = max(self.clock.now_ns(), last)
        self._check_at(task, self._from_ns[task])
        return True

    def _upstream(self, operator: int) -> list[int]:
        return [up for up in self._left if self._dataflow.has_edge(up, operator)]


class CatchUps:
    """The outages that are not caught up with yet, and the tasks at which the plane watches for them."""

    def __init__(self, state: StateOn[IdlePlane]) -> None:
        self.state, self.cluster = state, state.cluster
        self._open: list[CatchUp] = []
        self._besides: dict[int, None] = {}  # tasks that are watched in any case

    def __bool__(self) -> bool:
        """Return whether an outage is not caught up with."""
        return bool(self._open)

    def follow(
        self,
        tasks: list[int],
        ready: Callable[[int], bool],
        caught_up: Callable[[int], None],
        finished: Callable[[], None],
    ) -> CatchUp:
        """Note when these tasks catch up, and when the last task downstream of them does; see `CatchUp`."""

        def over() -> None:
            self._open.remove(catch_up)
            finished()

        catch_up = CatchUp(self.state, tasks, ready, caught_up, over, self._watch)
        self._open.append(catch_up)
        self._watch()
        return catch_up

    def abandon(self, catch_up: CatchUp) -> None:
        """Follow these tasks no more; nothing happens if all have caught up."""
        if catch_up in self._open:
            self._open.remove(catch_up)
            catch_up.stop()
            self._watch()

    def watch_besides(self, tasks: Sequence[int]) -> None:
        """Have the plane tell of these tasks, too, whatever outages wait for."""
        self._besides = dict.fromkeys(tasks)
        self._watch()

    def _watch(self) -> None:
        """Ask the plane for the tasks that any outage waits for."""
        awaited = dict.fromkeys(task for catch_up in self._open for task in catch_up.awaited())
        self.state.plane.watch(awaited | self._besides)

    def redirect(self, taken_over: list[tuple[int, int]]) -> None:
        """Let earlier outages wait for the successors of tasks that died.

        `taken_over` are pairs of a dead task and one that took a partition over. A dead task without partitions is not
        awaited any more; one whose partitions stay down is.
        """
        if not self._open:
            return
        successors: dict[int, list[int]] = {}
        for dead, task in taken_over:
            successors.setdefault(dead, []).append(task)
        homes = {task for partition, task in enumerate(self.cluster.partition_task) if self.cluster.is_owner(partition)}
        for catch_up in list(self._open):
            for dead, tasks in successors.items():
                catch_up.replace(dead, list(dict.fromkeys(tasks)))
            for task in catch_up.tasks():
                if task not in homes and not self.state.view.task_alive(task):
                    catch_up.replace(task, [])
        self._watch()

    def moved(self, source: int, target: int) -> None:
        """Wait for the target as well: a key group has moved there, with what is left to do for it."""
        for catch_up in self._open:
            catch_up.join(source, target)
        if self._open:
            self._watch()

    def has_taken(self, task: int) -> None:
        """Check the task at the end of this instant: a move is over for which outages may have waited."""
        for catch_up in self._open:
            catch_up.check_later(task)

    def notice_empty(self, task: int) -> None:
        """Check whether the task, which is idle, has caught up."""
        for catch_up in list(self._open):
            catch_up.check(task)


def _downstream(dataflow: nx.DiGraph[int], operators: set[int]) -> set[int]:
    """Return all operators that are reached from these, over at least one edge."""
    readers = {reader for operator in operators for reader in dataflow[operator]}
    return {operator for layer in nx.bfs_layers(dataflow, readers) for operator in layer}
