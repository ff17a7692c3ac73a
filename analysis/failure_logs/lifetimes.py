"""Laws of times to failure and of repair times, by greatest likelihood, with lengths that were not seen to their end.

    log L = sum over seen of log f(t) + sum over longer of log (1 - F(t)) + sum over shorter of log F(t)

Exponential, Weibull, gamma and lognormal. How well a law fits is the greatest distance between its F and that of
Kaplan and Meier (1958), and how likely a distance as great is where the law is true: a parametric bootstrap, which
draws the same hosts with the same windows, rounds to the same clock, and fits again. Tables for given parameters would
call laws good that are not, as the parameters come from the same data (Lilliefors 1967; Stute, Gonzalez Manteiga and
Presedo Quindimil 1993).

Read `fits` first; then the likelihood of each law, the goodness of fit, and at the end rates of failures with their
intervals and the test whether hosts fail alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.reliability.failure_log import LONGER, SEEN, SHORTER, CensoredDurations

LAWS = ("exponential", "weibull", "gamma", "lognormal")
REJECTED = 0.05
_FEWEST = 3  # different lengths that are needed for two parameters
_EARLY, _FAR = 19, 1.5  # after so many draws without a distance as great, this much greater one will do
_FEW_EXCEED = 10  # so many draws with a greater distance say enough of a good fit
_MOST_ROUNDS = 100_000
_NOWHERE = 1e200  # the cost where float64 holds none
_AT_RISK = 0.05  # share of lengths below which the estimate of Kaplan and Meier says little
_MANY, _DRAWS, _DRAWS_OF_MANY = 3000, 99, 19


@dataclass(frozen=True)
class Fit:
    """One law fitted: parameters, mean, coefficient of variation, and how well it fits.

    distance: greatest of |F - Kaplan-Meier|; p: of the bootstrap (None: not asked for), of `draws` draws.
    """

    law: str
    parameters: dict[str, float]
    mean_s: float
    variation: float
    log_likelihood: float
    aic: float
    distance: float
    p: float | None
    draws: int

    @property
    def rejected(self) -> bool | None:
        """True if the law is rejected at 5 %; None where that was not asked."""
        return None if self.p is None else self.p <= REJECTED


@dataclass(frozen=True, eq=False)
class _Sample:
    """Lengths in units of their mean, equal ones together: `count` (n,) of `length` and `kind`."""

    length: FloatArray
    kind: IntArray
    count: FloatArray


def fits(durations: CensoredDurations, *, draws: int | None = None, seed: int = 1) -> tuple[Fit, ...]:
    """Return the laws that can be fitted, by rising AIC; none where nothing was seen to its end.

    `draws` of the bootstrap, 0 for none; None for 99, and for 19 of more than 3,000 lengths.
    """
    if draws is None:
        draws = _DRAWS if durations.length_s.size <= _MANY else _DRAWS_OF_MANY
    if not durations.ended or not np.any(durations.kind == SEEN):
        return ()
    # Lengths in units of their mean: the search then works with numbers near 1, whatever the clock of the log.
    unit = float(durations.length_s.sum() / durations.ended)
    sample = _sample(durations.length_s / unit, durations.kind)
    # With fewer different lengths a law of two parameters fits them perfectly and its likelihood has no greatest value.
    laws = LAWS if len(np.unique(durations.length_s[durations.kind == SEEN])) >= _FEWEST else LAWS[:1]
    found = [_fit(law, durations, sample, unit, draws, seed) for law in laws]
    return tuple(sorted(found, key=lambda fit: fit.aic))


def _fit(law: str, durations: CensoredDurations, sample: _Sample, unit: float, draws: int, seed: int) -> Fit:
    """Return one law, fitted in units of the mean and given back in seconds, with its p-value if `draws` > 0."""
    theta, likelihood = _greatest(law, sample)
    distance = _distance(law, theta, sample)
    p, drawn = _chance(law, theta, durations, unit, distance, draws, seed) if draws else (None, 0)
    mean, variation = _moments(law, theta)
    # Densities change with the unit, probabilities do not: only lengths seen to their end need the term.
    whole = likelihood - math.log(unit) * float(sample.count[sample.kind == SEEN].sum())
    return Fit(
        law, _named(law, theta, unit), mean * unit, variation, whole, 2 * len(theta) - 2 * whole, distance, p, drawn
    )


def _sample(length: FloatArray, kind: IntArray) -> _Sample:
    # Clocks of logs are coarse: many lengths are equal, and each search evaluates them once.
    rows, count = np.unique(np.column_stack([length, kind]), axis=0, return_counts=True)
    return _Sample(rows[:, 0], rows[:, 1].astype(np.int64), count.astype(float))


def verdict(noun: str, laws: Sequence[Fit]) -> str:
    """Return in words which of the laws are rejected, and which is best all the same.

    `laws` are by rising AIC, as `fits` returns them; `noun` begins the sentence, such as "Up times".
    """
    if not laws:
        return f"{noun}: too few were seen to their end to fit a law."
    best = f"best by AIC is {laws[0].law}"
    if laws[0].p is None:
        return f"{noun}: {best}; goodness of fit was not tested."
    kept = [fit.law for fit in laws if not fit.rejected]
    if not kept:
        return f"{noun}: every law is rejected at 5 %; {best}."
    return f"{noun}: not rejected at 5 %: {', '.join(kept)}; {best}."


# -- likelihood; parameters are logarithms, but for the lognormal's mu


def _greatest(law: str, sample: _Sample, start: Sequence[float] | None = None) -> tuple[tuple[float, ...], float]:
    """Return the parameters of greatest likelihood, and its logarithm."""
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to load

    # The closed form: all time watched over the number of ends.
    if law == "exponential" and not np.any(sample.kind == SHORTER):
        ended = float(sample.count[sample.kind == SEEN].sum())
        theta: tuple[float, ...] = (math.log(float(sample.count @ sample.length) / ended),)
        return theta, _likelihood(law, sample, theta)
    begin = list(_start(law, sample) if start is None else start)
    # Wide enough for any log in units of its mean, and narrow enough that no exponential overflows.
    bounds = [(-12.0, 12.0)] * len(begin)
    options = {"ftol": 1e-13 if start is None else 1e-9, "gtol": 1e-7}  # draws need no more digits than p has
    best = minimize(_cost(law, sample), begin, method="L-BFGS-B", bounds=bounds, options=options)  # type: ignore[call-overload]
    found = tuple(best.x.tolist())
    return found, _likelihood(law, sample, found)


def _start(law: str, sample: _Sample) -> tuple[float, ...]:
    """Return where the search begins: scale 1 and shape 1 as logarithms; of the lognormal the moments of log t."""
    if law != "lognormal":
        return (0.0,) if law == "exponential" else (0.0, 0.0)
    logs = np.log(sample.length)
    mean = float(np.average(logs, weights=sample.count))
    spread = math.sqrt(float(np.average((logs - mean) ** 2, weights=sample.count)))
    return mean, math.log(max(spread, 1e-3))


def _likelihood(law: str, sample: _Sample, theta: Sequence[float]) -> float:
    return -_cost(law, sample)(np.array(theta)) * float(sample.count.sum())


def _cost(law: str, sample: _Sample) -> Callable[[FloatArray], float]:
    """Return minus the logarithm of the likelihood for each length: of order 1, as steps of a search want it."""
    size = float(sample.count.sum())
    parts = [
        (function, sample.length[sample.kind == kind], sample.count[sample.kind == kind])
        for kind, function in ((SEEN, _log_density), (LONGER, _log_longer), (SHORTER, _log_shorter))
        if np.any(sample.kind == kind)
    ]

    def cost(theta: FloatArray) -> float:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # far off the path of a search
            found = -float(sum(count @ function(law, theta, length) for function, length, count in parts)) / size
        # L-BFGS-B backs off from a large number; infinity or NaN would end its line search.
        return found if math.isfinite(found) else _NOWHERE

    return cost


def _log_density(law: str, theta: Sequence[float] | FloatArray, t: FloatArray) -> FloatArray:
    """Return log f(t) for times in units of the mean, (n,)."""
    from scipy.special import gammaln  # noqa: PLC0415

    if law == "lognormal":
        z = (np.log(t) - theta[0]) * math.exp(-theta[1])
        return -0.5 * z * z - 0.5 * math.log(2 * math.pi) - theta[1] - np.log(t)
    shape, logs = _shape(law, theta), np.log(t) - theta[-1]
    if law == "gamma":
        return (shape - 1) * logs - np.exp(logs) - float(gammaln(shape)) - theta[-1]
    return math.log(shape) - theta[-1] + (shape - 1) * logs - np.exp(shape * logs)


def _log_longer(law: str, theta: Sequence[float] | FloatArray, t: FloatArray) -> FloatArray:
    """Return log (1 - F(t)), (n,): the likelihood of a length that was not seen to its end."""
    from scipy.special import gammaincc, gammaln, log_ndtr  # noqa: PLC0415

    if law == "lognormal":
        return np.asarray(log_ndtr(-(np.log(t) - theta[0]) * math.exp(-theta[1])))
    shape, logs = _shape(law, theta), np.log(t) - theta[-1]
    if law != "gamma":
        return -np.exp(shape * logs)
    x = np.exp(logs)
    with np.errstate(divide="ignore"):
        found = np.log(gammaincc(shape, x))
    # log Q(shape, x) for large x: the incomplete gamma function itself is 0 there.
    far = (shape - 1) * logs - x - float(gammaln(shape))  # to first order, where float64 holds nothing else
    return np.where(np.isfinite(found), found, far)


def _log_shorter(law: str, theta: Sequence[float] | FloatArray, t: FloatArray) -> FloatArray:
    """Return log F(t), (n,): the likelihood of a length below the clock's tick."""
    from scipy.special import gammainc, gammaln, log_ndtr  # noqa: PLC0415

    if law == "lognormal":
        return np.asarray(log_ndtr((np.log(t) - theta[0]) * math.exp(-theta[1])))
    shape, logs = _shape(law, theta), np.log(t) - theta[-1]
    if law != "gamma":
        return np.log(-np.expm1(-np.exp(shape * logs)))
    with np.errstate(divide="ignore"):
        found = np.log(gammainc(shape, np.exp(logs)))
    return np.where(np.isfinite(found), found, shape * logs - float(gammaln(shape + 1)))


