"""Verbs for whole dataflows: tasks that are killed, parcels of state and tuples, tuples that a source emits again.

A part of the compiled plane. Parcels are rare, so their content is arrays that Python keeps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from models.records.tables import NEVER
from sim.clock import Clock
from sim.kernel.event_loop import (
    buffers,
    carrying,
    emitting,
    forgetting,
    hash_tables,
    heard,
    pools,
    restoring,
    setup,
    verbs,
)
from sim.kernel.event_loop.audit import Carried, Saved
from sim.kernel.event_loop.buffers import KEPT, LOGGED, UNPINNED
from sim.kernel.event_loop.carrying import CAPTURED
from sim.kernel.event_loop.checkpoints import state_bytes
from sim.kernel.event_loop.codes import DISCARDED, NONE
from sim.kernel.event_loop.entities import SOURCE_ARRIVAL
from sim.kernel.event_loop.hash_tables import KNOWN
from sim.kernel.event_loop.moving import Moving
from sim.kernel.event_loop.windows import NOTE
from sim.kernel.tools.pointer import State
from sim.plane_values import Parcel

if TYPE_CHECKING:
    from sim.arrival_stream import ArrivalStream
    from sim.control.cluster import Cluster, RunPlan


@dataclass(frozen=True, eq=False)
class SavedState:
    """A copy of the state of a partition: the tuples that it has applied, its keys, kept outputs, and event time.

    `base` of the tuples are forgotten; `forgotten` is the sum of their ids, and `twice` of them were duplicates. The
    others are in `log`.
    """

    partition: int
    incarnation: int
    bytes: int
    base: int
    twice: int
    forgotten: np.uint64
    log: np.ndarray
    keys: np.ndarray
    kept: np.ndarray
    times: tuple[int, int, int]  # newest, event, ticks
    channels: np.ndarray
    recent: np.ndarray
    past: np.ndarray

    @property
    def count(self) -> int:
        """Return how many tuples were applied."""
        return self.base + self.log.size

    @property
    def age(self) -> tuple[int, int]:
        """Return what orders the states and checkpoints of a partition by their age."""
        return self.incarnation, self.count

    @classmethod
    def of(cls, state: State, partition: int) -> SavedState:
        """Return a copy of the state now."""
        u = state.partitions[partition]
        log = np.zeros(int(u["applied"] - u["base"]), LOGGED)
        buffers.copy_log(state, partition, log)
        keys = np.zeros(int(hash_tables.number_of_keys(state, partition)), KNOWN)
        hash_tables.copy_keys(state, partition, keys)
        kept = np.zeros(int(u["kept_rows"]), KEPT)
        buffers.copy_live(state, partition, kept)
        events = np.zeros(int(u["channels"]), np.int64)
        heard.copy_heard(state, partition, events)
        return cls(
            partition,
            int(u["incarnation"]),
            int(state_bytes(state, partition)) + kept.size * int(state.operators["bytes"][u["operator"]]),
            int(u["base"]),
            int(u["twice"]),
            np.uint64(u["forgotten"]),
            log,
            keys,
            kept,
            (int(u["newest"]), int(heard.event_of(state, partition)), int(u["ticks"])),
            events,
            _notes(state, int(u["recent_first"])),
            _notes(state, int(u["past_first"])),
        )

    def put(self, state: State) -> None:
        """Make this the state of the partition; there is room for it."""
        buffers.replace_log(state, self.partition, self.base, self.log)
        hash_tables.replace_keys(state, self.partition, self.keys)
        buffers.replace_kept(state, self.partition, self.kept)
        restoring.replace_time(state, self.partition, *self.times, self.channels, self.recent, self.past)
        u = state.partitions[self.partition]
        u["twice"], u["forgotten"] = self.twice, self.forgotten
        u["trimmed"] = min(int(u["trimmed"]), self.count)
        u["touched"] = u["new_kept_bytes"] = 0
        u["epoch"] += 1
        u["at_snapshot"] = self.count


def _notes(state: State, first: int) -> np.ndarray:
    notes = np.zeros(int(restoring.notes_from(state, first)), NOTE)
    restoring.copy_notes(state, first, notes)
    return notes


@dataclass(eq=False)
class _Contents:
    """The content of a parcel; nothing that was created before `oldest` is missing from what is in it.

    With an acker, nothing in it was: a state has all its ids, and of captured tuples none may be forgotten.
    """

    states: tuple[SavedState, ...]
    tuples: np.ndarray  # of `task`, whose rules held them
    task: int
    oldest: int
    was_put: bool = False

    @property
    def partitions(self) -> tuple[int, ...]:
        """Return whose states these are."""
        return tuple(saved.partition for saved in self.states)


class _History:
    """The arrivals at a source from the first on, as far as they were asked for."""

    def __init__(self, stream: ArrivalStream) -> None:
        self._stream, self._arrivals = stream, np.zeros(0, SOURCE_ARRIVAL)

    def upto(self, count: int) -> np.ndarray:
        """Return at least so many arrivals."""
        while self._arrivals.size < count:
            times_ns, keys = next(self._stream)
            block = np.zeros(times_ns.size, SOURCE_ARRIVAL)
            block["time"], block["key"] = times_ns, keys
            self._arrivals = np.concatenate([self._arrivals, block])
        return self._arrivals


class Parcels(Moving):
    """The verbs of `sim.data_plane.ParcelPlane`."""

    state: State
    _plan: RunPlan
    _clock: Clock
    _cluster: Cluster

    def __init__(self) -> None:
        """There is no parcel yet, and nothing was emitted again."""
        super().__init__()
        self._parcels: dict[int, _Contents] = {}
        self._last_parcel = -1
        self._histories: list[_History] = []  # by source

    @abstractmethod
    def _act(self) -> None:
        """An action comes."""

    @abstractmethod
    def _may_come_twice(self) -> None:
        """From now on tuples are found by their ids."""

    @abstractmethod
    def _goes_back(self) -> None:
        """The same, unless all that is connected goes back to one checkpoint."""

    @abstractmethod
    def _room(self, need: int) -> None:
        """Make room for so many sendings."""

    @abstractmethod
    def _tell(self) -> None:
        """Tell the listener what came up."""

    @abstractmethod
    def _arrival_streams(self) -> list[ArrivalStream]:
        """Return the arrivals at each source from the first on."""

    def kill(self, task: int) -> None:
        """The task dies with its partitions, and its host goes on."""
        self._check_live(task)
        self._act()
        self._goes_back()
        self._room(int(self.state.options["fan_out"] + self.state.cluster["threads"]) + 4)
        known = self.state.partitions["task"][: len(self._cluster.partition_task)]  # also of instances that are over
        verbs.kill_task(self.state, task, np.flatnonzero(known == task).astype(np.int64))
        self._tell()

    # -- parcels

    def snapshot(self, partitions: Sequence[int]) -> Parcel:
        """Copies of the states of these partitions go into a parcel."""
        self._plan.check_ids()
        for partition in partitions:
            known = 0 <= partition < len(self._cluster.partition_task)
            u = self.state.partitions[partition if known else 0]
            if not known or not u["live"] or u["is_source"] or u["is_sink"]:
                raise ValueError("only a live partition, not of a source or sink, has a state to be saved")
        if len({int(self.state.partitions["task"][partition]) for partition in partitions}) > 1:
            raise ValueError("the partitions in a parcel are at one task")
        if len(set(partitions)) < len(partitions):
            raise ValueError("a partition is in a parcel once")
        self._act()
        saved = tuple(SavedState.of(self.state, partition) for partition in partitions)
        return self._new_parcel(_Contents(saved, np.zeros(0, CAPTURED), NONE, self._oldest()))

    def capture(self, task: int) -> Parcel:
        """The tuples that rules hold at the task go into a parcel."""
        self._check_live(task)
        self._act()
        tuples = np.zeros(int(self.state.tasks["side_n"][task]), CAPTURED)
        oldest = self._oldest()
        self._room(0)
        carrying.capture(self.state, task, tuples)
        if self._plan.acker is not None:
            oldest = int(tuples["created"].min(initial=UNPINNED))
        made = self._new_parcel(_Contents((), tuples, task, oldest))
        self._tell()
        return made

    def _new_parcel(self, contents: _Contents) -> Parcel:
        number = self._number()
        self._parcels[number] = contents
        self._pin()
        origins = self.state.tasks["operator"][contents.tuples["origin"]]
        size = sum(saved.bytes for saved in contents.states) + int(self.state.operators["bytes"][origins].sum())
        return Parcel(number, contents.tuples.size, size, contents.partitions)

    def _number(self) -> int:
        self._last_parcel += 1
        return self._last_parcel

    def _oldest(self) -> int:
        """Return the creation time before which nothing is anywhere that is not in all states already."""
        asked = self.state.options["forgets_ids"] and self._plan.acker is None
        return int(forgetting.oldest_created(self.state)) if asked else UNPINNED

    def _pin(self) -> None:
        """No id may be forgotten that what comes out of a parcel may lack."""
        self.state.ids["pinned"] = min((one.oldest for one in self._parcels.values()), default=UNPINNED)

    def put(self, parcel: int, task: int) -> None:
        """States in the parcel become those of their partitions, and its tuples go in front of the queue."""
        if parcel in self._taken:
            self._put_taken(parcel, task)
            return
        contents = self._contents(parcel)
        self._check_live(task)
        self._check_fits(contents, task)
        self._act()
        contents.was_put = True
        self._may_come_twice()
        notes = sum(saved.recent.size + saved.past.size for saved in contents.states)
        if notes:
            setup.grown(self.state, notes)
        kept = sum(2 * saved.kept.size + 2 for saved in contents.states)
        need = notes + kept + (int(self.state.options["fan_out"]) + 2) * (contents.tuples.size + 2)
        self._room(need)
        pools.more_log(self.state, sum(saved.log.size for saved in contents.states), need)
        for saved in contents.states:
            saved.put(self.state)
        carrying.put_tuples(self.state, task, contents.tuples)
        contents.tuples["root"] = NONE  # a tuple counts for its root the first time only
        self._tell()

    def _check_fits(self, contents: _Contents, task: int) -> None:
        partitions = self.state.partitions
        if np.any(partitions["task"][[*contents.partitions, *contents.tuples["partition"].tolist()]] != task):
            raise ValueError("a parcel is put where its partitions are assigned to")
        for saved in contents.states:
            u = partitions[saved.partition]
            if u["live"]:
                raise ValueError(f"partition {saved.partition} is live and has a state")
            if self._is_outdated(saved):
                raise ValueError(f"the checkpoint of partition {saved.partition} is newer than the state in the parcel")

    def discard(self, parcel: int) -> None:
        """The parcel is forgotten; tuples that were never put are lost, and so are key groups that were taken."""
        if parcel in self._taken and not self._plan.keeps_ids:
            raise ValueError("key groups that were taken have no other state: they have to be put")
        self._plan.check_ids()
        if parcel in self._taken:
            self._lose_taken(parcel)
            return
        contents = self._parcels.pop(parcel, None)
        self._pin()
        if contents is None or contents.was_put or not contents.tuples.size:
            return
        self._room(contents.tuples.size)
        first = int(self.state.drops["rows"])
        self.state.drops["rows"] += contents.tuples.size
        rows = self.state.dropped_rows[first : first + contents.tuples.size]
        rows["operator"], rows["task"] = self.state.tasks["operator"][contents.task], contents.task
        rows["arrival"], rows["start"], rows["at"] = contents.tuples["arrival"], NEVER, self._clock.now_ns()
        rows["reason"] = DISCARDED

    def _carried(self) -> list[Carried]:
        """Return the tuples in parcels."""
        tuples = [contents.tuples for contents in self._parcels.values() if contents.tuples.size]
        return [Carried(one["partition"].copy(), one["id"].copy()) for one in tuples]

    def _saved(self) -> list[Saved]:
        """Return the newest state in a parcel of each partition that is down, if no newer checkpoint is stored."""
        newest: dict[int, SavedState] = {}
        for contents in self._parcels.values():
            for saved in contents.states:
                if saved.partition not in newest or newest[saved.partition].age < saved.age:
                    newest[saved.partition] = saved
        return [
            Saved(saved.partition, saved.log["id"].copy(), saved.base, saved.twice)
            for saved in newest.values()
            if not self.state.partitions["live"][saved.partition] and not self._is_outdated(saved)
        ]

    def _is_outdated(self, saved: SavedState) -> bool:
        u = self.state.partitions[saved.partition]
        return bool(u["stored"]) and (int(u["stored_incarnation"]), int(u["stored_count"])) > saved.age

    # -- sources

    def emit_again(self, partition: int, sequences: Sequence[int]) -> None:
        """A source emits the tuples with these numbers again, before those that wait.

        Raises ValueError for one whose id the plane may have forgotten: it was saved everywhere, and in no parcel.
        """
        self._plan.check_ids()
        if self._plan.acker is not None:
            raise ValueError("with an acker a source emits the roots again that have failed, and no others")
        found = np.flatnonzero(self.state.sources["partition"] == partition)
        if not found.size or not self.state.partitions["live"][partition]:
            raise ValueError("only a live source emits tuples again")
        source, numbers = int(found[0]), np.array(sequences, np.int64)
        b = self.state.sources[source]
        if np.any((numbers < 0) | (numbers >= b["emitted"])):
            raise ValueError("a tuple that was not emitted yet cannot be emitted again")
        arrivals = self._history(source).upto(int(numbers.max(initial=-1)) + 1)[numbers]
        if np.any(arrivals["time"] < self.state.ids["oldest"]):
            raise ValueError("a tuple that all have saved, and that is in no parcel, cannot be emitted again")
        self._act()
        self._may_come_twice()
        waiting = numbers.size + int(b["again_n"] + b["arrived"] - b["emitted"])
        self._room((int(self.state.options["fan_out"]) + 2) * (waiting + 2) + numbers.size)
        emitting.emit_again(self.state, source, numbers, arrivals)
        self._tell()

    def _history(self, source: int) -> _History:
        if not self._histories:
            self._histories = [_History(stream) for stream in self._arrival_streams()]
        return self._histories[source]

    # -- checks

    def _check_live(self, task: int) -> None:
        self._plan.check_ids()
        if not 0 <= task < self.state.cluster["tasks"] or not self.state.tasks["alive"][task]:
            raise ValueError(f"task {task} is dead")

    def _contents(self, parcel: int) -> _Contents:
        if parcel not in self._parcels:
            raise ValueError(f"there is no parcel {parcel}")
        return self._parcels[parcel]
