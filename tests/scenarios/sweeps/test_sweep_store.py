"""The directory of a sweep: what is committed stays, once; damage is made again; other plans are refused."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from models.errors import InputError
from scenarios.files.scenario import LoadedScenario, read_scenario, resolve
from scenarios.files.write_once import new_name
from scenarios.sweeps.plan import SweepPlan, make_plan
from scenarios.sweeps.store import Row, SweepStore, digest


@pytest.fixture
def loaded() -> LoadedScenario:
    return read_scenario(resolve("tiny-sweep"))


@pytest.fixture
def begun(loaded: LoadedScenario, tmp_path: Path) -> tuple[SweepStore, SweepPlan]:
    store = SweepStore(tmp_path / "sweep")
    return store, store.begin(make_plan(loaded))


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
    assert {row.metrics["a"] for row in store.rows(plan)} == {1.0}
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
        # In the values of a column, which have a checksum: a header of a page may say the same with another bit.
        column = pq.ParquetFile(path).metadata.row_group(0).column(0)
        content[column.data_page_offset + column.total_compressed_size - 2] ^= 0x10
    path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2] if damage == "cut" else bytes(content))
    assert 1 in store.to_do(plan)
    assert store.committed() == set()
    assert len(list((store.directory / "replaced").iterdir())) == 1


def test_only_what_the_machine_did_is_retried(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    for chunk, status in enumerate(["ok", "error", "timeout", "crashed", "memory", "failed"]):
        store.commit(chunk, rows_of(plan, chunk, status=status))
    assert store.to_do(plan)[0] == 6
    assert store.to_do(plan, retry=True)[:5] == [2, 3, 4, 5, 6]


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
        store.begin(make_plan(other))
    assert (store.directory / "plan.json").read_bytes() == before


def test_a_directory_of_something_else_is_refused(loaded: LoadedScenario, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="must be a new or empty directory"):
        SweepStore(tmp_path).begin(make_plan(loaded))
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
    file = tmp_path / "mine.txt"
    with pytest.raises(InputError, match="must be a new or empty directory"):
        SweepStore(file).begin(make_plan(loaded))


@pytest.mark.parametrize(
    "change",
    [
        {"scenario": {}},
        {"chunks": []},
        {"chunks": None},
        {"chunks": [[[0, 0.5]]]},
        {"chunks": [[[0, 0]], [[0, 0]]]},
        {"costs_s": []},
        {"costs_s": ["1"]},
        {"files": {"rates.csv": "0"}},
    ],
)
def test_a_plan_that_was_changed_is_refused(begun: tuple[SweepStore, SweepPlan], change: dict[str, object]) -> None:
    store, _ = begun
    path = store.directory / "plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match="was changed"):
        store.plan()


@pytest.mark.parametrize("change", ["twice", "outside", "costs", "float"])
def test_a_plan_that_cannot_be_is_refused_whatever_its_digest_says(
    begun: tuple[SweepStore, SweepPlan], change: str
) -> None:
    store, plan = begun
    chunks, costs = list(plan.chunks), plan.costs_s
    if change == "twice":
        chunks[0] = chunks[1]
    elif change == "outside":
        chunks[0] = ((6, 0),)
    elif change == "float":
        chunks[0] = ((0.0, 0),)  # type: ignore[assignment]
    else:
        costs = costs[:-1]
    (store.directory / "plan.json").write_text(replace(plan, chunks=tuple(chunks), costs_s=costs).text())
    with pytest.raises(InputError, match="was changed"):
        store.plan()


def test_a_sweep_that_was_begun_by_somebody_else_now_is_the_same(loaded: LoadedScenario, tmp_path: Path) -> None:
    for name in ("runs", "tmp", "replaced"):
        (tmp_path / name).mkdir()
    (tmp_path / "tmp" / new_name()).write_text("half a plan")
    store = SweepStore(tmp_path)
    assert store.begin(make_plan(loaded)) == store.plan()


def test_directories_that_are_missing_are_made_again(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    store.commit(0, rows_of(plan, 0))
    for name in ("tmp", "replaced"):
        (store.directory / name).rmdir()
    assert store.begin(plan) == plan
    assert store.commit(1, rows_of(plan, 1))
    assert store.committed() == {0, 1}


def test_only_chunks_of_the_plan_are_read(begun: tuple[SweepStore, SweepPlan]) -> None:
    store, plan = begun
    store.commit(0, rows_of(plan, 0))
    path = store.directory / "runs" / "chunk-00000000.parquet"
    for name in ("chunk-99999999.parquet", "chunk-mine.parquet", "chunk-1.parquet"):
        (path.parent / name).write_bytes(path.read_bytes())
    assert len(store.rows(plan)) == len(plan.chunks[0])
    assert store.committed() >= {0}
    path.write_bytes(b"")
    with pytest.raises(InputError, match="is damaged"):
        store.rows(plan)


def test_a_damaged_chunk_that_another_driver_took_away_is_missing(
    begun: tuple[SweepStore, SweepPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = begun
    store.commit(1, rows_of(plan, 0))

    def taken(path: Path, *_: object) -> bool:
        path.unlink()
        return False

    monkeypatch.setattr(store, "_is_good", taken)
    assert 1 in store.to_do(plan)


def test_a_directory_that_cannot_be_written_is_one_clear_error(
    begun: tuple[SweepStore, SweepPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = begun
    store.check_writable()

    def refused(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "write_bytes", refused)
    with pytest.raises(InputError, match=r"cannot be written \(read-only"):
        store.check_writable()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1}', "[" * 100_000])
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
    plan = store.begin(make_plan(loaded))
    assert list(plan.files) == ["rates.csv"]
    rates.write_text("time,value\n0,100\n10,201\n")
    with pytest.raises(InputError, match=r"of another content of rates\.csv"):
        store.begin(make_plan(loaded))
