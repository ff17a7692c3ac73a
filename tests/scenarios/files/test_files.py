"""Scenario files: what cannot be read is a fault with its line, and writing and reading is the identity."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.errors import InputError
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.scenario import missing_files, read_scenario, scenario_text, write_scenario

TEXT = """\
format = 1
duration = "1 min"
[workload.a]
rate = "5 /s"
[operators.a]
kind = "source"
[operators.b]
kind = "sink"
inputs = { a = "shuffle" }
[hosts.worker]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def fault_of(path: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        read_scenario(path, overrides)
    (fault,) = caught.value.faults
    return str(fault)


def test_a_file_becomes_a_scenario_and_the_folder_its_paths_start_from(file: Path) -> None:
    loaded = read_scenario(file)
    assert loaded.scenario.duration_s == 60
    assert loaded.folder == file.parent


def test_settings_are_put_in_before_the_file_is_checked(file: Path) -> None:
    loaded = read_scenario(file, ["duration=2 min", "workload.a.rate = 7 /s", "seed=9"])
    assert (loaded.scenario.duration_s, loaded.scenario.seed) == (120, 9)


def test_a_byte_order_mark_and_windows_line_ends_are_read(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert read_scenario(file).scenario.duration_s == 60


# content, what the fault says after the file's name
CONTENTS = [
    (b"duration = \n", ":1: is not TOML (invalid value)"),
    (b'a = 1\nb = "x\n', ":2: is not TOML ("),
    (b"a = 1\na = 2\n", "is not TOML (cannot overwrite a value"),
    (b'a = 1\nname = "\xff"\n', ":2: is not text in UTF-8"),
    (b"seed = " + b"9" * 5000, ": is not a scenario: a value in it is too large or too deep"),
    (b"a = " + b"[" * 5000, ": is not a scenario: a value in it is too large or too deep"),
    (b"#" * 10_000_001, ": is larger than 10 MB"),
    (b"\x00", ": is not TOML ("),
]


@pytest.mark.parametrize(("content", "says"), CONTENTS, ids=[says for _, says in CONTENTS])
def test_content_that_is_no_scenario_is_a_fault(file: Path, content: bytes, says: str) -> None:
    file.write_bytes(content)
    text = fault_of(file)
    assert text.startswith(str(file))
    assert says in text


def test_an_empty_file_misses_its_keys(file: Path) -> None:
    file.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_scenario(file)
    assert {fault.path for fault in caught.value.faults} == {"duration", "workload", "operators", "hosts"}


def test_a_file_that_is_not_there_or_is_a_directory_is_a_fault(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "no.toml").endswith("cannot be read (no such file or directory)")
    assert fault_of(tmp_path).endswith("is a directory (name a file)")
    assert "cannot be read" in fault_of(Path("a\0b"))


@pytest.mark.parametrize("setting", ["duration", "=3", " = 3"])
def test_a_setting_needs_a_path_and_a_value(file: Path, setting: str) -> None:
    assert "must be PATH=VALUE" in fault_of(file, setting)


def test_files_that_a_scenario_names_are_looked_for_beside_it(file: Path) -> None:
    file.write_text(TEXT.replace('"5 /s"', '{ series = "s.csv", step = "1 s" }'), encoding="utf-8")
    (fault,) = missing_files(read_scenario(file))
    assert (fault.path, fault.value) == ("workload.a.rate.series", "s.csv")
    (file.parent / "s.csv").write_text("value\n1\n", encoding="utf-8")
    assert list(missing_files(read_scenario(file))) == []


def test_a_written_scenario_reads_as_the_same(file: Path, tmp_path: Path) -> None:
    scenario = read_scenario(file).scenario
    target = tmp_path / "new.toml"
    write_scenario(scenario, target)
    assert read_scenario(target).scenario == scenario
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.toml", "x.toml"]


def test_nothing_is_overwritten_without_being_told(file: Path) -> None:
    scenario = read_scenario(file, ["seed=5"]).scenario
    with pytest.raises(InputError, match="--force overwrites it"):
        write_scenario(scenario, file)
    assert read_scenario(file).scenario.seed == 1
    write_scenario(scenario, file, force=True)
    assert read_scenario(file).scenario.seed == 5


def test_a_file_that_cannot_be_written_leaves_nothing_behind(file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder does not exist"):
        write_scenario(read_scenario(file).scenario, tmp_path / "none" / "x.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["x.toml"]


positive = st.floats(1e-3, 1e6, allow_nan=False)
counts = st.integers(1, 1000)


def from_zero(most: float) -> st.SearchStrategy[float]:
    """Draw quantities that a file may have: it refuses those next to zero."""
    return st.one_of(st.just(0.0), st.floats(1e-3, most))


words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=20)


def law(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {key: value if hasattr(value, "map") else st.just(value) for key, value in fields.items()}
    )


services = st.one_of(
    law(distribution="deterministic", value_s=positive),
    law(distribution="exponential", mean_s=positive),
    law(distribution="gamma", mean_s=positive, shape=st.floats(0.001, 1e6)),
    law(distribution="erlang", mean_s=positive, shape=counts),
    law(distribution="lognormal", mean_s=positive, cv=st.floats(0.001, 100)),
    law(distribution="uniform", low_s=from_zero(1), high_s=st.floats(2, 3)),
)
rates = st.one_of(
    law(constant_per_s=from_zero(1e9)),
    law(ramp=law(start_per_s=positive, end_per_s=positive, over_s=positive)),
    st.lists(positive, min_size=1, max_size=3).map(
        lambda found: {"steps": [{"at_s": float(k), "rate_per_s": rate} for k, rate in enumerate(found)]}
    ),
    law(series="s.csv", step_s=positive, scale=positive),
    law(profile="p", span_s=positive, mean_per_s=positive),
)
keys = st.one_of(law(distribution="uniform", count=counts), law(distribution="zipf", count=counts, exponent=positive))
states = st.one_of(
    st.none(),
    law(model="per-key", entry_bytes=positive),
    law(model="fixed", group_bytes=from_zero(1e9)),
    law(model="window", entry_bytes=positive, length_s=positive),
)
batches = law(distribution="geometric", mean=st.floats(1, 99))
failures = st.one_of(
    st.none(),
    law(model="exponential", mtbf_s=positive, repair_s=positive),
    law(model="schedule", at_s=st.lists(positive, min_size=1, max_size=3), repair_s=positive),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Valid scenarios with a source, a map, a keyed aggregate and a sink; quantities are any numbers."""
    duration = draw(st.floats(10, 1e6))
    arrivals = st.one_of(
        st.sampled_from(["poisson", "deterministic"]), law(distribution="gamma", shape=st.floats(0.001, 1e6))
    )
    tables = {
        "name": draw(words),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "duration_s": duration,
        "warmup_s": duration * draw(from_zero(0.9)),
        "replications": draw(counts),
        "workload": {"a": {"rate": draw(rates), "arrivals": draw(arrivals), "keys": draw(keys),
                           "tuple_bytes": draw(positive), "batch": draw(st.one_of(counts, batches))}},
        "operators": {
            "a": {"kind": "source"},
            "b": {"kind": "map", "inputs": {"a": draw(st.sampled_from(["shuffle", "broadcast", "key"]))},
                  "service": draw(services), "selectivity": draw(st.floats(0, 100)),
                  "takes": {"a": draw(st.floats(0, 1))},
                  "output": draw(st.one_of(st.none(), law(tuple_bytes=positive, keys=keys)))},
            "c": {"kind": "aggregate", "inputs": {"b": "key"}, "parallelism": draw(st.integers(1, 9)), "key_groups": 9,
                  "service": draw(services), "state": draw(states), "serialise_bytes_per_s": draw(positive)},
            "d": {"kind": "sink", "inputs": {"c": "shuffle"}},
        },
        "hosts": {"worker": {"count": draw(st.integers(2, 9)), "cpu": draw(st.sampled_from(["shared", "dedicated"])),
                             "speed": draw(positive), "memory_bytes": draw(positive), "failures": draw(failures),
                             "price_per_s": draw(from_zero(9)), "network_bytes_per_s": draw(positive)}},
        "network": {"latency_s": draw(from_zero(1))},
        "placement": draw(st.sampled_from([{}, {"operators": {"c": "worker"}, "tasks": {"c-0": "worker-1"}}])),
        "fault_tolerance": {"method": draw(st.sampled_from(["none", "checkpoint"])), "interval_s": draw(positive),
                            "allocation": draw(st.sampled_from(["even", "exact", "plan.json", {"plan": "a plan"}])),
                            "staggered": draw(st.booleans())},
        "events": draw(st.sampled_from([{}, {"a crash!": {"kind": "host-failure", "at_s": 5.0, "host": "worker-1"}}])),
        "targets": draw(st.one_of(st.none(), law(latency_p99_s=positive, lost=counts, utilisation=st.floats(0, 1)))),
        "sweep": draw(st.sampled_from([{}, {"seed": [1, 2]}, {"hosts.worker.speed": [1.5]}])),
    }  # fmt: skip
    return scenario_from(tables, from_file=False)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(scenarios())
def test_a_scenario_written_with_units_reads_as_itself(scenario: Scenario) -> None:
    text = scenario_text(scenario)
    assert scenario_from(tomllib.loads(text)) == scenario
    assert scenario_text(scenario_from(tomllib.loads(text))) == text
