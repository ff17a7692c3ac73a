"""What a reader of a file gets to hear about it: every fault, with path, value, rule and hint, in plain words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from models.errors import InputError
from models.scenario.reading import raw_of, scenario_from, scenario_with, scenario_with_settings, split_path
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate
from models.schema_types import FrozenMap
from models.validation_messages import nearest, path_text

RAW: dict[str, Any] = {
    "format": 1,
    "duration": "10 min",
    "workload": {"words": {"rate": "100 /s"}},
    "operators": {
        "words": {"kind": "source"},
        "count": {
            "kind": "aggregate",
            "inputs": {"words": "key"},
            "parallelism": 2,
            "key_groups": 8,
            "service": {"distribution": "exponential", "mean": "1 ms"},
        },
        "out": {"kind": "sink", "inputs": {"count": "shuffle"}},
    },
    "hosts": {"worker": {"count": 2}},
}
MISSING = object()


def changed(path: str, value: object) -> dict[str, Any]:
    raw = copy.deepcopy(RAW)
    here = raw
    *above, last = path.split("/")
    for step in above:
        here = here.setdefault(step, {})
    if value is MISSING:
        del here[last]
    else:
        here[last] = value
    return raw


def faults_of(raw: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        scenario_from(raw)
    return [str(fault) for fault in caught.value.faults]


UNIT = "must be a quantity with a unit, not a bare number"

# where (with / between keys), what stands there, the one fault
SHAPES = [
    ("operators/count/parallelism", 0, "operators.count.parallelism = 0: must be at least 1"),
    ("operators/count/parallelism", "2", "operators.count.parallelism = 2: must be a whole number"),
    ("operators/count/parallelism", 2.5, "operators.count.parallelism = 2.5: must be a whole number"),
    ("operators/count/parallelism", True, "operators.count.parallelism = true: must be a whole number"),
    ("operators/count/selectivity", "1", "operators.count.selectivity = 1: must be a number, or a table"),
    ("operators/count/selectivity", float("nan"), "operators.count.selectivity = nan: must be finite"),
    ("operators/count/selectivity", -1.0, "operators.count.selectivity = -1.0: must be at least 0"),
    ("operators/count/paralelism", 2, "operators.count.paralelism: unknown key (did you mean parallelism?)"),
    (
        "operators/count/service/mean",
        3,
        f'operators.count.service.mean = 3: {UNIT} (write it with its unit, as in "5 s")',
    ),
    ("operators/count/service/mean", "0 ms", "operators.count.service.mean = 0 ms: must be longer than zero"),
    ("operators/count/service/mean", MISSING, 'operators.count.service.mean: is missing (write it as in mean = "5 s")'),
    ("operators/count/service/distribution", MISSING, "operators.count.service.distribution: is missing"),
    (
        "operators/count/service/distribution",
        "exponentil",
        "operators.count.service.distribution = exponentil: must be deterministic, exponential, gamma, erlang, "
        "lognormal or uniform (did you mean exponential?)",
    ),
    (
        "operators/count/service/mean",
        {"value": "3 s"},
        "operators.count.service.mean = {'value': '3 s'}: must be a quantity with a unit, not a table "
        '(write it with its unit, as in "5 s")',
    ),
    ("operators/count/service", 3, "operators.count.service = 3: must be a table"),
    ("operators/count/inputs", ["words"], "operators.count.inputs = ['words']: must be a table"),
    (
        "operators/count/inputs/words",
        "hash",
        "operators.count.inputs.words = hash: must be key, shuffle, forward or broadcast",
    ),
    (
        "operators/count/state",
        {"model": "per-key"},
        'operators.count.state.bytes: is missing (write it as in bytes = "8 GB")',
    ),
    ("workload/words/rate", 100, f'workload.words.rate = 100: {UNIT} (write it with its unit, as in "100 /s")'),
    (
        "workload/words/rate",
        "100 s",
        "workload.words.rate = 100 s: 's' has another dimension than '1 / second' "
        '(write it with its unit, as in "100 /s")',
    ),
    (
        "workload/words/rate",
        True,
        'workload.words.rate = true: must be a rate such as "100 /s" or a table with steps, ramp, series or profile',
    ),
    (
        "workload/words/rate",
        {},
        'workload.words.rate = {}: must be a rate such as "100 /s" or a table with steps, ramp, series or profile',
    ),
    ("workload/words/rate", {"steps": []}, "workload.words.rate.steps = []: must have at least 1 entry"),
    (
        "workload/words/rate",
        {"steps": [{"at": "0 s", "rat": "1 /s", "rate": "1 /s"}]},
        "workload.words.rate.steps[0].rat: unknown key (did you mean rate?)",
    ),
    (
        "workload/words/rate",
        {"series": "x.csv"},
        'workload.words.rate.step: is missing (write it as in step = "5 s")',
    ),
    (
        "workload/words/arrivals",
        "poison",
        "workload.words.arrivals = poison: must be deterministic or poisson, or a table",
    ),
    ("workload/words/arrivals", {"distribution": "gamma"}, "workload.words.arrivals.shape: is missing"),
    ("workload/words/batch", 0, "workload.words.batch = 0: must be at least 1"),
    ("workload/words/batch", "x", "workload.words.batch = x: must be a whole number, or a table"),
    ("workload/words/batch", {"mean": 0.5}, "workload.words.batch.mean = 0.5: must be at least 1"),
    (
        "workload/words/tuple",
        "1 Mb",
        "workload.words.tuple = 1 Mb: 'Mb' is barn, an area: write B for bytes or bit for bits "
        '(write it with its unit, as in "8 GB")',
    ),
    ("hosts/worker/staggered", 1, "hosts.worker.staggered: unknown key"),
    ("fault_tolerance/staggered", "yes", "fault_tolerance.staggered = yes: must be true or false"),
    ("fault_tolerance/interval_s", 3, "fault_tolerance.interval_s: unknown key (did you mean interval?)"),
    (
        "fault_tolerance/allocation",
        "odd",
        "fault_tolerance.allocation = odd: "
        "must be baseline, even, sensitive-first, exact or expected-usable, or a table",
    ),
    ("network", 3, "network = 3: must be a table"),
    ("duration", MISSING, 'duration: is missing (write it as in duration = "5 s")'),
    (
        "duration",
        "1 h 30 min",
        'duration = 1 h 30 min: must be one number followed by one unit (write it with its unit, as in "5 s")',
    ),
    ("duration", "40000 d", "duration = 40000 d: must be at most 36500 d"),
    ("duration", "1e400 s", 'duration = 1e400 s: must be finite (write it with its unit, as in "5 s")'),
    ("seed", -1, "seed = -1: must be at least 0"),
    ("seed", 2**63, f"seed = {2**63}: must be at most 2^63 - 1"),
    ("format", 2, "format = 2: is not a format known here: 1 is"),
    ("format", "1", "format = 1: is not a format known here: 1 is"),
    ("format", True, "format = true: is not a format known here: 1 is"),
    ("durations", "1 s", "durations: unknown key (did you mean duration?)"),
    ("sweep", {"seed": 3}, "sweep.seed = 3: must be a list"),
    ("sweep", {"seed": [1, "x"]}, "sweep.seed[1] = x: must be a whole number"),
    ("sweep", {"sed": [1]}, "sweep.sed[0] = 1: no such key (did you mean seed?)"),
    ("name", "x" * 201, f"name = {'x' * 38}...{'x' * 38}: must have at most 200 characters"),
]


@pytest.mark.parametrize(("path", "value", "fault"), SHAPES)
def test_a_wrong_shape_is_one_fault_with_path_value_rule_and_hint(path: str, value: object, fault: str) -> None:
    found = faults_of(changed(path, value))
    if fault.endswith("unknown key"):
        assert len(found) == 1
        assert found[0].startswith(fault)
    else:
        assert found == [fault]


@pytest.mark.parametrize("raw", [3, "x", None, [], [("duration", "1 s")]])
def test_what_is_no_table_is_refused(raw: object) -> None:
    assert faults_of(raw)[0].endswith("must be a table")


def test_faults_of_shape_and_of_reference_come_together() -> None:
    raw = changed("operators/count/parallelism", 0)
    raw["operators"]["out"]["inputs"] = {"cuont": "shuffle"}
    raw["hosts"]["worker"]["cores"] = "two"
    raw["warmup"] = "1 h"
    raw["events"] = {"crash": {"kind": "host-failure", "at": "1 min", "host": "wrker-1"}}
    assert faults_of(raw) == [
        "operators.count.parallelism = 0: must be at least 1",
        "hosts.worker.cores = two: must be a whole number",
        "warmup = 1 h: must be shorter than the duration of 10 min",
        "operators.out.inputs.cuont: there is no operator of this name (did you mean count?)",
        "events.crash.host = wrker-1: there is no host of this name",
    ]


def test_what_could_not_be_read_is_not_called_missing_as_well() -> None:
    raw = changed("operators/words/kind", "sauce")
    assert faults_of(raw) == ["operators.words.kind = sauce: must be source, map, filter, aggregate, join or sink"]


def test_no_word_of_the_checking_library_reaches_the_user() -> None:
    raw = changed("hosts/worker/failures", {"model": "schedule", "at": "5 s", "repair": 3, "x": [1]})
    raw["placement"] = {"tasks": {"count-0": 3}}
    raw["operators"]["count"]["takes"] = {"words": 2}
    raw["limits"] = {"steps": 10**12}
    text = "\n".join(faults_of(raw))
    for word in ("Input should", "valid", "pydantic", "constrained", "union", "literal", "Extra", "tag"):
        assert word not in text


def test_hostile_names_are_quoted_in_paths() -> None:
    (fault,) = faults_of(changed("x\x1b[31m", 1))
    assert "\x1b" not in fault
    assert fault.startswith('"x\\x1b[31m": unknown key')


def test_a_number_of_thousands_of_digits_is_reported_and_not_written_out() -> None:
    (fault,) = faults_of(changed("seed", 16**9000))
    assert fault.startswith("seed = a number with thousands of digits: must be at most")


def test_bare_numbers_are_si_units_in_code_and_errors_in_files() -> None:
    raw = changed("duration", MISSING)
    raw["duration_s"] = 90
    assert scenario_from(raw, from_file=False).duration_s == 90
    with pytest.raises(InputError):
        scenario_from(raw)


def test_a_scenario_survives_the_way_to_tables_and_back() -> None:
    scenario = scenario_from(RAW)
    assert raw_of(scenario) == RAW
    assert scenario_from(raw_of(scenario)) == scenario


def test_descriptions_are_read_only() -> None:
    scenario = scenario_from(RAW)
    assert isinstance(scenario.operators, FrozenMap)
    with pytest.raises(TypeError, match="read-only"):
        scenario.operators["x"] = scenario.operators["out"]  # type: ignore[index]


# path, value, what the scenario then says
CHANGES = [
    ("duration", "1 min", lambda s: s.duration_s == 60),
    ("operators.count.service.mean", "2 ms", lambda s: s.operators["count"].service.mean_s == 0.002),
    ("targets.latency_p99", "1 s", lambda s: s.targets.latency_p99_s == 1),
    ('placement.tasks."count-0"', "worker-1", lambda s: s.placement.tasks == {"count-0": "worker-1"}),
    ("workload.words.rate", "7 /s", lambda s: s.workload["words"].rate == ConstantRate(constant=7)),
    ("hosts.spare", {"count": 3}, lambda s: s.hosts["spare"].count == 3),
]


@pytest.mark.parametrize(("path", "value", "holds"), CHANGES)
def test_a_dotted_path_changes_one_value(path: str, value: object, holds: Any) -> None:
    assert holds(scenario_with(scenario_from(RAW), {path: value}))


WRONG_CHANGES = [
    ("operators.count.servic.mean", "operators.count.servic: no such key (did you mean service?)"),
    ("operatrs.count", "operatrs: no such key (did you mean operators?)"),
    ("operators.cnt.parallelism", "operators.cnt: no such key (did you mean count?)"),
    ("duration.seconds", "duration.seconds: no such key"),
    ("", '"": no such key (a key has a name, as in duration)'),
    ("operators..x", "operators..x: no such key"),
]


@pytest.mark.parametrize(("path", "start"), WRONG_CHANGES)
def test_a_path_that_no_scenario_has_names_the_nearest(path: str, start: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_with(scenario_from(RAW), {path: 1})
    assert str(caught.value).startswith(start)


def test_keys_of_a_table_that_is_not_there_have_one_fault_together() -> None:
    changes = {f"events.crash.{key}": 1 for key in ("kind", "at", "host")} | {"durations": "1 s"}
    with pytest.raises(InputError) as caught:
        scenario_with(scenario_from(RAW | {"events": {}}), changes)
    assert [str(fault) for fault in caught.value.faults] == [
        "events.crash: no such key (events.crash={ ... } with all of its keys would add it)",
        "durations: no such key (did you mean duration?)",
    ]


def test_settings_of_a_command_line_are_toml_values_or_text() -> None:
    settings = {"duration": "2 min", "replications": "3", "hosts.worker.cpu": '"shared"', "targets": "{lost = 0}"}
    scenario = scenario_with_settings(RAW, settings)
    assert (scenario.duration_s, scenario.replications, scenario.hosts["worker"].cpu) == (120, 3, "shared")
    assert scenario.targets is not None
    assert scenario.targets.lost == 0


def test_a_setting_cannot_smuggle_in_a_second_key() -> None:
    with pytest.raises(InputError):
        scenario_with_settings(RAW, {"replications": "3\nseed = 9"})


def test_wrong_paths_and_wrong_values_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        scenario_with_settings(RAW, {"a.b": "3", "duration": "5"})
    assert [fault.path for fault in caught.value.faults] == ["a", "duration"]


def test_paths_read_back_as_they_are_written() -> None:
    steps = ("sweep", "a.b", "c d")
    assert split_path(path_text(steps)) == list(steps)


def test_the_nearest_key_does_not_depend_on_anything_but_the_file() -> None:
    assert nearest("x", ["b", "a"]) == "known here: b, a"
    assert nearest("x", []) == ""


def test_every_key_of_the_schema_has_a_meaning() -> None:
    schema = Scenario.model_json_schema(by_alias=True)
    tables = [schema, *schema["$defs"].values()]
    tags = {"kind", "model", "distribution"}
    without = [
        f"{table['title']}.{key}"
        for table in tables
        for key, value in table.get("properties", {}).items()
        if "description" not in value and key not in tags
    ]
    assert without == []
