"""Manners of the command line: exit codes, one line for each error, data on stdout and messages on stderr."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx
import pytest
from typer.core import TyperCommand

from holdfast import cli
from holdfast.commands import doctor
from holdfast.commands.plan import PLANS
from models.errors import InputError, MissingTool, WorkerLost
from scenarios.files.scenario import names, path_of, read_scenario, text_of

ROOT = Path(__file__).parents[2]


def holdfast(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    out, err = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, out, err


def in_a_process(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-P", "-m", "holdfast", *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(text_of("crash-recovery"), encoding="utf-8")
    return path


def test_help_names_every_command_that_is_there_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = holdfast(capsys, "--help")
    listed = [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line.strip()]
    assert (code, err) == (0, "")
    assert listed == list(cli.COMMANDS)
    assert {"validate", "show", "schema", "library", "doctor"} <= set(listed)


@pytest.mark.parametrize("group", [(), ("plan",)], ids=["holdfast", "plan"])
def test_the_nearest_command_is_named(capsys: pytest.CaptureFixture[str], group: tuple[str, ...]) -> None:
    near = "checkpoints" if group else "validate"
    code, out, err = holdfast(capsys, *group, near[:-1])
    assert (code, out) == (2, "")
    assert err.startswith(f"error: No such command '{near[:-1]}'. Did you mean '{near}'?\n")


@pytest.mark.parametrize("name", PLANS)
def test_the_help_of_a_group_says_what_the_help_of_each_command_says(name: str) -> None:
    stand_in: Any = TyperCommand(name, help=PLANS[name].summary)
    real: Any = TyperCommand(name, help=PLANS[name].load().__doc__)
    for width in (40, 60, 200):
        assert stand_in.get_short_help_str(width) == real.get_short_help_str(width)


def test_no_command_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert holdfast(capsys) == holdfast(capsys, "--help")


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_a_help_page(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = holdfast(capsys, name, "--help")
    assert code == 0
    assert out.startswith(f"Usage: holdfast {name}")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert holdfast(capsys, "--version") == (0, "holdfast 0.1.0\n", "")


# wrong uses of the command line itself
USES = [
    ("nosuch",),
    ("validate",),
    ("validate", "--nosuch"),
    ("validate", "mm1", "more"),
    ("schema", "x"),
    ("--nosuch",),
]


@pytest.mark.parametrize("arguments", USES, ids=" ".join)
def test_wrong_use_is_exit_2_with_a_line_on_stderr(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = holdfast(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("name", names())
def test_every_scenario_of_the_library_validates_and_shows(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = holdfast(capsys, "validate", name)
    assert (code, err) == (0, "")
    assert out.startswith("valid: ")
    code, out, err = holdfast(capsys, "show", name)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("command", ["validate", "show"])
def test_json_is_one_document(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = holdfast(capsys, command, "backlog", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["warnings"][0]["path"] == "operators.sessions"


def test_show_has_rates_load_placement_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(holdfast(capsys, "show", "mm1", "--json")[1])
    assert found["operators"]["server"]["task_utilisation"] == [0.8]
    assert found["operators"]["server"]["rate_in_per_s"]["mean_per_s"] == 800
    assert found["hosts"]["worker-0"]["tasks"] == ["arrivals-0", "server-0", "departures-0"]
    assert found["estimate"]["tuples"] == 5 * 300 * 800


def test_show_says_what_all_depends_on(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(holdfast(capsys, "show", "word-count", "--json")[1])["structure"]
    path = found["critical_path"]
    assert path["operators"] == ["sentences", "split", "count", "out"]
    assert path["latency_s"] == pytest.approx(path["service_s"] + path["wait_s"] + path["link_s"])
    assert [len(tasks) for tasks in found["failover_regions"]] == [8]
    assert found["on_every_path"]["tasks"] == ["sentences-0", "out-0"]
    out = " ".join(holdfast(capsys, "show", "word-count")[1].split())
    assert "slowest path sentences -> split -> count -> out" in out
    assert "hosts on every path worker-0, worker-3" in out


def test_show_tells_of_an_overloaded_operator_where_its_wait_grows(capsys: pytest.CaptureFixture[str]) -> None:
    slow = 'operators.server.service={distribution = "exponential", mean = "2 ms"}'
    found = json.loads(holdfast(capsys, "show", "mm1", "--set", slow, "--json")[1])["structure"]
    assert found["critical_path"]["latency_s"] is found["critical_path"]["wait_s"] is None
    assert "grows without end at server" in " ".join(holdfast(capsys, "show", "mm1", "--set", slow)[1].split())


def test_show_says_about_where_threads_and_shared_cores_are_short(capsys: pytest.CaptureFixture[str]) -> None:
    def found(cores: int) -> str:
        tasks = ("operators.server.parallelism=3", 'operators.departures.inputs={server="shuffle"}')
        host = ('hosts.worker.cpu="shared"', f"hosts.worker.cores={cores}")
        code, out, _ = holdfast(capsys, "show", "mm1", *(word for one in (*tasks, *host) for word in ("--set", one)))
        assert code == 0
        return " ".join(out.split())

    assert "its mean latency about" in found(2) and "waiting for threads and shared cores" in found(2)
    assert "its mean latency" in found(3) and "latency about" not in found(3) and "shared cores" not in found(3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--graph", "x.png"), "--graph = x.png: must end in .graphml or .dot"),
        (("--graph", "-"), "--graph = -: is no file"),
        (("--graph", "no/x.dot"), "--graph = no/x.dot: its folder does not exist"),
        (("--graph", "there.dot"), "--graph = there.dot: exists (--force overwrites it)"),
        (
            ("--graph", "x.dot", "--graph-of", "nodes"),
            "--graph-of = nodes: is no graph of a job (known here: operators",
        ),
        (("--graph", "x.dot", "--graph-of", "tasks"), "--graph-of = tasks: would have"),
        (("--graph-of", "placement"), "--graph-of = placement: says what --graph writes, and there is none"),
    ],
    ids=" ".join,
)
def test_a_graph_that_cannot_be_written_is_one_error_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.dot").write_text("mine")
    many = ("operators.server.parallelism=2000", "operators.departures.parallelism=2000")
    shuffled = 'operators.departures.inputs={server = "shuffle"}'
    settings = [word for one in (*many, shuffled) for word in ("--set", one)]
    code, out, err = holdfast(capsys, "show", "mm1", *settings, *wrong)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["there.dot"]
    assert (tmp_path / "there.dot").read_text() == "mine"


def test_show_writes_a_migration_file_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = holdfast(capsys, "show", "bin-migration", "--migration-file", "batched")
    initial, *steps = out.splitlines()
    assert (code, err) == (0, "") and initial == "M 0 " + " ".join("0123" * 64)
    assert len(steps) == 8 and steps[0] == "D 7000000000 1 2 3 0 5 2 7 0 9 2 11 0 13 2 15 0"
    for wrong, message in (
        (["there"], "--migration-file = there: must be an event reconfigure (there: all_at_once, fluid"),
        (["batched", "--json"], "--migration-file = batched: shows no more than the steps: leave --json out"),
    ):
        code, out, err = holdfast(capsys, "show", "bin-migration", "--migration-file", *wrong)
        assert (code, out) == (2, "") and message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("of", ["operators", "tasks", "placement"])
def test_show_writes_a_graph_that_networkx_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path, of: str) -> None:
    path = tmp_path / "job.graphml"
    path.write_text("an older one")
    code, out, err = holdfast(capsys, "show", "mm1", "--graph", str(path), "--graph-of", of, "--force", "--json")
    assert (code, err) == (0, "") and json.loads(out)["scenario"]
    assert set(networkx.read_graphml(path)) == set(read_scenario(path_of("mm1")).scenario.graph(of))


def test_errors_of_a_file_come_together_on_stderr_and_stdout_stays_empty(
    capsys: pytest.CaptureFixture[str], scenario: Path
) -> None:
    settings = ["--set", "duration=5", "--set", "operators.totals.parallelism=0", "--set", "nosuch.x=1"]
    code, out, err = holdfast(capsys, "validate", str(scenario), *settings, "--json")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "error: nosuch: no such key",
        'error: duration = 5: must be a quantity with a unit, not a bare number (write it with its unit, as in "5 s")',
        "error: operators.totals.parallelism = 0: must be at least 1",
    ]


def test_a_scenario_is_shown_without_a_file_that_it_names(capsys: pytest.CaptureFixture[str], scenario: Path) -> None:
    rate = 'workload.orders.rate={series = "s.csv", step = "1 s"}'
    code, out, _ = holdfast(capsys, "show", str(scenario), "--set", rate)
    assert code == 0
    assert "its rate counts as zero" in " ".join(out.split())


def test_the_schema_is_a_json_schema_that_forbids_unknown_keys(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = holdfast(capsys, "schema")
    schema = json.loads(out)
    assert code == 0
    assert schema["additionalProperties"] is False
    assert {"duration", "workload", "operators", "hosts"} == set(schema["required"])
    assert {"type": "string"}.items() <= schema["$defs"]["SourceWorkload"]["properties"]["rate"]["anyOf"][0].items()


def test_the_library_lists_names_and_prints_files(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = holdfast(capsys, "library")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == names()
    assert holdfast(capsys, "library", "mm1")[1] == text_of("mm1")
    assert [one["name"] for one in json.loads(holdfast(capsys, "library", "--json")[1])] == names()
    assert holdfast(capsys, "library", "mm2")[0] == 2


HOSTILE = "\x1b[31mred [bold]x[/bold] [link=https://x]y[/link] \x1b]0;title\x07 \u202eabc\x9b31m"


@pytest.mark.parametrize("command", ["validate", "show"])
def test_hostile_names_are_inert(capsys: pytest.CaptureFixture[str], scenario: Path, command: str) -> None:
    text = scenario.read_text(encoding="utf-8").replace('"a crash and its recovery, small"', json.dumps(HOSTILE))
    scenario.write_text(text, encoding="utf-8")
    code, out, _ = holdfast(capsys, command, str(scenario))
    assert code == 0
    assert "[bold]x[/bold]" in out
    assert not any(c in out for c in "\x1b\x07\u202e\x9b")


def test_hostile_keys_and_arguments_are_inert_in_errors(capsys: pytest.CaptureFixture[str], scenario: Path) -> None:
    scenario.write_text(f"{json.dumps(HOSTILE)} = 1\n", encoding="utf-8")
    for arguments in (
        ("validate", str(scenario)),
        ("validate", "\x1b[31m.toml"),
        ("\x1b[31m",),
        ("validate", "mm1", "--\x1b"),
    ):
        code, out, err = holdfast(capsys, *arguments)
        assert (code, out) == (2, "")
        assert not any(c in err for c in "\x1b\x07\u202e\x9b")


# what a command raises, exit code, what is said
RAISED: list[tuple[BaseException, int, str]] = [
    (InputError.at("a.b", 1, "must be more", "try 2"), 2, "error: a.b = 1: must be more (try 2)\n"),
    (MissingTool("Spark needs Java."), 2, "error: Spark needs Java.\n"),
    (KeyboardInterrupt(), 130, "interrupted\n"),
    (MemoryError(), 2, "error: the memory of this machine is not enough for this\n"),
    (WorkerLost("a worker process was killed"), 1, "error: a worker process was killed\n"),
    (OSError(errno.ENOSPC, "No space left on device"), 1, "error: no space left on device\n"),
    (OSError(errno.ENOSPC, "No space left on device", "out"), 1, "error: out: no space left on device\n"),
    (OSError(errno.EACCES, "Permission denied", "out"), 2, "error: out: permission denied\n"),
]


@pytest.mark.parametrize(("error", "expected", "says"), RAISED, ids=[repr(e) for e, _, _ in RAISED])
def test_what_goes_wrong_is_an_exit_code_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, expected: int, says: str
) -> None:
    module = importlib.import_module("holdfast.commands.library")

    def fail() -> None:
        raise error

    monkeypatch.setattr(module, "schema", fail)
    assert holdfast(capsys, "schema") == (expected, "", says)


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("holdfast.commands.library")

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "schema", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["schema"])


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "holdfast", "schema"]
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no file that is always full")
@pytest.mark.parametrize("arguments", [("schema",), ("show", "mm1"), ("show", "mm1", "--json")], ids=" ".join)
def test_a_stdout_that_is_full_is_one_line_and_exit_1(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-m", "holdfast", *arguments]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "error: no space left on device\n")


def test_doctor_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = holdfast(capsys, "doctor", "--json")
    found = json.loads(out)
    assert code == (0 if found["ok"] else 2)
    assert found["problems"] == []
    assert found["packages"]["numpy"]
    assert found["places"]["models"] == str(ROOT / "models")
    assert holdfast(capsys, "doctor")[1].endswith("Everything required is installed.\n")


def test_a_missing_java_is_a_note_and_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise MissingTool("Spark needs Java.")

    monkeypatch.setattr("analysis.spark.java.ensure_java", none)
    found = doctor.examine()
    assert (found["ok"], found["java"]) == (True, None)
    assert "Spark needs Java." in found["notes"]


def test_a_users_own_models_do_not_win_and_are_named_when_they_do(tmp_path: Path) -> None:
    for name in ("models", "sim"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')\n", encoding="utf-8")
    assert in_a_process("validate", "mm1", cwd=tmp_path).returncode == 0
    shadowed = in_a_process("validate", "mm1", cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert (shadowed.returncode, shadowed.stdout) == (2, "")
    (line,) = shadowed.stderr.splitlines()
    assert line.startswith("error: these packages are not those of holdfast")
    assert f"models ({tmp_path / 'models'})" in line
    assert "PYTHONSAFEPATH=1" in line


def test_a_terminal_that_knows_only_ascii_is_no_error(tmp_path: Path) -> None:
    done = in_a_process("show", "mm1", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "rule"),
    [("a\0.json", "must not hold a null character"), ("\ud800.json", "must not hold half of a surrogate pair")],
)
def test_an_option_for_a_path_that_cannot_be_is_refused_in_plain_words(
    capsys: pytest.CaptureFixture[str], name: str, rule: str
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["plan", "steps", "problem.json", "--out", name])
    said = capsys.readouterr().err.splitlines()
    assert left.value.code == 2
    assert said == [f"error: Invalid value for '--out': a path {rule}", "see: holdfast plan steps --help"]


def test_a_path_that_is_too_long_is_not_said_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["run", "a/" * 3000 + "x.toml"])
    said = capsys.readouterr().err.splitlines()
    assert left.value.code == 2
    assert len(said) == 1
    assert len(said[0]) < 500
    assert said[0].endswith("(file name too long)")


@pytest.mark.parametrize("name", ["failures", "ingest", "reproduce"])
def test_the_help_of_a_command_with_several_arguments_has_dots_once(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert usage.count("...") == 1
