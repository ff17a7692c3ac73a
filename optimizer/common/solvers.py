"""The one place where solvers are called: limits, seed, workers, silence, and what their answers are.

A module of `optimizer` builds its program and hands it over:

| program | function | solver |
|---|---|---|
| constraint program with whole variables | `solve_cp` | CP-SAT (OR-Tools) |
| linear program | `linear_program` | HiGHS (SciPy) |
| mixed-integer program | `mixed_integer_program` | HiGHS (SciPy) |
| linear assignment | `linear_assignment` | SciPy |
| minimum cut | `FlowNetwork` | OR-Tools |
| flow of minimum cost | `minimum_cost_flow` | OR-Tools |

Results must not depend on the machine. So what ends a search is a deterministic amount of work (deterministic seconds,
nodes, iterations), and the clock is only the last resort; one worker is used unless the caller asks for more, for more
than one find different answers from run to run; and the seed is given. Nothing is written to standard output.

The libraries are imported when a solver is first called: together they take a second, and most problems need no more
than one of them.

HiGHS prints a debugging line now and then, whatever its options: while a solver runs, standard output leads nowhere.
`checked_limits` checks the arguments that every solver takes: a limit of time, the seed of its draws, and workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from models.checked_arrays import BoolArray, CheckedArrays, FloatArray, IntArray
from models.planning.solution import Status
from models.schema_types import seed_faults

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Discard what native code writes to file descriptor 1 inside the block; Python's own buffer is flushed first."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout to protect
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        _flush_native()  # what was written before belongs to the caller
        os.dup2(nowhere, 1)
        yield
    finally:
        _flush_native()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _flush_native() -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)


def checked_limits(time_limit_s: float, seed: int, workers: int = 1) -> CheckedArrays:
    """Return the faults of these arguments, to which a solver adds those of its own before it raises them together."""
    check = CheckedArrays()
    if not (time_limit_s > 0 and math.isfinite(time_limit_s)):
        check.add("time_limit_s", time_limit_s, "must be a positive number of seconds")
    check.faults.extend(seed_faults("seed", seed))
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or workers < 1:
        check.add("workers", workers, "must be a whole number, at least 1")
    return check


def solver_seed(seed: int) -> int:
    """Return the seed that OR-Tools gets: it takes 31 bits."""
    return seed % 2**31


_LEAST_S = 0.01  # a limit of 0 seconds would mean none to some solvers
_HIGHS_STATUS = {0: Status.OPTIMAL, 2: Status.INFEASIBLE}  # others: a limit, unbounded, or numerical trouble

Rows = tuple[Any, Any, Any]  # a matrix of rows, sparse or dense, with the least and the most that each may be


def left_s(deadline: float) -> float:
    """Return the seconds that a solver has until a deadline of time.monotonic, never quite 0."""
    return max(_LEAST_S, deadline - time.monotonic())


@dataclass(frozen=True)
class CpAnswer:
    """An answer of CP-SAT: `found` says whether there are values; `bound` is then a bound on the objective.

    `spent_s` are the deterministic seconds that the search took.
    """

    status: Status
    bound: float
    spent_s: float
    _solver: Any

    @property
    def found(self) -> bool:
        """Return whether there is a solution."""
        return self.status in (Status.OPTIMAL, Status.FEASIBLE)

    def values(self, variables: Sequence[Any]) -> IntArray:
        """Return the values of some variables."""
        return np.array([self._solver.value(one) for one in variables], dtype=np.int64)

    def chosen(self, variables: Sequence[Any]) -> BoolArray:
        """Return which of some 0-1 variables are 1."""
        return np.array([self._solver.boolean_value(one) for one in variables], dtype=np.bool_)


def solve_cp(
    model: cp_model.CpModel,
    *,
    deterministic_s: float,
    limit_s: float | None = None,
    seed: int | None = None,
    workers: int = 1,
) -> CpAnswer:
    """Return the answer of CP-SAT within so many deterministic seconds, and seconds of the clock.

    Without a seed CP-SAT takes its own, which is always the same.
    """
    from ortools.sat.python import cp_model  # noqa: PLC0415 - slow to load

    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would leave the signal to the system afterwards
    solver.parameters.num_workers = workers
    solver.parameters.max_deterministic_time = deterministic_s
    if seed is not None:
        solver.parameters.random_seed = solver_seed(seed)
    if limit_s is not None:
        solver.parameters.max_time_in_seconds = limit_s
    with quiet_stdout():
        code = solver.solve(model)
    known = {
        cp_model.OPTIMAL: Status.OPTIMAL,
        cp_model.FEASIBLE: Status.FEASIBLE,
        cp_model.INFEASIBLE: Status.INFEASIBLE,
    }
    status = known.get(code, Status.UNKNOWN)
    bound = float(solver.best_objective_bound) if status in (Status.OPTIMAL, Status.FEASIBLE) else -math.inf
    return CpAnswer(status, bound, float(solver.response_proto.deterministic_time), solver)


def sparse_matrix(
    values: Sequence[float] | FloatArray,
    rows: Sequence[int] | IntArray,
    columns: Sequence[int] | IntArray,
    shape: tuple[int, int],
) -> Any:
    """Return the matrix with these values in rows and columns, values of the same place added up, for a program."""
    from scipy import sparse  # noqa: PLC0415 - slow to load

    return sparse.csr_array((values, (rows, columns)), shape=shape)


@dataclass(frozen=True)
class LinearAnswer:
    """An answer of a linear program: `x` None without a solution; duals of its rows, `iterations` that it took.

    The duals are marginals of a minimisation: those of rows "at most" are not above 0.
    """

    status: Status
    x: FloatArray | None
    objective: float
    dual_at_most: FloatArray
    dual_equal: FloatArray
    iterations: int

    @property
    def is_optimal(self) -> bool:
        """Return whether the solution is an optimum, so that the duals prove it."""
        return self.status is Status.OPTIMAL


def linear_program(
    cost: FloatArray,
    *,
    at_most: tuple[Any, Any] | None = None,
    equal: tuple[Any, Any] | None = None,
    bounds: Any = (0, None),
    method: str = "highs",
    limit_s: float | None = None,
    iterations: int | None = None,
    presolve: bool = True,
) -> LinearAnswer:
    """Return the answer of: minimise cost x subject to A x <= b (`at_most`), A x = b (`equal`), and bounds on x.

    `method` is "highs" (HiGHS chooses) or "highs-ds" (dual simplex, whose duals are those of a vertex).
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - slow to load

    options: dict[str, Any] = {} if limit_s is None else {"time_limit": limit_s}
    options |= {} if iterations is None else {"maxiter": iterations}
    options |= {} if presolve else {"presolve": False}
    a_ub, b_ub = at_most or (None, None)
    a_eq, b_eq = equal or (None, None)
    with quiet_stdout():
        answer: Any = linprog(  # type: ignore[call-overload]
            cost, A_ub=a_ub, b_ub=b_ub, A_eq=a_eq, b_eq=b_eq, bounds=bounds, method=method, options=options
        )
    return LinearAnswer(
        _HIGHS_STATUS.get(answer.status, Status.UNKNOWN),
        None if answer.x is None else np.asarray(answer.x, dtype=np.float64),
        math.nan if answer.fun is None else float(answer.fun),
        _duals(answer, "ineqlin"),
        _duals(answer, "eqlin"),
        int(answer.nit),
    )


