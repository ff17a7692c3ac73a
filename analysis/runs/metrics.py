"""One number per name from a summary: what sweeps store of a run, and what is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from analysis.documents import to_document
from analysis.runs.recovery_summary import PHASES, PLANNED, Outages, Recovery, Replicas
from analysis.runs.run_summary import (
    Elasticity,
    EngineMilestone,
    Maintenance,
    Migration,
    Rebalance,
    Reconfiguration,
    RunSummary,
)
from analysis.runs.summary import summarise
from models import display
from models.scenario.events import HostRestart
from models.scenario.scenario import Scenario

Metrics = dict[str, float | None]
T = TypeVar("T")

# Settings and provenance are no results: two designs would seem to differ by their names.
_LEFT_OUT = (
    "scenario",
    "seed",
    "duration_s",
    "warmup_s",
    "resolution",
    "recording",
    "kernel",
    "replications",
    "targets",
)
_CALLED_OFF = "called off"  # the outcome of a rebalance that did not kill anything
FREE_SECTIONS = ("messages.", "checkpoints.delayed.", "checkpoints.hosts.")


def metrics_of(summary: RunSummary) -> Metrics:
    """Return dotted name -> number, or None where nothing was seen, of the summary of one replication.

    Numbers keep the path that they have in the document. Of recoveries and migrations there are the number (`count`),
    of each length mean and greatest, and how many did not end (`unfinished`); of migrations also how many were
    `cancelled`. Where the scenario names an engine its instants, from the failure on, are lengths too. What has ended
    tasks on purpose is no recovery: rescalings of a job, restarts of hosts and handovers to a new one have the same
    names under `rescalings`, `restarts` and `handovers`. Of rebalances the same, where there are any, and the sums of
    their counts of tuples; of reconfigurations the same, how many were cancelled, the bytes of states, and the key
    groups and bytes that crashes took in them; of targets how many were missed. `moves` has what all of these, and
    rescalings, have in common.
    """
    # Without the lists of entries, whose length differs between runs: these come as counts, means and maxima.
    listed = replace(summary, recoveries=(), recovery_means=(), rescaling_means=(), restart_means=())
    listed = replace(listed, migrations=(), rebalances=(), reconfigurations=())
    found = dict(_numbers(to_document(listed), ""))
    engine = summary.engine
    failures = [one for one in summary.recoveries if not one.planned and one.within_s is None]
    phases = [*PHASES, "total", "first_output", *(["first_visible"] if summary.visible is not None else [])]
    if any(one.last_replay_s is not None for one in failures):
        phases.append("last_replay")
    found |= _of_recoveries("recoveries", failures, phases, () if engine is None else engine.milestones)
    for kind in PLANNED.values():
        planned = [one for one in summary.recoveries if one.kind == kind]
        if planned:
            ends = () if engine is None else engine.rescaling_milestones
            found |= _of_recoveries(f"{kind}s", planned, phases, ends)
    pauses, completions = ([getattr(one, name) for one in summary.migrations] for name in ("pause_s", "completion_s"))
    found |= _of_entries("migrations", {"pause_s": pauses, "completion_s": completions}, "completion_s")
    found |= _cancelled("migrations", found, summary.migrations)
    found |= _of_rebalances(summary.rebalances)
    found |= _of_reconfigurations(summary.reconfigurations)
    found |= _of_moves(summary)
    if summary.targets is not None:
        found["targets.missed"] = float(sum(not one.met for one in summary.targets.values()))
    return found


def possible_metrics(scenario: Scenario) -> list[str]:
    """Return the names that metrics of a run of the scenario can have, without a run.

    Of sections in `FREE_SECTIONS` the names depend on what happens.
    """
    happened = replace(
        # A summary of no records has every section that does not depend on what happened.
        summarise(scenario, []),
        broken=_of_zeros(Outages),
        elasticity=_of_zeros(Elasticity),
        maintenance=replace(_of_zeros(Maintenance), rounds=()),
        replicas=replace(_of_zeros(Replicas), each=()),
        recoveries=tuple(replace(_of_zeros(Recovery), cause=cause, within_s=None) for cause in _causes(scenario)),
        migrations=(_of_zeros(Migration),),
        rebalances=(_of_zeros(Rebalance),),
        reconfigurations=(_of_zeros(Reconfiguration),),
    )
    return list(metrics_of(happened))


def _causes(scenario: Scenario) -> Iterator[str]:
    """Yield a cause of each kind of recovery that can be in a run."""
    yield "crash"
    if scenario.rescales_job:
        yield "rescale"
    if any(isinstance(event, HostRestart) for event in scenario.events.values()):
        yield "stop"
    changelogs = scenario.fault_tolerance.changelogs
    if changelogs is not None and changelogs.warmups:
        yield "rebalance"


def _of_zeros(kind: type[T]) -> T:
    """Return a section all of whose numbers are 0; only the names of its fields count."""
    return kind(**{one.name: 0 for one in fields(kind)})  # type: ignore[arg-type]


def _numbers(value: Mapping[str, Any], path: str) -> list[tuple[str, float | None]]:
    """Return (dotted path, number) of all numbers of a document; intervals and settings are left out."""
    found: list[tuple[str, float | None]] = []
    for name, inner in value.items():
        here = f"{path}.{name}" if path else name
        if name in _LEFT_OUT or name.endswith("ci95"):
            continue
        if isinstance(inner, Mapping):
            found += _numbers(inner, here)
        elif inner is None or (isinstance(inner, (int, float)) and not isinstance(inner, bool)):
            found.append((here, None if inner is None else float(inner)))
    return found


def _of_recoveries(
    name: str, given: Sequence[Recovery], phases: Sequence[str], milestones: Sequence[EngineMilestone]
) -> Metrics:
    """Return the metrics of recoveries, by phase and by the engine's instants."""
    lengths = {f"{one}_s": [each.length_s(one) for each in given] for one in phases}
    lengths |= {f"{end.key}_s": [each.until_s(end.phase) for each in given] for end in milestones}
    return _of_entries(name, lengths, "total_s")


