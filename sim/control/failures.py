"""Failures of hosts: when hosts die or are suspected, and when control detects it.

Heartbeats may be lost or late. They have no events of their own: those of a host are drawn a block at a time, and
searched for the next silence that is longer than the time-out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from models import display
from models.records.decisions import Action, Verdict
from models.records.tables import NEVER, THE_JOB
from models.scenario.cluster import ExponentialFailures, ScheduledFailures
from models.scenario.events import DriverFailure, HostFailure, WorkerFailure
from models.scenario.fault_tolerance import Detector
from models.units import to_ns
from sim.clock import Process
from sim.control.cluster import LostPartition
from sim.control.crash import CrashCoordinator
from sim.control.restart_attempts import JOB
from sim.control.run_state import StateOn
from sim.data_plane import Plane
from sim.draws import at_least_one_ns, code_of, delays_ns, generator, numbered, uniforms

_BLOCK = 1024
_FAR_NS = 1 << 62  # after the end of every run


class Heartbeats:
    """Heartbeat n of a host is sent at n times the interval; whether and when it arrives is a function of n."""

    def __init__(self, detector: Detector, seed: int, replication: int, host: str) -> None:
        self.interval_ns, self.timeout_ns = max(1, to_ns(detector.heartbeat_s)), to_ns(detector.timeout_s)
        self.block = max(1, min(_BLOCK, (_FAR_NS >> 2) // self.interval_ns))  # of heartbeats that are drawn at a time
        self._loss, self._delay = detector.loss, detector.delay
        self._code = code_of(seed, replication, host, "heartbeat")
        self._lost, self._late = (code_of(seed, replication, host, what) for what in ("loss", "delay"))

    def arrivals(self, begin: int, end: int) -> np.ndarray:
        """Return when the heartbeats `begin` .. `end` - 1 arrive, without lost ones [ns], in no order."""
        numbers = np.arange(begin, end, dtype=np.int64)
        ids = numbered(self._code, numbers)
        if self._loss:
            kept = uniforms(ids, self._lost) >= self._loss
            numbers, ids = numbers[kept], ids[kept]
        sent = numbers * self.interval_ns
        return sent if self._delay is None else sent + delays_ns(self._delay, uniforms(ids, self._late))

    def first_after(self, instant_ns: int) -> int:
        """Return the first arrival of the heartbeats that are sent after an instant."""
        begin, first = instant_ns // self.interval_ns + 1, _FAR_NS
        while begin * self.interval_ns < first:
            found = self.arrivals(begin, begin + self.block)
            begin += self.block
            first = min(first, int(found.min(initial=_FAR_NS)))
        return first


class Silence:
    """Finds the first silence of a host that is longer than the time-out, a block of heartbeats at a time.

    Heard of are the heartbeats that were sent after `sent_after_ns`; the silence begins at `heard_ns`.
    """

    def __init__(self, beats: Heartbeats, sent_after_ns: int, heard_ns: int) -> None:
        self._beats = beats
        self._begin = self._next = sent_after_ns // beats.interval_ns + 1
        self._heard = self._heard_before = heard_ns
        self._late = self._late_before = np.zeros(0, np.int64)  # arrive after the block that they were sent in

    @property
    def known_ns(self) -> int:
        """Return up to when it has checked."""
        return self._next * self._beats.interval_ns

    def check(self) -> int | None:
        """Return when the time-out strikes during the next block; None, and a later `known_ns`, if it does not."""
        self._begin, self._heard_before, self._late_before = self._next, self._heard, self._late
        self._next += self._beats.block
        arrived = np.sort(np.concatenate((self._late, self._beats.arrivals(self._begin, self._next))))
        known = arrived[arrived < self.known_ns]
        self._late = arrived[known.size :]
        heard = np.concatenate(([self._heard], known))
        strike = self._strike(np.append(heard, self.known_ns))
        self._heard = int(heard[-1])
        return strike

    def detected_ns(self, failed_ns: int) -> int:
        """Return when the time-out strikes if the host is silent from `failed_ns` on, which is in the last block."""
        end = max(self._begin, (failed_ns - 1) // self._beats.interval_ns + 1)
        arrived = np.sort(np.concatenate((self._late_before, self._beats.arrivals(self._begin, end))))
        heard = np.concatenate(([self._heard_before], arrived))
        strike = self._strike(heard)
        return max(failed_ns, int(heard[-1]) + self._beats.timeout_ns if strike is None else strike)

    def _strike(self, heard: np.ndarray) -> int | None:
        silent = np.flatnonzero(np.diff(heard) > self._beats.timeout_ns)
        return int(heard[silent[0]]) + self._beats.timeout_ns if silent.size else None


CRASH, SUSPICION, DRIVER, CHECKPOINTS, RESCALE = "crash", "suspicion", "driver", "checkpoints", "rescale"
WORKER = "worker"
STOP, REBALANCE = "stop", "rebalance"  # of a host on purpose; key groups that go to one that has come


class _Failure(NamedTuple):
    host: int
    lost: list[int]  # partitions
    failed_ns: int
    row: int  # in the table of failures
    dead_ns: int  # when the host counts as dead


class Failures:
    """Lets hosts die and come back, and has the coordinator of crashes do the rest.

    Where heartbeats can be lost or late, a host that lives and was silent for too long is fenced: it is lost as if it
    had died at that instant, and back with its next heartbeat.
    """

    def __init__(self, state: StateOn[Plane], crash: CrashCoordinator) -> None:
        self.state, self.crash, self.scenario = state, crash, state.plan.scenario
        self._beats: list[Heartbeats] = []  # by host; empty where none is lost or late
        self._silences: dict[int, Silence] = {}  # of hosts that live
        self._fenced: dict[int, int] = {}  # host that is down and lives -> row in the table of failures
        self._unnoticed: dict[int, _Failure] = {}  # row in the table of failures -> failure that is not detected
        if crash.batches is not None:
            crash.batches.registers = self._notice_all

    def start(self) -> None:
        """Start the processes: events in file order, then the laws of the hosts, then the detector."""
        clock, plan = self.state.clock, self.state.plan
        for name, event in self.scenario.events.items():
            if isinstance(event, HostFailure):
                clock.process(self._event(event, plan.instant_ns(name)))
            elif isinstance(event, DriverFailure):
                clock.process(self._driver(plan.instant_ns(name)))
            elif isinstance(event, WorkerFailure):
                clock.process(self._workers(event.host, plan.instant_ns(name)))
        for host, group in enumerate(plan.host_groups):
            law = group.failures
            if isinstance(law, ExponentialFailures):
                clock.process(self._random(host, law))
            elif isinstance(law, ScheduledFailures):
                clock.process(self._scheduled(host, law))
        if self.scenario.detector.errs:
            for host, name in enumerate(plan.host_names):
                self._beats.append(Heartbeats(self.scenario.detector, self.scenario.seed, plan.replication, name))
                if self.state.cluster.host_alive[host]:
                    self._listen(host, 0, 0)

    def _event(self, failure: HostFailure, at_ns: int) -> Process:
        """Fail a host as an event of the scenario says."""
        yield self.state.clock.sleep(at_ns)
        host = self.state.plan.host_names.index(failure.host)
        self.fail(host, None if failure.repair_s is None else to_ns(failure.repair_s), failure.silent)

    def _driver(self, at_ns: int) -> Process:
        """Kill the driver as an event of the scenario says; who supervises it notices when a connection breaks."""
        clock, crash, recorder = self.state.clock, self.crash, self.state.recorder
        yield clock.sleep(at_ns)
        host = crash.batches.driver if crash.batches is not None else None
        if host is None or not self.state.cluster.host_alive[host]:
            self.state.decide(Action.FAIL, "the driver", "it is already down", verdict=Verdict.REFUSED)
            return
        lost = [one for one in crash.lose_driver() if self.state.cluster.is_owner(one)]
        row = self.row(host, len(lost), DRIVER)
        yield clock.sleep(at_ns + to_ns(self.scenario.detector.connection_s or 0.0))
        recorder.revise("failures", row, detected_ns=clock.now_ns(), repaired_ns=clock.now_ns())
        crash.recover([LostPartition(partition, host, at_ns, row) for partition in lost])

    def _workers(self, name: str, at_ns: int) -> Process:
        """Kill the workers of a host; the host looks at them now and then, and starts those that have died.

        If it dies before it looks, they start where it is back, or elsewhere once it is missed.
        """
        clock, cluster, host = self.state.clock, self.state.cluster, self.state.plan.host_names.index(name)
        yield clock.sleep(at_ns)
        if not cluster.host_alive[host]:
            self.state.decide(Action.FAIL, f"the workers of {name}", "the host is down", verdict=Verdict.REFUSED)
            return
        lost = [one for one in self.crash.lose_workers(host) if cluster.is_owner(one)]
        row = self.row(host, len(lost), WORKER)
        every_ns = to_ns(self.scenario.workers.check_s or 0.0)
        yield clock.sleep(_next_look_ns(at_ns, every_ns))
        while cluster.trusted[host] and not cluster.host_alive[host]:
            yield clock.sleep(_next_look_ns(clock.now_ns() + 1, every_ns or to_ns(self.scenario.detector.heartbeat_s)))
        now = clock.now_ns()
        self.state.recorder.revise("failures", row, detected_ns=now, repaired_ns=now)
        if not lost:
            self.state.recorder.revise("failures", row, caught_up_ns=now)
        self.crash.recover([LostPartition(partition, host, at_ns, row) for partition in lost])

    def fail_job(self, why: str) -> None:
        """Fail the job because of its checkpoints: all of it is restarted, which nobody has to detect."""
        now, is_owner = self.state.clock.now_ns(), self.state.cluster.is_owner
        self.state.decide(Action.FAIL, JOB, why)
        lost = [partition for partition in self.crash.lose_job() if is_owner(partition)]
        row = self.row(THE_JOB, len(lost), CHECKPOINTS)
        self.state.recorder.revise("failures", row, detected_ns=now, repaired_ns=now)
        if not lost:  # all of it is on hosts that are dead, which nobody has detected
            self.state.recorder.revise("failures", row, caught_up_ns=now)
        self.crash.restart_job([LostPartition(partition, THE_JOB, now, row) for partition in lost])

    def _scheduled(self, host: int, law: ScheduledFailures) -> Process:
        """Fail one host at given times."""
        for at_s in sorted(law.at_s):
            yield self.state.clock.sleep(to_ns(at_s))
            self.fail(host, to_ns(law.repair_s))

    def _random(self, host: int, law: ExponentialFailures) -> Process:
        """Fail one host after exponential up times."""
        clock, repair_ns, plan = self.state.clock, to_ns(law.repair_s), self.state.plan
        rng = generator(self.scenario.seed, plan.replication, plan.host_names[host], "failures")
        while True:
            yield clock.sleep(clock.now_ns() + at_least_one_ns(float(rng.exponential(law.mtbf_s))))
            self.fail(host, repair_ns)
            yield clock.sleep(clock.now_ns() + repair_ns)

    # -- a host dies

    def fail(self, host: int, repair_ns: int | None, silent: bool = False) -> None:
        """Kill the host: queues, services, state, unsent outputs, and the checkpoints that it holds are gone.

        One that is `silent` breaks no connection and refuses no heartbeat. A fenced host has nothing to lose; it is
        back when it is repaired, and not with its next heartbeat.
        """
        state, recorder = self.state, self.state.recorder
        now = state.clock.now_ns()
        back_at = None if repair_ns is None else now + repair_ns
        if host in self._fenced:
            del self._fenced[host]
            row = self.row(host, 0, CRASH)
            recorder.revise("failures", row, detected_ns=now, caught_up_ns=now)
            state.clock.process(self._repair(host, back_at, row))
        elif not state.cluster.host_alive[host]:
            why = "the host is not in use" if host in state.cluster.spare else "the host is already down"
            state.decide(Action.FAIL, state.plan.host_names[host], why, verdict=Verdict.REFUSED)
        else:
            # Asked first: `_lose` forgets what the detector has heard of the host.
            dead_at = self._dead_ns(host, now, silent)
            lost = self._lose(host)
            row = self.row(host, sum(map(state.cluster.is_owner, lost)), CRASH)
            # Who is connected to nobody is missed by nobody. An executor without tasks is connected to its driver; if
            # that is down, another one will find no executor there.
            connected = lost or self.crash.batches is not None
            noticed_s = self.scenario.detector.notices_s(silent) if connected else math.inf
            detect_at = dead_at if math.isinf(noticed_s) else min(dead_at, now + to_ns(noticed_s))
            gives_away = self.scenario.detector.returns == "noticed"
            if gives_away and back_at is not None and back_at <= dead_at:  # its return gives the failure away
                dead_at = back_at
            failure = _Failure(host, lost, now, row, dead_at)
            state.clock.process(self._after(failure, min(detect_at, dead_at), back_at))

    def stop(self, host: int, down_ns: int | None, leaves: bool) -> None:
        """Stop a live host on purpose, of which the caller has noted what it has; one that leaves says so."""
        now = self.state.clock.now_ns()
        dead_at = now if leaves else self._dead_ns(host, now, silent=True)
        lost = self._lose(host)
        row = self.row(host, sum(map(self.state.cluster.is_owner, lost)), STOP)
        back_at = None if down_ns is None else now + down_ns
        if self.scenario.detector.returns == "noticed" and back_at is not None and not leaves:
            dead_at = min(dead_at, back_at)
        self.state.clock.process(self._after(_Failure(host, lost, now, row, dead_at), dead_at, back_at))

    def row(self, host: int, lost: int, cause: str, failed_ns: int | None = None) -> int:
        """Write the row of a failure, by default of now, with so many partitions; return its number."""
        rows = self.state.recorder.rows["failures"]
        at_ns = self.state.clock.now_ns() if failed_ns is None else failed_ns
        rows.append((host, at_ns, NEVER, NEVER, lost, NEVER, cause))
        return len(rows) - 1

    def _lose(self, host: int) -> list[int]:
        self._silences.pop(host, None)
        return self.crash.lose(host)

    def _after(self, failure: _Failure, detect_at: int, back_at: int | None) -> Process:
        """Detect the failure and repair the host, whichever comes first; a host that comes back announces itself.

        Or it resumes as the member that it was, and nobody has missed it.
        """
        if self.scenario.detector.returns == "resumed" and back_at is not None and back_at <= detect_at:
            yield self.state.clock.sleep(back_at)
            self._resumes(failure)
            return
        self._unnoticed[failure.row] = failure
        yield self.state.clock.sleep(detect_at)
        if failure.row in self._unnoticed:
            # Back before the time-out: until it is back, below, moves to it wait.
            if back_at is not None and back_at <= self.state.clock.now_ns():
                self.state.view.returning.add(failure.host)
            self._detected(failure)
        yield from self._repair(failure.host, back_at, failure.row)

    def _detected(self, failure: _Failure) -> None:
        """Recover what was lost: control knows of the failure."""
        self._unnoticed.pop(failure.row, None)
        now = self.state.clock.now_ns()
        self.state.recorder.revise("failures", failure.row, detected_ns=now)
        if not failure.lost:
            self.state.recorder.revise("failures", failure.row, caught_up_ns=now)
        self.crash.detected(failure.host, failure.lost, failure.failed_ns, failure.row, failure.dead_ns)

    def _notice_all(self) -> None:
        """Detect all failures that nobody has noticed yet."""
        for failure in [*self._unnoticed.values()]:
            self._detected(failure)

    def _resumes(self, failure: _Failure) -> None:
        """Have a host go on with what it had."""
        now = self.state.clock.now_ns()
        self.state.recorder.revise("failures", failure.row, detected_ns=now, repaired_ns=now)
        if not failure.lost:
            self.state.recorder.revise("failures", failure.row, caught_up_ns=now)
        self.crash.resume(failure.host, failure.lost, failure.failed_ns, failure.row)
        if self._beats:
            self._listen(failure.host, now, now)

    def _repair(self, host: int, back_at: int | None, row: int) -> Process:
        """Bring the host back at its time, if it has one."""
        clock = self.state.clock
        if back_at is None:
            return
        if back_at > clock.now_ns():
            yield clock.sleep(back_at)
        self._back(host, row, clock.now_ns())

    def _back(self, host: int, row: int, sent_after_ns: int) -> None:
        """Bring the host back, empty; the detector hears the heartbeats that it sends after an instant."""
        now = self.state.clock.now_ns()
        self.state.recorder.revise("failures", row, repaired_ns=now)
        self.crash.back(host)
        if self._beats:
            self._listen(host, sent_after_ns, now)

    # -- hosts that come and go

    def begins(self, host: int) -> None:
        """Start using a host that was not in use; control knows it."""
        now = self.state.clock.now_ns()
        self.crash.begin(host)
        if self._beats:
            self._listen(host, now, now)

    def ends(self, host: int) -> None:
        """Stop using a host; control knows it. The caller has moved away what was there."""
        self._silences.pop(host, None)
        self.crash.end(host)

    # -- the detector

    def _dead_ns(self, host: int, failed_ns: int, silent: bool) -> int:
        """Return when the host counts as dead: after the last heartbeat that arrives of those before the failure [ns].

        That is a time-out after it, or with the last of the calls that fail.
        """
        if self._beats:
            return self._silences[host].detected_ns(failed_ns)
        detector = self.scenario.detector
        heartbeat_ns = max(1, to_ns(detector.heartbeat_s))
        last = (failed_ns - 1) // heartbeat_ns * heartbeat_ns if failed_ns > 0 else 0
        return _next_look_ns(max(failed_ns, last + to_ns(detector.patience_s(silent))), to_ns(detector.check_s or 0.0))

    def _listen(self, host: int, sent_after_ns: int, heard_ns: int) -> None:
        self._silences[host] = Silence(self._beats[host], sent_after_ns, heard_ns)
        self.state.clock.process(self._suspect(host, self._silences[host]))

    def _suspect(self, host: int, silence: Silence) -> Process:
        """Fence the host when it is silent for too long, unless it dies before."""
        clock = self.state.clock
        # `_silences` has another entry, or none, once the host has died or come back: then this process is over.
        while self._silences.get(host) is silence:
            strike = silence.check()
            yield clock.sleep(max(clock.now_ns(), silence.known_ns if strike is None else strike))
            if strike is not None and self._silences.get(host) is silence:
                now = clock.now_ns()
                self.fence(host, self._beats[host].first_after(now))

    def fence(self, host: int, back_at: int) -> None:
        """Stop a live host that is suspected; it is back at an instant, unless it dies before."""
        state, now = self.state, self.state.clock.now_ns()
        if not state.cluster.host_alive[host]:
            return
        silent = f"it was silent for {display.duration(self.scenario.detector.timeout_s)}"
        state.decide(Action.FENCE, state.plan.host_names[host], silent)
        # Fencing comes before recovery, at the same instant: two live owners of a key group must never exist.
        lost = self._lose(host)
        row = self.row(host, sum(map(state.cluster.is_owner, lost)), SUSPICION)
        self._fenced[host] = row
        state.clock.process(self._return(host, now, back_at, row))
        self._detected(_Failure(host, lost, now, row, now))

    def _return(self, host: int, fenced_ns: int, back_at: int, row: int) -> Process:
        """Bring a fenced host back when its heartbeat arrives."""
        yield self.state.clock.sleep(back_at)
        if self._fenced.get(host) == row:
            del self._fenced[host]
            self._back(host, row, fenced_ns)


def _next_look_ns(from_ns: int, every_ns: int) -> int:
    """Return the first instant, not before another one, at which somebody looks who does it so often; 0: all the time.

    >>> _next_look_ns(93, 10), _next_look_ns(90, 10), _next_look_ns(93, 0)
    (100, 90, 93)
    """
    return -(-from_ns // every_ns) * every_ns if every_ns else from_ns
