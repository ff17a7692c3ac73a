"""The directory of a sweep: what is committed stays, once; damage is made again; other plans are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.errors import InputError
from scenarios.files import LoadedScenario, read_scenario
from scenarios.library import resolve
from scenarios.sweep_plan import SweepPlan, make_plan
from scenarios.sweep_store import Row, SweepStore, digest


@pytest.fixture
def loaded() -> LoadedScenario:
    return read_scenario(resolve("tiny-sweep"))


@pytest.fixture
def begun(loaded: LoadedScenario, tmp_path: Path) -> tuple[SweepStore, SweepPlan]:
    store = SweepStore(tmp_path / "sweep")
    return store, store.begin(make_plan(loaded, store.directory))


def rows_of(plan: SweepPlan, chunk: int, value: float = 1.5, status: str = "ok") -> list[Row]:
    return [
        Row(point, replication, status, "done", "", 0.1, {"a": value, "b_s": 1e-9})
        for point, replication in plan.chunks[chunk]
    ]


def test_a_plan_has_every_run_once(begun: tuple[SweepStore, SweepPlan]) -> None:
    _, plan = begun
    runs = [run for chunk in plan.chunks for run in chunk]
    assert sorted(runs) == [(point, replication) for point in range(6) for replication in range(3)]
    assert plan.runs == 18
    assert len(plan.costs_s) == len(plan.chunks) > 1


def test_a_plan_is_read_as_it_was_written(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    assert store.plan() == plan
    assert store.begin(plan) == plan


def test_the_first_attempt_at_a_chunk_wins(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    assert store.commit(0, rows_of(plan, 0, 1.0))
    assert not store.commit(0, rows_of(plan, 0, 2.0))
    assert {row.metrics["a"] for row in store.rows()} == {1.0}
    assert store.committed() == {0}
    assert list((store.directory / "tmp").iterdir()) == []


def test_what_is_missing_is_to_be_done(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    for chunk in (0, 2):
        store.commit(chunk, rows_of(plan, chunk))
    assert store.to_do(plan) == [chunk for chunk in range(len(plan.chunks)) if chunk not in (0, 2)]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other runs"])
def test_a_damaged_chunk_is_put_aside_and_made_again(begun: tuple[SweepStore, SweepPlan], damage: str) -> None:
    store, plan = begun
    store.commit(1, rows_of(plan, 0 if damage == "other runs" else 1))
    (path,) = (store.directory / "runs").iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 4] ^= 0x10
    path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2] if damage == "cut" else bytes(content))
    assert 1 in store.to_do(plan)
    assert store.committed() == set()
    assert len(list((store.directory / "replaced").iterdir())) == 1


def test_only_what_the_machine_did_is_retried(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    for chunk, status in enumerate(["ok", "error", "timeout", "crashed", "memory"]):
        store.commit(chunk, rows_of(plan, chunk, status=status))
    assert store.to_do(plan)[0] == 5
    assert store.to_do(plan, retry=True)[:4] == [2, 3, 4, 5]


def test_the_digest_leaves_times_and_attempts_out(begun: tuple[SweepStore, SweepPlan]) -> None:
    _, plan = begun
    rows = rows_of(plan, 0) + rows_of(plan, 1)
    slower = [Row(row.point, row.replication, row.status, row.stage, row.message, 9.0, row.metrics) for row in rows]
    assert digest(rows) == digest(slower[::-1])
    assert digest(rows) != digest(rows_of(plan, 0) + rows_of(plan, 1, 1.5000000000000002))


def test_another_sweep_is_refused_and_named(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, _ = begun
    other = read_scenario(resolve("tiny-sweep"), ["seed=4"])
    before = (store.directory / "plan.json").read_bytes()
    with pytest.raises(InputError, match="holds a sweep of another scenario: seed"):
        store.begin(make_plan(other, store.directory))
    assert (store.directory / "plan.json").read_bytes() == before


def test_a_directory_of_something_else_is_refused(loaded: LoadedScenario, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="must be a new or empty directory"):
        SweepStore(tmp_path).begin(make_plan(loaded, tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    file = tmp_path / "mine.txt"
    with pytest.raises(InputError, match="must be a new or empty directory"):
        SweepStore(file).begin(make_plan(loaded, file))


def test_a_plan_that_was_changed_is_refused(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, _ = begun
    path = store.directory / "plan.json"
    document = json.loads(path.read_text())
    document["scenario"]["seed"] = 99
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="was changed"):
        store.plan()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}'])
def test_a_plan_that_is_none_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError, match=r"plan\.json"):
        SweepStore(tmp_path).plan()


def test_files_that_a_sweep_names_are_part_of_it(tmp_path: Path) -> None:
    rates = tmp_path / "rates.csv"
    rates.write_text("time,value\n0,100\n10,200\n")
    text = Path(resolve("tiny-sweep")).read_text().replace('"200 /s"', '{ series = "rates.csv", step = "10 s" }')
    (tmp_path / "one.toml").write_text(text)
    loaded = read_scenario(tmp_path / "one.toml")
    store = SweepStore(tmp_path / "sweep")
    plan = store.begin(make_plan(loaded, store.directory))
    assert list(plan.files) == ["rates.csv"]
    rates.write_text("time,value\n0,100\n10,201\n")
    with pytest.raises(InputError, match=r"of another content of rates\.csv"):
        store.begin(make_plan(loaded, store.directory))
