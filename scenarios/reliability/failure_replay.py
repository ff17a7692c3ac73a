"""Replay of a failure log: outages of its hosts as events of the hosts of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.failure_logs.records import iso_us
from models.errors import NO_VALUE, InputError, InputFault, named, raise_if_any
from models.reliability.failure_log import STILL_DOWN, US, FailureLog
from models.scenario.events import Event, FailureReplay, HostFailure
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap
from models.topology import layout
from models.validation_messages import nearest_if_shown, path_text
from scenarios.reliability.failure_logs import read_kept

# Events are part of the scenario and go to every process: more would take minutes to validate.
_MOST = 100_000


def replayed(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with the failures of its log as events; itself where it names none. Raises InputError."""
    replay = scenario.failures
    if replay is None:
        return scenario
    with named("failures.log"):
        log = read_kept(folder / replay.log).log
    begin_us, end_us = _window(replay, log)
    numbers = _numbers(replay, log, layout.hosts(scenario))
    found = {
        name: event
        for name, event in _events(replay, log, numbers, (begin_us, end_us))
        if event.fixed_s < scenario.duration_s
    }
    if len(found) > _MOST:
        raise InputError.at("failures.log", replay.log, f"has {len(found)} failures in the run, {_MOST} at most")
    # A silent replacement would lose an event that the user wrote.
    taken = [name for name in found if name in scenario.events]
    raise_if_any(InputFault(f"events.{name}", NO_VALUE, "is the name of a failure of the log") for name in taken)
    events: Mapping[str, Event] = {**scenario.events, **found}
    # Without `failures`, so that a second call changes nothing.
    return scenario.model_copy(update={"events": FrozenMap(events), "failures": None})


def _window(replay: FailureReplay, log: FailureLog) -> tuple[int, int]:
    """Begin and end [us since 1970]."""
    given = {name: getattr(replay, name) for name in ("begin", "end")}
    read = {name: None if text is None else iso_us(text, "UTC") for name, text in given.items()}
    raise_if_any(
        InputFault(f"failures.{name}", text, "must be a time in ISO 8601 since 1970", 'as in "2003-11-01"')
        for name, text in given.items()
        if text is not None and read[name] is None
    )
    first, last = int(log.begin_us.min()), int(log.end_us.max())
    begin = first if read["begin"] is None else read["begin"]
    end = last if read["end"] is None else read["end"]
    if not first <= begin < last:
        rule = "must be within the window of the log"
        raise InputError.at("failures.begin", replay.begin or NO_VALUE, rule)
    if end <= begin:
        raise InputError.at("failures.end", replay.end or NO_VALUE, "must be after failures.begin")
    return begin, end


def _numbers(replay: FailureReplay, log: FailureLog, hosts: Mapping[str, object]) -> dict[int, str]:
    """Return host of the log -> the host of the scenario that fails as it does."""
    place = {name: index for index, name in enumerate(log.hosts)}
    # Without a table hosts are matched by name.
    given = dict(replay.hosts) if replay.hosts else {name: name for name in hosts if name in place}
    faults = []
    for host, logged in given.items():
        path = path_text(("failures", "hosts", host))
        if host not in hosts:
            faults.append(InputFault(path, logged, "is not a host of the scenario", nearest_if_shown(host, hosts)))
        if logged not in place:
            faults.append(InputFault(path, logged, "is not a host of the log", nearest_if_shown(logged, place)))
    if not given:
        hint = 'say which fails as which, as in failures.hosts = { worker-0 = "8-157" }'
        faults.append(InputFault("failures.hosts", NO_VALUE, "is missing: no host of the log has a name of ours", hint))
    twice = [logged for logged in dict.fromkeys(given.values()) if list(given.values()).count(logged) > 1]
    faults += [InputFault("failures.hosts", logged, "is given for more than one host") for logged in twice]
    raise_if_any(faults)
    return {place[logged]: host for host, logged in given.items()}


def _events(
    replay: FailureReplay, log: FailureLog, numbers: Mapping[int, str], window: tuple[int, int]
) -> Iterator[tuple[str, HostFailure]]:
    """Return failures in the order of the log; a host that is down at the begin dies at once and is back when it was.

    A repair within a tick of the log's clock takes half of one.
    """
    begin, end = window
    rows = zip(log.host.tolist(), log.down_us.tolist(), log.up_us.tolist(), strict=True)
    for number, (host, down, up) in enumerate(rows):
        # An outage that ended before the window is not in the run; one that is under way at its begin is.
        if host not in numbers or down >= end or (up != STILL_DOWN and up <= begin and down < begin):
            continue
        at = (max(down, begin) - begin) / US / replay.speed
        lasts = None if up == STILL_DOWN else ((up - max(down, begin)) / US or log.tick_s / 2) / replay.speed
        yield f"log-{number}", HostFailure(at_s=at, host=numbers[host], repair_s=lasts)
