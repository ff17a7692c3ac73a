"""From the event loop to the scan: what hinders it, and the state of the scan at an instant.

Everything before the instant is done, nothing at it. The scan knows nothing of ids, replays, tuples that are held, and
tasks that died: as long as there are any, the event loop goes on.
"""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import NO_HOST, REMOTE
from sim.kernel.event_loop.codes import ARRIVE, AT_REMOTE, CREATE, END, NONE, ROUND, SNAPSHOT, STORED, TRIM, TUPLE
from sim.kernel.event_loop.hash_tables import find_positions
from sim.kernel.hand_over.lists import events_of, listed, nodes_of, runs
from sim.kernel.scan import saving
from sim.kernel.scan.entities import BATCH, CHUNK, LOG_CHUNK, PARCEL, QUEUED, SLOT
from sim.kernel.scan.heap import HAPPENING
from sim.kernel.scan.kept import ARRIVAL
from sim.kernel.scan.span import draw_times
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.pointer import State

_ROOM = 4096  # tuples on their way to an operator
_KNOWN_EVENTS = (ARRIVE, END, CREATE, ROUND, AT_REMOTE, STORED, TRIM)
_TOUCHED, _KNOWN = 2, 1  # a key since the last snapshot, or before


class LoopAtRest:
    """What the event loop has at an instant, and why the scan could not go on with it (`hindrance`, if anything)."""

    def __init__(
        self, loop: State, plan: RunPlan, cluster: Cluster, at_ns: int, by_barriers: bool = False
    ) -> None:
        """`by_barriers`: these take checkpoints, and only sources keep outputs."""
        self.loop, self.plan, self.cluster, self.at_ns = loop, plan, cluster, at_ns
        self.by_barriers = by_barriers
        self.until_ns = FAR_NS  # with barriers: before that no task is idle that control watches
        self.saves = plan.scenario.fault_tolerance.takes_checkpoints and not by_barriers
        self.keeps = self.saves and plan.replays
        self.tasks, self.partitions = len(cluster.task_operator), len(cluster.partition_task)
        self.partition_task = np.array(cluster.partition_task, np.int64)
        self.task_host = np.array(cluster.task_host, np.int64)
        self.hindrance = (
            self._is_split_up() or self._is_acted_upon() or self._is_mixed_up() or self._is_saved_elsewhere()
        )

    def _is_split_up(self) -> str | None:
        """Return what of the cluster the scan does not know."""
        cluster, loop, plan = self.cluster, self.loop, self.plan
        if self.partitions > plan.first_partition[-1]:
            return "key groups have further instances"
        if not (all(cluster.partition_live) and loop.partitions["live"][: self.partitions].all()):
            return "a partition is down"
        if cluster.trusted != cluster.host_alive:
            return "a failure is not detected"
        threads = np.zeros(len(plan.host_groups), np.int64)
        for task, operator in enumerate(cluster.task_operator):
            described = plan.operators[operator].description
            if cluster.task_alive[task] and described.service is not None:
                threads[cluster.task_host[task]] += described.threads
            sends = cluster.task_alive[task] and not plan.operators[operator].is_sink
            saves = plan.scenario.fault_tolerance.takes_checkpoints
            if sends and saves and plan.host_groups[cluster.task_host[task]].network_bytes_per_s is not None:
                return "checkpoints are taken, and a link has a bandwidth"
        users = zip(plan.host_groups, cluster.link_users(), strict=True)
        if any(len(operators) > 1 for group, operators in users if group.network_bytes_per_s is not None):
            return "operators share a link"
        shared = np.array([group.cpu == "shared" for group in plan.host_groups])
        cores = np.array([group.cores for group in plan.host_groups])
        return "tasks share cores" if (shared & (threads > cores)).any() else None

    def _is_acted_upon(self) -> str | None:
        """Return what control has begun and not ended, or wants to be told."""
        loop = self.loop
        tasks, partitions = loop.tasks[: self.tasks], loop.partitions[: self.partitions]
        self.events = events_of(loop)
        found = (
            ("a task is paused", tasks["paused_until"] != 0),
            ("rules hold tuples", tasks["rules"] != NONE),
            ("channels wait behind a barrier", (tasks["barriers"] != NONE) | (tasks["back_head"] != NONE)),
            ("control wants to know when tasks are idle", (tasks["watched"] == 1) & (not self.by_barriers)),
            ("key groups have next tasks", partitions["goal"] != NONE),
            ("control waits for frontiers", loop.frontiers["over"] == 0),
            ("partitions are muted, timed or announced", partitions[["muted", "measured", "announced"]]),
            ("barriers are on their way", self._has_barriers(partitions)),
            ("messages or actions are on their way", ~np.isin(self.events["kind"], _KNOWN_EVENTS)),
            ("the pace of a host has changed", np.array([loop.options["paced"]])),
        )
        return next((why for why, there in found if _any(there)), None)

    def _has_barriers(self, partitions: np.ndarray) -> np.ndarray:
        """Return whether some partitions have a snapshot and others none, or what it covers is not forgotten yet."""
        if not self.by_barriers:
            return np.zeros(1, np.bool_)
        begun = self.loop.unfinished["begun"][: partitions.size] == 1  # there is one slot
        reached = begun[partitions["is_source"] == 0]
        told = (self.events["kind"] == TRIM).any() or (partitions["replay_pending"] != 0).any()
        return np.array([told, reached.any() and not reached.all()])

    # -- items

    def _is_mixed_up(self) -> str | None:
        """Collect what is in service, in queues and on its way; return what of it the scan does not know."""
        loop = self.loop
        visits = loop.visits
        if (loop.partitions["held_n"][: self.partitions] > 0).any():
            return "tuples are held"
        if (self.events["time"] < self.at_ns).any():
            raise RuntimeError("the event loop gives the run away before it has done what comes before that")
        come = self.events[self.events["kind"] == ARRIVE]["ref"]
        way = come[visits["wire"][come] == 1]
        self.way = way[np.argsort(visits["serial"][way], kind="stable")]
        tasks = loop.tasks[: self.tasks]
        self.serving, self.serving_task = listed(visits["next"], tasks["serving_head"])
        self.queued, self.queued_task = listed(visits["next"], tasks["queue_head"])
        self.front, self.front_task = listed(visits["next"], tasks["front_head"])
        kinds = visits["kind"]
        if (kinds[self.front] != SNAPSHOT).any() or (kinds[self.queued] != TUPLE).any():
            return "tuples or work are in front of the queues"
        if not np.isin(kinds[self.serving], (TUPLE, SNAPSHOT)).all():
            return "tasks work for control"
        if self.by_barriers and ((kinds[self.serving] == SNAPSHOT).any() or self.front.size):
            return "tasks write snapshots"
        self.tuples = np.concatenate([self.serving[kinds[self.serving] == TUPLE], self.queued, self.way])
        if visits["replayed"][self.tuples].any():
            return "tuples are replayed"
        if (visits["task"][self.tuples] != self.partition_task[visits["partition"][self.tuples]]).any():
            return "tuples are on their way to tasks that have lost them"
        if (loop.sources["emitted"] != loop.sources["arrived"]).any():
            return "tuples wait at a source"
        arrivals = self.events[self.events["kind"] == CREATE]
        own_rank = SERVICE + self.partition_task[loop.sources["partition"][arrivals["ref"]]]
        if (
            arrivals["rank"] != own_rank
        ).any():  # the scan would put it in the place of the task that the source has now
            return "the next arrival at a source was set before it came to its task"
        return self._is_kept_apart() if self.keeps else None

    def _is_kept_apart(self) -> str | None:
        """Find the senders and the numbers of what is kept upstream; return why a log has not all of it."""
        loop, visits = self.loop, self.loop.visits
        used = int(loop.tables["pairs"])
        pairs = loop.pairs[:used][loop.pairs["live"][:used] != NONE]
        nodes, of_pair = nodes_of(loop, pairs)
        sender, receiver, pos = (
            pairs["sender"][of_pair],
            pairs["receiver"][of_pair],
            self._positions(nodes, pairs["receiver"][of_pair]),
        )
        by_node = np.full(loop.nodes.shape[0], NONE, np.int64)
        by_node[nodes] = sender
        own = visits["node"][self.tuples]
        if (own == NONE).any() or (by_node[own] == NONE).any():
            return "tuples are on their way that nobody keeps"
        self.sender = by_node[own]
        coming = np.zeros(loop.nodes.shape[0], np.bool_)
        coming[own] = True
        applied = ~coming[nodes]
        if (pos[applied] == NONE).any() or (pos[~applied] != NONE).any():
            return "outputs are kept twice"
        # Upstream forgets in the order of sending, up to the first that is not saved; the scan in that of arrival.
        place = np.zeros(loop.nodes.shape[0], np.int64)
        place[own] = np.arange(own.size)
        stands = np.where(applied, pos, FAR_NS + place[nodes])
        if (np.diff(stands)[of_pair[1:] == of_pair[:-1]] <= 0).any():
            return "outputs are applied in another order than they are kept in"
        way = visits[self.way]
        if self.way.size and (self.partition_task[self.sender[-self.way.size :]] != way["origin"]).any():
            return "tuples are on their way from tasks that have lost their senders"
        order = np.lexsort((pos[applied], receiver[applied]))
        self.logged_receiver, self.logged_sender = receiver[applied][order], sender[applied][order]
        count = np.bincount(self.logged_receiver, minlength=self.partitions)
        self.trimmed = loop.partitions["applied"][: self.partitions] - count
        if (pos[applied][order] != self.trimmed[self.logged_receiver] + runs(self.logged_receiver)).any():
            return "outputs are kept that their receivers have saved"
        return None

    def _positions(self, nodes: np.ndarray, receivers: np.ndarray) -> np.ndarray:
        """Return where the receivers have applied what is kept, or NONE."""
        loop = self.loop
        if loop.ids["clean"]:
            return loop.nodes["pos"][nodes].astype(np.int64)
        found = np.zeros(nodes.size, np.int64)
        find_positions(loop, receivers.astype(np.int64), nodes, found)
        return found

    # -- checkpoints

    def _is_saved_elsewhere(self) -> str | None:
        """Find the hosts of the next checkpoints, and those on their way; return what the scan cannot go on with."""
        if not self.saves:
            return None
        loop, trusted = self.loop, np.array(self.cluster.trusted)
        u = loop.partitions[: self.partitions]
        owner = self.task_host[self.partition_task]

        def usable(host: np.ndarray) -> np.ndarray:
            return (host >= 0) & (host != owner) & trusted[host]

        current = np.where(u["stored"] == 1, u["stored_checkpoint_host"], u["planned"])
        chosen = np.where(usable(u["planned"]), u["planned"], np.where(usable(current), current, NO_ANSWER))
        # The scan knows one host for the stored checkpoint and for the next.
        elsewhere = (u["stored"] == 1) & (u["stored_checkpoint_host"] != chosen)
        if not loop.options["remote_store"] and elsewhere.any():
            return "a checkpoint is stored elsewhere than the next one will be"
        if loop.options["remote_store"]:
            chosen = np.full(self.partitions, REMOTE)
        self.chosen = chosen
        t = loop.transfers
        on_way = self.events[np.isin(self.events["kind"], (AT_REMOTE, STORED, TRIM))]
        valid = t["incarnation"][on_way["ref"]] == u["incarnation"][t["partition"][on_way["ref"]]]
        if (on_way["kind"][~valid] == AT_REMOTE).any():
            return "a checkpoint of a partition that was lost is on its way"
        self.on_way = on_way[valid]
        snapshots = np.concatenate([self.serving, self.front])
        snapshots = snapshots[loop.visits["kind"][snapshots] == SNAPSHOT]
        of_snapshot = loop.visits["id"][snapshots].astype(np.int64)
        writer = np.concatenate([self.serving_task, self.front_task])[
            loop.visits["kind"][np.concatenate([self.serving, self.front])] == SNAPSHOT
        ]
        if (writer != self.partition_task[t["partition"][of_snapshot]]).any():
            return "a task writes a snapshot of a key group that has moved"
        shipped = self.on_way["ref"][self.on_way["kind"] != TRIM]
        begun = np.concatenate([shipped, of_snapshot])
        if (t["incarnation"][begun] != u["incarnation"][t["partition"][begun]]).any():
            return "a snapshot of a partition that was lost is being written"
        if (chosen[t["partition"][begun]] != t["checkpoint_host"][begun]).any():
            return "a checkpoint is on its way to another host than the next"
        nodes = begun[t["checkpoint_host"][begun] >= 0]
        if (t["life"][nodes] != loop.hosts["life"][t["checkpoint_host"][nodes]]).any():
            return "a checkpoint is on its way to a host that has died"
        saving_ = np.zeros(self.partitions, np.bool_)
        saving_[t["partition"][begun]] = True
        return None if np.array_equal(saving_, u["saving"] == 1) else "a checkpoint was lost on its way"


