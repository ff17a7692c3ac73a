"""Hosts that are down for most of the time are probably a mistake of units: every kind of file says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import cli

EXAMPLES = Path(__file__).parents[3] / "examples"
FLEET = """duration = "2 d"
[times]
TIMES
[hosts]
a = {}
b = {}
[operators]
x = ["a"]
[queries]
q = ["x"]
"""
SIZING = (
    (EXAMPLES / "sizing.toml")
    .read_text(encoding="utf-8")
    .replace("40000 /s", "4000 /s")
    .replace("most = 30", "most = 8")
    .replace("availability = 0.99999", "availability = 0.9")
)
SCENARIO = (EXAMPLES / "two-hosts.toml").read_text(encoding="utf-8")
AVAILABILITY = 'hosts = ["a", "b"]\n[times]\nTIMES\n[operators]\nx = ["a"]\n[queries]\nq = ["x"]\n'
SHORT, LONG = 'mttf = "1 min"\nmttr = "1 h"', 'mttf = "1 h"\nmttr = "1 h"'
TIMES = 'mttf = "30 d"\nmttr = "4 h"'
GROUP = 'count = 2\nfailures = { model = "exponential", mtbf = "UP", repair = "1 h" }\n'
MTTR = ('mttr = "2 h"', 'mttr = "1 h"')
CASES = {
    "a scenario": (
        "validate",
        SCENARIO.replace("count = 2\n", GROUP.replace("UP", "1 min")),
        "hosts.worker.failures.mtbf",
    ),
    "availability": ("availability", AVAILABILITY.replace("TIMES", SHORT), "times.mttf"),
    "a host of an availability file": (
        "availability",
        AVAILABILITY.replace('["a", "b"]\n', "{ a = { HERE }, b = {} }\n", 1)
        .replace("TIMES", TIMES)
        .replace("HERE", SHORT.replace("\n", ", ")),
        "hosts.a.mttf",
    ),
    "fleet": ("fleet", FLEET.replace("TIMES", SHORT), "times.mttf"),
    "a law of up times": (
        "fleet",
        FLEET.replace("TIMES", 'mttr = "1 h"\nup = { distribution = "gamma", mean = "1 min", shape = 2.0 }'),
        "times.up",
    ),
    "a host of its own": (
        "fleet",
        FLEET.replace("TIMES", TIMES).replace("a = {}", 'a = { mttf = "1 min", mttr = "1 h" }'),
        "hosts.a.mttf",
    ),
    "a domain": (
        "fleet",
        FLEET.replace("TIMES", TIMES) + '[domains.rack]\nhosts = ["a", "b"]\n' + SHORT,
        "domains.rack.mttf",
    ),
    "sizing": ("size", SIZING.replace("per_year = 6 ", 'mttf = "1 min"').replace(*MTTR), "failures.mttf"),
    "sizing by mtbf": ("size", SIZING.replace("per_year = 6 ", 'mtbf = "1 min"').replace(*MTTR), "failures.mtbf"),
    "failures in a year": (
        "size",
        SIZING.replace("per_year = 6 ", "per_year = 525960").replace(*MTTR),
        "failures.per_year",
    ),
}


def said(capsys: pytest.CaptureFixture[str], file: Path, command: str, text: str) -> str:
    file.write_text(text)
    with pytest.raises(SystemExit) as left:
        cli.main([command, str(file)])
    out, err = capsys.readouterr()
    assert left.value.code in (0, 3, 4), err
    return " ".join((out + err).split())


@pytest.mark.parametrize(("command", "text", "path"), CASES.values(), ids=list(CASES))
def test_a_time_between_failures_below_the_time_to_repair_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str, path: str
) -> None:
    found = said(capsys, tmp_path / "x.toml", command, text)
    assert f"warning: {path}: the mean up time of 1 min is below the time to repair of 1 h" in found
    assert "98.36 % of the time" in found


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("validate", SCENARIO.replace("count = 2\n", GROUP.replace("UP", "1 h"))),
        ("availability", AVAILABILITY.replace("TIMES", LONG)),
        ("fleet", FLEET.replace("TIMES", LONG)),
        ("size", SIZING),
    ],
)
def test_other_times_are_not_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    assert "below the time to repair" not in said(capsys, tmp_path / "x.toml", command, text)