def _duals(answer: Any, rows: str) -> FloatArray:
    """Return the marginals of some rows; none where the solver has none."""
    marginals = getattr(getattr(answer, rows, None), "marginals", None)
    return np.zeros(0) if marginals is None else np.asarray(marginals, dtype=np.float64)


@dataclass(frozen=True)
class WholeAnswer:
    """An answer of a mixed-integer program: `x` None without a solution, `bound` a lower bound, None without one.

    `at_limit`: a limit of time or nodes ended the search. `code` is the status of HiGHS, `nodes` how many it took.
    """

    status: Status
    x: FloatArray | None
    bound: float | None
    at_limit: bool
    code: int
    nodes: int


def mixed_integer_program(
    cost: FloatArray,
    rows: Sequence[Rows],
    *,
    whole: BoolArray | None = None,
    nodes: int,
    gap: float | None = 0.0,
    limit_s: float | None = None,
) -> WholeAnswer:
    """Return the answer of: minimise cost x subject to least <= A x <= most for all rows, and 0 <= x <= 1.

    `whole` (columns,) says which columns are whole, None: all. The search ends after so many nodes, at a relative gap
    (None: that of HiGHS, 1e-4), or after `limit_s` seconds of the clock.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - slow to load

    options: dict[str, Any] = {"node_limit": nodes}
    options |= {} if gap is None else {"mip_rel_gap": gap}
    options |= {} if limit_s is None or math.isinf(limit_s) else {"time_limit": limit_s}
    with quiet_stdout():
        answer: Any = milp(
            cost,
            constraints=[LinearConstraint(*each) for each in rows],
            integrality=np.ones(len(cost), dtype=np.int64) if whole is None else whole.astype(np.int64),
            bounds=Bounds(0.0, 1.0),
            options=options,  # type: ignore[arg-type]
        )
    bound = getattr(answer, "mip_dual_bound", None)
    return WholeAnswer(
        _HIGHS_STATUS.get(answer.status, Status.UNKNOWN),
        None if answer.x is None else np.asarray(answer.x, dtype=np.float64),
        None if bound is None or not math.isfinite(bound) else float(bound),
        answer.status == 1,
        int(answer.status),
        int(getattr(answer, "mip_node_count", None) or 0),
    )


def linear_assignment(cost: FloatArray) -> IntArray | None:
    """Return a column of its own for each row (rows,), the cheapest together; None where infinite costs leave none."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - slow to load

    if cost.shape[0] > cost.shape[1]:
        return None
    try:
        return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)
    except ValueError:  # "cost matrix is infeasible"
        return None


