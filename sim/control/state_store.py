"""A store for states outside of all hosts, such as Redis for Storm: it keeps parcels under names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from models.units import to_ns
from sim.clock import MESSAGE, channel
from sim.control.run_state import StateOn
from sim.data_plane import Parcel, ParcelPlane

_NS = 1_000_000_000


class StateStore:
    """Parcels by name; what is written under a name replaces what was there.

    A request takes the latency, then waits until the store can serve it, first come first served, then is served: a
    time per request, a time per captured tuple, and the transfer of its bytes. Its answer takes the latency. The store
    never fails, and its traffic shares no link with that of tasks. An answer to a task that is dead by then reaches
    nobody; what a dead task had asked to be written is written.
    """

    def __init__(self, state: StateOn[ParcelPlane]) -> None:
        self._state = state
        self._kept: dict[Hashable, tuple[Parcel, ...]] = {}
        described, scenario = state.plan.scenario.state_store, state.plan.scenario
        self._latency_ns = state.plan.latency_ns if described.latency_s is None else to_ns(described.latency_s)
        self._request_ns, self._per_tuple_ns = to_ns(described.request_s), described.per_tuple_s * _NS
        self._bytes_per_s = described.bytes_per_s or scenario.fault_tolerance.remote_bytes_per_s
        self._free_ns = [0] * described.concurrency  # when each of them has served all requests so far

    def persist(
        self,
        name: Hashable,
        parcels: tuple[Parcel, ...],
        task: int,
        wanted: Callable[[], bool],
        answered: Callable[[], None],
    ) -> None:
        """Write parcels for a task, if they are still `wanted` then; `answered` is called when the task hears of it."""
        at_ns = self._served_ns(parcels)

        def writes(_: object) -> None:
            if wanted():
                self.forget(name)
                self._kept[name] = parcels
                self._answer(task, at_ns + self._latency_ns, answered)

        self._state.clock.at(at_ns, channel(MESSAGE, task, task), writes)

    def fetch(self, name: Hashable, task: int, answered: Callable[[tuple[Parcel, ...]], None]) -> None:
        """Read for a task: `answered` is called with what was there at the request, perhaps nothing, when it arrives.

        The parcels stay in the store.
        """
        found = self._kept.get(name, ())
        self._answer(task, self._served_ns(found) + self._latency_ns, lambda: answered(found))

    def forget(self, name: Hashable) -> None:
        """Discard the parcels under a name, if there are any."""
        for parcel in self._kept.pop(name, ()):
            self._state.plane.discard(parcel.number)

    def _served_ns(self, parcels: Sequence[Parcel]) -> int:
        """Return when a request of now is served; it occupies one of those that serve until then."""
        size, tuples = sum(one.bytes for one in parcels), sum(one.tuples for one in parcels)
        first = min(range(len(self._free_ns)), key=self._free_ns.__getitem__)
        begin = max(self._state.clock.now_ns() + self._latency_ns, self._free_ns[first])
        work = self._request_ns + round(self._per_tuple_ns * tuples) + round(size * _NS / self._bytes_per_s)
        self._free_ns[first] = begin + work
        return begin + work

    def _answer(self, task: int, at_ns: int, call: Callable[[], None]) -> None:
        def comes(_: object) -> None:
            if self._state.cluster.task_alive[task]:
                call()

        self._state.clock.at(at_ns, channel(MESSAGE, task, task), comes)
