"""The plan of a sweep: every run that it makes, in chunks; written once and never changed.

A run is one replication of one design point. Chunks are sized by the expected time of their runs and are what is
stored, resumed and handed to workers. Nothing in a plan depends on who executes it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from models.errors import NO_VALUE, InputError
from models.records.profile import Profile
from models.scenario.reading import DesignPoint, design_points, number_of_points, raw_of, scenario_from
from models.scenario.scenario import Scenario
from models.steady_state.estimate import estimate
from scenarios.files.documents import read_json
from scenarios.files.scenario import LoadedScenario, named_files
from scenarios.queries.replica_plan import with_planned_replicas
from scenarios.runs.inputs import profiles_of, rates_of, shares_of

# Plans of another format are refused: resuming them could mix rows of different meanings.
FORMAT = 2
MOST_RUNS = 1_000_000
# A chunk is what a killed sweep loses and what a bar jumps by; each costs a file and perhaps a task of Spark.
_MOST_S, _CHUNKS = 30.0, 64  # expected time of a chunk, at the most, and how many there are to be below that
_MOST_IN_CHUNK = 1000
_MOST_LETTERS = 24  # of a value that is a table

Run = tuple[int, int]  # (number of the design point, replication)


@dataclass(frozen=True)
class SweepPlan:
    """All runs of a sweep; whoever goes on with it says where the files are now."""

    scenario: Scenario
    files: Mapping[str, str]  # name -> digest of what the design points name
    version: str
    chunks: tuple[tuple[Run, ...], ...]
    costs_s: tuple[float, ...]  # expected time of each chunk

    @cached_property
    def points(self) -> tuple[DesignPoint, ...]:
        """The design points, by number."""
        return tuple(design_points(self.scenario))

    def short_settings(self, number: int) -> dict[str, str]:
        """Return the settings of a design point, each in a few words that tell it from others of the sweep."""
        sweep = self.scenario.sweep
        settings = self.points[number].settings
        return {path: short_values(sweep[path])[sweep[path].index(value)] for path, value in settings.items()}

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return sum(map(len, self.chunks))

    @cached_property
    def content(self) -> str:
        """Digest of all that is written of the plan."""
        return hashlib.sha256(json.dumps(self._document(), sort_keys=True, allow_nan=False).encode()).hexdigest()

    def text(self) -> str:
        """Return the plan as JSON; in ASCII, since names of files need not be text."""
        return json.dumps({"content": self.content, **self._document()}, allow_nan=False) + "\n"

    def _document(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "version": self.version,
            "scenario": raw_of(self.scenario),
            "files": dict(self.files),
            "costs_s": self.costs_s,
            "chunks": self.chunks,
        }


def make_plan(loaded: LoadedScenario, on_progress: Callable[[float], None] = lambda share: None) -> SweepPlan:
    """Return the plan of a sweep; raises InputError for too many runs. Each point takes a millisecond or more."""
    scenario = loaded.scenario
    points = number_of_points(scenario)
    runs = points * scenario.replications
    # Told before the points are looked at, which takes a millisecond or more each.
    if runs > MOST_RUNS:
        raise InputError.at("sweep", f"{runs:,} runs", f"must be at most {MOST_RUNS:,}", "leave out values")
    names: dict[str, None] = {}
    costs = []
    for cost in _costs(scenario, loaded.folder, names):
        costs.append(cost)
        on_progress(len(costs) / points)
    chunks, sums = _packed(costs, scenario.replications)
    # Content, not time of change: a copy of the folder on another machine is the same sweep.
    files = {name: digest_of_file(loaded.folder / name) for name in names}
    return SweepPlan(scenario, files, version("holdfast"), chunks, sums)


def read_plan(path: Path) -> SweepPlan:
    """Return the plan that is written there; raises InputError where there is none that can be read."""
    if not path.exists():
        raise InputError.at(str(path), NO_VALUE, "is missing: this is not the directory of a sweep")
    document = read_json(path)
    if document.get("format") != FORMAT:
        raise InputError.at(str(path), NO_VALUE, f"must be the plan of a sweep of format {FORMAT}")
    try:
        plan = SweepPlan(
            scenario_from(document["scenario"]),
            document["files"],
            document["version"],
            tuple(tuple((point, replication) for point, replication in chunk) for chunk in document["chunks"]),
            tuple(document["costs_s"]),
        )
        # The digest finds edits by hand; `_is_sound` finds a plan whose digest was made to fit.
        changed = plan.content != document["content"] or not _is_sound(plan)
    except (InputError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        changed = True
    if changed:
        raise InputError.at(str(path), NO_VALUE, "was changed", "a plan is written once: take a new directory")
    return plan


def what_differs(old: SweepPlan, new: SweepPlan) -> str:
    """Return in words how two plans differ as sweeps; "" if their results would be the same."""
    if old.version != new.version:
        return f"by version {old.version} of holdfast, this is {new.version}"
    changed = [name for name in {**old.files, **new.files} if old.files.get(name) != new.files.get(name)]
    before, after = raw_of(old.scenario), raw_of(new.scenario)
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if keys:
        return "of another scenario: " + ", ".join(keys)
    return "of another content of " + ", ".join(changed) if changed else ""


def _is_sound(plan: SweepPlan) -> bool:
    """Return whether every run is there once, in chunks with an expected time each."""
    points, replications = number_of_points(plan.scenario), plan.scenario.replications
    runs = [run for chunk in plan.chunks for run in chunk]
    if len(runs) != points * replications or len(set(runs)) != len(runs) or len(plan.costs_s) != len(plan.chunks):
        return False
    if not all(type(number) is int for run in runs for number in run):
        return False
    if not all(0 <= point < points and 0 <= replication < replications for point, replication in runs):
        return False
    return all(type(cost) in (int, float) and 0 <= cost < math.inf for cost in plan.costs_s)


def digest_of_file(path: Path) -> str:
    """Return the digest of a file, or of all files in a directory; of nothing where there is none."""
    found = hashlib.sha256()
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            # Names count as well, ended by a byte that no name has: moving bytes between name and content changes the
            # digest.
            found.update(os.fsencode(file.relative_to(path)) + b"\0")
            found.update(file.read_bytes())
    return found.hexdigest()


def _costs(scenario: Scenario, folder: Path, names: dict[str, None]) -> Iterator[float]:
    """Yield the expected time [s] of one run of each point; 0 for points that cannot be run, which say so later.

    Notes in `names` the files that the points name.
    """
    # Profiles are named under `workload` alone: if no point changes that, one reading serves all.
    same_files = not any(path.startswith("workload") for path in scenario.sweep)
    profiles: dict[str, Profile] | None = None
    for point in design_points(scenario):
        try:
            one = point.of(scenario).model_copy(update={"replications": 1})
            names.update(dict.fromkeys(name for _, name in named_files(one)))
            if profiles is None or not same_files:
                profiles = profiles_of(one, folder)
            one = with_planned_replicas(one, folder)
            yield estimate(one, rates_of(one, folder, profiles), shares_of(one, profiles)).time_s
        except InputError:
            # A point that fails is still a run: its row says why, and the other points go on.
            yield 0.0


def _packed(costs_s: list[float], replications: int) -> tuple[tuple[tuple[Run, ...], ...], tuple[float, ...]]:
    """Return chunks of runs, the longest first: whoever takes one after the other ends with short ones."""
    target = min(_MOST_S, sum(costs_s) * replications / _CHUNKS)
    chunks, sums = [], []
    chunk: list[Run] = []
    total = 0.0
    # Replications of a point stay together, so that its inputs are prepared once per chunk.
    for point in sorted(range(len(costs_s)), key=lambda point: (-costs_s[point], point)):
        for replication in range(replications):
            chunk.append((point, replication))
            total += costs_s[point]
            # `total > 0`: with a target of zero (all points fail) each run would get a chunk of its own.
            if (total >= target and total > 0) or len(chunk) == _MOST_IN_CHUNK:
                chunks.append(tuple(chunk))
                sums.append(total)
                chunk, total = [], 0.0
    if chunk:
        chunks.append(tuple(chunk))
        sums.append(total)
    return tuple(chunks), tuple(sums)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the last parts of dotted paths, as many as tell them apart."""
    for parts in range(1, 10):
        names = [".".join(path.split(".")[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return list(paths)


def short_values(values: Sequence[object]) -> list[str]:
    """Return each swept value in a few words that tell them apart: of a table its values, or else its pairs.

    >>> short_values([{"distribution": "exponential", "mean": "2 ms"}, {"distribution": "uniform", "high": "9 ms"}])
    ['exponential, 2 ms', 'uniform, 9 ms']
    >>> short_values([{"mean": "2 ms"}, {"high": "2 ms"}, 4])
    ['mean = 2 ms', 'high = 2 ms', '4']
    """
    whole = [str(value) for value in values]
    for texts in ([one_line(value, names=False) for value in values], [one_line(value) for value in values]):
        cut = [text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..." for text in texts]
        found = [
            short if isinstance(value, Mapping | tuple) else text
            for value, short, text in zip(values, cut, whole, strict=True)
        ]
        if len(set(found)) == len(set(whole)):
            return found
    return [f"{number}: {short}" for number, short in enumerate(found)]


def one_line(value: object, *, names: bool = True) -> str:
    """Return a value in one line, with the names of a table where `names` says so."""
    if isinstance(value, Mapping):
        parts = {name: one_line(part, names=names) for name, part in value.items()}
        return ", ".join(f"{name} = {part}" if names else part for name, part in parts.items()) or "{}"
    return ", ".join(one_line(part, names=names) for part in value) if isinstance(value, tuple | list) else str(value)
