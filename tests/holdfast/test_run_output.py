"""What `run` shows at 80 columns, and the command that its page gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from profiled import small_profile

from holdfast import cli
from scenarios.files import profiles
from scenarios.files.scenario import names, text_of


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(("run", *arguments))
    assert left.value.code == 0
    return capsys.readouterr().out


# Millions of tuples: the same with fewer.
FEWER = {
    "elastic-sentiment": ("duration=8 s", "warmup=1 s", "workload.messages.rate=300 /s"),
    "flink-recovery": ("duration=80 s", "events.kill.at=30 s"),
    "rebalance-chain-50": ("duration=100 s", "warmup=5 s", "events.move.at=10 s"),
    "nexmark-q5": ("duration=40 s", "events.kill.at=12 s"),
    "spark-recovery": ("duration=40 s", "events.kill.at=12 s"),
    "storm-recovery": ("duration=2 min", "events.kill.at=12 s"),
    "user-rebalance": (
        "duration=60 s",
        "events.move.at=10 s",
        "workload.views.rate=600 /s",
        "workload.clicks.rate=200 /s",
    ),
}


PROFILED = """
duration = "10 s"
[workload.trips]
rate = { profile = "profile", span = "40 s", mean = "20 /s" }
keys = { distribution = "profile" }
[operators.trips]
kind = "source"
[operators.out]
kind = "sink"
inputs = { trips = "shuffle" }
[hosts.worker]
"""


def test_a_run_reads_its_profile_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiles.write_profile(small_profile(), tmp_path / "profile")
    (tmp_path / "trips.toml").write_text(PROFILED)
    read, times = profiles.read_profile, list[Path | str]()
    monkeypatch.setattr(profiles, "read_profile", lambda path: [times.append(path), read(path)][1])
    shown(capsys, str(tmp_path / "trips.toml"), "--engine", "plain", "--out", str(tmp_path / "out"))
    assert times == [tmp_path / "profile"]


@pytest.mark.parametrize("name", names())
def test_what_is_shown_fits_80_columns(capsys: pytest.CaptureFixture[str], name: str) -> None:
    settings = ("replications=1", *FEWER.get(name, ()))
    out = shown(capsys, name, *(part for one in settings for part in ("--set", one)))
    assert out.count("operator ") >= 1
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_bounded_queues_have_a_table_of_places_and_lag(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "backpressure", "--set", "duration=50 s")
    table = out.split("Bounded queues")[1]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip() and "%" in line}
    assert rows["enrich"][1:4] == ["50", "100", "%"]
    assert int(rows["orders"][-1].replace(",", "")) > 1000
    assert "Bounded queues" not in shown(capsys, "mm1", "--set", "duration=20 s")


def test_each_move_has_a_row_and_a_place_on_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = shown(capsys, "migration", "--out", str(tmp_path / "out")).split("Migrations")[1].split("Targets")[0]
    rows = {words[1]: words for words in (line.split() for line in out.splitlines()) if words and "[" in words[0]}
    assert list(rows) == ["direct", "cpa", "cpal", "lazy_move"]
    assert "–" not in {cell for words in rows.values() for cell in words}  # all came to their ends
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "What each move took" in page


DSM = (
    "events.move.protocol=dsm",
    "waves.interval=30 s",
    "fault_tolerance.method=acker",
    "fault_tolerance.guarantee=at-least-once",
)


@pytest.mark.parametrize("settings", [(), DSM], ids=["ccr", "dsm"])
def test_each_rebalance_has_a_row_and_a_place_on_the_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, settings: tuple[str, ...]
) -> None:
    chosen = [part for one in ("replications=2", *settings) for part in ("--set", one)]
    out = shown(capsys, "rebalance-star", *chosen, "--out", str(tmp_path / "out"))
    assert max(map(len, out.splitlines())) <= 80
    table = out.split("Rebalances (drain: its length; else times from request)")[1].split("Tuples at")[0]
    rows = [line.split() for line in table.splitlines() if line.split()[:1] in (["ccr"], ["dsm"])]
    assert len(rows) == 2 and all(words[1:3] == ["180", "s"] for words in rows)
    assert ("replayed" in table) == bool(settings)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "What each rebalance took" in page
    assert ("Tuples that were emitted again" in page) == bool(settings)


MOVES = """
[fault_tolerance]
method = "checkpoint"
interval = "2 s"
[events.move]
kind = "migrate"
at = "10 s"
operator = "match"
key_group = 3
host = "worker-2"
protocol = "cpal"
[events.wider]
kind = "rescale"
at = "15 s"
operator = "match"
parallelism = 3
protocol = "cpa"
[events.crash]
kind = "host-failure"
at = "20 s"
host = "worker-1"
repair = "5 s"
"""


def test_a_join_in_windows_is_moved_rescaled_and_recovered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = text_of("windowed-join")
    assert "[fault_tolerance]" not in text
    (tmp_path / "moves.toml").write_text(text + MOVES, encoding="utf-8")
    given = ("--set", "duration=40 s", "--set", "operators.count.window.length=10 s")
    out = shown(capsys, str(tmp_path / "moves.toml"), *given)
    rows = [line.split() for line in out.split("Migrations")[1].split("Rescaling")[0].splitlines() if "[" in line]
    assert {row[0].split("[")[0] for row in rows} == {"match"}
    assert len(rows) > 5
    assert "–" not in {cell for row in rows for cell in row}  # all came to their ends
    assert "Recoveries" in out


def test_targets_and_what_came_out_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in shown(capsys, "crash-recovery").split("Targets")[1].splitlines()]
    assert ["lost", "0", "0", "met"] in rows
    assert any(row[:3] == ["recovery", "30", "s"] and row[-1] == "met" for row in rows)


def test_the_page_gives_the_command_with_all_that_was_set(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown(capsys, "mm1", "--set", "duration=20 s", "--set", "seed=4", "--out", str(tmp_path / "out"))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "holdfast run mm1 --set &#39;duration=20 s&#39; --set seed=4" in page


def test_writing_checkpoints_is_named_where_it_makes_a_backlog(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "writes.toml"
    path.write_text(WRITES)
    arguments = ("run", str(path), "--set", "duration=30 s")
    with pytest.raises(SystemExit):
        cli.main(arguments)
    said = capsys.readouterr().err
    assert "tuples beside checkpoints cannot keep up: sum-0 writes 6 MB of them every 10 s" in said
    with pytest.raises(SystemExit):
        cli.main((*arguments, "--set", "operators.sum.serialise=100 MB/s"))
    assert "cannot keep up" not in capsys.readouterr().err


WRITES = """
duration = "30 s"
seed = 1
[workload.words]
rate = "100 /s"
tuple = "100 B"
[operators.words]
kind = "source"
[operators.sum]
kind = "aggregate"
key_groups = 4
parallelism = 1
inputs = { words = "key" }
serialise = "1 MB/s"
service = { distribution = "deterministic", value = "6 ms" }
state = { model = "fixed", bytes = "1.5 MB" }
[operators.out]
kind = "sink"
inputs = { sum = "shuffle" }
[hosts.front]
[hosts.worker]
count = 2
[fault_tolerance]
method = "checkpoint"
interval = "10 s"
guarantee = "at-most-once"
"""


LATE = """
format = 1
duration = "60 s"
replications = 4
workload.in = { rate = "1 /s" }
operators.in = { kind = "source" }
operators.out = { kind = "sink", inputs = { in = "shuffle" } }
hosts.worker = { count = 2 }
fault_tolerance.interval = "10 s"
events.kill = { kind = "host-failure", host = "worker-1", at = LAW }
"""


@pytest.mark.parametrize(
    ("law", "absent"),
    [
        ('{ distribution = "lognormal", mean = "55 s", cv = 1.5 }', 1),
        ('{ distribution = "uniform", low = "10 s", high = "20 s" }', 0),
        ('"5 s", delay = { distribution = "deterministic", value = "70 s" }', 4),
    ],
)
def test_a_run_says_in_how_many_replications_an_event_did_not_happen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, law: str, absent: int
) -> None:
    path = tmp_path / "late.toml"
    path.write_text(LATE.replace("LAW", law), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        cli.main(("run", str(path), "--engine", "plain", "--json"))
    out, err = capsys.readouterr()
    assert left.value.code == 0
    assert len(json.loads(out)["recoveries"]) == 4 - absent  # which the failures themselves say
    said = f"note: events.kill did not happen in {absent} of 4 replications: its time was after the end of the run"
    assert (said in err) == (absent > 0)
    assert err.count("did not happen") == (absent > 0)
