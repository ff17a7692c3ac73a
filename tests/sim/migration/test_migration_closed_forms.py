"""What moves take, against the closed forms for a lightly loaded target.

Source of the formulas: Madsen and Zhou, CIKM 2015, with the values of a worker with one core: tuples of 150 B,
links of 50 MB/s, 30 MB/s to write or read a state, 1 ms of latency, 0.1 ms per tuple. R tuples have to be replayed, in
equal parts from |U| tasks upstream, over links of their own. `docs/explanation/protocols.md` has them in continuous
form.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from move_times import (
    DISK,
    LATENCY,
    LINK,
    ON_LINK,
    REMOTE,
    STATE,
    TUPLE,
    UPSTREAM,
    Job,
    Moved,
    cpa,
    cpal,
    cpal_caught_up,
    direct,
    lazy_move,
    remote_cpa,
    remote_cpal,
    remote_direct,
    simulated,
)
from small_jobs import NS

from sim.migration.protocols.cpal import CaughtUpCPAL

Form = Callable[[Job], Moved]

CHECKPOINT_HOST, OTHER = "worker-1", "worker-2"
FORMS = [
    (cpa, CHECKPOINT_HOST),
    (cpal, CHECKPOINT_HOST),
    (cpal_caught_up, CHECKPOINT_HOST),
    (direct, OTHER),
    (lazy_move, OTHER),
]
REMOTE_FORMS = [(remote_cpa, "cpa"), (remote_cpal, "cpal"), (remote_direct, "direct")]
SERVICES = [10_000, 100_000]
AGES = [2 * NS, 8 * NS, 16 * NS]


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("form", "target"), FORMS)
def test_a_move_takes_what_its_closed_form_says_to_the_nanosecond(
    form: Form, target: str, service: int, age: int
) -> None:
    job = Job(age, service=service)
    assert simulated(job, form.__name__, target).moved == form(job)


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(("form", "protocol"), REMOTE_FORMS)
def test_a_move_beside_a_remote_store_takes_what_its_closed_form_says_to_the_nanosecond(
    form: Form, protocol: str, service: int, age: int
) -> None:
    job = Job(age, service=service)
    assert simulated(job, protocol, CHECKPOINT_HOST, **REMOTE).moved == form(job)


@pytest.mark.parametrize("form", [cpa, cpal, cpal_caught_up])
@pytest.mark.parametrize("age", AGES)
def test_the_closed_forms_hold_on_a_target_that_is_half_busy(form: Form, age: int) -> None:
    job = Job(age, service=800_000)
    assert simulated(job, form.__name__, CHECKPOINT_HOST).moved == form(job)


@pytest.mark.parametrize("age", AGES)
def test_with_random_arrivals_cpa_pauses_for_what_it_replays(age: int) -> None:
    job = Job(age)
    one = simulated(job, "cpa", CHECKPOINT_HOST, arrivals="poisson").moved
    assert one.replayed != cpa(job).replayed
    pause = LATENCY + one.replayed * per_tuple(job)
    assert one.resumed - one.paused == pytest.approx(pause, rel=0.001)
    assert one.completed == one.resumed


# -- the break-even of CPA and direct


def per_tuple(job: Job) -> float:
    """Return what a tuple adds to a replay: its share of the links, and its service [ns]."""
    return ON_LINK / UPSTREAM + job.service


def per_byte() -> float:
    """Return what a byte of a checkpoint adds to a direct move: it is written, sent and read [ns]."""
    return NS * (2 / DISK + 1 / LINK)


def own_replay(job: Job) -> float:
    """Return how long direct replays what came in a unit of time."""
    return per_tuple(job) / job.gap


def net_per_tuple(job: Job) -> float:
    """Return by how much each tuple since the checkpoint delays CPA more than direct [ns]."""
    return per_tuple(job) - per_byte() * TUPLE * (1 + own_replay(job))


def even_tuples(job: Job) -> float:
    """Return how many tuples CPA replays in the time of direct, by the formula of `docs/explanation/protocols.md`."""
    state = (per_byte() * STATE + 3 * LATENCY) * (1 + own_replay(job))
    return (state + own_replay(job) * (2 * LATENCY + job.service)) / net_per_tuple(job)


def at_share(job: Job, share: float) -> Job:
    """Return the job with a checkpoint so old that the replay has this share of the tuples of the break-even."""
    tuples = round(share * even_tuples(job))
    return Job(tuples * job.gap - LATENCY - job.to_state, job.gap, job.service)


JOBS = [Job(0), Job(0, service=80_000), Job(0, gap=4_000_000, service=250_000)]


@pytest.mark.parametrize(
    "share", [0.1, 0.999, 1.001, 1.6, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.5, 0.95, 1.05))]
)
@pytest.mark.parametrize("job", JOBS)
def test_a_checkpoint_helps_up_to_the_break_even_and_direct_is_quicker_beyond(job: Job, share: float) -> None:
    job = at_share(job, share)
    one, other = simulated(job, "cpa", CHECKPOINT_HOST).moved, simulated(job, "direct", OTHER).moved
    assert one.replayed == pytest.approx(share * even_tuples(job), abs=1)
    assert (one.completed > other.completed) == (share > 1)
    apart = (share - 1) * even_tuples(job) * net_per_tuple(job)
    assert one.completed - other.completed == pytest.approx(apart, abs=2 * job.service)


@pytest.mark.parametrize("job", JOBS)
def test_at_the_break_even_both_take_as_long_to_the_tuple(job: Job) -> None:
    job = at_share(job, 1)
    one, other = simulated(job, "cpa", CHECKPOINT_HOST).moved, simulated(job, "direct", OTHER).moved
    assert one.completed == pytest.approx(other.completed, abs=2 * job.service)


def test_without_its_own_replay_and_its_kept_outputs_direct_would_be_quicker_far_too_early() -> None:
    job = Job(18 * NS, gap=1_666_666)
    one, other = simulated(job, "cpa", CHECKPOINT_HOST).moved, simulated(job, "direct", OTHER).moved
    assert one.replayed > 1.1 * per_byte() * STATE / per_tuple(job)
    assert one.completed < 0.95 * other.completed


@pytest.mark.parametrize("age", [1 * NS, 20 * NS, 39 * NS])
def test_direct_is_never_quicker_where_an_output_takes_longer_to_send_than_a_tuple_to_replay(age: int) -> None:
    job = Job(age, service=10_000)
    assert net_per_tuple(job) < 0
    one, other = simulated(job, "cpa", CHECKPOINT_HOST).moved, simulated(job, "direct", OTHER).moved
    assert one.completed < other.completed - per_byte() * STATE


# -- the worst time of a tuple


def slope(protocol: str, service: int) -> float:
    """Return by how much the worst time of a tuple grows with each tuple that is replayed, in services."""
    early, late = (simulated(Job(age, service=service), protocol, CHECKPOINT_HOST) for age in (AGES[0], AGES[-1]))
    return (late.worst - early.worst) / (late.moved.replayed - early.moved.replayed) / service


@pytest.mark.parametrize("load", [0.05, 0.5])
def test_tuples_wait_for_what_has_piled_up_behind_the_replay(load: float) -> None:
    # One queue: while R services are replayed R x load have come in behind them, and the first tuple after the switch
    # waits for these; each round of `cpal_caught_up` leaves the same share of what the last one left.
    service = round(load * Job(0).gap)
    assert slope("cpa", service) == pytest.approx(1, rel=0.001)
    assert slope("cpal_caught_up", service) == pytest.approx(load ** (1 + CaughtUpCPAL.rounds), rel=0.002, abs=5e-4)


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("service", [80_000, 100_000, 800_000])
def test_under_cpal_the_first_tuple_after_the_switch_waits_longest(service: int, age: int) -> None:
    job = Job(age, service=service)
    one = simulated(job, "cpal", CHECKPOINT_HOST)
    switched = job.asked + cpa(job).completed + LATENCY
    created = (switched // job.gap + 1) * job.gap
    arrived = created + ON_LINK + LATENCY - job.asked
    assert one.worst == one.moved.completed + service - arrived
