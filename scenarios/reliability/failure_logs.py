"""Failure logs: read by Spark or row by row, summed up, fitted, and kept in a file that others go on with."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.failure_logs.lifetimes import Fit, Spread, fits, mean_interval, rate_interval, spread_of
from analysis.failure_logs.reader import read_plain
from analysis.failure_logs.records import LANL, LogQuestion, Records, kind_of, log_of
from analysis.spark.session import require_pyspark
from analysis.spark.sources import TABLES, Source, open_sources
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.records.profile import instant_text
from models.reliability.failure_log import STILL_DOWN, US, FailureLog
from models.schema_types import seed_faults
from scenarios.files.documents import read_json
from scenarios.files.write_once import write_text

READERS = ("auto", "local", "spark")
FORMAT = "holdfast failures 1"
YEAR_S = 365.25 * 86_400
_SMALL_BYTES = 64_000_000  # what auto reads without Spark
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, eq=False)
class FailureAnswer:
    """The answer to a log: the log, the fate of its records, and the laws fitted to up and repair times."""

    files: tuple[str, ...]
    log: FailureLog
    records: Records
    up: tuple[Fit, ...]
    repair: tuple[Fit, ...]

    @property
    def mttf_s(self) -> float | None:
        """Mean up time: all up time by failures; None where nothing failed."""
        return float(self.log.up_s_of.sum()) / self.log.failures if self.log.failures else None

    @property
    def mttf_interval_s(self) -> tuple[float, float | None]:
        """Its 95 % interval if failures are a Poisson process; without an upper end where nothing failed.

        The exact interval of Garwood (*Fiducial Limits for the Poisson Distribution*, Biometrika 1936) for the rate,
        turned around.
        """
        low, high = rate_interval(self.log.failures, float(self.log.up_s_of.sum()))
        return 1 / high, 1 / low if low else None

    @property
    def mttr_s(self) -> float | None:
        """Mean repair time: all time in repair by repairs that ended."""
        durations = self.log.repair_times()
        seen = np.where(durations.kind == 2, durations.length_s / 2, durations.length_s)
        return float(seen.sum()) / durations.ended if durations.ended else None

    @property
    def unavailability(self) -> float:
        """Share of the time in which a host was watched that it was down.

        It is the pooled share over all hosts, so hosts that were watched longer weigh more.
        """
        down = float(self.log.down_s_of.sum())
        return down / (down + float(self.log.up_s_of.sum()))

    @property
    def spread(self) -> Spread:
        """Return whether hosts fail alike."""
        return spread_of(self.log.failures_of, self.log.up_s_of)


def read_failures(
    files: Sequence[str | Path],
    question: LogQuestion | None = None,
    *,
    on: str = "auto",
    draws: int | None = None,
    seed: int = 1,
    on_progress: Callable[[str], None] = lambda text: None,
) -> FailureAnswer:
    """Return the answer to some logs; raises InputError with all faults, and MissingTool for Spark without Java.

    `on`: local, spark, or auto, which takes Spark for more than 64 MB; all say the same. `draws` of the
    bootstrap (`analysis.failure_logs.lifetimes.fits`).
    """
    question = question or LogQuestion()
    if on not in READERS:
        raise InputError.at("--on", on, f"must be one of {', '.join(READERS)}")
    if draws is not None and not 0 <= draws <= 10_000:
        raise InputError.at("--draws", draws, "must be between 0 and 10000")
    raise_if_any(seed_faults("--seed", seed))
    sources, kind = _opened(files)
    if question.systems and kind != LANL:
        raise InputError.at("--system", question.systems[0], "is only for the format of LANL", "this log has none")
    if question.n_hosts is not None and kind == LANL:
        raise InputError.at(
            "--hosts", question.n_hosts, "is not for the format of LANL", "the number of nodes is known"
        )
    if on == "auto":
        # Starting Spark takes seconds: the plain reader is faster below this size. Both give the same records.
        on = "spark" if sum(source.path.stat().st_size for source in sources) > _SMALL_BYTES else "local"
    if on == "spark":
        require_pyspark()
        from analysis.spark.failures import read_with_spark  # noqa: PLC0415 - Spark only where it is used

        records = read_with_spark(sources, kind, question, on_progress=on_progress)
    else:
        on_progress("reading")
        records = read_plain(sources, kind, question)
    log = log_of(records, question)
    # `not >` refuses NaN as well.
    if not log.up_s_of.sum() > 0:
        hint = "give --begin and --end, and --hosts where some never failed"
        raise InputError.at("FILE", sources[0].name, "no host was up between the first record and the last", hint)
    on_progress("fitting up times")
    up = fits(log.up_times(), draws=draws, seed=seed)
    on_progress("fitting repair times")
    repair = fits(log.repair_times(), draws=draws, seed=seed)
    return FailureAnswer(tuple(source.name for source in sources), log, records, up, repair)


def _opened(files: Sequence[str | Path]) -> tuple[tuple[Source, ...], str]:
    """Return the files and their format; raises InputError where they cannot be used or differ in format."""
    try:
        sources = open_sources(files, TABLES)
    except InputError as error:
        # The reader names its own argument: users know the files as FILE.
        raise InputError(*(InputFault("FILE", one.value, one.rule, one.hint) for one in error.faults)) from None
    kinds = [kind_of(source.columns, source.name) for source in sources]
    for source, kind in zip(sources, kinds, strict=True):
        if kind != kinds[0]:
            raise InputError.at("FILE", source.name, f"has another format than {sources[0].name}")
    return sources, kinds[0]


def document(found: FailureAnswer, *, hosts: bool = True) -> dict[str, Any]:
    """Return the answer as one JSON document; with every host and outage where `hosts`. Times in seconds."""
    log, spread = found.log, found.spread
    # Times are stored from this origin: whole microseconds that stay small and exact in JSON.
    origin = int(log.begin_us.min())
    low, high = found.mttf_interval_s
    said: dict[str, Any] = {
        "format": FORMAT,
        "files": list(found.files),
        "window": {"begin": _instant(origin), "end": _instant(int(log.end_us.max()))},
        "hosts": len(log.hosts),
        "hosts_without_failure": int(np.count_nonzero(log.failures_of == 0)),
        "records": {
            "read": found.records.read,
            "used": found.records.used,
            "not_asked_for": found.records.unwanted,
            "bad": dict(found.records.bad),
            "merged_into_others": log.notes["merged"],
            "outside_of_window": log.notes["outside_window"],
        },
        "causes": dict(found.records.causes),
        "outages": len(log.host),
        "failures": log.failures,
        "up_s": float(log.up_s_of.sum()),
        "down_s": float(log.down_s_of.sum()),
        "mttf_s": found.mttf_s,
        "mttf_interval_s": [low, high],
        "mttr_s": found.mttr_s,
        "mttr_interval_s": mean_interval(log.repair_times().length_s),
        "failures_per_host_year": log.failures / (float(log.up_s_of.sum()) / YEAR_S),
        "unavailability": found.unavailability,
        "hosts_alike": asdict(spread),
        "clock_tick_s": log.tick_s,
        "up_time_laws": [_fit(one) for one in found.up],
        "repair_time_laws": [_fit(one) for one in found.repair],
    }
    if hosts:
        said |= {"by_host": _by_host(log), "log": _outages(log, origin)}
    return said


def _instant(us: int) -> str:
    return instant_text(_EPOCH + datetime.timedelta(microseconds=us))


def _fit(one: Fit) -> dict[str, Any]:
    return asdict(one) | {"rejected": one.rejected}


def _by_host(log: FailureLog) -> list[dict[str, Any]]:
    """Return failures, time up, time down and the longest outage [s] of each host, in the order of the log."""
    longest = np.zeros(len(log.hosts))
    # `maximum.at`, as a host has several outages: plain indexing would keep the last.
    np.maximum.at(longest, log.host, (log.until_us - log.down_us) / US)
    columns = (log.hosts, log.failures_of.tolist(), log.up_s_of.tolist(), log.down_s_of.tolist(), longest.tolist())
    keys = ("host", "failures", "up_s", "down_s", "longest_s")
    return [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


def _outages(log: FailureLog, origin: int) -> dict[str, Any]:
    """Return the window and the outages of each host, in microseconds after `origin`."""
    ends = np.where(log.up_us == STILL_DOWN, STILL_DOWN, log.up_us - origin)
    return {
        "origin_us": origin,
        "hosts": list(log.hosts),
        "begin_us": (log.begin_us - origin).tolist(),
        "end_us": (log.end_us - origin).tolist(),
        "host": log.host.tolist(),
        "down_us": (log.down_us - origin).tolist(),
        "up_us": ends.tolist(),
    }


def write_failures(found: FailureAnswer, path: Path, *, force: bool = False) -> None:
    """Write the file that `run`, `availability` and `size` take; raises InputError where one is there already."""
    write_text(path, json.dumps(document(found), allow_nan=False) + "\n", force=force)


_MAKE = "`holdfast failures LOG --out FILE.json` writes one"


@dataclass(frozen=True, eq=False)
class KeptLog:
    """A file of `holdfast failures --out` as it is read again.

    Other commands take MTTF, MTTR and outages from it, so that a log is read and judged once.
    """

    log: FailureLog
    mttf_s: float | None
    mttr_s: float | None
    said: Mapping[str, Any]

    def doubts(self, exponential: bool = True) -> list[str]:
        """Return where the log contradicts a model of equal hosts, and perhaps of `exponential` times."""
        found = []
        for key, noun in (("up_time_laws", "up times"), ("repair_time_laws", "repair times")):
            for fit in self.said.get(key) or ():
                if exponential and fit["law"] == "exponential" and fit["rejected"]:
                    found.append(
                        f"The {noun} of the log are not exponential, as the model has them: only their mean is."
                    )
        spread = (self.said.get("hosts_alike") or {}).get("p")
        if spread is not None and spread < 0.01:
            found.append("The hosts of the log do not fail alike: a system of its worst hosts needs more.")
        return found


def read_kept(path: Path) -> KeptLog:
    """Return the file that `write_failures` wrote; raises InputError for any other."""
    said = read_json(path)
    if said.get("format") != FORMAT:
        raise InputError.at(str(path), NO_VALUE, "is no file of holdfast failures", _MAKE)
    try:
        raw = said["log"]
        origin = int(raw["origin_us"])
        begin, end, host, down, up = (
            np.array(raw[key], dtype=np.int64) for key in ("begin_us", "end_us", "host", "down_us", "up_us")
        )
        up = np.where(up == STILL_DOWN, STILL_DOWN, up + origin)
        hosts = tuple(str(name) for name in raw["hosts"])
        # Caught below with all else that a broken file raises: one message for all of them.
        if not (len(hosts) == begin.size == end.size and host.size == down.size == up.size):
            raise ValueError("columns of unequal length")
        log = FailureLog(hosts, begin + origin, end + origin, host, down + origin, up)
        mttf_s, mttr_s = (None if said[key] is None else float(said[key]) for key in ("mttf_s", "mttr_s"))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError.at(str(path), NO_VALUE, "is a broken file of holdfast failures", _MAKE) from None
    if any(value is not None and not (math.isfinite(value) and value > 0) for value in (mttf_s, mttr_s)):
        raise InputError.at(str(path), NO_VALUE, "is a broken file of holdfast failures", "its mttf or mttr is none")
    return KeptLog(log, mttf_s, mttr_s, said)
