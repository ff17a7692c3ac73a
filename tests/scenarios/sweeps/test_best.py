"""Which value of a key is best for each setting of the others: by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from models.errors import InputError
from scenarios.sweeps.best import best_sentence, best_table, check_best, choices

METRIC = "latency_s.mean"
KEY, RATE = "events.move.protocol", "workload.in.rate"


def swept(values: Mapping[tuple[str, str], Sequence[float | None]], key: str = KEY) -> Any:
    """The result of a sweep of two protocols at some rates; `values` of the metric by (rate, protocol)."""
    axes = {RATE: tuple(dict.fromkeys(rate for rate, _ in values)), key: ("dcr", "ccr", "dsm")}
    points = [SimpleNamespace(settings=dict(zip(axes, point, strict=True))) for point in product(*axes.values())]
    runs = [
        {k: {METRIC: value} for k, value in enumerate(values.get(tuple(one.settings.values()), ()))} for one in points
    ]
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


def test_a_key_that_is_not_swept_is_refused() -> None:
    scenario: Any = SimpleNamespace(sweep={KEY: ("dcr", "ccr")})
    check_best(scenario, None)
    check_best(scenario, KEY)
    with pytest.raises(InputError, match=r'--best = event.move.protocol: .*did you mean "events.move.protocol"'):
        check_best(scenario, "event.move.protocol")
