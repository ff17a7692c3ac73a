"""A study on disk: profile, problem, plans, the run of the chosen method, findings and the report, all or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.report import render_report
from scenarios.files import scenario_text, with_files
from scenarios.new_directory import check_place, new_directory
from scenarios.planning_files import plan_to_dict, problem_to_dict
from scenarios.profiles import profile_summary, write_profile
from scenarios.report_content import study_content
from scenarios.run_store import write_run
from scenarios.runs import inputs_of
from scenarios.study import Study, profiled_source

FINDINGS, REPORT, PROBLEM = "study.json", "report.html", "problem.json"
PROFILE, RUN, PLANS = "profile", "run", "plans"


def is_study(directory: Path) -> bool:
    """Whether everything in the directory is what `write_study` writes, the findings among it."""
    found = {entry.name for entry in directory.iterdir()}
    return FINDINGS in found and found <= {FINDINGS, REPORT, PROBLEM, PROFILE, RUN, PLANS}


def check_target(directory: Path | str, *, force: bool) -> None:
    """Raise InputError where `write_study` would, before the work is done."""
    check_place(Path(directory), force=force, ours=is_study)


def findings(study: Study) -> dict[str, Any]:
    """What the study found, in numbers and text: the profile, each method's plan and what its run showed."""
    return {
        "scenario": study.scenario.name,
        "seed": study.scenario.seed,
        "method": study.method,
        "profile": profile_summary(study.profile),
        "hosts": list(study.loads.hosts),
        "checkpoints": [f"{operator}[{group}]" for operator, group in study.loads.names],
        "methods": {
            one.method: {
                "plan": {key: value for key, value in plan_to_dict(one.plan, one.problem).items() if key != "wall_s"},
                "useable_share": one.useable.useable_share,
                "assisted_share": one.useable.assisted_share,
                "at_risk": int(one.useable.at_risk.sum()),
                "useable": int(one.useable.useable.sum()),
                "assisted": int(one.useable.assisted.sum()),
                "direct": int(one.useable.direct.sum()),
                "run": study.runs[one.method].summary,
            }
            for one in study.planned
        },
    }


def write_study(directory: Path | str, study: Study, quarantine: Any, *, force: bool, command: str) -> Path:
    """The directory, written whole or not at all; an earlier study is replaced only with `force`."""
    target = Path(directory)
    chosen = study.runs[study.method]
    profiles = {profiled_source(study.scenario): study.profile}
    inputs = inputs_of(study.scenario, Path(), profiles=profiles, holders={})
    page = render_report(study_content(study, inputs, command=command))
    with new_directory(target, force=force, ours=is_study) as folder:
        write_profile(study.profile, folder / PROFILE, quarantine)
        write_run(
            folder / RUN,
            scenario_text(with_files(study.scenario, lambda _: f"../{PROFILE}")),
            chosen.summary,
            chosen.records,
            metrics=chosen.metrics,
        )
        (folder / PLANS).mkdir()
        for one in study.planned:
            _json(folder / PLANS / f"{one.method}.json", plan_to_dict(one.plan, one.problem))
        _json(folder / PROBLEM, problem_to_dict(study.planned[0].problem))
        _json(folder / FINDINGS, findings(study))
        (folder / REPORT).write_text(page, encoding="utf-8")
    return target


def _json(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")
