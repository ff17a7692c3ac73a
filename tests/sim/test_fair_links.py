"""Links that are shared evenly by the channels that have something to send, on both planes.

Oracles: lattices by hand, a fluid model in exact fractions, the link that sends one message after the other where
there is only one channel, and the plain plane for the compiled one.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from seeds import sample
from small_jobs import NS, random_job, rows_of, simulate, storm, with_buffers, with_fair_links
from test_planes import METHODS, differences, on_both
from test_recovery import GUARANTEES, check_job

from models.scenario.scenario import Scenario
from sim.clock import LINK, Clock
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.link import FairLink
from sim.plain.plane import PlainPlane

PLANES: dict[str, PlaneFactory] = {"plain": PlainPlane, "compiled": CompiledPlane}
MS = 10**6


def made(raw: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)


def two_streams(**network: Any) -> dict[str, Any]:
    """Two sources on a host with a link of 100 kB/s: `big` sends 10 kB each second, `small` 1 kB each 500 ms."""
    return {
        "duration": "2 s",
        "workload": {
            "big": {"rate": "1 /s", "arrivals": "deterministic", "tuple": "10 kB"},
            "small": {"rate": "2 /s", "arrivals": "deterministic", "tuple": "1 kB"},
        },
        "operators": {
            "big": {"kind": "source"},
            "small": {"kind": "source"},
            "far": {"kind": "sink", "inputs": {"big": "shuffle"}},
            "near": {"kind": "sink", "inputs": {"small": "shuffle"}},
        },
        "hosts": {"h": {"count": 2, "network": "100 kB/s"}},
        "network": {"latency": "1 ms", **network},
        "placement": {"tasks": {"big-0": "h-0", "small-0": "h-0", "far-0": "h-1", "near-0": "h-1"}},
    }


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
def test_a_small_message_does_not_wait_for_a_big_one(plane: PlaneFactory) -> None:
    # At 1 s both send: alone the big one takes 100 ms, the small one 10 ms; together the small one takes 20 ms.
    fair = simulate(made(two_streams(sharing="fair")), plane=plane)
    assert [end // MS for _, _, end in rows_of(fair, "near")] == [511, 1021, 1511]
    assert [end // MS for _, _, end in rows_of(fair, "far")] == [1111]
    fifo = simulate(made(two_streams()), plane=plane)
    assert [end // MS for _, _, end in rows_of(fifo, "near")] == [511, 1111, 1511]
    assert [end // MS for _, _, end in rows_of(fifo, "far")] == [1101]


@given(
    seed=st.integers(0, 2**32),
    channels=st.integers(1, 6),
    grid=st.sampled_from([1, 7, 1000]),
)
def test_departures_are_those_of_a_fluid_but_for_rounding(seed: int, channels: int, grid: int) -> None:
    draw = Random(seed)
    sends = sorted(
        (draw.randint(0, 60) * grid, draw.randrange(channels), draw.randint(0, 20) * grid) for _ in range(25)
    )
    clock = Clock()
    link = FairLink(clock, 0, float(NS))  # a byte takes one ns
    left: dict[int, int] = {}

    def send(number: int) -> None:
        at, channel, size = sends[number]
        clock.at(at, 0, lambda _: link.send(at, size, (channel, 0), number, partial(left.__setitem__, number)))

    for number in range(len(sends)):
        send(number)
    clock.run()
    fluid = departures_of_a_fluid(sends)
    for number, exact in enumerate(fluid):
        # Each of at most two changes per message rounds what is left of n channels by less than 1.
        assert abs(left[number] - exact) <= 2 * len(sends) * channels
    for channel in range(channels):
        own = [left[number] for number, send in enumerate(sends) if send[1] == channel]
        assert own == sorted(own)
    # The link is never idle with work, and never ahead of it: but for rounding it ends as one server would.
    assert max(left.values()) >= max(fluid)


def departures_of_a_fluid(sends: list[tuple[int, int, int]]) -> list[Fraction]:
    """When each message (instant, channel, work) has left if n channels with work advance at 1/n, in exact numbers."""
    waiting: dict[int, list[int]] = {}
    left = [Fraction(work) for _, _, work in sends]
    gone = [Fraction(0)] * len(sends)
    now, number = Fraction(0), 0
    while number < len(sends) or waiting:
        heads = [queue[0] for queue in waiting.values()]
        step = min((left[head] * len(heads) for head in heads), default=None)
        if number < len(sends) and (step is None or now + step > sends[number][0]):
            step = sends[number][0] - now
        assert step is not None
        for head in heads:
            left[head] -= step / len(heads)
        now += step
        for channel, queue in list(waiting.items()):
            if left[queue[0]] == 0:
                gone[queue.pop(0)] = now
                if not queue:
                    del waiting[channel]
        while number < len(sends) and sends[number][0] == now:
            waiting.setdefault(sends[number][1], []).append(number)
            number += 1
    return gone


@pytest.mark.parametrize("plane", PLANES.values(), ids=PLANES)
@pytest.mark.parametrize("seed", sample(4, 8))
def test_with_one_channel_for_each_host_sharing_changes_nothing(seed: int, plane: PlaneFactory) -> None:
    draw = Random(seed)
    service = {"distribution": "exponential", "mean": "5 ms"}
    raw = {
        "seed": seed,
        "duration": "10 s",
        "workload": {"src": {"rate": "80 /s", "batch": draw.choice([1, 3])}},
        "operators": {
            "src": {"kind": "source"},
            "p": {"kind": "map", "inputs": {"src": "shuffle"}, "service": service, "selectivity": 1.5},
            "q": {"kind": "map", "inputs": {"p": "shuffle"}, "service": service, "buffer": 3},
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 4, "network": "15 kB/s"}},
        "placement": {"tasks": {"src-0": "h-0", "p-0": "h-1", "q-0": "h-2", "out-0": "h-3"}},
        "events": {"crash": {"at": "5 s", "kind": "host-failure", "host": "h-1", "repair": "1 s"}},
    }
    fair = raw | {"network": {"sharing": "fair"}}
    assert differences(simulate(made(raw), plane=plane), simulate(made(fair), plane=plane)) == []


def job(seed: int, **fixed: Any) -> dict[str, Any]:
    raw = with_fair_links(Random(seed + 2), (storm if seed % 3 == 0 else random_job)(Random(seed), **fixed))
    return with_buffers(Random(seed + 1), raw) if seed % 2 else raw


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), method=st.sampled_from(METHODS))
def test_both_planes_give_equal_rows_with_fair_links(seed: int, method: dict[str, Any]) -> None:
    assert on_both(job(seed, fault_tolerance=method)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_equal_rows_with_fair_links(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        assert on_both(job(seed, fault_tolerance=METHODS[seed % 4])) == [], seed


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 40), marks=pytest.mark.slow)], ids=["few", "more"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_guarantees_hold_with_fair_links_whatever_crashes(guarantee: str, seeds: range) -> None:
    method = {"method": "none"} if guarantee == "none" else {"guarantee": guarantee}
    done = 0
    for seed in seeds:
        raw = job(seed, fault_tolerance=method)
        raw["hosts"]["h"]["network"] = "60 kB/s"
        done += check_job(raw, guarantee)
    assert done >= len(seeds) / 2


def equal_messages_leave_in_the_order_of_sending() -> None:
    """Three channels begin at one instant with messages of 30 bytes, of which each takes 1 ns: all leave at 90 ns."""
    clock = Clock()
    link, left = FairLink(clock, 0, float(NS)), list[tuple[int, int]]()

    def send(_: Any) -> None:
        for number, ends in enumerate([(2, 0), (0, 0), (1, 0)]):
            link.send(clock.now_ns(), 30, ends, number, lambda at_ns, number=number: left.append((number, at_ns)))  # type: ignore[misc]

    clock.at(0, 0, send)
    clock.run()
    assert left == [(0, 90), (1, 90), (2, 90)]


def test_equal_messages_leave_in_the_order_of_sending() -> None:
    equal_messages_leave_in_the_order_of_sending()


def last_of_equals_first(patch: pytest.MonkeyPatch) -> None:
    """Of messages with equally much left the one that was sent last leaves first."""

    def set_departure(link: FairLink, now_ns: int) -> None:
        link._changes += 1
        if link.left_ns:
            change, left = link._changes, link.left_ns
            first = min(left, key=lambda channel: (left[channel], -link.parcels[channel][0].number))
            at_ns = now_ns + left[first] * len(left)
            link.clock.at(at_ns, LINK + link.host, lambda _: link._departs(first, change))

    patch.setattr(FairLink, "_set_departure", set_departure)


def test_no_row_depends_on_which_of_equal_messages_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equals leave at one instant, before anything else happens at it, over channels of their own.

    What arrives at one instant is taken in the order of the channels. So the rule is for whoever reads the link.
    """
    last_of_equals_first(monkeypatch)
    for seed in range(6):
        assert on_both(job(seed, fault_tolerance=METHODS[seed % 4])) == [], seed


MUTANTS = ("numbers what is sent backwards", "rounds when nothing changes", "counts no share")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_link_is_seen_by_the_comparison(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant == MUTANTS[0]:
        send = FairLink.send

        def turned(link: FairLink, now: int, size: int, ends: tuple[int, int], number: int, *rest: Any) -> None:
            send(link, now, size, ends, -number, *rest)

        monkeypatch.setattr(FairLink, "send", turned)
    elif mutant == MUTANTS[1]:
        before = FairLink.send

        def rounded(link: FairLink, now: int, *rest: Any) -> None:
            link._work_off(now)
            before(link, now, *rest)

        monkeypatch.setattr(FairLink, "send", rounded)
    else:
        monkeypatch.setattr(FairLink, "_share", lambda link, now: now - link._changed_ns)
    for seed in range(36 if mutant == MUTANTS[0] else 0, 400):  # 36 notices it
        raw = made(job(seed, fault_tolerance=METHODS[seed % 4]))
        if differences(simulate(raw, plane=PlainPlane), simulate(raw, plane=CompiledPlane)):
            return
    pytest.fail("nobody noticed")
