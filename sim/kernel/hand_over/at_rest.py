"""What the event loop has at an instant, and why the scan could not go on with it.

Everything before the instant is done, nothing at it. The scan knows nothing of ids, replays, tuples that are held, and
tasks that died: as long as there are any, the event loop goes on.
"""

from __future__ import annotations

import numpy as np

from sim.clock import SERVICE
from sim.control.cluster import Cluster, RunPlan
from sim.kernel.event_loop.codes import (
    ARRIVE,
    AT_REMOTE,
    CREATE,
    END,
    MARK,
    MARKED,
    NONE,
    ROUND,
    SNAPSHOT,
    STORED,
    TICK,
    TIMER,
    TRIM,
    TUPLE,
)
from sim.kernel.event_loop.hash_tables import find_positions
from sim.kernel.hand_over import event_time
from sim.kernel.hand_over.lists import events_of, listed, nodes_of, order_by, runs
from sim.kernel.scan.saving import FAR_NS
from sim.kernel.tools.pointer import State
from sim.plane_values import REMOTE

NO_ANSWER = -2  # control has to choose a host
_KNOWN_EVENTS = (ARRIVE, END, CREATE, ROUND, AT_REMOTE, STORED, TRIM, TICK, TIMER, MARKED)


class LoopAtRest:
    """What the event loop has at an instant, and why the scan could not go on with it (`hindrance`, if anything)."""

    def __init__(self, loop: State, plan: RunPlan, cluster: Cluster, at_ns: int, by_barriers: bool = False) -> None:
        """`by_barriers`: these take checkpoints, and only sources keep outputs."""
        self.loop, self.plan, self.cluster, self.at_ns = loop, plan, cluster, at_ns
        self.by_barriers = by_barriers
        self.saves = plan.scenario.fault_tolerance.takes_checkpoints and not by_barriers
        self.keeps = self.saves and plan.replays
        self.tasks, self.partitions = len(cluster.task_operator), len(cluster.partition_task)
        self.partition_task = np.array(cluster.partition_task, np.int64)
        self.task_host = np.array(cluster.task_host, np.int64)
        self.hindrance = (
            self._is_split_up()
            or self._is_acted_upon()
            or self._is_mixed_up()
            or self._hears_apart()
            or self._is_saved_elsewhere()
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
            ("key groups have next tasks", partitions["goal"] != NONE),
            ("control waits for frontiers", loop.frontiers["over"] == 0),
            ("partitions are muted, timed or announced", partitions[["muted", "measured", "announced"]]),
            ("barriers are on their way", self._has_barriers(partitions)),
            ("barriers overtake", self._have_begun_to_overtake(tasks)),
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

    def _have_begun_to_overtake(self, tasks: np.ndarray) -> np.ndarray:
        """Return of which tasks (n_tasks,) a barrier has come that waits for a service or for other channels."""
        return np.asarray(tasks["passage"] != 0)

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
        self.lines, self.lines_task = listed(visits["next"], tasks["queue_head"])  # tuples and watermarks
        is_mark = visits["kind"][self.lines] == MARK
        self.queued, self.queued_task = self.lines[~is_mark], self.lines_task[~is_mark]
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

    def _hears_apart(self) -> str | None:
        """Collect the watermarks that are on their way; return what of event time the scan does not know."""
        loop, visits = self.loop, self.loop.visits
        come = self.events[self.events["kind"] == MARKED]
        come = come[np.argsort(visits["serial"][come["ref"]], kind="stable")]
        self.marks, self.marks_at = come["ref"].astype(np.int64), come["time"]
        marks = np.concatenate([self.marks, self.lines[visits["kind"][self.lines] == MARK]])
        origin, task = visits["origin"][marks], visits["task"][marks]
        if not (loop.tasks["alive"][origin].all() and loop.tasks["alive"][task].all()):
            return "a watermark is on its way from or to a task that has died"
        if visits["id"][marks].any() or (origin == task).any():
            return "watermarks are heard again"
        if not loop.event_time["mark_fan"]:
            return None
        return event_time.hindrance(loop, self.partition_task, self.task_host, self.plan.latency_ns)

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
        order = order_by(receiver[applied], pos[applied])
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
