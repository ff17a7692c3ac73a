"""Records of failure logs: what is asked of them, what both readers find in them, and the log that this makes.

Two kinds of files are known: tables with the columns host, down, up and perhaps cause, and the format of the failure
data of Los Alamos National Laboratory (LA-UR-05-7318), where hosts are named SYSTEM-NODE.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from models import display
from models.checked_arrays import IntArray
from models.errors import NO_VALUE, InputError, InputFault, header_hint, raise_if_any
from models.reliability.failure_log import STILL_DOWN, FailureLog, within

TABLE, LANL = "table", "lanl"
TABLE_COLUMNS = ("host", "down", "up")
CAUSES = ("Facilities", "Hardware", "Human Error", "Network", "Undetermined", "Software")
LANL_COLUMNS = ("System", "nodes", "nodenumz", "node prod", "node decom", "Prob Started", "Prob Fixed", *CAUSES)
NO_CAUSE = "not given"
ISO = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
NUMBER = r"^\d{1,12}(\.\d{1,9})?$"
LANL_TIME = r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}$"

# Why a record cannot be used; the first that holds is given.
MALFORMED = "malformed line"
NO_HOST = "no host"
NO_NODE = "no such node in its system"
NO_DOWN = "down is no time since 1970"
NO_UP = "up is no time since 1970"
BACKWARDS = "up is before down"
# Both readers give the first reason that holds, in this order: their counts must be equal.
FAILS_AGAIN = "no end, and the host fails again later"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class LogQuestion:
    """Options for reading records: `zone` is that of times without one; `causes` and `systems` keep some records alone.

    begin, end: ISO 8601, the window; None is what the records tell. n_hosts: with those that never failed, of tables
    (LANL's records say it themselves). Raises InputError.
    """

    zone: str = "UTC"
    begin: str | None = None
    end: str | None = None
    n_hosts: int | None = None
    causes: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    max_bad_share: float = 0.05
    merge: bool = True

    def __post_init__(self) -> None:
        faults = []
        try:
            zoneinfo.ZoneInfo(self.zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            faults.append(InputFault("--zone", self.zone, "must be a time zone", 'as in "America/Denver"'))
        else:
            faults += list(self._window_faults())
        if self.n_hosts is not None and not 1 <= self.n_hosts <= 10**7:
            faults.append(InputFault("--hosts", self.n_hosts, "must be between 1 and 10000000"))
        if not 0 <= self.max_bad_share < 1:
            faults.append(InputFault("--max-bad-share", self.max_bad_share, "must be at least 0 and below 1"))
        raise_if_any(faults)

    def _window_faults(self) -> Iterator[InputFault]:
        for name, text in (("--begin", self.begin), ("--end", self.end)):
            if text is not None and iso_us(text, self.zone) is None:
                yield InputFault(name, text, "must be a time in ISO 8601 since 1970", 'as in "2003-11-01"')

    @property
    def window_us(self) -> tuple[int | None, int | None]:
        """Begin and end of the window [us since 1970]."""
        begin, end = (None if text is None else iso_us(text, self.zone) for text in (self.begin, self.end))
        return begin, end


@dataclass(frozen=True, eq=False)
class Records:
    """The result of reading: disjoint outages by host and time, and counts of all other records.

    host: names; down_us, up_us as in FailureLog. `used` records made them. watched: of LANL host -> (first month,
    last month) as text; sizes: of LANL system -> nodes. causes: cause -> used records. examples: (file, why, record).
    first_bad: where the first bad record is, as text; "" where the reader does not know (Spark).
    """

    kind: str
    host: tuple[str, ...]
    down_us: IntArray
    up_us: IntArray
    read: int
    used: int
    unwanted: int
    bad: Mapping[str, int]
    examples: Sequence[tuple[str, str, str]]
    causes: Mapping[str, int] = field(default_factory=dict)
    watched: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    first_bad: str = ""


def kind_of(columns: Sequence[str], name: str) -> str:
    """Return which format a file with these columns has; raises InputError where it is none.

    Further columns are ignored. LANL's columns are known by name, in any order.
    """
    if set(LANL_COLUMNS) <= set(columns):
        return LANL
    missing = [column for column in TABLE_COLUMNS if column not in columns]
    if missing:
        rule = f"lacks {', '.join(missing)}: a failure log has the columns host, down and up, or those of LANL"
        raise InputError.at("FILE", name, rule, header_hint(columns))
    return TABLE


def iso_us(text: str, zone: str) -> int | None:
    """Return microseconds since 1970 of a time in ISO 8601, None for other text; of two equal local times the first.

    >>> iso_us("1970-01-02", "UTC"), iso_us("yesterday", "UTC")
    (86400000000, None)
    """
    if not re.match(ISO, text):
        return None
    try:
        return _us(datetime.datetime.fromisoformat(text), zone)
    except (ValueError, OverflowError):
        return None


def number_us(text: str) -> int | None:
    """Return microseconds of a number of seconds since 1970 (or since any other origin), or None.

    >>> number_us("1.5"), number_us("1e3")
    (1500000, None)
    """
    if not re.match(NUMBER, text):
        return None
    whole, _, part = text.partition(".")
    return int(whole) * 1_000_000 + int(f"{part:<06.6}")


def lanl_us(text: str, zone: str) -> int | None:
    """Return microseconds since 1970 of a time such as 9/26/2003 16:40, or None.

    >>> lanl_us("1/1/1970 00:01", "UTC")
    60000000
    """
    if not re.match(LANL_TIME, text):
        return None
    month, day, year, hour, minute = map(int, re.split(r"[/ :]", text))
    try:
        return _us(datetime.datetime(year, month, day, hour, minute), zone)
    except (ValueError, OverflowError):
        return None


def datetime_us(value: datetime.datetime, zone: str) -> int | None:
    """Return microseconds since 1970, or None before it.

    A value without a zone is local time of `zone`; of a local time that comes twice, it is the first.
    """
    return _us(value, zone)


def _us(value: datetime.datetime, zone: str) -> int | None:
    # `replace` leaves fold at 0: of a local time that comes twice, in autumn, it is the first.
    aware = value if value.tzinfo is not None else value.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    found = (aware.astimezone(datetime.UTC) - _EPOCH) // _US
    return found if found >= 0 else None


def log_of(records: Records, question: LogQuestion) -> FailureLog:
    """Return the log of the records; raises InputError if too many are bad, none is left, or some overlap unasked.

    The window of hosts is that of the question, else from the first record to the last; LANL's records give one for
    each host by its months of production. Outages outside of the window are cut.
    """
    _check(records, question)
    hosts = sorted({*records.host, *records.watched})
    place = {name: index for index, name in enumerate(hosts)}
    number = np.array([place[name] for name in records.host], dtype=np.int64)
    begin, end = question.window_us
    seen_end = int(max(records.down_us.max(), records.up_us.max()))
    last = seen_end if end is None else end
    if records.kind == LANL:
        begins, ends = _lanl_windows(records, hosts, question.zone, seen_end)
        hosts, begins, ends = _with_quiet_nodes(records, hosts, begins, ends)
    else:
        first = int(records.down_us.min()) if begin is None else begin
        hosts = _with_others(hosts, question.n_hosts)
        begins, ends = np.full(len(hosts), first), np.full(len(hosts), last)
    downs = np.full(len(hosts), np.iinfo(np.int64).max)
    # A record outside the window that a host's months give widens it: the host was there.
    np.minimum.at(downs, number, records.down_us)
    lasts = np.full(len(hosts), -1)
    np.maximum.at(lasts, number, np.maximum(records.down_us, records.up_us))
    whole = FailureLog(
        tuple(hosts), np.minimum(begins, downs), np.maximum(ends, lasts),
        number, records.down_us, records.up_us,
        {"read": records.read, "used": records.used, "unwanted": records.unwanted,
         "merged": records.used - len(records.host)},
    )  # fmt: skip
    return within(whole, begin, end)


def _check(records: Records, question: LogQuestion) -> None:
    """Raise InputError where too many records are bad, none is left, or overlapping ones were refused."""
    bad = sum(records.bad.values())
    if records.read and bad / records.read > question.max_bad_share:
        shown = "; ".join(f"{why}: {count}" for why, count in records.bad.items())
        rule = f"{bad} of {records.read} records ({display.share(bad / records.read)}) cannot be used ({shown})"
        hint = f"the first of them is in {records.first_bad}" if records.first_bad else ""
        raise InputError.at("--max-bad-share", question.max_bad_share, rule, hint)
    if not records.host:
        rule = f"no record is left of {records.read}: {bad} are bad, {records.unwanted} not asked for"
        raise InputError.at("FILE", NO_VALUE, rule)
    if not question.merge and records.used > len(records.host):
        rule = f"{records.used - len(records.host)} records overlap or touch another of their host"
        raise InputError.at("--refuse-overlaps", NO_VALUE, rule, "without it they become one outage")


def _with_others(hosts: list[str], n_hosts: int | None) -> list[str]:
    """Return the hosts of a table, and those that never failed under names of their own, in order behind them."""
    if n_hosts is None:
        return hosts
    if n_hosts < len(hosts):
        raise InputError.at("--hosts", n_hosts, f"must be at least {len(hosts)}: so many hosts failed")
    known = set(hosts)
    free = (f"quiet-{k}" for k in range(2 * n_hosts))
    return hosts + [name for name in free if name not in known][: n_hosts - len(hosts)]


def _lanl_windows(records: Records, hosts: Sequence[str], zone: str, seen_end: int) -> tuple[IntArray, IntArray]:
    """Return the window of each host: from the first of a month to the end of one; if unknown, what was seen."""
    begins, ends, faults = [], [], []
    for name in hosts:
        first, last = records.watched[name]
        begin = None if first == "before tracking" else _month_us(first, zone)
        end = seen_end if last == "current" else _month_us(last, zone, after=True)
        if begin is None and first != "before tracking":
            faults.append(InputFault(f"{name}: node prod", NO_VALUE, "must be a month or `before tracking`"))
        if end is None:
            faults.append(InputFault(f"{name}: node decom", NO_VALUE, "must be a month or `current`"))
        begins.append(np.iinfo(np.int64).max if begin is None else begin)
        ends.append(end or 0)
    raise_if_any(faults)
    return np.array(begins, dtype=np.int64), np.array(ends, dtype=np.int64)


def _month_us(text: str, zone: str, *, after: bool = False) -> int | None:
    """Return the first instant of a month such as Nov-96 or 3-Sep (2003, from a spreadsheet), or of the next."""
    left, _, right = text.strip().lower().partition("-")
    month, year = (right, left) if left.isdigit() else (left, right)
    if month not in _MONTHS or not re.match(r"^\d{1,2}$", year):
        return None
    # Two digits: the data are of 1996 to 2005.
    number = (1900 if int(year) >= 50 else 2000) + int(year)
    months = number * 12 + _MONTHS.index(month) + (1 if after else 0)
    return _us(datetime.datetime(months // 12, months % 12 + 1, 1), zone)


def _with_quiet_nodes(
    records: Records, hosts: list[str], begins: IntArray, ends: IntArray
) -> tuple[list[str], IntArray, IntArray]:
    """Return hosts and windows with the nodes without a record, which never failed: watched as most of their system.

    That is the commonest window of those that failed; of those as common the first.
    """
    more: list[tuple[str, int, int]] = []
    known = set(hosts)
    for system, nodes in sorted(records.sizes.items()):
        windows = [
            (int(a), int(b))
            for name, a, b in zip(hosts, begins, ends, strict=True)
            if name.rpartition("-")[0] == system
        ]
        begin, end = max(sorted(set(windows)), key=windows.count)
        quiet = (f"{system}-{node}" for node in range(nodes))
        more += [(name, begin, end) for name in quiet if name not in known and begin < end]
    return (
        hosts + [name for name, _, _ in more],
        np.concatenate([begins, np.array([a for _, a, _ in more], dtype=np.int64)]),
        np.concatenate([ends, np.array([b for _, _, b in more], dtype=np.int64)]),
    )


__all__ = ["STILL_DOWN", "LogQuestion", "Records", "kind_of", "log_of"]
