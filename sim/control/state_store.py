"""A store for states outside of all hosts, such as Redis for Storm: it keeps parcels under names."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from sim.clock import MESSAGE, channel
from sim.control.run_state import StateOn
from sim.data_plane import Parcel, ParcelPlane


class StateStore:
    """Parcels by name; what is written under a name replaces what was there.

    Simplified: it answers every request, one latency after the transfer, which shares the link of the remote checkpoint
    store in the order of the requests (`fault_tolerance.remote`), and a request costs nothing by itself. An answer to a
    task that is dead by then reaches nobody; what a dead task had asked to be written is written.
    """

    def __init__(self, state: StateOn[ParcelPlane]) -> None:
        self._state = state
        self._kept: dict[Hashable, tuple[Parcel, ...]] = {}

    def persist(
        self,
        name: Hashable,
        parcels: tuple[Parcel, ...],
        task: int,
        wanted: Callable[[], bool],
        answered: Callable[[], None],
    ) -> None:
        """Write parcels for a task, if they are still `wanted` then; `answered` is called when the task hears of it."""
        state = self._state
        at_ns = state.plane.fetch_ns(sum(parcel.bytes for parcel in parcels))

        def writes(_: object) -> None:
            if wanted():
                self.forget(name)
                self._kept[name] = parcels
                self._answer(task, state.clock.now_ns() + state.plan.latency_ns, answered)

        state.clock.at(at_ns, channel(MESSAGE, task, task), writes)

    def fetch(self, name: Hashable, task: int, answered: Callable[[tuple[Parcel, ...]], None]) -> None:
        """Read for a task: `answered` is called with what was there at the request, perhaps nothing, when it arrives.

        The parcels stay in the store.
        """
        found = self._kept.get(name, ())
        self._answer(task, self._state.plane.fetch_ns(sum(parcel.bytes for parcel in found)), lambda: answered(found))

    def forget(self, name: Hashable) -> None:
        """Discard the parcels under a name, if there are any."""
        for parcel in self._kept.pop(name, ()):
            self._state.plane.discard(parcel.number)

    def _answer(self, task: int, at_ns: int, call: Callable[[], None]) -> None:
        def comes(_: object) -> None:
            if self._state.cluster.task_alive[task]:
                call()

        self._state.clock.at(at_ns, channel(MESSAGE, task, task), comes)