def _any(there: np.ndarray) -> bool:
    columns = [there[name] for name in there.dtype.names] if there.dtype.names else [there]
    return any(bool(np.any(column)) for column in columns)


FAR_NS = saving.FAR_NS
NO_ANSWER = -2  # control has to choose a host


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
        scan.links["free"] = loop.hosts["link_free"]
        self._boxes()
        self._queues()
        self._services()
        scan.operators["applied"], scan.operators["sum"] = loop.operators["applied"], loop.operators["sum"]
        self._audit()
        self._states()
        if self.rest.by_barriers:
            self.rest.until_ns = self._until_ns()
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
        waits = self._parcels(np.arange(first, first + rest.queued.size), QUEUED)
        waits["ns"] = self.queued_ns = self._service_ns(waits, rest.queued_task)
        counts = np.bincount(rest.queued_task, minlength=rest.tasks)
        pieces = -(-counts // CHUNK)
        begin = np.cumsum(pieces) - pieces
        scan.chunks = np.zeros(int(pieces.sum()) * CHUNK, QUEUED)
        scan.chunk_next = np.arange(1, int(pieces.sum()) + 1, dtype=np.int32)
        some = counts > 0
        scan.chunk_next[(begin + pieces - 1)[some]] = NONE
        scan.chunks[begin[rest.queued_task] * CHUNK + runs(rest.queued_task)] = waits
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

    def _until_ns(self) -> int:
        """Return before when no watched task can be idle: it has to serve what waits there now."""
        rest, found = self.rest, FAR_NS
        for task in np.flatnonzero(self.loop.tasks["watched"][: rest.tasks] == 1).tolist():
            begin, end = np.searchsorted(rest.queued_task, (task, task + 1)).tolist()
            serves = bool(self.scan.servers["serving"][task])
            free = int(self.scan.servers["free"][task]) if serves else self.at_ns
            found = min(found, free + int(self.queued_ns[begin:end].sum()))
        return found

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
