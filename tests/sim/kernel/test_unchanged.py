"""Rows that were recorded with the first engine: a faster or tidier one gives them bit by bit.

Four changes since then were made on purpose (docs/reference/simulator.md). Which upstream partitions a trim reaches:
the digests of the jobs where it shows are under `trimmed_on_arrival`. Control knows of a crash only when it is
detected: until then checkpoints and replays go to the dead host, and it may be chosen; where that shows the digests are
under `detected_late`. An engine that knows at once still gives those of before. And links that carry records and
checkpoints are shared evenly by default: the digests of files where that shows are under `fair_by_default`; first in
first out they give those of before. Last, slots bound a run: the digests of files where that shows are under
`within_slots`; without slots they give those of before. All others are those of the first engine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import pytest
from seeds import sample
from small_jobs import random_job, simulate, storm

from models.records.tables import RunRecords
from models.scenario.scenario import Scenario
from models.schema_types import FrozenMap
from scenarios.files.scenario import read_scenario
from scenarios.runs.inputs import inputs_of
from sim.control.assembly import PlaneFactory
from sim.control.cluster import ClusterView
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

ROOT = Path(__file__).parents[3]
FILE = Path(__file__).parents[1] / "data" / "plain_digests.json"
RECORDED = json.loads(FILE.read_text())
BEFORE = RECORDED["digests"] | RECORDED["trimmed_on_arrival"] | RECORDED["detected_late"]
PLANES: dict[str, PlaneFactory] = {"plain": PlainPlane, "compiled": CompiledPlane}
# Simulated seconds of each file, enough to meet what is particular about it.
FILES = {
    "scenarios/library/backlog.toml": 50,
    "scenarios/library/crash-recovery.toml": 60,
    "scenarios/library/mm1.toml": 10,
    "scenarios/library/word-count.toml": 20,
    "examples/two-hosts.toml": 60,
}
JOBS = {"random": random_job, "storm": storm}


def digest(records: RunRecords) -> str:
    """One hash over the rows of the tables that the first engine had, and over all names."""
    found = hashlib.sha256()
    for name, columns in RECORDED["tables"].items():
        for column in columns:
            found.update(f"{name}.{column}:".encode())
            found.update("\n".join(map(str, records.tables[name][column].tolist())).encode())
    found.update(repr((records.operators, records.tasks, records.task_operator, records.hosts)).encode())
    return found.hexdigest()


def recorded(name: str, slots: bool = True) -> str:
    return str((BEFORE | RECORDED["fair_by_default"] | (RECORDED["within_slots"] if slots else {}))[name])


def rows_of(name: str, plane: PlaneFactory, slots: bool = True, **network: str) -> RunRecords:
    """The rows of a scenario file, with these changes of its network, or of a job of that kind and seed.

    Without `slots` a host takes any number of tasks.
    """
    kind, _, seed = name.partition("/")
    if name in FILES:
        loaded = read_scenario(ROOT / name)
        links = loaded.scenario.network.model_copy(update=network)
        groups = loaded.scenario.hosts
        if not slots:
            groups = FrozenMap({key: group.model_copy(update={"slots": None}) for key, group in groups.items()})
        changes = {"duration_s": float(FILES[name]), "network": links, "hosts": groups}
        made = loaded.scenario.model_copy(update=changes)
        return simulate(made, inputs_of(made, loaded.folder), plane=plane)
    raw = JOBS[kind](Random(int(seed))) | {"duration": "15 s"}
    return simulate(Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False), plane=plane)


def knows_at_once(view: ClusterView, host: int, held: dict[int, int]) -> list[int]:
    """In place of `ClusterView.died`."""
    view.detected(host)
    return view._cluster.partitions_on(host)


@pytest.mark.parametrize("name", RECORDED["detected_late"])
def test_who_knows_at_once_gives_the_rows_of_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterView, "died", knows_at_once)
    before = RECORDED["digests"] | RECORDED["trimmed_on_arrival"]
    assert (
        digest(rows_of(name, CompiledPlane, slots=False, sharing="fifo"))
        == before[name]
        != RECORDED["detected_late"][name]
    )


@pytest.mark.parametrize("file", RECORDED["fair_by_default"])
def test_links_that_are_first_in_first_out_give_the_rows_of_before(file: str) -> None:
    assert digest(rows_of(file, CompiledPlane, slots=False, sharing="fifo")) == BEFORE[file] != recorded(file)


@pytest.mark.parametrize("file", RECORDED["within_slots"])
def test_hosts_without_slots_give_the_rows_of_before(file: str) -> None:
    assert digest(rows_of(file, CompiledPlane, slots=False)) == recorded(file, slots=False) != recorded(file)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
@pytest.mark.parametrize("file", FILES)
def test_a_scenario_file_gives_the_rows_that_it_gave(file: str, plane: PlaneFactory) -> None:
    assert digest(rows_of(file, plane)) == recorded(file)


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
@pytest.mark.parametrize("seed", sample(5, 30))
@pytest.mark.parametrize("kind", JOBS)
def test_a_random_job_gives_the_rows_that_it_gave(kind: str, seed: int, plane: PlaneFactory) -> None:
    assert digest(rows_of(f"{kind}/{seed}", plane)) == recorded(f"{kind}/{seed}")
