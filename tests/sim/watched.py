"""What the compiled plane holds between two events, counted from its arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models.scenario.scenario import Scenario
from models.units import to_ns
from sim.clock import Process
from sim.control.assembly import Control
from sim.engine import build
from sim.kernel.event_loop.codes import NONE, TUPLE
from sim.kernel.event_loop.plane import CompiledPlane


def compiled(control: Control) -> CompiledPlane:
    """The compiled data plane of a run."""
    assert isinstance(control.plane, CompiledPlane)
    return control.plane


@dataclass
class Counts:
    """Tuples of one operator at an instant."""

    sent: int = 0
    processed: int = 0
    queued: int = 0
    wire: int = 0
    serving: int = 0
    held: int = 0
    dropped: int = 0

    @property
    def found(self) -> int:
        """All that were sent, by where they are or ended."""
        return self.processed + self.queued + self.wire + self.serving + self.held + self.dropped


@dataclass
class Watched:
    """A run on the compiled plane that counts what is replayed, and how many tuples each operator has processed."""

    control: Control
    replayed: dict[int, int] = field(default_factory=dict)  # by receiving operator
    _visits: dict[int, int] = field(default_factory=dict)  # by operator, of the rows that were handed over

    @classmethod
    def of(cls, made: Scenario) -> Watched:
        """Before the first instant."""
        watched = cls(build(made, plane=CompiledPlane))
        plane = compiled(watched.control)
        send_again, add_visits = plane.replay, plane.recording.add_visits

        def replay(sender: int, receiver: int, **how: bool) -> tuple[int, int]:
            rows, size = send_again(sender, receiver, **how)
            operator = watched.control.cluster.partition_operator[receiver]
            watched.replayed[operator] = watched.replayed.get(operator, 0) + rows
            return rows, size

        def add(block: np.ndarray) -> None:
            for operator, count in zip(*np.unique(block[:, 0], return_counts=True), strict=True):
                watched._visits[int(operator)] = watched._visits.get(int(operator), 0) + int(count)
            add_visits(block)

        plane.replay, plane.recording.add_visits = replay, add  # type: ignore[method-assign]
        return watched

    def processed(self, operator: int) -> int:
        """Tuples that the operator has processed, or emitted; also those whose effect was lost later."""
        s = compiled(self.control).state
        written = int(s.recording["visit_rows"])
        if s.recording["by_column"]:
            return self._visits.get(operator, 0) + int((s.visit_operator[:written] == operator).sum())
        passed = s.passed.reshape(s.operators.shape[0], -1)[operator].sum()
        waiting = (s.visit_rows["operator"][:written] == operator).sum()
        return self._visits.get(operator, 0) + int(passed + waiting)

    def counts(self) -> list[Counts]:
        """Of each operator; `sent` follows from what is processed upstream, where selectivities are whole numbers."""
        plane = compiled(self.control)
        s, cluster = plane.state, self.control.cluster
        made = [Counts(processed=self.processed(index)) for index in range(len(cluster.plan.operators))]
        for task in range(int(s.cluster["tasks"])):
            t, here = s.tasks[task], made[cluster.task_operator[task]]
            here.queued += len(tuples(plane, "front_head", t)) + len(tuples(plane, "queue_head", t))
            here.serving += len(tuples(plane, "serving_head", t))
        for partition, operator in enumerate(cluster.partition_operator):
            made[operator].held += len(tuples(plane, "held_head", s.partitions[partition]))
        for visit in s.visits[on_the_wire(plane)]:
            made[int(s.partitions["operator"][visit["partition"]])].wire += 1
        for row in s.dropped_rows[: int(s.drops["rows"])]:
            made[int(row["operator"])].dropped += 1
        self._add_sent(made)
        return made

    def _add_sent(self, made: list[Counts]) -> None:
        for plan in self.control.plan.operators:
            outputs = 1 if plan.is_source else plan.description.selectivity
            for edge in plan.edges:
                assert edge.share == 1
                copies = edge.down.description.groups if edge.partitioning == "broadcast" else 1
                made[edge.down.index].sent += round(made[plan.index].processed * outputs * copies)
        for operator, rows in self.replayed.items():
            made[operator].sent += rows


def tuples(plane: CompiledPlane, head: str, record: Any) -> list[int]:
    """The places of the tuples in a list, without work."""
    visits, found, v = plane.state.visits, [], int(record[head])
    while v != NONE:
        if visits["kind"][v] == TUPLE:
            found.append(v)
        v = int(visits["next"][v])
    return found


def on_the_wire(plane: CompiledPlane) -> np.ndarray:
    """Which places of `visits` hold tuples that are under way."""
    visits = plane.state.visits
    return np.flatnonzero((visits["wire"] == 1) & (visits["kind"] == TUPLE))


def timers(control: Control, instants_ns: list[int], check: Any = None) -> None:
    """Control wakes up at these instants, from now on rising, and does nothing but check."""

    def run() -> Process:
        for instant in sorted(instants_ns):
            yield control.clock.sleep(instant)
            if check is not None:
                check(control.clock.now_ns())

    control.clock.process(run())


def duration_ns(made: Scenario) -> int:
    """How long a run of it lasts."""
    return max(1, to_ns(made.duration_s))
