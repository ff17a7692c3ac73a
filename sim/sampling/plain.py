"""Availability of queries by sampling, 64 states of the cluster in a word.

Every figure has a 95 % interval (Wilson); an event that was never seen has a probability of "at most 3 / runs". Runs
come in blocks, each with random numbers of its own: seed and number of runs decide every figure, the number of workers
none. For rare failures see `sim.sampling.importance_sampling`.

`shares_running` makes runs as the paper on selective replication made them, for few runs: hosts fail or not, and broken
queries are counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.errors import InputError
from models.reliability.cuts import Cuts, elements, query_cuts
from models.reliability.queries import Failures, Queries
from models.reliability.times import Interval, effective, wilson
from sim.draws import code_of
from sim.sampling.states import count_words

BLOCK = 64 * 64  # runs that share random numbers
_BLOCKS_A_CALL = 64

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Estimate:
    """A sampled probability, and its 95 % interval (low, high)."""

    value: float
    interval: Interval


@dataclass(frozen=True, eq=False)
class Sampled:
    """Sampled availability in one setting, and how it was found.

    `queries`: P(broken) of each query. `mean`: mean share of broken queries, by weight. `some`: P(any query is broken).
    `law` (n_queries + 1,): the number of runs with k broken queries; None if runs have weights. `effective_runs`: the
    number of equally weighted runs that the runs are worth, or, with weights, the runs that broke something.
    """

    method: str
    runs: int
    queries: tuple[Estimate, ...]
    mean: Estimate
    some: Estimate
    law: IntArray | None
    effective_runs: float


@dataclass(frozen=True, eq=False)
class Arrays:
    """The cuts of all queries as kernels read them, in compressed rows.

    `cut_start` (n_cuts + 1,): cut c has the elements `cut_elements[cut_start[c]:cut_start[c + 1]]`. `query_start`
    (n_queries + 1,): query q has the cuts from `query_start[q]` to before `query_start[q + 1]`.
    """

    cut_start: IntArray
    cut_elements: IntArray
    query_start: IntArray

    @property
    def all(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return them in the order in which kernels take them."""
        return self.cut_start, self.cut_elements, self.query_start


def arrays_of(of_queries: Sequence[Cuts]) -> Arrays:
    """Return the minimal cuts of all queries, one after the other.

    >>> arrays = arrays_of([(0b11,), (0b1, 0b110)])  # bit masks of elements
    >>> [one.tolist() for one in arrays.all]
    [[0, 2, 3, 5], [0, 1, 0, 1, 2], [0, 1, 3]]
    """
    cut_start, inside, query_start = [0], [], [0]
    for cuts in of_queries:
        for cut in cuts:
            inside += list(elements(cut))
            cut_start.append(len(inside))
        query_start.append(len(cut_start) - 1)
    return Arrays(*(np.array(one, dtype=np.int64) for one in (cut_start, inside, query_start)))


