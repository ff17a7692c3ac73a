"""Slots of hosts: recoveries, moves and rescaling keep to them, and wait where none is free.

Oracles: instants and hosts worked out by hand for the job of `test_cluster_view`, on hosts with a limit.
"""

from __future__ import annotations

from typing import Any

from decided import said as decided
from small_jobs import scenario
from test_cluster_view import DETECTED, MS, column, dies
from test_cluster_view import job as two_groups
from test_planes import differences

from models.records.tables import NEVER, RunRecords
from models.scenario.inputs import RunInputs
from sim.engine import simulate
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

FRONT, LEFT, RIGHT, HOLDER = range(4)  # hosts in file order
NAMES = ("front-0", "left-0", "right-0", "holder-0")


def job(events: dict[str, Any], left: int = 1, right: int = 1, full: bool = True, **tolerance: Any) -> dict[str, Any]:
    """Source and sink in front, a key group on the left and one on the right, checkpoints on the holder.

    `left`, `right`: slots there. The holder has one slot, with a task of another operator in it if `full`.
    """
    raw = two_groups(events, **tolerance)
    slots = {"front": 2, "left": left, "right": right, "holder": 1}
    raw["hosts"] = {name: {"slots": each} for name, each in slots.items()}
    raw["hosts"]["holder"]["network"] = "1 MB/s"
    raw["network"]["sharing"] = "fifo"
    raw["placement"]["tasks"] = {"in-0": NAMES[0], "sum-0": NAMES[1], "sum-1": NAMES[2], "out-0": NAMES[0]}
    if full:
        raw["operators"]["more"] = raw["operators"]["sum"] | {"key_groups": 1, "parallelism": 1}
        raw["operators"]["out"]["inputs"]["more"] = "shuffle"
        raw["placement"]["tasks"]["more-0"] = NAMES[HOLDER]
    return raw


def rows(raw: dict[str, Any]) -> RunRecords:
    """The rows, which both planes make."""
    holders = dict.fromkeys((("sum", 0), ("sum", 1)), NAMES[HOLDER])
    made, inputs = scenario(raw), RunInputs(checkpoint_hosts=holders | {("more", 0): NAMES[RIGHT]})
    found = simulate(made, inputs, plane=PlainPlane)
    assert differences(found, simulate(made, inputs, plane=CompiledPlane)) == []
    return found


def failure(host: int, repair: int | None = None) -> dict[str, Any]:
    return dies(0, 2050, repair) | {"host": NAMES[host]}


def move(at: int, group: int, host: int, operator: str = "sum") -> dict[str, Any]:
    to = {"operator": operator, "key_group": group, "host": NAMES[host], "protocol": "direct"}
    return {"kind": "migrate", "at": f"{at} ms"} | to


def restored(records: RunRecords) -> list[tuple[float, int]]:
    return column(records, "recoveries", "restored_ns", "target")


def said(records: RunRecords, what: str) -> list[tuple[float, str, str]]:
    """(instant [ms], sentence, reason) of decisions."""
    return [(at / MS, sentence, why) for at, sentence, why in decided(records) if what in sentence]


def test_a_key_group_resumes_elsewhere_where_the_holder_of_its_checkpoint_has_no_slot() -> None:
    records = rows(job({"dies": failure(LEFT)}))
    ((at, target),) = restored(records)
    assert target == RIGHT  # the operator has a task there, which needs no further slot
    restores = [size for kind, size in column(records, "messages", "kind", "bytes") if kind == "restore"]
    # One latency, then the bytes of the checkpoint over the link of its holder.
    assert at == DETECTED + 1 + restores[0] / 1000
    why = "holder-0, which holds the checkpoint, has no free slot; "
    why += "it has the fewest key groups and tasks of the live hosts"
    assert said(records, "resumes") == [(DETECTED, "sum[0] resumes on right-0", why)]


def test_it_resumes_with_its_checkpoint_where_a_slot_is_free() -> None:
    assert restored(rows(job({"dies": failure(LEFT)}, full=False))) == [(DETECTED, HOLDER)]


def test_a_partition_waits_for_a_host_with_a_free_slot() -> None:
    # Source and sink die together; one slot is free on the left. The other goes on when their host is back.
    records = rows(job({"dies": failure(FRONT, repair=3000)}, left=2))
    assert restored(records) == [(DETECTED, LEFT), (5050, FRONT)]
    assert said(records, "stays down") == [(DETECTED, "out[0] stays down", "no live host has a free slot")]


def test_a_partition_that_waits_takes_a_slot_that_a_move_has_left() -> None:
    # The other operator's host dies for good. The key group leaves the left host at 4 s, and its slot with it.
    records = rows(job({"dies": failure(HOLDER), "leaves": move(4000, 0, RIGHT)}, store="remote"))
    ((completed,),) = column(records, "migrations", "completed_ns")
    ((at, target),) = restored(records)
    assert said(records, "stays down") == [(DETECTED, "more[0] stays down", "no live host has a free slot")]
    assert target == LEFT
    # The coordinator hears of the end one latency later, and the checkpoint is fetched.
    assert completed + 1 < at < completed + 5


def test_a_move_waits_for_a_free_slot_and_says_so_once() -> None:
    # The right host has room for the other operator only when its key group has gone to the left at 5 s.
    records = rows(job({"comes": move(4000, 0, RIGHT, "more"), "leaves": move(5000, 1, LEFT)}, store="remote"))
    assert said(records, "waits") == [(4000, "the move of more[0] waits", "right-0 has no free slot")]
    began = column(records, "migrations", "operator", "requested_ns", "paused_ns", "completed_ns")
    (_, _, _, left), (_, requested, came, _) = began
    assert requested == 4000
    assert 5000 < left <= came


def test_a_move_that_never_finds_a_slot_is_still_waiting_at_the_end() -> None:
    records = rows(job({"comes": move(4000, 0, RIGHT, "more")}, store="remote"))
    assert column(records, "migrations", "requested_ns", "completed_ns") == [(4000, NEVER)]
    assert len(said(records, "waits")) == 1


def test_a_rescaled_operator_takes_hosts_with_a_free_slot() -> None:
    # Both hosts in the middle are full; in front, a slot is free. Without limits it would be the holder: it has less.
    grows = {"kind": "rescale", "at": "4 s", "operator": "sum", "parallelism": 3}
    raw = job({"grows": grows}, store="remote")
    raw["operators"]["sum"]["key_groups"] = 3
    raw["hosts"]["front"]["slots"] = 3
    records = rows(raw)
    assert {host for (host,) in column(records, "migrations", "target")} == {FRONT}
    raw["hosts"]["holder"]["slots"] = 2
    assert {host for (host,) in column(rows(raw), "migrations", "target")} == {HOLDER}
