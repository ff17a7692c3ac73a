"""What an engine brings, and what of it is modelled: in `show --defaults`, after a run, in its summary and page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast import cli
from models.engines import flink, kafka_streams, spark, storm
from models.engines.behaviours import Status

KILLED = "events.kill.at={distribution='uniform',low='30 s',high='40 s'}"
SHORT = ["--set", "duration=70 s", "--set", KILLED, "--set", "workload.clicks.rate=50 /s"]


def code(arguments: list[str]) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_show_says_what_the_engine_brings_and_which_of_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["show", "flink-recovery", "--defaults", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["engine"], found["version"]) == ("flink", flink.LATEST)
    assert {one["path"]: one["holds"] for one in found["defaults"]} == {
        one.path: one.path != "hosts.*.slots" for one in flink.defaults(flink.LATEST)
    }
    assert all(one["source"] for one in found["defaults"])


def test_the_tables_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["show", "flink-recovery", "--defaults"]) == 0
    out = capsys.readouterr().out
    assert "fault_tolerance.snapshots.mode" in out
    assert "Unaligned checkpoints" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_run_of_spark_says_so_and_asks_about_its_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--set", "duration=40 s", "--set", "events.kill.at=12 s", "--set", "workload.clicks.rate=50 /s"]
    assert code(["run", "spark-recovery", *short, "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "Modelled on Apache Spark 4.3" in out
    assert f"\n {'the driver':10}" in out  # in the table of recoveries: its host lives
    assert "\n executor-0     0" not in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert {one["cause"] for one in summary["recoveries"]} == {"driver"}
    assert [one["name"] for one in summary["engine"]["behaviours"]] == [one.name for one in spark.BEHAVIOURS]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What happens if the driver dies" in page
    assert "the driver fails" in page
    assert "executor-0 fails" not in page
    assert "executor-0<br>" not in page
    assert code(["show", "spark-recovery", "--defaults"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_show_names_the_engine_and_the_regions_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for engine in ("flink", "spark", "kafka-streams", "storm"):
        assert code(["show", f"{engine}-recovery"]) == 0
        found[engine] = capsys.readouterr().out
    assert ": Apache Flink 2.3, 6 min, 4 times" in " ".join(found["flink"].split())
    assert "failover regions" in found["flink"]
    assert not any("failover regions" in found[engine] for engine in ("spark", "kafka-streams", "storm"))


def test_a_run_says_what_is_down_at_its_end_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    too = "events.too={kind='host-failure',host='taskmanager-3',at='30 s'}"
    assert code(["run", "flink-recovery", *SHORT, "--set", "replications=1", "--set", too]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Down at the end of the run: counts[2] and" in said or "Down at the end of the run: clicks[" in said
    assert "not all tasks of its region have a slot." in said
    (broken,) = re.findall(r"Outages: 1, .* the longest ([\d.]+) s", said)  # from then to the end
    (since,) = re.findall(r"Down at the end .* since ([\d.]+) s:", said)
    assert float(since) == pytest.approx(70 - float(broken), abs=0.2)


def test_a_run_says_that_a_rescaling_was_refused_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    more = "events.more={kind='rescale',operator='counts',parallelism=28,at='32 s'}"
    assert code(["run", "flink-recovery", *SHORT, "--set", "replications=1", "--set", more]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Not rescaled: counts, at [\d.]+ s: the savepoint has failed; the job goes on\.", said)


def test_a_run_of_kafka_streams_has_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--set", "duration=100 s", "--set", "events.kill.at=12 s", "--set", "workload.clicks.rate=50 /s"]
    short += ["--set", "events.kill.delay.mean=1 ms", "--set", "replications=2"]
    assert code(["run", "kafka-streams-recovery", *short, "--out", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Modelled on Kafka Streams 4.3" in out
    assert "in the words of Kafka Streams" in out
    assert all(one.word in out for one in kafka_streams.MILESTONES)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in summary["engine"]["behaviours"]] == [one.name for one in kafka_streams.BEHAVIOURS]
    assert code(["show", "kafka-streams-recovery", "--defaults", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["defaults"]
    # What goes with the other guarantee is left out.
    assert [one["value"] for one in found if one["path"] == "fault_tolerance.interval"] == ["30 s"]
    assert [one["value"] for one in found if one["path"] == "fault_tolerance.changelog.visible"] == ["delivered"]
    assert code(["show", "kafka-streams-recovery", "--defaults"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_run_of_storm_has_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--set", "duration=2 min", "--set", "events.kill.at=12 s", "--set", "workload.clicks.rate=20 /s"]
    short += ["--set", "replications=2", "--set", "events.kill.kind=worker-failure"]
    assert code(["run", "storm-recovery", *short, "--out", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Modelled on Apache Storm 2.8" in out
    assert "in the words of Storm" in out
    assert all(one.word in out for one in storm.MILESTONES)
    assert "workers of supervisor-1" in out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in summary["engine"]["behaviours"]] == [one.name for one in storm.BEHAVIOURS]
    # Both fail at the tick of 60 s, or with the ROLLBACK that follows then.
    assert all(48.0 <= one["last_replay_s"] < 49.0 for one in summary["recoveries"])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "the workers of supervisor-1" in page
    assert code(["show", "storm-recovery", "--defaults", "--json"]) == 0
    found = {one["path"]: one["value"] for one in json.loads(capsys.readouterr().out)["defaults"]}
    assert (found["waves.interval"], found["detector.check"]) == ("1 s", "10 s")
    assert code(["show", "storm-recovery", "--defaults"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_without_an_engine_there_is_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["show", "crash-recovery", "--defaults"]) == 2
    assert "names no engine" in capsys.readouterr().err


def test_a_run_lists_what_is_modelled_in_all_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["run", "flink-recovery", *SHORT, "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert summary["engine"]["name"] == "flink"
    assert [one["name"] for one in summary["engine"]["behaviours"]] == [one.name for one in flink.BEHAVIOURS]
    said = out[out.index("Modelled on Apache Flink") :].splitlines()[1:]
    assert [line.split(":")[0].strip() for line in said if ":" in line] == [status.value for status in Status]
    assert len(said) > len(Status)  # what is wrapped stands below the names
    assert all(line.startswith(" " * 14) for line in said if ":" not in line)
    assert "Apache Flink 2.3" in page
    assert "splits: absent" in page
    assert "go back to the last checkpoint that all tasks have completed" in page
    assert "its own newest checkpoint" not in page
    assert code(["run", "mm1", "--set", "duration=20 s", "--set", "warmup=1 s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] is None


def test_a_page_says_what_tells_of_a_failure(tmp_path: Path) -> None:
    for calls, words in (("2", "silent for 50 s or 2 heartbeats refused"), ("0", "silent for 50 s; connections break")):
        out = tmp_path / calls
        assert (
            code(["run", "flink-recovery", *SHORT, "--set", f"detector.failed_calls={calls}", "--out", str(out)]) == 0
        )
        assert words in (out / "report.html").read_text(encoding="utf-8")


def test_phases_have_the_words_of_the_engine_and_means_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["run", "flink-recovery", *SHORT, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    means = {one["phase"]: one for one in summary["recovery_means"]}
    ended = [one for one in summary["recoveries"] if one["total_s"] is not None]
    assert len(ended) == means["total"]["recoveries"] == 4
    for phase in ("detect", "allocate", "restore", "total", "first_output"):
        values = [one[f"{phase}_s"] for one in ended]
        assert means[phase]["mean_s"] == pytest.approx(sum(values) / 4)
        low, high = means[phase]["ci95"]
        assert low <= means[phase]["mean_s"] <= high
    assert [means[one.phase]["milestone"] for one in flink.MILESTONES] == [one.word for one in flink.MILESTONES]
    # All tasks of the region restart: no output is new before one of them has its state.
    assert all(
        one["detect_s"] + one["allocate_s"] + one["restart_s"] < one["first_output_s"] <= one["total_s"]
        for one in ended
    )
    parts = ("detect", "allocate", "restart", "restore", "replay", "catch_up")
    assert sum(means[phase]["mean_s"] for phase in parts) == pytest.approx(means["total"]["mean_s"])


def test_a_rescaling_has_the_words_of_the_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--set", "duration=80 s", "--set", "events.more.at=30 s", "--set", "workload.clicks.rate=50 /s"]
    assert code(["run", "flink-rescale", *short, "--out", str(tmp_path / "run")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert all(one.word in out for one in flink.RESCALING_MILESTONES)
    assert "Rescalings take" in out
    assert "RESTARTING" not in out
    assert "the job is rescaled" in page
    assert "Latency around the rescaling of the job" in page
    assert "rescaling to caught up" in page
    assert "failure to caught up" not in page
    assert "How long is a job away that gets other tasks" in page
    assert "Rescalings on average" in page
    assert "Recoveries on average" not in page


def test_a_run_prints_the_words_of_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert code(["run", "flink-recovery", *SHORT]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "cancelling takes no time here" in " ".join(out.split())
    assert all(one.word in out for one in flink.MILESTONES)
    assert code(["run", "flink-recovery", *SHORT, "--set", "recording.detail=histograms"]) == 0
    out = capsys.readouterr().out
    assert "a tuple from after the failure is at a sink" in " ".join(out.split())
