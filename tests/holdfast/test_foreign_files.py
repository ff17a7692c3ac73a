"""A file that is not what a key or an option asks for may be secret: no message shows a line of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from analysis.failure_logs.reader import read_plain
from analysis.failure_logs.records import LogQuestion, kind_of, log_of
from analysis.spark.sources import check_columns, open_sources
from holdfast import cli
from models.errors import InputError
from scenarios.reliability.failure_logs import read_kept

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "hunter2"
TEXTS = {
    "a private key": f"-----BEGIN {SECRET} PRIVATE KEY-----\n{SECRET}AAAAB3NzaC1yc2E=\n-----END {SECRET}-----\n",
    "accounts": f"{SECRET}:x:0:0:root:/root:/bin/sh\nroot:{SECRET}:1:1::/:/bin/sh\n",
    "one token": SECRET,
    "columns": f"host,down,up,{SECRET}\n{SECRET},{SECRET},{SECRET},{SECRET}\n",
    "settings": f'password = "{SECRET}"\n[{SECRET}]\n[{SECRET}]\n',
    "tables": f'password = "{SECRET}"\n[login]\nuser = "{SECRET}"\n',
    "an object": json.dumps({"password": SECRET, "login": {"user": SECRET}}),
    "a list": json.dumps([[SECRET], 1]),
    "quotes": f'"{SECRET}\n{SECRET}" = 1\n',
}
SCENARIO = (EXAMPLES / "two-hosts.toml").read_text(encoding="utf-8")
RATE, INTERVAL = 'rate = "200 /s"', 'interval = "5 s"'
KEYS = {
    "rate.series": ("validate", SCENARIO.replace(RATE, 'rate = { series = "FILE", value = "rate", step = "1 s" }')),
    "failures.log": ("validate", SCENARIO + '[failures]\nlog = "FILE"\n'),
    "allocation.plan": ("run", SCENARIO.replace(INTERVAL, f'{INTERVAL}\nallocation = {{ plan = "FILE" }}')),
    "replica_plan.plan": (
        "validate",
        SCENARIO.replace(INTERVAL, f'{INTERVAL}\n[fault_tolerance.replica_plan]\nplan = "FILE"'),
    ),
    "query_set": ("fleet", 'query_set = "FILE"\nduration = "1 d"\ncapacity = 4.0\n[hosts]\na = {}\n'),
    "log": (
        "fleet",
        (EXAMPLES / "fleet.toml").read_text(encoding="utf-8").replace("price", 'log = "FILE"\nprice'),
    ),
    "sizing.failures.log": (
        "size",
        (EXAMPLES / "sizing.toml").read_text(encoding="utf-8").replace("per_year = 6 ", 'log = "FILE"'),
    ),
    "availability.times.log": (
        "availability",
        'hosts = ["a", "b"]\n[times]\nlog = "FILE"\n[operators]\nx = ["a"]\n[queries]\nq = ["x"]\n',
    ),
}
COMMANDS = {
    **{
        f"{command} {suffix}": [command, f"FILE{suffix}"]
        for command, suffixes in {
            "validate": [".toml"],
            "run": [".toml"],
            "sweep": [".toml"],
            "availability": [".toml", ".json"],
            "fleet": [".toml", ".json"],
            "size": [".toml", ".json"],
            "failures": [".csv", ".csv.gz", ".parquet"],
        }.items()
        for suffix in suffixes
    },
    **{
        f"plan {kind} {suffix}": ["plan", kind, f"FILE{suffix}"]
        for kind in ("checkpoints", "selection", "queries", "steps", "placement", "interval")
        for suffix in (".json", ".npz")
    },
    "plan placement .toml": ["plan", "placement", "FILE.toml"],
    "plan replicas .toml": ["plan", "replicas", "FILE.toml"],
    "plan checkpoints --from": ["plan", "checkpoints", str(EXAMPLES / "checkpoints.json"), "--from", "FILE.json"],
    "plan placement --from": ["plan", "placement", str(EXAMPLES / "placement.toml"), "--from", "FILE.json"],
    "plan replicas --from": ["plan", "replicas", str(EXAMPLES / "queries.toml"), "--optimise", "--from", "FILE.json"],
    "verify PLAN": ["verify", "FILE.json", str(EXAMPLES / "checkpoints.json")],
    "verify PROBLEM": ["verify", str(EXAMPLES / "replica-plan.json"), "FILE.toml"],
    **{
        f"ingest {end}": ["ingest", f"FILE{end}", "--key", "tailnum", "--time", "sched_dep_ts", "--out", "OUT"]
        for end in (".jsonl", ".json.gz")
    },
    "ingest .csv": ["ingest", "FILE.csv", "--key", "tailnum", "--time", "sched_dep_ts", "--out", "OUT"],
    "ingest .parquet": ["ingest", "FILE.parquet", "--key", "tailnum", "--time", "sched_dep_ts", "--out", "OUT"],
}


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> None:
    """The command ends with exit code 2 and says something, without the secret."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    out, err = capfd.readouterr()
    assert left.value.code == 2, out + err
    assert err.startswith("error: ")
    assert SECRET not in (out + err).lower()


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize(("command", "scenario"), KEYS.values(), ids=list(KEYS))
def test_a_key_that_names_a_foreign_file_shows_nothing_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, scenario: str, text: str
) -> None:
    suffix = {"query_set": ".toml", "allocation": ".json", "replica_plan": ".json"}
    name = next(("foreign" + end for key, end in suffix.items() if key in scenario), "foreign.csv")
    (tmp_path / name).write_text(text)
    (tmp_path / "mine.toml").write_text(scenario.replace("FILE", name))
    refused(capfd, command, str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=list(COMMANDS))
