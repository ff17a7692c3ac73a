"""From the event loop to the scan: the state of the scan at an instant.

Everything before the instant is done, nothing at it, and nothing hinders (`at_rest`).
"""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.kernel.event_loop.codes import END, MARK, NONE, ROUND, SNAPSHOT, TRIM, TUPLE
from sim.kernel.hand_over import event_time, windows
from sim.kernel.hand_over.at_rest import NO_ANSWER, LoopAtRest
from sim.kernel.hand_over.lists import runs
from sim.kernel.scan import entities, saving
from sim.kernel.scan.entities import BATCH, CHUNK, LOG_CHUNK, PARCEL, QUEUED, SIDE, SLOT
from sim.kernel.scan.heap import HAPPENING
from sim.kernel.scan.kept import ARRIVAL
from sim.kernel.scan.span import draw_times
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.pointer import State
from sim.plane_values import NO_HOST

_ROOM = 4096  # tuples on their way to an operator
_TOUCHED, _KNOWN = 2, 1  # a key since the last snapshot, or before


def round_number(loop: State) -> int:
    """Return the number that the next turn of the round of checkpoints has among the events of control, or NONE."""
    own = loop.heap[: int(loop.queue["in_heap"])]
    found = own["seq"][own["kind"] == ROUND]
    return int(found[0]) if found.size else NONE


def fill(scan: ScanState, rest: LoopAtRest) -> list[tuple[int, int]]:
    """Make the state of a scan that has just been made that of the event loop, which nothing hinders.

    Returns (next turn, partition), last first, of those for which control has to choose a checkpoint host.
    """
    filling = _Filling(scan, rest)
    return filling.all()


