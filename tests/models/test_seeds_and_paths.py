"""Seeds have one range, and paths in files are refused by the name of their key before any file is looked for."""

from __future__ import annotations

import numpy as np
import pytest

from models.errors import InputError
from models.fleet.rules import shaped_from
from models.queries.description import Templates
from models.reliability.description import availability_from
from models.scenario.reading import scenario_with
from models.scenario.scenario import Scenario
from models.schema_types import MOST_SEED, SEED_RULE, seed_faults
from optimizer.common.solvers import checked_limits, solver_seed
from scenarios.files.scenario import read_scenario, resolve

OUTSIDE = (-1, 2**63, 2**64, 10**400)
BAD_NAMES = {
    "a\0b": "must not hold a null character",
    "\ud800": "must not hold half of a surrogate pair",
    "x" * 300: "must have names of at most 255 bytes",
    "x/" * 3000: "and 4000 characters together",
}
RATE = "workload.sentences.rate"
PATHS_OF_SCENARIOS = {
    f"{RATE}.series": (RATE, lambda name: {"series": name, "step": "1 s"}),
    f"{RATE}.profile": (RATE, lambda name: {"profile": name, "span": "1 s", "mean": "1 /s"}),
    "failures.log": ("failures", lambda name: {"log": name}),
    "placement.plan": ("placement.plan", lambda name: name),
    "fault_tolerance.allocation.plan": ("fault_tolerance.allocation", lambda name: {"plan": name}),
    "fault_tolerance.replica_plan.plan": ("fault_tolerance.replica_plan", lambda name: {"plan": name}),
}


def scenario() -> Scenario:
    return read_scenario(resolve("word-count")).scenario


def refusal(make, *arguments) -> str:
    with pytest.raises(InputError) as raised:
        make(*arguments)
    assert len(raised.value.faults) == 1
    return str(raised.value)


@pytest.mark.parametrize("seed", [*OUTSIDE, True, 1.0, "1", None])
def test_what_is_no_seed_is_refused_under_the_name_it_was_given(seed):
    (fault,) = seed_faults("--seed", seed)
    assert (fault.path, fault.rule) == ("--seed", SEED_RULE)


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32, MOST_SEED, np.int64(MOST_SEED)])
def test_every_seed_below_two_to_the_63_is_taken_by_every_solver(seed):
    assert list(seed_faults("--seed", seed)) == []
    assert checked_limits(1.0, seed).faults == []
    assert 0 <= solver_seed(int(seed)) < 2**31


def test_solvers_keep_the_seeds_that_they_take_themselves():
    assert [solver_seed(seed) for seed in (0, 1, 2**31 - 1)] == [0, 1, 2**31 - 1]


@pytest.mark.parametrize("seed", OUTSIDE)
def test_keys_for_seeds_have_the_same_range_and_say_it_exactly(seed):
    rule = "must be at least 0" if seed < 0 else "must be at most 2^63 - 1"
    assert refusal(scenario_with, scenario(), {"seed": seed}).endswith(rule)
    assert rule in refusal(shaped_from, {"hosts": ["a"], "seed": seed})
    for kind in (Templates,):
        with pytest.raises(ValueError, match="seed"):
            kind(seed=seed)
        assert kind(seed=MOST_SEED).seed == MOST_SEED


@pytest.mark.parametrize("key", PATHS_OF_SCENARIOS)
@pytest.mark.parametrize("name", BAD_NAMES, ids=["null", "surrogate", "long name", "long path"])
def test_a_path_that_no_file_can_have_is_refused_under_its_key(key, name):
    path, value = PATHS_OF_SCENARIOS[key]
    said = refusal(scenario_with, scenario(), {path: value(name)})
    assert said.startswith(f"{key} = ")
    assert BAD_NAMES[name] in said


@pytest.mark.parametrize("name", BAD_NAMES, ids=["null", "surrogate", "long name", "long path"])
def test_paths_of_other_files_are_refused_alike(name):
    queries = {"hosts": ["a"], "operators": {"o": ["a"]}, "queries": {"q": ["o"]}}
    said = refusal(availability_from, queries | {"times": {"log": name, "mttr": "1 h"}})
    assert said.startswith("times.log = ")
    assert BAD_NAMES[name] in said
    for key in ("log", "query_set"):
        said = refusal(shaped_from, {"hosts": ["a"], key: name})
        assert said.startswith(f"{key} = ")
        assert BAD_NAMES[name] in said


def test_names_with_odd_bytes_stay_possible():
    kept = scenario_with(scenario(), {"placement.plan": "a b/ü\n.json"})
    assert kept.placement.plan == "a b/ü\n.json"
