"""Plans of replicas for a file of queries: the problem that it describes, plans by every importance, documents."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from models.checked_arrays import FloatArray, frozen
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.planning.replicas.importance import IMPORTANCE
from models.planning.replicas.problem import GOALS, KIND, Instances, ReplicaPlan, ReplicaProblem, checked_instances
from models.planning.solution import Status
from models.queries.description import MOST_LEVELS
from models.reliability.single_points import single_points
from models.seeds import seed_faults
from models.validation_messages import similar
from optimizer.replicas import PLACEMENTS, SELECTIONS, plan
from optimizer.replicas.optimise import FrontPoint, cheapest, front, front_of_counts, most_available
from optimizer.replicas.running import start_of
from scenarios.planning.files import FIGURE, is_figure, read_fields
from scenarios.queries.files import LoadedQueries, read_queries
from scenarios.queries.running_replicas import names_of, placed_by_file, placed_by_plan
from sim.draws import code_of

OPTIMISED = "optimised"
_RUNNING = "--from PLAN, or [placed] with lists of hosts"
_MOST_POINTS = 10_000  # of a front
_MOST_REPLICAS = 10**9  # that a budget may name
_SHORTEST_S = 0.01  # that a heuristic gets
OVER = ("cpus", "replicas")  # what budgets of a front count
_MOST_DIGITS = 20  # of the number of a row
_KEYS = frozenset(
    {
        *("kind", "status", "objective", "bound", "gap", "wall_s", "note", "certificate", "mean_broken", "queries"),
        *("goal", "target", "p", "budget", "max_replicas", "max_level", "max_moves", "running", "operators", "names"),
        *("cost", "capacity", "colours", "replicated", "moves", "instances"),
    }
)
"""Of the document of a plan."""
_MOST_TRIED = 300_000  # operators times queries, of which what replicas are worth is found


@dataclass(frozen=True)
class Options:
    """What stands beside the file: what replaces its own words, and how replicas are chosen."""

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
    """The problem of a file; raises InputError for a file without hosts, unknown operators and hosts, bad numbers."""
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
            budget=_budget(options, found, spare * hosts.cpu),
            max_level=replicas.level if options.level is None else options.level,
            goal=options.goal,
            running=running if any(running) else (),
            max_moves=moves,
            max_replicas=replicas.budget_replicas if options.budget_replicas is None else options.budget_replicas,
        )


@contextmanager
def _said_by_the_user(options: Options, names: Sequence[str]) -> Iterator[None]:
    """Faults of the problem by the option or key that the user wrote, not by the field that it became."""
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
    """A host that has more to do than it can is one of those of the running primaries."""
    return f"placed: {path}" if path.startswith("host ") else path


def _budget(options: Options, found: LoadedQueries, spare_cpus: float) -> float | None:
    """What replicas may take: said here, or in the file, or what the spare hosts have."""
    if options.budget is not None:
        return options.budget
    if found.query_set.replicas.budget is not None:
        return found.query_set.replicas.budget
    hosts = found.query_set.hosts
    return None if hosts is None or hosts.spare is None else spare_cpus


def running_by_plan(path: str | Path, found: LoadedQueries) -> Instances:
    """The hosts of what runs by a plan, the primary first, () for new operators; raises InputError."""
    hosts = found.query_set.hosts
    return placed_by_plan(path, found, 0 if hosts is None else hosts.count)


def noise_of(n: int, seed: int) -> FloatArray:
    """Random numbers (n,) that decide ties, and what importance by chance is."""
    return frozen(np.random.default_rng(code_of("importance", seed)).random(n))


def plans(problem: ReplicaProblem, options: Options) -> dict[str, ReplicaPlan]:
    """A plan by each importance that is asked for; raises InputError for names that are none.

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
    """The plan under which fewest queries are broken, with its bound; never worse than `start`."""
    return most_available(problem, start=None if start is None else start.instances, time_limit_s=time_limit_s)


def cheapest_of(problem: ReplicaProblem, target: float, time_limit_s: float = math.inf) -> ReplicaPlan:
    """The cheapest plan for a target; raises InputError for a target that is no probability."""
    if not 0 <= target <= 1:
        raise InputError.at("--target", target, "must be a probability, between 0 and 1", "as in --target 0.999")
    return cheapest(problem, target, time_limit_s=time_limit_s)


def front_of(
    problem: ReplicaProblem, points: int, time_limit_s: float = math.inf, over: str = OVER[0]
) -> list[FrontPoint]:
    """The Pareto front over CPUs, or over the number of replicas; empty where primaries find no host."""
    if not 2 <= points <= _MOST_POINTS:
        rule = f"must be at least 2, and at most {_MOST_POINTS}"
        raise InputError.at("--front", points, rule, "how many budgets, from nothing to all")
    return (front if over == OVER[0] else front_of_counts)(problem, points, time_limit_s=time_limit_s)


def no_room(problem: ReplicaProblem) -> ReplicaPlan:
    """What is said where primaries find no host."""
    return most_available(problem)