def _of_rebalances(given: Sequence[Rebalance]) -> Metrics:
    """Return the metrics of rebalances; none where there are none."""
    if not given:
        return {}
    names = [one.name for one in fields(Rebalance) if one.name.endswith("_s") and one.name != "requested_s"]
    found = _of_entries("rebalances", {name: [getattr(one, name) for one in given] for name in names}, "over_s")
    for name in ("captured", "lost", "failed", "replayed"):
        counts = [count for one in given if (count := getattr(one, name)) is not None]
        if counts:
            found[f"rebalances.{name}"] = float(sum(counts))
    return found


def _of_reconfigurations(given: Sequence[Reconfiguration]) -> Metrics:
    """Return the metrics of reconfigurations; none where there are none."""
    if not given:
        return {}
    latencies = ("latency_max_s", "latency_p99_s")
    names = ("duration_s", "longest_step_s", *latencies, *(f"frontier_{one}" for one in latencies))
    found = _of_entries("reconfigurations", {name: [getattr(one, name) for one in given] for name in names}, names[0])
    extra = [one.extra_bytes for one in given if one.extra_bytes is not None]
    found |= {"reconfigurations.extra_bytes.max": float(max(extra))} if extra else {}
    found |= _cancelled("reconfigurations", found, given)
    sums = ("bytes", "lost_groups", "lost_bytes")
    return found | {f"reconfigurations.{name}": float(sum(getattr(one, name) for one in given)) for name in sums}


def _cancelled(name: str, found: Metrics, given: Sequence[Migration] | Sequence[Reconfiguration]) -> Metrics:
    """Return how many entries were cancelled, which do not count as unfinished; nothing where there are none."""
    if not given:
        return {}
    cancelled = float(sum(one.cancelled_s is not None for one in given))
    unfinished = f"{name}.unfinished"
    return {f"{name}.cancelled": cancelled, unfinished: (found[unfinished] or 0.0) - cancelled}


