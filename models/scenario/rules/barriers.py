"""Rules about checkpoints of the whole job, by barriers: what they cannot be combined with, and what needs them."""

from __future__ import annotations

from collections.abc import Iterator

from models import units
from models.errors import NO_VALUE, InputFault
from models.scenario.events import HostFailure, Reconfigure, Rescale
from models.scenario.recovery_methods import Barriers
from models.scenario.rules.dataflow import a_kind
from models.scenario.scenario import Scenario
from models.validation_messages import path_text


def faults(scenario: Scenario) -> Iterator[InputFault]:
    """Yield the faults of barriers, of sinks that commit with them, of time-outs of slots, of restores and uploads."""
    engine, tolerance = None if scenario.engine is None else scenario.engine.name, scenario.fault_tolerance
    if engine not in ("kafka-streams", "storm"):  # whose rules have words of their own
        yield from _of_barriers(scenario, by_engine=engine == "flink")
    if engine is not None and (engine != "flink" or tolerance.method != "region-restart"):
        return  # its rules say so
    yield from _of_commits(scenario)
    yield from _of_slots(scenario)
    yield from _of_concurrent(scenario)
    yield from _of_compaction(scenario)
    if tolerance.local_recovery is not None and tolerance.job_checkpoints is None:
        rule = "needs fault_tolerance.barriers: hosts keep copies of the last complete checkpoint of the job"
        yield InputFault("fault_tolerance.local_recovery", NO_VALUE, rule, "write a table fault_tolerance.barriers")
    for key, value, shares, what in (
        ("restores", tolerance.restores, tolerance.shares_restores, "read the last complete checkpoint of the job"),
        ("uploads", tolerance.uploads, tolerance.shares_uploads, "write their part of a checkpoint of the job at once"),
    ):
        if value == "shared" and not shares:
            rule = f"needs fault_tolerance.barriers: all tasks {what}"
            yield InputFault(f"fault_tolerance.{key}", value, rule, "write a table fault_tolerance.barriers")


def _of_barriers(scenario: Scenario, *, by_engine: bool) -> Iterator[InputFault]:
    """Yield what barriers cannot be combined with, and a pause that is longer than the interval."""
    tolerance = scenario.fault_tolerance
    if tolerance.barriers is None:
        return
    where = "fault_tolerance.barriers"
    if tolerance.method != "region-restart":
        if by_engine:  # which brings them in any case, and says what method it has
            return
        rule = f"needs the method region-restart; fault_tolerance.method is {tolerance.method}"
        hint = 'write method = "region-restart"'
        by = scenario.engine
        yield InputFault(where, NO_VALUE, rule, hint if by is None else by.hint("region-restart", hint))
        return
    # The rules of the engine have words of their own for what it has not either.
    stored = by_engine or tolerance.store == "remote"
    sent_again = by_engine or tolerance.guarantee != "at-most-once"
    for key, value, ok, hint in (
        ("store", tolerance.store, stored, 'write store = "remote"'),
        ("staggered", tolerance.staggered, not tolerance.staggered, "a barrier says when a task takes its snapshot"),
        ("guarantee", tolerance.guarantee, sent_again, "sources send again what came after the barrier"),
    ):
        if not ok:
            yield InputFault(f"fault_tolerance.{key}", value, "is not possible with barriers", hint)
    if tolerance.replicas or tolerance.replica_plan is not None:
        rule = "is not possible with barriers: a replica has no part in the checkpoint of the job"
        yield InputFault("fault_tolerance.replicas", NO_VALUE, rule, "remove barriers or the replicas")
    for name, operator in scenario.operators.items():
        if operator.threads > 1:
            rule = "is not possible with barriers: a task takes its snapshot between two tuples"
            yield InputFault(path_text(("operators", name, "threads")), operator.threads, rule, "give it more tasks")
    for name, event in scenario.events.items():
        in_steps = isinstance(event, Reconfigure) and not event.moves_each  # checkpoints wait for these
        if not isinstance(event, (HostFailure, Rescale)) and not in_steps and not by_engine:
            rule = "is not possible with barriers, which expect that key groups stay where they are"
            yield InputFault(path_text(("events", name, "kind")), event.kind, rule, "remove barriers or the event")
    if scenario.elasticity.policy != "none" and not by_engine:
        rule = "is not possible with barriers, which expect that key groups stay where they are"
        yield InputFault("elasticity.policy", scenario.elasticity.policy, rule, 'write policy = "none"')
    if tolerance.barriers.min_pause_s > tolerance.interval_s:
        rule = f"must be no longer than the interval, {units.show(tolerance.interval_s, 's')}"
        hint = (
            "it is the least time from the end of a checkpoint to the next: execution.checkpointing.min-pause in Flink"
        )
        yield InputFault(f"{where}.min_pause", units.show(tolerance.barriers.min_pause_s, "s"), rule, hint)
    yield from _of_unaligned(tolerance.barriers, tolerance.guarantee, where)


