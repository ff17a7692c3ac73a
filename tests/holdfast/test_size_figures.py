"""All figures that the terminal, the page and the JSON document of a size state agree with each other."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pages import StatedFigures

from analysis.report import page
from holdfast.cli import main
from holdfast.commands import size as size_command
from models import display
from models.reliability.times import MONTH_S
from scenarios.planning import sizing

EXAMPLES = Path(__file__).parents[2] / "examples"
BASE = """
[target]
availability = 0.999
recovery = "30 s"
[work]
load = 2.2
[hosts]
most = 12
price = "0.5 USD/h"
[failures]
mttf = "20 d"
mttr = "2 h"
[checkpoints]
pause = "0.2 s"
restart = "3 s"
"""
COPIES = '[copies]\nlevels = [1, 2]\nload = 0.1\ntake_over = "2 s"\n'


def without(line: str) -> str:
    assert line in BASE
    return BASE.replace(line, "")


CASES = {
    "the availability decides": without('recovery = "30 s"\n').replace("0.999", "0.9995"),
    "the interval costs least work": without('recovery = "30 s"\n') + COPIES.replace("[1, 2]", "[2]"),
    "copies and a recovery": BASE.replace("0.999", "0.9999") + COPIES,
    "crews": BASE.replace('mttr = "2 h"', 'mttr = "2 h"\ncrews = [1, 2]\ncrew_price = "0.1 USD/h"'),
    "units": BASE.replace("most = 12", "most = 6").replace("load = 2.2", "load = 1.1") + "[units]\ncount = 12\n",
    "units of unlike load": without('recovery = "30 s"\n').replace("most = 12", "most = 6").replace("2.2", "1.1")
    + "[units]\nshares = [5.0, 3.0, 2.0, 2.0, 1.0, 1.0]\n",
    "nothing meets it": BASE.replace("0.999", "0.9999999") + COPIES,
    "left open": without('recovery = "30 s"\n').replace("0.999", "0.9995").replace("most = 12", "most = 5")
    + "[units]\ncount = 10\n",
    "the budget is too small": BASE.replace("[work]", 'budget = "1 USD/h"\n[work]'),
    "task managers": BASE.replace("[work]", "[work]\nparallelism = 6")
    .replace('restart = "3 s"', 'complete = "4 s"')
    .replace("[target]", 'engine = "flink"\n[target]')
    .replace('"30 s"', '"2 min"')
    + '[state]\nsize = "40 GB"\nrestore = "500 MB/s"\n',
    "a share of failures": BASE.replace('"30 s"', '"30 s"\nrecovery_share = 0.9') + COPIES,
}


class Views:
    """What one size says: the JSON document, the terminal in one line, tables and headline of the page by name."""

    def __init__(self, path: Path, page_path: Path) -> None:
        def out(*arguments: str) -> str:
            shown = io.StringIO()
            with redirect_stdout(shown), redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
                main(["size", str(path), *arguments])
            return shown.getvalue()

        self.document: dict[str, Any] = json.loads(out("--json", "--report", str(page_path)))
        self.terminal = out()
        reader = StatedFigures(page_path.read_text())
        self.tables, self.headline = reader.tables, reader.headline


@pytest.fixture(scope="module", params=[*CASES, "sizing.toml", "queries-sizing.toml"])
def views(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Views:
    folder = tmp_path_factory.mktemp("size")
    path = EXAMPLES / request.param
    if request.param in CASES:
        path = folder / "size.toml"
        path.write_text(CASES[request.param])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "_plotly", lambda: "/* plotly */")
        found = sizing.answer(path)  # once: it is stated three times
        # Where the command has it: a command that is imported meanwhile would keep this one for all later tests.
        patch.setattr(size_command, "answer", lambda *_, **__: found)
        return Views(path, folder / "page.html")


def plan_text(plan: dict[str, int], document: dict[str, Any]) -> str:
    words = [("host", plan["hosts"]), ("cop", plan["copies"]), ("crew", plan["crews"])]
    if document["engine"]:
        return f"{plan['hosts']} task manager{'s' * (plan['hosts'] > 1)}"
    ends = {"host": ("", "s"), "cop": ("y", "ies"), "crew": ("", "s")}
    return ", ".join(f"{number} {word}{ends[word][number > 1]}" for word, number in words if number)


def stated(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(plan, figures at an interval), wherever the document has them."""
    if document["plan"] is not None:
        yield plan_text(document["plan"], document), document["at"]
    rows = [*document["evaluated"], *document["next_cheaper"], *document["curve"]]
    rows += [document["possible"]] if document["possible"] else []
    for row in rows:
        if row["at"] is not None:
            yield plan_text(row["plan"], document), row["at"]


def asked_of(document: dict[str, Any]) -> float:
    """The unavailability that the target allows."""
    return float(1 - Decimal(repr(document["target"]["availability"])))


def down_of(at: dict[str, Any]) -> str:
    """The time down of a month: both its ends where it is not known exactly."""
    least, most = at["down_s_per_month_at_least"], at["down_s_per_month"]
    return display.duration(most) if least is None else display.between(least, most)


def availability_of(at: dict[str, Any]) -> str:
    """The availability, rounded down where it is a lower bound."""
    if at["unavailability_at_least"] is None:
        return display.availability(at["unavailability"])
    return f"≥ {display.availability(at['unavailability'], rounding='up')}"


def test_a_plan_has_the_same_figures_wherever_it_is_stated_at_an_interval(views: Views) -> None:
    known: dict[tuple[str, float], dict[str, Any]] = {}
    count = 0
    for plan, at in stated(views.document):
        key = plan, at["interval_s"]
        assert known.setdefault(key, at) == at
        count += 1
    assert count > len(known)  # some are stated more than once


