"""Which value of a key is best for each setting of the others: by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.runs.undone_moves import UndoneMoves
from models.errors import InputError
from scenarios.sweeps.best import best_sentence, best_summary, best_table, check_best, choices
from scenarios.sweeps.plan import short_values

METRIC, DONE = "latency_s.mean", "moves.completion_s"
KEY, RATE = "events.move.protocol", "workload.in.rate"


def swept(
    values: Mapping[tuple[str, str], Sequence[float | None]],
    key: str = KEY,
    open_ended: Mapping[tuple[str, str], Sequence[int]] = {},
    cancelled: Mapping[tuple[str, str], Sequence[int]] = {},
    values_of_key: Sequence[str] = ("dcr", "ccr", "dsm"),
) -> Any:
    """The result of a sweep of protocols at some rates; `values` of the metric by (rate, protocol).

    Moves did not end in the replications `open_ended`, and were cancelled in those `cancelled`.
    """
    axes = {RATE: tuple(dict.fromkeys(rate for rate, _ in values)), key: (*values_of_key,)}
    points = [SimpleNamespace(settings=dict(zip(axes, point, strict=True))) for point in product(*axes.values())]
    runs = []
    for one in points:
        at = tuple(one.settings.values())
        own: dict[int, dict[str, float | None]] = {
            k: {METRIC: value, "moves.bytes": 0.0} for k, value in enumerate(values.get(at, ()))
        }
        for k in set(own) - {*open_ended.get(at, ()), *cancelled.get(at, ())}:
            own[k][DONE] = 1.0
        for k in cancelled.get(at, ()):
            own[k]["moves.cancelled"] = 1.0
        runs.append(own)
    plan = SimpleNamespace(points=points, scenario=SimpleNamespace(sweep=axes))
    return SimpleNamespace(plan=plan, replications=runs.__getitem__)


def test_the_lowest_mean_is_best_and_the_next_one_is_compared_with_it() -> None:
    (one,) = choices(
        swept({("1 /s", "dcr"): [0.30, 0.34], ("1 /s", "ccr"): [0.20, 0.22], ("1 /s", "dsm"): [0.50, 0.55]}),
        KEY,
        METRIC,
    )
    assert one.settings == {RATE: "1 /s"}
    assert one.means == pytest.approx((0.32, 0.21, 0.525))
    assert one.best == (1, 0)  # differences 0.10 and 0.12: 0.11 ± 12.7 * 0.01, which includes zero
    assert one.lead is not None and one.lead.difference.mean == pytest.approx(0.315)  # ± 12.7 * 0.015


def test_a_value_whose_moves_do_not_end_is_not_best_whatever_its_mean() -> None:
    values = {("1 /s", "dcr"): [0.3, 0.3], ("1 /s", "ccr"): [0.2, 0.2], ("1 /s", "dsm"): [0.5, 0.5]}
    result = swept(values, open_ended={("1 /s", "ccr"): [1]})
    (one,) = choices(result, KEY, METRIC)
    assert (one.means, one.best, one.following, one.undone) == ((0.3, 0.2, 0.5), (0,), 2, {1: UndoneMoves(1, 0)})
    assert best_sentence(result, KEY, METRIC).endswith(
        "in 1 setting: dcr in 1. Moves did not end with ccr in 1: not best there."
    )
    assert best_summary(result, KEY, [METRIC])[METRIC][0]["unfinished"] == ["ccr"]


def test_a_value_whose_moves_are_cancelled_is_not_best_and_is_told_apart() -> None:
    values = {("1 /s", "dcr"): [0.3, 0.3], ("1 /s", "ccr"): [0.2, 0.2], ("1 /s", "dsm"): [0.1, 0.1]}
    result = swept(values, open_ended={("1 /s", "ccr"): [1]}, cancelled={("1 /s", "dsm"): [0], ("1 /s", "ccr"): [0]})
    (one,) = choices(result, KEY, METRIC)
    assert (one.best, one.undone) == ((0,), {1: UndoneMoves(1, 1), 2: UndoneMoves(0, 1)})
    assert best_sentence(result, KEY, METRIC).endswith(
        "dcr in 1. Moves did not end with ccr in 1 and were cancelled with ccr in 1, dsm in 1: not best there."
    )
    (found,) = best_summary(result, KEY, [METRIC])[METRIC]
    assert (found["unfinished"], found["cancelled"]) == (["ccr"], ["ccr", "dsm"])


def test_where_no_move_ends_nothing_is_best() -> None:
    result = swept({("1 /s", "dcr"): [0.3]}, open_ended={("1 /s", "dcr"): [0]})
    assert choices(result, KEY, METRIC)[0].best == ()
    said = f"No value of {KEY} is best by {METRIC}. Moves did not end with dcr in 1: not best there."
    assert best_sentence(result, KEY, METRIC) == said


def test_of_equal_means_the_first_comes_first_and_what_has_no_runs_is_left_out() -> None:
    (one,) = choices(swept({("1 /s", "ccr"): [0.2, 0.2], ("1 /s", "dcr"): [0.2, 0.2]}), KEY, METRIC)
    assert (one.means, one.best, one.lead) == ((0.2, 0.2, None), (0, 1), None)


def test_means_are_over_the_replications_that_all_have() -> None:
    # Alone dsm would be the best, with its one run that came to an end.
    values = {("1 /s", "dcr"): [2.0, 9.0], ("1 /s", "ccr"): [1.0, 8.0], ("1 /s", "dsm"): [3.0, None]}
    (one,) = choices(swept(values), KEY, METRIC)
    assert one.means == (2.0, 1.0, 3.0)


def test_seeds_are_compared_without_pairs() -> None:
    values = {("1 /s", "dcr"): [1.0, 2.0, 3.0], ("1 /s", "ccr"): [1.5, 2.5, 3.5], ("1 /s", "dsm"): [9.0, 9.5, 9.9]}
    (paired,), (seeds,) = choices(swept(values), KEY, METRIC), choices(swept(values, "seed"), "seed", METRIC)
    assert paired.best == (0,)
    assert seeds.best == (0, 1)
    assert seeds.lead is not None and not seeds.lead.paired


def test_the_table_and_the_sentence_name_the_best_at_each_setting() -> None:
    result = swept({
        ("1 /s", "dcr"): [0.3, 0.3], ("1 /s", "ccr"): [0.2, 0.2], ("1 /s", "dsm"): [0.5, 0.5],
        ("9 /s", "dcr"): [0.3, 0.3], ("9 /s", "ccr"): [0.4, 0.4], ("9 /s", "dsm"): [0.3, 0.3],
    })  # fmt: skip
    table = best_table(result, KEY, METRIC)
    assert table.title == "Best protocol by latency_s.mean"
    assert [column.head for column in table.columns] == ["rate", "dcr", "ccr", "dsm", "best", "next"]
    assert table.cells == (
        ("1 /s", "300 ms", "200 ms", "500 ms", "ccr", "+50 %"),
        ("9 /s", "300 ms", "400 ms", "300 ms", "dcr, dsm", "+33.3 %"),
    )
    said = "Lowest latency_s.mean, or not told from it, in 2 settings: ccr in 1, dcr in 1, dsm in 1."
    assert best_sentence(result, KEY, METRIC) == said
    assert best_sentence(result, KEY, "latency_s.p99") == f"No value of {KEY} has latency_s.p99."


@pytest.mark.parametrize(("many", "terminal", "page"), [(4, 4, 4), (5, 0, 5), (12, 0, 12), (13, 0, 0)])
def test_pages_have_room_for_the_means_of_more_values_than_terminals(many: int, terminal: int, page: int) -> None:
    names = [f"p{k}" for k in range(many)]
    result = swept({("1 /s", name): [0.2 + k] for k, name in enumerate(names)}, values_of_key=names)
    table = best_table(result, KEY, METRIC)
    assert [sum(head in names for head in one.heads) for one in (table.brief, table)] == [terminal, page]


def test_of_one_replication_the_lowest_is_best_alone_and_a_sentence_says_so() -> None:
    result = swept({("1 /s", "dcr"): [0.30], ("1 /s", "ccr"): [0.20], ("1 /s", "dsm"): [0.25]})
    (one,) = choices(result, KEY, METRIC)
    assert (one.best, one.following, one.intervals) == ((1,), 2, False)
    assert best_table(result, KEY, METRIC).cells == (("1 /s", "300 ms", "200 ms", "250 ms", "ccr", "+25 %"),)
    assert best_sentence(result, KEY, METRIC) == (
        "Lowest latency_s.mean in 1 setting: ccr in 1. One replication gives no interval: the lowest alone counts as "
        "best, which may be chance."
    )


def test_of_one_replication_equal_values_are_both_best() -> None:
    (one,) = choices(swept({("1 /s", "dcr"): [0.2], ("1 /s", "ccr"): [0.2], ("1 /s", "dsm"): [0.3]}), KEY, METRIC)
    assert (one.best, one.following) == ((0, 1), 2)


def test_a_setting_with_one_replication_among_others_is_told() -> None:
    values = {(rate, name): [0.2, 0.2] for rate in ("1 /s", "9 /s") for name in ("dcr", "ccr")}
    said = best_sentence(swept(values | {("9 /s", "ccr"): [0.3, None]}), KEY, METRIC)
    assert said == (
        "Lowest latency_s.mean, or not told from it, in 2 settings: dcr in 2, ccr in 1. In 1 of them values have one "
        "replication, which gives no interval: there the lowest counts alone."
    )


def test_the_summary_has_means_best_values_and_the_next() -> None:
    result = swept({("1 /s", "dcr"): [0.5, 0.5], ("1 /s", "ccr"): [0.25, 0.25], ("9 /s", "dsm"): [1.0, 1.0]})
    first, second = best_summary(result, KEY, [METRIC])[METRIC]
    assert first["settings"] == {RATE: "1 /s"}
    assert first["means"] == [
        {"value": "dcr", "mean": 0.5}, {"value": "ccr", "mean": 0.25}, {"value": "dsm", "mean": None},
    ]  # fmt: skip
    assert first["best"] == ["ccr"]
    assert first["next"]["value"] == "dcr"
    difference = first["next"]["difference"]
    assert (difference["mean"], difference["ci95"], difference["relative"]) == (0.25, (0.25, 0.25), 1.0)
    assert (second["best"], second["next"]) == (["dsm"], None)


def test_tables_are_shown_in_a_few_words_that_tell_them_apart() -> None:
    assert short_values(["1 s", 2, True]) == ["1 s", "2", "True"]
    assert short_values([{"mean": "2 ms", "over": {"cv": 3}}, ("a", "b")]) == ["2 ms, 3", "a, b"]
    assert short_values([{"mean": "2 ms"}, {"high": "2 ms"}]) == ["mean = 2 ms", "high = 2 ms"]
    alike = [{"name": "x" * 40, "mean": mean} for mean in ("1 s", "2 s")]
    assert short_values(alike) == [f"{k}: name = {'x' * 14}..." for k in (0, 1)]


def test_a_key_that_is_not_swept_is_refused() -> None:
    scenario: Any = SimpleNamespace(sweep={KEY: ("dcr", "ccr")})
    check_best(scenario, None)
    check_best(scenario, KEY)
    with pytest.raises(InputError, match=r'--best = event.move.protocol: .*did you mean "events.move.protocol"'):
        check_best(scenario, "event.move.protocol")
