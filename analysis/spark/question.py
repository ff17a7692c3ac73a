"""A question to a trace: columns, rows, streams, number of key groups, length of a bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.spark.sources import FLIGHT_STREAMS, Source, common_columns
from models.errors import InputFault, raise_if_any
from models.records.profile import ALL

MOST_CELLS = 50_000_000  # streams * key groups * bins, and the square of streams * key groups

MOST_COPIES = 1000


@dataclass(frozen=True)
class Question:
    """The options of ingest; checked on construction, apart from what only the files or Spark can tell."""

    key: str
    time: str
    where: str | None
    streams: Mapping[str, str]
    key_groups: int
    bin_s: float
    max_bad_share: float
    copies: int = 1
    weight: str | None = None

    def __post_init__(self) -> None:
        faults = _group_faults(self) + _bin_faults(self.bin_s)
        if isinstance(self.copies, bool) or not isinstance(self.copies, int) or not 1 <= self.copies <= MOST_COPIES:
            rule = f"must be a whole number between 1 and {MOST_COPIES}"
            faults.append(InputFault("ingest.copies", self.copies, rule))
        if not 0 <= self.max_bad_share <= 1:
            rule = "must lie between 0 and 1"
            faults.append(InputFault("ingest.max_bad_share", self.max_bad_share, rule))
        for name in self.streams:
            if name == ALL or not name.strip() or not name.isprintable():
                rule = f'must have a name, and another than "{ALL}", which every profile has'
                faults.append(InputFault("ingest.streams", name, rule))
        raise_if_any(faults)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are asked for, by the name of the option."""
        return {"key": self.key, "time": self.time, **({} if self.weight is None else {"weight": self.weight})}

    @property
    def bin_us(self) -> int:
        """The length of a bin in microseconds."""
        return round(self.bin_s * 1e6)

    def with_flight_streams(self, sources: Sequence[Source]) -> Question:
        """Return the question with those streams of flights whose column is in every file."""
        have = common_columns(sources)
        return replace(self, streams={n: sql for n, sql in FLIGHT_STREAMS.items() if sql.split()[0] in have})


def _group_faults(question: Question) -> list[InputFault]:
    groups, series = question.key_groups, len(question.streams) + 1
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        return [InputFault("ingest.key_groups", groups, "must be a whole number, at least 1")]
    # The correlation has a row and a column for each series: it, not the counts, fills the memory.
    if (series * groups) ** 2 > MOST_CELLS:
        rule = f"must be at most {int(MOST_CELLS**0.5) // series} with these streams"
        return [InputFault("ingest.key_groups", groups, rule)]
    return []


def _bin_faults(bin_s: float) -> list[InputFault]:
    if isinstance(bin_s, bool) or not isinstance(bin_s, (int, float)) or not 0 < bin_s < 1e12:
        return [InputFault("ingest.bin", bin_s, "must be positive")]
    bin_us = round(bin_s * 1e6)
    # Spark counts in microseconds: bins of a fraction of one would drift over a long trace.
    if bin_us < 1 or abs(bin_us - bin_s * 1e6) > 1e-3:
        return [InputFault("ingest.bin", bin_s, "must be a whole number of microseconds")]
    return []
