"""`holdfast sweep` and `holdfast compare` as a user has them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from runs_inside import inside

from holdfast import read_design, scenario_from, scenario_with
from holdfast.cli import main
from models.scenario.changes import overruled_by_sweep
from models.scenario.reading import raw_of
from scenarios.files.scenario import path_of, read_scenario

SWEEP = ["sweep", "tiny-sweep", "--set", "duration=24 s", "--set", "replications=2"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    said = capsys.readouterr()
    return int(str(left.value.code or 0)), said.out, said.err


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep") / "out"
    with pytest.raises(SystemExit) as left:
        main([*SWEEP, "--out", str(out)])
    assert not left.value.code
    return out


def test_a_sweep_prints_a_row_for_each_design(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *SWEEP, "--out", str(made), "--metric", "latency_s.p99")
    assert code == 0
    assert [line.split()[:4] for line in out.splitlines() if line.strip()[:1].isdigit()][:6] == [
        [str(number), interval, "s", kind]
        for number, (interval, kind) in enumerate(
            (interval, kind) for interval in "125" for kind in ("incremental", "full")
        )
    ]
    assert max(map(len, out.splitlines())) <= 80


def test_a_sweep_prints_the_answer_of_its_page(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, *SWEEP, "--out", str(made))
    html = (made / "report.html").read_text(encoding="utf-8")
    answer = html.split('<section class="answer"')[1].split("</section>")[0]
    sentences = [part.split("</p>")[0] for part in answer.split("<p>")[1:]]
    assert len(sentences) == 2  # latency and recovery
    assert all(" ".join(sentence.split()) in " ".join(out.split()) for sentence in sentences)


def test_a_sweep_has_a_page_that_says_how_to_do_it_again(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html = (made / "report.html").read_text(encoding="utf-8")
    assert "holdfast sweep tiny-sweep --set &#39;duration=24 s&#39; --set replications=2 --out out" in html
    assert "4 interval 5 s, kind incremental" in html
    run(capsys, *SWEEP, "--out", str(made))
    assert (made / "report.html").read_text(encoding="utf-8") == html


def test_a_sweep_says_what_is_best_when(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (made / "report.html").read_bytes()
    asked = ["--best", "fault_tolerance.kind", "--metric", "latency_s.mean", "--metric", "recoveries.total_s.mean"]
    code, out, _ = run(capsys, *SWEEP, "--out", str(made), *asked)
    html = (made / "report.html").read_text(encoding="utf-8")
    (made / "report.html").write_bytes(before)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines() if line.strip()[:1].isdigit()][:3] == [
        ["1", "s"], ["2", "s"], ["5", "s"],
    ]  # fmt: skip
    assert max(map(len, out.splitlines())) <= 80
    assert "Best kind by recoveries.total_s.mean" in out and "Best kind by recoveries.total_s.mean" in html
    assert "Lowest latency_s.mean, or not told from it, in 3 settings: " in " ".join(out.split())
    answer = html.split('<section class="answer"')[1].split("</section>")[0]
    assert "Lowest latency_s.mean, or not told from it, in 3 settings: " in " ".join(answer.split())
    assert "--metric latency_s.mean --metric recoveries.total_s.mean --best fault_tolerance.kind --out out" in html


def test_what_is_best_when_is_in_the_json_document(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (made / "report.html").read_bytes()
    asked = ["--best", "fault_tolerance.kind", "--metric", "recoveries.total_s.mean", "--json"]
    code, out, _ = run(capsys, *SWEEP, "--out", str(made), *asked)
    (made / "report.html").write_bytes(before)
    document = json.loads(out)
    (metric,), (found,) = zip(*document["best"].items(), strict=True)
    assert (code, metric) == (0, "recoveries.total_s.mean")
    assert [one["settings"] for one in found] == [{"fault_tolerance.interval": f"{k} s"} for k in (1, 2, 5)]
    points = [point["metrics"][metric]["mean"] for point in document["points"]]
    assert [mean["mean"] for one in found for mean in one["means"]] == pytest.approx(points)
    assert all(one["best"] for one in found)


def test_a_key_that_is_not_swept_is_refused_before_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = run(capsys, *SWEEP, "--out", str(tmp_path / "new"), "--best", "fault_tolerance.kin")
    assert (code, (tmp_path / "new").exists()) == (2, False)
    assert 'did you mean "fault_tolerance.kind"' in said


def test_a_sweep_is_one_json_document(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *SWEEP, "--out", str(made), "--json", "--resume")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert len(document["digest"]) == 64
    assert (document["runs"], document["failed"]) == (12, [])
    point = document["points"][4]
    assert point["settings"] == {"fault_tolerance.interval": "5 s", "fault_tolerance.kind": "incremental"}
    latency = point["metrics"]["latency_s.mean"]
    assert latency["ci95"][0] < latency["mean"] < latency["ci95"][1]
    assert latency["difference"]["paired"] is True
    assert document["points"][0]["metrics"]["latency_s.mean"]["difference"] is None


def test_designs_of_a_sweep_and_runs_can_be_compared(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "tiny-sweep",
        "--set",
        "duration=24 s",
        "--set",
        "replications=2",
        "--set",
        "fault_tolerance.interval=1 s",
    ]
    assert run(capsys, "run", *arguments, "--out", str(tmp_path / "run"))[0] == 0
    code, out, _ = run(capsys, "compare", f"{made}:0", str(tmp_path / "run"), "--json")
    found = json.loads(out)["metrics"]
    assert code == 0
    assert found["latency_s.mean"]["difference"] == {
        "mean": 0.0,
        "ci95": [0.0, 0.0],
        "relative": 0.0,
        "paired": True,
        "pairs": 2,
        "shown": "equal",
    }
    assert {one["difference"]["shown"] for one in found.values()} == {"equal"}
    code, out, _ = run(capsys, "compare", f"{made}:0", f"{made}:4")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "latency_s.mean" in out


def test_only_what_a_sweep_varies_as_a_whole_overrules_a_setting() -> None:
    base = scenario_from(raw_of(read_scenario(path_of("tiny-sweep")).scenario) | {"sweep": {}})
    for swept, refused in (("events.crash.at", True), ("events.crash.at.high", False)):
        at = {"distribution": "uniform", "low": "9 s", "high": "10 s"}
        values = ["11 s", "12 s"]
        made = scenario_with(base, {"events.crash.at": at, "sweep": {swept: values}})
        assert len(list(overruled_by_sweep(made, ["events.crash.at.high", "seed"]))) == 1
        assert bool(list(overruled_by_sweep(made, ["events.crash.at"]))) == refused
    assert list(overruled_by_sweep(base, ["events.crash.at"])) == []


def test_designs_that_are_compared_are_named_as_in_the_table_of_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swept = 'sweep={ "events.crash.at" = ["20 s", { distribution = "uniform", low = "18 s", high = "19 s" }] }'
    there = str(tmp_path / "out")
    arguments = ["--set", swept, "--set", "duration=24 s", "--set", "replications=1", "--out", there]
    code, table, _ = run(capsys, "sweep", "tiny-sweep", *arguments)
    assert (code, "uniform, 18 s, 19 s" in table) == (0, True)
    assert f"{there}:1 (events.crash.at = uniform, 18 s, 19 s)" in read_design(f"{there}:1").title
    assert "at uniform, 18 s, 19 s" in (tmp_path / "out" / "report.html").read_text()


def test_designs_of_different_resolutions_are_not_compared_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As runs that are stored, and as design points."""
    short = ["--set", "duration=10 s", "--set", "warmup=1 s", "--set", "replications=2"]
    for w in (1, 10):
        made = run(capsys, "run", "mm1", *short, "--set", f"resolution={w}", "--out", str(tmp_path / str(w)))
        assert made[0] == 0, made[2]
    there = str(tmp_path / "sweep")
    code, _, said = run(capsys, "sweep", "mm1", *short, "--set", "sweep={ resolution = [1, 10] }", "--out", there)
    assert code == 0, said
    stands = "One simulated record stands for 1 in A and 10 in B: a part of a difference is what that changes."
    for a, b in ((str(tmp_path / "1"), str(tmp_path / "10")), (f"{there}:0", f"{there}:1")):
        code, shown, said = run(capsys, "compare", a, b)
        assert (code, stands in " ".join(shown.split())) == (0, True), said
        code, document, _ = run(capsys, "compare", a, b, "--json")
        assert (code, [one["resolution"] for one in json.loads(document)["designs"]]) == (0, [1, 10])
    shown = run(capsys, "compare", str(tmp_path / "10"), f"{there}:1")[1]
    assert "One simulated record stands for 10; all counts are of records of the job." in " ".join(shown.split())
    assert "simulated record" not in run(capsys, "compare", str(tmp_path / "1"), f"{there}:0")[1]


