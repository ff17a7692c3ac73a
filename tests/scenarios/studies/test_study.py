"""The main job on a small profile: plans, designs, one run in full, files and page."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from profiled import GROUPS, raw_scenario, scenario, small_profile
from runs_inside import inside

from analysis.documents import to_document
from analysis.report import text
from holdfast.study_tables import designs_tables, gains_table
from models.correlation import pearson
from models.errors import InputError
from models.records.profile import Profile
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.profiles import read_profile, write_profile
from scenarios.files.scenario import LoadedScenario, read_scenario
from scenarios.pages.study import study_page
from scenarios.planning.checkpoints import METHODS
from scenarios.planning.files import read_problem
from scenarios.planning.plan_files import read_checkpoint_plan
from scenarios.runs.inputs import inputs_of
from scenarios.runs.store import read_run
from scenarios.studies import store as study_store
from scenarios.studies.findings import MOVES, PAUSE, differences, findings, replications_of
from scenarios.studies.study import (
    Study,
    begin_again,
    check,
    in_place,
    key_groups_of,
    place_of,
    profile_in,
    profiled_source,
    study,
)
from scenarios.sweeps.store import SweepStore, digest
from scenarios.sweeps.sweep import read_sweep

EXAMPLES = Path(__file__).parents[3] / "examples"
ELASTIC = {"policy": "threshold", "high": 0.2, "low": 0.1, "period": "2 s", "rest": "2 s", "protocol": "cpal"}
SWEEP = {"fault_tolerance.allocation": ["even", "exact"], "elasticity.protocol": ["direct", "cpal"]}


def moving(**changes: object) -> Scenario:
    """Key groups that move by themselves, four designs, two runs each."""
    raw = raw_scenario(replications=2, elasticity=ELASTIC, sweep=SWEEP, events={})
    return scenario_from(raw | changes)


def made_in(out: Path, asked: Scenario, workers: int = 1) -> Study:
    place = place_of(out)
    loaded = in_place(LoadedScenario(asked, out.parent), place)
    if not (place / "profile").exists():
        write_profile(small_profile(), place / "profile")
    with nullcontext() if workers > 1 else inside():
        return study(loaded, read_profile(place / "profile"), workers=workers, on_progress=lambda text, share: None)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made_in(tmp_path_factory.mktemp("study") / "out", moving())


@pytest.fixture
def kept(found: Study, tmp_path: Path) -> Study:
    """The study once more, from a place of its own: nothing is simulated but the run in full."""
    shutil.copytree(found.sweep.directory.parent, tmp_path / "again.unfinished")
    return made_in(tmp_path / "again", moving())


def written(result: Study, out: Path) -> Path:
    return study_store.write_study(out, result, force=False, command="holdfast study")


def test_every_design_has_a_summary_of_each_of_its_runs(found: Study) -> None:
    assert [(one.label, one.allocation, one.protocol) for one in found.designs] == [
        (f"{allocation}, {protocol}", allocation, protocol)
        for allocation in ("even", "exact")
        for protocol in ("direct", "cpal")
    ]
    for design in found.designs:
        assert [one.replication for one in design.runs] == [0, 1]
        used = {move.protocol for one in design.runs for move in one.summary.migrations}
        assert used <= {"direct", design.protocol}
        for one in design.runs:
            assert set(one.summary.guarantee.counts) == {0}
    assert any(one.summary.migrations for design in found.designs for one in design.runs)


def test_the_run_in_full_is_that_of_the_design_of_the_file(found: Study) -> None:
    summary = json.loads(json.dumps(found.run.summary))
    same = [one for one in found.designs if (one.allocation, one.protocol) == ("exact", "cpal")]
    assert summary == to_document(same[0].runs[0].summary)
    assert found.design_of("exact") is same[0]
    assert found.design_of("baseline") is None


def test_findings_are_the_means_of_the_runs_and_differences_are_taken_in_pairs(found: Study) -> None:
    document = findings(found)
    direct, cpal = found.designs[2:]
    for design, entry in zip(found.designs, document["designs"], strict=True):
        moves = [len(one.summary.migrations) for one in design.runs]
        assert entry["measures"][MOVES]["mean"] == sum(moves) / 2
    one = differences(found, direct, cpal)[PAUSE]
    pauses = [[replications_of(design)[run][PAUSE] for run in (0, 1)] for design in (direct, cpal)]
    assert one.paired
    assert one.difference.mean == pytest.approx(sum(b - a for a, b in zip(*pauses, strict=True)) / 2)
    assert document["designs"][0]["measures"][MOVES]["difference"] is None


def test_the_page_compares_the_designs(found: Study) -> None:
    inputs = inputs_of(
        found.scenario, Path(), profiles={profiled_source(found.scenario): found.profile}, checkpoint_hosts={}
    )
    shown = study_page(found, inputs)
    sections = {one.name: one for one in shown.sections if one is not None}
    labels = [row[0] for row in sections["designs"].tables[0].rows]
    assert labels == [f"{number} {one.label}" for number, one in enumerate(found.designs)]
    assert len(sections["allocation"].tables[0].rows) == len(found.planned)
    assert {"decisions", "migrations"} <= sections.keys()
    first, chosen = found.designs[0], found.design_of(found.method)
    assert chosen is not None and chosen is not first
    means = differences(found, first, chosen)[PAUSE]
    (pause,) = (fact for fact in shown.headline if fact.label == "mean pause of a move")
    assert pause.value == text.seconds(means.second.mean)
    assert pause.note.startswith(f"{first.label}: {text.seconds(means.first.mean)}")
    assert [(fact.label, fact.value) for fact in shown.facts[:2]] == [
        ("compared", "4 designs, 2 runs each"),
        ("shown in full", "exact, cpal, first run"),
    ]
    assert pause.good is {"lower": True, "higher": False}.get(means.shown)


def test_the_directory_holds_what_can_be_read_again(kept: Study, tmp_path: Path) -> None:
    folder = written(kept, tmp_path / "again")
    assert not (tmp_path / "again.unfinished").exists()
    assert read_profile(folder / "profile").selectivity == kept.profile.selectivity
    problem = read_problem(folder / "problem.json")
    for one in kept.planned:
        plan = read_checkpoint_plan(folder / "plans" / f"{one.method}.json")
        assert list(plan.assignment) == list(one.plan.assignment)
        assert problem.objective(plan.assignment) == pytest.approx(one.plan.objective)
    assert read_run(folder / "run").summary["guarantee"] == kept.run.summary["guarantee"]
    assert 'profile = "../profile"' in (folder / "run" / "scenario.toml").read_text()
    document = json.loads((folder / "study.json").read_text())
    assert list(document["methods"]) == list(METHODS)
    assert read_sweep(folder / "sweep").digest == document["digest"]
    page = (folder / "report.html").read_text()
    assert "worker-1" in page
    assert "sensitive-first" in page


def test_what_was_killed_goes_on_and_what_is_done_is_not_done_again(
    found: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "again.unfinished"
    shutil.copytree(found.sweep.directory.parent, place)
    chunks = sorted((place / "sweep" / "runs").iterdir())
    chunks[0].unlink()
    left = {path.name: path.read_bytes() for path in chunks[1:]}
    result = made_in(tmp_path / "again", moving())

    def killed(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(study_store, "render_page", killed)
        with pytest.raises(KeyboardInterrupt):
            written(result, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert left == {name: (place / "sweep" / "runs" / name).read_bytes() for name in left}
    assert result.sweep.digest == found.sweep.digest
    assert findings(result) == findings(found)


def test_two_studies_have_the_same_bytes_for_any_number_of_workers(kept: Study, found: Study, tmp_path: Path) -> None:
    first = written(kept, tmp_path / "again")
    other = made_in(tmp_path / "two", moving(), workers=2)
    assert other.sweep.digest == found.sweep.digest
    second = written(other, tmp_path / "two")
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    for name in names:
        if name.parts[0] not in ("plans", "sweep"):  # they say how long something took
            assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_an_earlier_study_is_replaced_only_with_force(kept: Study, tmp_path: Path) -> None:
    target = tmp_path / "again"
    shutil.copytree(kept.sweep.directory.parent, tmp_path / "spare")
    written(kept, target)
    with pytest.raises(InputError, match="not overwritten"):
        study_store.check_target(target, force=False)
    study_store.check_target(target, force=True)
    shutil.copytree(tmp_path / "spare", tmp_path / "again.unfinished")
    study_store.write_study(target, kept, force=True, command="y")
    assert "y" in (target / "report.html").read_text()


def test_force_does_not_empty_a_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        study_store.check_target(tmp_path, force=True)
    (tmp_path / "out.unfinished").mkdir()
    (tmp_path / "out.unfinished" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"thesis\.txt: must be what is left of a study"):
        place_of(tmp_path / "out")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_bad_input_of_the_profile_leaves_no_empty_place_behind(tmp_path: Path) -> None:
    def refused() -> NoReturn:
        raise InputError.at("ingest.copies", 0, "must be at least 1")

    place = place_of(tmp_path / "out")
    with pytest.raises(InputError, match=r"ingest\.copies"):
        profile_in(place, 8, 0, refused)
    assert not place.exists()


def test_runs_of_a_plain_sweep_have_no_summary_and_are_made_again(found: Study, tmp_path: Path) -> None:
    shutil.copytree(found.sweep.directory, tmp_path / "sweep")
    store, plan = SweepStore(tmp_path / "sweep"), found.sweep.plan
    assert store.to_do(plan, summaries=True) == []
    runs = plan.chunks[0]
    rows = [replace(row, summary="") for row in found.sweep.rows if (row.point, row.replication) in runs]
    next((tmp_path / "sweep" / "runs").glob("chunk-00000000.parquet")).unlink()
    assert store.commit(0, rows)
    assert digest(store.rows(plan)) == found.sweep.digest
    assert store.to_do(plan) == []
    assert store.to_do(plan, summaries=True) == [0]


def test_runs_of_another_question_are_thrown_away_with_force_only(found: Study, tmp_path: Path) -> None:
    place = tmp_path / "again.unfinished"
    shutil.copytree(found.sweep.directory.parent, place)
    same, other = (in_place(LoadedScenario(one, tmp_path), place) for one in (moving(), moving(seed=9)))
    begin_again(same, force=False)
    with pytest.raises(
        InputError, match=r"again\.unfinished: holds the runs of an unfinished study of another scenario: seed"
    ):
        begin_again(other, force=False)
    assert (place / "sweep" / "plan.json").exists()
    begin_again(other, force=True)
    assert not (place / "sweep").exists()


def test_a_profile_of_another_kind_is_made_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> tuple[Profile, None]:
        calls.append(1)
        return small_profile(), None

    place = place_of(tmp_path / "out")
    for _ in range(2):  # the small profile is not that of the flights: it is never taken for it
        profile_in(place, GROUPS, 1, make)
    assert len(calls) == 2


def test_without_a_sweep_every_method_is_a_design_and_a_crash_stays(tmp_path: Path) -> None:
    hostile = scenario(name="</script><script>alert(1)</script>")
    result = made_in(tmp_path / "out", hostile)
    assert [one.allocation for one in result.designs] == list(METHODS)
    assert all(len(one.runs[0].summary.recoveries) == 1 for one in result.designs)
    page = (written(result, tmp_path / "out") / "report.html").read_text()
    assert "<script>alert(1)" not in page


def test_a_design_whose_runs_fail_leaves_the_others(tmp_path: Path) -> None:
    sweep = {"fault_tolerance.allocation": [{"plan": "plans/none.json"}, "even"]}
    result = made_in(tmp_path / "out", moving(sweep=sweep, replications=1))
    assert [(one.label, len(one.runs)) for one in result.designs] == [("none", 0), ("even", 1)]
    assert [(row.point, row.status) for row in result.sweep.failed] == [(0, "error")]
    assert "../plans/none.json" in result.sweep.failed[0].message
    document = json.loads((written(result, tmp_path / "out") / "study.json").read_text())
    assert document["failed"][0]["point"] == 0
    assert document["designs"][0]["measures"][MOVES]["mean"] is None
    assert document["designs"][1]["measures"][MOVES]["difference"]["mean"] is None
    assert designs_tables(result)
    assert gains_table(result) is None


def flights_profile() -> Profile:
    """A profile of the shape of the flights': days, and key groups that differ."""
    rng = np.random.default_rng(1)
    bins, groups = 8755, 32
    level = (1 + np.sin(np.arange(bins) * 2 * np.pi / 24)) * rng.uniform(0.5, 1.5, (groups, 1))
    every = rng.poisson(level)
    delayed, airborne = rng.binomial(every, 0.37), rng.binomial(every, 0.97)
    rows = int(every.sum())
    shares = {"all": 1.0, "delayed": int(delayed.sum()) / rows, "airborne": int(airborne.sum()) / rows}
    counts = np.stack((every, delayed, airborne))
    return replace(
        small_profile(), key_groups=groups, streams=tuple(shares), selectivity=shares, counts=counts,
        correlation=pearson(counts.reshape(-1, bins)), filters={},
        totals={"rows_read": rows, "rows_kept": rows, "rows_dropped": 0, "rows_quarantined": 0},
    )  # fmt: skip