class FlowNetwork:
    """Arcs with whole capacities, for maximum flows and the minimum cuts that they prove."""

    def __init__(self, tails: IntArray, heads: IntArray, capacity: IntArray) -> None:
        from ortools.graph.python import max_flow  # noqa: PLC0415 - slow to load

        self._network = max_flow.SimpleMaxFlow()
        self._network.add_arcs_with_capacity(tails, heads, capacity)

    def set_capacity(self, arcs: IntArray, capacity: IntArray) -> None:
        """Replace the capacities of some arcs."""
        self._network.set_arcs_capacity(arcs, capacity)

    def solve(self, source: int, sink: int) -> bool:
        """Find a maximum flow; return False where the numbers overflow."""
        return bool(self._network.solve(source, sink) == self._network.OPTIMAL)

    @property
    def value(self) -> int:
        """Return how much flows."""
        return int(self._network.optimal_flow())

    def flows(self, arcs: IntArray) -> IntArray:
        """Return how much flows on some arcs."""
        return np.asarray(self._network.flows(arcs), dtype=np.int64)

    def source_side(self) -> IntArray:
        """Return the nodes of the smallest side of a minimum cut that has the source; whatever flow was found."""
        return np.asarray(self._network.get_source_side_min_cut(), dtype=np.int64)

    def sink_side(self) -> IntArray:
        """Return the nodes of the smallest side of a minimum cut that has the sink; whatever flow was found."""
        return np.asarray(self._network.get_sink_side_min_cut(), dtype=np.int64)


def minimum_cost_flow(
    arcs: tuple[IntArray, IntArray, IntArray, IntArray], supplies: IntArray
) -> tuple[Status, IntArray | None, str]:
    """Return the status, the flow of each arc or None, and the solver's own word for the status.

    `arcs` are tails, heads, capacities and whole costs; `supplies` (nodes,) sum up to 0. The status is unknown where
    the numbers leave the solver's range.
    """
    from ortools.graph.python import min_cost_flow  # noqa: PLC0415 - slow to load

    solver = min_cost_flow.SimpleMinCostFlow()
    tails, heads, capacity, cost = arcs
    added = solver.add_arcs_with_capacity_and_unit_cost(
        tails.astype(np.int32), heads.astype(np.int32), capacity.astype(np.int64), cost.astype(np.int64)
    )
    solver.set_nodes_supplies(np.arange(len(supplies), dtype=np.int32), supplies)
    code = solver.solve()
    if code == solver.OPTIMAL:
        return Status.OPTIMAL, np.asarray(solver.flows(added), dtype=np.int64), str(code)
    return (Status.INFEASIBLE if code == solver.INFEASIBLE else Status.UNKNOWN), None, str(code)