def best_of(found: Mapping[str, ReplicaPlan]) -> str:
    """The name of the best plan; of plans that only rounding sets apart the one with a bound, else the first."""

    def order(name: str) -> tuple[float, bool]:
        one = found[name]
        return (np.inf if one.objective is None else float(f"{one.objective:.12g}"), one.bound is None)

    return min(found, key=order)


def worth_of(plan: ReplicaPlan, problem: ReplicaProblem) -> dict[int, float]:
    """By how much the mean share of broken queries rises if the operator alone gives up its replicas; exact.

    Of large plans nothing: each operator costs a look at all queries.
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
    """Return the number of replicas of a plan."""
    return 0 if plan.levels is None else int(plan.levels.sum())


def broken_alone(plan: ReplicaPlan, problem: ReplicaProblem) -> dict[int, list[int]]:
    """Return the queries that the failure of each host breaks by itself, for hosts that do, most queries first."""
    assert plan.instances is not None
    found: dict[int, list[int]] = {}
    for query, hosts in enumerate(single_points(problem.queries(plan.instances))):
        for host in hosts:
            found.setdefault(host, []).append(query)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def by_worth(plan: ReplicaPlan, worth: Mapping[int, float]) -> list[int]:
    """All operators: those with replicas first, the greatest worth first."""
    assert plan.instances is not None
    return sorted(
        range(len(plan.instances)),
        key=lambda op: (len(plan.instances[op]) == 1, -worth.get(op, 0.0), op),  # type: ignore[index]
    )


def document(plan: ReplicaPlan, problem: ReplicaProblem, found: LoadedQueries, options: Options) -> dict[str, Any]:
    """A plan as JSON has it, with the settings that `verify` needs to pose the problem again."""
    names = found.table.names
    instances = None if plan.instances is None else [list(hosts) for hosts in plan.instances]
    broken = None if plan.broken is None else (plan.broken @ problem.shares).tolist()
    return {
        "kind": KIND,
        "status": plan.status.value,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "wall_s": plan.wall_s,
        "note": plan.note or None,
        "goal": problem.goal,
        "target": plan.target,
        "p": (options.p or found.query_set.chances),
        "budget": problem.budget,
        "max_replicas": problem.max_replicas,
        "max_level": problem.max_level,
        "cost": plan.cost,
        "capacity": problem.capacity,
        "colours": plan.colours,
        "replicated": None if plan.levels is None else int((plan.levels > 0).sum()),
        "certificate": _certificate(plan),
        "running": _running(problem),
        "max_moves": problem.max_moves,
        "moves": plan.moves,
        "operators": list(names),
        "names": names_of(found),
        "instances": instances,
        "mean_broken": broken,
        "queries": None
        if plan.broken is None
        else {q: plan.broken[:, k].tolist() for k, q in enumerate(found.table.queries)},
    }


def read_plan_of_replicas(
    path: str | Path, problem_file: str | Path
) -> tuple[ReplicaProblem, ReplicaPlan, float | None]:
    """The problem that a plan in a JSON file says it answers, the plan, and its gap; raises InputError."""
    fields = read_fields(path)
    options = Options(
        p=_numbers(fields, "p"),
        budget=_number(fields, "budget"),
        level=_whole(fields, "max_level"),
        goal=str(fields.get("goal", "mean")),
        moves=_whole(fields, "max_moves"),
        budget_replicas=_whole(fields, "max_replicas"),
    )
    loaded = read_queries(problem_file)
    problem = problem_of(loaded, _with_running(options, loaded, fields.get("running")))
    statuses = [status.value for status in Status]
    if fields.get("status") not in statuses:
        raise InputError.at("status", fields.get("status"), "must be one of " + ", ".join(statuses))
    given, note = fields.get("instances"), fields.get("note")
    if not (note is None or isinstance(note, str)):
        raise InputError.at("note", note, "must be text or null")
    if (_number(fields, "wall_s") or 0.0) < 0:
        raise InputError.at("wall_s", fields["wall_s"], "must be at least 0")
    if not 0 <= (_number(fields, "target") or 0.0) <= 1:
        raise InputError.at("target", fields["target"], "must be a probability, between 0 and 1")
    plan = ReplicaPlan(
        status=Status(fields["status"]),
        objective=_number(fields, "objective"),
        bound=_number(fields, "bound"),
        cost=_number(fields, "cost"),
        instances=None if given is None else checked_instances(given),
        target=_number(fields, "target"),
        certificate=_read_certificate(fields.get("certificate")),
        moves=_whole(fields, "moves"),
    )
    return problem, plan, _number(fields, "gap")


def figures_of_replicas(
    problem: ReplicaProblem, plan: ReplicaPlan, problem_file: str | Path
) -> dict[str, Callable[[], Any]]:
    """What the document of a plan states beside its answer, each figure as a function that computes it."""
    found = read_queries(problem_file)
    figures: dict[str, Callable[[], Any]] = {
        "capacity": lambda: problem.capacity,
        "operators": lambda: found.table.names,
        "names": lambda: names_of(found),
        "running": lambda: _running(problem),
        "moves": lambda: problem.moves(plan.instances or ()) if problem.running else None,
    }
    instances = plan.instances
    if instances is None:
        return figures
    broken = cache(partial(problem.broken, instances))
    return figures | {
        "replicated": lambda: sum(len(hosts) > 1 for hosts in instances),
        "colours": lambda: _colours(problem, instances),
        "mean_broken": lambda: list((broken() @ problem.shares).tolist()),
        "queries": lambda: {q: broken()[:, k].tolist() for k, q in enumerate(found.table.queries)},
    }


def unverified_of_replicas(stated: Mapping[str, Any], problem: ReplicaProblem, problem_file: str | Path) -> list[str]:
    """What a plan's document states and nothing recomputes, in words: a question other than that of the problem alone,
    and keys that are no part of a plan."""
    found = read_queries(problem_file)
    hosts = found.query_set.hosts
    spare_cpus = 0.0 if hosts is None else (hosts.spare or 0) * hosts.cpu
    alone = {
        "p": list(found.query_set.chances),
        "goal": Options().goal,
        "target": None,
        "budget": _budget(Options(), found, spare_cpus),
        "max_level": found.query_set.replicas.level,
        "max_moves": found.query_set.replicas.moves,
        "max_replicas": found.query_set.replicas.budget_replicas,
    }
    options = {"p": stated.get("p"), "goal": problem.goal, "target": stated.get("target"), "budget": problem.budget}
    options |= {"max_level": problem.max_level, "max_moves": problem.max_moves, "max_replicas": problem.max_replicas}
    questions = [
        f"that {name} {options[name]} was asked for, where the problem alone has {'none' if own is None else own}"
        for name, own in alone.items()
        if options[name] not in (own, None)
    ]
    others = [name for name, value in stated.items() if name not in _KEYS and value is not None]
    return questions + ([f"what else it states ({', '.join(others)})"] if others else [])


def _colours(problem: ReplicaProblem, instances: Instances) -> int:
    """The most operators on a host that takes replicas."""
    assert problem.replica_hosts is not None
    here = np.array([h for hosts in instances for h in hosts], dtype=np.int64)
    counts = np.bincount(here[problem.replica_hosts[here]], minlength=1)
    return int(counts.max())


def _running(problem: ReplicaProblem) -> list[list[int]] | None:
    """The hosts of what runs, the primary first, as a plan keeps them; None where no replicas run."""
    if not problem.running:
        return None
    firsts = [[host] if host >= 0 else [] for host in problem.primaries.tolist()]
    return [[*first, *hosts] for first, hosts in zip(firsts, problem.running, strict=True)]


def _with_running(options: Options, loaded: LoadedQueries, given: Any) -> Options:
    """With what ran before by the plan; raises InputError where that is not what the file says."""
    hosts = loaded.query_set.hosts
    by_file = placed_by_file(loaded, 0 if hosts is None else hosts.count)
    if given is None:
        return options
    running = checked_instances(given, "running")
    if len(running) != len(by_file):
        raise InputError.at("running", len(running), f"must have {len(by_file)} operators")
    for name, own, said in zip(loaded.table.names, running, by_file, strict=True):
        if said and (own if len(said) > 1 else own[:1]) != said:
            raise InputError.at("running", list(own), f"is not where {name} runs by the problem: {list(said)}")
    return replace(options, running=running)


def _certificate(plan: ReplicaPlan) -> dict[str, Any] | None:
    """The multipliers that are not zero, by row."""
    if plan.certificate is None:
        return None
    there = np.flatnonzero(plan.certificate).tolist()
    return {"rows": len(plan.certificate), "multipliers": {str(row): float(plan.certificate[row]) for row in there}}


def _read_certificate(given: Any) -> FloatArray | None:
    if given is None:
        return None
    rule = "must have rows, a whole number, and multipliers: numbers, none below zero, by row"
    rows = given.get("rows") if isinstance(given, Mapping) else None
    said = given.get("multipliers") if isinstance(given, Mapping) else None
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= 10**7 or not isinstance(said, Mapping):
        raise InputError.at("certificate", given, rule)
    found = np.zeros(rows)
    for row, value in said.items():
        number = is_figure(value) and value >= 0
        if not number or not (row.isascii() and row.isdigit() and len(row) <= _MOST_DIGITS) or not int(row) < rows:
            raise InputError.at(f"certificate.multipliers.{row}", value, rule)
        found[int(row)] = value
    return frozen(found)


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if not is_figure(value):
        raise InputError.at(name, value, f"must be {FIGURE}")
    return float(value)


def _whole(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63):
        raise InputError.at(name, value, "must be a whole number")
    return value


def _numbers(fields: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = fields.get(name)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise InputError.at(name, value, "must be a list of numbers")
    found = [_number({name: each}, name) for each in value]
    if None in found:
        raise InputError.at(name, value, "must be a list of numbers")
    return tuple(one for one in found if one is not None)
