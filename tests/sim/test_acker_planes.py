"""The acker: the compiled plane against its specification, and that against an acker by XOR.

Oracles: `sim.plain`, by equality of all columns and of all that the listener is told; and for `sim.plain` itself an
acker that keeps the XOR of random numbers, as Storm's does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from lattices import lattice_job
from scripts import ACKS, DATAFLOWS, MOVES, VERBS, run_script, unchecked
from small_jobs import random_job, random_joins, random_windows, storm, with_fair_links, with_timers
from test_planes import differences

from models.scenario.recovery_methods import Acker as Description
from sim.clock import MESSAGE, channel
from sim.draws import mix
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.acker import Acker
from sim.plain.channels import Channels
from sim.plain.outbox import Outbox
from sim.plain.partition import Output, Partition, Row, TaskView, Tree, Visit
from sim.plain.plane import PlainPlane

Patch = pytest.MonkeyPatch
MAKES: tuple[Callable[..., dict[str, Any]], ...] = (random_job, lattice_job, random_windows, random_joins, storm)


def job(seed: int) -> dict[str, Any]:
    """A random job of any kind with an acker."""
    draw = Random(f"acker {seed}")
    acker: dict[str, Any] = {
        "timeout": draw.choice(["50 ms", "200 ms", "300 ms", "1 s", "2 s"]),
        "expiry": draw.choice(["rotating", "exact"]),
        "acks": draw.choice(["literal", "covered"]),
        "ack": draw.choice(["20 B", "7 B"]),
    }
    # Without a limit a short time-out emits again and again what waits, more each time.
    if draw.random() < 0.5 or acker["timeout"] == "50 ms":
        acker["pending"] = draw.choice([1, 2, 5, 20, 100])
    tolerance = {"method": "acker", "guarantee": "at-least-once", "acker": acker}
    raw = MAKES[seed % len(MAKES)](draw, fault_tolerance=tolerance)
    raw["fault_tolerance"] = tolerance
    for change in (with_fair_links, with_timers):
        if draw.random() < 0.35 and (change is not with_timers or seed % len(MAKES) in (0, 1, 4)):
            raw = change(draw, raw)
    for operator in raw["operators"].values():
        operator.pop("buffer", None)
    cores = {"cpu": draw.choice(["dedicated", "shared", "shared", "processor-sharing"]), "cores": draw.choice([1, 2])}
    raw["hosts"]["h"] = raw["hosts"]["h"] | (cores if draw.random() < 0.7 else {})
    return over_links(Random(f"transport {seed}"), raw)


def over_links(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same keys, in half of the jobs with acks over the links, which are mostly slow enough for that to matter."""
    if draw.random() < 0.5:
        raw["fault_tolerance"]["acker"] |= {"transport": "links", "ack": draw.choice(["20 B", "7 B", "500 B", "2 kB"])}
        if draw.random() < 0.7:
            raw["hosts"]["h"] |= {"network": draw.choice(["1 MB/s", "60 kB/s", "20 kB/s"])}
    return raw


def verbs_of(raw: dict[str, Any], seed: int) -> tuple[str, ...]:
    """The verbs of a script."""
    beside: list[tuple[str, ...]] = [("hold", "pause"), DATAFLOWS, (*VERBS, *DATAFLOWS, "speed")]
    if not any("timer" in operator for operator in raw["operators"].values()):
        beside.append((*DATAFLOWS, *VERBS, *MOVES))
    return (*ACKS, *ACKS, *beside[seed % len(beside)])


