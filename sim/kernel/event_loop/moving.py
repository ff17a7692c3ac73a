"""Verbs that put a key group at two tasks: a part of the compiled plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.kernel.event_loop import buffers, checkpoints, event_time_setup, instances, pools
from sim.kernel.event_loop.state import CALM, NONE
from sim.kernel.tools.pointer import State

if TYPE_CHECKING:
    from sim.control.cluster import RunPlan

_TARGETS = 2  # at most, of one table entry


class Moves(ABC):
    """The verbs of `sim.data_plane` for instances of units."""

    s: State
    _plan: RunPlan
    _may_double = False

    @abstractmethod
    def _act(self) -> None:
        """An action comes."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    def add_instance(self, instance: int, unit: int, task: int) -> None:
        """One more instance of the unit's group."""
        self._act()
        if not self._plan.may_fail:
            raise ValueError("a group can have two instances only where a host may fail: else no ids are kept")
        if self.s.units["is_source"][unit]:
            raise ValueError("a source has one instance")
        if not self._may_double:
            self._may_double = True
            self.s.g["fan_out"] *= _TARGETS
            self.s.g["special"] = 1
        self._room(0)
        pools.more_positions(self.s, int(buffers.positions_missing(self.s)))
        buffers.note_positions(self.s)  # from now on a tuple may come twice
        pools.with_unit(self.s, instance)
        event_time_setup.with_channels(self.s, instance, int(self.s.units["group"][unit]))
        instances.add_instance(self.s, instance, unit, task)

    def route(self, sender: int, unit: int, targets: Sequence[int]) -> None:
        """Where outputs of a task for the unit's group go."""
        self._act()
        if len(targets) > _TARGETS:
            raise ValueError(f"an output goes to at most {_TARGETS} instances of a group")
        group = int(self.s.units["group"][unit])
        instances.clear_routes(self.s, group, sender)
        for target in targets:
            pools.with_rule(self.s)
            instances.add_route(self.s, group, sender, target)

    def own(self, instance: int) -> None:
        """The instance is the owner of its group."""
        self._act()
        instances.own(self.s, instance)

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """What is kept for a receiver is kept for another one, too."""
        self._act()
        self._room(int(self.s.units["kept_rows"][sender]) + 2)
        instances.copy_kept(self.s, sender, receiver, other)

    def adopt(self, instance: int, unit: int) -> None:
        """The stored checkpoint of the unit is that of a new instance, too, and its state."""
        self._act()
        if self.s.units["applied"][instance] or self.s.units["live"][instance]:
            raise ValueError("only a new instance can take the state of another")
        self._room_to_copy(unit)
        instances.adopt(self.s, instance, unit)

    def _room_to_copy(self, unit: int) -> None:
        """Make room for one more copy of the stored checkpoint of the unit."""
        kept = int(instances.noted(self.s, unit))
        if kept:
            event_time_setup.grown(self.s, kept)
        self._room(int(instances.adoption(self.s, unit)) + 2 * kept + 2)

    def checkpoint(self, unit: int, holder: int) -> bool:
        """A checkpoint of the unit now, for that holder; whether it was taken."""
        self._act()
        u = self.s.units[unit]
        if not u["live"] or u["saving"] or u["is_sink"] or u["is_source"]:
            return False
        self._room(int(self.s.g["fan_out"][0]) + 2)
        checkpoints.take(self.s, unit, holder)
        self._tell()
        return True

    def trim(self, unit: int, count: int) -> None:
        """Upstream forgets what is among the first `count` tuples that the unit applied."""
        self._act()
        checkpoints.trim_for(self.s, unit, count)

    def hand_down(self, instance: int, heir: int) -> bool:
        """The state of an instance becomes the stored checkpoint of another one, held by its host."""
        self._act()
        return bool(instances.hand_down(self.s, instance, heir))

    def freeze(self, unit: int, frozen: bool) -> None:
        """No checkpoint of the unit is taken or stored, as if one were always under way."""
        self._act()
        u = self.s.units[unit]
        u["incarnation"] += frozen and u["saving"]
        u["saving"] = frozen

    def plan_holder(self, unit: int, host: int) -> None:
        """The host is the planned holder."""
        self.s.units["planned"][unit] = host

    def announce(self, unit: int) -> None:
        """The listener is told when the next checkpoint of the unit is stored."""
        self._act()
        self.s.units["announced"][unit] = 1

    def measure(self, unit: int, from_ns: int) -> None:
        """Time the tuples that arrive at the unit from an instant on."""
        self._act()
        u = self.s.units[unit]
        u["measured"], u["measured_from"], u["longest"] = 1, from_ns, NONE

    def measure_until_calm(self, unit: int) -> None:
        """Up to the first that is served as it arrives."""
        self._act()
        u = self.s.units[unit]
        u["measured"] = CALM if u["measured"] else 0

    def longest_ns(self, unit: int) -> int:
        """The longest of these times, or NEVER."""
        return int(self.s.units["longest"][unit])

    def retire(self, unit: int) -> None:
        """The instance is not live, keeps nothing, and nothing is kept for it."""
        self._act()
        self._room(0)
        instances.retire(self.s, unit)
