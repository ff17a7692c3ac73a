"""How often to make checkpoints: closed formulas for the interval and its cost.

delta = time a checkpoint takes from the work [s], M = mean time between failures [s], R = time to restart [s],
tau = useful time between checkpoints [s]. With failures of a Poisson process, which may strike checkpoints and restarts
too, a second of work takes on average

    slowdown(tau) = M exp(R/M) (exp((tau + delta) / M) - 1) / tau                                          (Daly, 2006)

Young (1974) minimises its first terms, Daly's first order takes the restart for failure-free, his higher order has a
correction; the exact minimum has tau / M = 1 + W0(-exp(-1 - delta / M)) with Lambert's W.

Streams go on coming. `recovery_s` is the time until the job has caught up after a failure: down for D, rolled back by
up to L = T + C (the interval T = tau + delta and the time C until a checkpoint is complete), at utilisation rho, when
checkpoints leave a share u = tau / T of the time for work:

    recovery(T) = D + rho (L + D) / (u - rho)

With delta = C = 0 that is T <= (target - D) (1 - rho) / rho - D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from models import display
from models.errors import NO_VALUE, InputFault, raise_if_any
from models.planning.solution import Solution

_SERIES_BELOW = 0.5  # where 1 - exp(-t) and t share digits
_MOST_STEPS = 200
MOST = 1e15  # of times and rates
_AT_MOST = f", at most {display.number(MOST, 6)}"


@dataclass(frozen=True, kw_only=True)
class CheckpointInterval:
    """One question for an interval, checked on construction; all times in seconds.

    `checkpoint_s`: delta, pause of the work by a checkpoint. `mtbf_s`: M. `restart_s`: from a failure until work goes
    on. `complete_s`: C, from the beginning of a checkpoint until it can be used, at least the pause (None: the pause).

    For streams: `utilisation` before the failure (rho, below 1), `recovery_target_s`, and `rate_per_s`, the records per
    second. Raises InputError with every fault found.
    """

    checkpoint_s: float
    mtbf_s: float
    restart_s: float = 0.0
    complete_s: float | None = None
    utilisation: float | None = None
    recovery_target_s: float | None = None
    rate_per_s: float | None = None

    def __post_init__(self) -> None:
        faults = [
            InputFault(name, value, rule)
            for name, value, good, rule in (
                (
                    "checkpoint_s",
                    self.checkpoint_s,
                    _above(self.checkpoint_s, 0.0),
                    f"must be a number above 0{_AT_MOST}",
                ),
                ("mtbf_s", self.mtbf_s, _above(self.mtbf_s, 0.0), f"must be a number above 0{_AT_MOST}"),
                ("restart_s", self.restart_s, _least(self.restart_s, 0.0), f"must be a number, at least 0{_AT_MOST}"),
                ("utilisation", self.utilisation, _between(self.utilisation), "must be at least 0 and below 1"),
                (
                    "recovery_target_s",
                    self.recovery_target_s,
                    _above(self.recovery_target_s, 0.0),
                    f"must be above 0{_AT_MOST}",
                ),
                ("rate_per_s", self.rate_per_s, _least(self.rate_per_s, 0.0), f"must be at least 0{_AT_MOST}"),
            )
            if not good
        ]
        # Rules between fields only where each of them is valid: otherwise one mistake is told twice.
        if not faults:
            if self.complete_s is not None and not _least(self.complete_s, self.checkpoint_s):
                rule = f"must be at least the pause, {display.duration(self.checkpoint_s, 6)}"
                faults.append(InputFault("complete_s", self.complete_s, rule))
            if self.recovery_target_s is not None and self.utilisation is None:
                faults.append(InputFault("utilisation", NO_VALUE, "is missing: a recovery target needs it"))
            for name, value in (("restart_s", self.restart_s), ("checkpoint_s", self.checkpoint_s)):
                # exp(500) is near the end of float64: beyond it no slowdown could be told.
                if value > 500 * self.mtbf_s:
                    faults.append(
                        InputFault(
                            name, value, f"must be at most 500 times the mtbf of {display.duration(self.mtbf_s, 6)}"
                        )
                    )
        raise_if_any(faults)

    @property
    def until_complete_s(self) -> float:
        """Return C, from the beginning of a checkpoint until it can be used."""
        return self.checkpoint_s if self.complete_s is None else self.complete_s


def _above(value: float | None, least: float) -> bool:
    """Return True for None, and for a number in (least, MOST]."""
    return value is None or (_is_number(value) and least < value <= MOST)


def _least(value: float | None, least: float) -> bool:
    """Return True for None, and for a number in [least, MOST]."""
    return value is None or (_is_number(value) and least <= value <= MOST)


def _between(value: float | None) -> bool:
    """Return True for None, and for a number in [0, 1)."""
    return value is None or (_is_number(value) and 0 <= value < 1)


def _is_number(value: object) -> bool:
    """Return True for a number that is no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True, eq=False)
