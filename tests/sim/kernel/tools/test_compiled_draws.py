"""Compiled draws are those of `sim.draws`, bit for bit, on many ids and on the edges of each law."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from models.scenario.job import Operator
from sim.draws import (
    child_id,
    code_of,
    count_sampler,
    key_sampler,
    mix,
    source_id,
    time_sampler,
    uniform,
)
from sim.kernel.tools import draws as twins

N = 20_000
ROOT = Path(__file__).parents[4]
MASK = 2**64 - 1
EDGES = [0, 1, 2, 2**31, 2**32, 2**63 - 1, 2**63, 2**63 + 1, MASK - 1, MASK]
RANDOM = np.random.default_rng(5).integers(0, 2**64, N, dtype=np.uint64)
IDS = np.concatenate([np.array(EDGES, np.uint64), RANDOM])
CODES = [code_of("source", "words", 3), *EDGES]
LAWS: list[dict[str, Any] | None] = [
    None,
    {"distribution": "deterministic", "value": "3 ms"},
    {"distribution": "deterministic", "value": "1.5 ns"},
    {"distribution": "exponential", "mean": "3 ms"},
    {"distribution": "exponential", "mean": "1 ns"},
    {"distribution": "exponential", "mean": "36500 d"},
    {"distribution": "uniform", "low": "0 ms", "high": "9 ms"},
    {"distribution": "uniform", "low": "0 s", "high": "4.7 ns"},
    {"distribution": "gamma", "mean": "3 ms", "shape": 0.001},
    {"distribution": "gamma", "mean": "3 ms", "shape": 0.5},
    {"distribution": "gamma", "mean": "3 ms", "shape": 1e6},
    {"distribution": "erlang", "mean": "3 ms", "shape": 1},
    {"distribution": "erlang", "mean": "3 ms", "shape": 7},
    {"distribution": "lognormal", "mean": "3 ms", "cv": 0.7},
    {"distribution": "lognormal", "mean": "3 s", "cv": 100.0},
]
KEYS = [
    {"distribution": "uniform", "count": 1},
    {"distribution": "uniform", "count": 5000},
    {"distribution": "uniform", "count": 10**9},
    {"distribution": "zipf", "count": 1, "exponent": 1.1},
    {"distribution": "zipf", "count": 5000, "exponent": 1.1},
    {"distribution": "zipf", "count": 400, "exponent": 200.0},  # most weights vanish
    {"distribution": "nexmark", "field": "auction.seller"},
]


def operator(**changes: Any) -> Operator:
    """An operator from the keys of a file."""
    raw = {"kind": "map", "inputs": {"src": "shuffle"}, **changes}
    return Operator.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


@njit
def each(function: Any, ids: np.ndarray, code: Any, out: np.ndarray) -> None:
    """function(id, code) of all ids, from compiled code."""
    for k in range(ids.size):
        out[k] = function(ids[k], code)


@njit
def each_with(function: Any, ids: np.ndarray, code: Any, last: Any, out: np.ndarray) -> None:
    """function(id, code, last) of all ids, from compiled code."""
    for k in range(ids.size):
        out[k] = function(ids[k], code, last)


@njit
def times(draws: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
    for k in range(ids.size):
        out[k] = twins.service_ns(draws[0], ids[k])


@njit
def counts(draws: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
    for k in range(ids.size):
        out[k] = twins.output_count(draws[0], ids[k])


@njit
def keys(draws: np.ndarray, cumulative: np.ndarray, ids: np.ndarray, out: np.ndarray) -> None:
    for k in range(ids.size):
        out[k] = twins.output_key(draws[0], cumulative, ids[k], 77)


@njit
def logs(x: np.ndarray, out: np.ndarray) -> None:
    for k in range(x.size):
        out[k] = math.log1p(-x[k])


@njit
def exponentials(x: np.ndarray, out: np.ndarray) -> None:
    for k in range(x.size):
        out[k] = math.exp(x[k])


def pack(made: Operator, key_first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    record, cumulative = twins.pack_draws(made, 7, 2, "count", key_first)
    return record.reshape(1), cumulative


def assert_equal(found: np.ndarray, expected: Callable[[int], Any]) -> None:
    """Every entry belongs to the id at its place."""
    assert np.array_equal(found, np.array([expected(i) for i in IDS.tolist()], found.dtype))


@pytest.mark.parametrize("code", CODES)
def test_hashes_and_uniform_numbers_are_equal(code: int) -> None:
    out, numbers = np.zeros(IDS.size, np.uint64), np.zeros(IDS.size)
    some = np.uint64(code)
    each(twins.uniform, IDS, some, numbers)
    assert_equal(numbers, lambda i: uniform(i, code))
    for index in (0, 3, 10**6):
        each_with(twins.child_id, IDS, some, index, out)
        assert_equal(out, lambda i, index=index: child_id(i, code, index))


def test_mix_and_source_ids_are_equal_for_signed_and_unsigned_numbers() -> None:
    assert [int(twins.mix(np.uint64(i))) for i in EDGES] == [mix(i) for i in EDGES]
    signed = np.array(EDGES, np.uint64).view(np.int64)
    assert [int(twins.mix(i)) for i in signed] == [mix(i) for i in EDGES]
    for code in CODES:
        for sequence in (0, 1, 2**40, 2**63 - 1):
            assert int(twins.source_id(np.uint64(code), sequence)) == source_id(code, sequence)
            assert int(twins.child_id(np.uint64(code), np.uint64(9), sequence)) == child_id(code, 9, sequence)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_service_times_are_equal(law: dict[str, Any] | None) -> None:
    made = operator(service=law)
    found = np.zeros(IDS.size, np.int64)
    times(pack(made)[0], IDS, found)
    if made.service is None:
        assert not found.any()
        return
    sample = time_sampler(made.service, 7, 2, "count")
    assert_equal(found, lambda i: min(sample(i), twins.LONGEST_NS))


def test_times_beyond_a_run_are_the_longest_and_halves_go_to_even() -> None:
    ns = [0.0, 0.4, 0.5, 1.5, 2.5, 3.5, 2.0**62 - 512, 2.0**62, 2.0**63, 1e300, math.inf]
    expected = [1, 1, 1, 2, 2, 4, 2**62 - 512, *[2**62] * 4]
    assert [twins.whole_ns(x) for x in ns] == expected


@pytest.mark.parametrize("selectivity", [0.0, 0.3, 1.0, 1.7, 8.0, 1e-9, 999_999.5])
def test_numbers_of_outputs_are_equal(selectivity: float) -> None:
    found = np.zeros(IDS.size, np.int64)
    counts(pack(operator(selectivity=selectivity))[0], IDS, found)
    assert_equal(found, count_sampler(selectivity, 7, 2, "count"))


@pytest.mark.parametrize("raw", KEYS, ids=str)
@pytest.mark.parametrize("before", [0, 13])
def test_keys_of_outputs_are_equal_wherever_their_table_begins(raw: dict[str, Any], before: int) -> None:
    made = operator(output={"keys": raw})
    record, cumulative = pack(made, before)
    found = np.zeros(IDS.size, np.int64)
    keys(record, np.concatenate([np.full(before, -1.0), cumulative, np.ones(1)]), IDS, found)
    assert made.output is not None
    assert made.output.keys is not None
    sample = key_sampler(made.output.keys, 7, 2, "count")
    assert_equal(found, lambda tuple_id: sample(tuple_id, 77))


def test_without_keys_of_its_own_an_output_keeps_the_key() -> None:
    found = np.zeros(IDS.size, np.int64)
    keys(pack(operator())[0], np.ones(1), IDS, found)
    assert (found == 77).all()


def id_with_hash(wanted: int, stream: int) -> int:
    """The tuple id whose number for this stream comes from the hash `wanted`: `mix` the other way round."""
    x = wanted
    x ^= (x >> 31) ^ (x >> 62)
    x = x * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    x ^= (x >> 27) ^ (x >> 54)
    x = x * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    x ^= (x >> 30) ^ (x >> 60)
    return (x - stream) & MASK


@pytest.mark.parametrize("law", [law for law in LAWS if law], ids=str)
@pytest.mark.parametrize("wanted", [0, 1 << 11, 1 << 63, MASK - (1 << 11)])
def test_the_ends_of_the_uniform_numbers_give_equal_times(law: dict[str, Any], wanted: int) -> None:
    made = operator(service=law)
    tuple_id = id_with_hash(wanted, code_of(7, 2, "count", "service"))
    found = np.zeros(1, np.int64)
    times(pack(made)[0], np.array([tuple_id], np.uint64), found)
    assert made.service is not None
    assert found[0] == min(time_sampler(made.service, 7, 2, "count")(tuple_id), twins.LONGEST_NS)


def test_the_one_hash_in_2_to_53_that_would_give_1_stays_within_times_and_keys() -> None:
    for field, purpose in (("service", "service"), ("keys", "key")):
        tuple_id = id_with_hash(MASK, code_of(7, 2, "count", purpose))
        assert uniform(tuple_id, code_of(7, 2, "count", purpose)) == 1 - 2**-53
        found, ids = np.zeros(1, np.int64), np.array([tuple_id], np.uint64)
        if field == "service":
            made = operator(service=LAWS[3])
            times(pack(made)[0], ids, found)
            assert made.service is not None
            assert found[0] == time_sampler(made.service, 7, 2, "count")(tuple_id)
        else:
            keys(pack(operator(output={"keys": KEYS[1]}))[0], np.ones(1), ids, found)
            assert found[0] == 4999


@pytest.mark.parametrize("partitions", [1, 2, 7, 2**20, 10**9])
def test_shuffles_and_shares_are_equal(partitions: int) -> None:
    code = code_of(7, 2, "src", "count", "shuffle")
    targets, taken = np.zeros(IDS.size, np.int64), np.zeros(IDS.size, np.bool_)
    each_with(twins.shuffle_target, IDS, np.uint64(code), partitions, targets)
    assert_equal(targets, lambda i: mix(i ^ code) % partitions)
    each_with(twins.takes, IDS, np.uint64(code), 1 / partitions, taken)
    assert_equal(taken, lambda i: uniform(i, code) < 1 / partitions)


def test_logarithm_and_exponential_are_those_of_the_interpreter() -> None:
    rng = np.random.default_rng(11)
    small = 10.0 ** -rng.uniform(0, 17, 5 * N)
    inside = np.concatenate([rng.random(40 * N), small[small < 1], (1 - small)[small > 2.0**-53]])
    found = np.zeros(inside.size)
    logs(inside, found)
    assert np.array_equal(found, [math.log1p(-x) for x in inside.tolist()])
    wide = np.concatenate([rng.normal(0, 5, 40 * N), rng.uniform(-745, 709, 10 * N)])
    found = np.zeros(wide.size)
    exponentials(wide, found)
    assert np.array_equal(found, [math.exp(x) for x in wide.tolist()])


IN_A_PROCESS = """
import numpy as np
from sim.kernel.tools import draws as twins
from models.scenario.job import Operator
laws = {"distribution": "gamma", "mean": 1.0, "shape": 2.5}, {"distribution": "lognormal", "mean": 1.0, "cv": 2.0}
for law in laws:
    record = twins.pack_draws(Operator(kind="map", service=law), 1, 0, "x")[0]
    print(twins.service_ns(record[()], np.uint64(12345)))
print(sum(twins.service_ns.stats.cache_hits.values()))
"""


def test_code_kept_on_disk_works_in_another_process(tmp_path: Path) -> None:
    # Functions of SciPy are elsewhere in each process.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    )
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == ("0", "1")
    laws: list[dict[str, Any]] = [
        {"distribution": "gamma", "mean": "1 s", "shape": 2.5},
        {"distribution": "lognormal", "mean": "1 s", "cv": 2.0},
    ]
    services = [operator(service=law).service for law in laws]
    expected = [time_sampler(law, 1, 0, "x")(12345) for law in services if law]
    assert [int(ns) for ns in first[:2]] == expected