def _shape(law: str, theta: Sequence[float] | FloatArray) -> float:
    return 1.0 if law == "exponential" else math.exp(theta[0])


def _moments(law: str, theta: Sequence[float]) -> tuple[float, float]:
    """Return mean in the sample's unit, and standard deviation over mean."""
    if law == "lognormal":
        variance = math.exp(2 * theta[1])
        return _exp(theta[0] + variance / 2), math.sqrt(_exp(variance) - 1)
    shape, scale = _shape(law, theta), math.exp(theta[-1])
    if law == "weibull":
        first, second = (math.lgamma(1 + k / shape) for k in (1, 2))
        return scale * _exp(first), math.sqrt(max(0.0, _exp(second - 2 * first) - 1))
    return (shape * scale, 1 / math.sqrt(shape)) if law == "gamma" else (scale, 1.0)


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


def _named(law: str, theta: Sequence[float], unit: float) -> dict[str, float]:
    """Return the parameters by name, in seconds where they are times."""
    if law == "lognormal":
        return {"median_s": math.exp(theta[0]) * unit, "sigma": math.exp(theta[1])}
    scale = math.exp(theta[-1]) * unit
    return {"scale_s": scale} if law == "exponential" else {"shape": math.exp(theta[0]), "scale_s": scale}


def survival_of(fit: Fit, at_s: FloatArray) -> FloatArray:
    """Return P(longer than each time) by a law that was fitted.

    `at_s` is (n,) of times above zero [s]; returned are probabilities (n,). The parameters are those that
    `Fit.parameters` names.
    """
    named = fit.parameters
    first = named["median_s"] if fit.law == "lognormal" else named["scale_s"]
    second = named.get("sigma", named.get("shape", 1.0))
    theta = (math.log(first), math.log(second)) if fit.law == "lognormal" else (math.log(second), math.log(first))
    with np.errstate(over="ignore"):
        return np.exp(_log_longer(fit.law, theta, at_s))


