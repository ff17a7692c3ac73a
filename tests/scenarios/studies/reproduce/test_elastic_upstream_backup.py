"""The pieces of the study of elastic upstream backup: what is counted, and what a recovery takes."""

from __future__ import annotations

import pytest

from scenarios.studies.reproduce.elastic_upstream_backup import Paused, Recovered, Traffic


@pytest.mark.parametrize(("hops", "tasks", "every_s"), [(3, 1, 5), (3, 3, 5), (2, 2, 3)])
def test_each_pair_of_tasks_has_an_ack_in_each_round_of_five_minutes(hops: int, tasks: int, every_s: int) -> None:
    rate = 20 * tasks**2
    found = Traffic(tasks, rate, every_s, hops).run()
    assert found["acks"] == 300 // every_s * hops * tasks**2
    # Evenly spaced arrivals: the first comes after one interval, the last of each task may be on its way.
    assert 300 * rate * hops - 2 * hops * tasks <= found["records"] <= 300 * rate * hops


def test_a_source_keeps_the_outputs_of_an_interval() -> None:
    each = [Traffic(1, 200, every_s).run()["kept"] / (200 * 172) for every_s in (1, 2, 5)]
    assert each == pytest.approx([1, 2, 5], abs=0.02)


def test_a_recovery_takes_the_restart_and_what_came_since_the_checkpoint() -> None:
    for method, interval_s, slope in (("SPATE", 5.0, 0.5), ("R+SM", 5.0, 1.0), ("SPATE", 10.0, 0.5)):
        run = Recovered(method, 3, 500, interval_s)  # type: ignore[arg-type]
        since_s = slope * interval_s + (run.crash_s % (slope * interval_s) + 0.5) % (slope * interval_s) - 0.5
        restart_s = run.run()["recovery_s"] - 0.378e-3 * 500 * since_s
        assert restart_s == pytest.approx(1.146, abs=0.25), (method, interval_s)


def test_hosts_die_around_the_end_of_an_interval() -> None:
    ends = [Recovered("R+SM", seed, interval_s=interval_s).crash_s for seed in range(9) for interval_s in (5, 15)]
    assert all(min(at % 5, 5 - at % 5) <= 0.5 for at in ends)
    assert len(set(ends)) == len(ends)
    assert min(Recovered("UB", seed).crash_s for seed in range(9)) > 30  # there is a whole window


def test_pauses_are_those_of_ten_checkpoints() -> None:
    found = Paused("synchronous").run()
    assert found["checkpoints"] == 10
    assert found["paused_s"] == pytest.approx(10 * (0.157 + 2 / 46.5))


def test_pieces_have_names_of_their_own() -> None:
    runs = [Recovered(method, 1, rate) for method in ("SC", "UB") for rate in (500, 1000)]  # type: ignore[arg-type]
    traffic = [Traffic(tasks, 10, every_s, hops) for tasks in (1, 2) for every_s in (1, 2) for hops in (1, 3)]
    labels = [one.label for one in (*runs, *traffic)]
    assert len(set(labels)) == len(labels)
