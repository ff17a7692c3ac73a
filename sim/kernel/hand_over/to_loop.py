"""From the scan to the event loop: the state of a scan at the end of a span, in the records of the event loop.

Everything before the instant is done, nothing at it. What the event loop keeps and the scan does not know are the ids
of tuples that were applied before and are still kept upstream: their places among the kept outputs are made, without
ids (`Made.unknown`). They are of use only for their number, until later checkpoints cover them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.clock import ARRIVAL, SERVICE
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop import hash_tables, pools
from sim.kernel.event_loop.buffers import UNPINNED
from sim.kernel.event_loop.codes import (
    ARRIVE,
    AT_REMOTE,
    CREATE,
    END,
    GROUPED,
    MARK,
    MARKED,
    NEVER,
    NONE,
    ROUND,
    SNAPSHOT,
    STORED,
    TRIM,
    TUPLE,
)
from sim.kernel.event_loop.entities import VISIT
from sim.kernel.event_loop.events import EVENT
from sim.kernel.event_loop.free_lists import TRANSFER
from sim.kernel.event_loop.hash_tables import KEY
from sim.kernel.hand_over import event_time, windows
from sim.kernel.hand_over.kept import logged_in, with_nodes
from sim.kernel.hand_over.lists import chained_by, order_by, queued, runs
from sim.kernel.hand_over.sources import Kept
from sim.kernel.scan.entities import QUEUED
from sim.kernel.scan.saving import FAR_NS, keys_of
from sim.kernel.scan.state import ScanState
from sim.kernel.tools.draws import UNSURE
from sim.kernel.tools.pointer import State, records

_NS = 1e9
_SECOND = 1_000_000_000
_EPOCH = 2  # of all partitions: a key that was touched since the last snapshot is of it


@dataclass(frozen=True)
class Made:
    """What later questions about a hand-over need.

    `unknown` (n_pairs,): by pair the number of the first kept output with an id. `base` (n_partitions,): applied tuples
    before it. `coming` (n,): what was not applied. `rows`: checkpoints that were taken. `emitted` (n_sources,) and
    `ticks` (n_partitions,): outputs of sources and timers.
    """

    at_ns: int
    unknown: np.ndarray
    base: np.ndarray
    coming: np.ndarray
    rows: int
    emitted: np.ndarray
    ticks: np.ndarray


def fill(
    scan: ScanState,
    loop: State,
    plan: RunPlan,
    cluster: Cluster,
    at_ns: int,
    round_number: int,
    kept: Kept | None = None,
    opens_again: bool = False,
) -> Made:
    """Make the state of the event loop that of the scan at this instant.

    Where barriers take checkpoints `kept` says what sources keep; of snapshots the event loop has known all the time.
    With `opens_again` windows can be opened again that are open now.
    """
    return _Filling(scan, loop, plan, cluster, at_ns, kept).all(round_number, opens_again)


def forget_tuples(loop: State) -> None:
    """Free what the event loop has of tuples and their keys: the scan has the run."""
    for name in ("visit", "node", "chunk"):
        pool = getattr(loop, f"{name}_pool")
        pool["left"], pool["free"] = 0, NONE
    fresh = pools.empty()
    for name in ("visits", "nodes", "piece_next", "pairs", "pair_index", "positions", "keys"):
        setattr(loop, name, fresh[name])
    for name in ("log", "log_next", "log_newest"):
        setattr(loop, name, fresh[name])
    for name in ("pairs", "positions", "keys"):
        loop.tables[name] = 0
    for name in ("log_first", "log_last", "out_pair", "in_pair", "held_head", "held_tail"):
        loop.partitions[name] = NONE
    # In-flight data, too: the job never goes back to a checkpoint from before a hand-over (`barriers`).
    for name in ("overtaken_head", "overtaken_tail", "in_flight_head"):
        loop.partitions[name] = NONE
    loop.partitions["in_flight_n"] = loop.partitions["in_flight_bytes"] = 0
    for name in ("front", "queue", "serving"):
        loop.tasks[f"{name}_head"] = loop.tasks[f"{name}_tail"] = NONE
    windows.forget(loop)


class _Filling:
    def __init__(
        self, scan: ScanState, loop: State, plan: RunPlan, cluster: Cluster, at_ns: int, kept: Kept | None
    ) -> None:
        self.scan, self.loop, self.plan, self.cluster, self.at_ns = scan, loop, plan, cluster, at_ns
        self.kept = kept
        self.saves = bool(scan.saves)
        self.keeps = self.saves and bool(plan.replays)
        # The cluster may say already what the verb will do for which the event loop takes the run over.
        self.tasks, self.partitions = scan.task_host.size, scan.partition_task.size
        self.task_operator = scan.servers["operator"]
        self.partition_task = scan.partition_task.astype(np.int64)
        self.task_host = scan.task_host.astype(np.int64)
        self.events: list[np.ndarray] = []
        self.serial = int(loop.clock["serial"])

    def all(self, round_number: int, opens_again: bool) -> Made:
        """Fill everything."""
        loop, scan = self.loop, self.scan
        self._empty()
        self._arrivals()
        visits = self._visits()
        self._states()
        if scan.watermarks:
            windows.to_loop(scan, loop, opens_again)
            for event in event_time.to_loop(scan, loop):
                self._event(event.time, event.rank, self._serials(event.ref.size), event.kind, event.ref)
        if self.saves:
            self._partitions()
            self._round(round_number)
        unknown = self._kept(visits) if self.keeps else np.zeros(0, np.int64)
        if self.kept is not None:
            self.kept.write(loop.sources["emitted"])
        loop.visits = visits if visits.size else np.zeros(1, VISIT)[:0]
        self._heap()
        loop.operators["applied"], loop.operators["sum"] = scan.operators["applied"], scan.operators["sum"]
        loop.clock["now"], loop.clock["serial"] = self.at_ns, self.serial
        coming, base = visits[visits["kind"] == TUPLE], loop.partitions["applied"].copy()
        rows = int(loop.checkpointing["rows"])
        ticks = loop.partitions["ticks"].copy()
        return Made(self.at_ns, unknown, base, coming, rows, loop.sources["emitted"].copy(), ticks)

    def _empty(self) -> None:
        """Forget all that was there of tuples and events; the rows, tasks and hosts stay."""
        loop = self.loop
        if self.kept is None:
            loop.transfers, loop.transfer_pool["left"], loop.transfer_pool["free"] = pools.empty()["transfers"], 0, NONE
            loop.partitions["trimmed"] = 0
        else:
            self.events.append(loop.heap[: int(loop.queue["in_heap"])].copy())
        forget_tuples(loop)
        fresh = pools.empty()
        for name in ("heap", "near", "far"):
            setattr(loop, name, fresh[name])
        for name in ("near_first", "near_count", "far_first", "far_count", "in_heap"):
            loop.queue[name] = 0
        loop.queue["vacant"], loop.ahead["drawn"] = NONE, 0
        loop.tournament = np.full(loop.tournament.shape[0], NEVER)
        for name in ("oldest", "closed"):
            loop.ids[name] = 0
        loop.ids["clean"], loop.ids["pinned"] = 1, UNPINNED
        loop.partitions["replay_task"] = NONE
        for name in ("held_n", "kept_rows", "new_kept_bytes", "replay_pending"):
            loop.partitions[name] = 0
        loop.tasks["queue_n"] = loop.tasks["front_n"] = 0
        loop.room["budget"] = 0
        loop.messages["second"] = self.at_ns // _SECOND * _SECOND

    def _event(self, time: np.ndarray, rank: np.ndarray, seq: np.ndarray, kind: int, ref: np.ndarray) -> None:
        made = np.zeros(np.size(ref), EVENT)
        made["time"], made["rank"], made["seq"], made["kind"], made["ref"] = time, rank, seq, kind, ref
        self.events.append(made)

    def _serials(self, count: int) -> np.ndarray:
        made = self.serial + np.arange(count)
        self.serial += count
        return made

    def _heap(self) -> None:
        """All events wait in the heap: what is in order is one."""
        found = np.concatenate([np.zeros(0, EVENT), *self.events])
        if (found["time"] < self.at_ns).any():
            raise RuntimeError("the scan gives the run away before it has done what comes before that")
        heap = records(max(2, 2 * found.size), EVENT)
        heap["time"][0] = NEVER
        heap[: found.size] = found[np.lexsort((found["seq"], found["rank"], found["time"]))]
        self.loop.heap = heap
        self.loop.queue["in_heap"] = found.size

    def _arrivals(self) -> None:
        """Copy what has arrived at sources and is not emitted, and the next arrival of each."""
        scan, loop = self.scan, self.loop
        arrivals = scan.arrivals.copy()
        loop.arrivals = arrivals
        loop.sources[:] = scan.sources
        due = np.flatnonzero(loop.sources["arrived"] < loop.sources["have"])
        own = loop.sources[due]
        times = arrivals["time"][own["offset"] + own["arrived"] - own["base"]]
        self._event(times, SERVICE + self.partition_task[own["partition"]], self._serials(due.size), CREATE, due)

    # -- tuples

    def _visits(self) -> np.ndarray:
        """Tuples on their way, in service and in queues, and snapshots that are being written."""
        waiting = self._waiting()  # what waits was sent before what is on its way
        coming, served = self._on_their_way(), self._served()
        snapshots, occupied = self._snapshots()
        in_service, in_front = served.size, occupied.size
        visits = records(coming.size + waiting.size + in_service + in_front, VISIT)
        first = np.cumsum([0, coming.size, waiting.size, in_service])
        for begin, part in zip(first.tolist(), (coming, waiting, served, snapshots), strict=True):
            visits[begin : begin + part.size] = part
        numbers = np.arange(visits.size)
        visits["next"] = NONE
        self._line_up(visits, numbers[first[1] : first[2]], "queue")
        in_queues = waiting["task"][waiting["kind"] == TUPLE]
        self.loop.tasks["queue_n"][: self.tasks] = np.bincount(in_queues, minlength=self.tasks)
        # Of several threads the services are in the order of their starts; a snapshot that has begun is one of them.
        begun = np.concatenate([numbers[first[2] : first[3]], numbers[first[3] :][occupied["begun"]]])
        begun = begun[np.lexsort((visits["start"][begun], visits["task"][begun]))]
        self._line_up(visits, begun, "serving")
        self._line_up(visits, numbers[first[3] :][~occupied["begun"]], "front")
        ends = np.concatenate([self.ends, occupied["end"]])[begun - first[2]]
        order = np.argsort(visits["start"][begun], kind="stable")
        self._event(
            ends[order],
            SERVICE + visits["task"][begun[order]].astype(np.int64),
            self._serials(begun.size),
            END,
            begun[order],
        )
        self._count_threads(visits["task"][begun])
        self._number_in_queues(visits, numbers[first[1] : first[2]], numbers[first[3] :], occupied)
        self.unapplied = np.concatenate([numbers[first[2] : first[3]], numbers[first[1] : first[2]]])
        self.under_way = numbers[: coming.size]
        return visits

    def _line_up(self, visits: np.ndarray, numbers: np.ndarray, lane: str) -> None:
        """Make lists of visits that stand task by task, in order."""
        tasks = visits["task"][numbers]
        heads, tails = chained_by(visits["next"], numbers, tasks)
        self.loop.tasks[f"{lane}_head"][tasks[heads]] = numbers[heads]
        self.loop.tasks[f"{lane}_tail"][tasks[tails]] = numbers[tails]

    def _tuples(self, parcels: np.ndarray, **fields: object) -> np.ndarray:
        made = np.zeros(parcels.size, VISIT)
        for name in ("id", "created", "key", "partition"):
            made[name] = parcels[name]
        made["arrival"], made["start"], made["service"], made["node"] = parcels["at"], NONE, UNSURE, NONE
        made["task"] = self.partition_task[parcels["partition"]]
        made["kind"], made["arrived"] = TUPLE, 1
        made["origin"] = self._origins(parcels["partition"])
        for name, value in fields.items():
            made[name] = value
        if self.scan.watermarks:
            event_time.name_inputs(self.scan, self.plan, made)
            event_time.set_marks(self.scan, made, parcels)
        return made

    def _origins(self, partitions: np.ndarray) -> np.ndarray:
        """Return who may have sent what has arrived at these partitions (n,): nobody asks, but for its size.

        Barriers that overtake ask that, and all that an operator gets has one size then.
        """
        if not self.plan.scenario.fault_tolerance.unaligned:
            return np.full(partitions.size, NONE)
        first, sends = self.loop.operators["first_task"], np.full(len(self.plan.operators), NONE)
        for operator in self.plan.operators:
            sends[[edge.down.index for edge in operator.edges]] = first[operator.index]
        return sends[self.scan.partition_operator[partitions]]

    def _on_their_way(self) -> np.ndarray:
        scan = self.scan
        boxes = [scan.box[int(box["first"]) :][: int(box["n"])] for box in scan.boxes[:-1]]
        on_links = self._on_links()
        parcels = np.concatenate([*boxes, on_links])
        tasks = self.partition_task[parcels["origin"]] if self.saves else parcels["origin"]
        made = self._tuples(parcels, wire=1, arrived=0, serial=self._serials(parcels.size), origin=tasks)
        self.senders = parcels["origin"].astype(np.int64)
        rank = ARRIVAL + made["task"].astype(np.int64) * (1 << 24) + made["origin"]
        for kind, own in ((ARRIVE, made["kind"] == TUPLE), (MARKED, made["kind"] == MARK)):
            self._event(parcels["at"][own], rank[own], made["serial"][own], kind, np.flatnonzero(own))
        return made

    def _on_links(self) -> np.ndarray:
        """Copy what waits in front of the links: when it arrives is known, as nothing passes it."""
        scan, loop = self.scan, self.loop
        found: list[np.ndarray] = []
        for host in range(len(self.plan.host_groups)):
            waits = queued(scan, int(scan.options["tasks"]) + host)
            free, rate = int(scan.links["free"][host]), float(scan.links["rate"][host])
            sizes = scan.operators["bytes"][self.task_operator[waits["origin"]]]
            for one, size in zip(waits, sizes.tolist(), strict=True):
                free = max(free, int(one["at"])) + int(np.rint(size * _NS / rate))
                one["at"] = free + self.plan.latency_ns
            if rate:
                loop.hosts["link_free"][host] = loop.hosts["free_alone"][host] = free
            found.append(waits[[*scan.box.dtype.names]].astype(scan.box.dtype))
        return np.concatenate(found)

    def _waiting(self) -> np.ndarray:
        counts = self.scan.queues["n"][: self.tasks]
        waits = np.empty(int(counts.sum()), QUEUED)
        for task in np.flatnonzero(counts).tolist():
            first = int(counts[:task].sum())
            waits[first : first + int(counts[task])] = queued(self.scan, task)
        made = self._tuples(waits)
        marks = made["kind"] == MARK
        made["serial"][marks] = self._serials(int(marks.sum()))
        return made

    def _served(self) -> np.ndarray:
        servers = self.scan.servers
        places = [
            np.arange(first, first + n) for first, n in zip(servers["first_thread"], servers["serving"], strict=True)
        ]
        slots = self.scan.slots[np.concatenate(places).astype(np.int64)]
        made = self._tuples(slots, start=slots["start"])
        self.ends = slots["end"]
        return made

    def _snapshots(self) -> tuple[np.ndarray, np.ndarray]:
        """Snapshots that tasks are writing or will write next, and the checkpoints on their way."""
        kinds = np.zeros(0, [("end", "i8"), ("begun", "?")])
        if not self.saves:
            return np.zeros(0, VISIT), kinds
        scan = self.scan
        found = scan.happenings[: int(scan.agenda["count"])]
        found = found[np.lexsort((found["serial"], found["rank"], found["time"]))]
        self.loop.transfers = self._transfers(found)
        numbers = np.arange(found.size)
        for kind in (AT_REMOTE, STORED, TRIM):
            own = found["kind"] == kind
            self._event(found["time"][own], found["rank"][own], self._serials(int(own.sum())), kind, numbers[own])
        own = np.flatnonzero(found["kind"] == END)
        rows = scan.checkpoint_rows[found["row"][own]]
        ns = np.maximum(1, np.rint(rows["bytes"] * _NS / scan.operators["serialise"][rows["operator"]])).astype(
            np.int64
        )
        made, ends = np.zeros(own.size, VISIT), np.zeros(own.size, kinds.dtype)
        made["kind"], made["id"], made["created"], made["next"], made["partition"] = SNAPSHOT, own, ns, NONE, NONE
        made["task"] = self.partition_task[found["partition"][own]]
        ends["end"] = found["time"][own]
        ends["begun"] = ends["end"] - ns < self.at_ns
        made["start"] = np.where(ends["begun"], ends["end"] - ns, NONE)
        made["arrival"] = rows["taken"]
        order = np.lexsort((found["serial"][own], ends["end"], made["task"]))
        return made[order], ends[order]

    def _transfers(self, found: np.ndarray) -> np.ndarray:
        made = np.zeros(found.size, TRANSFER)
        loop = self.loop
        for name in ("partition", "row"):
            made[name] = found[name]
        made["incarnation"] = loop.partitions["incarnation"][found["partition"]]
        made["departure"] = np.minimum(found["time"] - self.plan.latency_ns, self.at_ns - 1)
        made["stored_bytes"], made["batch"], made["next"] = found["bytes"], NONE, NONE
        made["count"] = self._counts(found)
        made["origin"] = self.partition_task[found["partition"]]
        made["checkpoint_host"] = self.scan.saved["checkpoint_host"][found["partition"]]
        shipped = found["kind"] != TRIM
        made["bytes"][shipped] = self.scan.checkpoint_rows["bytes"][found["row"][shipped]]
        nodes = shipped & (made["checkpoint_host"] >= 0)
        made["life"][nodes] = loop.hosts["life"][made["checkpoint_host"][nodes]]
        return made

    def _counts(self, found: np.ndarray) -> np.ndarray:
        """Return how many applied tuples each checkpoint or note covers; a pool has an instant in place of it."""
        assert not self.scan.saved["pool"][found["partition"]].any(), (
            "a pool of threads keeps the order of its services"
        )
        return found["count"]

    def _count_threads(self, busy: np.ndarray) -> None:
        """Free threads and cores, where these tasks have a service each."""
        loop = self.loop
        serving = np.bincount(busy, minlength=self.tasks)
        threads = np.array([self.plan.operators[operator].description.threads for operator in self.task_operator])
        loop.tasks["idle_threads"][: self.tasks] = threads - serving
        loop.tasks["busy"][: self.tasks] = self.scan.servers["busy"]
        used: dict[int, int] = {}
        for task in np.flatnonzero(loop.tasks["alive"][: self.tasks]).tolist():
            cores, host = int(loop.tasks["cores"][task]), int(self.task_host[task])
            shared = bool(loop.hosts["shared"][host])
            most = int(loop.hosts["core_count"][host]) if shared else int(threads[task])
            used[cores] = used.get(cores, most) - int(serving[task])
        for cores, free in used.items():
            loop.cores["free"][cores] = free

    def _number_in_queues(
        self, visits: np.ndarray, queues: np.ndarray, snapshots: np.ndarray, occupied: np.ndarray
    ) -> None:
        """Give what waits its place in the order in which it came to its host: control first, then by channel."""
        front = snapshots[~occupied["begun"]]
        waits = np.concatenate([front, queues])
        one = visits[waits]
        in_order = one["kind"] != SNAPSHOT
        keys = (np.arange(waits.size), np.where(in_order, one["task"], NONE), one["arrival"])
        before = int(self.loop.hosts["tickets"].max())
        visits["ticket"][waits[np.lexsort(keys)]] = before + 1 + np.arange(waits.size)
        self.loop.hosts["tickets"] = before + waits.size

    # -- checkpoints

    def _states(self) -> None:
        """Fill in what each partition has applied, and its keys."""
        own, saved = self.loop.partitions[: self.partitions], self.scan.saved
        own["applied"] = own["base"] = saved["applied"]
        own["forgotten"] = 0
        own["keys"], own["touched"], own["epoch"], own["based"] = saved["keys"], saved["touched"], _EPOCH, _EPOCH - 1
        self._keys()

    def _partitions(self) -> None:
        """Fill in what the partitions keep, and their checkpoints."""
        loop, saved = self.loop, self.scan.saved
        own = loop.partitions[: self.partitions]
        size = self.scan.operators["bytes"][own["operator"]]
        own["at_snapshot"], own["stored_count"] = saved["applied_then"], saved["applied_then"]
        own["trimmed"] = saved["trimmed"]
        if self.keeps:
            own["kept_rows"] = saved["sent"] - saved["forgotten"]
            own["new_kept_bytes"] = (saved["sent"] - saved["sent_then"]) * size
        own["saving"], own["stored"] = saved["on_its_way"], saved["stored"]
        own["stored_checkpoint_host"] = saved["checkpoint_host"]
        own["stored_incarnation"] = own["incarnation"]
        planned = self.cluster.planned_checkpoint_host[: self.partitions]
        own["planned"] = [NONE if host is None else host for host in planned]
        loop.checkpoint_rows = self.scan.checkpoint_rows.copy()
        loop.checkpointing["rows"] = self.scan.saved_rows["checkpoints"]
        loop.remote_link["free"] = self.scan.remote_link["free"]

    def _round(self, number: int) -> None:
        scan, loop = self.scan, self.loop
        if not scan.round_partitions.size:
            return
        loop.round_partitions, loop.round_offsets = scan.round_partitions.copy(), scan.round_offsets.copy()
        for name, theirs in (("interval", "interval"), ("round_begin", "begin"), ("round_next", "next")):
            loop.checkpointing[name] = scan.round[theirs]
        due = scan.round["begin"] + scan.round_offsets[int(scan.round["next"])]
        self._event(due, np.array(1), np.array(number), ROUND, np.zeros(1, np.int64))

    def _keys(self) -> None:
        """The keys that each partition has, and which of them changed since the last snapshot."""
        scan, loop = self.scan, self.loop
        found: list[np.ndarray] = []
        for operator in self.plan.operators:
            first = self.plan.first_partition[operator.index]
            places = scan.saved["first_key"][first : first + operator.description.groups]
            if places[0] == NONE:
                continue
            keys = keys_of(self.plan, operator)
            assert keys is not None
            seen = scan.key_epochs[int(places[0]) :]
            if keys.parted:
                known = np.flatnonzero(seen[: keys.count])
                partition, key = self._partition_of(operator.index)[known], known
            else:
                known = np.flatnonzero(seen[: keys.count * places.size])
                partition, key = first + known // keys.count, known % keys.count
            made = records(known.size, KEY)
            made["partition"], made["key"] = partition, key
            made["epoch"] = np.where(seen[known] >= scan.saved["low"][partition], _EPOCH, _EPOCH - 1)
            found.append(made)
        if not found:
            return
        count = sum(one.size for one in found)
        loop.keys = np.concatenate(found)
        table = records(pools.power(4 * max(1, count)), KEY)
        table["partition"] = NONE
        hash_tables.rehash_keys(loop, table)
        loop.keys = table
        loop.tables["keys"] = count

    def _partition_of(self, operator: int) -> np.ndarray:
        """Return the partition of each key of an operator that gets its tuples by key."""
        scan = self.scan
        edge = next(edge for edge in scan.edges if edge["down"] == operator)
        first, groups = int(edge["first_partition"]), int(edge["partitions"])
        if edge["kind"] == GROUPED:
            return first + np.arange(groups)
        return first + scan.key_tables[int(edge["table"]) :].astype(np.int64)

    # -- kept outputs

    def _kept(self, visits: np.ndarray) -> np.ndarray:
        """The outputs that are kept, in order, by pair of partitions; those that were applied have no id."""
        logged = logged_in(self.scan)
        applied = self.scan.saved["applied"]
        # What has come to a partition and is not applied are the last of its log, in the order of the services.
        of = visits["partition"][self.unapplied]
        order = np.argsort(of, kind="stable")  # services come first in `unapplied`, then queues
        waits, rank = self.unapplied[order], runs(of[order])
        number = applied[visits["partition"][waits]] + rank
        entries = np.concatenate([logged, np.zeros(self.under_way.size, logged.dtype)])
        way = entries[logged.size :]
        way["sender"], way["receiver"] = self.senders, visits["partition"][self.under_way]
        way["n"], way["visit"] = FAR_NS, self.under_way
        logged_own = entries[: logged.size]
        keys = logged_own["receiver"] * (1 << 40) + logged_own["n"]
        at = np.searchsorted(keys, visits["partition"][waits].astype(np.int64) * (1 << 40) + number)
        logged_own["visit"][at] = waits
        # Those of one receiver stand in order already, with those that are under way behind the others.
        return with_nodes(self.loop, visits, entries[order_by(entries["sender"], entries["receiver"])])
