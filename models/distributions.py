"""Distributions of times and of gaps between arrivals, with mean and squared coefficient of variation.

They are descriptions: drawing from them is the simulator's work (`sim/draws.py`).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from models.schema_types import Count, Description, PositiveSeconds, Seconds
from models.special_functions import special_function


class Deterministic(Description):
    """Always the same time."""

    distribution: Literal["deterministic"] = "deterministic"
    value_s: PositiveSeconds = Field(alias="value")
    """The time."""

    @property
    def mean_s(self) -> float:
        """Return the mean [s]."""
        return self.value_s

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation: variance over squared mean."""
        return 0.0


class Exponential(Description):
    """Memoryless times."""

    distribution: Literal["exponential"] = "exponential"
    mean_s: PositiveSeconds = Field(alias="mean")
    """Mean time."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation: standard deviation and mean are equal."""
        return 1.0


class Gamma(Description):
    """Gamma times; whole shapes are Erlang's sums of `shape` exponential phases."""

    distribution: Literal["gamma"] = "gamma"
    mean_s: PositiveSeconds = Field(alias="mean")
    """Mean time."""
    shape: float = Field(ge=0.001, le=1e6, strict=True)
    """Shape: the squared coefficient of variation is 1 / shape."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation: variance mean^2 / shape over squared mean."""
        return 1.0 / self.shape


class Erlang(Description):
    """Sum of `shape` exponential phases."""

    distribution: Literal["erlang"] = "erlang"
    mean_s: PositiveSeconds = Field(alias="mean")
    """Mean of the sum."""
    shape: Count
    """Number of phases."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation: that of one phase over the number of phases."""
        return 1.0 / self.shape


class LogNormal(Description):
    """Log-normal times, given by mean and coefficient of variation."""

    distribution: Literal["lognormal"] = "lognormal"
    mean_s: PositiveSeconds = Field(alias="mean")
    """Mean time."""
    cv: float = Field(gt=0, le=100, strict=True)
    """Coefficient of variation."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation, which is given."""
        return self.cv**2


class Uniform(Description):
    """Equally likely between `low` and `high`."""

    distribution: Literal["uniform"] = "uniform"
    low_s: Seconds = Field(alias="low")
    """Shortest time."""
    high_s: PositiveSeconds = Field(alias="high")
    """Longest time."""

    @property
    def mean_s(self) -> float:
        """Return the mean [s]: the middle."""
        return (self.low_s + self.high_s) / 2

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation: variance (high - low)^2 / 12 over squared mean."""
        return (self.high_s - self.low_s) ** 2 / 12 / self.mean_s**2


TimeDistribution = Annotated[
    Deterministic | Exponential | Gamma | Erlang | LogNormal | Uniform, Field(discriminator="distribution")
]


def shortest_s(law: TimeDistribution) -> float:
    """Return the time that a law never falls below [s]."""
    if isinstance(law, Deterministic):
        return law.value_s
    return law.low_s if isinstance(law, Uniform) else 0.0


def longest_s(law: TimeDistribution) -> float:
    """Return the time that a law never exceeds [s]; infinite where there is none."""
    if isinstance(law, Deterministic):
        return law.value_s
    return law.high_s if isinstance(law, Uniform) else math.inf


def survival(law: TimeDistribution, time_s: float) -> float:
    """Return the probability that a law is at least `time_s`.

    >>> survival(Uniform(low="10 s", high="20 s"), 17.5)
    0.25
    """
    if time_s <= shortest_s(law):
        return 1.0
    if time_s >= longest_s(law):
        return 0.0
    if isinstance(law, Exponential):
        return math.exp(-time_s / law.mean_s)
    if isinstance(law, (Gamma, Erlang)):
        return float(special_function("gammaincc")(law.shape, time_s / law.mean_s * law.shape))
    if isinstance(law, LogNormal):
        sigma = math.sqrt(math.log1p(law.cv**2))
        mu = math.log(law.mean_s) - sigma**2 / 2
        return math.erfc((math.log(time_s) - mu) / sigma / math.sqrt(2)) / 2
    assert isinstance(law, Uniform)  # all times of a deterministic law are at most, or at least, its own
    return (law.high_s - time_s) / (law.high_s - law.low_s)


class DeterministicGaps(Description):
    """Gaps between arrivals follow the rate exactly; all tasks of a source together are evenly spaced."""

    distribution: Literal["deterministic"] = "deterministic"

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps."""
        return 0.0


class ExponentialGaps(Description):
    """Gaps between arrivals are exponential: a Poisson process."""

    distribution: Literal["exponential"] = "exponential"

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps."""
        return 1.0


class ErlangGaps(Description):
    """Gaps between arrivals are sums of `shape` exponential phases; their mean follows the rate."""

    distribution: Literal["erlang"] = "erlang"
    shape: Count
    """Number of phases."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps: one over the number of phases."""
        return 1.0 / self.shape


class GammaGaps(Description):
    """Gaps between arrivals are gamma distributed; their mean follows the rate."""

    distribution: Literal["gamma"] = "gamma"
    shape: float = Field(ge=0.001, le=1e6, strict=True)
    """Shape: the squared coefficient of variation is 1 / shape."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps: one over the shape."""
        return 1.0 / self.shape


class LogNormalGaps(Description):
    """Gaps between arrivals are log-normal with coefficient of variation `cv`."""

    distribution: Literal["lognormal"] = "lognormal"
    cv: float = Field(gt=0, le=100, strict=True)
    """Coefficient of variation."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps, which is given."""
        return self.cv**2


class UniformGaps(Description):
    """Gaps between arrivals are uniform between (1 - spread) and (1 + spread) times the mean gap."""

    distribution: Literal["uniform"] = "uniform"
    spread: float = Field(gt=0, le=1, strict=True)
    """Largest relative distance from the mean gap."""

    @property
    def scv(self) -> float:
        """Return the squared coefficient of variation of gaps: variance (2 spread)^2 / 12 at a mean of 1."""
        return self.spread**2 / 3


GapDistribution = Annotated[
    DeterministicGaps | ExponentialGaps | ErlangGaps | GammaGaps | LogNormalGaps | UniformGaps,
    Field(discriminator="distribution"),
]


class BatchSize(Description):
    """Number of tuples that arrive together: geometric with this mean, at least one."""

    distribution: Literal["geometric"] = "geometric"
    mean: float = Field(ge=1, strict=True)
    """Mean number of tuples that arrive together."""