def sampled(
    queries: Queries, failures: Failures, *, setting: int = 0, runs: int, seed: int = 1, workers: int = 1
) -> Sampled:
    """Return the estimate of one setting; `runs` is rounded up to whole blocks of 4,096.

    `setting`: row of the failure probabilities. `seed`, `runs`: decide every figure. `workers`: threads, which change
    no figure. Intervals are those of Wilson (1927). Raises InputError for arguments out of range.
    """
    check(failures, setting, runs, workers)
    arrays, chances = arrays_of(query_cuts(queries, failures)), failures.chances[setting]
    # Whole blocks: the draws of a block depend on its size, and so would every figure.
    blocks = -(-runs // BLOCK)
    parts = [range(first, min(first + _BLOCKS_A_CALL, blocks)) for first in range(0, blocks, _BLOCKS_A_CALL)]

    def count(part: range) -> tuple[IntArray, IntArray]:
        seeds = np.array([seed_of("plain", seed, block) for block in part], dtype=np.uint64)
        broken = np.zeros(queries.n_queries, dtype=np.int64)
        law = np.zeros(queries.n_queries + 1, dtype=np.int64)
        count_words(seeds, BLOCK // 64, chances, *arrays.all, broken, law)
        return broken, law

    found = in_parts(count, parts, workers)
    broken: IntArray = np.sum([one for one, _ in found], axis=0)
    law: IntArray = np.sum([one for _, one in found], axis=0)
    total = blocks * BLOCK
    each = tuple(Estimate(k / total, wilson(k, total)) for k in broken.tolist())
    some = total - int(law[0])
    mean = _mean_of(queries, broken, law, total)
    return Sampled("monte-carlo", total, each, mean, Estimate(some / total, wilson(some, total)), law, float(total))


def _mean_of(queries: Queries, broken: IntArray, law: IntArray, runs: int) -> Estimate:
    """Return the mean share of broken queries; its variance comes from the sampled law of their number."""
    shares = np.arange(len(law)) / queries.n_queries
    number = float(shares @ law) / runs
    variance = float(((shares - number) ** 2) @ law) / runs
    return Estimate(*mean_and_interval(queries, broken / runs, variance, runs))


def mean_and_interval(queries: Queries, broken: FloatArray, variance: float, runs: float) -> tuple[float, Interval]:
    """Return the mean share of broken queries by weight, and its 95 % interval.

    `broken` (n_queries,): share of runs that broke each query. `variance` is that of the unweighted share in one run.
    With unequal weights it is unknown; the largest variance for these frequencies is taken, that of queries which break
    together (Cauchy-Schwarz).
    """
    mean = float(queries.shares @ broken)
    if len(set(queries.weights)) > 1:
        # The variance of a sum is at most the square of the sum of standard deviations.
        variance = float(queries.shares @ np.sqrt(broken * (1 - broken))) ** 2
    return mean, wilson(*effective(mean, variance / max(1, runs - 1), runs))


def in_parts(work: Callable[[P], R], parts: Sequence[P], workers: int) -> list[R]:
    """Return the results in the order of the parts; the first in this thread, which compiles missing kernels.

    `work` must release the GIL to gain from threads, as kernels marked `nogil` do.
    """
    # Threads that start together would each wait for the same compilation.
    first = [work(parts[0])]
    if workers == 1 or len(parts) == 1:
        return first + [work(part) for part in parts[1:]]
    with ThreadPoolExecutor(min(workers, len(parts), 4 * (os.cpu_count() or 1))) as pool:
        try:
            return first + list(pool.map(work, parts[1:]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # or Ctrl-C would wait for all that has been submitted
            raise


def seed_of(*parts: object) -> int:
    """Return the state that random numbers of a block start from."""
    return code_of("availability", *parts)


def check(failures: Failures, setting: int, runs: int, workers: int) -> None:
    """Raise InputError for an unknown setting, and for numbers that are too small or too large."""
    if not 0 <= setting < failures.n_settings:
        raise InputError.at("setting", setting, f"is not a setting: there are {failures.n_settings}")
    if not 1 <= runs <= 10**12:
        raise InputError.at("runs", runs, "must be between 1 and 1e12")
    if workers < 1:
        raise InputError.at("workers", workers, "must be at least 1")


def shares_running(queries: Queries, p: FloatArray, runs: int, seed: int) -> FloatArray:
    """Return the share of queries, by weight, that run in each of `runs` states of the hosts, (n_p, runs).

    Every host is down with probability p. All values of p, and all placements on as many hosts, see the same
    random numbers: where a host is down it is so for every larger p. Raises InputError.
    """
    if not 1 <= runs <= 10**7:
        raise InputError.at("runs", runs, "must be between 1 and 1e7")
    # One number for a host and run, compared with each p: common random numbers make the curves monotone.
    drawn = np.random.default_rng(code_of("plain runs", seed)).random((queries.n_hosts, runs))
    needed = np.concatenate([np.array(one) for one in queries.operators])
    starts = np.concatenate([[0], np.cumsum([len(one) for one in queries.operators])])[:-1]
    found = np.empty((len(p), runs))
    for row, chance in enumerate(np.asarray(p, dtype=np.float64)):
        down = np.packbits(drawn < chance, axis=1)  # eight runs in a byte
        lost = np.array([np.bitwise_and.reduce(down[list(hosts)]) for hosts in queries.instances])
        broken = np.bitwise_or.reduceat(lost[needed], starts, axis=0)
        found[row] = 1.0 - queries.shares @ np.unpackbits(broken, axis=1, count=runs)
    return found