def test_a_design_whose_move_did_not_end_is_not_compared_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 steps, a second apart, in a run of 5 s: the latency is that of a part of the move."""
    move = '{ kind = "reconfigure", operator = "count", at = "1 s", strategy = "fluid" }'
    short = ["duration=5 s", "replications=2", "resolution=10", f"events={{ m = {move} }}"]
    short += ['sweep={ "events.m.gap" = ["0 s", "1 s"] }', "operators.count.key_groups=64"]
    there = str(tmp_path / "sweep")
    code, _, said = run(capsys, "sweep", "bin-migration", *(f"--set={one}" for one in short), "--out", there)
    assert code == 0, said
    for a, b, stands in ((0, 1, "2 of 2 runs of B"), (1, 1, "2 of 2 runs of A and in 2 of 2 runs of B")):
        code, shown, _ = run(capsys, "compare", f"{there}:{a}", f"{there}:{b}")
        assert code == 0
        assert f"A move did not end in {stands}: latencies are those of a part" in " ".join(shown.split())
    document = json.loads(run(capsys, "compare", f"{there}:0", f"{there}:1", "--json")[1])
    assert [(one["unfinished"], one["cancelled"]) for one in document["designs"]] == [(0, 0), (2, 0)]
    assert "did not end" not in run(capsys, "compare", f"{there}:0", f"{there}:0")[1]


CRASH = """
seed = 1
duration = "2 s"

