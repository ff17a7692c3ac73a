"""What the terminal says of checkpoints that cannot keep up, and of how links are shared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.runs.checkpoint_summary import Checkpoints, MeanAndMax, OperatorCheckpoints
from holdfast.cli import app
from holdfast.run_tables import checkpoints_said

SCENARIO = """
format = 1
name = "ten seconds of upload every two"
duration = "30 s"
[workload.in]
rate = "20 /s"
tuple = "100 B"
keys = { distribution = "uniform", count = 100 }
[operators.in]
kind = "source"
[operators.sum]
kind = "aggregate"
inputs = { in = "key" }
parallelism = 2
key_groups = 4
service = { distribution = "deterministic", value = "1 ms" }
state = { model = "fixed", bytes = "5 MB" }
[operators.out]
kind = "sink"
inputs = { sum = "shuffle" }
[hosts.front]
[hosts.worker]
count = 2
network = "1 MB/s"
[placement]
operators = { in = "front", sum = "worker", out = "front" }
[fault_tolerance]
method = "checkpoint"
interval = "2 s"
"""


def told(tmp_path: Path, *arguments: str) -> str:
    file = tmp_path / "slow.toml"
    file.write_text(SCENARIO)
    found = CliRunner().invoke(app, [arguments[0], str(file), *arguments[1:]])
    assert found.exit_code == 0, found.output
    return " ".join(found.stdout.split())


def test_validate_warns_that_checkpoints_cannot_keep_up(tmp_path: Path) -> None:
    said = told(tmp_path, "validate")
    assert "warning: fault_tolerance.interval: checkpoints cannot keep up: worker-" in said
    assert "sends 10 MB of them every 2 s; over 1 MB/s they take 10 s" in said


def test_show_says_how_links_are_shared_and_why(tmp_path: Path) -> None:
    why = "worker-0 has a bandwidth and sends both records and checkpoints"
    assert f"Sharing of links: fair ({why})." in told(tmp_path, "show")
    assert json.loads(told(tmp_path, "show", "--json"))["network"] == {"sharing": "fair", "why": why}
    stated = told(tmp_path, "show", "--set", "network.sharing=fifo")
    assert "Sharing of links: fifo (network.sharing says so)." in stated


def test_a_run_counts_what_was_skipped_and_what_uploads_cost(tmp_path: Path) -> None:
    fair, fifo = (told(tmp_path, "run", "--set", f"network.sharing={how}") for how in ("fair", "fifo"))
    for said in (fair, fifo):
        assert "Checkpoints every 2 s: " in said
        assert "Checkpoints that could not keep up operator begun completed late skipped" in said
        assert "Uploads delayed records: " in said
    longest = [
        float(
            json.loads(told(tmp_path, "run", "--json", "--set", f"network.sharing={how}"))["checkpoints"]["delayed"][
                "max_s"
            ]
        )
        for how in ("fair", "fifo")
    ]
    assert longest[0] < 0.05
    assert longest[1] > 5


def test_checkpoints_that_keep_up_need_one_line() -> None:
    none, kept = MeanAndMax(None, None), OperatorCheckpoints(9, 9, 0, 0, 5.25)
    (line,) = checkpoints_said(Checkpoints(5.0, 9, 9, 0, 0, 5.25, none, none, {"sum": kept}, (), None))
    assert str(line).startswith("Checkpoints every 5 s: 9 begun, 9 completed, 0 of them late, 0 skipped")
    assert str(line).endswith("at most 5.25 s without a completed one.")


def test_checkpoints_of_kafka_streams_are_called_commits(tmp_path: Path) -> None:
    settings = ["replications=1", "workload.clicks.rate=40 /s", "events.kill.at=1 min", "duration=3 min"]
    settings += ["detector.timeout=10 s", "fault_tolerance.interval=20 s", "operators.counts.state.bytes=1 MB"]
    arguments = [part for one in settings for part in ("--set", one)]
    found = CliRunner().invoke(app, ["run", "kafka-streams-recovery", *arguments, "--out", str(tmp_path / "out")])
    said, page = " ".join(found.stdout.split()), (tmp_path / "out" / "report.html").read_text()
    assert "Commits every 20 s: " in said
    assert "State that was recovered: the commit was " in said
    assert "Commits are due every 20" in page
    assert "When state was recovered its commit was " in page


@pytest.mark.parametrize("name", ["crash-recovery", "word-count", "migration", "elasticity", "tiny-sweep"])
def test_scenarios_of_the_library_that_send_both_share_their_links_evenly(name: str) -> None:
    found = CliRunner().invoke(app, ["show", name, "--json"])
    assert json.loads(found.stdout)["network"]["sharing"] == "fair"
