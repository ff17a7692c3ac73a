"""Which moves were assisted: rows by hand, and a plain replay of all that happened to checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import S, small_records

from analysis.runs.migration_kinds import migration_kinds
from models.records.tables import RunRecords


def stored(group: int, checkpoint_host: int, at: int) -> tuple[object, ...]:
    return (1, group, 1 - checkpoint_host if checkpoint_host >= 0 else 0, checkpoint_host, at - 1, at, 10, True, -1)


def move(group: int, origin: int, target: int, at: int, completed: int = -1) -> tuple[object, ...]:
    return ("cpal", 1, group, origin, target, at, at, at + 1, completed, 0, 0, -1, "balance", -1)


def kinds(**tables: list[tuple[object, ...]]) -> list[str]:
    return migration_kinds(small_records(**tables))


def test_a_move_to_the_checkpoint_host_is_assisted_and_one_to_another_host_is_not() -> None:
    checkpoints = [stored(0, 1, 2 * S), stored(1, 0, 2 * S)]
    assert kinds(checkpoints=checkpoints, migrations=[move(0, 0, 1, 3 * S), move(1, 0, 1, 3 * S)]) == [
        "assisted",
        "direct",
    ]


def test_what_is_not_stored_yet_does_not_help() -> None:
    checkpoints = [stored(0, 1, 3 * S), (1, 0, 0, 1, S, -1, 10, True, -1)]
    assert kinds(checkpoints=checkpoints, migrations=[move(0, 0, 1, 3 * S)]) == ["direct"]


def test_the_old_host_holds_the_checkpoint_once_a_move_is_completed() -> None:
    there, back = move(0, 0, 1, 3 * S, 4 * S), move(0, 1, 0, 5 * S)
    assert kinds(checkpoints=[stored(0, 1, 2 * S)], migrations=[there, back]) == ["assisted", "assisted"]
    open_ = move(0, 0, 1, 3 * S)
    assert kinds(checkpoints=[stored(0, 1, 2 * S)], migrations=[open_, back]) == ["assisted", "direct"]


def test_a_checkpoint_is_lost_with_its_host() -> None:
    failures = [(1, int(2.5 * S), 3 * S, 4 * S, 1, -1, "crash")]
    checkpoints = [stored(0, 1, 2 * S)]
    assert kinds(checkpoints=checkpoints, failures=failures, migrations=[move(0, 0, 1, 5 * S)]) == ["direct"]
    again = [*checkpoints, stored(0, 1, int(4.5 * S))]
    assert kinds(checkpoints=again, failures=failures, migrations=[move(0, 0, 1, 5 * S)]) == ["assisted"]


def test_every_host_can_have_what_is_in_the_remote_store() -> None:
    moves = [move(0, 0, 1, 3 * S, 4 * S), move(0, 1, 0, 5 * S)]
    assert kinds(checkpoints=[stored(0, -1, 2 * S)], migrations=moves) == ["assisted", "assisted"]
    assert kinds(migrations=moves[:1]) == ["direct"]


def replayed(one: RunRecords) -> list[str]:
    """The plain reference: everything in the order of time, one after the other."""
    happened: list[tuple[int, int, str, tuple[int, ...]]] = []
    rows = {name: list(zip(*(column.tolist() for column in one.tables[name].values()), strict=True))
            for name in ("checkpoints", "migrations", "failures")}  # fmt: skip
    for operator, group, _, checkpoint_host, _, at, *_ in rows["checkpoints"]:
        if at >= 0:
            happened.append((at, 2, "held", (operator, group, checkpoint_host)))
    for k, (_, operator, group, origin, target, at, _, _, completed, *_) in enumerate(rows["migrations"]):
        happened.append((at, 0, "asked", (operator, group, target, k)))
        if completed >= 0:
            happened.append((completed, 2, "held", (operator, group, origin)))
    happened += [(at, 1, "died", (host,)) for host, at, *_ in rows["failures"]]
    checkpoint_host_of: dict[tuple[int, int], int] = {}
    found = [""] * len(rows["migrations"])
    for _, _, what, values in sorted(happened):
        if what == "held":
            checkpoint_host_of[values[0], values[1]] = values[2]
        elif what == "died":
            checkpoint_host_of = {who: host for who, host in checkpoint_host_of.items() if host != values[0]}
        else:
            there = checkpoint_host_of.get((values[0], values[1])) == values[2]
            found[values[3]] = "assisted" if there else "direct"
    return found


@pytest.mark.parametrize("seed", range(20))
def test_kinds_equal_a_replay_of_all_that_happened(seed: int) -> None:
    draw = np.random.default_rng(seed)
    # All instants differ, so that the order of what happens at once plays no part.
    at = (draw.permutation(400) + 1).tolist()
    checkpoints = [stored(int(draw.integers(4)), int(draw.integers(2)), at.pop()) for _ in range(60)]
    moves = []
    for _ in range(40):
        target, begin = int(draw.integers(2)), at.pop()
        moves.append(move(int(draw.integers(4)), 1 - target, target, begin, at.pop() if draw.random() < 0.7 else -1))
    failures = [(int(draw.integers(2)), at.pop(), -1, -1, 0, -1, "crash") for _ in range(4)]
    one = small_records(checkpoints=checkpoints, migrations=moves, failures=failures)
    assert migration_kinds(one) == replayed(one)
    assert set(migration_kinds(one)) == {"assisted", "direct"}