def test_the_chosen_plan_has_the_interval_to_use_in_every_list(views: Views) -> None:
    document = views.document
    asked = [one for one in document["curve"] if one["allowed_unavailability"] == asked_of(document)]
    assert len(asked) == 1
    if document["plan"] is None:
        assert document["at"] is None
        return
    assert [one["at"] for one in document["evaluated"] if one["plan"] == document["plan"]] == [document["at"]]
    assert (asked[0]["plan"], asked[0]["at"], asked[0]["cost"]) == (document["plan"], document["at"], document["cost"])


def test_availability_time_down_and_causes_are_one_figure(views: Views) -> None:
    for _, at in stated(views.document):
        assert at["availability"] == 1 - at["unavailability"]
        assert at["down_s_per_month"] == at["unavailability"] * MONTH_S
        parts = at["standing"] + at["recovering"] + at["switching"]
        assert at["unavailability"] == pytest.approx(parts, rel=2e-6)
        if at["unavailability_at_least"] is not None:
            assert at["unavailability_at_least"] <= at["unavailability"]
            assert at["down_s_per_month_at_least"] == at["unavailability_at_least"] * MONTH_S


def test_what_is_said_to_meet_a_target_has_figures_that_meet_it(views: Views) -> None:
    document, target = views.document, views.document["target"]
    claimed = [(1 - target["availability"], document["at"])] if document["plan"] else []
    claimed += [(point["allowed_unavailability"], point["at"]) for point in document["curve"] if point["plan"]]
    assert claimed or document["status"] in ("infeasible", "unknown")
    for allowed, at in claimed:
        assert at["unavailability"] <= allowed * (1 + 1e-6)
        if target["recovery_s"] is not None:
            assert at["quantile_recovery_s"] <= target["recovery_s"] * (1 + 1e-9)
    for row in (*document["evaluated"], *document["next_cheaper"]):
        if row["least"] is not None and row["at"] is not None:
            assert row["least"] <= row["at"]["unavailability"]
            assert row["least_s_per_month"] == row["least"] * MONTH_S
        if row["verdict"] == "fails" and row["least"] is not None:
            assert row["least"] > 1 - target["availability"]


def test_the_terminal_states_the_figures_of_the_document(views: Views) -> None:
    document, at = views.document, views.document["at"]
    said = " ".join(views.terminal.split())
    if at is None:
        assert "Nothing" in said
    else:
        allowed = display.duration(document["target"]["allowed_s_per_month"])
        plan = plan_text(document["plan"], document)
        assert f"{plan}, a checkpoint every {display.duration(at['interval_s'])} cost" in said
        assert f"{availability_of(at)}, asked" in said
        assert f"down a month {down_of(at)} of {allowed} allowed" in said
        recoveries = {"mean": "mean_recovery_s", "longest": "worst_recovery_s"}
        for word, name in recoveries.items():
            value = float("inf") if at[name] is None else at[name]
            assert f"{word} {display.duration(value)}" in said
    rows = [line.split("  ") for line in views.terminal.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    for point in document["curve"]:
        if point["at"] is not None:
            asked = display.availability(point["allowed_unavailability"], 10)
            row = next(row for row in cells if row and row[0].removesuffix(" (asked)") == asked and len(row) == 5)
            assert row[1:3] == [plan_text(point["plan"], document), display.duration(point["at"]["interval_s"])]
            assert row[4] == down_of(point["at"])


def test_headline_and_tables_of_the_page_state_the_figures_of_the_document(views: Views) -> None:
    document, at = views.document, views.document["at"]
    for name, key in (("table-evaluated", "evaluated"), ("table-one-less", "next_cheaper")):
        rows = {row[0]: row for row in views.tables.get(name, [])[1:]}
        assert len(rows) == len(document[key])
        for one in document[key]:
            row = rows[plan_text(one["plan"], document)]
            if one["at"] is not None:
                assert row[4:6] == [display.duration(one["at"]["interval_s"]), down_of(one["at"])]
            assert row[6] == display.at_least(one["least_s_per_month"])
    for point, row in zip(document["curve"], views.tables.get("figure-cost", [[]])[1:], strict=True):
        assert [row[0].removesuffix(" (asked)"), row[1]] == [
            display.availability(point["allowed_unavailability"], 10),
            display.duration(point["allowed_s_per_month"]),
        ]
        if point["at"] is not None:
            assert row[2:4] == [plan_text(point["plan"], document), display.duration(point["at"]["interval_s"])]
            assert row[5] == down_of(point["at"])
    if at is None:
        certain = "nothing meets the target" if document["status"] == "infeasible" else "nothing is certain to meet"
        assert views.headline["plan"].startswith(certain)
        return
    down = down_of(at)
    assert f"down {down} a month" in views.headline["availability"]
    assert views.headline["availability"].startswith(availability_of(at))
    assert views.headline["checkpoint every"].startswith(display.duration(at["interval_s"]))
    assert views.tables["table-down"][-1][-1] == down
    times = {row[2]: row[3] for row in views.tables["table-recovery"][1:]}
    assert times["longest"] == display.duration(
        float("inf") if at["worst_recovery_s"] is None else at["worst_recovery_s"]
    )
    recovery = next(text for label, text in views.headline.items() if label.startswith("recovery"))
    assert recovery.startswith(display.duration(at["quantile_recovery_s"] or float("inf")))
    assert views.headline["cost"] == f"{display.money(document['cost'])} {document['cost_unit']}"
    assert f"cost {views.headline['cost']}, " in " ".join(views.terminal.split())
    sums = [float(re.sub("[^0-9.]", "", row[2])) for row in views.tables["table-down"][1:]]
    assert sums[-1] == pytest.approx(sum(sums[:-1]), rel=0.02)