[workload.in]
rate = "200 /s"
keys = { distribution = "uniform", count = 40 }
tuple = "100 B"

[operators.in]
kind = "source"

[operators.count]
kind = "aggregate"
inputs = { in = "key" }
parallelism = 2
key_groups = 8
service = { distribution = "deterministic", value = "1 ms" }
state = { model = "fixed", bytes = "20 kB" }

[operators.out]
kind = "sink"
inputs = { count = "shuffle" }

[hosts.h]
count = 4
network = "1 MB/s"

[detector]
heartbeat = "10 ms"
timeout = "30 ms"

[placement.tasks]
in-0 = "h-0"
count-0 = "h-1"
count-1 = "h-2"
out-0 = "h-3"

[fault_tolerance]
method = "region-restart"
store = "remote"
remote = "100 MB/s"
interval = "300 ms"
barriers = {}

[events.move]
kind = "reconfigure"
at = "700 ms"
operator = "count"
strategy = "fluid"
owners = [1, 1, 1, 1, 1, 1, 1, 1]

[events.dies]
kind = "host-failure"
at = "1.9 s"
host = "h-2"
repair = "100 ms"

[sweep]
design = ["calm", "crash"]

[designs.calm]

[designs.crash]
"events.dies.at" = "720 ms"
"""


def test_a_move_that_a_crash_cancelled_is_not_said_to_have_no_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a run, a sweep, the designs side by side, and a comparison of two."""
    file, there = tmp_path / "crash.toml", str(tmp_path / "sweep")
    file.write_text(CRASH)
    shown = " ".join(run(capsys, "run", str(file), "--set", "design=crash")[1].split())
    assert "Of 1 reconfiguration: 1 cancelled after a crash." in shown
    code, shown, said = run(capsys, "sweep", str(file), "--out", there)
    assert code == 0, said
    assert "Moves of design 1 were cancelled: their times do not count" in " ".join(shown.split())
    shown = " ".join(run(capsys, "compare", there)[1].split())
    assert "crash: a move was cancelled; latencies are those of a part of it." in shown
    shown = " ".join(run(capsys, "compare", f"{there}:0", f"{there}:1")[1].split())
    assert "A move was cancelled in 1 of 1 runs of B: latencies are those of a part of it." in shown
    document = json.loads(run(capsys, "compare", there, "--json")[1])
    assert [(one["unfinished"], one["cancelled"]) for one in document["designs"]] == [(0, 0), (0, 1)]
    shown = run(capsys, "sweep", str(file), "--out", there, "--best", "design", "--metric", "latency_s.max")[1]
    assert "Moves were cancelled with crash in 1: not best there." in " ".join(shown.split())