def seen_survival(durations: CensoredDurations) -> tuple[FloatArray, FloatArray]:
    """Return the times at which some length ended, and the share that is longer, by Kaplan and Meier.

    The product-limit estimate (Kaplan and Meier, 1958): S(t) = product over times t_i <= t of (1 - ended_i / at
    risk_i). Both arrays are (n,).
    """
    times, after, _, ended, _ = _steps(_sample(durations.length_s, durations.kind))
    return times[ended > 0], after[ended > 0]


# -- how well it fits


def _steps(sample: _Sample) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return times, the Kaplan-Meier estimate after and before each, how many ended there, how many were at risk."""
    times, at = np.unique(sample.length, return_inverse=True)
    ended, left = (
        np.bincount(at, weights=np.where(kinds, sample.count, 0.0), minlength=times.size).astype(np.float64)
        for kinds in (sample.kind != LONGER, sample.kind == LONGER)
    )
    risk = np.cumsum((ended + left)[::-1])[::-1]
    after: FloatArray = np.cumprod(1 - ended / risk, dtype=np.float64)
    return times, after, np.concatenate([[1.0], after[:-1]]), ended, risk


def _distance(law: str, theta: Sequence[float], sample: _Sample) -> float:
    """Return the greatest distance between the law and the estimate of Kaplan and Meier, on both sides of its steps.

    As far as 5 % of all lengths are at risk: beyond, the estimate swings so much that it would hide all else.
    What is only known to be shorter than the clock's tick counts at the tick, as a step of its own kind would.
    """
    times, after, before, ended, risk = _steps(sample)
    survival = np.exp(_log_longer(law, theta, times))
    steps = (ended > 0) & (risk >= _AT_RISK * risk[0])
    return float(np.abs(np.stack([survival - after, survival - before])[:, steps]).max())


def _chance(
    law: str, theta: Sequence[float], durations: CensoredDurations, unit: float, distance: float, draws: int, seed: int
) -> tuple[float, int]:
    """Return (p, draws compared): how often data drawn by the law are as far from the law that is fitted to them.

    With (k + 1) / (n + 1) p is never too small. Draws end early where the answer is clear either way (Besag and
    Clifford 1991): that changes the digits of p, not whether it is above 5 %. Draws in which no length was seen to its
    end have no distance, and count neither as near nor as far: the log has such a length, else no law was fitted to it.
    """
    # A stream for each law: leaving one out does not change the draws of the others.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LAWS.index(law),)))
    exceed, greatest, compared = 0, 0.0, 0
    for _ in range(draws):
        length, kind = _drawn(law, theta, durations, unit, rng)
        if not np.any(kind == SEEN):
            continue
        compared += 1
        sample = _sample(length, kind)
        # Fitted again to the drawn data: distances to given parameters would be too large, and p too great.
        again, _ = _greatest(law, sample, theta)
        other = _distance(law, again, sample)
        exceed += other >= distance
        greatest = max(greatest, other)
        # Sequential p (Besag and Clifford): ten draws beyond give a relative error of about a third.
        if exceed >= _FEW_EXCEED:
            return exceed / compared, compared
        if compared == _EARLY and not exceed and distance > _FAR * greatest:
            break
    return (exceed + 1) / (compared + 1), compared


def _drawn(
    law: str, theta: Sequence[float], durations: CensoredDurations, unit: float, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return lengths and kinds as the log would show them, were the law true."""
    tick = durations.tick_s / unit
    # Up times follow each other within a window; repair times are drawn one by one, cut where the log was.
    if durations.exposure_s.size:
        length, kind = _one_after_the_other(law, theta, durations.exposure_s / unit, rng)
    else:
        limit = np.where(durations.kind == LONGER, durations.length_s / unit, np.inf)
        length = _random(law, theta, limit.size, rng)
        kind = np.where(length > limit, LONGER, SEEN)
        length = np.minimum(length, limit)
    if tick:
        rounded = np.round(length / tick) * tick
        kind = np.where((rounded == 0) & (kind == SEEN), SHORTER, kind)
        length = np.where(rounded == 0, tick, rounded)
    return length, kind.astype(np.int64)


