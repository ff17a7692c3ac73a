"""What tasks hold in memory while states move in steps.

Oracle: states of a fixed size, which are neither made nor lost; the closed form for the copies that a host holds; equal
rows of both planes; rules that are broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bin_jobs import bin_job
from test_megaphone import rows_of
from test_planes import differences

from analysis.runs.memory import host_memory
from models.records.tables import RunRecords
from sim.control.memory import Memory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

STATE = 50_000
GROUPS, TASKS = 16, 4


def job(strategy: str, **event: Any) -> dict[str, Any]:
    """Sixteen key groups on four hosts, and no tuple after the first second; a quarter of the states moves at 1.2 s."""
    return bin_job(
        {"move": {"at": "1.2 s", "strategy": strategy} | event},
        src={
            "rate": {"steps": [{"at": "0 s", "rate": "200 /s"}, {"at": "900 ms", "rate": "0 /s"}]},
            "keys": {"distribution": "uniform", "count": 40},
            "tuple": "200 B",
        },
        op={
            "parallelism": TASKS,
            "key_groups": GROUPS,
            "service": {"distribution": "deterministic", "value": "1 ms"},
            "state": {"model": "fixed", "bytes": f"{STATE} B"},
            "serialise": "2 MB/s",
            "deserialise": "4 MB/s",
        },
        hosts={"count": TASKS, "network": "10 MB/s", "memory": "250 kB"},
        recording={"memory": True},
        duration="4 s",
    )


def peaks(one: RunRecords) -> np.ndarray:
    """The most that each host of the operator held [B]."""
    return host_memory(one).values[1:].max(axis=1)


@pytest.mark.parametrize(("sent", "received"), [(2.0, 3.0), (1.0, 1.0)])
def test_copies_are_held_to_the_end_of_the_step(sent: float, received: float) -> None:
    one = rows_of(job("all-at-once", sent_copies=sent, received_copies=received), PlainPlane)
    whole = GROUPS // TASKS * STATE
    moved = whole // 2  # the first half of those of every second task
    # Who sends holds its copies in place of the state, who receives holds its own beside its state.
    gives, takes = whole - moved + sent * moved, whole + received * moved
    assert peaks(one).tolist() == [takes, gives, takes, gives]


def test_the_fewer_move_in_a_step_the_less_is_held() -> None:
    steps = {"all-at-once": {}, "batched": {"size": 2}, "fluid": {}}
    most = [max(peaks(rows_of(job(name, **more), PlainPlane))) for name, more in steps.items()]
    whole = GROUPS // TASKS * STATE
    # The last step brings the last of two states to tasks that have the other one already; two make one step of one.
    assert most == [whole + 3 * 2 * STATE, whole + 1 * STATE + 3 * STATE, whole + 1 * STATE + 3 * STATE]


def test_states_are_neither_made_nor_lost() -> None:
    one = rows_of(job("fluid"), PlainPlane)
    sampled = np.isin(one.tables["memory"]["at_ns"], one.tables["samples"]["at_ns"])
    at_ns, when = np.unique(one.tables["memory"]["at_ns"][sampled], return_inverse=True)
    total = np.zeros(at_ns.size, np.int64)
    np.add.at(total, when, one.tables["memory"]["state_bytes"][sampled])
    assert total.tolist() == [GROUPS * STATE] * 3
    # Between samples the table says so itself.
    held: dict[int, int] = {}
    for row in zip(*(one.tables["memory"][name].tolist() for name in ("task", "state_bytes")), strict=True):
        held[row[0]] = row[1]
    assert sum(held.values()) == GROUPS * STATE


def test_what_moves_before_the_first_second_leaves_no_debt() -> None:
    early = job("all-at-once")
    early["events"]["move"]["at"] = "200 ms"
    memory = rows_of(early, PlainPlane).tables["memory"]
    first = memory["at_ns"] == 0
    assert memory["state_bytes"][first].sum() == GROUPS * STATE
    # Sources and sinks have no state; the least is that of a task that gives two of its four.
    assert min(one for one in memory["state_bytes"].tolist() if one) == (GROUPS // TASKS - 2) * STATE
    assert min(memory["state_bytes"]) == 0


def test_a_state_that_has_grown_since_the_last_sample_is_given_away_whole() -> None:
    grows = job("all-at-once", at="850 ms", owners=[0] * GROUPS)
    grows["operators"]["op"]["state"] = {"model": "per-key", "bytes": "5 kB"}
    memory = rows_of(grows, PlainPlane).tables["memory"]
    assert min(memory["state_bytes"]) == 0
    assert max(memory["sent_bytes"]) > 0


def test_waiting_tuples_and_copies_are_there_while_they_are() -> None:
    slow = job("all-at-once")
    slow["operators"]["op"]["serialise"] = "50 kB/s"  # 2 s for two states
    slow["workload"]["src"]["rate"] = "200 /s"
    one = rows_of(slow, PlainPlane)
    memory, samples = one.tables["memory"], one.tables["samples"]
    at = 3_000_000_000
    waiting = dict(zip(samples["task"][samples["at_ns"] == at], samples["queue"][samples["at_ns"] == at], strict=True))
    queued = dict(zip(memory["task"][memory["at_ns"] == at], memory["queue_bytes"][memory["at_ns"] == at], strict=True))
    assert queued == {task: 200 * count for task, count in waiting.items()}
    assert max(queued.values()) > 0
    assert memory["sent_bytes"][memory["at_ns"] == at].sum() == 2 * 4 * STATE


def test_both_planes_have_equal_rows() -> None:
    for strategy in ("all-at-once", "batched", "fluid"):
        raw = job(strategy, **({"size": 3} if strategy == "batched" else {}))
        assert not differences(rows_of(raw, PlainPlane), rows_of(raw, CompiledPlane))


def test_without_it_there_are_no_rows_and_all_others_are_the_same() -> None:
    with_rows = rows_of(job("fluid"), PlainPlane)
    without = rows_of(job("fluid") | {"recording": {}}, PlainPlane)
    assert not without.tables["memory"]["at_ns"].size
    for name, table in without.tables.items():
        for column, values in table.items():
            assert name == "memory" or np.array_equal(values, with_rows.tables[name][column]), (name, column)


def _kept(right: Callable[..., None]) -> Callable[..., None]:
    def forgotten(self: Memory, tasks: list[int]) -> None:
        right(self, tasks[:1])

    return forgotten


def test_copies_that_are_never_given_up_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memory, "forgotten", _kept(Memory.forgotten))
    one = rows_of(job("fluid"), PlainPlane)
    assert peaks(one).max() > (GROUPS // TASKS + 1 + 3) * STATE