def on_both(seed: int, seen: Counter[str] | None = None) -> list[str]:
    """Differences between the planes for the job and the script of that seed."""
    raw = job(seed)
    if seed % 3 == 0:  # without a script
        plain, compiled = (simulate(unchecked(raw), plane=plane) for plane in (PlainPlane, CompiledPlane))
        told = told_too = list[tuple[Any, ...]]()
    else:
        verbs = verbs_of(raw, seed)
        (plain, told), (compiled, told_too) = (
            run_script(raw, plane, seed, 60, verbs) for plane in (PlainPlane, CompiledPlane)
        )
    if seen is not None:
        seen.update(plain.tables["replays"]["cause"].tolist())
        seen.update(str(what) for _, what, *found in told if found)
        seen["dropped"] += plain.tables["dropped"]["at_ns"].size
        seen["duplicated"] += int(plain.tables["ledger"]["duplicated"].sum())
    return differences(plain, compiled) + ["told"] * (told != told_too)


def test_both_planes_give_equal_rows() -> None:
    seen: Counter[str] = Counter()
    for seed in range(30):
        assert on_both(seed, seen) == [], seed
    assert seen.keys() >= {"timeout", "rollback", "expire", "oldest"}
    assert seen["dropped"] > 0 < seen["duplicated"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows(part: int) -> None:
    for seed in range(1000 * part, 1000 * part + 1000):
        assert on_both(seed) == [], seed


# -- an acker by XOR


class Xor:
    """The numbers of a literal acker, beside the counts: each tuple that is sent has one, and so has its ack."""

    def __init__(self, patch: Patch) -> None:
        self.values: dict[Tree, int] = {}
        self.compared = 0
        self._number: dict[Tree, int] = {}
        self._last: tuple[Row, Partition] | None = None
        offer, apply, processed = Outbox.offer, Partition.apply, Acker.processed

        def offered(outbox: Outbox, output: Output) -> None:
            self._combine(output.row, output.receiver)
            offer(outbox, output)

        def applied(partition: Partition, row: Row, upstream: int) -> None:
            self._last = (row, partition)
            apply(partition, row, upstream)

        def acknowledged(acker: Acker, tree: Tree, task: TaskView) -> None:
            assert self._last is not None
            self._combine(*self._last)
            processed(acker, tree, task)
            self.compared += 1
            assert (self.values[tree] == 0) == (tree.left == 0)

        patch.setattr(Outbox, "offer", offered)
        patch.setattr(Partition, "apply", applied)
        patch.setattr(Acker, "processed", acknowledged)

    def _combine(self, row: Row, receiver: Partition) -> None:
        if row.tree is not None:
            self._number.setdefault(row.tree, len(self._number))
            number = mix(mix(row.id ^ mix(receiver.number)) ^ self._number[row.tree])
            self.values[row.tree] = self.values.get(row.tree, 0) ^ number


def run_literal(transport: str) -> None:
    """Run the first jobs with acks that are sent at once, in this way."""
    for seed in range(25):
        raw = job(seed)
        raw["fault_tolerance"]["acker"] |= {"acks": "literal", "transport": transport}
        simulate(unchecked(raw), plane=PlainPlane)


def test_a_count_says_the_same_as_the_xor_of_all_numbers(monkeypatch: Patch) -> None:
    xor = Xor(monkeypatch)
    run_literal("latency")
    assert xor.compared > 5000
    assert sum(value == 0 for value in xor.values.values()) > 1000
    assert sum(value != 0 for value in xor.values.values()) > 10


class Numbered:
    """A tree with the number that an ack of it carries."""

    def __init__(self, tree: Tree, number: int) -> None:
        self.tree, self.number, self.source = tree, number, tree.source


class TravellingXor:
    """The same where acks travel: each carries what its task has combined, and counts when it comes.

    The number of a root is there when it is emitted, as its acker is beside its source.
    """

    def __init__(self, patch: Patch) -> None:
        self.values: dict[Tree, int] = {}
        self.compared = 0
        self._number: dict[Tree, int] = {}
        made: dict[Tree, int] = {}  # since the last ack
        offer, apply, emitted = Outbox.offer, Partition.apply, Acker.emitted
        send, comes = Acker._send, Acker._comes

        def offered(outbox: Outbox, output: Output) -> None:
            self._combine(made, output.row, output.receiver)
            offer(outbox, output)

        def applied(partition: Partition, row: Row, upstream: int) -> None:
            self._combine(made, row, partition)
            apply(partition, row, upstream)

        def began(acker: Acker, tree: Tree) -> None:
            self.values[tree] = made.pop(tree, 0)
            emitted(acker, tree)

        def sent(acker: Acker, tree: Tree, task: TaskView) -> None:
            send(acker, Numbered(tree, made.pop(tree)), task)  # type: ignore[arg-type]

        def came(acker: Acker, numbered: Any, goal: TaskView) -> None:
            tree = numbered.tree
            if goal.alive:
                self.values[tree] ^= numbered.number
                self.compared += 1
            comes(acker, tree, goal)
            assert (self.values[tree] == 0) == (tree.left == 0)

        patch.setattr(Outbox, "offer", offered)
        patch.setattr(Partition, "apply", applied)
        patch.setattr(Acker, "emitted", began)
        patch.setattr(Acker, "_send", sent)
        patch.setattr(Acker, "_comes", came)

    def _combine(self, values: dict[Tree, int], row: Row, receiver: Partition) -> None:
        if row.tree is not None:
            self._number.setdefault(row.tree, len(self._number))
            number = mix(mix(row.id ^ mix(receiver.number)) ^ self._number[row.tree])
            values[row.tree] = values.get(row.tree, 0) ^ number


def test_a_count_says_the_same_as_the_xor_of_all_that_came_over_the_links(monkeypatch: Patch) -> None:
    xor = TravellingXor(monkeypatch)
    run_literal("links")
    assert xor.compared > 5000
    assert sum(value == 0 for value in xor.values.values()) > 1000
    assert sum(value != 0 for value in xor.values.values()) > 10


# -- broken ackers
#
# Each fault is one that an engine could have; some seed has to show it.


def acks_of_any_attempt_count(patch: Patch) -> None:
    """A root is done when all tuples of any of its attempts are processed."""

    def ack(acker: Acker, tree: Tree, _: TaskView) -> None:
        acker._count()
        tree.left -= 1
        last = acker.pending[tree.source].get(tree.sequence)
        if not tree.left and last is not None:
            acker._complete(last)

    patch.setattr(Acker, "_ack", ack)


def acks_take_no_time(patch: Patch) -> None:
    """A root is done when its last tuple was processed."""
    patch.setattr(Acker, "_complete", Acker._done)


def a_crash_forgets_roots_that_failed(patch: Patch) -> None:
    """What a source is to emit again dies with its task."""
    lose = Channels.lose_memory

    def forget(plane: Channels, partition: Partition) -> None:
        lose(plane, partition)
        for source in plane.sources:
            if source.partition is partition:
                source.again.clear()

    patch.setattr(Channels, "lose_memory", forget)


def a_lost_tuple_is_acknowledged(patch: Patch) -> None:
    """A tuple that is dropped counts as processed."""
    drop = Channels.drop

    def acknowledge(plane: Channels, visit: Visit, task: TaskView, reason: str) -> None:
        drop(plane, visit, task, reason)
        if visit.row.tree and isinstance(plane.acker, Acker):
            plane.acker._ack(visit.row.tree, task)

    patch.setattr(Channels, "drop", acknowledge)


def a_commit_sends_all_acks(patch: Patch) -> None:
    """Acks that no snapshot covers are sent with the others."""
    commit = Acker.commit

    def all_of_them(acker: Acker, task: TaskView) -> None:
        acker.prepare(task)
        commit(acker, task)

    patch.setattr(Acker, "commit", all_of_them)


def roots_emitted_at_the_instant_expire(patch: Patch) -> None:
    """Roots fail that were emitted at the instant before which others do."""
    expire = Acker.expire
    patch.setattr(Acker, "expire", lambda acker, before_ns: expire(acker, before_ns + 1))


def failed_roots_count_as_pending(patch: Patch) -> None:
    """A root that waits to be emitted again takes a place among those that are not done."""
    is_full = Acker.is_full

    def full(acker: Acker, source: Partition) -> bool:
        most, waits = acker.description.pending, next(one for one in acker.plane.sources if one.partition is source)
        return is_full(acker, source) or (most is not None and len(acker.pending[source]) + len(waits.again) > most)

    patch.setattr(Acker, "is_full", full)


def one_rollback_is_enough(patch: Patch) -> None:
    """Of the roots whose acks wait only the first fails."""
    fail = Acker._fail
    patch.setattr(Acker, "_fail", lambda acker, trees: fail(acker, list(trees)[:1]))


def acks_take_no_room_on_links(patch: Patch) -> None:
    """Acks that are sent over the links have no bytes there."""
    transmit = PlainPlane.transmit

    def lighter(plane: PlainPlane, origin: TaskView, task: TaskView, size: int, *more: Any, **named: Any) -> None:
        transmit(plane, origin, task, size if size != round(acks_of(plane).ack_bytes) else 0, *more, **named)

    patch.setattr(PlainPlane, "transmit", lighter)


def acks_survive_their_sender(patch: Patch) -> None:
    """An ack comes although its host died before it had left."""

    def send(acker: Acker, tree: Tree, task: TaskView) -> None:
        goal, clock = tree.source.task, acker.plane.clock
        rank = channel(MESSAGE, goal.index, task.index)
        comes = lambda at_ns: clock.at(at_ns, rank, lambda _: acker._comes(tree, goal))  # noqa: E731
        acker.plane.transmit(task, goal, round(acker.description.ack_bytes), comes)

    patch.setattr(Acker, "_send", send)


def acks_count_where_the_source_died(patch: Patch) -> None:
    """An ack counts although the task beside its acker is gone."""

    def comes(acker: Acker, tree: Tree, _: TaskView) -> None:
        tree.left -= 1
        if not tree.left:
            acker._done(tree)

    patch.setattr(Acker, "_comes", comes)


def acks_of_the_first_task(patch: Patch) -> None:
    """Acks go to the task from which their root was emitted, also after the source has moved."""
    begin, send = Acker.begin, Acker._send
    tasks: dict[Tree, TaskView] = {}

    def began(acker: Acker, source: Partition, sequence: int) -> Tree:
        tree = begin(acker, source, sequence)
        tasks[tree] = source.task
        return tree

    def sent(acker: Acker, tree: Tree, task: TaskView) -> None:
        source, now = tree.source, tree.source.task
        source.task = tasks[tree]
        send(acker, tree, task)
        source.task = now

    patch.setattr(Acker, "begin", began)
    patch.setattr(Acker, "_send", sent)


def acks_of(plane: PlainPlane) -> Description:
    """The description of the plane's acker."""
    assert isinstance(plane.acker, Acker)
    return plane.acker.description


FAULTS = (
    acks_take_no_room_on_links,
    acks_survive_their_sender,
    acks_count_where_the_source_died,
    acks_of_the_first_task,
    acks_of_any_attempt_count,
    acks_take_no_time,
    a_crash_forgets_roots_that_failed,
    a_lost_tuple_is_acknowledged,
    a_commit_sends_all_acks,
    roots_emitted_at_the_instant_expire,
    failed_roots_count_as_pending,
    one_rollback_is_enough,
)


SHOWN_BY = {
    acks_survive_their_sender: 81,
    a_crash_forgets_roots_that_failed: 84,
    acks_of_the_first_task: 5,
    acks_take_no_time: 6,
    a_commit_sends_all_acks: 8,
}
"""The first seeds that show these faults."""


def broken(seed: int) -> bool:
    """Whether the planes differ, or the broken one fails, for that seed."""
    try:
        return bool(on_both(seed))
    except (AssertionError, KeyError, ValueError):
        return True


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_rows_differ(monkeypatch: Patch, fault: Callable[[Patch], None]) -> None:
    fault(monkeypatch)
    assert any(broken(seed) for seed in (SHOWN_BY.get(fault, 0), *range(100)))