class _Filling:
    def __init__(self, scan: ScanState, rest: LoopAtRest) -> None:
        self.scan, self.rest, self.loop, self.plan = scan, rest, rest.loop, rest.plan
        self.at_ns = rest.at_ns

    def all(self) -> list[tuple[int, int]]:
        """Fill everything."""
        scan, loop = self.scan, self.loop
        scan.span["begin"] = scan.span["end"] = self.at_ns
        scan.arrivals = loop.arrivals.copy()
        scan.sources[:] = loop.sources
        scan.links["free"] = loop.hosts["link_free"][: scan.links.shape[0]]
        self._boxes()
        self._queues()
        self._services()
        scan.operators["applied"], scan.operators["sum"] = loop.operators["applied"], loop.operators["sum"]
        self._audit()
        self._states()
        if scan.watermarks:
            event_time.to_scan(scan, loop, self.rest.events)
            windows.to_scan(scan, loop)
        if not self.rest.saves:
            return []
        unplanned = self._saved()
        if self.rest.keeps:
            self._log()
        self._happenings()
        return unplanned

    def _parcels(self, tuples: np.ndarray, kind: np.dtype) -> np.ndarray:
        """Return what all tuples have in common; `tuples` are some of `rest.tuples`, by place."""
        numbers = self.rest.tuples[tuples]
        visits = self.loop.visits
        made = np.zeros(tuples.size, kind)
        for name in ("id", "created", "key", "partition"):
            made[name] = visits[name][numbers]
        made["at"] = visits["arrival"][numbers]
        made["origin"] = self._origins(visits["origin"][numbers], tuples)
        return made

    def _name_inputs(self, made: np.ndarray, tuples: np.ndarray) -> None:
        """Let the key of what has arrived at a join tell the input; `tuples` by place, as for `_parcels`."""
        operators = self.scan.operators
        joins = operators["joins"][self.scan.partition_operator[made["partition"]]]
        there = np.flatnonzero(joins != NONE)
        origin = self.loop.visits["origin"][self.rest.tuples[tuples[there]]]
        side = (self.loop.tasks["operator"][origin] != joins[there]).astype(np.int64)
        made["key"][there] |= side << SIDE

    def _marks(self, numbers: np.ndarray, at: np.ndarray, kind: np.dtype) -> np.ndarray:
        """Return the watermarks that are these visits (n,) and arrive then."""
        visits, made = self.loop.visits, np.zeros(numbers.size, kind)
        made["at"], made["key"] = at, entities.MARK
        made["id"], made["origin"] = visits["origin"][numbers].astype(np.uint64), visits["origin"][numbers]
        made["created"] = visits["key"][numbers]
        first = self.scan.partitions_here[self.scan.listeners["first_here"][visits["task"][numbers]]]
        made["partition"] = first
        return made

    def _origins(self, origins: np.ndarray, tuples: np.ndarray) -> np.ndarray:
        if self.rest.keeps:
            return self.rest.sender[tuples]
        if not self.rest.saves:
            return origins
        # Nobody counts what a partition sends where nothing is kept: any partition at the task tells the task.
        some = np.zeros(self.rest.tasks, np.int64)
        some[self.rest.partition_task] = np.arange(self.rest.partitions)
        return np.where(origins >= 0, some[origins], 0)

    def _boxes(self) -> None:
        scan, rest = self.scan, self.rest
        way = self._parcels(np.arange(rest.tuples.size - rest.way.size, rest.tuples.size), PARCEL)
        if rest.marks.size:
            serials = self.loop.visits["serial"][np.concatenate([rest.way, rest.marks])]
            way = np.concatenate([way, self._marks(rest.marks, rest.marks_at, PARCEL)])[np.argsort(serials)]
        operator = scan.partition_operator[way["partition"]]
        counts = np.bincount(operator, minlength=scan.boxes.shape[0])
        room = np.maximum(_ROOM, 2 * counts)
        scan.boxes["room"], scan.boxes["n"] = room, counts
        scan.boxes["first"] = np.cumsum(room) - room
        scan.box = np.zeros(int(room.sum()), PARCEL)
        order = np.argsort(operator, kind="stable")
        scan.box[scan.boxes["first"][operator[order]] + runs(operator[order])] = way[order]

    def _queues(self) -> None:
        scan, rest = self.scan, self.rest
        first = rest.tuples.size - rest.way.size - rest.queued.size
        places = np.arange(first, first + rest.queued.size)
        tuples = self._parcels(places, QUEUED)
        tuples["ns"] = self._service_ns(tuples, rest.queued_task)
        self._name_inputs(tuples, places)
        waits, is_mark = np.zeros(rest.lines.size, QUEUED), self.loop.visits["kind"][rest.lines] == MARK
        waits[~is_mark] = tuples
        if is_mark.any():
            waits[is_mark] = self._marks(rest.lines[is_mark], np.full(is_mark.sum(), self.at_ns - 1), QUEUED)
        counts = np.bincount(rest.lines_task, minlength=rest.tasks)
        pieces = -(-counts // CHUNK)
        begin = np.cumsum(pieces) - pieces
        scan.chunks = np.zeros(int(pieces.sum()) * CHUNK, QUEUED)
        scan.chunk_next = np.arange(1, int(pieces.sum()) + 1, dtype=np.int32)
        some = counts > 0
        scan.chunk_next[(begin + pieces - 1)[some]] = NONE
        scan.chunks[begin[rest.lines_task] * CHUNK + runs(rest.lines_task)] = waits
        queues = scan.queues[: rest.tasks]
        queues["n"] = counts
        queues["head"], queues["tail"] = np.where(some, begin, NONE), np.where(some, begin + pieces - 1, NONE)
        queues["tail_place"] = np.where(some, (counts - 1) % CHUNK + 1, 0)

    def _service_ns(self, waits: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """Return how long the services of what waits take."""
        scan, found = self.scan, np.zeros(waits.size, np.int64)
        operator = scan.servers["operator"][tasks]
        for one in np.unique(operator).tolist():
            own = np.flatnonzero(operator == one)
            for k in range(0, own.size, BATCH):
                part = own[k : k + BATCH]
                scan.ids[: part.size] = waits["id"][part]
                draw_times(scan, one, part.size)
                found[part] = scan.drawn[: part.size]
        speed = scan.servers["speed"][tasks]
        return np.where(speed == 1.0, found, np.maximum(1, np.rint(found / speed).astype(np.int64)))

    def _services(self) -> None:
        """What is in service, and when threads are free."""
        scan, rest, loop = self.scan, self.rest, self.loop
        servers = scan.servers
        servers["busy"] = loop.tasks["busy"][: rest.tasks]
        ends = rest.events[rest.events["kind"] == END]
        ends = ends[loop.tasks["alive"][ends["rank"] - SERVICE] == 1]
        end_of = np.zeros(loop.visits.shape[0], np.int64)
        end_of[ends["ref"]] = ends["time"]
        is_tuple = loop.visits["kind"][rest.serving] == TUPLE
        served, tasks = rest.serving[is_tuple], rest.serving_task[is_tuple]
        made = self._parcels(np.arange(served.size), SLOT)
        self._name_inputs(made, np.arange(served.size))
        made["origin"] = tasks
        made["start"], made["end"] = loop.visits["start"][served], end_of[served]
        scan.slots[servers["first_thread"][tasks] + runs(tasks)] = made
        servers["serving"] = np.bincount(tasks, minlength=rest.tasks)
        self._occupied(end_of)

    def _occupied(self, end_of: np.ndarray) -> None:
        """When each thread is free, with snapshots that wait for one; and when these are written."""
        scan, rest, loop = self.scan, self.rest, self.loop
        servers = scan.servers
        busy: dict[int, list[int]] = {}
        for visit, task in zip(rest.serving.tolist(), rest.serving_task.tolist(), strict=True):
            busy.setdefault(task, []).append(int(end_of[visit]))
        self.written = [  # (end, task, visit)
            (int(end_of[visit]), task, visit)
            for visit, task in zip(rest.serving.tolist(), rest.serving_task.tolist(), strict=True)
            if loop.visits["kind"][visit] == SNAPSHOT
        ]
        for visit, task in zip(rest.front.tolist(), rest.front_task.tolist(), strict=True):
            free = sorted(busy.get(task, []))
            free = [0] * (int(servers["threads"][task]) - len(free)) + free
            end = max(self.at_ns, free[0]) + int(loop.visits["created"][visit])
            busy[task] = [*free[1:], end]
            self.written.append((end, task, visit))
        for task, free in busy.items():
            first, threads = int(servers["first_thread"][task]), int(servers["threads"][task])
            servers["free"][task] = max(free)
            scan.frees[first : first + threads] = sorted([0] * (threads - len(free)) + free)

    def _audit(self) -> None:
        """What was sent is what was applied, and what is on its way."""
        scan, rest = self.scan, self.rest
        operator = scan.partition_operator[self.loop.visits["partition"][rest.tuples]]
        boxes = scan.boxes[:-1]
        boxes["sent"] = scan.operators["applied"] + np.bincount(operator, minlength=boxes.shape[0])
        total = scan.operators["sum"].copy()
        np.add.at(total, operator, self.loop.visits["id"][rest.tuples])
        boxes["sum"] = total

    # -- checkpoints

    def _states(self) -> None:
        u, saved = self.loop.partitions[: self.rest.partitions], self.scan.saved
        for name in ("applied", "keys", "touched"):
            saved[name] = u[name]
        saved["epoch"] = saved["low"] = _TOUCHED
        self._keys()

    def _saved(self) -> list[tuple[int, int]]:
        scan, loop, rest = self.scan, self.loop, self.rest
        u, saved = loop.partitions[: rest.partitions], scan.saved
        size = np.maximum(1, scan.operators["bytes"][u["operator"]])
        saved["applied_then"] = u["at_snapshot"]
        saved["sent"] = u["kept_rows"]
        saved["sent_then"] = u["kept_rows"] - u["new_kept_bytes"] // size
        saved["on_its_way"] = u["saving"]
        saved["stored"] = u["stored"]
        saved["checkpoint_host"] = np.where(rest.chosen == NO_ANSWER, NO_HOST, rest.chosen)
        scan.remote_link["free"] = loop.remote_link["free"]
        scan.checkpoint_rows = loop.checkpoint_rows.copy()
        scan.saved_rows["checkpoints"] = loop.checkpointing["rows"]
        partitions, turns = self._round()
        asked = (rest.chosen[partitions] == NO_ANSWER) & (u["is_sink"][partitions] == 0)
        return sorted(zip(turns[asked].tolist(), partitions[asked].tolist(), strict=True))[::-1]

    def _round(self) -> tuple[np.ndarray, np.ndarray]:
        """Return whose turns there are, and when the next of each is."""
        scan, loop = self.scan, self.loop
        if not loop.round_partitions.size:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        interval = int(loop.checkpointing["interval"])
        saving.start(scan, loop.round_partitions.tolist(), loop.round_offsets.tolist(), interval)
        begin, following = int(loop.checkpointing["round_begin"]), int(loop.checkpointing["round_next"])
        scan.round["begin"], scan.round["next"] = begin, following
        later = np.arange(scan.round_partitions.size) < following
        turns = begin + scan.round_offsets + np.where(later, interval, 0)
        scan.saved["instant"][scan.round_partitions] = turns
        return scan.round_partitions, turns

    def _log(self) -> None:
        """Who has sent what came to each partition and may not be forgotten yet."""
        scan, rest, saved = self.scan, self.rest, self.scan.saved
        # Tuples in service come first, then queues: of one partition these are in the order in which they came.
        here = np.arange(rest.tuples.size - rest.way.size)
        receiver = self.loop.visits["partition"][rest.tuples[here]]
        order = np.argsort(receiver, kind="stable")
        waits = np.zeros(here.size, [("receiver", "i8"), ("sender", "i8"), ("at", "i8"), ("n", "i8")])
        waits["receiver"], waits["sender"] = receiver[order], rest.sender[here[order]]
        waits["at"] = self.loop.visits["arrival"][rest.tuples[here[order]]]
        waits["n"] = saved["applied"][waits["receiver"]] + runs(waits["receiver"])
        done = np.zeros(rest.logged_receiver.size, waits.dtype)
        done["receiver"], done["sender"] = rest.logged_receiver, rest.logged_sender
        done["n"] = rest.trimmed[done["receiver"]] + runs(done["receiver"])
        saved["trimmed"] = rest.trimmed
        saved["arrived"] = saved["applied"] + np.bincount(waits["receiver"], minlength=rest.partitions)
        first, end = saved["trimmed"] // LOG_CHUNK, -(-saved["arrived"] // LOG_CHUNK)
        pieces = np.maximum(0, end - first)
        begin = np.cumsum(pieces) - pieces
        scan.log = np.zeros(int(pieces.sum()) * LOG_CHUNK, ARRIVAL)
        scan.log_next = np.arange(1, int(pieces.sum()) + 1, dtype=np.int32)
        some = pieces > 0
        scan.log_next[(begin + pieces - 1)[some]] = NONE
        saved["log_first"], saved["log_last"] = np.where(some, begin, NONE), np.where(some, begin + pieces - 1, NONE)
        saved["log_number"] = first
        for part in (done, waits):
            place = (begin - first)[part["receiver"]] * LOG_CHUNK + part["n"]
            scan.log["at"][place], scan.log["sender"][place] = part["at"], part["sender"]
        scan.log_pool["free"], scan.log_pool["left"] = NONE, 0

    def _first_epoch(self) -> np.ndarray:
        """Return since which epoch of each partition its keys are in the next increment (n_partitions,).

        With barriers each epoch since the last complete checkpoint counts, also those that began with snapshots of
        checkpoints which were given up.
        """
        u = self.loop.partitions
        return u["based"] + 1 if self.rest.by_barriers else u["epoch"]

    def _keys(self) -> None:
        scan, loop = self.scan, self.loop
        keys = loop.keys[(loop.keys["partition"] != NONE) & (loop.keys["since"] >= 0)]
        places = scan.saved["first_key"][keys["partition"]] + keys["key"]
        touched = keys["epoch"] >= self._first_epoch()[keys["partition"]]
        known = scan.saved["first_key"][keys["partition"]] != NONE
        scan.key_epochs[places[known]] = np.where(touched, _TOUCHED, _KNOWN)[known]

    def _happenings(self) -> None:
        """Checkpoints and notes on their way, and snapshots that are being written."""
        scan, loop, rest = self.scan, self.loop, self.rest
        own = rest.on_way[np.argsort(rest.on_way["seq"], kind="stable")]
        made = np.zeros(own.size + len(self.written), HAPPENING)
        shipped = made[: own.size]
        for name in ("time", "rank", "kind"):
            shipped[name] = own[name]
        transfer = own["ref"].astype(np.int64)
        for k, (end, task, _) in enumerate(self.written):
            one = made[own.size + k]
            one["time"], one["rank"], one["kind"] = end, SERVICE + task, END
        transfer = np.concatenate([transfer, [int(loop.visits["id"][visit]) for *_, visit in self.written]]).astype(
            np.int64
        )
        t = loop.transfers[transfer]
        for name in ("partition", "count", "row"):
            made[name] = t[name]
        made["bytes"] = t["stored_bytes"]
        made["serial"] = 1 + np.arange(made.size)
        notes = made["kind"] == TRIM
        made["counted"] = notes
        made["row"][notes] = 0
        made["bytes"][notes] = scan.saved["trimmed"][made["partition"][notes]]
        if rest.keeps:
            np.add.at(scan.saved["notes"], made["partition"][notes], 1)
        else:
            assert not notes.any(), "notes go to those who keep outputs"
        scan.happenings = np.zeros(2 * (made.size + 2), HAPPENING)
        scan.happenings[: made.size] = made[np.lexsort((made["serial"], made["rank"], made["time"]))]
        scan.agenda["count"] = scan.agenda["serial"] = made.size
