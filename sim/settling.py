"""When an outage is worked off: the order in which the tasks it touched come to rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.clock import SETTLED

if TYPE_CHECKING:
    from sim.operator_plan import OperatorPlan
    from sim.task import Task
    from sim.world import World


class Settling:
    """The tasks that took units over, and every task downstream of them, until each has settled.

    A task settles at the first moment at which it has nothing to do, after all tasks upstream of it have settled and
    what they had sent until then has arrived: only then is no more of the outage on its way to it. A task
    that dies before is replaced by those that take its units over. `ready` says of a task whether its units are
    restored and their replay is done; `settled` is told each task as it settles, and `finished` is called after the
    last.
    """

    def __init__(
        self,
        world: World,
        tasks: list[Task],
        ready: Callable[[Task], bool],
        settled: Callable[[Task], None],
        finished: Callable[[], None],
    ) -> None:
        self.world, self._ready, self._settled, self._finished = world, ready, settled, finished
        touched = {task.operator for task in tasks}
        after = _downstream(touched)
        self._left: dict[OperatorPlan, dict[Task, None]] = {}  # by operator: tasks that have not settled
        for plan in world.operators:
            if plan in touched or plan in after:
                own = [task for task in tasks if task.operator is plan]
                others = [task for task in world.tasks if task.alive and task.operator is plan and plan in after]
                self._left[plan] = dict.fromkeys([*own, *others])
        self._from_ns: dict[Task, int] = {}  # when what came from upstream has arrived; missing: not known yet
        self._open: set[OperatorPlan] = set()
        self._open_gates()

    def look(self, task: Task) -> None:
        """Something ended at the task: it may have settled.

        Not yet at the very instant at which the last from upstream arrives, which may still be to come.
        """
        if task in self._from_ns and self.world.clock.now_ns() > self._from_ns[task]:
            self._check(task)

    def replace(self, dead: Task, successors: list[Task]) -> None:
        """The units of a task that died are with other tasks now: wait for these."""
        tasks = self._left.get(dead.operator, {})
        if dead in tasks:
            del tasks[dead]
            tasks.update(dict.fromkeys(successors))
            if dead.operator in self._open:
                self._await_arrivals(successors)

    def _look_later(self, task: Task, at_ns: int) -> None:
        self.world.clock.at(at_ns, SETTLED, lambda _: self._check(task))

    def _check(self, task: Task) -> None:
        tasks = self._left[task.operator]
        if task not in tasks or self.world.clock.now_ns() < self._from_ns[task]:
            return
        if not task.alive or not task.empty or not self._ready(task):
            return
        self._settled(task)
        del tasks[task]
        if not any(self._left.values()):
            self._finished()
        elif not tasks:
            self._open_gates()

    def _open_gates(self) -> None:
        """Tasks whose upstream has settled may settle once what was sent to them has arrived."""
        for plan, tasks in self._left.items():
            if plan not in self._open and not any(self._left[up] for up in self._upstream(plan)):
                self._open.add(plan)
                self._await_arrivals(list(tasks))

    def _await_arrivals(self, tasks: list[Task]) -> None:
        now = self.world.clock.now_ns()
        for task in tasks:
            self._from_ns[task] = now
        for visit, task in self.world.wire.items():
            if task in self._from_ns and task in tasks and visit.origin.operator in self._left:
                self._from_ns[task] = max(self._from_ns[task], visit.arrival_ns)
        for task in tasks:
            self._look_later(task, self._from_ns[task])

    def _upstream(self, plan: OperatorPlan) -> list[OperatorPlan]:
        return [up for up in self._left if any(edge.down is plan for edge in up.edges)]


def _downstream(operators: set[OperatorPlan]) -> set[OperatorPlan]:
    """All operators that are reached from these, over at least one edge."""
    found: set[OperatorPlan] = set()
    todo = list(operators)
    while todo:
        for edge in todo.pop().edges:
            if edge.down not in found:
                found.add(edge.down)
                todo.append(edge.down)
    return found
