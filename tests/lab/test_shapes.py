"""Jobs that are no chains: fan-out, fan-in, joins, and operators without keys, under all protocols.

Oracles: as in `test_schedules.py`. A run without faults agrees with the lineage, which knows no state of a join.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from lab.campaigns import SHAPED, drawn, drawn_shaped
from lab.coverage import Coverage
from lab.invariants import lineage_of
from lab.job import Job, random_job
from lab.laboratory import Laboratory
from lab.mutants import MUTANTS, Mutant
from lab.plans import ALL_PROTOCOLS
from lab.report import failure
from lab.schedule import Runner, Schedule, run
from lab.scheduler import Seeded
from lab.shapes import SHAPES
from lab.shrinking import shrunk
from models.records.tables import NEVER

CYCLE = len(SHAPES) * len(SHAPED)  # seeds until each shape has met each aim
every_protocol = pytest.mark.parametrize("protocol", ALL_PROTOCOLS)
every_shape = pytest.mark.parametrize("shape", SHAPES)
BROKEN = {mutant.name: mutant for mutant in MUTANTS}

FIRST_CHAINS = {
    "direct": "2dfb81fdc49ee11a",
    "cpa": "fc73cdacbdcdffd8",
    "cpal": "b86d9af0f0526156",
    "cpal_caught_up": "e9049ace03df1183",
    "lazy_move": "97b1ac011250e666",
    "stop_and_go": "35894ab34160b49a",
}
"""Digests of the first schedules of chains: other shapes have not disturbed their draws."""
FIRST_FIELDS = ("seed", "sources", "stages", "groups", "tuples", "hosts", "writes")  # of a job, at that time


@pytest.mark.parametrize("protocol", FIRST_CHAINS)
def test_seeds_draw_the_chains_that_they_drew_before_there_were_shapes(protocol: str) -> None:
    digest = hashlib.sha256()
    for seed in range(270):
        raw = asdict(drawn(protocol, seed))
        assert raw["job"]["shape"] == "chain"
        del raw["early"]
        raw["job"] = {field: raw["job"][field] for field in FIRST_FIELDS}
        digest.update(json.dumps(raw).encode())
    assert digest.hexdigest()[:16] == FIRST_CHAINS[protocol]


def test_a_line_without_a_shape_is_a_chain() -> None:
    schedule = drawn("cpa", 7)
    raw = json.loads(schedule.text())
    del raw["job"]["shape"], raw["job"]["replicated"]
    assert Schedule.read(json.dumps(raw)) == schedule


@every_shape
@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_agrees_with_a_run_without_faults(shape: str, seed: int) -> None:
    job = replace(random_job(seed, sources=2, stages=1, groups=2), shape=shape)
    lab = calm(job, seed)
    has = {partition.number: Counter(partition.applied) for partition in lab.plane.all_partitions()}
    lineage = lineage_of(job, lab.plane)
    assert has == lineage.inputs
    for partition in (lab.plane.instances()[group] for group in lab.groups):
        sent = [*lineage.emitted(partition.number, partition.applied)]
        kept = [(receiver.number, row.id) for receiver, rows in partition.kept.items() for row in rows]
        assert Counter(sent) == Counter(kept)


def calm(job: Job, seed: int) -> Laboratory:
    """Return a laboratory in which all tuples have gone through, without moves and crashes."""
    lab = Laboratory(job, Seeded(seed))
    lab.clock.settle()
    while lab.clock.take():
        pass
    return lab


def test_a_join_brings_together_equal_keys_of_its_two_inputs() -> None:
    job = Job(seed=3, tuples=16, shape="join")
    lab = calm(job, 0)
    one, other = (Counter(source.keys) for source in lab.plane.sources)
    pairs = sum(one[key] * other[key] for key in one)
    assert len(lab.plane.instances()[-1].applied) == pairs > 20


def test_both_operators_of_a_fan_out_get_everything() -> None:
    job = Job(seed=3, tuples=16, shape="fan_out")
    left, right = calm(job, 0).plane.instances()[-2:]
    assert len(left.applied) == len(right.applied) == 16


def campaign(protocol: str, seeds: range) -> Coverage:
    """Run these schedules; the first that is at fault fails the test, with the command that replays it."""
    coverage = Coverage()
    for seed in seeds:
        schedule = drawn_shaped(protocol, seed)
        result = run(schedule, coverage=coverage)
        if result.faults:
            pytest.fail(failure(schedule, result), pytrace=False)
    return coverage


@every_protocol
def test_nothing_is_lost_or_done_twice_in_other_shapes(protocol: str) -> None:
    coverage = campaign(protocol, range(CYCLE))
    missing = coverage.missing(ALL_PROTOCOLS[protocol], protocol)
    assert not [what for what in missing if what.startswith("delivered")]


@every_shape
def test_everything_with_a_state_is_restored_and_all_key_groups_move(shape: str) -> None:
    """Without this a campaign could be silent because nothing happens."""
    moved, called_off, restored = set(), set(), set()
    for seed in range([*SHAPES].index(shape), 6 * CYCLE, len(SHAPES)):
        schedule = drawn_shaped("cpal", seed)
        lab = Laboratory(schedule.job, Seeded(seed), stepped_links=bool(schedule.crashes))
        Runner(schedule, lab, None, Coverage()).run()
        names = [operator.name for operator in lab.plan.operators]
        for migration in lab.migrations.runs:
            ended = moved if migration.completed_ns is not None else called_off
            ended.add(names[migration.move.operator])
        restored |= {names[row[1]] for row in lab.recoveries.rows() if row[6] != NEVER}
    job = Job(shape=shape)
    assert moved == called_off == set(job.movable)
    assert restored >= {*job.stateful, "in"}


@pytest.mark.slow
@every_protocol
def test_nothing_is_lost_or_done_twice_in_many_schedules_of_other_shapes(protocol: str) -> None:
    coverage = campaign(protocol, range(CYCLE, 200 * CYCLE))
    assert coverage.missing(ALL_PROTOCOLS[protocol], protocol) == []


@every_shape
def test_a_schedule_is_replayed_by_its_choices(shape: str) -> None:
    seed = next(seed for seed in range(CYCLE) if drawn_shaped("cpal", seed).job.shape == shape)
    schedule = drawn_shaped("cpal", seed)
    by_seed = run(schedule, note=True)
    again = run(replace(Schedule.read(schedule.text()), choices=tuple(by_seed.choices)), note=True)
    assert again == by_seed


def first_fault(mutant: Mutant) -> Schedule:
    """Return the first schedule of other shapes under which the mutant is noticed."""
    schedules = (drawn_shaped(mutant.protocol, seed) for seed in range(999))
    return next(schedule for schedule in schedules if run(schedule, mutant.tamper).faults)


@pytest.mark.parametrize("title", [mutant.name for mutant in MUTANTS if mutant.shaped])
def test_no_chain_shows_the_mutants_of_other_shapes(title: str) -> None:
    mutant = BROKEN[title]
    assert not any(run(drawn(mutant.protocol, seed), mutant.tamper).faults for seed in range(27))


def test_a_fault_that_a_chain_shows_is_shrunk_to_a_chain() -> None:
    mutant = BROKEN["to_state without the buffer"]
    smaller, found = shrunk(first_fault(mutant), mutant.tamper)
    assert smaller.job.shape == "chain"
    assert found.faults


def test_a_fault_that_no_chain_shows_keeps_a_small_shape() -> None:
    mutant = BROKEN["a move asks one of the operators upstream for all"]
    smaller, found = shrunk(first_fault(mutant), mutant.tamper)
    assert smaller.job.shape in ("join", "fan_in")
    assert found.faults
