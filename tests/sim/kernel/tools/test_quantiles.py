"""Gamma and lognormal times from polynomials: those of SciPy's inverses, or none.

Oracle: `scipy.special`, whose functions the exact law calls (`test_compiled_draws`), and the rounding of NumPy.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaincinv, ndtri

from models.distributions import Gamma, LogNormal
from models.scenario.job import Operator
from sim.kernel.tools.cache import kernel
from sim.kernel.tools.draws import GAMMA, LOGNORMAL, UNSURE, pack_draws, service_ns, uniform
from sim.kernel.tools.pointer import State
from sim.kernel.tools.quantiles import PIECES, WIDTH, has_quantiles, quantile_ns, quantiles, quantiles_of

DRAW = np.random.default_rng(12)
ENDS = [2.0**-54, 2.0**-12, 2.0**-11 - 2.0**-63, 0.5, 1 - 2.0**-12, 1 - 2.0**-53]
EDGES = [2.0**-11, 0.25, 0.5 - 2.0**-54, 0.5 + 2.0**-53, 0.75, 1 - 2.0**-11, *(k / 64 for k in range(1, 64) if k != 32)]
SHAPES = [(GAMMA, shape) for shape in (0.05, 0.5, 1.0, 2.0, 7.3, 40.0, 5000.0)]
SIGMAS = [(LOGNORMAL, sigma) for sigma in (0.01, 0.47, 2.0)]


class Numbers(
    State,
    arrays={"quantiles": np.dtype("f8"), "numbers": np.dtype("f8"), "found": np.dtype("i8")},
    records={},
    type_name="tests.Numbers",
):
    """Hold what the function reads, numbers, and the times at them."""


@kernel
def each(state: State, scale_ns: float) -> None:
    for k in range(state.numbers.shape[0]):
        state.found[k] = quantile_ns(state, 0, scale_ns, state.numbers[k])


def numbers(count: int) -> np.ndarray:
    return np.concatenate([ENDS, EDGES, np.clip(DRAW.random(count), 2.0**-54, 1 - 2.0**-53)])


def scale_s(law: int, parameter: float, mean_s: float) -> float:
    return mean_s / parameter if law == GAMMA else math.exp(math.log(mean_s) - parameter**2 / 2)


def quick(law: int, parameter: float, mean_s: float, u: np.ndarray, table: np.ndarray | None = None) -> np.ndarray:
    own = quantiles(law, parameter) if table is None else table
    state = Numbers(quantiles=own.copy(), numbers=u, found=np.zeros(u.size, np.int64))
    each(state, scale_s(law, parameter, mean_s) * 1e9)
    return state.found


def by_library(law: int, parameter: float, mean_s: float, u: np.ndarray) -> np.ndarray:
    if law == GAMMA:
        seconds = mean_s / parameter * gammaincinv(parameter, u)
    else:
        mu = math.log(mean_s) - parameter**2 / 2
        seconds = np.array([math.exp(x) for x in (mu + parameter * ndtri(u)).tolist()])
    return np.maximum(1, np.rint(seconds * 1e9)).astype(np.int64)


def differ(law: int, parameter: float, mean_s: float, u: np.ndarray, table: np.ndarray | None = None) -> int:
    found = quick(law, parameter, mean_s, u, table)
    known = found != UNSURE
    return int(np.count_nonzero(found[known] != by_library(law, parameter, mean_s, u)[known]))


@pytest.mark.parametrize("mean_s", [1e-8, 2e-5, 4e-3, 0.3, 60.0])
@pytest.mark.parametrize(("law", "parameter"), [*SHAPES, *SIGMAS])
def test_a_time_is_that_of_the_library_or_unsure(law: int, parameter: float, mean_s: float) -> None:
    u = numbers(4000)
    assert differ(law, parameter, mean_s, u) == 0
    if mean_s < 0.01:
        unsure = np.count_nonzero(quick(law, parameter, mean_s, u) == UNSURE)
        assert unsure < len(ENDS) + u.size // 100


@pytest.mark.slow
@pytest.mark.parametrize("mean_s", [2e-5, 4e-3, 0.3, 60.0])
@pytest.mark.parametrize(("law", "parameter"), [*SHAPES, *SIGMAS])
def test_millions_of_times_are_those_of_the_library_or_unsure(law: int, parameter: float, mean_s: float) -> None:
    assert differ(law, parameter, mean_s, numbers(3_000_000)) == 0


@pytest.mark.parametrize(("law", "parameter"), [(GAMMA, 2.0), (LOGNORMAL, 0.5)])
def test_a_polynomial_that_is_off_by_a_hundred_millionth_is_noticed(law: int, parameter: float) -> None:
    table = quantiles(law, parameter).reshape(PIECES, WIDTH).copy()
    table[:, 0] *= 1 + 1e-8
    assert differ(law, parameter, 0.3, numbers(4000), table.reshape(-1)) > 0


@pytest.mark.parametrize(("law", "parameter"), [(GAMMA, 2.0), (LOGNORMAL, 0.5)])
def test_without_the_margin_some_times_would_be_others(law: int, parameter: float) -> None:
    u, mean_s = numbers(20_000), 60.0
    table = quantiles(law, parameter).reshape(PIECES, WIDTH).copy()
    table[:, WIDTH - 2] = 0.0
    found, right = quick(law, parameter, mean_s, u, table.reshape(-1)), by_library(law, parameter, mean_s, u)
    others = (found != UNSURE) & (found != right)
    assert others.any()
    assert (quick(law, parameter, mean_s, u)[others] == UNSURE).all()


@pytest.mark.parametrize(("shape", "u"), [(0.0010700, 0.46874399), (0.0018883, 0.26561900)])
def test_what_is_left_out_is_measured_where_it_is_largest(shape: float, u: float) -> None:
    # Of so skewed a law it is largest at the upper end of a part. The mean makes the quantile some 1.5 ns.
    number = np.array([u])
    mean_s = 1.509e-9 * shape / float(gammaincinv(shape, u))
    assert differ(GAMMA, shape, mean_s, number) == 0


def test_far_ends_and_one_half_are_unsure() -> None:
    assert (quick(GAMMA, 2.0, 4e-3, np.array(ENDS)) == UNSURE).all()
    assert (quick(GAMMA, 2.0, 4e-3, np.array(EDGES)) != UNSURE).all()


def test_times_that_are_too_long_to_tell_are_unsure() -> None:
    assert (quick(GAMMA, 2.0, 1e9, numbers(100)) == UNSURE).all()


@pytest.mark.parametrize("law", [Gamma(mean_s=4e-3, shape=2.0), LogNormal(mean_s=5e-3, cv=0.5)])
def test_the_record_of_an_operator_has_what_the_polynomials_need(law: Gamma | LogNormal) -> None:
    record = pack_draws(Operator(kind="map", inputs={"src": "shuffle"}, service=law), 1, 0, "x")[0]
    assert has_quantiles(int(record["law"]))
    ids = np.arange(1, 500, dtype=np.uint64)
    u = np.array([uniform(one, record[()]["stream"]) for one in ids])
    state = Numbers(quantiles=quantiles_of(record[()]), numbers=u, found=np.zeros(u.size, np.int64))
    each(state, float(record["scale_ns"]))
    exact = np.array([service_ns(record[()], one) for one in ids])
    known = state.found != UNSURE
    assert known.sum() > 490
    assert np.array_equal(state.found[known], exact[known])