def _of_moves(summary: RunSummary) -> Metrics:
    """Return what is known of any move of state, whoever does it; nothing where nothing moves.

    `pause_s` is the longest time for which something stood still: a key group, a step, or the dataflow. It is None
    where that is not recorded. `completion_s` is from the first request to the end of the last move, None where one did
    not end or was cancelled, of which there are `cancelled`. `bytes` were sent between hosts after the warm-up for
    states and replays, without checkpoints and what goes through a store; `replayed` tuples were sent again.
    """
    groups, steps, flows, scales = summary.migrations, summary.reconfigurations, summary.rebalances, summary.rescales
    if not (groups or steps or flows or scales):
        return {}
    ends = [
        *(None if one.completion_s is None else one.requested_s + one.completion_s for one in groups),
        *(None if one.duration_s is None else (one.begun_s or 0.0) + one.duration_s for one in steps),
        *(None if one.over_s is None or one.outcome == _CALLED_OFF else one.requested_s + one.over_s for one in flows),
        *(None if one.completion_s is None else one.requested_s + one.completion_s for one in scales),
    ]
    begins = [one.requested_s for given in (groups, steps, flows, scales) for one in given]
    known = [end for end in ends if end is not None]
    pauses = [
        *(one.pause_s for one in groups),
        *(one.longest_step_s for one in steps),
        *(one.unpause_s if one.unpause_s is not None else _down_s(one) for one in flows),
        *(one.pause_s for one in scales),
    ]
    seen = [pause for pause in pauses if pause is not None]
    replayed = [*(one.replayed for one in groups), *(one.replayed for one in flows if one.replayed is not None)]
    sent = [summary.messages[kind].bytes for kind in ("replay", "protocol") if kind in summary.messages]
    cancelled = [one.cancelled_s is not None for one in groups] + [one.cancelled_s is not None for one in steps]
    cancelled += [one.outcome == _CALLED_OFF for one in flows]
    return {
        "moves.pause_s": max(seen, default=None),
        "moves.completion_s": max(known) - min(begins) if len(known) == len(ends) else None,
        "moves.cancelled": float(sum(cancelled)),
        "moves.bytes": float(sum(sent)),
        "moves.replayed": float(sum(replayed)) if groups or steps or flows else None,
    }


def _down_s(flow: Rebalance) -> float | None:
    """Return the time from the kill until the last state is there, where sources do not pause."""
    if flow.last_init_s is None or flow.killed_s is None:
        return None
    return flow.last_init_s - flow.killed_s


def _of_entries(name: str, lengths: Mapping[str, Sequence[float | None]], last: str) -> Metrics:
    """Return the metrics of entries with these lengths [s]; an entry without the last one did not end."""
    found: Metrics = {f"{name}.count": float(len(lengths[last]))}
    if lengths[last]:
        found[f"{name}.unfinished"] = float(sum(length is None for length in lengths[last]))
    for length, given in lengths.items():
        values = [value for value in given if value is not None]
        if values:
            found[f"{name}.{length}.mean"] = sum(values) / len(values)
            found[f"{name}.{length}.max"] = max(values)
    return found


def is_time(metric: str) -> bool:
    """Return whether a metric is a time [s].

    >>> is_time("latency_s.p99"), is_time("latency_s.count")
    (True, False)
    """
    return any(part.endswith("_s") for part in metric.split(".")) and not metric.endswith(".count")


def quantity(metric: str, value: float | None) -> str:
    """Return the value of a metric in its unit.

    >>> quantity("latency_s.p99", 0.25), quantity("latency_s.count", 12.0)
    ('250 ms', '12')
    """
    return display.duration(value) if is_time(metric) else display.number(value)
