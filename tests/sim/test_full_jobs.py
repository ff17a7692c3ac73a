"""Jobs with all features at once: the plain plane, the event loop and the scan give equal rows.

Oracle: equality of all columns; no tolerance. What took effect is counted, and a campaign fails where something that it
is about never did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from effects import Witness, effects_of_rows
from elastic_jobs import PROTOCOLS
from full_jobs import KINDS, full_job
from moving_jobs import Outcome, run
from seeds import SEED, fresh
from test_planes import differences

from models.records.tables import SCAN
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from scenarios.planning.maintenance import planner_of
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.scan.plane import ScanPlane
from sim.plain.plane import PlainPlane

FRESH = 150  # jobs of each kind in a night


def ran(made: Scenario, plane: PlaneFactory) -> Outcome:
    """Return a run in which most moves go to a host that can help."""
    return run(made, plane, inputs=RunInputs(planner=planner_of(made)))


def kept_by_the_retired(plain: Outcome, compiled: Outcome) -> int:
    """Count outputs that are kept by instances that are over."""
    readable, plane = plain.control.plane, compiled.control.plane
    assert isinstance(readable, PlainPlane)
    assert isinstance(plane, CompiledPlane)
    partitions = plane.state.partitions
    over = partitions["retired"] == 1
    return sum(partition.kept_rows() for partition in readable.instances() if partition.retired) + int(
        partitions["kept_rows"][over].sum()
    )


def equal_on_the_event_loop(made: Scenario) -> Counter[str]:
    """Return what took effect in a run that is equal on the plain plane and on the event loop."""
    plain, compiled = ran(made, Witness), ran(made, CompiledPlane)
    assert differences(plain.records, compiled.records) == []
    assert kept_by_the_retired(plain, compiled) == 0
    assert isinstance(plain.control.plane, Witness)
    return plain.control.plane.effects + effects_of_rows(made, plain.records)


def equal_on_three_planes(made: Scenario) -> Counter[str]:
    """Return what took effect in a run that is equal on the plain plane, on the event loop, and on the scan."""
    assert kernel_for(RunPlan.of(made, RunInputs(), 0)).name == SCAN
    plain, loop, scan = (simulate(made, plane=plane) for plane in (PlainPlane, CompiledPlane, ScanPlane))
    assert differences(plain, loop) == []
    assert differences(plain, scan) == []
    return effects_of_rows(made, plain)


def campaign(kind: str, seeds: Iterable[int]) -> set[str]:
    """Return what took effect in the runs of these jobs, all of which are equal on all planes."""
    equal = equal_on_three_planes if kind == "scanned" else equal_on_the_event_loop
    found: Counter[str] = Counter()
    for seed in seeds:
        made = full_job(kind, seed)
        try:
            found += equal(made)
        except Exception as error:
            repeat = f"{SEED}={seed} pytest -m nightly tests/sim/test_full_jobs.py -k {kind}"
            raise AssertionError(f"job {seed} of kind {kind}; to repeat it: {repeat}\n{error}") from error
    return set(found)


IN_ALL = {
    "a tuple was broadcast",
    "threads of a pool worked at once",
    "a batch arrived",
    "a checkpoint was stored",
    "the remote store took a checkpoint",
}
ON_THE_EVENT_LOOP = IN_ALL | {
    "the remote store gave a checkpoint",
    "a duplicate was dropped",
    "a full queue held a sender",
    "a host failed by crash",
    "a host failed by suspicion",
    "a key group was restored",
    "a pair was joined",
    "a task waited for a core",
    "a window ended",
    "channels shared a link",
    "others took a part of a CPU",
    "services shared a processor",
    "statistics were kept",
}
EXPECTED = {
    "scanned": IN_ALL,
    "moving": ON_THE_EVENT_LOOP
    | {f"a key group moved by {protocol}" for protocol in PROTOCOLS}
    | {f"a key group moved because of {cause}" for cause in ("event", "rescale", "balance", "drain")}
    | {
        "a checkpoint was allocated elsewhere",
        "a host was acquired",
        "a move was not completed",
        "a timer went off",
        "an operator was rescaled",
    },
    "replicated": ON_THE_EVENT_LOOP
    | {f"a replica {what}" for what in ("took over", "lost", "called off", "was renewed")},
}
QUICK = {"moving": [1, 3, 6, 103], "replicated": [0, 3], "scanned": [0, 1, 2, 5]}
"""Seeds of the test command: together they show all that is expected."""


@pytest.mark.parametrize("kind", KINDS)
def test_planes_agree_where_all_features_meet(kind: str) -> None:
    assert EXPECTED[kind] - campaign(kind, QUICK[kind]) == set()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_planes_agree_where_all_features_meet_in_many_jobs(kind: str, part: int) -> None:
    assert EXPECTED[kind] - campaign(kind, range(1000 + 100 * part, 1100 + 100 * part)) == set()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_planes_agree_in_jobs_that_nobody_has_tried(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = fresh()
    with capsys.disabled():
        print(f"\n{SEED}={first}: {FRESH} jobs of kind {kind}")
    assert EXPECTED[kind] - campaign(kind, range(first, first + FRESH)) == set()


def test_a_difference_names_the_seed_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([[], ["visits.end_ns"]])
    monkeypatch.setattr("test_full_jobs.differences", lambda *_: next(found))
    with pytest.raises(AssertionError, match=f"{SEED}=4 pytest -m nightly .* -k scanned"):
        campaign("scanned", [4])


def test_a_nightly_campaign_begins_with_the_seed_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, "417")
    assert fresh() == 417
    monkeypatch.delenv(SEED)
    assert fresh() != fresh()
