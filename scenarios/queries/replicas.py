"""Plans of replicas for a file of queries: the problem that it describes, plans by importance, and their worth."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.replicas import GOALS, IMPORTANCE, Instances, ReplicaPlan, ReplicaProblem
from models.queries.description import MOST_LEVELS
from models.reliability.importance import single_points
from models.schema_types import seed_faults
from models.validation_messages import similar
from optimizer.replicas import PLACEMENTS, SELECTIONS, plan
from optimizer.replicas.optimise import FrontPoint, cheapest, front, front_of_counts, most_available
from optimizer.replicas.placing import start_of
from scenarios.queries.files import LoadedQueries
from scenarios.queries.running_replicas import placed_by_file, placed_by_plan
from sim.draws import code_of

OPTIMISED = "optimised"
_RUNNING = "--from PLAN, or [placed] with lists of hosts"
_MOST_POINTS = 10_000  # of a front
_MOST_REPLICAS = 10**9  # that a budget may name
_SHORTEST_S = 0.01  # that a heuristic gets
OVER = ("cpus", "replicas")  # what budgets of a front count
_MOST_TRIED = 300_000  # operators times queries, of which what replicas are worth is found


@dataclass(frozen=True)
class Options:
    """Command-line options: overrides of the file, and the heuristics to use."""

    importance: tuple[str, ...] = IMPORTANCE
    selection: str = "stepwise"
    placement: str = "first-fit"
    p: tuple[float, ...] = ()
    budget: float | None = None
    level: int | None = None
    goal: str = "mean"
    seed: int = 1
    moves: int | None = None
    budget_replicas: int | None = None
    time_limit_s: float = math.inf
    running: Instances | None = None  # hosts of what runs, the primary first, () for new ones; None: as the file says


def problem_of(found: LoadedQueries, options: Options) -> ReplicaProblem:
    """Return the problem of a file; raises InputError for no hosts, unknown operators and hosts, bad numbers.

    Options go before the file. Faults have the path of the option or key that the user wrote. Spare hosts get the
    numbers after all others, and take replicas only.
    """
    hosts = found.query_set.hosts
    if hosts is None:
        raise InputError.at("hosts", NO_VALUE, "is missing: replicas need somewhere to go", "[hosts] with count = 10")
    raise_if_any(
        InputFault("--p", value, "must be a probability, between 0 and 1", "as in --p 0.01")
        for value in options.p
        if not 0 <= value <= 1
    )
    raise_if_any(seed_faults("--seed", options.seed))
    if options.budget is not None and not 0 <= options.budget < np.inf:
        raise InputError.at(
            "--budget", options.budget, "must be finite and not negative", "in CPUs, as in --budget 0.5"
        )
    if options.budget_replicas is not None and not 0 <= options.budget_replicas <= _MOST_REPLICAS:
        rule = f"must be a whole number, at least 0 and at most {_MOST_REPLICAS}"
        raise InputError.at("--budget-replicas", options.budget_replicas, rule, "how many, as in --budget-replicas 10")
    if options.level is not None and not 0 <= options.level <= MOST_LEVELS:
        rule = f"must be a whole number, at least 0 and at most {MOST_LEVELS}"
        raise InputError.at(
            "--level", options.level, rule, "1 is usual; a host has one instance of an operator at most"
        )
    if options.goal not in GOALS:
        raise InputError.at("--goal", options.goal, "must be one of " + ", ".join(GOALS), similar(options.goal, GOALS))
    spare = hosts.spare or 0
    count = hosts.count + spare
    if count > 10**5:
        raise InputError.at("hosts.count", count, "must be at most 100000, with the spare ones")
    # Spare hosts have the numbers after all others.
    is_spare = np.arange(count) >= hosts.count
    chances = options.p or found.query_set.chances
    limited = hosts.network_bytes_per_s is not None
    replicas = found.query_set.replicas
    placed = placed_by_file(found, hosts.count) if options.running is None else options.running
    running = tuple(own[1:] for own in placed)
    moves = replicas.moves if options.moves is None else options.moves
    if moves is not None and not any(running):
        path = "replicas.moves" if options.moves is None else "--max-moves"
        raise InputError.at(path, moves, "limits moves of replicas that run, and none run", _RUNNING)
    with _said_by_the_user(options, found.table.names):
        return ReplicaProblem(
            load=found.load,
            operators=found.table.operators,
            weights=found.table.weights,
            edges=found.table.edges,
            host_cpu=np.full(count, hosts.cpu),
            down=np.repeat(np.array(chances, dtype=np.float64)[:, None], count, axis=1),
            network=found.network if limited else None,
            host_network=np.full(count, hosts.network_bytes_per_s) if limited else None,
            primary=np.array([own[0] if own else -1 for own in placed]),
            primary_hosts=~is_spare,
            replica_hosts=None if hosts.spare is None else is_spare,
            budget=budget_of(options, found, spare * hosts.cpu),
            max_level=replicas.level if options.level is None else options.level,
            goal=options.goal,
            running=running if any(running) else (),
            max_moves=moves,
            max_replicas=replicas.budget_replicas if options.budget_replicas is None else options.budget_replicas,
        )


@contextmanager
def _said_by_the_user(options: Options, names: Sequence[str]) -> Iterator[None]:
    """Name faults of the problem by the option or key that the user wrote, not by the field that it became."""
    said = {"max_level": "replicas.level" if options.level is None else "--level", "goal": "--goal"}
    said["max_moves"] = "replicas.moves" if options.moves is None else "--max-moves"
    said |= {f"running[{o}]": f"replicas that run: {name}" for o, name in enumerate(names)}
    try:
        yield
    except InputError as error:
        raise InputError(
            *(replace(one, path=said.get(one.path) or _placed(one.path)) for one in error.faults)
        ) from None


def _placed(path: str) -> str:
    """Return the path of a fault; an overloaded host is one of those of the running primaries."""
    return f"placed: {path}" if path.startswith("host ") else path


def budget_of(options: Options, found: LoadedQueries, spare_cpus: float) -> float | None:
    """Return the CPUs that replicas may take: by option, by the file, or all of the spare hosts."""
    if options.budget is not None:
        return options.budget
    if found.query_set.replicas.budget is not None:
        return found.query_set.replicas.budget
    hosts = found.query_set.hosts
    return None if hosts is None or hosts.spare is None else spare_cpus


def running_by_plan(path: str | Path, found: LoadedQueries) -> Instances:
    """Return the hosts of what runs by a plan, the primary first, () for new operators; raises InputError."""
    hosts = found.query_set.hosts
    return placed_by_plan(path, found, 0 if hosts is None else hosts.count)


def noise_of(n: int, seed: int) -> FloatArray:
    """Return random numbers (n,) that decide ties, and what importance by chance is."""
    return frozen(np.random.default_rng(code_of("importance", seed)).random(n))


def plans(problem: ReplicaProblem, options: Options) -> dict[str, ReplicaPlan]:
    """Return a plan by each importance that is asked for; raises InputError for names that are none.

    After the time limit only those that are made already.
    """
    for name, given, known in (
        ("--selection", options.selection, SELECTIONS),
        ("--placement", options.placement, PLACEMENTS),
    ):
        if given not in known:
            raise InputError.at(name, given, "must be one of " + ", ".join(known), similar(given, known))
    for one in options.importance:
        if one not in IMPORTANCE:
            raise InputError.at(
                "--importance", one, "must be one of " + ", ".join(IMPORTANCE), similar(one, IMPORTANCE)
            )
    deadline = time.monotonic() + options.time_limit_s
    start = start_of(problem, options.placement)
    noise = noise_of(problem.n_operators, options.seed)
    make = partial(plan, selection=options.selection, placement=options.placement, noise=noise, primaries=start)
    found: dict[str, ReplicaPlan] = {}
    for one in options.importance:
        left_s = deadline - time.monotonic()
        if not found or left_s > 0:
            found[one] = make(problem, by=one, time_limit_s=max(left_s, _SHORTEST_S))
    return found


def found_plans(
    problem: ReplicaProblem, options: Options, *, target: float | None = None, optimise: bool = False
) -> dict[str, ReplicaPlan]:
    """Return the cheapest plan for a target, or a plan by each importance, and with `optimise` the best one too.

    All of it within the time limit. Raises InputError.
    """
    deadline = time.monotonic() + options.time_limit_s
    if target is not None:
        return {OPTIMISED: cheapest_of(problem, target, options.time_limit_s)}
    found = plans(problem, options)
    if optimise:
        found[OPTIMISED] = best_plan(problem, found[best_of(found)], max(0.0, deadline - time.monotonic()))
    return found


def best_plan(problem: ReplicaProblem, start: ReplicaPlan | None = None, time_limit_s: float = math.inf) -> ReplicaPlan:
    """Return the plan under which fewest queries are broken, with its bound; never worse than `start`."""
    return most_available(problem, start=None if start is None else start.instances, time_limit_s=time_limit_s)


def cheapest_of(problem: ReplicaProblem, target: float, time_limit_s: float = math.inf) -> ReplicaPlan:
    """Return the cheapest plan for a target; raises InputError for a target that is no probability."""
    if not 0 <= target <= 1:
        raise InputError.at("--target", target, "must be a probability, between 0 and 1", "as in --target 0.999")
    return cheapest(problem, target, time_limit_s=time_limit_s)


def front_of(
    problem: ReplicaProblem, points: int, time_limit_s: float = math.inf, over: str = OVER[0]
) -> list[FrontPoint]:
    """Return the Pareto front over CPUs, or over the number of replicas; empty where primaries find no host."""
    if not 2 <= points <= _MOST_POINTS:
        rule = f"must be at least 2, and at most {_MOST_POINTS}"
        raise InputError.at("--front", points, rule, "how many budgets, from nothing to all")
    return (front if over == OVER[0] else front_of_counts)(problem, points, time_limit_s=time_limit_s)


def no_room(problem: ReplicaProblem) -> ReplicaPlan:
    """Return the answer where primaries find no host."""
    return most_available(problem)


def best_of(found: Mapping[str, ReplicaPlan]) -> str:
    """Return the name of the best plan; of plans that only rounding sets apart the one with a bound, else the first."""

    def order(name: str) -> tuple[float, bool]:
        one = found[name]
        return (np.inf if one.objective is None else float(f"{one.objective:.12g}"), one.bound is None)

    return min(found, key=order)


def worth_of(plan: ReplicaPlan, problem: ReplicaProblem) -> dict[int, float]:
    """Return how much the mean share of broken queries rises if an operator alone gives up its replicas; exact.

    Of large plans nothing: each operator costs a look at all queries.

    Returned are shares of the mean query, weighted, in the first setting, by number of operator. Operators without
    replicas have no entry.
    """
    assert plan.instances is not None
    assert plan.broken is not None
    replicated = [op for op, hosts in enumerate(plan.instances) if len(hosts) > 1]
    if len(replicated) * problem.n_queries > _MOST_TRIED:
        return {}
    has = float(plan.broken[0] @ problem.shares)
    found = {}
    for op in replicated:
        without = [hosts[:1] if k == op else hosts for k, hosts in enumerate(plan.instances)]
        found[op] = max(0.0, float(problem.broken(without)[0] @ problem.shares) - has)
    return found


def count_of(plan: ReplicaPlan) -> int:
    """Return the number of replicas of a plan.

    Primaries do not count; it is 0 for a plan without an answer.
    """
    return 0 if plan.levels is None else int(plan.levels.sum())


def broken_alone(plan: ReplicaPlan, problem: ReplicaProblem) -> dict[int, list[int]]:
    """Return the queries that the failure of each host breaks by itself, for hosts that do, most queries first.

    A query survives the failure of any other single host.
    """
    assert plan.instances is not None
    found: dict[int, list[int]] = {}
    for query, hosts in enumerate(single_points(problem.queries(plan.instances))):
        for host in hosts:
            found.setdefault(host, []).append(query)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def by_worth(plan: ReplicaPlan, worth: Mapping[int, float]) -> list[int]:
    """Return all operators: those with replicas first, the greatest worth first."""
    assert plan.instances is not None
    return sorted(
        range(len(plan.instances)),
        key=lambda op: (len(plan.instances[op]) == 1, -worth.get(op, 0.0), op),  # type: ignore[index]
    )
