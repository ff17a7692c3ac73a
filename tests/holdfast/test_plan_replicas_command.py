"""`holdfast plan replicas` and `holdfast verify` of its plans, as a user has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.commands import plan_replicas

EXAMPLE = Path(__file__).parents[2] / "examples" / "queries.toml"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def planned(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    code, out, _ = run(capsys, "plan", "replicas", *words, "--json")
    assert code == 0
    return dict(json.loads(out))


def test_the_example_is_planned_by_every_importance_and_verified(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = planned(capsys, EXAMPLE, "--out", tmp_path / "plan.json")
    assert set(made["compared"]) == {"degree", "utilisation", "product", "gain", "random"}
    assert made["cost"] <= made["capacity"] == 0.8
    assert made["mean_broken"][0] == min(one["mean_broken"][0] for one in made["compared"].values())
    assert set(made["queries"]) == {"average", "alerts", "related"}
    code, out, _ = run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)
    assert (code, out.splitlines()[0]) == (0, "the plan holds")
    code, out, _ = run(capsys, "plan", "replicas", EXAMPLE, "--importance", "product", "--p", 0.02)
    assert code == 0
    assert "Plans for 3 queries on 8 operators" in out


def test_queries_that_a_single_host_breaks_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    made = planned(capsys, EXAMPLE, "--importance", "product")
    alone = made["compared"]["product"]["broken_by_one_host"]
    assert set(alone) == {str(hosts[0]) for hosts in made["instances"] if len(hosts) == 1} != set()
    bare = planned(capsys, EXAMPLE, "--budget", 0, "--importance", "product")
    counts = bare["compared"]["product"]["broken_by_one_host"]
    assert set(counts) == {str(hosts[0]) for hosts in bare["instances"]}
    assert list(counts.values()) == sorted(counts.values(), reverse=True)
    out = run(capsys, "plan", "replicas", EXAMPLE, "--budget", 0, "--importance", "product")[1]
    host, most = next(iter(counts.items()))
    said = " ".join(out.split())
    assert "Broken by a single host: 3 of 3 queries (average, alerts, related)." in said
    assert most == 3
    assert f"Host {host} by itself breaks all of them." in said
    out = run(capsys, "plan", "replicas", EXAMPLE, "--budget", 5, "--importance", "product")[1]
    assert "No single host breaks a query." in out


def test_a_replica_on_the_host_of_its_primary_does_not_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = planned(capsys, EXAMPLE)
    first = next(k for k, hosts in enumerate(made["instances"]) if len(hosts) > 1)
    made["instances"][first][1] = made["instances"][first][0]
    (tmp_path / "plan.json").write_text(json.dumps(made))
    code, out, _ = run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)
    assert code == 4
    assert f"operator {first} has two instances on one host" in out


def test_more_budget_and_levels_break_fewer_queries(capsys: pytest.CaptureFixture[str]) -> None:
    broken = [
        planned(capsys, EXAMPLE, "--budget", budget, "--level", level, "--importance", "product")["mean_broken"][0]
        for budget, level in ((0.0, 1), (0.5, 1), (2.0, 1), (3.0, 2))
    ]
    assert broken == sorted(broken, reverse=True)
    assert len(set(broken)) == 4


def test_primaries_of_a_running_system_stay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "running.toml"
    placed = '\n[placed]\n"alerts.sap" = 5\n"average.sap" = 5\n"average.mean" = 7\n'
    file.write_text(EXAMPLE.read_text() + placed)
    made = planned(capsys, file, "--importance", "product")
    where = {name: hosts[0] for name, hosts in zip(made["operators"], made["instances"], strict=True)}
    assert (where["average.sap"], where["average.mean"]) == (5, 7)


@pytest.mark.parametrize(
    ("words", "added", "said"),
    [
        (("--budget", "-1"), "", "--budget = -1.0: must be finite and not negative"),
        (("--p", "1.5"), "", "--p = 1.5: must be a probability"),
        (("--importance", "dgree"), "", "--importance = dgree: must be one of"),
        (("--selection", "best"), "", "--selection = best: must be one of"),
        (("--placement", "last"), "", "--placement = last: must be one of"),
        (("--budget-replicas", "-1"), "", "error: --budget-replicas = -1: must be a whole number, at least 0"),
        (("--time-limit", "0"), "", "error: --time-limit = 0.0: must be a positive number of seconds"),
        (("--time-limit", "nan"), "", "error: --time-limit = nan: must be a positive number of seconds"),
        (("--over", "hosts", "--front", "3"), "", "error: --over = hosts: must be one of cpus, replicas"),
        (("--over", "replicas"), "", "error: --over = replicas: says what --front counts"),
        ((), "\nbudget_replicas = -1\n", "replicas.budget_replicas = -1"),
        ((), "\nbudget_replicas = 1.5\n", "replicas.budget_replicas = 1.5"),
        (("--level", "-1"), "", "error: --level = -1: must be a whole number"),
        (("--goal", "best"), "", "error: --goal = best: must be one of mean, worst"),
        (("--target", "2"), "", "error: --target = 2.0: must be a probability"),
        (("--seed", "-1"), "", "error: --seed = -1: must be a whole number between 0 and 2^63 - 1 (as in --seed 1)"),
        (("--front", "-3"), "", "error: --front = -3: must be at least 2"),
        (("--report", "page.txt"), "", "error: --report = page.txt: must end in .html"),
        ((), '\n[placed]\n"average.mean" = 0\n"average.sap" = 0\n', "error: placed: host 0"),
        ((), '\n[placed]\n"alerts.sap" = 8\n', "is not a host for primaries: there are 8"),
        ((), '\n[placed]\n"alerts.sup" = 1\n', "did you mean"),
        ((), '\n[placed]\n"alerts.sap" = 1\n"average.sap" = 2\n', "is the same operator as one on host 1"),
        ((), "\n[queries.empty]\n", "queries.empty: is empty"),
    ],
)
def test_bad_input_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], added: str, said: str
) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(EXAMPLE.read_text() + added)
    code, out, err = run(capsys, "plan", "replicas", file, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_queries_that_do_not_fit_their_hosts_are_infeasible(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(EXAMPLE.read_text().replace("count = 8", "count = 2"))
    code, _, err = run(capsys, "plan", "replicas", file)
    assert code == 3
    assert "infeasible: operators take 1.27 CPUs, the hosts for primaries have 1.2" in err
    file.write_text(EXAMPLE.read_text().replace("[hosts]\ncount = 8\ncpu = 0.6", ""))
    assert "hosts: is missing" in run(capsys, "plan", "replicas", file)[2]


def test_the_optimised_plan_is_at_least_as_good_with_a_bound_and_verified(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = planned(capsys, EXAMPLE, "--optimise", "--out", tmp_path / "plan.json")
    others = [one["mean_broken"][0] for name, one in made["compared"].items() if name != "optimised"]
    assert made["compared"]["optimised"]["mean_broken"][0] <= min(others)
    assert made["bound"] <= made["objective"]
    code, out, _ = run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)
    assert (code, out.splitlines()[0]) == (0, "the plan holds")


def test_a_target_has_the_cheapest_plan_or_exit_code_3_with_the_best_there_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = planned(capsys, EXAMPLE, "--target", 0.99, "--out", tmp_path / "plan.json")
    assert made["mean_broken"][0] <= 0.01
    assert made["bound"] <= made["objective"] == pytest.approx(made["cost"])
    code, out, _ = run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)
    assert (code, out.splitlines()[0]) == (0, "the plan holds")
    made["target"] = 0.9999
    (tmp_path / "plan.json").write_text(json.dumps(made))
    assert "the target is 0.9999" in run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)[1]
    code, _, err = run(capsys, "plan", "replicas", EXAMPLE, "--target", 0.99999)
    assert code == 3
    assert "99.999 % cannot be reached: the best found has 99.7" in err
    assert run(capsys, "plan", "replicas", EXAMPLE, "--target", 1.5)[0] == 2


def test_the_front_rises_with_cost_and_keeps_below_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    points = planned(capsys, EXAMPLE, "--front", 5)["points"]
    assert [one["cost"] for one in points] == sorted(one["cost"] for one in points)
    assert all(one["bound"] <= one["broken"] for one in points)
    assert len(points) >= 3
    code, out, _ = run(capsys, "plan", "replicas", EXAMPLE, "--front", 3, "--goal", "worst")
    assert code == 0
    assert "worst query" in out
    assert "stands alone" in run(capsys, "plan", "replicas", EXAMPLE, "--front", 3, "--optimise")[2]
    assert "--front = 1: must be at least 2" in run(capsys, "plan", "replicas", EXAMPLE, "--front", 1)[2]
    assert "goal = best: must be one of mean, worst" in run(capsys, "plan", "replicas", EXAMPLE, "--goal", "best")[2]


def test_of_equally_good_plans_the_one_with_a_bound_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "one.toml"
    file.write_text(
        'p = 0.1\n[streams.a]\nrate = "1000 /s"\n[kinds.source]\ncost = "100 us"\n[hosts]\ncount = 2\ncpu = 0.5\n'
        '[queries.q.operators]\ns = { kind = "source", stream = "a" }\nd = { kind = "destination", inputs = ["s"] }\n'
    )
    made = planned(capsys, file, "--optimise", "--out", tmp_path / "plan.json")
    assert made["compared"]["degree"]["mean_broken"] == made["mean_broken"] == [pytest.approx(0.01)]
    assert (made["compared"]["optimised"]["methods"], made["status"]) == (["optimised", "exhaustive"], "optimal")
    assert made["bound"] == pytest.approx(made["objective"])
    assert "(optimal)" in run(capsys, "plan", "replicas", file, "--optimise")[1]
    assert run(capsys, "verify", tmp_path / "plan.json", file)[0] == 0


def test_points_of_the_front_have_their_hosts_and_are_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = planned(capsys, EXAMPLE, "--front", 3, "--out", tmp_path / "front.json")
    assert json.loads((tmp_path / "front.json").read_text()) == made
    for point in made["points"]:
        assert len(point["instances"]) == len(made["operators"]) == 8
        assert [len(hosts) - 1 for hosts in point["instances"]] == point["levels"]
    code, _, err = run(capsys, "plan", "replicas", EXAMPLE, "--front", 3, "--out", tmp_path / "front.json")
    assert code == 2
    assert "front.json" in err


@pytest.mark.parametrize("words", [("--target", "0.9"), ("--front", "3")])
@pytest.mark.parametrize("of", [("--importance", "gain"), ("--selection", "knapsack"), ("--placement", "coloured")])
def test_what_a_search_would_not_look_at_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str], of: tuple[str, str]
) -> None:
    code, out, err = run(capsys, "plan", "replicas", EXAMPLE, *words, *of)
    assert (code, out) == (2, "")
    assert f"{of[0]}: is of the heuristics" in err


@pytest.mark.parametrize("words", [("--optimise",), ("--front", 3), ("--target", 0.9)])
def test_a_page_stands_beside_the_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[object, ...]
) -> None:
    from analysis.report import page  # noqa: PLC0415

    monkeypatch.setattr(page, "_plotly", lambda: "/* plotly */")
    made = tmp_path / "page.html"
    assert run(capsys, "plan", "replicas", EXAMPLE, *words, "--report", made)[0] == 0
    assert "stock ticks on eight hosts" in made.read_text()
    code, _, err = run(capsys, "plan", "replicas", EXAMPLE, *words, "--report", made)
    assert (code, "--report" in err and "exists" in err) == (2, True)


def test_a_plan_has_a_certificate_that_verify_reads_and_one_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept, file = tmp_path / "plan.json", tmp_path / "templates.toml"
    file.write_text("p = 0.02\n[templates]\nload = 6.0\nseed = 1\n[hosts]\ncount = 10\n")
    made = planned(capsys, file, "--optimise", "--importance", "product", "--out", kept)
    assert made["certificate"]["multipliers"]
    code, out, _ = run(capsys, "verify", kept, file)
    assert code == 4  # whole variables of the solver prove the rest of the bound, and leave no certificate
    assert "the plan breaks no rule, but not all that it claims is proven" in out
    assert f"not checked: that nothing is below {made['bound']:.6g}, which takes a solver" in out
    proven = float(re.search(r"checked: .*that nothing is below (\S+?);", out)[1])  # type: ignore[index]
    less = {"bound": 0.99 * proven, "gap": None}
    kept.write_text(json.dumps(made | less))
    code, out, _ = run(capsys, "verify", kept, file)
    assert code == 0
    assert "the bound, from its certificate" in out
    rows = made["certificate"]["rows"]
    for wrong in ([], {"rows": -1, "multipliers": {}}, {"rows": 2, "multipliers": {"2": 1.0}}, {"rows": rows}):
        kept.write_text(json.dumps(made | {"certificate": wrong}))
        code, _, err = run(capsys, "verify", kept, file)
        assert code == 2
        assert "certificate" in err
        assert "Traceback" not in err
    for value in (-1.0, None, "much", True):
        kept.write_text(json.dumps(made | {"certificate": {"rows": rows, "multipliers": {"0": value}}}))
        assert run(capsys, "verify", kept, file)[0] == 2
    kept.write_text(json.dumps(made | {"bound": made["objective"], "gap": 0.0, "certificate": None}))
    assert "takes a solver" in run(capsys, "verify", kept, file)[1]


def test_replicas_that_run_stay_but_for_the_moves_and_verify_counts_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    ran = planned(capsys, EXAMPLE, "--importance", "product", "--budget", 0.4, "--out", before)
    words = ("--from", before, "--max-moves", 1, "--optimise", "--out", after, "--force")
    made = planned(capsys, EXAMPLE, *words)
    assert [hosts[0] for hosts in made["instances"]] == [hosts[0] for hosts in ran["instances"]]
    pairs = zip(ran["instances"], made["instances"], strict=True)
    assert sum(len(set(old[1:]) - set(new[1:])) for old, new in pairs) == made["moves"] <= 1
    assert made["running"] == ran["instances"]
    assert made["compared"]["product"]["moves"] == 0
    assert made["objective"] < ran["objective"]
    code, out, _ = run(capsys, "verify", after, EXAMPLE)
    assert code == 0
    assert "the moves" in out
    assert (
        f"Of {sum(len(one) - 1 for one in ran['instances'])} replicas that run"
        in run(capsys, "plan", "replicas", EXAMPLE, *words)[1]
    )
    after.write_text(json.dumps(made | {"moves": made["moves"] + 1}))
    assert run(capsys, "verify", after, EXAMPLE)[0] == 4
    for wrong, said in (("x", "running = x"), ([], "must have 8 operators"), ([[0, 99]] + [[]] * 7, "[99]")):
        after.write_text(json.dumps(made | {"running": wrong}))
        code, _, err = run(capsys, "verify", after, EXAMPLE)
        assert (code, said in err) == (2, True)


def test_a_query_that_went_takes_its_operators_along_and_lists_say_the_same_as_a_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, file = tmp_path / "before.json", tmp_path / "queries.toml"
    ran = planned(capsys, EXAMPLE, "--importance", "product", "--out", before)
    text = EXAMPLE.read_text()
    start, end = text.index("[queries.average.operators]"), text.index("[queries.alerts.operators]")
    file.write_text(text[:start] + text[end:])
    made = planned(capsys, file, "--importance", "product", "--from", before, "--max-moves", 0)
    where = {name: hosts for own, hosts in zip(ran["names"], ran["instances"], strict=True) for name in own}
    assert made["running"] == [where[name] for name in made["operators"]]
    lists = "".join(f'"{name}" = {where[name]}\n' for name in made["operators"])
    file.write_text(file.read_text() + "moves = 0\n\n[placed]\n" + lists)
    again = planned(capsys, file, "--importance", "product")
    assert (again["instances"], again["moves"], again["max_moves"]) == (made["instances"], 0, 0)
    code, _, err = run(capsys, "plan", "replicas", file, "--from", before)
    assert code == 2
    assert "say what runs in one of them" in err


def test_moves_that_are_too_few_or_of_nothing_and_plans_of_other_queries_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = tmp_path / "before.json"
    made = planned(capsys, EXAMPLE, "--importance", "product", "--out", before)
    code, _, err = run(capsys, "plan", "replicas", EXAMPLE, "--from", before, "--max-moves", 1, "--budget", 0.1)
    assert code == 3
    assert "have to leave their hosts, for the budget or the room of hosts; at most 1 may" in err
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"kind": "front"}, "is a front"),
        ({"instances": None}, "has no plan of replicas"),
        ({"instances": [[one[0]] * 2 for one in made["instances"]]}, "has a replica on the host of its primary"),
        ({"instances": [[99]] * 8}, "is not a host for primaries: there are 8"),
        ({"instances": [[]] * 8}, "has no host"),
        ({"names": [["x.y"]] * 8}, "has no operator of these queries"),
        ({"names": "x"}, "must be the names of 8 operators"),
        ({"names": [made["operators"][:1]] * 8}, "is the same operator as"),
    ]
    for change, said in wrong:
        before.write_text(json.dumps(made | change))
        code, out, err = run(capsys, "plan", "replicas", EXAMPLE, "--from", before)
        assert (code, out) == (2, "")
        assert said in err
        assert "Traceback" not in err
    for words in (("--max-moves", 1), ("--max-moves", -1)):
        code, _, err = run(capsys, "plan", "replicas", EXAMPLE, *words)
        assert code == 2
        assert "--max-moves" in err


def test_a_target_that_is_no_probability_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = planned(capsys, EXAMPLE, "--target", 0.985)
    (tmp_path / "plan.json").write_text(json.dumps(made | {"target": -0.985}))
    code, _, err = run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)
    assert (code, "target = -0.985: must be a probability" in err) == (2, True)


def test_a_budget_in_replicas_limits_every_plan_and_verify_counts_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept, file = tmp_path / "plan.json", tmp_path / "queries.toml"
    made = planned(capsys, EXAMPLE, "--optimise", "--budget-replicas", 3, "--out", kept)
    assert made["max_replicas"] == 3
    assert max(one["replicas"] for one in made["compared"].values()) == 3
    assert made["cost"] <= made["capacity"]
    assert run(capsys, "verify", kept, EXAMPLE)[0] == 0
    kept.write_text(json.dumps(made | {"max_replicas": 2}))
    code, out, _ = run(capsys, "verify", kept, EXAMPLE)
    assert (code, "there are 3 replicas, at most 2 are allowed" in out) == (4, True)
    file.write_text(EXAMPLE.read_text() + "budget_replicas = 3\n")
    same = planned(capsys, file, "--optimise")
    assert (same["instances"], same["max_replicas"]) == (made["instances"], 3)
    fewer = planned(capsys, file, "--optimise", "--budget-replicas", 1)
    assert sum(len(hosts) - 1 for hosts in fewer["instances"]) == 1
    assert "and be 3 at most" in run(capsys, "plan", "replicas", file, "--importance", "degree")[1]


def test_a_front_over_replicas_has_a_plan_for_each_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    points = planned(capsys, EXAMPLE, "--front", 3, "--over", "replicas", "--budget-replicas", 2)["points"]
    counts = [one["replicas"] for one in points]
    assert counts == sorted(set(counts))
    assert all(count <= one["budget"] <= 2 for count, one in zip(counts, points, strict=True))
    broken = [one["broken"] for one in points]
    assert broken == sorted(broken, reverse=True)
    assert all(one["bound"] <= one["broken"] and one["cost"] <= 0.8 for one in points)
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, "plan", "replicas", EXAMPLE, "--front", 3, "--over", "replicas", "--report", page)
    assert (code, "replicas" in out) == (0, True)
    assert "%{x:,.4~r}\\u00a0replicas: broken" in page.read_text()


@pytest.mark.parametrize("words", [("--optimise",), ("--target", 0.9), ("--front", 4)])
def test_a_plan_that_the_time_limit_cut_short_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[object, ...]
) -> None:
    words = (*words, "--time-limit", "1e-9")
    made = planned(capsys, EXAMPLE, *words, "--out", tmp_path / "plan.json")
    notes = [made["note"]] if "note" in made else [one["note"] for one in made["points"]]
    assert "the time limit struck" in notes[-1]
    assert "cut short" in run(capsys, "plan", "replicas", EXAMPLE, *words)[1]
    if words[0] != "--front":
        assert run(capsys, "verify", tmp_path / "plan.json", EXAMPLE)[0] == 0
    if words[0] == "--optimise":
        assert set(made["compared"]) == {"degree", "optimised"}
        assert "struck before: utilisation" in run(capsys, "plan", "replicas", EXAMPLE, *words)[1]


def test_the_queries_that_a_host_breaks_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = {4: [0, 2], 1: [1]}
    monkeypatch.setattr(plan_replicas, "broken_alone", lambda plan, problem: alone)
    plan: Any = SimpleNamespace(instances=())
    problem: Any = SimpleNamespace(n_queries=9)
    names = tuple("abcdefghi")
    assert plan_replicas._alone(plan, problem, names) == [
        "Broken by a single host: 3 of 9 queries (a, b, c). Host 4 breaks the most of them, 2 (a, c)."
    ]
    alone[4] = list(range(9))
    assert plan_replicas._alone(plan, problem, names) == [
        "Broken by a single host: 9 of 9 queries (a, b, c, d, e, f and 3 more). Host 4 by itself breaks all of them."
    ]