LESS = {
    "airline.toml": ["workload.flights.rate.mean=400 /s", "elasticity.high=0.05", "elasticity.low=0.01"],
    "airline-crash.toml": ["workload.flights.rate.mean=100 /s", "events.crash.at=12 s"],
}


@pytest.mark.parametrize(
    "name",
    [  # the other one is the first command of the README
        pytest.param(name, marks=() if "crash" in name else pytest.mark.slow) for name in LESS
    ],
)
def test_the_examples_can_be_studied(tmp_path: Path, name: str) -> None:
    loaded = read_scenario(EXAMPLES / name, ["duration=32 s", "warmup=0 s", "replications=1", *LESS[name]])
    check(loaded.scenario)
    place = place_of(tmp_path / "out")
    profile = flights_profile()
    write_profile(profile, place / "profile")
    with inside():
        result = study(in_place(loaded, place), profile, workers=1, on_progress=lambda text, share: None)
    assert len(result.designs) == 4
    assert not result.sweep.failed
    summary = result.run.summary
    assert set(summary["guarantee"].values()) == {0}
    assert bool(summary["recoveries"]) == ("crash" in name)
    assert bool(summary["migrations"]) == ("crash" not in name)


def test_what_cannot_be_studied_is_said_before_the_work_begins() -> None:
    with pytest.raises(InputError, match="exactly one source"):
        key_groups_of(scenario().model_copy(update={"workload": {}}))
    with pytest.raises(InputError, match="not simulated yet"):
        check(scenario(fault_tolerance={"method": "checkpoint", "copies": 2}))


def test_key_groups_come_from_the_operators_that_read_the_profile() -> None:
    assert key_groups_of(scenario()) == 4
