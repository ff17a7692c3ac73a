"""The input of a job: the rate of a source over time, the law of its arrivals, its keys and its tuples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, PrivateAttr, Tag

from models.distributions import BatchSize, GapDistribution
from models.scenario import nexmark
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


class NexmarkKeys(Description):
    """Keys of the events of one kind in NEXMark, a benchmark of an auction site; which keys are hot changes over time.

    The rate of the source is that of the events of this kind: of 50 events one is a person, three are auctions and 46
    are bids.
    """

    distribution: Literal["nexmark"] = "nexmark"
    field: nexmark.Field
    """Field of the event that is the key: `person.id`, `auction.id`, `auction.seller`, `bid.auction`, `bid.bidder`."""
    in_flight: Count = 100
    """Auctions that bids refer to beside the hot one, the newest ones; for `bid.auction`."""
    _each: int = PrivateAttr(default=1)

    @property
    def each(self) -> int:
        """Return the number of events that one stands for, and of ids that one id stands for."""
        return self._each

    def of_every(self, count: int) -> NexmarkKeys:
        """Return the keys of a run in which one event stands for so many."""
        made = self.model_copy()
        made._each = count
        return made


Keys = Annotated[UniformKeys | ZipfKeys | ProfileKeys | NexmarkKeys, Field(discriminator="distribution")]


class SellerKeys(Description):
    """Sellers by the rules of NEXMark: the key of a tuple that comes is an auction, that of one that leaves its seller.

    With 3 of 4 that is the person who was hot when the auction was opened, else one of the last 1,000 by then.
    """

    distribution: Literal["nexmark"] = "nexmark"
    field: Literal["auction.seller"] = "auction.seller"
    """Field of the auction that is the new key."""


OutputKeys = Annotated[UniformKeys | ZipfKeys | SellerKeys, Field(discriminator="distribution")]


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

    def most_keys(self, duration_s: float) -> int | None:
        """Return an upper bound of its keys 0, 1, ... in a run; None for key groups of a profile.

        Raises ValueError for keys of NEXMark whose rate is a recorded one, which the rules refuse.
        """
        if isinstance(self.keys, ProfileKeys):
            return None
        if not isinstance(self.keys, NexmarkKeys):
            return self.keys.count
        events, each = peak_per_s(self.rate) * duration_s, self.keys.each
        return -(-nexmark.most_ids(self.keys.field, events * each) // each)

    def keys_within(self, window_s: float) -> int | None:
        """Return an upper bound of its different keys in a part of the run; None for key groups of a profile."""
        if not isinstance(self.keys, NexmarkKeys):
            return self.most_keys(window_s)
        events, each = peak_per_s(self.rate) * window_s, self.keys.each
        return -(-nexmark.ids_within(self.keys.field, events * each, self.keys.in_flight) // each)


def peak_per_s(rate: Rate) -> float:
    """Return the largest rate [1/s]; ValueError for a recorded one."""
    if isinstance(rate, ConstantRate):
        return rate.constant_per_s
    if isinstance(rate, StepRate):
        return max(step.rate_per_s for step in rate.steps)
    if isinstance(rate, RampRate):
        return max(rate.ramp.start_per_s, rate.ramp.end_per_s)
    raise ValueError("a recorded rate has to be read first")
