"""A study on disk: profile, plans, the runs of all designs, one run in full, findings and report, all or nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from analysis.report import render_page
from scenarios.files.scenario import LoadedScenario, moved, scenario_text
from scenarios.files.write_once import check_place, new_directory
from scenarios.pages.study import study_page
from scenarios.planning.files import problem_to_dict
from scenarios.planning.plan_files import plan_to_dict
from scenarios.runs.inputs import inputs_of
from scenarios.runs.store import write_run
from scenarios.studies.findings import findings
from scenarios.studies.study import PROFILE, SWEEP, Study, profiled_source

FINDINGS, REPORT, PROBLEM = "study.json", "report.html", "problem.json"
RUN, PLANS = "run", "plans"


def is_study(directory: Path) -> bool:
    """Return whether everything in the directory is what `write_study` writes, the findings among it."""
    found = {entry.name for entry in directory.iterdir()}
    return FINDINGS in found and found <= {FINDINGS, REPORT, PROBLEM, PROFILE, SWEEP, RUN, PLANS}


def check_target(directory: Path | str, *, force: bool) -> None:
    """Raise InputError where `write_study` would, before the work is done."""
    check_place(Path(directory), force=force, ours=is_study)


def write_study(directory: Path | str, study: Study, *, force: bool, command: str) -> Path:
    """Return the directory, written whole or not at all; an earlier study is replaced only with `force`.

    What was kept while it was made, the profile and the runs, goes into it.
    """
    target = Path(directory)
    place = study.sweep.directory.parent
    profiles = {profiled_source(study.scenario): study.profile}
    inputs = inputs_of(study.scenario, place, profiles=profiles, checkpoint_hosts={})
    page = render_page(study_page(study, inputs, command=command))
    with new_directory(target, force=force, ours=is_study) as folder:
        for kept in (PROFILE, SWEEP):
            shutil.copytree(place / kept, folder / kept)
        write_run(
            folder / RUN,
            scenario_text(moved(LoadedScenario(study.scenario, folder), folder / RUN)),
            study.run.summary,
            study.run.records,
            metrics=study.run.metrics,
        )
        (folder / PLANS).mkdir()
        for one in study.planned:
            _json(folder / PLANS / f"{one.method}.json", plan_to_dict(one.plan, one.problem))
        _json(folder / PROBLEM, problem_to_dict(study.planned[0].problem))
        _json(folder / FINDINGS, findings(study))
        (folder / REPORT).write_text(page, encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    return target


def _json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")
