"""The plane of a run whose key groups move in steps: the scan has the tuples, and the event loop borrows some.

Control acts often while key groups move, and thousands of tuples wait meanwhile. So the event loop is lent only those
that can matter before an instant soon after control acts or is told something (`loans`). Between two loans it has what
control has begun: messages, work, rules, and tuples that wait for key groups on their way.

The scan goes on up to the next instant at which control may be told something: the first event that the event loop has
left, the turn of a message in a queue, or the earliest at which a frontier may have passed. All these are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from models.steady_state.estimate import detail_and_steps
from models.units import to_ns
from sim.clock import Clock
from sim.control.cluster import Cluster, RunPlan
from sim.control.placing import senders_to
from sim.data_plane import DataPlane, Listener, Plane
from sim.kernel.event_loop import loop as event_loop
from sim.kernel.event_loop import rows
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over import lending, loans, returning
from sim.kernel.hand_over.lists import queued
from sim.kernel.hand_over.loans import COUNTS, FAR_NS, LENT, TURN
from sim.kernel.needs import needs_of
from sim.kernel.scan import recording as scan_recording
from sim.kernel.scan import setup as scan_setup
from sim.kernel.scan.plane import ScanPlane
from sim.kernel.tools.cache import entry
from sim.plane_values import Key, NotCovered, Parcel
from sim.recording import HistogramRecording

_STEPS = 8  # of tuples in a loan, about
_CONTROL = 1  # the last rank of control within an instant
_HIDDEN = 1 << 40  # tuples that a frontier still waits for while the scan has some of them


class Borrowing(CompiledPlane):
    """The event loop, which borrows tuples of a scan for `length_ns` at a time.

    Raises ValueError for a run that needs at all times what the scan has not.
    """

    _begun = False

    def __init__(self, plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener, length_ns: int) -> None:
        always = next((need.why for need in needs_of(plan) if not need.at_times), None)
        if always is not None:
            raise ValueError(f"the scan cannot have the run in turns: {always}")
        super().__init__(plan, cluster, clock, listener)
        self.state.extend()
        tasks = len(cluster.task_operator)
        counts_states = any(not one.is_source and one.description.state is not None for one in plan.operators)
        self._scan = ScanPlane(
            plan, cluster, clock, listener, recording_=self._kept, streams=self._streams, counts_states=counts_states
        )
        self._scan.state.sources, self._scan.state.arrivals = self.state.sources, self.state.arrivals
        self._length_ns = length_ns
        self._lent, self._turns, self._counts = np.zeros(tasks, LENT), np.zeros(16, TURN), np.zeros(1, COUNTS)
        self._lent["last"], self._lent["near"] = NONE, self._near()
        self._scratch = np.zeros(0, np.int64)
        self._prepare()
        self._until_ns: int | None = 0  # of the loan, if there is one
        self._done_ns = -1  # all before is done, and of this instant at least what comes before control
        self._next_ns = 0  # when control may want to be told something, if there is none
        self._else_ns = 0  # the same without the turns of messages
        self._placed = False  # which tasks have key groups has changed in this loan
        self.loans, self.line_ups = 0, 0
        self._at_ns = 0  # all before is done
        self._begun = True
        self._take_back(0)

    def _prepare(self) -> None:
        """Find the compiled functions of each loan, so that no time goes into telling kinds of arguments."""
        loop, scan = self.state, self._scan.state
        lists = self._lent, self._turns, self._counts
        self._loop = entry(event_loop.advance, loop, 0, 0, 0)
        self._lend_all = entry(lending.lend, loop, scan, 0, 0, *lists)
        self._take_all = entry(returning.take_back, loop, scan, 0, False, *lists, self._scratch)
        self._has_room = entry(returning.has_room, loop, scan, *lists[1:], self._scratch)
        self._lacks = entry(lending.lacks, loop, scan, 0, 0)
        self._line_all_up = entry(loans.line_up, loop, scan, 0, *lists)
        self._note_all_places = entry(loans.note_places, loop, scan, 0)
        self._older_in = entry(loans.last_older, scan, loop.above, 0, 0)

    # -- time

    def advance(self, limit: Key) -> bool:
        """Do all that comes before `limit`; True if the listener was told something."""
        # Nothing of the planes comes before control in an instant, but for what follows from work that has ended.
        if limit[0] == self._done_ns and limit[1] <= _CONTROL and self.state.requests["dispatch"] == NONE:
            return False
        while True:
            if self._until_ns is not None:
                end = (self._until_ns, -1, 0)
                told = super().advance(min(limit, end))
                if told or limit <= end:
                    self._done_ns = self._clock.now_ns() if told else limit[0]
                    return told
                self._take_back(self._until_ns)
            else:
                until = min(limit[0], self._next_ns)
                if until > self._at_ns:
                    self._scan.advance((until, -1, 0))
                    self._share_arrivals()
                    self._at_ns = until
                if limit[0] <= self._next_ns:
                    return False
                if not self._goes_without(until):
                    self._lend(until)

    def _goes_without(self, at_ns: int) -> bool:
        """Do without a loan if only messages that line up are due, and go behind others."""
        if at_ns < self._else_ns:
            lists = self._lent, self._turns, self._counts
            following = int(self._line_all_up(self.state, self._scan.state, at_ns, *lists))
            if following != NONE:
                self._next_ns = min(following, self._else_ns)
                self.line_ups += 1
                return True
        return False

    def _borrow(self) -> None:
        """Control acts now: the event loop has what it needs for that."""
        if self._until_ns is None:
            self._lend(self._clock.now_ns())

    def _share_arrivals(self) -> None:
        """Let both kernels have the arrivals at sources that either has drawn."""
        scan, loop = self._scan.state, self.state
        if scan.arrivals is not loop.arrivals:
            longer = max(scan.arrivals, loop.arrivals, key=len)
            scan.arrivals = loop.arrivals = longer

    # -- loans

    def _lend(self, at_ns: int, until_ns: int | None = None) -> None:
        """Lend what can matter until then to the event loop: all before `at_ns` is done, nothing at it."""
        scan, loop = self._scan.state, self.state
        until_ns = at_ns + self._length_ns if until_ns is None else until_ns
        while lacks := self._lacks(loop, scan, at_ns, until_ns):
            need = int(scan.requests["need"])
            if lacks == lending.NO_LINKS:
                scan_setup.more_boxes(scan, dict.fromkeys(range(len(self._plan.operators)), 1), need)
            elif lacks == lending.NO_VISITS:
                self._grow(2 * need + 64)
            else:
                self._scan.refill(lacks - lending.REFILL)
                self._share_arrivals()
        self._take_rows(to_loop=True)
        self._lend_all(loop, scan, at_ns, until_ns, self._lent, self._turns, self._counts)
        self._until_ns = until_ns
        self.loans += 1
        if loop.frontiers.size:
            loop.frontiers["left"] = 0  # the scan has applied some of those that were counted
            self._look_for_older()

    def _take_back(self, at_ns: int) -> None:
        """Give the tuples back to the scan: all before `at_ns` is done, nothing at it."""
        scan, loop = self._scan.state, self.state
        self._share_arrivals()
        if self._placed:
            self._note_places()
        if not self._has_room(loop, scan, self._turns, self._counts, self._scratch):
            self._make_room(len(loop.visits) - int(loop.visit_pool["left"]))
        self._take_all(loop, scan, at_ns, self._placed, self._lent, self._turns, self._counts, self._scratch)
        if self._counts["faults"][0]:
            raise NotCovered("tuples of which the scan has kept some wait in two lists")
        self._take_rows(to_loop=False)
        self._at_ns = at_ns
        self._until_ns, self._placed = None, False
        self._next_ns = max(at_ns, self._next())

    def _near(self) -> list[bool]:
        """Return of each task whether what is sent to it may come at the same instant."""
        cluster = self._cluster
        senders = [senders_to(cluster, one.index) for one in self._plan.operators]
        return [
            not self._plan.latency_ns or any(cluster.task_host[one] == host for one in senders[operator])
            for operator, host in zip(cluster.task_operator, cluster.task_host, strict=True)
        ]

    def _make_room(self, used: int) -> None:
        """Make room for so many tuples anywhere."""
        scan, tuples = self._scan.state, len(self.state.visits)
        if len(self._scratch) < tuples:
            self._scratch = np.zeros(2 * tuples, np.int64)
        if len(self._turns) < int(self._counts["turns"][0]) + used:
            self._turns = np.concatenate([self._turns, np.zeros(2 * used + 16, TURN)])
        boxes = scan.boxes[:-1]
        if (boxes["room"] - boxes["n"] < used).any():
            scan_setup.more_boxes(scan, dict.fromkeys(range(len(boxes)), 1), used)
        while not returning.pieces_left(scan, returning.most_pieces(scan, used)):
            scan_setup.more_chunks(scan)

    def _next(self) -> int:
        """Return when control may want to be told something, if it does nothing before."""
        self._else_ns = min(int(self._counts["event"][0]), self._frontiers_due())
        return min(self._else_ns, self._turns_due())

    def _turns_due(self) -> int:
        """Return when the first turn of a message in a queue comes."""
        return int(self._counts["due"][0])

    def _frontiers_due(self) -> int:
        """Return when a frontier may be passed at the earliest. Where the scan has nothing older it is for control."""
        found = FAR_NS
        for one in self.state.frontiers:
            last = self._last_older(int(one["operator"]), int(one["time"]))
            found = min(found, last if last != NONE else FAR_NS)
        return found

    def _last_older(self, operator: int, time_ns: int) -> int:
        """Return when the last tuple of the scan that is older may have been applied, NONE if there is none."""
        return int(self._older_in(self._scan.state, self.state.above, operator, time_ns))

    def _note_places(self) -> None:
        """Tell the scan which tasks have key groups, and which will."""
        due = self._note_all_places(self.state, self._scan.state, self._until_ns)
        if due and not self._all_know(np.flatnonzero(self.state.partitions["goal"] != NONE)):
            raise NotCovered("some senders do not know where key groups go")

    def _all_know(self, partitions: np.ndarray) -> bool:
        """Return whether all tasks that send to these partitions have been told where they go."""
        loop = self.state
        operators = {int(one) for one in loop.partitions["operator"][partitions]}
        for sender in {task for one in operators for task in senders_to(self._cluster, one)}:
            row = int(loop.tasks["routing"][sender])
            own = partitions
            if row == NONE or (loop.routing[row + own] != loop.partitions["goal"][own]).any():
                return False
        return True

    def _take_rows(self, to_loop: bool) -> None:
        """Let the kernel that has the run next go on with the rows of tuples behind those of the other."""
        scan, loop, kept = self._scan.state, self.state, self._kept
        if isinstance(kept, HistogramRecording):
            if not to_loop:
                scan.pages = kept.shared()["pages"]
            return
        if to_loop:
            scan_recording.hand_over(scan, kept)
            loop.recording["visit_rows"], loop.recording["delivery_rows"] = scan.rows["sorted"], scan.rows["deliveries"]
            rows.share(loop, kept)
            return
        rows.hand_over(loop, kept)
        scan.rows["sorted"], scan.rows["deliveries"] = loop.recording["visit_rows"], loop.recording["delivery_rows"]
        scan_recording.share(scan, kept)

    # -- frontiers

    def _look(self) -> None:
        self._look_for_older()
        super()._look()

    def _look_for_older(self) -> None:
        """Hide frontiers from the event loop for which the scan has still something older."""
        for one in self.state.frontiers:
            if self._last_older(int(one["operator"]), int(one["time"])) != NONE:
                one["left"] = _HIDDEN
            elif one["left"] > _HIDDEN // 2:
                one["left"] = 0

    def _is_passed(self, operator: int, time_ns: int) -> bool:
        return self._last_older(operator, time_ns) == NONE and super()._is_passed(operator, time_ns)

    # -- verbs

    def place(
        self, operator: int, senders: Collection[int], owners: Sequence[int] | np.ndarray, from_ns: int = 0
    ) -> None:
        """Send what these tasks emit for key group k of the operator, if born from then on, to `owners[k]`."""
        self._borrow()
        self._placed = True
        super().place(operator, senders, owners, from_ns)

    def take(self, partitions: Sequence[int]) -> Parcel:
        """Take the states of these partitions out of their task."""
        self._borrow()
        self._placed = True
        loop, numbers = self.state.partitions, np.array([*partitions], np.int64)
        known = loop[["keys", "applied"]][numbers].copy()
        loop["keys"][numbers], loop["applied"][numbers] = self._keys(numbers), self._applied(numbers)
        try:
            return super().take(partitions)
        finally:
            loop["keys"][numbers], loop["applied"][numbers] = known["keys"], known["applied"]

    def _applied(self, partitions: np.ndarray) -> np.ndarray:
        """Return how many tuples each of these partitions has applied on both kernels, where its size depends on it."""
        saved = self._scan.state.saved
        by_loop = self.state.partitions["applied"][partitions]
        return by_loop + saved["applied"][partitions] if saved.size else by_loop

    def _keys(self, partitions: np.ndarray) -> np.ndarray:
        """Return how many keys the states of these partitions have."""
        scan, loop = self._scan.state, self.state
        if not scan.saved.size or not loop.options["per_key"]:
            return loop.partitions["keys"][partitions]
        own = loop.keys[(loop.keys["partition"] != NONE) & np.isin(loop.keys["partition"], partitions)]
        own = own[scan.saved["first_key"][own["partition"]] != NONE]
        new = scan.key_epochs[scan.saved["first_key"][own["partition"]] + own["key"]] == 0
        more = np.bincount(own["partition"][new], minlength=scan.saved.size)
        return scan.saved["keys"][partitions] + more[partitions]

    def put(self, parcel: int, task: int) -> None:
        """Make what a parcel holds live at the task."""
        self._borrow()
        self._placed = True
        if self.state.tasks["rules"][task] == NONE:
            self._lend_ahead(task)
        super().put(parcel, task)

    def work(self, task: int, ns: int, token: int) -> None:
        """Occupy the task for a time, ahead of its queue."""
        self._borrow()
        if self.state.tasks["rules"][task] == NONE:
            self._lend_ahead(task)
        else:
            self._put_aside(task)
        super().work(task, ns, token)

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """Tuples for the partition from that task (None: all) go to a side list."""
        self._borrow()
        if partition is not None or origin is not None:
            raise NotCovered("a rule holds some of the tuples of a task")
        if self.state.tasks["rules"][task] == NONE:
            self._lend_ahead(task)
            if self._scan.state.queues["n"][task] and loans.is_idle(self.state, task):
                raise NotCovered("a message at its turn holds what is behind it")
        super().hold(task, partition, origin)

    def unhold(self, task: int, partition: int | None) -> None:
        """End rules; what none holds any more goes in front."""
        self._borrow()
        self._put_aside(task)
        super().unhold(task, partition)

    def _lend_ahead(self, task: int) -> None:
        """Lend all of the first lane of a task: something comes behind it."""
        q = self._scan.state.queues[task]
        need = int(min(self._lent["ahead"][task] - q["gone"], q["n"]))
        if need > 0:
            self._room(need + 8)
            lending.lend_ahead(self.state, self._scan.state, task, self._lent)

    def _put_aside(self, task: int) -> None:
        """Note that all that the scan has kept of the queue of a task is aside, if it is."""
        if self.state.tasks["rules"][task] != NONE and loans.is_idle(self.state, task):
            q = self._scan.state.queues[task]
            self._lent["ahead"][task] = q["gone"] + q["n"]

    # -- answers

    def samples(self) -> np.ndarray:
        """Return a row for each live task."""
        scan = self._scan.state
        found = super().samples()
        tasks = found[:, 0]
        found[:, 2] += scan.queues["n"][tasks] + self._aside()[tasks]
        found[:, 3] += scan.servers["busy"][tasks]
        return found

    def _aside(self) -> np.ndarray:
        """Return how many tuples at each task wait for key groups and are with the scan (n_tasks,)."""
        scan = self._scan.state
        aside = queued(scan, int(scan.options["aside"]))
        return np.bincount(scan.goals[aside["partition"]], minlength=scan.servers.size)

    def messages(self) -> Mapping[tuple[int, str], Sequence[int]]:
        """Return (begin of the second, kind) -> (messages, bytes)."""
        found = {what: [*numbers] for what, numbers in super().messages().items()}
        for what, numbers in self._scan.messages().items():
            both = found.setdefault(what, [0, 0])
            found[what] = [one + more for one, more in zip(both, numbers, strict=True)]
        return found

    def ledger(self) -> list[tuple[int, int, int, int]]:
        """Return the rows (operator, expected, lost, duplicated)."""
        self._borrow_all()
        operators, own = self.state.operators, self._scan.state.operators
        before = operators.copy()
        operators["applied"] += own["applied"]
        operators["sum"] += own["sum"]
        try:
            return super().ledger()
        finally:
            operators[:] = before

    def tables(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the tables of tuples and checkpoints."""
        self._borrow_all()
        return super().tables()

    def _borrow_all(self) -> None:
        """Lend everything, at the end of the run."""
        if self._until_ns is None:
            self._lend(self._at_ns, FAR_NS)
        elif self._until_ns != FAR_NS:
            self._take_back(self._clock.now_ns())
            self._lend(self._clock.now_ns(), FAR_NS)

    def scan_share(self) -> float:
        """Return the share of all services so far that ended in the scan, sources left out."""
        by_scan, by_loop = (int(one.operators["applied"].sum()) for one in (self._scan.state, self.state))
        return by_scan / max(1, by_scan + by_loop)