def test_a_command_that_is_given_a_foreign_file_shows_nothing_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    given = [one.replace("FILE", str(tmp_path / "foreign")).replace("OUT", str(tmp_path / "out")) for one in arguments]
    for one in given:
        if one.startswith(str(tmp_path / "foreign")):
            Path(one).write_text(text)
    refused(capfd, *given)


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("name", ["profile.json", "series.parquet"])
def test_a_profile_of_foreign_files_shows_nothing_of_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / "profile").mkdir()
    for one in ("profile.json", "series.parquet", "correlation.parquet", "quarantine.parquet"):
        (tmp_path / "profile" / one).write_text(text if one == name else "{}")
    rate = 'rate = { profile = "profile", stream = "all", span = "1 min", mean = "5 /s" }'
    (tmp_path / "mine.toml").write_text(SCENARIO.replace(RATE, rate))
    refused(capfd, "validate", str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
@pytest.mark.parametrize("name", ["summary.json", "plan.json"])
def test_a_directory_of_foreign_files_to_compare_shows_nothing_of_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    for one in (name, "scenario.toml"):
        (tmp_path / one).write_text(text)
    shown = f"{tmp_path}:0" if name == "plan.json" else str(tmp_path)
    refused(capfd, "compare", shown, shown)


@pytest.mark.parametrize(
    ("cell", "column"), [(SECRET, "rate"), ("-1", "rate"), ("nan", "rate"), ("1e300", "rate"), ("5", "missing")]
)
def test_a_series_is_refused_with_the_line_and_not_with_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str, column: str
) -> None:
    (tmp_path / "rates.csv").write_text(f"{SECRET},rate\n{SECRET},5\n{SECRET},{cell}\n")
    rate = f'rate = {{ series = "rates.csv", value = "{column}", step = "1 s" }}'
    (tmp_path / "mine.toml").write_text(SCENARIO.replace(RATE, rate))
    with pytest.raises(SystemExit):
        cli.main(["validate", str(tmp_path / "mine.toml")])
    error = capsys.readouterr().err
    assert SECRET not in error
    assert "rates.csv" in error
    assert ("its header has 2 columns" if column == "missing" else "line 3") in error


@pytest.mark.parametrize(
    ("row", "line"), [(f"{SECRET},1,2", 3), (f"a,{SECRET},2", 3), (f"a,1,{SECRET}", 3), ("a,5,4", 3), ("a,1.5,4", 3)]
)
def test_downtimes_are_refused_with_the_line_and_not_with_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, line: int
) -> None:
    (tmp_path / "down.csv").write_text(f"host,down,up\na,1,2\n{row}\n")
    text = (EXAMPLES / "fleet.toml").read_text(encoding="utf-8")
    text = text.replace('[times]\nmttf = "30 d"\nmttr = "4 h"\n', "").replace("price", 'log = "down.csv"\nprice')
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(SystemExit):
        cli.main(["fleet", str(tmp_path / "mine.toml")])
    error = capsys.readouterr().err
    assert SECRET not in error
    assert "down.csv" in error
    assert f"line {line}" in error


def test_a_log_with_too_many_bad_records_says_why_and_how_many_and_shows_none(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"host,down,up\na,1,2\n{SECRET},{SECRET},2\n,5,6\n,7,8\n")
    sources = open_sources([log])
    question = LogQuestion()
    records = read_plain(sources, kind_of(sources[0].columns, "log.csv"), question)
    with pytest.raises(InputError) as raised:
        log_of(records, question)
    assert SECRET not in str(raised.value)
    assert "3 of 4 records (75 %) cannot be used" in str(raised.value)
    assert "no host: 2" in str(raised.value)
    assert "log.csv, line 3" in str(raised.value)


def test_columns_that_a_schema_lacks_are_told_by_number(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"ts,{SECRET}\n1,2\n")
    parquet.write_table(pa.table({SECRET: np.arange(3)}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        for schema in (None, ["ts", "id"]):
            with pytest.raises(InputError) as raised:
                check_columns(open_sources([tmp_path / name]), schema, {"key": "id", "time": "ts"})
            assert SECRET not in str(raised.value)
            assert "column" in str(raised.value)


def test_a_broken_log_of_failures_shows_no_value_of_it(tmp_path: Path) -> None:
    log = {"origin_us": SECRET, "hosts": [], "begin_us": [], "end_us": [], "host": [], "down_us": [], "up_us": []}
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"format": "holdfast failures 1", "log": log, "mttf_s": 1.0, "mttr_s": 1.0}))
    with pytest.raises(InputError, match="broken file of holdfast failures") as raised:
        read_kept(file)
    assert SECRET not in str(raised.value)