@pytest.fixture
def half(made: Path, tmp_path: Path) -> Path:
    """The sweep with nothing but the first design's first chunk."""
    shutil.copytree(made, tmp_path / "half")
    chunks = json.loads((made / "plan.json").read_text())["chunks"]
    for number, chunk in enumerate(chunks):
        if [0, 0] not in chunk:
            (tmp_path / "half" / "runs" / f"chunk-{number:08d}.parquet").unlink()
    return tmp_path / "half"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "MADE", "MADE:0"], "is a sweep (say which design, as in"),
        (["compare", "MADE:0", "MADE:6"], "6: has no such design (0 to 5 are)"),
        (["compare", "MADE:0", "MADE:" + "9" * 5000], "has no such design (0 to 5 are)"),
        (["compare", "MADE:0", "HALF:0"], "HALF:0: is not finished: 1 of 2 runs are there"),
        ([*SWEEP, "--out", "MADE", "--time-limit", "inf"], "--time-limit = inf: must be between"),
        ([*SWEEP, "--out", "MADE", "--time-limit", "nan"], "--time-limit = nan: must be between"),
        ([*SWEEP, "--out", "HALF", "--metric", "latency"], "is no metric of this sweep"),
        ([*SWEEP, "--set", "sweep={ replications = [1, 2] }", "--out", "MADE"], "cannot be varied"),
        (
            [*SWEEP, "--set", "fault_tolerance.kind=full", "--out", "MADE"],
            "--set = fault_tolerance.kind: is overruled by every design: the sweep varies fault_tolerance.kind",
        ),
        (["compare", "MADE:0", "MADE:1", "--metric", "latency_s.p98"], 'did you mean "latency_s.p99"?'),
        (["compare", "MADE:0", "nowhere"], "nowhere"),
        (["sweep", "tiny-sweep", "--out", "MADE"], "holds a sweep of another scenario: duration, replications"),
        (["sweep", "mm1", "--out", "HERE"], "must be a new or empty directory"),
        ([*SWEEP, "--out", "MADE", "--metric", "latency"], "is no metric of this sweep"),
        ([*SWEEP, "--out", "MADE", "--master", "local"], "is for --on spark"),
        ([*SWEEP, "--out", "MADE", "--on", "ray"], "for '--on': 'ray' is not one of 'local', 'spark'."),
        ([*SWEEP, "--out", "MADE", "--workers", "0"], "--workers"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    made: Path, half: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there = str(Path(__file__).parent)
    places = {"MADE": str(made), "HALF": str(half), "HERE": there}
    given = list(arguments)
    for name, place in places.items():
        given, message = [one.replace(name, place) for one in given], message.replace(name, place)
    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "")
    assert message in err
    assert len(list((half / "runs").iterdir())) == 1
    assert "Traceback" not in err


def test_a_setting_that_the_sweep_overrules_is_no_way_around_what_is_wrong_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, given = tmp_path / "sweep.toml", ["--set", "fault_tolerance.interval=1 s", "--set", "duration=30 s"]
    text = path_of("tiny-sweep").read_text(encoding="utf-8")
    for interval, lines in (("5 s", 1), ("-5 s", 2)):
        path.write_text(text.replace('interval = "5 s"', f'interval = "{interval}"', 1), encoding="utf-8")
        code, _, err = run(capsys, "sweep", str(path), *given, "--out", str(tmp_path / "out"))
        *wrong, refused = err.splitlines()
        assert (code, len(wrong) + 1) == (2, lines)
        assert "--set = fault_tolerance.interval: is overruled by every design" in refused
        assert ("(change the file: its own value must be valid, too, although no design has it)" in refused) == (
            wrong == ["error: fault_tolerance.interval = -5 s: must be longer than zero"]
        )


def test_runs_that_fail_are_said_and_make_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*SWEEP, "--set", 'sweep={ "limits.steps" = [5, 1000000] }', "--out", str(tmp_path / "out")]
    with inside():
        code, out, err = run(capsys, *arguments)
    assert code == 4
    assert "run 0 of design 0: error in inputs: limits.steps = 5" in err
    assert "2 of 4 runs failed" in err
    assert "latency_s.mean" in out
    assert not any(verdict in out for verdict in ("unclear", "equal", "excludes"))


def test_a_wrong_metric_is_refused_before_any_run_of_a_new_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.sweeps.sweep.run_on_threads", _no_runs)
    code, _, err = run(capsys, *SWEEP, "--out", str(tmp_path / "new"), "--metric", "recoveries.total_s.maxi")
    assert code == 2
    assert 'is no metric of this sweep (did you mean "recoveries.total_s.max"?)' in err


def test_a_metric_that_only_some_runs_have_is_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.sweeps.sweep.run_on_threads", _no_runs)
    for metric in ("recoveries.total_s.max", "messages.replay.bytes", "broken.share", "migrations.pause_s.max"):
        with pytest.raises(AssertionError, match="a run was made"):
            run(capsys, *SWEEP, "--out", str(tmp_path / metric), "--metric", metric)


def _no_runs(*_: object, **__: object) -> None:
    raise AssertionError("a run was made")
