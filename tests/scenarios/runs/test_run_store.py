"""A run on disk: back as it was written, whole or not at all, the same bytes each time."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from models.errors import InputError
from models.records.tables import table
from scenarios.files.parquet import read_parquet, units_of
from scenarios.files.write_once import new_directory
from scenarios.runs import store
from scenarios.runs.store import (
    DERIVED,
    OF_HISTOGRAMS,
    OF_TUPLES,
    RAW,
    STORED,
    check_target,
    is_run,
    read_run,
    write_run,
)

S = 10**9
TEXT = 'name = "by hand"\n'
SUMMARY = {"scenario": "by hand", "latency_s": {"mean": None, "p50": 1.5}}


def snapshot(folder):
    return {entry.name: entry.read_bytes() for entry in sorted(folder.iterdir())}


def test_a_run_comes_back_as_it_was_written(make, tmp_path):
    records = [make.random(1, 0), make.random(2, 1)]
    write_run(tmp_path / "run", TEXT, SUMMARY, records)
    run = read_run(tmp_path / "run")
    assert (run.scenario, run.summary) == (TEXT, SUMMARY)
    for name in STORED:
        for column, values in run.tables[name].items():
            if column in ("replication", "operator", "task", "host", "owner", "checkpoint_host", "target"):
                continue
            written = [value for one in records for value in one.tables[name][column].tolist()]
            assert [None if value == -1 else value for value in written] == values


def test_names_stand_in_place_of_indices(make, tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1, 5)])
    tables = read_run(tmp_path / "run").tables
    assert tables["recoveries"]["host"] == ["worker-1"]
    assert tables["recoveries"]["target"] == ["worker-0"]
    assert tables["recoveries"]["operator"] == ["count"]
    assert tables["recoveries"]["replication"] == [5]
    assert tables["samples"]["task"][:4] == ["in-0", "count-0", "count-1", "out-0"]


def test_decisions_keep_the_names_that_they_have(make, tmp_path):
    made = (S, "move", "count[1]", "worker-0", "worker-1", "done", "it is asked for")
    one = make.random(1)
    decided = replace(one, tables={**one.tables, "decisions": table("decisions", [made])})
    write_run(tmp_path / "run", TEXT, SUMMARY, [decided])
    found = read_run(tmp_path / "run").tables["decisions"]
    assert found == {name: [value] for name, value in zip(found, (0, *made), strict=True)}


def test_what_never_came_and_the_remote_store_are_null(make, tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1)])
    tables = read_run(tmp_path / "run").tables
    assert tables["checkpoints"]["stored_ns"] == [5 * S, None]
    assert tables["checkpoints"]["checkpoint_host"] == ["worker-1", None]
    assert tables["failures"]["repaired_ns"] == [None]


def test_units_are_in_the_files(make, tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1)])
    assert units_of(tmp_path / "run" / "recoveries.parquet")["failed_ns"] == "ns"
    assert units_of(tmp_path / "run" / "checkpoints.parquet")["bytes"] == "B"
    assert units_of(tmp_path / "run" / "latency.parquet")["low_ns"] == "ns"
    assert units_of(tmp_path / "run" / "samples.parquet")["host"] == ""


def test_the_histogram_and_the_timeline_count_the_same_deliveries(make, tmp_path):
    records = [make.random(seed, seed) for seed in range(3)]
    write_run(tmp_path / "run", TEXT, SUMMARY, records)
    tables = read_run(tmp_path / "run").tables
    deliveries = sum(one.tables["deliveries"]["created_ns"].size for one in records)
    assert sum(tables["latency"]["count"]) == sum(tables["timeline"]["count"]) == deliveries


def test_raw_rows_are_written_on_request(make, tmp_path):
    write_run(tmp_path / "plain", TEXT, SUMMARY, [make.random(1)])
    write_run(tmp_path / "raw", TEXT, SUMMARY, [make.random(1)], raw=True)
    assert not set(RAW) & set(read_run(tmp_path / "plain").tables)
    assert set(RAW) <= set(read_run(tmp_path / "raw").tables)
    assert len(read_run(tmp_path / "raw").tables["visits"]["start_ns"]) == 60


def test_a_run_recorded_as_histograms_has_the_same_tables_and_its_histograms(make, tmp_path):
    records = [make.random(1, 0), make.random(2, 1)]
    write_run(tmp_path / "rows", TEXT, SUMMARY, records)
    write_run(tmp_path / "binned", TEXT, SUMMARY, [make.binned(one) for one in records], raw=True)
    rows, binned = read_run(tmp_path / "rows").tables, read_run(tmp_path / "binned").tables
    assert set(binned) == {*DERIVED, *STORED, *OF_HISTOGRAMS, *RAW} - set(OF_TUPLES)
    assert is_run(tmp_path / "binned")
    assert rows["first_outputs"]["at_ns"] == [] != binned["first_outputs"]["at_ns"]
    for name in {*STORED, "latency", "throughput"} - {"first_outputs"}:
        assert rows[name] == binned[name], name
    assert rows["timeline"]["mean_ns"] == binned["timeline"]["mean_ns"]
    waits = [
        count for what, count in zip(binned["times"]["what"], binned["times"]["count"], strict=True) if what == "wait"
    ]
    bins = zip(binned["time_bins"]["what"], binned["time_bins"]["count"], strict=True)
    assert sum(waits) == sum(count for what, count in bins if what == "wait") > 0
    assert not set(OF_HISTOGRAMS) & set(rows)


def test_a_long_run_recorded_as_histograms_is_written_in_its_own_intervals(make, tmp_path):
    one = make.binned(replace(make.random(1), duration_ns=10_000 * S))
    write_run(tmp_path / "run", TEXT, SUMMARY, [one])
    assert read_run(tmp_path / "run").tables["timeline"]["at_ns"][:3] == [0, 3 * S, 6 * S]


def test_the_same_records_give_the_same_bytes(make, tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name, TEXT, SUMMARY, [make.random(1), make.random(2, 1)], raw=True)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_no_records_are_a_run_too(tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [])
    assert read_run(tmp_path / "run").tables["samples"]["queue"] == []


def test_a_run_is_not_overwritten(make, tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1)])
    before = snapshot(tmp_path / "run")
    with pytest.raises(InputError, match="not overwritten"):
        write_run(tmp_path / "run", "other", SUMMARY, [])
    assert snapshot(tmp_path / "run") == before


def test_force_replaces_a_run_and_leaves_nothing_beside_it(make, tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1)], raw=True)
    write_run(tmp_path / "run", "other", SUMMARY, [], force=True)
    assert read_run(tmp_path / "run").scenario == "other"
    assert not (tmp_path / "run" / "visits.parquet").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_force_does_not_empty_a_directory_that_is_no_run(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="even with force"):
        write_run(tmp_path / "home", TEXT, SUMMARY, [], force=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"
    assert not is_run(tmp_path / "home")


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "run").mkdir()
    write_run(tmp_path / "run", TEXT, SUMMARY, [])
    assert is_run(tmp_path / "run")


@pytest.mark.parametrize("fails_at", ["latency", "samples", "ledger"])
@pytest.mark.parametrize("death", [KeyboardInterrupt, RuntimeError])
def test_a_death_between_two_files_leaves_what_was_there(make, tmp_path, monkeypatch, fails_at, death):
    write_run(tmp_path / "run", TEXT, SUMMARY, [make.random(1)])
    before = snapshot(tmp_path / "run")

    def dies(path, *rest):
        if path.stem == fails_at:
            raise death
        return write(path, *rest)

    write = store.write_parquet
    monkeypatch.setattr(store, "write_parquet", dies)
    with pytest.raises(death):
        write_run(tmp_path / "run", "other", SUMMARY, [make.random(2)], force=True)
    with pytest.raises(death):
        write_run(tmp_path / "fresh", TEXT, SUMMARY, [make.random(2)])
    assert snapshot(tmp_path / "run") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_failed_last_step_puts_the_old_one_back(tmp_path, monkeypatch):
    target = tmp_path / "run"
    write_run(target, TEXT, SUMMARY, [])
    rename = type(target).rename

    def breaks(self, to):
        if ".new-" in self.name:
            raise OSError(errno.ENOSPC, "no space")
        return rename(self, to)

    monkeypatch.setattr(type(target), "rename", breaks)
    with pytest.raises(OSError, match="No space left"):
        write_run(target, "other", SUMMARY, [], force=True)
    monkeypatch.undo()
    assert read_run(target).scenario == TEXT
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_file_in_the_way_is_never_replaced(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(InputError, match="must be a directory"), new_directory(tmp_path / "run", force=True):
        pass
    assert (tmp_path / "run").read_text() == "mine"


def test_a_place_where_nothing_can_be_made_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be made"):
        write_run(tmp_path / "file" / "run", TEXT, SUMMARY, [])


def test_pages_stand_beside_the_tables_and_are_replaced_with_the_run(tmp_path):
    write_run(tmp_path / "run", TEXT, SUMMARY, [], pages={"report.html": "<p>"})
    assert (tmp_path / "run" / "report.html").read_text() == "<p>"
    write_run(tmp_path / "run", TEXT, SUMMARY, [], force=True)
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("name", ["../report.html", "a/b.html", "summary.json", "report"])
def test_a_page_cannot_leave_the_directory_or_replace_a_table(tmp_path, name):
    with pytest.raises(ValueError, match=r"ends in \.html"):
        write_run(tmp_path / "run", TEXT, SUMMARY, [], pages={name: "x"})
    assert list(tmp_path.iterdir()) == []


def test_a_place_can_be_checked_before_the_work(tmp_path):
    check_target(tmp_path / "run")
    write_run(tmp_path / "run", TEXT, SUMMARY, [])
    check_target(tmp_path / "run", force=True)
    with pytest.raises(InputError, match="not overwritten"):
        check_target(tmp_path / "run")


def test_what_is_no_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_run(tmp_path / "run", TEXT, {"x": float("nan")}, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["nothing", "no summary", "bad json", "wrong format", "no table", "bad table"])
def test_broken_runs_are_refused_with_a_sentence(tmp_path, broken):
    target = tmp_path / "run"
    if broken != "nothing":
        write_run(target, TEXT, SUMMARY, [])
    if broken == "no summary":
        (target / "summary.json").unlink()
    if broken == "bad json":
        (target / "summary.json").write_text("{")
    if broken == "wrong format":
        (target / "summary.json").write_text("[1]")
    if broken == "no table":
        (target / "samples.parquet").unlink()
    if broken == "bad table":
        (target / "samples.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError) as caught:
        read_run(target)
    assert str(target) in str(caught.value)


def test_a_missing_parquet_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="must be a Parquet file"):
        read_parquet(tmp_path / "x.parquet")
