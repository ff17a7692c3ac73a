"""Verbs that put a key group at two tasks: a part of the compiled plane."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sim.kernel.event_loop import buffers, checkpoints, event_time_setup, instances, pools
from sim.kernel.event_loop.codes import CALM, NONE
from sim.kernel.tools.pointer import State

if TYPE_CHECKING:
    from sim.control.cluster import RunPlan

_TARGETS = 2  # at most, of one table entry


class Moves(ABC):
    """The verbs of `sim.data_plane` for instances of partitions."""

    state: State
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

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """One more instance of the partition's group."""
        self._act()
        if not self._plan.may_fail:
            raise ValueError("a group can have two instances only where a host may fail: else no ids are kept")
        if self.state.partitions["is_source"][partition]:
            raise ValueError("a source has one instance")
        if not self._may_double:
            self._may_double = True
            self.state.options["fan_out"] *= _TARGETS
            self.state.options["special"] = 1
        self._room(0)
        pools.more_positions(self.state, int(buffers.positions_missing(self.state)))
        buffers.note_positions(self.state)  # from now on a tuple may come twice
        pools.with_partition(self.state, instance)
        event_time_setup.with_channels(self.state, instance, int(self.state.partitions["group"][partition]))
        instances.add_instance(self.state, instance, partition, task)

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Where outputs of a task for the partition's group go."""
        self._act()
        if len(targets) > _TARGETS:
            raise ValueError(f"an output goes to at most {_TARGETS} instances of a group")
        group = int(self.state.partitions["group"][partition])
        instances.clear_routes(self.state, group, sender)
        for target in targets:
            pools.with_rule(self.state)
            instances.add_route(self.state, group, sender, target)

    def own(self, instance: int) -> None:
        """The instance is the owner of its group."""
        self._act()
        instances.own(self.state, instance)

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Keep for another receiver, too, all that is kept for one."""
        self._act()
        self._room(int(self.state.partitions["kept_rows"][sender]) + 2)
        instances.copy_kept(self.state, sender, receiver, other)

    def adopt(self, instance: int, partition: int) -> None:
        """The stored checkpoint of the partition is that of a new instance, too, and its state."""
        self._act()
        if self.state.partitions["applied"][instance] or self.state.partitions["live"][instance]:
            raise ValueError("only a new instance can take the state of another")
        self._room_to_copy(partition)
        instances.adopt(self.state, instance, partition)

    def _room_to_copy(self, partition: int) -> None:
        """Make room for one more copy of the stored checkpoint of the partition."""
        kept = int(instances.noted(self.state, partition))
        if kept:
            event_time_setup.grown(self.state, kept)
        self._room(int(instances.adoption(self.state, partition)) + 2 * kept + 2)

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """Take a checkpoint of the partition now, for that checkpoint host; return whether it was taken."""
        self._act()
        u = self.state.partitions[partition]
        if not u["live"] or u["saving"] or u["is_sink"] or u["is_source"]:
            return False
        self._room(int(self.state.options["fan_out"]) + 2)
        checkpoints.take(self.state, partition, checkpoint_host)
        self._tell()
        return True

    def trim(self, partition: int, count: int) -> None:
        """Upstream forgets what is among the first `count` tuples that the partition applied."""
        self._act()
        checkpoints.trim_for(self.state, partition, count)

    def hand_down(self, instance: int, successor: int) -> bool:
        """Make the state of an instance the stored checkpoint of another one, held by its host."""
        self._act()
        return bool(instances.hand_down(self.state, instance, successor))

    def freeze(self, partition: int, frozen: bool) -> None:
        """No checkpoint of the partition is taken or stored, as if one were always under way."""
        self._act()
        u = self.state.partitions[partition]
        u["incarnation"] += frozen and u["saving"]
        u["saving"] = frozen

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """The host is the planned checkpoint host."""
        self.state.partitions["planned"][partition] = host

    def announce(self, partition: int) -> None:
        """The listener is told when the next checkpoint of the partition is stored."""
        self._act()
        self.state.partitions["announced"][partition] = 1

    def measure(self, partition: int, from_ns: int) -> None:
        """Time the tuples that arrive at the partition from an instant on."""
        self._act()
        u = self.state.partitions[partition]
        u["measured"], u["measured_from"], u["longest"] = 1, from_ns, NONE

    def measure_until_calm(self, partition: int) -> None:
        """Up to the first that is served as it arrives."""
        self._act()
        u = self.state.partitions[partition]
        u["measured"] = CALM if u["measured"] else 0

    def longest_ns(self, partition: int) -> int:
        """Return the longest of these times, or NEVER."""
        return int(self.state.partitions["longest"][partition])

    def retire(self, partition: int) -> None:
        """The instance is not live, keeps nothing, and nothing is kept for it."""
        self._act()
        self._room(0)
        instances.retire(self.state, partition)