_COVERED = {"passed", "send", "send_each", "line_up", "discard"}  # verbs of which nothing needs to be said here


def _by_the_event_loop(name: str) -> Callable[..., Any]:
    verb = getattr(CompiledPlane, name)

    @wraps(verb)
    def delegated(self: Borrowing, *arguments: Any, **named: Any) -> Any:
        self._borrow()
        return verb(self, *arguments, **named)

    return delegated


def _refused(name: str) -> Callable[..., Any]:
    @wraps(getattr(CompiledPlane, name))
    def refused(self: Borrowing, *arguments: Any, **named: Any) -> Any:
        if not self._begun:  # the plane adds its tasks
            return getattr(CompiledPlane, name)(self, *arguments, **named)
        raise NotCovered(f"the verb {name} is about tuples that the scan has")

    return refused


def _verbs(interface: type) -> Iterator[str]:
    return (name for name in dir(interface) if not name.startswith("_") and callable(getattr(interface, name)))


for _name in _verbs(DataPlane):
    if _name not in {*_verbs(Plane), *vars(Borrowing)}:
        setattr(Borrowing, _name, (_by_the_event_loop if _name in _COVERED else _refused)(_name))


def length_of(plan: RunPlan) -> int:
    """Return how long a loan is: some tuples come in the meantime."""
    steps = detail_and_steps(plan.scenario, plan.inputs)[1] / plan.scenario.replications
    return max(1, round(_STEPS * to_ns(plan.scenario.duration_s) / max(1.0, steps)))
