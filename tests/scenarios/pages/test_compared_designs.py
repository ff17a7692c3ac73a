"""Designs of real small runs on the page: protocol and allocation varied, and the page of a sweep."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from pages import PageReader
from rich.console import Console
from runs_inside import inside

from analysis.report import content as values
from analysis.report import lines_of_records, page, render_page, text
from analysis.report.parts import Change
from analysis.runs.metrics import metrics_of
from analysis.runs.migration_kinds import classified, grouped
from holdfast.sweep_tables import sweep_tables
from holdfast.terminal import printed
from models import display
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from scenarios.files.scenario import LoadedScenario, read_scenario, resolve
from scenarios.pages.designs import OVERHEAD, design_runs, designs
from scenarios.pages.run import run_page
from scenarios.pages.sweep import runs_of_designs, sweep_page, write_page
from scenarios.runs.run import RunResult, run
from scenarios.sweeps.summary import differences
from scenarios.sweeps.sweep import SweepResult, sweep

SERVICE = {"distribution": "exponential", "mean": "2 ms"}
COUNTS = {
    "kind": "aggregate",
    "inputs": {"src": "key"},
    "key_groups": 8,
    "parallelism": 2,
    "service": SERVICE,
    "deserialise": "20 MB/s",
    "state": {"model": "per-key", "bytes": "5 kB"},
}
RAW: dict[str, Any] = {
    "name": "shift",
    "seed": 2,
    "duration": "30 s",
    "warmup": "2 s",
    "replications": 2,
    "workload": {"src": {"rate": "700 /s", "keys": {"distribution": "zipf", "count": 400, "exponent": 0.9}}},
    "operators": {"src": {"kind": "source"}, "n": COUNTS, "out": {"kind": "sink", "inputs": {"n": "shuffle"}}},
    "hosts": {"front": {"price": "0.1 USD/h"}, "w": {"count": 3, "network": "50 MB/s", "price": "0.2 USD/h"}},
    "placement": {"operators": {"src": "front", "out": "front", "n": "w"}},
    "fault_tolerance": {"method": "checkpoint", "interval": "3 s", "staggered": True},
    "elasticity": {
        "policy": "threshold", "high": 0.6, "period": "3 s", "rest": "6 s", "protocol": "cpal", "hosts": ["w"],
    },
}  # fmt: skip


def shift(**changes: Any) -> Scenario:
    return scenario_from(RAW | changes)


@pytest.fixture(scope="module")
def moved() -> RunResult:
    return run(shift())


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    varied = {"elasticity.protocol": ["direct", "cpal"], "fault_tolerance.allocation": ["even", "baseline"]}
    loaded = LoadedScenario(shift(sweep=varied, duration="12 s"), Path())
    with inside():
        return sweep(loaded, tmp_path_factory.mktemp("swept") / "sweep")


def test_moves_of_a_run_are_counted_by_kind_as_the_manager_asked_for_them(moved: RunResult) -> None:
    migrations = classified(moved.typed_summary.migrations, moved.records)
    counted: dict[str, int] = {}
    for row in grouped(migrations):
        assert row.cause == "balance"
        counted[row.kind] = counted.get(row.kind, 0) + row.count
    asked = moved.summary["elasticity"]
    assert counted == {kind: asked[kind] for kind in ("assisted", "direct") if asked[kind]}
    assert sum(counted.values()) == len(migrations) > 0
    # By the rules of the manager: what is assisted goes by the protocol that was asked for, the rest directly.
    assert all((one.protocol == "cpal") == (one.kind == "assisted") for one in migrations)


def test_the_page_of_a_run_has_load_checks_placement_cost_and_reasons(moved: RunResult) -> None:
    first = moved.records[0]
    load_checks, placed = values.load_checks(first), values.placement_change(moved.scenario, first)
    cost = values.cost(moved.scenario, moved.typed_summary, len(moved.records))
    assert load_checks is not None
    assert placed is not None
    assert cost is not None
    assert int(load_checks.at_risk.sum()) > 0
    assert sum(len(host.before) for host in placed.hosts) == 8
    assert sum(len(host.after) for host in placed.hosts) == 8
    went = {(g.operator, g.key_group, h.name, g.other) for h in placed.hosts for g in h.before if g.other}
    came = {(g.operator, g.key_group, g.other, h.name) for h in placed.hosts for g in h.after if g.other}
    assert went == came
    assert len(went) == placed.moved
    assert cost.total == pytest.approx((0.1 + 3 * 0.2) * 30 / 3600)
    assert sum(row.cost or 0.0 for row in cost.rows) == pytest.approx(cost.total)
    assert values.hosts_used(first) is None  # none came and none went
    assert {one.about for one in values.decisions(moved.records)} >= {"moves"}
    shown = {one.name for one in run_page(moved, RunInputs()).sections if one is not None}
    assert shown >= {"checks", "placement", "cost", "decisions", "migrations", "tail"}
    assert [curve.name for curve in lines_of_records.latency_ccdfs(moved.records)] == [
        "all tuples",
        "replication 0",
        "replication 1",
    ]


def test_the_tail_passes_through_the_quantiles_of_the_summary(moved: RunResult) -> None:
    curve = lines_of_records.latency_ccdfs(moved.records)[0]
    latency = moved.summary["latency_s"]
    assert curve.at_s[-1] == latency["max"]
    for name, share in (("p50", 0.5), ("p99", 0.01)):
        later = curve.at_s > latency[name]
        assert curve.share[later].max() <= share
        assert curve.share[~later].min() >= share


def test_designs_of_summaries_have_the_means_of_their_runs(moved: RunResult) -> None:
    one = moved.typed_summary
    other = run(shift(seed=3)).typed_summary
    (made,) = designs([design_runs("cpal, even", "even", "cpal", [one, other])])
    assert made.runs == 2
    for name, path in (("latency_p99_s", "latency_s.p99"), ("pause_s", "migrations.pause_s.mean")):
        both = [metrics_of(summary)[path] for summary in (one, other)]
        assert made.of(name).mean == pytest.approx(fmean(value for value in both if value is not None))
    latency = made.of("latency_p99_s")
    assert latency.ci95 is not None
    assert latency.mean is not None
    assert latency.ci95[0] < latency.mean < latency.ci95[1]
    sent = [
        sum(counted.bytes for kind, counted in summary.messages.items() if kind in OVERHEAD) for summary in (one, other)
    ]
    assert made.of("overhead_bytes_per_s").mean == pytest.approx(fmean(sent) / 28)
    assert made.latency_ccdf is not None
    assert made.latency_ccdf.at_s[-1] == pytest.approx(fmean(summary.latency_s.max or 0.0 for summary in (one, other)))


def test_designs_are_compared_run_by_run_where_the_random_numbers_are_the_same(swept: SweepResult) -> None:
    shown = designs(runs_of_designs(swept))
    assert shown[0].changes == {}
    for number, one in enumerate(shown[1:], 1):
        (expected,) = differences(swept, number, ["latency_s.p99"])
        assert expected.paired
        assert one.changes["latency_p99_s"] == Change(expected.difference, expected.per_cent, expected.shown)


def verdicts_of_the_chart(html: str, figure: str, designs: int) -> list[str]:
    """Return the verdict that the chart shows of each design but the first, by its colour in the legend."""
    spec = next(text for given, text in PageReader(html).scripts if given.get("id") == f"spec-{figure}")
    shown = {int(label.split()[0]): one["name"].split()[0] for one in json.loads(spec)["data"] for label in one["y"]}
    return [shown[number] for number in range(1, designs)]


def verdicts_of_the_table(html: str, head: str) -> list[str]:
    table = html[html.index("<caption>Means, and differences to design 0") :].split("</table>", maxsplit=1)[0]
    column = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)</th>", table).index(head)
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tbody>")[1].split("</tr>")[1:-1]]
    return [row[column].split()[-1] for row in rows]


def verdicts_of_the_terminal(result: SweepResult, metric: str) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200).print(*map(printed, sweep_tables(result, [metric])))
    return [line.split()[-1] for line in out.getvalue().splitlines() if line.strip()[:1] in set("123456789")]


@pytest.mark.parametrize(
    ("metric", "figure", "head"),
    [
        ("latency_s.p99", "designs-latency", "latency p99"),
        ("migrations.pause_s.mean", "designs-pause", "pause of a move"),
    ],
)
def test_chart_table_and_terminal_state_the_same_verdicts(
    swept: SweepResult, metric: str, figure: str, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    html = render_page(sweep_page(swept))
    known = [differences(swept, number, [metric])[0].shown for number in range(1, len(swept.plan.points))]
    assert verdicts_of_the_chart(html, figure, len(swept.plan.points)) == known
    assert verdicts_of_the_table(html, head) == known
    assert verdicts_of_the_terminal(swept, metric) == known
    assert "overlap" not in html


def test_the_statistic_is_explained_once(swept: SweepResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    html = render_page(sweep_page(swept))
    assert html.count("excludes zero") == html.count("Each interval is for one comparison") == 1


SHORT = 'sweep={ "fault_tolerance.interval" = ["1 s", "5 s"] }'


def test_rebalances_are_compared_by_the_time_until_there_is_output(tmp_path: Path) -> None:
    settings = ["duration=60 s", "warmup=5 s", "events.move.at=10 s", "replications=4"]
    loaded = read_scenario(
        resolve(Path("rebalance-linear")), [*settings, 'sweep={ "events.move.protocol" = ["dcr", "ccr"] }']
    )
    with inside():
        result = sweep(loaded, tmp_path / "sweep", summaries=True)
    assert "designs-output" in [one.name for section in sweep_page(result).sections for one in section.figures]
    (found,) = differences(result, 1, ["rebalances.restore_s.mean"])
    totals = [
        [json.loads(row.summary)["rebalances"][0]["restore_s"] for row in result.rows if row.point == number]
        for number in range(2)
    ]
    assert found.difference.mean == pytest.approx(fmean(totals[1]) - fmean(totals[0]))


SENT = ("data", "replay", "protocol")


def test_methods_stand_side_by_side_over_all_other_settings(tmp_path: Path) -> None:
    varied = (
        '"fault_tolerance.method" = ["upstream-backup", "active-replication"], "events.crash.at" = ["22 s", "25 s"]'
    )
    settings = ["duration=40 s", "replications=1", "workload.sentences.rate=200 /s", f"sweep={{ {varied} }}"]
    with inside():
        result = sweep(read_scenario(resolve(Path("recovery-shootout")), settings), tmp_path / "sweep")
    (section,) = [one for one in sweep_page(result).sections if one is not None and one.name == "methods"]
    (figure,), (table,) = section.figures, section.tables
    # The fastest first; each is the mean of two runs.
    assert (
        [row[0] for row in figure.rows] == [row[0] for row in table.cells] == ["active-replication", "upstream-backup"]
    )
    metrics = [result.replications(number)[0] for number in range(4)]
    for phase in figure.data:
        name = f"recoveries.{phase['name'].replace(' ', '_')}_s.mean"
        means = [fmean(one[name] or 0.0 for one in metrics[at : at + 2]) for at in (2, 0)]
        assert phase["x"] == pytest.approx(means, rel=1e-3)
    sent = dict(
        zip([row[0] for row in table.cells], [row[table.heads.index("sent")] for row in table.cells], strict=True)
    )
    bytes_of = [
        fmean(sum(one.get(f"messages.{kind}.bytes") or 0.0 for kind in SENT) for one in metrics[at : at + 2])
        for at in (0, 2)
    ]
    shown = [text.together(display.byte_rate(value / 30)) for value in bytes_of]
    assert [sent["upstream-backup"], sent["active-replication"]] == shown
    later = [row[table.heads.index("later by")] for row in table.cells]
    assert later.count("0\u00a0s") == 1


def test_a_sweep_of_other_keys_has_no_methods_side_by_side(swept: SweepResult) -> None:
    assert "methods" not in [one.name for one in sweep_page(swept).sections if one is not None]


def test_phases_of_recoveries_have_the_sums_of_the_summaries(tmp_path: Path) -> None:
    loaded = read_scenario(resolve(Path("tiny-sweep")), ["duration=30 s", "replications=2", SHORT])
    with inside():
        result = sweep(loaded, tmp_path / "sweep", summaries=True)
    (figure,) = [one for one in sweep_page(result).sections[0].figures if one.name == "designs-recovery"]
    unit = {"time since the failure [s]": 1.0, "time since the failure [ms]": 1e-3}
    size = unit[figure.layout["xaxis"]["title"]["text"]]
    for number in range(len(result.plan.points)):
        summaries = [json.loads(row.summary) for row in result.rows if row.point == number]
        totals = [fmean(entry["total_s"] for entry in one["recoveries"]) for one in summaries]
        assert fmean(totals) > 1.5  # the detector takes that long
        assert sum(one["x"][number] for one in figure.data) * size == pytest.approx(fmean(totals), rel=1e-5)
        for one, phase in zip(figure.data, ("detect_s", "restore_s", "replay_s", "catch_up_s"), strict=True):
            expected = fmean(fmean(entry[phase] for entry in summary["recoveries"]) for summary in summaries)
            assert one["x"][number] * size == pytest.approx(expected, rel=1e-5)


def test_a_design_without_runs_is_shown_as_failed() -> None:
    (made,) = designs([design_runs("x", "even", "cpal", [], failed=3)])
    assert (made.runs, made.failed, dict(made.values), made.latency_ccdf) == (0, 3, {}, None)


def test_a_sweep_has_a_page_with_its_designs(swept: SweepResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    shown = designs(runs_of_designs(swept))
    labels = [one.label for one in shown]
    assert labels[0] == "protocol direct, allocation even"
    assert [one.protocol for one in shown] == ["direct", "direct", "cpal", "cpal"]
    assert [one.allocation for one in shown] == ["even", "baseline"] * 2
    assert all(one.runs == 2 for one in shown)
    written = write_page(swept, command="holdfast sweep x --out y")
    assert written == swept.directory / "report.html"
    html = written.read_text(encoding="utf-8")
    assert html == render_page(sweep_page(swept, command="holdfast sweep x --out y"))
    assert "What overhead buys in latency" in html
    assert write_page(swept, command="z") == written
    assert [one.name for one in swept.directory.iterdir() if one.name.startswith(".")] == []
