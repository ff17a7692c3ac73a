"""The verbs of the baselines of `megaphone`, which pause tasks until the states of a plan of key groups have moved."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sim.migration.protocol import Message
from sim.migration.reconfiguration import ReconfigurationContext
from sim.plane_values import Parcel, sizes_of_states

_NO_PARCEL = -1  # the number of a state that is copied, while its key groups stay where they are


class PausingContext(ReconfigurationContext):
    """The verbs of one task in a move of key groups by which tasks pause. There is one step, with the number 0."""

    def redirect(self) -> None:
        """Send all that the task emits from now on for the key groups that move to their new tasks, which hold it."""
        self.place(0)

    def drained(self) -> None:
        """Note that nothing is left at the tasks that pause, or on its way to them; the last call counts."""
        self._run.times[0].passed_ns = self._state.clock.now_ns()

    # -- the whole job

    @property
    def sources(self) -> tuple[int, ...]:
        """Return the tasks of all sources."""
        operators = self._state.plan.operators
        return tuple(task for task in self.tasks if operators[self._cluster.task_operator[task]].is_source)

    @property
    def tasks(self) -> tuple[int, ...]:
        """Return all tasks that control does not know to be dead: with one of them that is, the run is cancelled."""
        return tuple(filter(self._state.view.task_alive, range(len(self._cluster.task_operator))))

    @property
    def upstream(self) -> tuple[int, ...]:
        """Return the tasks that send to this one."""
        return self._beside(upstream=True)

    @property
    def downstream(self) -> tuple[int, ...]:
        """Return the tasks that this one sends to."""
        return self._beside(upstream=False)

    def _beside(self, upstream: bool) -> tuple[int, ...]:
        its, dataflow = self._cluster.task_operator, self._state.plan.dataflow
        own = its[self.me]
        beside = {*(dataflow.predecessors(own) if upstream else dataflow.successors(own))}
        return tuple(task for task in self.tasks if its[task] in beside)

    # -- a store for states

    def save(self, then: str) -> None:
        """Write all states of the task, one part for each task they go to, and put them into the store.

        For each part the task sends itself a message once the store has it; one at least, also without a state. What
        moves is taken out of the task. What stays is copied only: it is in memory here, and lost by nobody.
        """
        carries = [*enumerate(self._run.plan.steps[0])]
        parts = [(carry.target, self._taken(0, number)) for number, carry in carries if carry.source == self.me]
        staying = self._staying_bytes()
        if staying:
            self._run.times[0].bytes += staying
            parts.append((self.me, Parcel(_NO_PARCEL, 0, staying)))
        message = Message(self._run.number, then, self.me, self.me, max(1, len(parts)))
        for target, parcel in parts:
            written = partial(self._persist, (self.me, target), parcel, message)
            self._occupy(self._operator.serialise_bytes_per_s, parcel.bytes, written)
        if not parts:
            self._runtime.deliver(message)

    def _persist(self, name: Hashable, parcel: Parcel, message: Message) -> None:
        run, runtime = self._run, self._runtime
        own, answered = (run.number, name), lambda: runtime.deliver(message)
        runtime.store.persist(own, (parcel,), self.me, lambda: True, answered)

    def load(self, then: str) -> None:
        """Fetch each part that goes to the task from the store and read it; then send itself a message with it.

        Where nothing goes to the task, one comes without a parcel. Its note is how many come.
        """
        origins = [carry.source for carry in self._run.plan.steps[0] if carry.target == self.me]
        origins += [self.me] if self._staying_bytes() else []
        message = Message(self._run.number, then, self.me, self.me, max(1, len(origins)))
        for origin in origins:
            name = (self._run.number, (origin, self.me))
            self._runtime.store.fetch(name, self.me, lambda parcels: self._read(parcels, message))
        if not origins:
            self._runtime.deliver(message)

    def loaded(self) -> None:
        """Note that a state is at its task, also one that did not move; the last call counts."""
        self._run.times[0].installed_ns = self._state.clock.now_ns()

    def _read(self, parcels: Sequence[Parcel], message: Message) -> None:
        size = sum(parcel.bytes for parcel in parcels)
        moved = tuple(parcel for parcel in parcels if parcel.number != _NO_PARCEL)
        for parcel in moved:
            self._run.memory.comes(self.me, parcel.bytes, self._run.plan.copies[1])
        then = partial(self._runtime.deliver, message._replace(parcels=moved))
        self._occupy(self._operator.deserialise_bytes_per_s, size, then)

    def _staying_bytes(self) -> int:
        """Return the bytes of the states at the task that do not move: those of key groups that were taken count 0."""
        partitions, sizes = sizes_of_states(self._state.plane.statistics())
        return int(sizes[np.isin(partitions, self._cluster.partitions_at(self.me))].sum())

    @property
    def _operator(self) -> Any:
        """Return the operator of the task: other operators than that of the plan may save their states, too."""
        return self._state.plan.operators[self._cluster.task_operator[self.me]].description