class IntervalPlan(Solution):
    """An answer: `interval_s` from the beginning of a checkpoint to that of the next, and useful time in it.

    `objective` is the slowdown. `worst_recovery_s`, `mean_recovery_s`: time until the job has caught up; None without a
    utilisation. `least_interval_s`, `most_interval_s`: the intervals that meet the target lie between them.
    `mean_replay_records`: records that are processed again after a failure. When no interval meets the recovery target
    the status is infeasible, and the interval is the one with the shortest recovery.
    """

    interval_s: float | None = None
    useful_s: float | None = None
    worst_recovery_s: float | None = None
    mean_recovery_s: float | None = None
    least_interval_s: float | None = None
    most_interval_s: float | None = None
    mean_replay_records: float | None = None


def young(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the useful time between checkpoints by Young's formula [s]; Young, CACM 1974.

    >>> round(young(60, 86_400))  # a checkpoint of a minute, a failure a day
    3220
    """
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def daly_first(checkpoint_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Return the useful time by Daly's first order, not below 0 [s]; Daly, FGCS 2006, section 2."""
    return max(0.0, math.sqrt(2 * checkpoint_s * (mtbf_s + restart_s)) - checkpoint_s)


def daly_higher(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the useful time by Daly's higher order [s]; Daly, FGCS 2006, section 4: M from delta = 2 M on."""
    # Beyond 2 M the correction grows without limit: Daly replaces it.
    if checkpoint_s >= 2 * mtbf_s:
        return mtbf_s
    share = checkpoint_s / (2 * mtbf_s)
    return math.sqrt(2 * checkpoint_s * mtbf_s) * (1 + math.sqrt(share) / 3 + share / 9) - checkpoint_s


def exact(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the useful time of least slowdown [s]: M (1 + W0(-exp(-1 - delta / M))), to full precision.

    With t = (tau + delta) / M the condition tau / M = 1 - exp(-t) becomes t - 1 + exp(-t) = delta / M, whose left side
    is convex and rising: Newton's method from above cannot miss. Lambert's W itself loses half the digits where delta
    is much smaller than M.

    It is about 2 delta / 3 below Young's formula where delta is much smaller than M.

    >>> round(exact(60, 86_400))
    3180
    """
    wanted = checkpoint_s / mtbf_s
    t = wanted + math.sqrt(2 * wanted)  # t - 1 + exp(-t) >= wanted here
    for _ in range(_MOST_STEPS):
        # Newton's steps fall until rounding stops them: that is the end, and not a tolerance.
        further = t - (_rest(t) - wanted) / -math.expm1(-t)
        if not further < t:
            break
        t = further
    return -math.expm1(-t) * mtbf_s


def _rest(t: float) -> float:
    """Return t - 1 + exp(-t), without cancellation."""
    if t >= _SERIES_BELOW:
        return t + math.expm1(-t)
    # Below this the two terms share digits; the series of exp alternates and needs few terms.
    term, total, k = t * t / 2, 0.0, 2
    while total + term != total:
        total += term
        k += 1
        term *= -t / k
    return total


def slowdown(useful_s: float, checkpoint_s: float, mtbf_s: float, restart_s: float = 0.0) -> float:
    """Return the mean time that a second of work takes, at least 1; infinite where float64 cannot hold it.

    All times [s]; the formula is that at the head of the module (Daly, FGCS 2006).
    """
    try:
        work = math.expm1((useful_s + checkpoint_s) / mtbf_s) * mtbf_s / useful_s
        return math.exp(restart_s / mtbf_s) * work
    except OverflowError:
        return math.inf


def useful_within(problem: CheckpointInterval, least_s: float, most_s: float) -> float:
    """Return the useful time of least slowdown between two limits [s].

    exp is convex, exp(x) >= e^y (1 + x - y), so slowdown(tau) >= e^(R/M) (e^y + B(y) / tau) for every y, with
    B(y) = M (e^y (1 - y + delta / M) - 1), which falls in y and is 0 at the exact optimum. Take y = (limit
    + delta) / M: below an optimum beyond the upper limit B > 0, so the least is at that limit; likewise at the lower.
    """
    # The slowdown has one minimum and rises on both sides, so the nearest allowed point is the best.
    return min(max(exact(problem.checkpoint_s, problem.mtbf_s), least_s), most_s)


def recovery_s(problem: CheckpointInterval, interval_s: float, rolled_back_s: float) -> float:
    """Return the time from a failure until the job has caught up [s]; infinite where it never does.

    `interval_s`: T. `rolled_back_s`: L, the work that has to be done again. Records of L and of the time down D are
    waiting; a share u - rho of the time is left for them. Raises nothing: without a utilisation rho is 0.
    """
    rho = problem.utilisation or 0.0
    # The share of the time that is left to catch up, beside checkpoints and new tuples.
    spare = (interval_s - problem.checkpoint_s) / interval_s - rho
    if spare <= 0:
        return math.inf
    return problem.restart_s + rho * (rolled_back_s + problem.restart_s) / spare


def worst_recovery_s(problem: CheckpointInterval, interval_s: float) -> float:
    """Return the recovery when the failure strikes just before a checkpoint is complete [s]."""
    return recovery_s(problem, interval_s, interval_s + problem.until_complete_s)


def mean_recovery_s(problem: CheckpointInterval, interval_s: float) -> float:
    """Return the mean recovery: failures strike at any instant alike, so T / 2 + C is rolled back on average [s]."""
    return recovery_s(problem, interval_s, interval_s / 2 + problem.until_complete_s)


def allowed_intervals(problem: CheckpointInterval) -> tuple[float, float] | None:
    """Return the shortest and the longest interval T that meet the recovery target [s]; None where none does.

    Between two failures checkpoints must be complete, T >= C, and the work must keep up, T > delta / (1 - rho). The
    target asks D + rho (T + C + D) / (1 - delta / T - rho) <= target, which with S = target - D is

        rho T^2 + (rho (C + D) - (1 - rho) S) T + delta S <= 0
    """
    delta, least = problem.checkpoint_s, problem.until_complete_s
    if problem.utilisation is None or problem.recovery_target_s is None:
        return least, math.inf
    rho, spare = problem.utilisation, problem.recovery_target_s - problem.restart_s
    if spare < 0:
        return None
    if rho == 0.0:
        return least, math.inf
    # Roots of the quadratic above: the larger one from the formula, the smaller one from their product, which is
    # delta S / rho. Subtracting nearly equal numbers would lose its digits.
    slope = (1 - rho) * spare - rho * (least + problem.restart_s)
    under = slope * slope - 4 * rho * delta * spare
    # No real root: even the best interval misses the target.
    if slope <= 0 or under < 0:
        return None
    longest = (slope + math.sqrt(under)) / (2 * rho)
    shortest = delta * spare / (rho * longest)
    return (max(shortest, least), longest) if longest >= least else None


def quickest_recovery_interval_s(problem: CheckpointInterval) -> float:
    """Return the interval of shortest worst recovery [s]: the root of (1 - rho) T^2 - 2 delta T - delta (C + D)."""
    delta, least = problem.checkpoint_s, problem.until_complete_s
    free = 1 - (problem.utilisation or 0.0)
    root = (delta + math.sqrt(delta * delta + free * delta * (least + problem.restart_s))) / free
    return max(root, least)