def _of_unaligned(barriers: Barriers, guarantee: str, where: str) -> Iterator[InputFault]:
    """Yield barriers that overtake without exactly-once, and a time at which those that do not overtake begin to."""
    if barriers.unaligned and guarantee != "exactly-once":
        rule = f"needs the guarantee exactly-once; fault_tolerance.guarantee is {guarantee}"
        hint = "execution.checkpointing.unaligned.enabled of Flink: at least once, no barrier waits for another"
        yield InputFault(f"{where}.unaligned", True, rule, hint)
    if barriers.alignment_timeout_s and not barriers.unaligned:
        hint = "execution.checkpointing.aligned-checkpoint-timeout of Flink says when barriers begin to overtake"
        value = units.show(barriers.alignment_timeout_s, "s")
        yield InputFault(f"{where}.alignment_timeout", value, f"needs {where}.unaligned", hint)


def _of_slots(scenario: Scenario) -> Iterator[InputFault]:
    """Yield a time-out of slots that nothing waits for, or after which nobody says when to try again."""
    times, tolerance = scenario.recovery, scenario.fault_tolerance
    if times.slot_timeout_s is None:
        return
    if tolerance.method != "region-restart":
        rule = f"needs the method region-restart; fault_tolerance.method is {tolerance.method}"
        yield InputFault("recovery.slot_timeout", units.show(times.slot_timeout_s, "s"), rule, "remove it")
    elif times.strategy is None:
        rule, hint = "needs recovery.strategy, which says when to restart after it", 'as in kind = "fixed-delay"'
        yield InputFault("recovery.slot_timeout", units.show(times.slot_timeout_s, "s"), rule, hint)


def _of_commits(scenario: Scenario) -> Iterator[InputFault]:
    """Yield transactions of what is no sink, and those that no checkpoint of the job would commit, or not once."""
    tolerance = scenario.fault_tolerance
    for name, operator in scenario.operators.items():
        if operator.commit == "at-once":
            continue
        if operator.kind != "sink":
            rule, hint = f"is possible for a sink, not for {a_kind(operator.kind)}", "remove it"
        elif tolerance.batches is not None:
            rule, hint = "is not possible with micro-batches: what a batch delivers is visible with it", "remove it"
        elif tolerance.job_checkpoints is None:
            rule = "needs fault_tolerance.barriers: transactions are committed when a checkpoint of the job is complete"
            hint = "write a table fault_tolerance.barriers"
        elif tolerance.guarantee != "exactly-once":
            rule = f"needs the guarantee exactly-once; fault_tolerance.guarantee is {tolerance.guarantee}"
            hint = 'write guarantee = "exactly-once"'
        else:
            continue
        yield InputFault(path_text(("operators", name, "commit")), operator.commit, rule, hint)


def _of_compaction(scenario: Scenario) -> Iterator[InputFault]:
    """Yield files that are merged where no checkpoint of the job has increments."""
    tolerance, where = scenario.fault_tolerance, "fault_tolerance.compaction"
    if tolerance.compaction is None:
        return
    if tolerance.job_checkpoints is None:
        rule = "needs fault_tolerance.barriers: files are merged between checkpoints of the whole job"
        yield InputFault(where, NO_VALUE, rule, "write a table fault_tolerance.barriers")
    elif tolerance.kind != "incremental":
        rule = f'needs kind = "incremental"; fault_tolerance.kind is {tolerance.kind}'
        hint = "execution.checkpointing.incremental of Flink, with RocksDB: a full checkpoint has no files to merge"
        yield InputFault(where, NO_VALUE, rule, hint)


def _of_concurrent(scenario: Scenario) -> Iterator[InputFault]:
    """Yield a pause between checkpoints of which several are under way, and barriers of them that overtake."""
    barriers = scenario.fault_tolerance.job_checkpoints
    if barriers is None or barriers.concurrent == 1:
        return
    where, key = "fault_tolerance.barriers.concurrent", "execution.checkpointing.max-concurrent-checkpoints"
    if barriers.min_pause_s > 0:
        rule = "must be 1 with a min_pause, which lets none begin before the end of the one before"
        yield InputFault(where, barriers.concurrent, rule, f"{key} and min-pause exclude each other in Flink")
    if barriers.unaligned:
        rule = "must be 1 with unaligned, whose barriers would overtake those of the checkpoint before"
        yield InputFault(where, barriers.concurrent, rule, f"{key} and unaligned.enabled exclude each other in Flink")
