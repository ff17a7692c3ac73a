"""Where a study is made: a directory beside the one that is asked for, kept until all is there.

    DIR.unfinished/profile   the load profile, once it is there
    DIR.unfinished/sweep     the runs that are done

What was killed goes on there with the same command; DIR appears whole or not at all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models.errors import NO_VALUE, InputError
from models.records.profile import Profile
from models.scenario.key_groups import PLAIN, SALTED
from scenarios.files.profiles import read_profile, write_profile
from scenarios.files.scenario import LoadedScenario
from scenarios.studies.study import BIN_S, FLIGHTS, KEY, PROFILE, STREAMS, SWEEP, TIME
from scenarios.sweeps.plan import make_plan, read_plan, what_differs
from scenarios.sweeps.store import PLAN

_SUFFIX = ".unfinished"


def place_of(directory: Path | str) -> Path:
    """Return the place of a study that is to be in the directory; made if it is not there.

    Raises InputError where something else has its name.
    """
    target = Path(directory).resolve()
    place = target.with_name(target.name + _SUFFIX)
    try:
        place.mkdir(parents=True, exist_ok=True)
        others = {entry.name for entry in place.iterdir()} - {PROFILE, SWEEP}
        # What a process that was killed had begun to write; whoever writes next removes it.
        others = {name for name in others if not name.startswith(f".{PROFILE}.")}
    except OSError as error:
        raise InputError.at(str(place), NO_VALUE, "cannot be made", (error.strerror or str(error)).lower()) from None
    if others:
        rule = "must be what is left of a study that was not finished"
        raise InputError.at(str(place), ", ".join(sorted(others)), rule, "move it away, or choose another --out")
    return place


def profile_in(place: Path, key_groups: int, copies: int, make: Callable[[], tuple[Profile, Any]]) -> Profile:
    """Return the profile of the flights in the place; made, and kept there, where there is none of this kind."""
    try:
        kept = read_profile(place / PROFILE)
    except InputError:
        kept = None
    if kept is not None and _asked(kept) == (KEY, TIME, BIN_S, STREAMS, key_groups, copies):
        return kept
    try:
        profile, quarantine = make()
    except InputError:
        if not any(place.iterdir()):
            place.rmdir()  # nothing to go on with
        raise
    write_profile(profile, place / PROFILE, quarantine, force=True)
    return profile


def _asked(profile: Profile) -> tuple[object, ...] | None:
    """Return the question that the profile of the flights answers; None for a profile of something else."""
    if profile.sources != (FLIGHTS,) or profile.where or profile.hash != (PLAIN if profile.copies == 1 else SALTED):
        return None
    filters = dict(profile.filters)
    return profile.key, profile.time, profile.bin_s, filters, profile.key_groups, profile.copies


def begin_again(loaded: LoadedScenario, *, force: bool) -> None:
    """Remove runs that are in the place and answer another question; without `force` raise InputError."""
    stored = loaded.folder / SWEEP
    if not (stored / PLAN).exists():
        return
    try:
        differs = what_differs(read_plan(stored / PLAN), make_plan(loaded))
    except InputError:
        differs = "that cannot be read"
    if differs and not force:
        hint = "use --force to begin again, or choose another --out"
        raise InputError.at(str(loaded.folder), NO_VALUE, f"holds the runs of an unfinished study {differs}", hint)
    if differs:
        shutil.rmtree(stored)
