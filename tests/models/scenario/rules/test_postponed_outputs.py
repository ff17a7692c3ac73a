"""`operators.X.postpone`: each thing that is wrong with it is said once, with path, rule and hint."""

from __future__ import annotations

import pytest
from changed_keys import changed
from test_reconfiguring import CRASH, RAW

from models.errors import InputError
from models.scenario.reading import raw_of, scenario_from
from models.scenario.rules import not_simulated
from models.steady_state.load import expected_load

LAW = {"distribution": "exponential", "mean": "2 s"}
POSTPONED = changed(RAW, {"operators/count/postpone": LAW})
CLOSES = {"model": "per-tuple", "bytes": "32 B", "until": "output"}


def test_it_is_written_as_it_was_read_and_can_run_beside_a_reconfiguration() -> None:
    scenario = scenario_from(POSTPONED)
    assert not_simulated(scenario) == []
    assert raw_of(scenario)["operators"]["count"]["postpone"] == LAW
    assert scenario_from(raw_of(scenario)) == scenario


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"operators/words/postpone": LAW}, "operators.words.postpone", "a source has no state to keep outputs in"),
        ({"operators/out/postpone": LAW}, "operators.out.postpone", "a sink has no output"),
        (
            {"operators/clean/postpone": LAW, "operators/clean/threads": 2},
            "operators.clean.threads",
            "no state and a service",
        ),
        (
            {"operators/count/postpone": {"distribution": "uniform", "low": "2 s", "high": "1 s"}},
            "operators.count.postpone.low",
            "shorter than high",
        ),
        (
            {"operators/count/postpone": {"distribution": "exponential", "mean": "0 s"}},
            "operators.count.postpone.mean",
            "",
        ),
        ({"operators/count/state": CLOSES}, "operators.count.state.until", "no output waits"),
        ({"operators/out/state": CLOSES}, "operators.out.state.until", "no output waits"),
        (
            {"operators/clean/postpone": LAW, "operators/clean/state": CLOSES},
            "operators.clean.state.until",
            "needs all inputs by key",
        ),
        (
            {"operators/count/postpone": LAW, "operators/count/state": CLOSES, "resolution": 2},
            "operators.count.state.until",
            "which are no ids of NEXMark, with resolution = 2",
        ),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario_from(changed(RAW, changes))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert words in fault.rule


WINDOW = {"length": "1 s"}
WORKERS = {"kind": "worker-failure"}
STOP = {"kind": "reconfigure", "at": "10 s", "operator": "count", "protocol": "stop-and-restart"}
RESCALE = {"kind": "rescale", "at": "20 s", "operator": "count", "parallelism": 3}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"events": {"crash": CRASH | WORKERS}, "workers/together": True}, "without worker failures"),
        ({"fault_tolerance": {"method": "checkpoint"}}, 'with fault_tolerance.method = "none"'),
        ({"fault_tolerance": {"method": "upstream-backup"}}, 'with fault_tolerance.method = "none"'),
        ({"operators/out/buffer": 10}, "without bounded queues"),
        ({"operators/count/window": WINDOW}, "without windows, joins and timers"),
        ({"operators/clean/timer": {"every": "1 s"}}, "without windows, joins and timers"),
        ({"events": {"more": RESCALE}}, "without other events than reconfigure"),
    ],
)
def test_what_is_not_simulated_beside_it_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    found = not_simulated(scenario_from(changed(POSTPONED, {"events": {}, **changes})))
    assert any(words in fault.hint for fault in found if fault.path == "operators.count.postpone")


def test_hosts_may_fail_where_nothing_is_kept() -> None:
    assert not_simulated(scenario_from(changed(POSTPONED, {"events": {"crash": CRASH}}))) == []
    assert not_simulated(scenario_from(changed(POSTPONED, {"events/crash": CRASH}))) == []


RESTARTS = {"method": "region-restart", "store": "remote", "interval": "1 s", "barriers": {}}
CLOSING = {"operators/count/state": CLOSES}


@pytest.mark.parametrize("kind", ["full", "incremental"])
@pytest.mark.parametrize("changes", [{}, CLOSING, CLOSING | {"events/more": RESCALE}, {"events/crash": CRASH}])
def test_hosts_may_fail_where_the_job_goes_back_to_a_checkpoint(kind: str, changes: dict[str, object]) -> None:
    """Also beside a reconfiguration, or a rescaling of the job, which a savepoint stops."""
    rescales = {"events": {"crash": CRASH}} if "events/more" in changes else {"events/crash": CRASH}
    raw = changed(POSTPONED, {"fault_tolerance": RESTARTS | {"kind": kind}, **rescales, **changes})
    assert not_simulated(scenario_from(raw)) == []


@pytest.mark.parametrize(
    ("tolerance", "words"),
    [
        (RESTARTS | {"barriers": {"unaligned": True}}, "aligned barriers, exactly once"),
        (RESTARTS | {"guarantee": "at-least-once"}, "aligned barriers, exactly once"),
        ({"method": "region-restart", "store": "remote", "interval": "1 s"}, "aligned barriers, exactly once"),
        ({"method": "micro-batch", "store": "remote"}, "aligned barriers, exactly once"),
        ({"method": "changelog", "store": "remote"}, "aligned barriers, exactly once"),
        ({"method": "checkpoint"}, "aligned barriers, exactly once"),
    ],
)
def test_other_checkpoints_have_no_post_dated_outputs(tolerance: dict[str, object], words: str) -> None:
    raw = changed(POSTPONED, {"fault_tolerance": tolerance, "events": {"crash": CRASH}, **CLOSING})
    found = [one for one in not_simulated(scenario_from(raw)) if "postpone" in one.path or "until" in one.path]
    assert [one.path for one in found] == ["operators.count.postpone"]
    assert words in found[0].hint


def test_keys_may_close_where_hosts_fail_and_nothing_is_kept() -> None:
    state = {"model": "per-tuple", "bytes": "10 B", "until": "output"}
    changes = {"events": {"crash": CRASH}, "operators/count/state": state}
    assert not_simulated(scenario_from(changed(POSTPONED, changes))) == []


def test_a_job_that_stops_as_a_whole_has_nothing_post_dated() -> None:
    (fault,) = not_simulated(scenario_from(changed(POSTPONED, {"events/move": {**STOP}})))
    assert fault.path == "events.move.protocol"
    assert "megaphone and pause-and-resume are" in fault.hint


def test_what_waits_is_a_part_of_the_expected_state() -> None:
    """By Little's law 100 tuples per second wait 2 s each, of 100 B."""
    with_it, without = (expected_load(scenario_from(raw)).operators["count"] for raw in (POSTPONED, RAW))
    assert with_it.state_bytes - without.state_bytes == pytest.approx(100 * 2 * 100)


@pytest.mark.parametrize("until", ["end", "output"])
def test_tuples_of_open_keys_are_as_many_as_have_come_where_nothing_is_known_of_keys(until: str) -> None:
    """An upper bound: all of the 60 s."""
    kept = {"operators/count/state": {**CLOSES, "until": until}}
    with_it, without = (expected_load(scenario_from(changed(POSTPONED, one))) for one in (kept, {}))
    state, others = (one.operators["count"].state_bytes for one in (with_it, without))
    assert state - others == pytest.approx(32 * 100 * 60)
