"""`size`: a plan with its proof in a terminal, one JSON document, a page, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "sizing.toml"
SMALL = """
[target]
availability = 0.999
[work]
load = 1.5
[hosts]
most = 6
[failures]
mttf = "10 d"
mttr = "1 h"
[checkpoints]
pause = "0.1 s"
restart = "5 s"
"""


def called(capsys, *arguments: object) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main(["size", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_the_example_is_answered_with_its_proof_in_eighty_columns(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, EXAMPLE, "--no-curve")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "6.9 USD/h, the least that meets the target: 62 cheaper plans fail" in " ".join(out.split())
    assert "One unit less, and why each fails" in out


def test_json_is_one_document(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, small, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["status"] == "optimal"
    assert found["cost"] == found["bound"] == found["plan"]["hosts"] == 3
    assert found["cost_unit"] == "hosts"
    assert [one["verdict"] for one in found["evaluated"]] == ["fails", "fails", "meets"]
    assert found["at"]["unavailability"] <= 0.001
    assert {point["allowed_unavailability"] for point in found["curve"]} >= {0.1, 0.001}


def test_an_impossible_target_is_exit_code_three_with_the_best_that_is_possible(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, changed(small, "0.999", "0.9999999"))
    assert code == 3
    assert "The best that is possible" in out
    assert err == "none of 6 plans meets the target\n"
    found = json.loads(called(capsys, small, "--json", "--no-curve")[1])
    assert found["status"] == "infeasible"
    assert found["possible"]["at"]["unavailability"] > 1e-7


def test_work_that_fits_nowhere_says_how_many_hosts_it_needs(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, changed(small, "load = 1.5", "load = 90.0"), "--no-curve")
    assert code == 3
    assert "the work needs 91 hosts" in " ".join(out.split())


def test_a_budget_that_is_too_small_says_what_it_would_cost(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    changed(small, "most = 6", 'most = 6\nprice = "1 USD/h"')
    code, out, _ = called(capsys, changed(small, "[work]", 'budget = "2 USD/h"\n[work]'))
    assert code == 3
    assert "Without the budget: 3 USD/h, 3 hosts, 1 copy." in out


def test_the_page_has_the_curve_and_every_plan(capsys, monkeypatch, small: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from analysis.report import page  # noqa: PLC0415

    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    code, _, _ = called(capsys, small, "--report", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert code == 0
    for wanted in ("Cost of an availability", "Every plan that was evaluated", "3 hosts, 1 copy"):
        assert wanted in text
    assert called(capsys, small, "--report", tmp_path / "page.html")[0] == 2


def test_a_failure_log_gives_mttf_and_mttr_and_its_doubts(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    log = small.parent / "log.csv"
    log.write_text("host,down,up\n" + "".join(f"h{k % 4},{90_000 * k},{90_000 * k + 1800}\n" for k in range(60)))
    with pytest.raises(SystemExit):
        main(["failures", str(log), "--draws", "0", "--out", str(small.parent / "log.json")])
    capsys.readouterr()
    kept = json.loads((small.parent / "log.json").read_text())
    exponential = next(fit for fit in kept["up_time_laws"] if fit["law"] == "exponential")
    exponential["rejected"] = True  # as a bootstrap, which takes seconds, says of such a log
    (small.parent / "log.json").write_text(json.dumps(kept))
    changed(small, 'mttf = "10 d"\nmttr = "1 h"', 'log = "log.json"')
    code, out, _ = called(capsys, small, "--json", "--no-curve")
    found = json.loads(out)
    assert code == 0
    assert found["mttr_s"] == pytest.approx(1800)
    assert found["mttf_s"] == pytest.approx((4 * (90_000 * 59 + 1800) - 60 * 1800) / 59)
    assert any("not exponential" in note for note in found["notes"])
    assert (
        json.loads(called(capsys, changed(small, '"log.json"', '"log.json"\nmttr = "1 h"'), "--json")[1])["mttr_s"]
        == 3600
    )


def test_units_that_stay_make_a_system_need_more_hosts_and_leave_the_answer_an_interval(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    small.write_text(small.read_text() + "[units]\ncount = 12\n")
    code, out, _ = called(capsys, small, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["cost"] > 3  # which is enough where work is spread evenly
    assert found["bound"] <= found["cost"]
    assert found["at"]["unavailability_at_least"] <= found["at"]["unavailability"] <= 0.001
    assert all(point["bound"] is None or point["bound"] <= (point["cost"] or 6) for point in found["curve"])
    text = called(capsys, small, "--no-curve")[1]
    assert "hosts too full" in text
    assert "≥ 0.9" in text


@pytest.mark.parametrize(
    "units, rule",
    [
        ("count = 4\nshares = [1.0]", "units: must have count or shares, and not both"),
        ("steps = 2", "units: must have count or shares, and not both"),
        ("shares = [0.0, 0.0]", "units.shares"),
        ("shares = [-1.0, 2.0]", "units.shares[0]"),
        ("count = 0", "units.count"),
        ("count = 8\nmoves = 1", "units.moves"),
        ("count = 8\n[copies]\nlevels = [1, 2]", "copies.levels"),
    ],
)
def test_units_that_make_no_sense_are_refused(capsys, small: Path, units: str, rule: str) -> None:  # type: ignore[no-untyped-def]
    small.write_text(small.read_text() + f"[units]\n{units}\n")
    code, _, err = called(capsys, small)
    assert code == 2
    assert rule in " ".join(err.split())


@pytest.mark.parametrize(
    "old, new, rule",
    [
        ("0.999", "1.0", "target.availability = 1.0: must be less than 1"),
        ("0.999", '0.999\nbudget = "-1 USD/h"', "target.budget = -1 USD/h: must not be negative"),
        ("0.999", '0.999\nbudget = "1 USD/h"', "target.budget: needs hosts.price"),
        ("0.999", '0.999\nrecovery = "0 s"', "target.recovery = 0 s: must be longer than zero"),
        ("load = 1.5", "", "work: must have load, or rate and service"),
        ("load = 1.5", "load = 0.0", "work.load = 0.0: must be more than 0"),
        ('mttf = "10 d"', "", "failures: must have one of mttf, mtbf, per_day, per_year, afr and log"),
        ('mttf = "10 d"', 'mttf = "10 d"\nper_day = 2.0', "there: mttf, per_day"),
        ('mttf = "10 d"', "afr = 1.0", "failures.afr = 1.0: must be less than 1"),
        ('mttr = "1 h"', "", "failures.mttr: is missing"),
        ('mttf = "10 d"', 'log = "nosuch.json"', "nosuch.json"),
        ('mttf = "10 d"', 'mttf = "1 s"', "failures.mttr = 1 h: must be at most 1,000 times the MTTF"),
        ('restart = "5 s"', 'complete = "0.01 s"', "checkpoints.complete = 10 ms: must be at least the pause"),
        ("most = 6", "most = 6\nleast = 7", "hosts.least = 7: must be at most hosts.most, 6"),
        ("most = 6", "most = 0", "hosts.most = 0: must be at least 1"),
        ("[work]", "[copies]\nlevels = [1, 9]\n[work]", "copies.levels = 9: must be at most hosts.most, 6"),
        ("[work]", "[copies]\ncoverage = 1.5\n[work]", "copies.coverage = 1.5: must be at most 1"),
        ("[work]", "[nosuch]\n[work]", "nosuch"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(capsys, small: Path, old: str, new: str, rule: str) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, changed(small, old, new))
    assert (code, out) == (2, "")
    assert rule in err
    assert len(err.splitlines()) == 1


def test_a_flink_job_is_sized_in_task_managers_with_what_of_flink_is_modelled(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    changed(changed(small, "[target]", 'engine = "flink"\n[target]'), 'restart = "5 s"\n', "")
    changed(small, "load = 1.5", "load = 1.5\nparallelism = 4")
    code, out, _ = called(capsys, small, "--no-curve")
    said = " ".join(out.split())
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    # Four slots for four tasks, and a fifth that waits: each TaskManager has one.
    assert "plan 5 task managers, a checkpoint every" in said
    assert "work goes on 18.5 s on average, 21.1 s at the latest" in said
    assert "simplified: restart strategies, slots, restore, checkpoints" in said


def test_a_strategy_that_gives_up_is_one_clear_error(capsys, small: Path) -> None:  # type: ignore[no-untyped-def]
    changed(changed(small, "[target]", 'engine = "flink"\n[target]'), 'restart = "5 s"\n', "")
    changed(small, "load = 1.5", 'load = 1.5\nparallelism = 4\n[recovery]\nstrategy = { kind = "failure-rate" }')
    code, _, err = called(capsys, small)
    assert code == 2
    assert "recovery.strategy = failure-rate: gives up before the dead host stops to count" in " ".join(err.split())
