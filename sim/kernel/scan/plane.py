"""The plane of the scan, a `sim.data_plane.Plane`: nothing fails, no task shares a core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from models.records.tables import NEVER, table
from sim.arrival_stream import ArrivalStream
from sim.clock import Clock
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import Listener
from sim.kernel.event_loop import pools
from sim.kernel.scan import recording, saving, setup, span
from sim.kernel.scan.entities import CHECKPOINTS_FULL, DONE, FLUSH, MARK, REFILL
from sim.kernel.scan.links import copy_arrivals, count_tuples, sum_queues, waiting_ns
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.cache import entry
from sim.plane_values import Key, Row
from sim.recording import recording_of

_ARRIVALS = 2**18  # in the buffers of all sources together


class ScanPlane:
    """Tuples, queues and links on arrays; a span between two actions of control is done by the kernel of `scan`.

    A `Plane` and no more: for runs that `sim.kernel.choice` allows, in which nothing fails and nothing moves.
    """

    def __init__(
        self,
        plan: RunPlan,
        cluster: Cluster,
        clock: Clock,
        listener: Listener,
        recording_: recording.Kept | None = None,
        streams: list[ArrivalStream] | None = None,
        counts_states: bool = False,
    ) -> None:
        """`recording_` and `streams` are those of another plane that has had the run before.

        With `counts_states` the sizes of states are known at any time, as they are where checkpoints are taken.
        """
        self._plan, self._cluster, self._clock, self._listener = plan, cluster, clock, listener
        self._unplanned: list[
            tuple[int, int]
        ] = []  # (first checkpoint, partition) without planned checkpoint host, last first
        self.recording = recording_ or recording_of(plan.scenario, plan.inputs)
        count = sum(plan.operators[operator].is_source for operator in cluster.partition_operator)
        block = streams[0].block if streams else max(256, min(2**14, _ARRIVALS // max(1, count)))
        self._streams = streams or [
            ArrivalStream(
                plan.scenario,
                plan.operators[operator].name,
                cluster.partition_index[partition],
                plan.replication,
                plan.inputs.rates.get(plan.operators[operator].name),
                block,
            )
            for partition, operator in enumerate(cluster.partition_operator)
            if plan.operators[operator].is_source
        ]
        self.state: ScanState = setup.state(plan, cluster, block, self.recording, counts_states)
        self._messages: dict[int, list[int]] = {}  # by second: local, data, local bytes, data bytes
        self._advance = entry(span.advance, self.state, 0)
        self._task_operator = np.array(cluster.task_operator, np.int64)
        tasks, sources = len(cluster.task_host), self.state.sources["partition"]
        self._sample = np.zeros((tasks, 5), np.int64)
        self._sample[:, 0], self._sample[:, 1] = np.arange(tasks), cluster.task_host
        self._waits, self._busy = self.state.queues["n"][:tasks], self.state.servers["busy"]  # as they are at any time
        self._live = np.flatnonzero(cluster.task_alive)
        self._lag = np.zeros((sources.size, 2), np.int64)
        self._lag[:, 0] = self.state.partition_operator[sources]

    # -- time

    def advance(self, limit: Key) -> bool:
        """Do all before the instant of `limit`: control comes before all else of its instant, so that is all."""
        self.recording.check_end(limit[0])
        if self._unplanned and self._unplanned[-1][0] < limit[0]:
            # Who holds a checkpoint changes no tuple: it can be asked for before those that come first.
            instant, partition = self._unplanned.pop()
            self._clock.move_to(instant)
            self.state.saved["checkpoint_host"][partition] = self._listener.checkpoint_host(partition)
            return True
        while True:
            why = self._advance(self.state, limit[0])
            if why == DONE:
                return False
            if why == REFILL:
                self.refill(int(self.state.requests["refill"]))
            elif why == FLUSH:
                self._sum_up()
            elif why == CHECKPOINTS_FULL:
                saving.grow(self.state)
            else:
                setup.grow(self.state, self.recording)

    def refill(self, source: int) -> None:
        """Put the next arrivals at a source behind those that are not emitted yet."""
        pools.refilled(self.state, source, self._streams[source])

    def plan_later(self, unplanned: list[tuple[int, int]]) -> None:
        """Have control choose checkpoint hosts: (next checkpoint, partition), last first."""
        self._unplanned = unplanned

    def _sum_up(self) -> None:
        """Add up the messages of the last seconds."""
        state = self.state
        for second, *numbers in state.message_rows[: int(self.state.sent["rows"])].tolist():
            before = self._messages.get(second, [0, 0, 0, 0])
            self._messages[second] = [one + more for one, more in zip(before, numbers, strict=True)]
        self.state.sent["rows"] = 0

    # -- checkpoints

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Take checkpoints of these partitions each interval."""
        if not partitions:
            return
        saving.start(self.state, partitions, offsets_ns, interval_ns)
        if self._plan.scenario.fault_tolerance.store == "remote":
            return
        cluster, unplanned = self._cluster, []
        for partition, offset in zip(partitions, offsets_ns, strict=True):
            planned, owner = (
                cluster.planned_checkpoint_host[partition],
                cluster.task_host[cluster.partition_task[partition]],
            )
            if planned is not None and planned != owner:
                self.state.saved["checkpoint_host"][partition] = planned
            elif not self._plan.operators[cluster.partition_operator[partition]].is_sink:
                unplanned.append((interval_ns + offset, partition))
        self._unplanned = unplanned[::-1]

    # -- records

    def busy_until_ns(self, task: int) -> int:
        """Return before when the task cannot be idle: it has to serve what waits there now."""
        t = self.state.servers[task]
        free = int(t["free"]) if t["serving"] else int(self.state.span["end"])
        return free + int(waiting_ns(self.state, task)) // int(t["threads"])

    def samples(self) -> np.ndarray:
        """Return a row for each live task."""
        rows = self._sample.copy()
        rows[:, 2], rows[:, 3] = self._tuples_waiting(), self._busy
        if self.state.saves:
            rows[:, 4] = saving.kept(self.state, len(rows))
        return rows[self._live]

    def _tuples_waiting(self) -> np.ndarray:
        """Return how many tuples wait for each task (n_tasks,)."""
        if not self.state.watermarks:
            return self._waits
        found = np.zeros(self._waits.size, np.int64)
        count_tuples(self.state, found)
        return found

    def buffers(self) -> list[Row]:
        """No queue has a bound."""
        return []

    def links(self) -> list[Row]:
        """No checkpoint shares a link with tuples."""
        return []

    def lag(self) -> np.ndarray:
        """(operator, 0) for each source partition: none is ever down."""
        return self._lag

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes)."""
        self._sum_up()
        found = saving.messages(self.state) if self.state.saves else {}
        for second, numbers in self._messages.items():
            local, data, local_bytes, data_bytes = numbers
            if data:
                found[second, "data"] = [data, data_bytes]
            if local:
                found[second, "local"] = [local, local_bytes]
        return found

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return rows (operator, expected, lost, duplicated); raises RuntimeError if the audit fails.

        What was sent to each operator is what it applied and what is on its way, by number and sum of the ids.
        """
        state = self.state
        applied, total = state.operators["applied"].copy(), state.operators["sum"].copy()
        for operators, parcels in self._coming():
            applied += np.bincount(operators, minlength=applied.size)
            np.add.at(total, operators, parcels["id"])  # modulo 2^64
        sum_queues(state, applied, total)
        boxes = state.boxes[:-1]
        if not np.array_equal(boxes["sent"], applied) or not np.array_equal(boxes["sum"], total):
            raise RuntimeError("the audit failed: tuples were lost or processed twice although no host failed")
        return [
            (index, int(state.operators["applied"][index]), 0, 0)
            for index, plan in enumerate(self._plan.operators)
            if not plan.is_source and plan.reckoned
        ]

    def _coming(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(operators, tuples), both (n,), of all that is on its way and in service, but for what waits in queues."""
        state = self.state
        *boxes, links = [state.box[int(box["first"]) :][: int(box["n"])] for box in state.boxes]
        boxes = [parcels[parcels["key"] != MARK] for parcels in boxes] if state.watermarks else boxes
        for operator, parcels in enumerate(boxes):
            yield np.full(parcels.size, operator), parcels
        yield state.partition_operator[links["partition"]], links
        tasks, served = self._served()
        yield self._task_operator[tasks], served

    def _served(self) -> tuple[np.ndarray, np.ndarray]:
        """(tasks, tuples), both (n,), of what is in service: task after task, each in the order of the starts."""
        n, first = self.state.servers["serving"], self.state.servers["first_thread"]
        tasks = np.repeat(np.arange(n.size), n)
        return tasks, self.state.slots[np.arange(tasks.size) + (first - np.cumsum(n) + n)[tasks]]

    def _waiting(self) -> dict[str, np.ndarray]:
        """Return the table of what waits for the tasks, task after task, each in order."""
        n = self._tuples_waiting()
        arrivals = np.empty(n.sum(), np.int64)
        copy_arrivals(self.state, arrivals)
        tasks = np.arange(n.size, dtype=np.int32)
        found = {"operator": np.repeat(self._task_operator.astype(np.int16), n), "task": np.repeat(tasks, n)}
        return table("waiting", found | {"arrival_ns": arrivals})

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables of tuples."""
        recording.hand_over(self.state, self.recording)
        tasks, served = self._served()
        visits = np.empty((tasks.size, 5), np.int64)
        columns = self._task_operator[tasks], tasks, served["at"], served["start"], NEVER
        for k, column in enumerate(columns):
            visits[:, k] = column
        self.recording.add_visits(visits)
        made = dict(self.recording.tables())
        made["waiting"] = self._waiting()
        made["checkpoints"] = saving.checkpoints(self.state)
        return made | {name: table(name, []) for name in ("dropped", "cpu")}
