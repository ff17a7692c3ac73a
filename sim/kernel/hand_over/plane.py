"""The plane of a run that the two kernels do in turns: the scan while nothing happens, the event loop else.

It is the event loop, beside which there is a scan. Only one of the two has the run at a time (`_scan` is None while the
event loop has it). Verbs that the scan has not go to the event loop, which takes the run over at their instant.

While a job catches up control waits until tasks are idle. None is before it has served what waits in its queue, so that
the scan may have the run for so long, and then for as long as takes what has come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from models.steady_state.checkpoint_traffic import due_every_ns
from models.units import to_ns
from sim.clock import Clock, Process
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import DataPlane, Listener, Plane
from sim.kernel.event_loop import audit, channels, pools, rows
from sim.kernel.event_loop.audit_by_sum import Since
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.event_loop.setup import needs_more
from sim.kernel.hand_over import to_loop, to_scan
from sim.kernel.hand_over.at_rest import LoopAtRest
from sim.kernel.hand_over.reread import Reread
from sim.kernel.hand_over.spells import spells
from sim.kernel.needs import needs_of
from sim.kernel.scan import recording as scan_recording
from sim.kernel.scan.plane import ScanPlane
from sim.plane_values import Key, NotCovered, Parcel
from sim.recording import HistogramRecording, TupleRecording

_FAR_NS = 1 << 62
_NS = 1e9
_TRIES = 1000  # to give the run back, at the most
_PATIENT = 8  # tries in vain, after as many of which the next ones come later and later
_TOLD_SOON = "control wants to be told something soon"
_SOON = 16  # such times fit into one where control only waits for a task that has little left to do


class TwoKernels(CompiledPlane):
    """A plane whose kernels hand the run over to each other.

    `turns` says when the event loop is to have it: pairs (begin, end), rising, in ns. After the end of one the scan
    gets it as soon as it can go on, which is tried each `patience_ns`. Raises ValueError for a run that needs at all
    times what the scan has not.
    """

    _scan: ScanPlane | None = None

    def __init__(
        self,
        plan: RunPlan,
        cluster: Cluster,
        clock: Clock,
        listener: Listener,
        turns: Sequence[tuple[int, int]],
        patience_ns: int,
    ) -> None:
        always = next((need.why for need in needs_of(plan) if not need.at_times), None)
        if always is not None:
            raise ValueError(f"the scan cannot have the run in turns: {always}")
        super().__init__(plan, cluster, clock, listener)
        self._spells, self._patience_ns, self._soon_ns = [*turns], patience_ns, max(1, patience_ns // _SOON)
        self._next = 0  # spell
        self._try_ns = _FAR_NS
        self._until_ns = _FAR_NS  # while the scan has the run: when control may want to be told something
        self._limit: Key | None = None  # of the last advance
        services = [operator.description.service for operator in plan.operators]
        self._mean_ns = np.array([_NS * one.mean_s if one is not None else 0.0 for one in services])
        self._round: tuple[int, int, int] | None = None  # begin, next, and the number of that turn
        self._told: dict[tuple[int, str], list[int]] = {}  # messages of the scan
        scan = self._new_scan()
        scan.state.arrivals = self.state.arrivals.copy()
        scan.state.sources[:] = self.state.sources
        self._scan = scan
        self._made: to_loop.Made | None = None  # of the last hand-over to the event loop
        self._ledger = np.zeros((3, len(plan.operators)), np.int64)  # of the parts that the event loop has done
        self._reread = [Reread(stream) for stream in self._arrival_streams()]
        self._by_scan, self._counted = 0, 0  # services that ended: in the scan, and before the last hand-over
        self.hindrances: list[tuple[int, str]] = []
        self._in_vain = 0  # tries to give the run back since the scan had it
        self.hand_overs: list[int] = []

    @classmethod
    def of(cls, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener, factor: float) -> TwoKernels:
        """Return the plane on which the event loop has the run around failures; `factor` makes that time longer."""
        patience_ns = max(due_every_ns(plan.scenario) // 2, to_ns(plan.scenario.duration_s) // _TRIES, 1)
        return cls(plan, cluster, clock, listener, spells(plan, factor), patience_ns)

    def _new_scan(self) -> ScanPlane:
        return ScanPlane(
            self._plan,
            self._cluster,
            self._clock,
            self._listener,
            recording_=self._kept,
            streams=self._streams,
            counts_states=True,
        )

    # -- who has the run

    def advance(self, limit: Key) -> bool:
        """Do all that comes before `limit`; True if the listener was told something."""
        self._limit = limit
        while True:
            if self._scan is not None:
                begin = min(self._begin_ns(), self._until_ns)
                beside = self._beside_ns()
                if limit[0] <= min(begin, beside):
                    told = self._scan.advance(limit)
                    return told or (limit[0] == beside and self._advance_beside(limit))
                if self._scan.advance((min(begin, beside), -1, 0)):
                    return True
                if begin <= beside:
                    if begin < self._until_ns or not self._stays_busy(begin):
                        self._to_loop(begin)
                elif self._advance_beside((beside + 1, -1, 0)):
                    return True
            else:
                if limit[0] <= self._try_ns:
                    return super().advance(limit)
                if super().advance((self._try_ns, -1, 0)):
                    return True
                self._to_scan(self._try_ns)

    def _watched(self) -> np.ndarray:
        """Return the tasks of which control wants to know when they are idle."""
        return np.flatnonzero(self.state.tasks["watched"][: len(self._cluster.task_operator)])

    def _idle_ns(self, at_ns: int) -> int:
        """Return before when no watched task is idle, most likely: services may take half as long as on average."""
        watched = self._watched()
        each_ns = self._mean_ns[np.array(self._cluster.task_operator)[watched]] / 2
        return at_ns + int(min(each_ns * self._in_queues()[watched], default=_FAR_NS))

    def _in_queues(self) -> np.ndarray:
        """Return how many tuples wait at each task (n_tasks,)."""
        return self.state.tasks["queue_n"][: len(self._cluster.task_operator)]

    def _is_worth_it(self, at_ns: int, until_ns: int, tuples: int) -> bool:
        """Return whether more tuples will come until then than those that are there and have to be handed over."""
        for_ns, rate = until_ns - at_ns, int(self.state.sources["emitted"].sum()) / max(1, at_ns)
        return until_ns >= _FAR_NS or (for_ns > 2 * self._soon_ns and for_ns * rate > tuples)

    def _busy_until_ns(self, scan: ScanPlane) -> int:
        """Return before when no watched task can be idle."""
        return min((scan.busy_until_ns(task) for task in self._watched().tolist()), default=_FAR_NS)

    def _stays_busy(self, at_ns: int) -> bool:
        """Return whether the scan keeps the run: what has come meanwhile keeps each watched task busy for a while."""
        assert self._scan is not None
        until_ns = self._busy_until_ns(self._scan)
        if until_ns - at_ns < self._soon_ns:
            return False
        self._until_ns = until_ns
        return True

    def _begin_ns(self) -> int:
        """Return when the event loop is to have the run next."""
        return self._spells[self._next][0] if self._next < len(self._spells) else _FAR_NS

    def _beside_ns(self) -> int:
        """Return when the event loop has something to do while the scan has the run, which concerns no tuple."""
        return _FAR_NS

    def _advance_beside(self, limit: Key) -> bool:
        """Do what the event loop has to do before `limit`; True if the listener was told something."""
        record = self.state.recording
        rooms = int(record["visit_room"]), int(record["delivery_room"])
        record["visit_room"] = record["delivery_room"] = _FAR_NS  # no room is made for rows, which the scan writes
        told = super().advance(limit)
        record["visit_room"], record["delivery_room"] = rooms
        return told

    def _act_in_loop(self) -> None:
        """Control acts now: the event loop takes the run over, and does what comes before control in this instant.

        That is a turn of the round of checkpoints at the most.
        """
        if self._scan is None:
            return
        self._to_loop(self._clock.now_ns())
        while self._limit is not None and super().advance(self._limit):
            pass

    def _to_loop(self, at_ns: int) -> None:
        """The event loop takes the run over."""
        scan = self._scan
        assert scan is not None
        while self._next < len(self._spells) and self._spells[self._next][0] <= at_ns:
            self._try_ns = max(at_ns, self._spells[self._next][1])
            self._next += 1
        if self._try_ns == _FAR_NS:
            self._try_ns = at_ns + (self._soon_ns if at_ns == self._until_ns else self._patience_ns)
        for what, numbers in scan.messages().items():
            both = self._told.setdefault(what, [0, 0])
            self._told[what] = [one + more for one, more in zip(both, numbers, strict=True)]
        for source, b in enumerate(scan.state.sources):
            if b["emitted"] == b["have"] and b["more"]:
                scan.refill(source)
        scan.ledger()  # audits what the scan has done
        self._made = self._fill_loop(scan, at_ns)
        self._until_ns = _FAR_NS
        scan_recording.hand_over(scan.state, self._kept)
        self._take_rows(scan)
        self._count(True)
        self._scan = None
        self.hand_overs.append(at_ns)
        self._grow(int(self.state.options["fan_out"]) + 2)

    def _fill_loop(self, scan: ScanPlane, at_ns: int) -> to_loop.Made:
        """Make the state of the event loop that of the scan."""
        return to_loop.fill(scan.state, self.state, self._plan, self._cluster, at_ns, self._turn(scan))

    def _at_rest(self, at_ns: int) -> LoopAtRest:
        """Return what the event loop has, and what hinders the scan."""
        return LoopAtRest(self.state, self._plan, self._cluster, at_ns)

    def _watches_outputs(self) -> bool:
        """Return whether a delivery is watched for, which the scan would not see."""
        self._flush()
        return isinstance(self._kept, HistogramRecording) and self._kept.watches

    def _hindrance(self, at_ns: int) -> str | None:
        """Return why the event loop has to go on, before anything else is looked at."""
        if not self._is_worth_it(at_ns, self._idle_ns(at_ns), int(self._in_queues().sum())):
            return _TOLD_SOON
        return None

    def _hindered(self, rest: LoopAtRest) -> str | None:
        """Return why the event loop has to go on although the scan could have the run."""
        return None

    def _hindrance_before_all(self, at_ns: int) -> str | None:
        """Return why the event loop has to go on, before all of its tuples are looked at."""
        if self._parcels:
            return "there are parcels"
        if self._watches_outputs():
            return "the first output after a failure has not come"
        why = self._hindrance(at_ns)
        if why is not None:
            return why
        state = self.state
        state.ids["settles"] = 0
        pools.settle(state)
        if state.options["logs_ids"] and state.options["keeps_outputs"] and not state.ids["clean"]:
            return "a tuple may come twice"  # the scan would process it
        return None

    def _to_scan(self, at_ns: int) -> None:
        """The scan takes the run over, if it can."""
        if self._begin_ns() <= at_ns:
            self._try_ns = max(at_ns, self._spells[self._next][1])
            self._next += 1
            if self._try_ns > at_ns:
                return
        why = self._hindrance_before_all(at_ns)
        if why is not None:
            self._go_on(at_ns, why)
            return
        rest = self._at_rest(at_ns)
        if rest.hindrance is not None:
            self._go_on(at_ns, rest.hindrance)
            return
        scan = self._new_scan()
        unplanned = to_scan.fill(scan.state, rest)
        until_ns, why = self._busy_until_ns(scan), self._hindered(rest)
        if why is None and not self._is_worth_it(at_ns, until_ns, rest.tuples.size):
            why = _TOLD_SOON
        if why is not None:
            self._go_on(at_ns, why)
            return
        if self.state.options["logs_ids"]:
            self._ledger += self._settled()
        self._flush()
        self._count(False)
        channels.flush_messages(self.state)
        number = to_scan.round_number(self.state)
        scan.plan_later(unplanned)
        if not needs_more(self._plan):
            self.state.narrow()
        self._round = None
        if number != NONE:
            self._round = int(scan.state.round["begin"]), int(scan.state.round["next"]), number
        if isinstance(self._kept, TupleRecording):
            scan.state.rows["sorted"] = self.state.recording["visit_rows"]
            scan.state.rows["deliveries"] = self.state.recording["delivery_rows"]
        self._scan, self._until_ns = scan, until_ns
        self._try_ns, self._in_vain = _FAR_NS, 0
        self.hand_overs.append(at_ns)
        self._leave_to_scan()

    def _leave_to_scan(self) -> None:
        """Free what the event loop has of tuples, of which the scan has all by now."""
        self._made = None
        to_loop.forget_tuples(self.state)

    def _count(self, by_scan: bool) -> None:
        """Count the services that have ended since the last hand-over for one of the kernels."""
        visits = self.recording.visits()
        self._by_scan += visits - self._counted if by_scan else 0
        self._counted = visits

    def scan_share(self) -> float:
        """Return the share of all services so far that ended while the scan had the run."""
        if self._scan is not None:
            scan_recording.hand_over(self._scan.state, self._kept)
        else:
            self._flush()
        self._count(self._scan is not None)
        return self._by_scan / max(1, self._counted)

    def _go_on(self, at_ns: int, why: str) -> None:
        """Let the event loop go on for a while.

        What hinders the scan may last until the end. So the wait grows with the tries, and remains a small part of the
        time for which the event loop has had the run.
        """
        self.hindrances.append((at_ns, why))
        if why == _TOLD_SOON:
            self._try_ns = at_ns + self._soon_ns
            return
        self._in_vain += 1
        self._try_ns = at_ns + self._patience_ns * max(1, self._in_vain // _PATIENT)

    def _turn(self, scan: ScanPlane) -> int:
        """Return the number of the next turn in the round among the events of control.

        It is one from when the turn before it was. If that was in the scan, all that control has still to do was set
        before the scan began, but for samples, which do not mind.
        """
        begin, following = int(scan.state.round["begin"]), int(scan.state.round["next"])
        if self._round is not None and self._round[:2] == (begin, following):
            return self._round[2]
        number = self._clock.next_number()
        self._clock.take_numbers(number + 1)
        return number

    def _take_rows(self, scan: ScanPlane) -> None:
        """Go on with the rows behind those of the scan."""
        if isinstance(self._kept, TupleRecording):
            self.state.recording["visit_rows"] = scan.state.rows["sorted"]
            self.state.recording["delivery_rows"] = scan.state.rows["deliveries"]
            rows.share(self.state, self._kept)

    # -- what both do

    def start_checkpoints(self, partitions: Sequence[int], offsets_ns: Sequence[int], interval_ns: int) -> None:
        """Take checkpoints of these partitions each interval."""
        if self._scan is None:
            super().start_checkpoints(partitions, offsets_ns, interval_ns)
            return
        self._scan.start_checkpoints(partitions, offsets_ns, interval_ns)
        if partitions:
            self._clock.process(self._set_round())

    def _set_round(self) -> Process:
        """Take a number of control where the event loop would set the first turn."""
        number = self._clock.next_number()
        self._clock.take_numbers(number + 1)
        if self._scan is not None:
            self._round = int(self._scan.state.round["begin"]), int(self._scan.state.round["next"]), number
        return
        yield

    def crash(self, host: int) -> None:
        """The host dies with its tasks and partitions."""
        self._act_in_loop()
        self._check_covered(host)
        super().crash(host)

    def kill(self, task: int) -> None:
        """The task dies with its partitions, and its host goes on."""
        self._act_in_loop()
        self._check_ids_known()
        super().kill(task)

    def snapshot(self, partitions: Sequence[int]) -> Parcel:
        """Copies of the states of these partitions, with the outputs that they keep, go into a parcel."""
        self._act_in_loop()
        self._check_ids_known()
        return super().snapshot(partitions)

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """Refuse a second instance of a group, of which neither the scan nor a hand-over knows."""
        raise NotCovered("a key group gets a second instance")

    def replay(self, sender: int, receiver: int, turn: bool = False, missing: bool = False) -> tuple[int, int]:
        """All that is kept for the receiver is sent again."""
        self._act_in_loop()
        self._check_ids_known()
        return super().replay(sender, receiver, turn, missing)

    def emit_again(self, partition: int, sequences: Sequence[int]) -> None:
        """A source emits the tuples with these numbers again."""
        self._act_in_loop()
        found = np.flatnonzero(self.state.sources["partition"] == partition)
        if found.size and self._made is not None and min(sequences, default=0) < self._made.emitted[found[0]]:
            raise NotCovered("tuples are emitted again that nobody would know as duplicates")
        super().emit_again(partition, sequences)

    def checkpoint_bytes(self, partition: int) -> int:
        """Return the size of all that a restore reads."""
        self._act_in_loop()
        self._check_stored(np.array([partition], np.int64))
        return super().checkpoint_bytes(partition)

    def install(self, partition: int) -> int:
        """The state of the stored checkpoint becomes that of the partition."""
        self._act_in_loop()
        self._check_stored(np.array([partition], np.int64))
        return super().install(partition)

    def _check_covered(self, host: int) -> None:
        """Raise NotCovered if something that is lost with the host comes back with what the scan did not keep."""
        if self._made is None:
            return
        if self._clock.now_ns() - self._made.at_ns <= self._plan.latency_ns:
            raise NotCovered("what the host had sent is lost in an order that nobody knows")
        self._check_ids_known()
        self._check_stored(np.array(self._cluster.partitions_on(host), np.int64))

    def _check_ids_known(self) -> None:
        """Raise NotCovered if outputs are kept, or are in a checkpoint, that were applied before the hand-over."""
        made, state = self._made, self.state
        if made is None:
            return
        pairs = state.pairs[: made.unknown.size]
        live = (pairs["live"] != NONE) & (pairs["live_seq"] < made.unknown)
        saved = [
            (pairs[f"{name}_begin"] < pairs[f"{name}_end"]) & (pairs[f"{name}_begin"] < made.unknown)
            for name in ("stored", "pending")
        ]
        if live.any() or saved[0].any() or saved[1].any():
            raise NotCovered("outputs are kept whose ids nobody knows")

    def _check_stored(self, lost: np.ndarray) -> None:
        """Raise NotCovered if the stored checkpoint of one of these partitions was taken before the hand-over."""
        made, state = self._made, self.state
        if made is None:
            return
        rows = state.checkpoint_rows[made.rows : int(state.checkpointing["rows"])]
        rows = rows[rows["stored"] != NONE]
        since = np.array(self._plan.first_partition)[rows["operator"]] + rows["partition"]
        if not np.isin(lost[state.partitions["stored"][lost] == 1], since).all():
            raise NotCovered("a checkpoint would be restored that was taken before")

    def _settled(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what was expected, lost and duplicated since the event loop has the run."""
        assert self._made is not None
        begin = Since(self._made.coming, self._made.base, self._made.emitted, self._made.ticks)
        return audit.settle(
            self.state,
            lambda: [one.start(n) for one, n in zip(self._reread, begin.emitted.tolist(), strict=True)],
            self._carried(),
            self._saved(),
            since=begin,
        )

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return the rows (operator, expected, lost, duplicated)."""
        if not self.state.options["logs_ids"]:
            return super().ledger() if self._scan is None else self._scan.ledger()
        if self._scan is not None:
            self._scan.ledger()
        expected, lost, duplicated = self._ledger + (self._settled() if self._scan is None else 0)
        # The scan goes on counting where it was: a tuple that it applies is expected.
        by_scan = (self.state if self._scan is None else self._scan.state).operators["applied"]
        return self._ledger_rows(expected + by_scan, lost, duplicated)

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes)."""
        found = {what: [*numbers] for what, numbers in self._told.items()}
        parts = [super().messages(), self._scan.messages() if self._scan is not None else {}]
        for part in parts:
            for what, numbers in part.items():
                both = found.setdefault(what, [0, 0])
                found[what] = [one + more for one, more in zip(both, numbers, strict=True)]
        return found

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables of tuples and checkpoints."""
        if self._scan is None:
            return super().tables()
        return {**self._scan.tables(), "dropped": self._dropped(), **self._tables_of_loop()}

    def _tables_of_loop(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return tables that the event loop alone knows."""
        return {}


def _by_who_has_the_run(name: str) -> Callable[..., Any]:
    verb = getattr(CompiledPlane, name)

    @wraps(verb)
    def delegated(self: TwoKernels, *arguments: Any) -> Any:
        return verb(self, *arguments) if self._scan is None else getattr(self._scan, name)(*arguments)

    return delegated


def _by_the_event_loop(name: str) -> Callable[..., Any]:
    verb = getattr(CompiledPlane, name)

    @wraps(verb)
    def delegated(self: TwoKernels, *arguments: Any, **named: Any) -> Any:
        self._act_in_loop()
        return verb(self, *arguments, **named)

    return delegated


def _verbs(interface: type) -> Iterator[str]:
    return (name for name in dir(interface) if not name.startswith("_") and callable(getattr(interface, name)))


for _name in _verbs(DataPlane):
    if _name in ("samples", "links", "lag"):
        setattr(TwoKernels, _name, _by_who_has_the_run(_name))
    elif _name == "buffers" or _name not in {*_verbs(Plane), *vars(TwoKernels)}:  # the scan does not count what is kept
        setattr(TwoKernels, _name, _by_the_event_loop(_name))
