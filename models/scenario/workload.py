"""The input of a job: the rate of a source over time, the law of its arrivals, its keys and its tuples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from models.distributions import BatchSize, GapDistribution
from models.schema_types import Count, Description, FilePath, PerSecond, PositiveBytes, PositiveSeconds, Seconds


class ConstantRate(Description):
    """The same rate all the time."""

    constant_per_s: PerSecond = Field(alias="constant")
    """Tuples per time."""


class Step(Description):
    """From `at` on the rate is `rate`."""

    at_s: Seconds = Field(alias="at")
    """When the rate changes."""
    rate_per_s: PerSecond = Field(alias="rate")
    """Tuples per time from then on."""


class StepRate(Description):
    """A rate that jumps; the first step is at 0 s."""

    steps: tuple[Step, ...] = Field(min_length=1)
    """Steps in order of time; the first is at 0 s."""


class Ramp(Description):
    """From `start` to `end` in a straight line over `over`, then `end`."""

    start_per_s: PerSecond = Field(alias="start")
    """Rate at the start."""
    end_per_s: PerSecond = Field(alias="end")
    """Rate at the end and after it."""
    over_s: PositiveSeconds = Field(alias="over")
    """How long the change takes."""


class RampRate(Description):
    """A rate that changes in a straight line."""

    ramp: Ramp
    """The straight line."""


class SeriesRate(Description):
    """A recorded series: CSV with a header; the column `value` holds tuples per step."""

    series: FilePath
    """CSV file, relative to the scenario file."""
    value: str = "value"
    """Column with tuples per step."""
    step_s: PositiveSeconds = Field(alias="step")
    """Time between two rows."""
    scale: float = Field(default=1.0, gt=0, strict=True)
    """Factor on all values."""


class ProfileRate(Description):
    """One stream of an ingested profile: its bins mapped onto `span`, its mean scaled to `mean`."""

    profile: FilePath
    """Directory of the profile, relative to the scenario file."""
    stream: str = "all"
    """Stream of the profile."""
    span_s: PositiveSeconds = Field(alias="span")
    """Time in the run that the whole profile is mapped onto."""
    mean_per_s: PerSecond = Field(alias="mean")
    """Mean rate over the span."""
    begin_s: Seconds = Field(default=0.0, alias="begin")
    """Time of the span at which the run begins. What comes before is known to whoever plans, what comes after is not;
    at 0 plans are made from the beginning of the run itself.
    """


_RATE_KEYS = {
    "constant": "constant",
    "constant_per_s": "constant",
    "steps": "steps",
    "ramp": "ramp",
    "series": "series",
    "profile": "profile",
}


def _rate_kind(value: object) -> str | None:
    """Return which kind of rate a table, or a value made in code, is; None if no key tells."""
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((_RATE_KEYS[key] for key in keys if key in _RATE_KEYS), None)


def _plain_rate(value: object) -> object:
    """Return a bare rate, such as "100 /s", as the table of a constant one."""
    return {"constant": value} if isinstance(value, (str, int, float)) and not isinstance(value, bool) else value


_RateTable = ConstantRate | StepRate | RampRate | SeriesRate | ProfileRate

Rate = Annotated[
    Annotated[ConstantRate, Tag("constant")]
    | Annotated[StepRate, Tag("steps")]
    | Annotated[RampRate, Tag("ramp")]
    | Annotated[SeriesRate, Tag("series")]
    | Annotated[ProfileRate, Tag("profile")],
    Discriminator(
        _rate_kind,
        custom_error_type="rate",
        custom_error_message='must be a rate such as "100 /s" or a table with steps, ramp, series or profile',
    ),
    BeforeValidator(_plain_rate, json_schema_input_type=PerSecond | _RateTable),
]


class UniformKeys(Description):
    """`count` keys, equally likely."""

    distribution: Literal["uniform"] = "uniform"
    count: Count
    """Number of keys."""


class ZipfKeys(Description):
    """`count` keys; the k-th is drawn in proportion to 1 / k^exponent."""

    distribution: Literal["zipf"] = "zipf"
    count: Count
    """Number of keys."""
    exponent: float = Field(gt=0, strict=True)
    """Skew: 0 would be uniform."""


class ProfileKeys(Description):
    """Keys are the key groups of the profile that gives the rate, as likely as in its bin."""

    distribution: Literal["profile"] = "profile"


Keys = Annotated[UniformKeys | ZipfKeys | ProfileKeys, Field(discriminator="distribution")]
OutputKeys = Annotated[UniformKeys | ZipfKeys, Field(discriminator="distribution")]


class SourceWorkload(Description):
    """Output of one source operator, all its tasks together."""

    rate: Rate
    """Tuples per time: a quantity, or a table with `constant`, `steps`, `ramp`, `series` or `profile`."""
    arrivals: Literal["deterministic", "poisson"] | GapDistribution = "poisson"
    """Law of the gaps between arrivals."""
    keys: Keys = UniformKeys(count=1)
    """Keys of the tuples."""
    tuple_bytes: PositiveBytes = Field(default=100.0, alias="tuple")
    """Size of a tuple."""
    batch: Count | BatchSize = 1
    """Tuples that arrive together: a number, or a geometric distribution."""
    watermark_s: PositiveSeconds = Field(default=0.2, alias="watermark")
    """Time between two watermarks, which a source sends where an operator downstream has a window."""
