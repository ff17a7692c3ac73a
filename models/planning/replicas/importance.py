"""How much operators matter to the queries: importance between 0 and 1, by heuristics, and by the exact gain.

    query out degree    queries that use the operator / queries
    low utilisation     1 - load / largest load
    product             of both
    gain                how much the share of running queries rises with a replica on a host of its own

Source: Adaptive selective replication (VLDB PhD workshop 2013), sections 3.1 and 3.2.2. The gain is an exact
difference; a query out degree overstates it where the host carries other operators of the same query that have no
replica (`models.reliability.importance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.errors import InputError
from models.planning.replicas.problem import ReplicaProblem
from models.reliability.importance import replica_gain
from models.reliability.queries import Failures, Queries
from models.validation_messages import similar

IMPORTANCE = ("degree", "utilisation", "product", "gain", "random")


def importance(name: str, problem: ReplicaProblem, instances: Sequence[Sequence[int]], noise: FloatArray) -> FloatArray:
    """Return the importance of each operator, (n,), in [0, 1]; `random` takes `noise` (n,), which the caller draws.

    Raises InputError for a name that is none of IMPORTANCE.
    """
    if name == "degree":
        return degree(problem)
    if name == "utilisation":
        return low_utilisation(problem)
    if name == "product":
        return frozen(degree(problem) * low_utilisation(problem))
    if name == "gain":
        return gain(problem, instances)
    if name == "random":
        return frozen(np.asarray(noise, dtype=np.float64))
    raise InputError.at("importance", name, "must be one of " + ", ".join(IMPORTANCE), similar(name, IMPORTANCE))


def degree(problem: ReplicaProblem) -> FloatArray:
    """Return the share of all queries that use each operator, (n,)."""
    return frozen(problem.degree / problem.n_queries)


def low_utilisation(problem: ReplicaProblem) -> FloatArray:
    """Return 1 - load / largest load, (n,); 1 where nothing loads."""
    largest = float(problem.load.max())
    return frozen(1 - problem.load / largest if largest > 0 else np.ones(problem.n_operators))


def gain(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> FloatArray:
    """Return the gain of each operator from one more instance on a host of its own, relative to the largest, (n,).

    That host fails like the mean of those that take replicas, and independently. Zero for all where nothing gains.
    """
    found = exact_gains(problem, instances)
    largest = float(found.max())
    return frozen(found / largest if largest > 0 else found)


def exact_gains(problem: ReplicaProblem, instances: Sequence[Sequence[int]]) -> FloatArray:
    """Return how much the expected share of running queries rises with a replica on a host of its own, (n,)."""
    queries = replace(problem.queries(instances), n_hosts=problem.n_hosts + 1)
    first = problem.down[:1]
    open_hosts = problem.replica_hosts if problem.replica_hosts is not None else np.ones(problem.n_hosts, np.bool_)
    own = first[:, open_hosts].mean(axis=1) if open_hosts.any() else first.mean(axis=1)
    failures = Failures(np.concatenate([first, own[:, None]], axis=1))
    return frozen(np.array([_gain(queries, failures, o, problem.n_hosts) for o in range(problem.n_operators)]))


def _gain(queries: Queries, failures: Failures, operator: int, host: int) -> float:
    return float(replica_gain(queries, failures, operator, host).low[0])


def of_queries(problem: ReplicaProblem, of_operators: FloatArray) -> FloatArray:
    """Return the mean importance of each query's operators times the query's weight, (n_queries,)."""
    means = np.array([of_operators[list(needed)].mean() for needed in problem.operators])
    weights = np.array(problem.weights)
    return frozen(means * weights / weights.max())
