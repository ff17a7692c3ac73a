"""What the terminal says of plans: words and units, and nothing that contradicts itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.plan_lines import plan_lines

ROOT = Path(__file__).parents[2]
FILES = {
    "interval": "interval.toml",
    "steps": "steps.toml",
    "queries": "whole-queries.toml",
    "selection": "selection.toml",
    "checkpoints": "checkpoints.json",
}


def said_of(kind: str, *options: str) -> str:
    done = CliRunner().invoke(app, ["plan", kind, str(ROOT / "examples" / FILES[kind]), *options])
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("kind", FILES)
def test_a_plan_is_said_in_words_and_only_json_has_its_keys(kind):
    text, document = said_of(kind), json.loads(said_of(kind, "--json"))
    assert [key for key in (*document, "wall_s") if "_" in key and key in text] == []
    assert "wall_s" in document
    assert "objective" not in text
    assert "┃" not in text
    assert "proven bound" in text


def test_an_interval_has_units_and_is_rounded_to_stay_within_its_limits():
    text, document = said_of("interval"), json.loads(said_of("interval", "--json"))
    rows = {line[:28].strip(): line[28:] for line in text.splitlines()}
    assert rows["longest recovery"] == "3 min"
    assert float(rows["interval"].removesuffix(" s")) <= document["interval_s"]
    assert float(rows["longest interval allowed"].removesuffix(" s")) <= document["most_interval_s"]
    assert float(rows["shortest interval allowed"].removesuffix(" s")) >= document["least_interval_s"]
    assert float(rows["interval"].removesuffix(" s")) == pytest.approx(document["interval_s"], rel=1e-5)


def test_steps_with_sizes_begin_and_end_in_seconds_and_capacity_is_said_beside_its_limit():
    assert "last move ends after  48 s" in said_of("steps")
    assert "0 s, 32 s, 0 s, 8 s, 32 s" in said_of("steps")
    assert "9 of 9" in said_of("selection")


@pytest.mark.parametrize(
    ("objective", "bound", "gap", "expected"),
    [
        (3.0, 2.9999999999, 3.4e-11, ("≥ 3", "0 % but for rounding")),
        (3.0, 2.9999996, 1.4e-7, ("≥ 2.99999", "0.000014 %")),
        (3.0, 3.0, 0.0, ("≥ 3", "0 %")),
    ],
)
def test_a_bound_is_rounded_to_hold_unless_it_is_the_objective(objective, bound, gap, expected):
    document = {"status": "feasible", "objective": objective, "bound": bound, "gap": gap}
    lines = [line.split("  ")[-1].strip() for line in plan_lines("checkpoints", document)]
    assert lines == ["feasible", "3", *expected]
