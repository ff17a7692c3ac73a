"""The load of a trace: counts per stream, key group and bin, and the number of rows that were left out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from models.checked_arrays import FloatArray, IntArray, freeze_fields
from models.correlation import pearson
from models.errors import InputError, InputFault, raise_if_any
from models.scenario.key_groups import HASHES, PLAIN, SALTED
from models.schema_types import FrozenMap

ALL = "all"  # the first stream of every profile: every row that was kept
TOTALS = ("rows_read", "rows_kept", "rows_dropped", "rows_quarantined")


@dataclass(frozen=True, eq=False)
class Profile:
    """The load of a trace by stream, key group and bin; everything in it is read-only.

    sources: names of the files; key, time: columns; where: SQL that kept rows, or None; hash: how keys find
    key groups; copies: of how many copies of the volume `counts` is the sum, each with key groups of its own;
    weight: the column that says how many rows a row stands for, or None; bin_s [s]; start: ISO
    text of the first bin's start in UTC; streams: "all" first, then those
    of `filters` (stream -> SQL). counts (streams, key_groups, bins): rows. selectivity: share of kept rows by
    stream. correlation (streams * key_groups)^2: Pearson over the bins, series of the first stream first,
    constant series 0. totals: rows_read = rows_kept + rows_dropped (no key, or not wanted by `where`, or
    outside a window) + rows_quarantined. top_keys: (key, rows), most frequent first; keys: how many there
    are, or None where not known. minutes_in_air: total and mean per row that has it, or None. Raises
    InputError with every fault found.

    >>> import numpy as np
    >>> from holdfast import Profile
    >>> counts = np.array([[[3, 1, 0, 2], [1, 1, 4, 2]]])  # one stream, two key groups, four minutes
    >>> profile = Profile(
    ...     sources=("requests.csv",), key="user", time="at", where=None, key_groups=2, bin_s=60.0,
    ...     start="2026-01-01T00:00:00Z", streams=("all",), counts=counts, selectivity={"all": 1.0},
    ...     correlation=np.corrcoef(counts[0]).round(12),
    ...     totals={"rows_read": 14, "rows_kept": 14, "rows_dropped": 0, "rows_quarantined": 0})
    >>> profile.rates["all"]["peak_rows_per_bin"]
    4
    >>> profile.rebinned(2).counts.tolist()  # two minutes a bin
    [[[4, 2], [2, 6]]]
    """

    sources: tuple[str, ...]
    key: str
    time: str
    where: str | None
    key_groups: int
    bin_s: float
    start: str
    streams: tuple[str, ...]
    counts: IntArray
    selectivity: Mapping[str, float]
    correlation: FloatArray
    totals: Mapping[str, int]
    hash: str = PLAIN
    copies: int = 1
    weight: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    top_keys: tuple[tuple[str, int], ...] = ()
    keys: int | None = None
    minutes_in_air: Mapping[str, float] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = _scalar_faults(self)
        raise_if_any(faults)
        raise_if_any(_array_faults(self) + _total_faults(self))
        freeze_fields(self, np.int64, "counts")
        freeze_fields(self, np.float64, "correlation")
        for name in ("selectivity", "totals", "filters", "minutes_in_air", "versions"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else FrozenMap(value))

    @property
    def bins(self) -> int:
        """Return the number of bins."""
        return int(self.counts.shape[2])

    @property
    def mean_rate_per_s(self) -> FloatArray:
        """Return the mean rate (streams, key_groups) [rows/s]."""
        rate: FloatArray = self.counts.sum(axis=2) / (self.bins * self.bin_s)
        return rate

    @property
    def rates(self) -> dict[str, dict[str, float]]:
        """Return the rate of each stream over key groups: mean [rows/s], and the fullest bin's [rows/s] and rows."""
        totals = self.counts.sum(axis=1)
        return {
            stream: {
                "mean_per_s": float(row.sum() / (self.bins * self.bin_s)),
                "peak_per_s": float(row.max() / self.bin_s),
                "peak_rows_per_bin": int(row.max()),
            }
            for stream, row in zip(self.streams, totals, strict=True)
        }

    def load(self, stream: str) -> FloatArray:
        """Return the rate (key_groups, bins) [rows/s] of one stream.

        Rows of a bin divided by its length: the mean over the bin. Raises InputError for an unknown stream.
        """
        if stream not in self.streams:
            raise InputError.at("stream", stream, f"must be one of {', '.join(self.streams)}")
        rate: FloatArray = self.counts[self.streams.index(stream)] / self.bin_s
        return rate

    def window(self, first_bin: int, last_bin: int) -> Profile:
        """Return the profile of bins first_bin .. last_bin - 1; rows outside count as dropped.

        The new first bin starts where `first_bin` did. Correlations and shares are computed again, and figures of
        single keys are not known for a part of the trace. Raises InputError unless 0 <= first_bin < last_bin <= bins.
        """
        if not 0 <= first_bin < last_bin <= self.bins:
            rule = f"must be 0 <= first < last <= {self.bins}"
            raise InputError.at("window", f"{first_bin}..{last_bin}", rule)
        if (first_bin, last_bin) == (0, self.bins):
            return self
        start = _later(self.start, first_bin * self.bin_s)
        return self._with_counts(self.counts[:, :, first_bin:last_bin], start, self.bin_s)

    def rebinned(self, factor: int) -> Profile:
        """Return the profile with `factor` bins made one; rows of an incomplete last bin are dropped.

        Coarser bins smooth the load: peaks can only fall. Raises InputError unless 1 <= factor <= bins.
        """
        if isinstance(factor, bool) or not isinstance(factor, int) or not 1 <= factor <= self.bins:
            raise InputError.at("factor", factor, f"must be a whole number between 1 and {self.bins}")
        if factor == 1:
            return self
        whole = self.bins // factor * factor
        shape = (*self.counts.shape[:2], whole // factor, factor)
        counts = self.counts[:, :, :whole].reshape(shape).sum(axis=3)
        # Nothing is dropped: totals and most frequent keys still hold.
        if whole == self.bins:
            return replace(self, counts=counts, bin_s=self.bin_s * factor, correlation=pearson(_rows(counts)))
        return self._with_counts(counts, self.start, self.bin_s * factor)

    def _with_counts(self, counts: IntArray, start: str, bin_s: float) -> Profile:
        """Return the profile with other counts (streams, key_groups, bins), and with all that follows from them."""
        # Figures of single keys and rows are not known for a part of the trace: they are left out.
        kept = int(counts[0].sum()) // self.copies
        bad = self.totals["rows_quarantined"]
        return replace(
            self,
            counts=counts,
            start=start,
            bin_s=bin_s,
            correlation=pearson(_rows(counts)),
            selectivity=selectivities(self.streams, counts),
            totals=dict(self.totals, rows_kept=kept, rows_dropped=self.totals["rows_read"] - bad - kept),
            top_keys=(),
            keys=None,
            minutes_in_air=None,
        )


def selectivities(streams: tuple[str, ...], counts: IntArray) -> dict[str, float]:
    """Return the share of the first stream's rows that each stream has; 0 where there are none."""
    rows = counts.sum(axis=(1, 2))
    return {stream: float(n / rows[0]) if rows[0] else 0.0 for stream, n in zip(streams, rows, strict=True)}


def instant(text: str) -> datetime.datetime:
    """Return the instant, in UTC where the text has no zone; raise InputError for text that is not ISO 8601."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise InputError.at("start", text, "must be a date and time in ISO 8601") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def instant_text(found: datetime.datetime) -> str:
    """Return ISO 8601 text with Z, as `Profile.start` has it."""
    return found.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _later(start: str, seconds: float) -> str:
    """Return ISO 8601 text of the instant so many seconds after the start."""
    return instant_text(instant(start) + datetime.timedelta(seconds=seconds))


def _rows(counts: IntArray) -> IntArray:
    """Return the series as a matrix (streams * key_groups, bins), the order of `Profile.correlation`."""
    return counts.reshape(-1, counts.shape[2])


def _scalar_faults(profile: Profile) -> list[InputFault]:
    """Return the faults of names, numbers and the start; arrays are checked only if there are none."""
    faults = []
    if profile.weight is not None and (not isinstance(profile.weight, str) or not profile.weight):
        faults.append(InputFault("profile.weight", profile.weight, "must be the name of a column"))
    if not profile.sources or not all(isinstance(name, str) and name for name in profile.sources):
        faults.append(InputFault("profile.sources", profile.sources, "must name at least one file"))
    for name in ("key", "time"):
        if not isinstance(getattr(profile, name), str) or not getattr(profile, name):
            faults.append(InputFault(f"profile.{name}", getattr(profile, name), "must be the name of a column"))
    if profile.hash not in HASHES:
        faults.append(InputFault("profile.hash", profile.hash, f"must be one of {', '.join(HASHES)}"))
    if not _whole(profile.copies) or profile.copies < 1:
        faults.append(InputFault("profile.copies", profile.copies, "must be a whole number, at least 1"))
    elif profile.hash in HASHES and (profile.hash == SALTED) != (profile.copies > 1):
        rule = f"must be {PLAIN} of one copy, {SALTED} of several"
        faults.append(InputFault("profile.hash", profile.hash, rule))
    if not _whole(profile.key_groups) or profile.key_groups < 1:
        faults.append(InputFault("profile.key_groups", profile.key_groups, "must be a whole number, at least 1"))
    if isinstance(profile.bin_s, bool) or not isinstance(profile.bin_s, (int, float)):
        faults.append(InputFault("profile.bin_s", profile.bin_s, "must be a number of seconds"))
    elif not (math.isfinite(profile.bin_s) and profile.bin_s > 0):
        faults.append(InputFault("profile.bin_s", profile.bin_s, "must be positive"))
    try:
        instant(profile.start)
    except InputError:
        faults.append(InputFault("profile.start", profile.start, "must be a date and time in ISO 8601"))
    streams = profile.streams
    if not streams or streams[0] != ALL or len(set(streams)) != len(streams):
        faults.append(InputFault("profile.streams", streams, f'must be different names, "{ALL}" first'))
    return faults


def _array_faults(profile: Profile) -> list[InputFault]:
    """Return the faults of `counts` and `correlation`: shape, type and range."""
    counts, correlation = np.asarray(profile.counts), np.asarray(profile.correlation)
    n = len(profile.streams) * profile.key_groups
    faults = []
    if counts.ndim != 3 or counts.shape[:2] != (len(profile.streams), profile.key_groups) or not counts.shape[2]:
        rule = f"must have shape ({len(profile.streams)}, {profile.key_groups}, bins)"
        faults.append(InputFault("profile.counts", counts.shape, rule))
    elif counts.dtype.kind not in "iu" or counts.min() < 0:
        faults.append(InputFault("profile.counts", counts.min(), "must be whole numbers, at least 0"))
    elif (counts > counts[:1]).any():
        faults.append(InputFault("profile.counts", profile.streams, f'no stream has more rows than "{ALL}"'))
    if correlation.shape != (n, n) or correlation.dtype.kind != "f":
        faults.append(InputFault("profile.correlation", correlation.shape, f"must have shape ({n}, {n})"))
    elif not (np.abs(correlation) <= 1).all():
        faults.append(InputFault("profile.correlation", "entries", "must lie between -1 and 1"))
    elif not np.array_equal(correlation, correlation.T):
        faults.append(InputFault("profile.correlation", "entries", "must be symmetric"))
    return faults


def _total_faults(profile: Profile) -> list[InputFault]:
    """Return the faults of totals, shares and filters, which must agree with the counts and the streams."""
    totals, faults = profile.totals, []
    if set(totals) != set(TOTALS) or not all(_whole(n) and n >= 0 for n in totals.values()):
        return [InputFault("profile.totals", dict(totals), f"must be whole numbers: {', '.join(TOTALS)}")]
    if totals["rows_read"] != sum(totals[name] for name in TOTALS[1:]):
        faults.append(InputFault("profile.totals", dict(totals), "rows_read must be the sum of the others"))
    counts = np.asarray(profile.counts)
    if counts.ndim == 3 and len(counts) and totals["rows_kept"] * profile.copies != int(counts[0].sum()):
        rule = "must be the sum of the counts" + (f" over {profile.copies} copies" if profile.copies > 1 else "")
        faults.append(InputFault("profile.totals.rows_kept", totals["rows_kept"], rule))
    if set(profile.selectivity) != set(profile.streams):
        faults.append(InputFault("profile.selectivity", dict(profile.selectivity), "must name every stream"))
    elif not all(0 <= share <= 1 for share in profile.selectivity.values()):
        faults.append(InputFault("profile.selectivity", dict(profile.selectivity), "must lie between 0 and 1"))
    if not set(profile.filters) <= set(profile.streams[1:]):
        faults.append(InputFault("profile.filters", tuple(profile.filters), "must be named as the streams"))
    return faults


def _whole(value: object) -> bool:
    """Return True for an integer that is no bool."""
    return isinstance(value, int) and not isinstance(value, bool)
