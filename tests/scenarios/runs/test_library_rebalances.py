"""The rebalances of the library: where tasks go, and what the rows and the summary say of it."""

from __future__ import annotations

import pytest

from analysis.runs.rebalances import rebalances
from analysis.runs.run_summary import REBALANCE_PHASES, Rebalance
from models.records.tables import TABLES, RunRecords
from models.scenario.inputs import Engine
from models.scenario.scenario import Scenario
from models.steady_state.flow import flows
from models.topology import layout
from scenarios.files.scenario import names, read_scenario, resolve
from sim.engine import simulate

SHORT = ["duration=100 s", "warmup=5 s", "events.move.at=15 s"]
SHAPES = {  # of the paper: tasks, slots, hosts with 2, 4 and 1 slots, tuples/s at the sink
    "linear": (5, 5, 3, 2, 5, 8),
    "diamond": (5, 8, 4, 2, 8, 32),
    "star": (5, 8, 4, 2, 8, 32),
    "grid": (15, 21, 11, 6, 21, 32),
    "traffic": (11, 13, 7, 4, 13, 32),
    "chain-50": (50, 50, 25, 13, 50, 8),
}


def dataflow(shape: str, *settings: str) -> Scenario:
    return read_scenario(resolve(f"rebalance-{shape}"), list(settings)).scenario


def short_run(protocol: str, engine: Engine = "auto") -> tuple[Scenario, RunRecords]:
    scenario = dataflow("linear", *SHORT, f"events.move.protocol={protocol}")
    return scenario, simulate(scenario, engine=engine)


def test_each_shape_of_the_paper_is_there() -> None:
    assert {name for name in names() if name.startswith("rebalance-")} == {f"rebalance-{name}" for name in SHAPES}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_has_the_counts_of_the_paper(shape: str) -> None:
    scenario, (tasks, slots, before, after, out, rate) = dataflow(shape), SHAPES[shape]
    moves = scenario.operators.keys() - layout.staying(scenario)
    assert len(moves) == tasks
    assert sum(scenario.operators[name].parallelism for name in moves) == slots
    assert (scenario.hosts["old"].count, scenario.hosts["new"].count) == (before, after)
    assert flows(scenario)["sink"].rate_in.mean_per_s == pytest.approx(rate)
    spread = dataflow(shape, f"hosts.new.count={out}", "hosts.new.slots=1")
    assert layout.free_slots(spread, ["new"], []) == slots


@pytest.mark.parametrize("protocol", ["dcr", "ccr"])
def test_rows_of_a_rebalance_are_those_of_all_engines(protocol: str) -> None:
    (_, found), (_, plain) = short_run(protocol), short_run(protocol, "plain")
    assert {name: column.tolist() for name, column in found.tables["rebalances"].items()} == {
        name: column.tolist() for name, column in plain.tables["rebalances"].items()
    }


@pytest.mark.parametrize("protocol", ["dcr", "ccr"])
def test_a_rebalance_goes_through_all_phases_and_loses_nothing(protocol: str) -> None:
    scenario, found = short_run(protocol)
    table = found.tables["rebalances"]
    names = [column.name for column in TABLES["rebalances"] if column.name.endswith("_ns")]
    order = [name for name in names if name != "up_ns"]
    instants = [int(table[name][0]) for name in order]
    assert instants == sorted(instants) and instants[0] == 15_000_000_000
    (one,) = rebalances(scenario, [found])
    assert (one.outcome, one.subtasks, one.lost) == ("done", 5, 0)
    assert [phase for phase, _, _ in one.ends()] == [*REBALANCE_PHASES[: len(one.ends())]]
    assert len(one.ends()) >= 5
    assert (one.captured > 0) == (protocol == "ccr")
    assert one.restore_s is not None and one.caught_up_s is not None and one.drain_s is not None
    # What was under way comes before the kill, or only after it.
    assert (one.caught_up_s < one.restore_s) == (protocol == "dcr")
    assert found.tables["ledger"]["lost"].sum() == found.tables["ledger"]["duplicated"].sum() == 0


DSM = [
    "events.move.protocol=dsm",
    "events.move.at=1 min",
    "duration=5 min",
    "waves.interval=30 s",
    "fault_tolerance.method=acker",
    "fault_tolerance.guarantee=at-least-once",
]


def killed_at_once(*settings: str) -> Rebalance:
    scenario = dataflow("linear", *DSM, *settings)
    (one,) = rebalances(scenario, [simulate(scenario)])
    return one


def test_what_a_kill_loses_is_emitted_again_and_comes_late() -> None:
    one = killed_at_once()
    assert (one.outcome, one.drain_s, one.command_s, one.captured) == ("done", None, 7.26, 0)
    assert one.unpause_s is None  # sources never paused
    assert one.replayed is not None and one.replayed >= one.lost > 0
    assert one.restore_s is not None and one.recovered_s is not None
    assert one.recovered_s > one.restore_s


def test_roots_that_fail_before_they_are_served_never_recover() -> None:
    """More waits than a task serves in a time-out: every root is emitted again, and what comes of it fails as well."""
    one = killed_at_once("fault_tolerance.acker={ timeout = '10 s' }")
    assert one.replayed is not None and one.replayed > 1000
    assert one.recovered_s is None


def test_tasks_go_to_the_new_hosts_and_ends_stay() -> None:
    _, found = short_run("ccr")
    samples = found.tables["samples"]
    last = samples["at_ns"] == samples["at_ns"].max()
    hosts = {
        found.operators[found.task_operator[task]]: found.hosts[host].split("-")[0]
        for task, host in zip(samples["task"][last].tolist(), samples["host"][last].tolist(), strict=True)
    }
    assert hosts == {"source": "ends", "sink": "ends"} | {f"t{k}": "new" for k in range(1, 6)}


def test_gigabytes_of_state_move_with_a_join() -> None:
    settings = ["duration=60 s", "events.move.at=10 s", "workload.views.rate=600 /s", "workload.clicks.rate=200 /s"]
    scenario = read_scenario(resolve("user-rebalance"), settings).scenario
    found = simulate(scenario)
    (one,) = rebalances(scenario, [found])
    assert (one.outcome, one.subtasks, one.lost) == ("done", 28, 0)
    assert one.captured > 0 and one.restore_s is not None and one.restore_s > 7.0
