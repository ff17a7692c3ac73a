"""The compiled plane behind the interface of `sim.data_plane`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from models.scenario.recovery_methods import Trimming
from models.units import to_ns
from sim.arrival_stream import ArrivalStream
from sim.clock import Clock
from sim.control.cluster import Cluster, RunPlan
from sim.control.placing import operators_above
from sim.data_plane import Listener
from sim.kernel.event_loop import (
    channels,
    emitting,
    in_flight,
    instances,
    loop,
    open_keys,
    pools,
    restoring,
    room,
    rows,
    setup,
    sharing,
    source_events,
    verbs,
)
from sim.kernel.event_loop import (
    tasks as service,
)
from sim.kernel.event_loop.acks import Acks
from sim.kernel.event_loop.acting import Actions, Moves
from sim.kernel.event_loop.answers import Answers
from sim.kernel.event_loop.codes import ASKED, GROW, LIMIT, NONE, REFILL, ROUND, SLICED, TRIMMING, WORKED
from sim.kernel.event_loop.entities import CHECKPOINT, MESSAGE_ROW
from sim.kernel.event_loop.frontiers import FRONTIER
from sim.kernel.event_loop.outbox import WITHHELD
from sim.kernel.event_loop.parcels import Parcels
from sim.kernel.event_loop.reading import Reading
from sim.kernel.event_loop.rules import RULE
from sim.kernel.event_loop.saved_outputs import SavedOutputs
from sim.kernel.event_loop.state import LoopState
from sim.kernel.event_loop.tasks import DROPPED
from sim.kernel.event_loop.timed_actions import TIMED
from sim.pace import FULL, pace_of
from sim.plane_values import NO_HOST, REMOTE, Key
from sim.recording import HistogramRecording, recording_of

# Arrivals are read soon after they were written: so many of them stay in the processor's caches.
_ARRIVALS = 2**17  # in the buffers of all sources together


class CompiledPlane(Actions, Acks, Moves, Parcels, Reading, Answers):
    """Tuples, queues, links, buffers and checkpoints on arrays; every event is done by the kernel of `loop`."""

    _loop: Callable[..., int] = staticmethod(loop.advance)

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> None:
        self._plan, self._cluster, self._clock, self._listener = plan, cluster, clock, listener
        self.recording = self._kept = recording_of(plan.scenario, plan.inputs)
        Parcels.__init__(self)
        Reading.__init__(self)
        self._checkpoints: list[np.ndarray] = []
        self._told_hosts: tuple[list[bool], list[bool]] | None = None
        self._block = max(256, min(2**16, _ARRIVALS // max(1, self._source_count())))
        self._streams = self._arrival_streams()
        self.state = self._state()
        self._saved_outputs = SavedOutputs(plan, self.state)
        if setup.needs_more(plan):
            self.state.extend()
        for task in range(len(cluster.task_operator)):
            self.add_task(task)
        self._open_logs()
        for source in range(self.state.sources.shape[0]):
            if source not in self._logs:
                self._refill(source)
            source_events.schedule_arrival(self.state, source)
        setup.start(self.state, plan, cluster)

    def _source_count(self) -> int:
        return sum(self._plan.operators[operator].is_source for operator in self._cluster.partition_operator)

    def _arrival_streams(self) -> list[ArrivalStream]:
        plan, cluster = self._plan, self._cluster
        return [
            ArrivalStream(
                plan.scenario,
                plan.operators[operator].name,
                cluster.partition_index[partition],
                plan.replication,
                plan.inputs.rates.get(plan.operators[operator].name),
                self._block,
            )
            for partition, operator in enumerate(cluster.partition_operator)
            if plan.operators[operator].is_source
        ]

    def _state(self) -> LoopState:
        plan, cluster = self._plan, self._cluster
        operators = setup.operator_records(plan)
        edges, key_tables = setup.edge_records(plan)
        draws = setup.draw_records(plan)
        hosts, cores = setup.host_records(plan)
        sources = setup.source_records(plan, cluster, 2 * self._block)
        options, partitions = setup.options(plan, operators, edges), setup.partition_records(plan, cluster)
        made = LoopState(
            options=options,
            tasks=setup.task_records(max(4, 2 * len(cluster.task_operator))),
            cores=cores,
            hosts=hosts,
            partitions=partitions,
            unfinished=setup.unfinished_records(partitions.size * int(options["slots"][0])),
            operators=operators,
            draws=draws.records,
            postponements=draws.postponements,
            polls=draws.polls,
            input_draws=draws.by_input,
            entry_bytes=setup.entry_bytes(plan),
            closed_keys=setup.closed_keys(plan, operators),
            edges=edges,
            key_tables=key_tables,
            cumulative=draws.cumulative,
            quantiles=draws.quantiles,
            sources=sources,
            arrivals=pools.arrivals(max(1, sources.shape[0]) * 2 * self._block),
            round_partitions=np.zeros(0, np.int64),
            round_offsets=np.zeros(0, np.int64),
            dropped_rows=np.zeros(64, DROPPED),
            checkpoint_rows=np.zeros(64, CHECKPOINT),
            message_rows=np.zeros(2**13, MESSAGE_ROW),
            notices=np.zeros(64, np.int64),
            rules=np.zeros(0, RULE),
            timed=np.zeros(0, TIMED),
            routing=np.zeros(0, np.int32),
            withheld=np.zeros(0, WITHHELD),
            frontiers=np.zeros(0, FRONTIER),
            above=operators_above(plan).ravel(),
            pending=setup.pending_records(sources.shape[0]),
            **pools.empty(),
            **rows.arrays(self._kept, operators.shape[0]),
            **setup.empty_event_time(),
        )
        if plan.acker:
            made.acking["most"], made.acking["bytes"] = plan.acker.pending or 0, round(plan.acker.ack_bytes)
            made.acking["covered"] = plan.acker.acks == "covered"
            made.acking["over_links"] = plan.acker.transport == "links"
            made.ids["clean"] = 0  # a tuple may come twice from the start
        if plan.trimming:
            stateful = [plan.operators[operator].description.stateful for operator in cluster.partition_operator]
            pools.with_slices(made, plan.trimming, np.array(stateful), np.array(plan.hops_to_end, np.int64))
        made.remote_link["rate"] = plan.scenario.fault_tolerance.remote_bytes_per_s or 0.0
        return made

    # -- time

    def advance(self, limit: Key) -> bool:
        """Do all that comes before `limit`; True if the listener was told something."""
        self._kept.check_end(limit[0])
        pools.settle(self.state)
        if self.state.requests["dispatch"] != NONE or self.state.checkpointing["asked"] != NONE:
            told = self.state.tasks["marks"][self.state.requests["dispatch"]]
            marks = int(self.state.event_time["mark_fan"] * self.state.cluster["tasks"] * told)
            need = int(self.state.options["fan_out"]) + 2 + 2 * self.state.round_partitions.shape[0] + marks
            if not self._is_ample(need):
                self._grow(need)
        at = self.state.clock
        while True:
            at["control_number"] = self._clock.next_number()
            self._tell_hosts()
            why = self._loop(self.state, *limit)
            self._clock.take_numbers(int(at["control_number"]))
            if why == LIMIT:
                return False
            if why == GROW and self.state.room["rows_full"]:
                rows.make_room(self.state, self._kept, int(self.state.room["need"] + self.state.room["passing"]))
            elif why == GROW:
                self._grow(int(self.state.room["need"]))
            elif why == REFILL:
                self._refill(int(self.state.requests["refill"]))
            else:
                self._clock.move_to(int(self.state.clock["now"]))
                if why == WORKED:
                    self._listener.work_done(int(self.state.requests["token"]))
                elif why == ASKED:
                    partition = int(self.state.checkpointing["asked"])
                    chosen = self._listener.checkpoint_host(partition)
                    self.state.checkpointing["answer"] = chosen
                    if chosen != NO_HOST:
                        self.state.partitions["planned"][partition] = chosen
                self._tell()
                return True

    def _tell_hosts(self) -> None:
        """Which hosts are alive, and which control trusts, if that has changed."""
        known = (self._cluster.host_alive, self._cluster.trusted)
        if known != self._told_hosts:
            hosts = self.state.hosts[: len(known[0])]
            hosts["alive"], hosts["trusted"] = known
            self._told_hosts = (list(known[0]), list(known[1]))

    def _now(self) -> None:
        """Verbs act at the instant of the clock."""
        self.state.clock["now"] = self._clock.now_ns()

    def _may_come_twice(self) -> None:
        """Find tuples by their ids: a verb restores a state, has something sent again, or changes instances."""
        pools.look_ids_up(self.state, self._clock.now_ns())

    def _goes_back(self) -> None:
        """Find tuples by their ids, unless all that is connected goes back with what a verb brings back.

        Then a kept output knows whether it was applied, and only what sinks have got comes again (`open`).
        """
        if not self._rolls_back():
            self._may_come_twice()

    def _rolls_back(self) -> bool:
        return bool(self.state.options["rolls_back"] and self.state.ids["clean"])

    def _room(self, need: int) -> None:
        """Make room for so many sendings, and for all drops that a verb can cause."""
        self._now()
        if self.state.options["bounded"]:
            need += int(self.state.cluster["tasks"] + self.state.cluster["threads"])
        self.state.room["need"] = need
        if not self._is_ample(need):
            self._grow(need)

    def _is_ample(self, need: int) -> bool:
        """Return whether there is room already."""
        return bool(room.ample(self.state, need))

    def _grow(self, need: int) -> None:
        """Give the kernel larger arrays where room for `need` tuples is missing, and empty those that are read out."""
        self.state.room["budget"] = 0
        applied = need + int(self.state.room["passing"])
        self.state.room["passing"] = 0
        setup.grown(self.state)
        pools.forget_ids(self.state, applied, self._saved_outputs.pin)
        pools.grown(self.state, need, applied, int(self.state.room["burst"]))
        rows.make_room(self.state, self._kept, applied)

    def _flush(self) -> None:
        """Hand over what is known of tuples."""
        rows.hand_over(self.state, self._kept)
        rows.hand_over_passed(self.state, self._kept)

    def _refill(self, source: int) -> None:
        """The next arrivals at a source behind those that are not emitted yet."""
        pools.refilled(self.state, source, self._streams[source])

    # -- tasks and partitions

    def add_task(self, task: int) -> None:
        """A new, empty task."""
        cluster = self._cluster
        operator, host = cluster.task_operator[task], cluster.task_host[task]
        threads = self._plan.operators[operator].description.threads
        pools.with_task(self.state, task)
        group = self._plan.host_groups[host]
        shared = group.cpu == "shared"
        first = cluster.task_thread[task]
        if first != task:
            cores = int(self.state.tasks["cores"][first])
        else:
            cores = int(self.state.hosts["cores"][host]) if shared else pools.with_cores(self.state, threads)
        verbs.add_task(self.state, task, operator, host, cores, threads, shared and group.cores == 1)
        if self.state.event_time["mark_fan"]:
            setup.with_listener(self.state, task)

    def crash(self, host: int) -> None:
        """The host dies with its tasks and partitions."""
        self._told_hosts = None
        tasks = list(self._cluster.host_tasks[host])
        self._room(int(self.state.event_time["mark_fan"] * self.state.cluster["tasks"]) * len(tasks))
        self._goes_back()
        known = self.state.partitions["task"][: len(self._cluster.partition_task)]  # also of instances that are over
        partitions = np.flatnonzero(np.isin(known, tasks))
        verbs.crash_host(self.state, host, np.array(tasks, np.int64), partitions.astype(np.int64))
        cores = pools.with_cores(self.state, self._plan.host_groups[host].cores)
        self.state.hosts["cores"][host] = cores
        self._tell()

    def assign(self, partition: int, task: int) -> None:
        """Tuples for the partition go to this task."""
        self._plan.check_ids()
        verbs.assign(self.state, partition, task)

    def install(self, partition: int) -> int:
        """The state of the stored checkpoint becomes that of the partition."""
        self._plan.check_ids()
        self._now()
        self._goes_back()
        kept = int(restoring.past(self.state, partition))
        if kept:
            setup.grown(self.state, kept)
            self._room(kept)
        missing = int(verbs.install(self.state, partition))
        if self.state.partitions["stored"][partition] and self.state.partitions["stored_from"][partition] != NONE:
            self._room_to_copy(partition)
            instances.inherit(self.state, partition)
        its = self._plan.operators[self._cluster.partition_operator[partition]]
        if its.postpone_ns is not None and self._plan.replays:
            self._install_outputs(partition)
        return missing

    def _install_outputs(self, partition: int) -> None:
        """Have the post-dated outputs of the stored checkpoint wait again, and its open keys be as they were."""
        saved, keys = self._saved_outputs.stored(partition), self._saved_outputs.keys_of(partition)
        self._room(saved.outputs.size + saved.open_keys.size + 2)
        open_keys.restore_keys(self.state, partition, keys, saved.closed, saved.open_keys)
        over = saved.outputs["born"] <= self._clock.now_ns()
        due = saved.outputs[over]
        in_order = np.concatenate([due[np.argsort(due["born"], kind="stable")], saved.outputs[~over]])
        emitting.post_date_again(self.state, partition, in_order)

    def open(self, partition: int) -> None:
        """The partition is live."""
        self._plan.check_ids()
        if self._rolls_back() and self.state.partitions["is_sink"][partition]:
            pools.expect_again(self.state, partition)
        verbs.open_partition(self.state, partition)
        self._passed_at = (-1, -1, -1)  # a source that is back may emit what is older

    def release(self, partition: int) -> None:
        """Put the tuples that the partition held in front of its task's queue."""
        self._plan.check_ids()
        fan, u = int(self.state.options["fan_out"]), self.state.partitions[partition]
        again = int(u["in_flight_n"])
        serves = self.state.tasks["has_service"][u["task"]]
        self._room_for_copies(again, (fan + 2) * (int(u["held_n"]) + (0 if serves else again) + 2))
        if self.state.options["unaligned"]:
            in_flight.release_in_flight(self.state, partition)
        else:
            verbs.release(self.state, partition)
        self._tell()

    def resume(self, partition: int) -> None:
        """Emit what waits: arrivals at a source, what a timer has missed, or post-dated outputs that are due."""
        if self.state.operators["postpones"][self.state.partitions["operator"][partition]]:
            overdue = int(emitting.overdue(self.state, partition))
            self._room((int(self.state.options["fan_out"]) + 2) * (overdue + 1))
            emitting.emit_overdue(self.state, partition)
            self._tell()
            return
        every = self._plan.operators[self._cluster.partition_operator[partition]].timer_ns
        if every:
            self._room((int(self.state.options["fan_out"]) + 2) * (self._clock.now_ns() // every + 1))
            verbs.resume_timer(self.state, partition)
            self._tell()
            return
        source = int(np.flatnonzero(self.state.sources["partition"] == partition)[0])
        b = self.state.sources[source]
        self._room((int(self.state.options["fan_out"]) + 2) * (int(b["arrived"] - b["emitted"] + b["again_n"]) + 1))
        verbs.resume(self.state, source)
        self._tell()

    def replay(self, sender: int, receiver: int, turn: bool = False, missing: bool = False) -> tuple[int, int]:
        """Send all that is kept for the receiver again, or is missing there."""
        self._goes_back()
        self._room(int(self.state.partitions["kept_rows"][sender]) + 3)
        tuples, size = verbs.replay_between(self.state, sender, receiver, turn, missing)
        return int(tuples), int(size)

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task for a time, ahead of its queue."""
        self._room(int(self.state.options["fan_out"]) + 2)
        verbs.work(self.state, task, ns, token)
        self._tell()

    def speed(self, host: int, share: float) -> None:
        """Others take this share of the host's CPU from now on."""
        pace = pace_of(share)
        self.state.options["paced"] = self.state.options["paced"] or pace != FULL
        self._room(2)
        if pace != FULL:
            self.state.extend()
        sharing.set_pace(self.state, host, pace)

    def stop_counting_replays(self, partition: int) -> tuple[int, int]:
        """`replayed` of the partition now; its replayed tuples are not counted any more."""
        found = self.replayed(partition)
        self.state.partitions["replay_task"][partition] = NONE
        return found

    def watch_outputs(self, born_ns: int) -> None:
        """The first delivery from now on of a tuple that was born then or later is recorded."""
        if isinstance(self._kept, HistogramRecording):
            self._kept.watch(born_ns, self._clock.now_ns())

    # -- questions

    def replayed(self, partition: int) -> tuple[int, int]:
        """(replayed tuples that are not processed yet, when the last was)."""
        u = self.state.partitions[partition]
        return int(u["replay_pending"]), int(u["replayed_at"])

    def checkpoint_host(self, partition: int) -> int | None:
        """Return who holds the stored checkpoint."""
        u = self.state.partitions[partition]
        if u["stored"]:
            return int(u["stored_checkpoint_host"])
        return REMOTE if u["in_flight_n"] else None

    def checkpoint_bytes(self, partition: int) -> int:
        """Return the size of all that a restore reads."""
        u = self.state.partitions[partition]
        return int(u["in_flight_bytes"] + (u["stored_bytes"] if u["stored"] else 0))

    def senders(self, partition: int) -> list[int]:
        """Return the partitions that keep outputs for this one."""
        return [int(found) for found in verbs.partners(self.state, partition, True)]

    def receivers(self, partition: int) -> list[int]:
        """Return the partitions that this one keeps outputs for."""
        return [int(found) for found in verbs.partners(self.state, partition, False)]

    def empty(self, task: int) -> bool:
        """Return whether nothing waits at the task and nothing is served."""
        return bool(service.is_empty(self.state, task))

    def last_arrival_ns(self, task: int, operators: Collection[int], before: int | None = None) -> int | None:
        """Return when the last tuple under way to the task from these operators arrives."""
        marked = np.zeros(len(self._plan.operators), np.bool_)
        marked[list(operators)] = True
        self._now()
        last = int(verbs.last_arrival(self.state, task, marked, self.sendings() if before is None else before))
        return None if last == NONE else last

    def sendings(self) -> int:
        """Return a number that grows with whatever is sent."""
        return int(self.state.clock["serial"])

    def watch(self, tasks: Collection[int]) -> None:
        """Exactly these tasks are watched."""
        verbs.watch(self.state, np.array(sorted(tasks), np.int64))

    # -- the store, checkpoints

    def fetch_ns(self, size_bytes: int) -> int:
        """Return when so many bytes from the remote store have arrived."""
        self._now()
        return int(channels.remote_departure(self.state, size_bytes)) + self._plan.latency_ns

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Take checkpoints of these partitions each interval."""
        if not partitions:
            return
        self.state.round_partitions = np.array(partitions, np.int64)
        self.state.round_offsets = np.array(offsets_ns, np.int64)
        (
            self.state.checkpointing["interval"],
            self.state.checkpointing["round_begin"],
            self.state.checkpointing["round_next"],
        ) = (
            interval_ns,
            interval_ns,
            0,
        )
        self._clock.process(self._start(interval_ns + int(offsets_ns[0]), ROUND, 0))

    def start_slices(self, every_ns: int) -> None:
        """End a slice of each live partition at each multiple of this time."""
        self._check_trims()
        self.state.slicing["slice"] = every_ns
        self._clock.process(self._start(every_ns, SLICED, 0))

    def start_trimming(self, every_ns: int) -> None:
        """Begin a round of acks, or look for what is old, at each multiple of this time."""
        self.state.slicing["every"] = every_ns
        if self._plan.history is not None:
            self._clock.process(self._start(every_ns, TRIMMING, 0))
            return
        step_ns = to_ns(self._check_trims().hop_s)
        for hops in sorted(set(self._plan.hops_to_end)):
            self._clock.process(self._start(every_ns + hops * step_ns, TRIMMING, hops))

    def _check_trims(self) -> Trimming:
        if self._plan.trimming is None:
            raise ValueError("the run does not trim by acks")
        return self._plan.trimming
