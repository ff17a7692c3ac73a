"""Runs as the paper on selective replication made them: hosts fail or not, and queries are counted.

Simple, for few runs: one state of all hosts for each run. `sim.sampling.plain` is for many runs, with an interval for
each query.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray
from models.errors import InputError
from models.reliability.queries import Queries
from sim.draws import code_of


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
