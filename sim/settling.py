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

    A task settles at the first moment at which it has nothing to do after all tasks upstream of it have settled and
    what they had sent until then has arrived: only then is no more of the outage on its way to it. `ready` says of a
    task whether its units are restored and their replay is done; `settled` is told each task as it settles, and
    `finished` is called after the last.
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
        self._from_ns: dict[OperatorPlan, int] = {}  # when what came from upstream has arrived; missing: not known yet
        self._open_gates()

    def look(self, task: Task) -> None:
        """Something ended at the task: it may have settled."""
        tasks, now = self._left.get(task.operator), self.world.clock.now_ns()
        if not tasks or task not in tasks or now < self._from_ns.get(task.operator, now + 1):
            return
        if task.empty and self._ready(task):
            self._settled(task)
            self._leave(task)

    def forget(self, task: Task) -> None:
        """The task died."""
        if task in self._left.get(task.operator, ()):
            self._leave(task)

    def _leave(self, task: Task) -> None:
        tasks = self._left[task.operator]
        del tasks[task]
        if not any(self._left.values()):
            self._finished()
        elif not tasks:
            self._open_gates()

    def _open_gates(self) -> None:
        """Operators whose upstream has settled may settle once what was sent to them has arrived."""
        now = self.world.clock.now_ns()
        for plan, tasks in self._left.items():
            if plan in self._from_ns or any(self._left[up] for up in self._upstream(plan)):
                continue
            on_wire = (visit.arrival_ns for visit, task in self.world.wire.items() if task in tasks)
            self._from_ns[plan] = max(on_wire, default=now) if self._upstream(plan) else now
            self.world.clock.at(self._from_ns[plan], SETTLED, self._look_at_all(plan))

    def _look_at_all(self, plan: OperatorPlan) -> Callable[[object], None]:
        def look(_: object) -> None:
            for task in list(self._left[plan]):
                self.look(task)

        return look

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
