"""From the death of a TaskManager to the last RUNNING: timelines by hand, and all phases against brute force."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from models.engines.flink_restart import Heartbeats, Piece, TaskManagerDeath
from models.engines.restart_strategies import UNLIMITED, ExponentialDelay, FailureRate, FixedDelay, RestartState
from models.errors import InputError

UNIT_S = 1 / 8  # all instants of the comparison are its multiples: exact in floats, and results change only at them
ALWAYS = FixedDelay(attempts=UNLIMITED)
SHORT = Heartbeats(interval_s=2.0, timeout_s=8.0)


def running_s(death: TaskManagerDeath, phase_s: float) -> list[float]:
    return [round(attempt.running_s, 2) for attempt in death.at_phase(phase_s).attempts]


def plainly(death: TaskManagerDeath, phase_s: float) -> tuple[float, float]:
    """The last RESTARTING and RUNNING [s], event by event; infinite if the job fails."""
    beats = death.heartbeats
    removal_s = phase_s - beats.interval_s + beats.timeout_s
    if not death.silent and beats.failed_calls is not None:
        heartbeat_s = phase_s
        for _ in range(beats.failed_calls - 1):
            heartbeat_s += beats.interval_s
        removal_s = min(removal_s, heartbeat_s)
    now_s = removal_s if death.silent or removal_s < death.noticed_s else death.noticed_s
    state, jitters = death.earlier, [*death.jitters]
    while True:
        restarting_s = now_s
        state, delay_s = death.strategy.after_failure(state, now_s, jitters.pop(0) if jitters else 0.0)
        if delay_s is None:
            return math.inf, math.inf
        now_s += delay_s
        dead_slot = now_s < removal_s
        no_slot = now_s < death.slot_s and not death.waits_for_slot
        if not dead_slot and not no_slot:
            return restarting_s, now_s
        now_s += death.overhead_s


def brute_force(death: TaskManagerDeath, which: int) -> list[Piece]:
    """The results between each two multiples of the unit, from two phases between them."""
    cells = round(death.heartbeats.interval_s / UNIT_S)
    pieces = []
    for cell in range(cells):
        quarter_s, last_s = (plainly(death, (cell + part) * UNIT_S)[which] for part in (0.25, 0.75))
        half_s = 0.0 if quarter_s == math.inf else (last_s - quarter_s) / 2
        pieces.append(Piece(1 / cells, quarter_s - half_s, last_s + half_s))
    return pieces


def units(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda number: number * UNIT_S)


@st.composite
def deaths(draw: st.DrawFn) -> TaskManagerDeath:
    interval_s = draw(units(1, 24))
    strategy = draw(
        st.one_of(
            st.builds(FixedDelay, delay_s=units(1, 16), attempts=st.sampled_from([0, 1, 3, UNLIMITED])),
            st.builds(
                ExponentialDelay,
                initial_s=units(1, 4).map(lambda least_s: 2 * least_s),  # so that half of it is a multiple, too
                multiplier=st.just(2.0),
                maximum_s=units(8, 64),
                jitter=st.sampled_from([0.0, 0.5]),
                reset_s=units(1, 800),
                attempts=st.sampled_from([1, 4, UNLIMITED]),
            ),
            st.builds(FailureRate, failures=st.integers(1, 4), interval_s=units(1, 64), delay_s=units(1, 16)),
        )
    )
    earlier_s = draw(st.lists(units(-400, 0), max_size=4).map(sorted))
    return TaskManagerDeath(
        heartbeats=Heartbeats(
            interval_s=interval_s,
            timeout_s=interval_s + draw(units(0, 80)),
            failed_calls=draw(st.sampled_from([None, 1, 2, 3])),
        ),
        strategy=strategy,
        silent=draw(st.booleans()),
        noticed_s=draw(units(0, 8)),
        overhead_s=draw(units(0, 2)),
        slot_s=draw(units(0, 160)),
        waits_for_slot=draw(st.booleans()),
        earlier=RestartState(len(earlier_s), earlier_s[-1] if earlier_s else -math.inf, tuple(earlier_s)),
        jitters=draw(st.sampled_from([(), (1.0,), (-1.0, 1.0)])),
    )


@given(deaths())
def test_laws_over_all_phases_are_those_of_brute_force(death: TaskManagerDeath) -> None:
    try:
        laws = death.laws()
    except InputError as error:
        # The reset, or the rate of failures, falls between two heartbeats: only then there is no law.
        assert error.faults[0].path == "earlier"
        assume(False)
    for which, law in enumerate(laws):
        pieces = brute_force(death, which)
        assert law.earliest_s == min(piece.from_s for piece in pieces)
        assert law.latest_s == max(piece.to_s for piece in pieces)
        assert law.mean_s == pytest.approx(sum(piece.share * (piece.from_s + piece.to_s) / 2 for piece in pieces))
        plain = replace(law, pieces=tuple(pieces))
        for piece in pieces:
            for instant_s in (piece.from_s, piece.to_s, piece.to_s - UNIT_S / 4):
                assert law.chance(instant_s) == pytest.approx(plain.chance(instant_s))


@given(deaths(), st.floats(0.001, 1))
def test_a_quantile_is_the_least_instant_with_its_share_of_the_phases(death: TaskManagerDeath, share: float) -> None:
    try:
        laws = death.laws()
    except InputError:
        assume(False)
    for law in laws:
        found_s = law.quantile_s(share)
        assert law.chance(found_s) >= share - 1e-6
        assert law.chance(found_s - 1e-6) <= share + 1e-6 or found_s == math.inf


@given(deaths(), st.integers(1, 4 * 24))
def test_each_phase_is_as_event_by_event_and_only_the_last_attempt_is_not_in_vain(
    death: TaskManagerDeath, quarters: int
) -> None:
    phase_s = quarters * UNIT_S / 4
    assume(phase_s <= death.heartbeats.interval_s)
    found = death.at_phase(phase_s)
    assert (found.restarting_s, found.running_s) == plainly(death, phase_s)
    needed_s = max(found.removal_s, 0.0 if death.waits_for_slot else death.slot_s)
    in_vain = found.attempts if found.failed else found.attempts[:-1]
    assert all(attempt.running_s < needed_s for attempt in in_vain)
    assert found.deploying_s >= max(found.running_s, death.slot_s)


def test_the_default_strategy_tries_in_vain_until_the_second_heartbeat_failed() -> None:
    # 0.1, then delays of 1, 1.5, 2.25, 3.375, 5.0625 and 7.59375 s with 0.035 s between; removed at 6 + 10 s.
    death = TaskManagerDeath(noticed_s=0.1, overhead_s=0.035)
    assert death.at_phase(6.0).removal_s == 16.0
    assert [round(instant_s, 1) for instant_s in running_s(death, 6.0)] == [1.1, 2.6, 4.9, 8.3, 13.4, 21.1]


def test_the_mean_of_the_default_strategy_is_three_seconds_above_that_of_a_fixed_delay() -> None:
    _, default = TaskManagerDeath(noticed_s=0.0).laws()
    _, fixed = TaskManagerDeath(noticed_s=0.0, strategy=ALWAYS).laws()
    # Removal in (10, 20] s: 13.1875 s up to there, 20.78125 s beyond it.
    assert [(round(piece.share, 5), piece.to_s) for piece in default.pieces] == [
        (0.31875, 13.1875),
        (0.68125, 20.78125),
    ]
    assert (round(default.mean_s, 1), fixed.mean_s) == (18.4, pytest.approx(15.5))
    assert (default.quantile_s(0.3), default.quantile_s(0.5)) == (13.1875, 20.78125)
    assert (fixed.earliest_s, fixed.quantile_s(0.5), fixed.latest_s) == (11.0, 15.0, 20.0)


def test_with_short_heartbeats_the_job_runs_after_two_to_four_seconds() -> None:
    _, law = TaskManagerDeath(heartbeats=SHORT, strategy=ALWAYS, noticed_s=0.125).laws()
    assert [piece.to_s for piece in law.pieces] == [2.125, 3.125, 4.125]


def test_a_restart_at_the_instant_of_the_removal_is_not_in_vain() -> None:
    death = TaskManagerDeath(heartbeats=SHORT, strategy=ALWAYS, noticed_s=0.125)
    assert death.at_phase(0.125).removal_s == death.at_phase(0.125).running_s == 2.125


def test_a_silent_host_is_noticed_by_the_time_out_alone_and_no_attempt_is_in_vain() -> None:
    death = TaskManagerDeath(silent=True)
    assert running_s(death, 10.0) == [51.0]
    restarting, running = death.laws()
    assert (restarting.earliest_s, restarting.latest_s) == (40.0, 50.0)
    assert (running.earliest_s, running.quantile_s(0.25), running.latest_s) == (41.0, 43.5, 51.0)


@pytest.mark.parametrize(
    ("failed_calls", "timeout_s", "removal_s"),
    [(1, 8.0, 0.5), (2, 8.0, 2.5), (4, 8.0, 6.5), (6, 8.0, 6.5), (2, 3.0, 1.5), (None, 8.0, 6.5)],
)
def test_a_killed_process_is_removed_by_failed_calls_or_the_time_out_whichever_is_first(
    failed_calls: int | None, timeout_s: float, removal_s: float
) -> None:
    beats = Heartbeats(interval_s=2.0, timeout_s=timeout_s, failed_calls=failed_calls)
    assert TaskManagerDeath(heartbeats=beats).at_phase(0.5).removal_s == removal_s


def test_a_removal_before_the_broken_connection_is_noticed_fails_the_tasks_itself() -> None:
    death = TaskManagerDeath(heartbeats=replace(SHORT, failed_calls=1), strategy=ALWAYS, noticed_s=0.5)
    assert running_s(death, 0.25) == [1.25]
    assert running_s(death, 0.75) == [1.5]
    _, law = death.laws()
    assert law.pieces == (Piece(0.25, 1.0, 1.5), Piece(0.5, 1.5, 1.5), Piece(0.25, 2.5, 2.5))
    assert law.quantile_s(0.125) == 1.25


def test_without_a_spare_slot_the_job_is_running_and_waits_for_the_replacement() -> None:
    found = TaskManagerDeath(heartbeats=SHORT, strategy=ALWAYS, noticed_s=0.125, slot_s=7.5).at_phase(1.0)
    assert (found.running_s, found.deploying_s) == (3.125, 7.5)


def test_a_standalone_cluster_restarts_in_vain_until_the_replacement_has_registered() -> None:
    death = TaskManagerDeath(heartbeats=SHORT, strategy=ALWAYS, noticed_s=0.125, slot_s=5.5, waits_for_slot=False)
    assert running_s(death, 1.0) == [1.12, 2.12, 3.12, 4.12, 5.12, 6.12]
    assert death.laws()[1].pieces == (Piece(1.0, 6.125, 6.125),)


def test_a_second_death_within_the_hour_takes_up_the_long_delays() -> None:
    death = TaskManagerDeath(noticed_s=0.125)
    first = death.at_phase(6.0)
    again = replace(death, earlier=first.attempts[-1].state.counted_from(600.0))
    # 1.5 ^ 6 s after six attempts; after an hour of running the delays begin anew.
    assert running_s(again, 6.0) == [11.52, 28.6]
    assert again.laws()[1].mean_s > death.laws()[1].mean_s + 5
    anew = replace(death, earlier=first.attempts[-1].state.counted_from(3700.0))
    assert running_s(anew, 6.0) == running_s(death, 6.0)


def test_jitter_moves_each_attempt() -> None:
    death = TaskManagerDeath(noticed_s=0.0, jitters=(1.0, -1.0))
    assert running_s(death, 1.0)[:3] == [1.1, 2.45, 4.7]


def test_a_job_fails_where_its_strategy_gives_up_before_the_worker_is_removed() -> None:
    death = TaskManagerDeath(heartbeats=SHORT, strategy=FixedDelay(attempts=2), noticed_s=0.125)
    found = death.at_phase(1.0)
    assert (found.failed, len(found.attempts), found.running_s, found.restarting_s) == (True, 2, math.inf, math.inf)
    # Removals up to 2.125 s find the second attempt.
    _, law = death.laws()
    assert (law.chance(2.125), law.latest_s, law.quantile_s(0.5)) == (0.0625, math.inf, math.inf)
    with_defaults = TaskManagerDeath(strategy=FailureRate()).laws()[1]
    assert with_defaults.earliest_s == math.inf  # one failure per minute is allowed, and the first restart is in vain


def test_a_reset_between_two_heartbeats_has_no_law() -> None:
    death = TaskManagerDeath(silent=True, earlier=RestartState(attempts=3, restart_s=45.0 - 3600.0))
    assert running_s(death, 1.0) == [44.38]
    assert running_s(death, 9.0) == [50.0]
    with pytest.raises(InputError, match=r"^earlier = .*: must not make the delay depend on the phase$"):
        death.laws()


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Heartbeats(interval_s=0.0), "interval_s"),
        (lambda: Heartbeats(timeout_s=9.0), "timeout_s"),
        (lambda: Heartbeats(failed_calls=0), "failed_calls"),
        (lambda: TaskManagerDeath(noticed_s=-0.1), "noticed_s"),
        (lambda: TaskManagerDeath(overhead_s=math.nan), "overhead_s"),
        (lambda: TaskManagerDeath(slot_s=math.inf), "slot_s"),
        (lambda: TaskManagerDeath().at_phase(0.0), "phase_s"),
        (lambda: TaskManagerDeath().at_phase(10.5), "phase_s"),
        (lambda: TaskManagerDeath(strategy=FixedDelay(delay_s=0.0, attempts=UNLIMITED)).laws(), "strategy"),
    ],
)
def test_what_cannot_be_is_refused(make: object, path: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=f"^{path} = "):
        make()
