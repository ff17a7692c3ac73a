"""Post-dated outputs and open keys in snapshots of checkpoints of the job.

Control alone has such snapshots taken, completed and restored, so the kernel does not know of them: its part is to give
the outputs of a restored state events of their own (`emitting.post_date_again`), and open keys their places
(`open_keys.restore_keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from models.scenario.key_groups import groups_of_keys
from sim.control.cluster import RunPlan
from sim.kernel.event_loop.buffers import UNPINNED
from sim.kernel.event_loop.codes import NONE
from sim.kernel.event_loop.emitting import SAVED_OUTPUT, waiting_of
from sim.kernel.event_loop.open_keys import OPEN_KEY, have_closed, open_places_of
from sim.kernel.tools.pointer import State

_NO_KEYS = np.zeros(0, np.int64)


class Saved(NamedTuple):
    """Hold what a snapshot of a partition has of outputs of later times.

    The outputs themselves, as they were made, the keys that are open, and of each key that the partition may have
    whether it has closed (n_keys,).
    """

    outputs: np.ndarray
    open_keys: np.ndarray
    closed: np.ndarray

    @property
    def oldest(self) -> int:
        """Return the first birth of its outputs."""
        return int(self.outputs["born"].min(initial=UNPINNED))


class SavedOutputs:
    """Keeps snapshots of partitions whose outputs are post-dated: those under way, by slot, and those that count."""

    def __init__(self, plan: RunPlan, state: State) -> None:
        self._plan, self._state = plan, state
        self._postpones = state.operators["postpones"] != 0  # (n_operators,)
        self._under_way: dict[tuple[int, int], Saved] = {}  # by partition and slot
        self._complete: dict[int, Saved] = {}  # by partition

    def take(self, partitions: Sequence[int], slot: int) -> None:
        """Take snapshots of these partitions; call it before the kernel does, which needs to know what is new."""
        numbers = self._of_later_times(np.array(sorted(partitions), np.int64))
        if not numbers.size:
            return
        outputs, open_keys = self._waiting(numbers), self._open(numbers)
        if not self._state.options["always_full"]:
            self._count_new(numbers, outputs, open_keys)
        of_each = zip(_split(outputs, numbers), _split(open_keys, numbers), strict=True)
        for partition, (its, keys) in zip(numbers.tolist(), of_each, strict=True):
            operator = int(self._state.partitions["operator"][partition])
            closed = have_closed(self._state, operator, self.keys_of(partition))
            self._under_way[partition, slot] = Saved(its, keys, closed)

    def _of_later_times(self, partitions: np.ndarray) -> np.ndarray:
        """Return those of these partitions (n,) whose outputs are post-dated."""
        return partitions[self._postpones[self._state.partitions["operator"][partitions]]]

    def _waiting(self, partitions: np.ndarray) -> np.ndarray:
        """Return the outputs of these partitions that wait for their times, by partition as they were made."""
        visits, found = self._state.visits, waiting_of(self._state, self._among(partitions))
        found = found[np.argsort(visits["serial"][found])]
        found = visits[found[_in_order(visits["partition"][found], partitions)]]
        made = np.zeros(found.size, SAVED_OUTPUT)
        for name, field in (("born", "created"), ("made_of", "ticket"), ("place", "arrival")):
            made[name] = found[field]
        for name in ("id", "key", "partition"):
            made[name] = found[name]
        return made

    def _among(self, partitions: np.ndarray) -> np.ndarray:
        """Return of each partition whether it is one of these (n_partitions,)."""
        found = np.zeros(self._state.partitions.size, np.bool_)
        found[partitions] = True
        return found

    def _open(self, partitions: np.ndarray) -> np.ndarray:
        """Return the open keys of these partitions, by partition."""
        found = self._state.open_table[open_places_of(self._state, self._among(partitions))]
        return found[_in_order(found["partition"], partitions)]

    def _count_new(self, partitions: np.ndarray, outputs: np.ndarray, open_keys: np.ndarray) -> None:
        """Count what has come since the last complete checkpoint: outputs, and tuples of open keys.

        A key that was open then and has not closed since has the tuples of then and new ones.
        """
        u, many = self._state.partitions, self._state.partitions.size
        new = outputs["partition"][outputs["place"] >= u["at_snapshot"][outputs["partition"]]]
        u["new_post_dated"][partitions] = np.bincount(new, minlength=many)[partitions]
        tuples = np.bincount(open_keys["partition"], open_keys["tuples"], many).astype(np.int64)
        of_then = open_keys[open_keys["since"] <= u["at_snapshot"][open_keys["partition"]]]
        stored = [self._complete[one].open_keys for one in partitions.tolist() if one in self._complete]
        before = np.concatenate([np.zeros(0, OPEN_KEY), *stored])
        still_open = np.zeros(8 * self._state.closed_keys.size, np.bool_)
        still_open[self._places(of_then)] = True
        before = before[still_open[self._places(before)]]
        tuples -= np.bincount(before["partition"], before["tuples"], many).astype(np.int64)
        u["new_open_tuples"][partitions] = tuples[partitions]

    def _places(self, open_keys: np.ndarray) -> np.ndarray:
        """Return the places of open keys (n,) among the bits that say which keys have closed: each has its own."""
        operators = self._state.partitions["operator"][open_keys["partition"]]
        return self._state.operators["first_closed"][operators] + open_keys["key"]

    def complete(self, partitions: np.ndarray, slot: int) -> None:
        """Let the snapshots of these partitions (n,) count that have come to the store; call it before the kernel."""
        numbers = self._of_later_times(partitions)
        place = self._state.unfinished[numbers * int(self._state.options["slots"]) + slot]
        for partition in numbers[(place["begun"] != 0) & (place["arrived"] != NONE)].tolist():
            self._complete[partition] = self._under_way.pop((partition, slot))

    def stored(self, partition: int) -> Saved:
        """Return what the stored checkpoint of a partition has, or nothing without one."""
        keys = self.keys_of(partition)
        nothing = Saved(np.zeros(0, SAVED_OUTPUT), np.zeros(0, OPEN_KEY), np.zeros(keys.size, np.bool_))
        return self._complete.get(partition, nothing)

    def pin(self) -> None:
        """Note from which birth on outputs may be restored; forget snapshots under way that have come to nothing."""
        slots, begun = int(self._state.options["slots"]), self._state.unfinished["begun"]
        self._under_way = {
            (partition, slot): one
            for (partition, slot), one in self._under_way.items()
            if begun[partition * slots + slot]
        }
        kept = chain(self._under_way.values(), self._complete.values())
        self._state.ids["saved"] = min((one.oldest for one in kept), default=UNPINNED)

    def all_stored(self) -> np.ndarray:
        """Return the outputs in all stored checkpoints."""
        return np.concatenate([np.zeros(0, SAVED_OUTPUT), *(one.outputs for one in self._complete.values())])

    def keys_of(self, partition: int) -> np.ndarray:
        """Return the keys that a partition may have, if keys close there; else none."""
        u = self._state.partitions[partition]
        by_group = self._keys.get(int(u["operator"]))
        return _NO_KEYS if by_group is None else by_group[int(u["index"])]

    @cached_property
    def _keys(self) -> dict[int, list[np.ndarray]]:
        """Return the keys of each key group, by operator whose keys close."""
        found = {}
        for operator in self._plan.operators:
            if operator.closes_keys:
                edges = [edge for one in self._plan.operators for edge in one.edges if edge.down is operator]
                groups, count = operator.description.groups, max(edge.key_count for edge in edges)
                its = groups_of_keys(count, groups, operator.description.key_hash)
                if any(edge.grouped for edge in edges):  # keys are key groups
                    its = np.arange(groups)
                by_group = np.argsort(its, kind="stable")
                found[operator.index] = np.split(by_group, np.searchsorted(its[by_group], np.arange(1, groups)))
        return found


def _in_order(numbers: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Return the stable order of numbers (n,) that are among these partitions, which rise."""
    ranks = np.searchsorted(partitions, numbers)
    return np.argsort(ranks.astype(np.min_scalar_type(partitions.size)), kind="stable")  # small numbers: no comparison


def _split(rows: np.ndarray, partitions: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each of these partitions (n,), which rise in both."""
    return np.split(rows, np.searchsorted(rows["partition"], partitions[1:]))