def _one_after_the_other(
    law: str, theta: Sequence[float], exposure: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Return lengths of each host until its window ends, which cuts the last one."""
    left = exposure[exposure > 0]
    lengths, kinds = [], []
    for _ in range(_MOST_ROUNDS):
        if not left.size:
            break
        # Above zero, or a law with its mass near zero would never come to the end of the window.
        drawn = np.maximum(_random(law, theta, left.size, rng), 1e-12)
        cut = drawn > left
        lengths.append(np.minimum(drawn, left))
        kinds.append(np.where(cut, LONGER, SEEN))
        left = (left - drawn)[~cut]
    return np.concatenate(lengths), np.concatenate(kinds)


def _random(law: str, theta: Sequence[float], size: int, rng: np.random.Generator) -> FloatArray:
    """Return so many lengths drawn by the law, in units of the mean."""
    if law == "lognormal":
        return rng.lognormal(theta[0], math.exp(theta[1]), size)
    shape, scale = _shape(law, theta), math.exp(theta[-1])
    return scale * (rng.gamma(shape, size=size) if law == "gamma" else rng.weibull(shape, size))


_LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    """The chi-square of failures by host over its degrees of freedom, about 1 where hosts are alike.

    p: how likely it is as great by chance (asymptotically; None for fewer than two hosts or one failure).
    """

    ratio: float | None
    p: float | None


def rate_interval(events: int, exposure: float) -> tuple[float, float]:
    """Return the 95 % interval of a rate after `events` in an exposure, of a Poisson process; exact (Garwood, 1936).

    `exposure` is in any unit of time, and the rates are per that unit. Without an event the lower end is 0.

    >>> low, high = rate_interval(0, 1.0)
    >>> low, round(high, 3)  # -ln(0.025), somewhat more than the rule of three
    (0.0, 3.689)
    """
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to load

    # Quantiles of gamma(n) and gamma(n + 1): the exact interval of a Poisson mean.
    tail = (1 - _LEVEL) / 2
    low = float(gammaincinv(events, tail)) / exposure if events else 0.0
    return low, float(gammaincinv(events + 1, 1 - tail)) / exposure


def mean_interval(values: FloatArray) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean, by its standard error; None for fewer than two values.

    The normal approximation, mean ± 1.96 s / sqrt(n): for durations, which cannot be negative, the lower end is cut at
    0.
    """
    if values.size < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size)
    return max(0.0, mean - 1.96 * error), mean + 1.96 * error


def spread_of(failures: IntArray, exposure: FloatArray) -> Spread:
    """Test whether hosts have one rate, by Pearson's chi-square on failures against up times.

    `failures` (n_hosts,) are counts, `exposure` (n_hosts,) the up times [s]. Under one rate the expected count of a
    host is proportional to its up time; the statistic then has n_hosts - 1 degrees of freedom.
    """
    from scipy.special import gammaincc  # noqa: PLC0415

    watched = exposure > 0
    failures, exposure = failures[watched], exposure[watched]
    total, freedom = float(failures.sum()), failures.size - 1
    if not total or freedom < 1:
        return Spread(None, None)
    expected = exposure * (total / exposure.sum())
    chi = float(((failures - expected) ** 2 / expected).sum())
    return Spread(chi / freedom, float(np.clip(gammaincc(freedom / 2, chi / 2), 0.0, 1.0)))
