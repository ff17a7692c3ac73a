"""Random numbers as functions of what they are for: uniform, independent between purposes, with the stated moments.

Seeds are fixed; every statistical check is at 99.9 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats
from small_jobs import queue

from models.distributions import TimeDistribution
from models.scenario.workload import UniformKeys, ZipfKeys
from sim.draws import (
    at_least_one_ns,
    child_id,
    code_of,
    count_sampler,
    cumulative_weights,
    generator,
    key_sampler,
    mix,
    source_id,
    time_sampler,
    uniform,
)
from sim.operator_plan import plan_operators

N = 20_000
LEVEL = 0.001
LAWS: list[dict[str, Any]] = [
    {"distribution": "deterministic", "value": "3 ms"},
    {"distribution": "exponential", "mean": "3 ms"},
    {"distribution": "gamma", "mean": "3 ms", "shape": 0.5},
    {"distribution": "gamma", "mean": "3 ms", "shape": 4.5},
    {"distribution": "erlang", "mean": "3 ms", "shape": 3},
    {"distribution": "lognormal", "mean": "3 ms", "cv": 0.7},
    {"distribution": "uniform", "low": "1 ms", "high": "9 ms"},
]


def ids(name: str = "tuples", count: int = N) -> list[int]:
    code = code_of("source", name, 0)
    return [source_id(code, sequence) for sequence in range(count)]


def law_of(raw: dict[str, Any]) -> Any:
    adapter: TypeAdapter[Any] = TypeAdapter(TimeDistribution)
    return adapter.validate_python(raw, context={"units": True}, by_alias=True, by_name=False)


def test_mix_is_a_bijection_on_what_we_can_see() -> None:
    assert len({mix(x) for x in range(100_000)}) == 100_000


@pytest.mark.parametrize("stream", ["service", "key", "selectivity"])
def test_uniform_numbers_are_uniform(stream: str) -> None:
    code = code_of(1, 0, "count", stream)
    found = np.array([uniform(i, code) for i in ids()])
    assert found.min() > 0
    assert found.max() < 1
    assert stats.chisquare(np.histogram(found, 100, (0, 1))[0]).pvalue > LEVEL
    assert stats.kstest(found, "uniform").pvalue > LEVEL


def test_children_are_as_uniform_as_their_parents() -> None:
    code, stream = code_of("operator", "split"), code_of(1, 0, "count", "service")
    found = [uniform(child_id(parent, code, index), stream) for parent in ids(count=N // 4) for index in range(4)]
    assert stats.chisquare(np.histogram(found, 100, (0, 1))[0]).pvalue > LEVEL


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 0, "count", "service"), (1, 0, "count", "selectivity")),
        ((1, 0, "count", "service"), (1, 0, "split", "service")),
        ((1, 0, "count", "service"), (1, 1, "count", "service")),
        ((1, 0, "count", "service"), (2, 0, "count", "service")),
    ],
    ids=["purpose", "operator", "replication", "seed"],
)
def test_streams_of_one_tuple_are_independent(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    first, second = code_of(*one), code_of(*other)
    x, y = (np.array([uniform(i, code) for i in ids()]) for code in (first, second))
    table = np.histogram2d(x, y, 10, [[0, 1], [0, 1]])[0]
    assert stats.chi2_contingency(table).pvalue > LEVEL


def test_neighbours_and_siblings_are_independent() -> None:
    stream, split = code_of(1, 0, "count", "service"), code_of("operator", "split")
    x = np.array([uniform(i, stream) for i in ids()])
    siblings = np.array([[uniform(child_id(i, split, k), stream) for k in (0, 1)] for i in ids()])
    for a, b in ((x[:-1], x[1:]), (siblings[:, 0], siblings[:, 1]), (x, siblings[:, 0])):
        assert stats.chi2_contingency(np.histogram2d(a, b, 10, [[0, 1], [0, 1]])[0]).pvalue > LEVEL


def test_ids_do_not_collide() -> None:
    split, other = code_of("operator", "split"), code_of("operator", "other")
    parents = ids()
    children = [child_id(i, code, k) for i in parents for code in (split, other) for k in range(3)]
    assert len({*parents, *children}) == len(parents) + len(children)


@pytest.mark.parametrize("raw", LAWS, ids=lambda raw: "-".join(str(value) for value in raw.values()))
def test_service_times_have_the_mean_and_variance_of_their_law(raw: dict[str, Any]) -> None:
    law = law_of(raw)
    sample = time_sampler(law, 1, 0, "count")
    found = np.array([sample(i) for i in ids()]) / 1e9
    if law.scv == 0:
        assert set(found) == {law.mean_s}
        return
    assert stats.ttest_1samp(found, law.mean_s).pvalue > LEVEL
    squares = (found - law.mean_s) ** 2
    assert stats.ttest_1samp(squares, law.scv * law.mean_s**2).pvalue > LEVEL


def test_a_replay_reads_the_same_service_times() -> None:
    law = law_of(LAWS[1])
    sample, again = (time_sampler(law, 1, 0, "count") for _ in range(2))
    some = ids(count=100)
    assert [sample(i) for i in some] == [again(i) for i in reversed(some)][::-1]


def test_drawn_times_are_never_zero_and_halves_go_to_even() -> None:
    assert [at_least_one_ns(x * 1e-9) for x in (0.0, 0.2, 1.5, 2.5, 3.5)] == [1, 1, 2, 2, 4]


@pytest.mark.parametrize("selectivity", [0.0, 0.3, 1.0, 1.7, 8.0])
def test_outputs_per_input_have_the_mean_of_the_selectivity(selectivity: float) -> None:
    sample = count_sampler(selectivity, 1, 0, "split")
    found = np.array([sample(i) for i in ids()])
    whole = int(selectivity)
    assert set(found) <= {whole, whole + 1}
    if selectivity == whole:
        assert set(found) == {whole}
        return
    hits = int((found - whole).sum())
    assert stats.binomtest(hits, N, selectivity - whole).pvalue > LEVEL


@pytest.mark.parametrize("keys", [UniformKeys(count=7), ZipfKeys(count=20, exponent=1.1)], ids=["uniform", "zipf"])
def test_keys_are_as_likely_as_their_weights(keys: UniformKeys | ZipfKeys) -> None:
    sample = key_sampler(keys, 1, 0, "split")
    counts = np.bincount([sample(i, 0) for i in ids()], minlength=keys.count)
    shares = np.diff(cumulative_weights(keys), prepend=0)
    assert stats.chisquare(counts, shares * N).pvalue > LEVEL


def test_a_shuffle_is_even_repeatable_and_of_its_own_in_each_replication() -> None:
    made = queue(LAWS[1], q={"parallelism": 5})

    def routes(replication: int) -> list[int]:
        edge = plan_operators(made, replication, {})[0].edges[0]
        return [edge.targets(tuple_id, 0, 0)[0] for tuple_id in ids()]

    first, other = routes(0), routes(1)
    assert first == routes(0)
    assert stats.chisquare(np.bincount(first)).pvalue > LEVEL
    assert stats.chi2_contingency(np.histogram2d(first, other, 5)[0]).pvalue > LEVEL


def test_named_generators_are_repeatable_and_differ() -> None:
    def first(*name: object, seed: int = 1, replication: int = 0) -> float:
        return float(generator(seed, replication, *name).random())

    assert first("h-0", "failures") == first("h-0", "failures")
    others = {first("h-1", "failures"), first("h-0", "arrivals"), first("h-0", "failures", seed=2)}
    assert len({*others, first("h-0", "failures", replication=1), first("h-0", "failures")}) == 5


def test_names_are_not_glued_together() -> None:
    assert code_of("ab", "c") != code_of("a", "bc")
