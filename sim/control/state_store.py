"""A store for states outside of all hosts, such as Redis for Storm: it keeps parcels under names."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from models.units import to_ns
from sim.clock import MESSAGE, channel
from sim.control.run_state import StateOn
from sim.data_plane import ParcelPlane
from sim.plane_values import Parcel

_NS = 1_000_000_000
_Parcels = tuple[Parcel, ...]


@dataclass(frozen=True)
class _Request:
    """A request of a task: `begins` returns the parcels that it is about, and `served` is called with them."""

    task: int
    begins: Callable[[], _Parcels]
    served: Callable[[_Parcels], None]


class StateStore:
    """Parcels by name; what is written under a name replaces what was there.

    A request takes the latency, then waits until the store can serve it, first come first served, then is served: a
    time per request, a time per captured tuple, and the transfer of its bytes. Its answer takes the latency. The store
    never fails, and its traffic shares no link with that of tasks. An answer to a task that is dead by then reaches
    nobody; what a dead task had asked to be written is written.
    """

    def __init__(self, state: StateOn[ParcelPlane]) -> None:
        self._state = state
        self._kept: dict[Hashable, _Parcels] = {}
        described, scenario = state.plan.scenario.state_store, state.plan.scenario
        self._latency_ns = state.plan.latency_ns if described.latency_s is None else to_ns(described.latency_s)
        self._request_ns, self._per_tuple_ns = to_ns(described.request_s), described.per_tuple_s * _NS
        self._bytes_per_s = described.bytes_per_s or scenario.fault_tolerance.remote_bytes_per_s
        self._free = described.concurrency  # requests that could be served beside those that are
        self._waiting: deque[_Request] = deque()
        self._read: Counter[int] = Counter()  # number of a parcel -> reads whose answer is to come
        self._forgotten: set[int] = set()  # of these, those that nobody can ask for any more

    def persist(
        self,
        name: Hashable,
        parcels: _Parcels,
        task: int,
        wanted: Callable[[], bool],
        answered: Callable[[], None],
    ) -> None:
        """Write parcels for a task, if they are still `wanted` then; `answered` is called when the task hears of it."""

        def writes(_: _Parcels) -> None:
            if wanted():
                self.forget(name)
                self._kept[name] = parcels
                self._answer(task, answered)

        self._ask(_Request(task, lambda: parcels, writes))

    def fetch(self, name: Hashable, task: int, answered: Callable[[_Parcels], None]) -> None:
        """Read for a task: `answered` is called with what is there when the store begins to serve it, perhaps nothing.

        The parcels stay in the store, and in any case until the answer has arrived.
        """

        def begins() -> _Parcels:
            found = self._kept.get(name, ())
            self._read.update(one.number for one in found)
            return found

        def reads(found: _Parcels) -> None:
            self._answer(task, lambda: answered(found), lambda: self._let_go(found))

        self._ask(_Request(task, begins, reads))

    def forget(self, name: Hashable) -> None:
        """Discard the parcels under a name, if there are any."""
        for parcel in self._kept.pop(name, ()):
            if self._read[parcel.number]:
                self._forgotten.add(parcel.number)
            else:
                self._state.plane.discard(parcel.number)

    def _let_go(self, parcels: _Parcels) -> None:
        """End a read; what was replaced meanwhile is discarded with the last one."""
        for parcel in parcels:
            self._read[parcel.number] -= 1
            if not self._read[parcel.number] and parcel.number in self._forgotten:
                self._forgotten.remove(parcel.number)
                self._state.plane.discard(parcel.number)

    def _ask(self, request: _Request) -> None:
        def arrives(_: object) -> None:
            self._waiting.append(request)
            self._serve()

        self._at(self._latency_ns, request.task, arrives)

    def _serve(self) -> None:
        """Begin with the requests that wait, as far as there is room."""
        while self._waiting and self._free:
            self._free -= 1
            self._begin(self._waiting.popleft())

    def _begin(self, request: _Request) -> None:
        parcels = request.begins()

        def ends(_: object) -> None:
            # Before the next one begins: what was written can be read.
            request.served(parcels)
            self._free += 1
            self._serve()

        size, tuples = sum(one.bytes for one in parcels), sum(one.tuples for one in parcels)
        work = self._request_ns + round(self._per_tuple_ns * tuples) + round(size * _NS / self._bytes_per_s)
        self._at(work, request.task, ends)

    def _answer(self, task: int, call: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
        """Call when the answer arrives, if the task lives then; in any case `then` comes after it."""

        def comes(_: object) -> None:
            if self._state.cluster.task_alive[task]:
                call()
            then()

        self._at(self._latency_ns, task, comes)

    def _at(self, after_ns: int, task: int, call: Callable[[object], None]) -> None:
        clock = self._state.clock
        clock.at(clock.now_ns() + after_ns, channel(MESSAGE, task, task), call)
