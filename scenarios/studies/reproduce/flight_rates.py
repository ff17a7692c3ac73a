"""The airline job at the level of rates: load of every key group in every second of a run, from real flights.

A year of flights becomes 2,880 s. Operator 1 gets every flight, operator 2 the delayed ones, operator 3 those that were
in the air, each by key group of the airplane; operator 4 gets 80 tuples/s at random. Key groups 1 to 3 are on 16 hosts,
those of operator 4 on four more. Source of the parameters: Madsen and Zhou, CIKM
2015, as reconstructed for "checkpoint-assisted" in docs/explanation/claims.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from models.scenario.key_groups import crc32, salted_groups

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Profile = Literal["steps", "event", "const"]

SECONDS, TRAINING_S, WINDOW_S = 2880, 900, 8
WORKERS, SAMPLERS = 16, 4
OPERATORS = 4
_SAMPLES_PER_S = 80
_STEP_S, _STEP = 60, 0.3  # the total is drawn again each minute, within 30 % of its mean


@dataclass(frozen=True)
class Airline:
    """One setting. `copies` of the volume, each with groups of its own; `salt` numbers another set of them."""

    key_groups: int = 32
    copies: int = 22
    salt: int = 0
    profile: Profile = "steps"
    utilisation: float = 0.62  # of the 16 hosts, on average before anything moves
    sampler_utilisation: float = 0.05
    theta: float = 0.85  # above which a host is overloaded


@dataclass(frozen=True, eq=False)  # the same only as itself: what is made of one is kept
class Flights:
    """One year: how often each airplane flies in each second, by operator; shape (airplanes, SECONDS) each."""

    tails: tuple[str, ...]
    every: FloatArray
    delayed: FloatArray
    airborne: FloatArray


@lru_cache(maxsize=4)
def flights(path: Path, year: int | None = None) -> Flights:
    """Return the flights of a Parquet file, or of one year in it; rows without a tail number are left out.

    Needs the columns sched_dep_ts, tailnum, arr_delay and air_time.
    """
    table = pq.read_table(path, columns=["sched_dep_ts", "tailnum", "arr_delay", "air_time"])
    when = table["sched_dep_ts"].to_numpy().astype("datetime64[s]")
    tails = np.array(table["tailnum"].to_pylist(), dtype=object)
    delay = table["arr_delay"].to_numpy(zero_copy_only=False).astype(float)
    air = table["air_time"].to_numpy(zero_copy_only=False).astype(float)
    years = when.astype("datetime64[Y]")
    kept = np.array([tail is not None for tail in tails])
    if year is not None:
        kept &= years == np.datetime64(str(year))
    when, tails, delay, air, years = when[kept], tails[kept], delay[kept], air[kept], years[kept]
    begin = years.astype("datetime64[s]")
    length = (years + 1).astype("datetime64[s]") - begin
    second = ((when - begin).astype(np.int64) * SECONDS) // length.astype(np.int64)
    names, airplane = np.unique(tails.astype(str), return_inverse=True)
    place = airplane * SECONDS + second

    def counted(rows: npt.NDArray[np.bool_]) -> FloatArray:
        size = len(names) * SECONDS
        return np.bincount(place[rows], minlength=size).reshape(len(names), SECONDS).astype(np.float64)

    return Flights(tuple(names.tolist()), counted(place >= 0), counted(delay > 0), counted(~np.isnan(air)))


def homes(setting: Airline) -> IntArray:
    """Return the host of each key group by operator: group j of 1 to 3 on j mod 16, of 4 on 16 + j mod 4."""
    groups = np.arange(setting.key_groups)
    return np.concatenate([groups % WORKERS] * 3 + [WORKERS + groups % SAMPLERS])


def operators(setting: Airline) -> IntArray:
    """Return the operator of each key group, 1 to 4."""
    return np.repeat(np.arange(1, OPERATORS + 1), setting.key_groups)


def loads(setting: Airline, year: Flights, seed: int) -> FloatArray:
    """Load [cores] of each key group in each window of WINDOW_S, (4 key_groups, SECONDS / WINDOW_S).

    `seed` draws the level of each minute and what operator 4 gets; which airplane is in which group follows from the
    salt. Hosts have one core of speed 1.
    """
    # A stream for each setting: runs of other salts or sizes are independent of each other.
    rng = np.random.default_rng([seed, setting.salt, setting.key_groups])
    series = _series(setting.key_groups, setting.copies, setting.salt, year)
    level = _level(setting.profile, series[0].sum(axis=0), rng)
    worked = np.vstack([one * level for one in series])
    # Scaled after the levels are drawn, so that every seed has exactly the same mean utilisation.
    worked *= setting.utilisation * WORKERS / worked.sum(axis=0).mean()
    shares = np.full(setting.key_groups, 1 / setting.key_groups)
    sampled = rng.multinomial(_SAMPLES_PER_S, shares, size=SECONDS).T.astype(np.float64)
    sampled *= setting.sampler_utilisation * SAMPLERS / _SAMPLES_PER_S
    every = np.vstack([worked, sampled])
    means: FloatArray = every.reshape(len(every), -1, WINDOW_S).mean(axis=2)
    return means


@lru_cache(maxsize=16)  # 3 MB each with 48 key groups; every seed takes the same
def _series(key_groups: int, copies: int, salt: int, year: Flights) -> tuple[FloatArray, ...]:
    """Return tuples of each key group in each second, for operators 1 to 3: (key_groups, SECONDS) each, read only."""
    members = _members(key_groups, copies, salt, year.tails)
    series = tuple(members @ one for one in (year.every, year.delayed, year.airborne))
    for one in series:
        # Cached and shared between seeds: nobody may change it in place.
        one.setflags(write=False)
    return series


def _members(key_groups: int, copies: int, salt: int, tails: tuple[str, ...]) -> FloatArray:
    """Return in how many copies of the volume each airplane belongs to each key group, (key_groups, airplanes)."""
    hashed = [crc32(tail) for tail in tails]
    found = np.zeros((key_groups, len(tails)))
    for copy in range(copies):
        group = salted_groups(hashed, salt * 1000 + copy, key_groups)
        found[group, np.arange(len(tails))] += 1
    return found


def _level(profile: Profile, total: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the factor of the counts of each second, (SECONDS,)."""
    if profile == "event":
        return np.ones(SECONDS)
    means = total.reshape(-1, WINDOW_S).mean(axis=1)
    even = np.repeat(1 / np.maximum(means, 1e-9), WINDOW_S)  # the total of each window is the same
    if profile == "const":
        return even
    minutes = 1 + _STEP * rng.uniform(-1, 1, SECONDS // _STEP_S)
    return even * np.repeat(minutes, _STEP_S)
