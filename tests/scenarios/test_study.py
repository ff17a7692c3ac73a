"""The main job on a small profile: plans, runs, files and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from profiled import scenario, small_profile

from models.errors import InputError
from scenarios import study_store
from scenarios.planning import METHODS
from scenarios.planning_files import read_plan, read_problem
from scenarios.profiles import read_profile
from scenarios.run_store import read_run
from scenarios.study import Study, key_groups_of, study


@pytest.fixture(scope="module")
def found() -> Study:
    return study(scenario(), small_profile(), workers=1, talk=lambda text, share: None)


def test_every_method_has_a_run_and_equal_plans_share_it(found: Study) -> None:
    assert tuple(found.runs) == METHODS
    plans = {one.method: one.holders for one in found.planned}
    for a in METHODS:
        for b in METHODS:
            assert (plans[a] == plans[b]) == (found.runs[a] is found.runs[b])


def test_no_run_loses_or_duplicates_a_tuple(found: Study) -> None:
    for result in found.runs.values():
        assert set(result.summary["guarantee"].values()) == {0}


def test_the_directory_holds_what_can_be_read_again(found: Study, tmp_path: Path) -> None:
    folder = study_store.write_study(tmp_path / "study", found, None, force=False, command="holdfast study")
    assert read_profile(folder / "profile").selectivity == found.profile.selectivity
    problem = read_problem(folder / "problem.json")
    for one in found.planned:
        plan = read_plan(folder / "plans" / f"{one.method}.json")
        assert list(plan.assignment) == list(one.plan.assignment)
        assert problem.objective(plan.assignment) == pytest.approx(one.plan.objective)
    assert read_run(folder / "run").summary["guarantee"] == found.runs["exact"].summary["guarantee"]
    findings = json.loads((folder / "study.json").read_text())
    assert list(findings["methods"]) == list(METHODS)
    page = (folder / "report.html").read_text()
    assert "worker-1" in page
    assert "sensitive-first" in page


def test_two_studies_are_the_same_bytes(found: Study, tmp_path: Path) -> None:
    again = study(scenario(), small_profile(), workers=2, talk=lambda text, share: None)
    first = study_store.write_study(tmp_path / "a", found, None, force=False, command="x")
    second = study_store.write_study(tmp_path / "b", again, None, force=False, command="x")
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for name in names:
        if name.parts[0] != "plans":  # a plan says how long its solver took
            assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_an_earlier_study_is_replaced_only_with_force(found: Study, tmp_path: Path) -> None:
    target = tmp_path / "study"
    study_store.write_study(target, found, None, force=False, command="x")
    with pytest.raises(InputError, match="not overwritten"):
        study_store.check_target(target, force=False)
    study_store.check_target(target, force=True)
    study_store.write_study(target, found, None, force=True, command="y")


def test_force_does_not_empty_a_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        study_store.check_target(tmp_path, force=True)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_hostile_names_stay_text_on_the_page(tmp_path: Path) -> None:
    hostile = scenario(name="</script><script>alert(1)</script>")
    made = study(hostile, small_profile(), workers=1, talk=lambda text, share: None)
    folder = study_store.write_study(tmp_path / "study", made, None, force=False, command="x")
    assert "<script>alert(1)" not in (folder / "report.html").read_text()


def test_key_groups_come_from_the_operators_that_read_the_profile() -> None:
    assert key_groups_of(scenario()) == 4
    with pytest.raises(InputError, match="exactly one source"):
        key_groups_of(scenario().model_copy(update={"workload": {}}))
