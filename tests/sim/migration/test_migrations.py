"""Key groups that move by protocols: nothing is lost or done twice, whoever dies at whatever instant; equal planes.

Oracles: the ledger, which follows every tuple from the sources; the plain plane; protocols that are broken on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from lab.broken_protocols import (
    HeldForEver,
    NeverUnmuted,
    NotMuted,
    OneSyncGroupSuffices,
    RedirectInsteadOfDuplicate,
    SwitchAfterTheFirstReplay,
    ToStateWithoutBuffer,
)
from moving_jobs import Crash, Outcome, crashes, moving_job, run
from seeds import sample
from test_planes import differences

from models.scenario.events import PROTOCOLS as NAMES
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.migration.move import MoveProtocol
from sim.migration.protocols import PROTOCOLS, PROTOCOLS_WITHOUT_CHECKPOINTS
from sim.plain.plane import PlainPlane

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def test_the_schema_and_the_simulator_know_the_same_protocols() -> None:
    assert (*PROTOCOLS, *PROTOCOLS_WITHOUT_CHECKPOINTS) == NAMES


def campaign(protocol: str, seed: int, plane: PlaneFactory, count: int) -> list[Outcome]:
    """The run of a job without a crash, and with each of some crashes at instants of its moves."""
    made = moving_job(seed, protocol)
    calm = run(made, plane)
    return [calm, *(run(made, plane, crash) for crash in crashes(seed, calm.moments, count))]


@every_protocol
@pytest.mark.parametrize("seed", sample(1, 5))
def test_planes_agree_and_nothing_is_lost(protocol: str, seed: int) -> None:
    one, other = (campaign(protocol, seed, plane, 2) for plane in (PlainPlane, CompiledPlane))
    for plain, compiled in zip(one, other, strict=True):
        assert differences(plain.records, compiled.records) == []
        assert compiled.faults == []


@pytest.mark.parametrize("seed", sample(4, 8))
def test_planes_agree_where_hosts_fail_again_and_again(seed: int) -> None:
    made = moving_job(seed, list(PROTOCOLS)[seed % len(PROTOCOLS)], 12, model="exponential", mtbf="1 s", repair="30 ms")
    plain, compiled = (run(made, plane).records for plane in (PlainPlane, CompiledPlane))
    assert differences(plain, compiled) == []


@pytest.mark.slow
@every_protocol
def test_nothing_is_lost_in_many_crashes(protocol: str) -> None:
    for seed in range(1000, 1200):
        for outcome in campaign(protocol, seed, CompiledPlane, 10):
            assert outcome.faults == [], (protocol, seed)


@pytest.mark.slow
@every_protocol
def test_planes_agree_in_many_jobs(protocol: str) -> None:
    for seed in range(2000, 2040):
        for plain, compiled in zip(
            *(campaign(protocol, seed, plane, 3) for plane in (PlainPlane, CompiledPlane)), strict=True
        ):
            assert differences(plain.records, compiled.records) == [], (protocol, seed)


def test_a_move_does_not_wait_for_a_dead_task_that_had_no_key_group_left() -> None:
    outcome = run(moving_job(1085, "cpal"), CompiledPlane, Crash(host=1, at_ns=2_233_765_092, repair_ns=None))
    assert outcome.faults == []


@pytest.mark.parametrize("seed", sample(3, 6))
def test_a_checkpoint_that_was_under_way_to_a_target_that_dies_is_still_the_only_one(seed: int) -> None:
    made = moving_job(seed, "direct")
    calm = run(made, CompiledPlane).records.tables["migrations"]
    crash = Crash(int(calm["target"][0]), int(calm["requested_ns"][0]) + 1_000_000, None)
    plain, compiled = (run(made, plane, crash) for plane in (PlainPlane, CompiledPlane))
    assert differences(plain.records, compiled.records) == []
    assert compiled.faults == []


@every_protocol
def test_moves_end_with_the_group_at_the_target(protocol: str) -> None:
    outcome = run(moving_job(3, protocol), CompiledPlane)
    table = outcome.records.tables["migrations"]
    assert table["completed_ns"].min() > 0
    assert (table["paused_ns"] <= table["resumed_ns"]).all()
    assert (table["requested_ns"] < table["paused_ns"]).all()
    assert (table["requested_ns"] < table["completed_ns"]).all()


def test_cpal_answers_nothing_twice_and_cpa_does() -> None:
    duplicates = {}
    for protocol in ("cpa", "cpal"):
        dropped = [run(moving_job(seed, protocol), CompiledPlane).records.tables["dropped"] for seed in range(8)]
        downstream = [((one["operator"] == 3) & (one["reason"] == "duplicate")).sum() for one in dropped]
        duplicates[protocol] = sum(map(int, downstream))
    assert duplicates["cpal"] == 0
    assert duplicates["cpa"] > 0


# -- protocols that are broken on purpose; all that are known, under every order of steps: tests/lab


# `FirstToCheckpointConverts` is seen only where channels differ in speed: there.
MUTANTS: list[tuple[str, type[MoveProtocol]]] = [
    ("cpa", ToStateWithoutBuffer),
    ("cpal", RedirectInsteadOfDuplicate),
    ("cpal", HeldForEver),
    ("cpal", NeverUnmuted),
    ("cpal", NotMuted),
    ("cpal", OneSyncGroupSuffices),
    ("cpal", SwitchAfterTheFirstReplay),
]


def blamed(name: str, mutant: type[MoveProtocol], seeds: Iterable[int], count: int) -> int | None:
    """The first seed at which something is wrong, or answered twice without a crash."""
    for seed in seeds:
        made = moving_job(seed, name)
        calm = run(made, CompiledPlane, instead={name: mutant})
        dropped = calm.records.tables["dropped"]
        twice = ((dropped["operator"] == 3) & (dropped["reason"] == "duplicate")).any()
        if calm.faults or (name == "cpal" and twice):
            return seed
        for crash in crashes(seed, calm.moments, count):
            if run(made, CompiledPlane, crash, instead={name: mutant}).faults:
                return seed
    return None


@pytest.mark.parametrize(("name", "mutant"), MUTANTS, ids=[mutant.__name__ for _, mutant in MUTANTS])
def test_a_broken_protocol_is_noticed(name: str, mutant: type[MoveProtocol]) -> None:
    first = 35 if mutant is SwitchAfterTheFirstReplay else 0  # which notices it
    assert blamed(name, mutant, (first, *range(40)), 4) is not None
