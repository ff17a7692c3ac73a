"""`validate` accepts what `run` accepts, and refuses what it refuses with the same message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from seeds import sample

from holdfast import cli
from models.scenario.events import PROTOCOLS
from models.scenario.file_keys import schema_of
from models.scenario.scenario import Scenario
from models.validation_messages import path_text
from scenarios.files.documents import tables_of
from scenarios.files.scenario import names, path_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = [one for one in sorted(EXAMPLES.glob("*.toml")) if "format" in tables_of(one)]
BASES = ("elasticity", "migration", "windowed-join", "crash-recovery")


class Simulated(Exception):
    """Stands for a run that began."""


def values_of(node: Any, schema: Mapping[str, Any]) -> list[str]:
    """The values of an enumeration of the schema, also within a choice."""
    found = [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]
    for one in node.get("anyOf", ()):
        found += values_of(one, schema)
    return found


def enumerations(node: Any, table: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[list[str], str]]:
    """(path, value) for each value of an enumeration that a key of these tables could have."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    for one in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from enumerations(one, table, schema)
    for key, inner in node.get("properties", {}).items():
        yield from (([key], value) for value in values_of(inner, schema))
        if isinstance(table.get(key, {}), Mapping):
            yield from (([key, *path], value) for path, value in enumerations(inner, table.get(key, {}), schema))
    entries = [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]
    for key, one in table.items():
        for inner in (inner for inner in entries if isinstance(inner, Mapping) and isinstance(one, Mapping)):
            yield from (([key, *path], value) for path, value in enumerations(inner, one, schema))


@cache
def every_value() -> list[tuple[str, str]]:
    schema, found = schema_of(Scenario), []
    for base in BASES:
        for path, value in enumerations(schema, tables_of(path_of(base)), schema):
            found.append((base, f"{path_text(path)}={json.dumps(value)}"))
    for protocol in ("dsm", *PROTOCOLS):
        found.append(("elasticity", f"elasticity.protocol={protocol}"))
        found += [
            ("migration", f"events.{name}.protocol={protocol}") for name in tables_of(path_of("migration"))["events"]
        ]
    return list(dict.fromkeys(found))


def answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[tuple[bool, str], tuple[bool, str]]:
    """Of `validate` and of `run`, which does not simulate: whether it accepts, and the errors."""

    def begun(*_: object, **__: object) -> None:
        raise Simulated

    monkeypatch.setattr("scenarios.runs.run.execute", begun)
    found = []
    for command in ("validate", "run"):
        try:
            cli.main([command, *arguments])
        except SystemExit as left:
            accepted = left.code == 0
            assert left.code in (0, 2)
        except Simulated:
            accepted = True
        err = capsys.readouterr().err
        found.append((accepted, "".join(line for line in err.splitlines(keepends=True) if line.startswith("error: "))))
    return found[0], found[1]


@pytest.mark.parametrize("file", [*names(), *map(str, SCENARIOS)])
def test_validate_and_run_agree_on_the_library_and_the_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    validated, ran = answers(monkeypatch, capsys, file)
    assert validated == ran
    assert validated[0] or "study/profile" in validated[1]


def test_the_values_of_every_enumeration_are_tried() -> None:
    tried = {setting.split("=")[0].rpartition(".")[2] for _, setting in every_value()}
    known = {"method", "store", "kind", "cpu", "policy", "arrivals", "guarantee", "protocol", "distribution", "detail"}
    assert known <= tried
    assert len(every_value()) > 100


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("of_six", sample(1, 6))
def test_validate_and_run_agree_on_every_value_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], base: str, of_six: int
) -> None:
    found = set()
    for setting in [setting for name, setting in every_value() if name == base][of_six::6]:
        validated, ran = answers(monkeypatch, capsys, base, "--set", setting)
        assert validated == ran, setting
        found.add(validated[0])
    assert found == {True, False}


REFUSED = {
    "a protocol": ("elasticity", 'elasticity.protocol="dsm"', "elasticity.protocol = dsm: not simulated yet"),
    "a plan of tasks": ("mm1", 'placement.plan="plan.json"', "placement.plan = plan.json: not simulated yet"),
    "a limit": ("mm1", "limits.steps=10", "limits.steps = 10: the run needs about 3,600,000 steps"),
    "a method that needs statistics": (
        "crash-recovery",
        'fault_tolerance.allocation="exact"',
        "fault_tolerance.allocation = exact: needs load statistics",
    ),
    "a plan of checkpoints": (
        "crash-recovery",
        'fault_tolerance.allocation={ plan = "none.json" }',
        "fault_tolerance.allocation: ",
    ),
    "a series": (
        "mm1",
        'workload.arrivals.rate={ series = "none.csv", step = "1 s" }',
        "workload.arrivals.rate.series",
    ),
    "a log": ("crash-recovery", 'failures.log="none.json"', "failures.log: "),
    "times": (
        "mm1",
        'operators.server.service={ distribution = "deterministic", value = "100 d" }',
        "operators.server.service.value = 100 d: all services of server",
    ),
}


@pytest.mark.parametrize(("base", "setting", "error"), REFUSED.values(), ids=list(REFUSED))
def test_validate_refuses_what_run_refuses_with_the_same_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], base: str, setting: str, error: str
) -> None:
    validated, ran = answers(monkeypatch, capsys, base, "--set", setting)
    assert validated == ran
    assert not validated[0]
    assert validated[1].startswith(f"error: {error}")


SCALED = (
    "let one record stand for 100 (resolution = 100: with 100, recoveries of a Flink job of 8,000 records/s on 24 "
    "tasks took 14.8 % longer)"
)


@pytest.mark.parametrize(("steps", "said"), [(100_000, SCALED), (1000, "")])
def test_a_run_that_is_too_large_is_refused_with_a_scale_down_that_fits(capsys, steps: int, said: str) -> None:  # type: ignore[no-untyped-def]
    # 3,600,000 steps: 36 times too many, or 3,600 times, of which little would be left.
    with pytest.raises(SystemExit) as left:
        cli.main(["validate", "mm1", "--set", f"limits.steps={steps}"])
    err = " ".join(capsys.readouterr().err.split())
    assert left.value.code == 2
    assert said in err if said else "let one record stand" not in err


@pytest.mark.parametrize(
    ("base", "settings", "said"),
    [
        ("mm1", ("resolution=10", "limits.steps=36000"), "let one record stand for 100 (resolution = 100: "),
        ("mm1", ("workload.arrivals.batch=25", "limits.steps=100000"), ""),  # 100 does not divide it
        ("windowed-join", ("limits.steps=10000",), ""),  # windows over keys that are no ids of NEXMark
    ],
)
def test_the_resolution_that_is_advised_is_one_that_the_job_allows(
    capsys: pytest.CaptureFixture[str], base: str, settings: tuple[str, ...], said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["validate", base, *(part for one in settings for part in ("--set", one))])
    err = " ".join(capsys.readouterr().err.split())
    assert left.value.code == 2
    assert "limits.steps = " in err
    assert said in err if said else "let one record stand" not in err
