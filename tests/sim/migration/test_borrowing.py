"""Key groups move in steps while the scan has the tuples and lends some: rows are those of the event loop alone.

Oracle: the event loop, and for some seeds the plain plane. No tolerance. Loans are as short as an instant, or longer
than most steps. Rules of a loan are broken on purpose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from other_processes import holds_apart
from seeds import parts
from test_megaphone import job, rows_of
from test_planes import differences, noticed

from models.records.tables import BOTH, EVENT_LOOP, NEVER, Kernel
from models.scenario.inputs import RunInputs
from models.scenario.reading import scenario_from
from scenarios.planning.reconfiguration import optimised_steps
from sim.control.assembly import PlaneFactory
from sim.control.cluster import RunPlan
from sim.engine import simulate
from sim.kernel import choice
from sim.kernel.choice import kernel_for
from sim.kernel.event_loop.codes import NONE, SENT
from sim.kernel.event_loop.plane import CompiledPlane
from sim.kernel.hand_over.borrowing import Borrowing
from sim.kernel.hand_over.loans import FAR_NS
from sim.plain.plane import PlainPlane
from sim.plane_values import NotCovered

MS = 1_000_000
LENGTHS_NS = (1, 1000, MS, 7_777_777, 10 * MS, 50 * MS)
PLANES: list[Borrowing] = []


def lending_job(seed: int) -> dict[str, Any]:
    """A random job of `test_megaphone` that the scan can do but for its moves; it may end within a step."""
    draw, raw = Random(f"borrowing {seed}"), job(seed)
    raw.pop("recording", None)
    raw["network"].pop("sharing", None)
    network, count = raw["hosts"]["h"].get("network"), raw["hosts"]["h"]["count"]
    raw["hosts"] = {"left": {"count": 2}, "h": {"count": count}, "right": {"count": 2}}
    if network is not None:
        raw["hosts"]["h"]["network"] = network
    sides = ("left", "right", "h") if network is None else ("left", "right")
    raw["placement"] = {"operators": {"src": draw.choice(sides), "op": "h", "out": draw.choice(sides)}}
    if "map" in raw["operators"]:
        raw["placement"]["operators"]["map"] = draw.choice(sides)
    raw["workload"]["src"]["rate"] = draw.choice(["60 /s", "200 /s", "600 /s"])
    if draw.random() < 0.5:
        raw["duration"] = f"{draw.randint(202, 700)} ms"
    if draw.random() < 0.3:
        raw["recording"] = {"detail": "histograms"}
    return raw


def draining_job(seed: int) -> dict[str, Any]:
    """One whose tasks are busy, and whose queues drain between two steps."""
    draw, raw = Random(f"draining {seed}"), lending_job(seed)
    op = raw["operators"]["op"]
    service_ms = draw.choice([0.5, 1, 2])
    mean = "mean" if op["service"]["distribution"] == "exponential" else "value"
    op["service"][mean] = f"{service_ms} ms"
    raw["workload"]["src"]["rate"] = f"{draw.choice([500, 800, 900]) * op['parallelism'] / service_ms} /s"
    raw["network"]["latency"] = draw.choice(["1 ms", "5 ms", "5 ms"])
    for event in raw["events"].values():
        event.pop("next", None)
        event["gap"] = "drain"
    return raw


def lending(length_ns: int) -> PlaneFactory:
    def factory(*given: Any) -> Borrowing:
        PLANES[:] = [Borrowing(*given, length_ns=length_ns)]
        return PLANES[0]

    return factory


def differs(
    seed: int,
    seen: Counter[str] | None = None,
    reference: PlaneFactory = CompiledPlane,
    job: Callable[[int], dict[str, Any]] = lending_job,
) -> list[str]:
    """What differs from the reference, for the job of that seed and one length of loans."""
    raw = job(seed)
    if reference is PlainPlane:  # which keeps no histograms
        raw.pop("recording", None)
    both = rows_of(raw, lending(Random(f"length {seed}").choice(LENGTHS_NS)))
    if seen is not None:
        seen["loans"] += PLANES[0].loans
        seen["lines up in the scan"] += PLANES[0].line_ups
        seen["steps"] += both.tables["reconfigurations"]["step"].size
        seen["mostly in the scan"] += PLANES[0].scan_share() > 0.5
        seen["ended in a step"] += bool((both.tables["reconfigurations"]["installed_ns"] == NEVER).any())
    return differences(rows_of(raw, reference), both)


@pytest.mark.parametrize("seeds", parts(40, 120))
def test_rows_do_not_depend_on_loans(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        assert differs(seed, seen) == [], seed
    assert seen["loans"] > 5 * len(seeds)
    assert seen["steps"] > len(seeds)
    assert seen["mostly in the scan"] > len(seeds) / 2
    assert seen["ended in a step"] > 0


@pytest.mark.parametrize("seeds", parts(6, 40))
def test_rows_are_those_of_the_plain_plane(seeds: range) -> None:
    for seed in seeds:
        assert differs(seed, reference=PlainPlane) == [], seed


@pytest.mark.parametrize("seeds", parts(20, 80))
def test_rows_do_not_depend_on_who_has_the_queues_that_drain(seeds: range) -> None:
    seen = Counter[str]()
    for seed in seeds:
        reference = PlainPlane if seed % 10 == 0 else CompiledPlane
        assert differs(seed, seen, reference, draining_job) == [], seed
    assert seen["lines up in the scan"] > 2 * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_long_campaign_of_loans(part: int) -> None:
    for seed in range(120 + part * 400, 520 + part * 400):
        assert differs(seed) == [], seed
        assert differs(seed, job=draining_job) == [], seed


# -- loans that are broken on purpose


def _nothing(*_: object, **__: object) -> None:
    pass


def never_passes_on(plane: Any) -> None:
    """The scan is not told that a key group is installed: it keeps who waits for it."""
    before = plane._note_places

    def broken() -> None:
        if (plane.state.partitions["goal"] != NONE).any():
            before()

    plane._note_places = broken


def with_time(more_ns: int) -> Callable[[Any], None]:
    """A table entry is valid from another time on than control has said."""

    def breaks(plane: Any) -> None:
        before = plane._note_places

        def broken() -> None:
            before()
            scan = plane._scan.state
            some = scan.held_from < FAR_NS
            scan.held_from[some] = np.maximum(0, scan.held_from[some] + more_ns)

        plane._note_places = broken

    return breaks


def late(plane: Any) -> None:
    """The event loop takes over an instant after the first thing that it has to do."""
    before = plane._next
    plane._next = lambda: before() + 1


def forgets_the_stopped(plane: Any) -> None:
    """A task at which control does something is served by the scan all the same."""
    before = plane._take_back

    def broken(at_ns: int) -> None:
        before(at_ns)
        plane._scan.state.servers["free"][plane._lent["stopped"] == 1] = 0

    plane._take_back = broken


def forgets_what_is_aside(plane: Any) -> None:
    """What waits for a key group with the scan is forgotten when it is to be lent."""
    before = plane._lend

    def broken(at_ns: int, until_ns: int | None = None) -> None:
        plane._scan.state.queues["n"][int(plane._scan.state.options["aside"])] = 0
        before(at_ns, until_ns)

    plane._lend = broken


def counts_applied_tuples(plane: Any) -> None:
    """A frontier goes on with what the event loop had counted, although the scan has applied some of it."""
    before = plane._look_for_older

    def broken() -> None:
        counted = plane.state.frontiers["left"].copy()
        before()
        own = plane.state.frontiers["left"]
        own[:] = np.where((own == 0) & (plane.state.told["count"] == 0), np.maximum(counted, 1), own)

    plane._look_for_older = broken


def lining_up(change: Callable[[Any], None], before: Callable[[Any, int], None] = _nothing) -> Callable[[Any], None]:
    """Something else is done where messages line up in the scan."""

    def breaks(plane: Any) -> None:
        right = plane._goes_without

        def broken(at_ns: int) -> bool:
            before(plane, at_ns)
            done: bool = right(at_ns)
            if done:
                change(plane)
            return done

        plane._goes_without = broken

    return breaks


def not_counted(plane: Any) -> None:
    plane.state.messages["counts"][SENT, 0] -= 1


def in_front(plane: Any) -> None:
    """Messages that line up go in front of what waits."""
    own = plane._turns[: int(plane._counts["turns"][0])]
    own["place"] = plane._scan.state.queues["gone"][own["task"]]
    own["at"] = plane._at_ns + 1
    plane._next_ns = plane._at_ns + 1


def blind(plane: Any, at_ns: int) -> None:
    """What comes at the same instant is not seen."""
    box = plane._scan.state.box
    box["at"][box["at"] == at_ns] += 1


def without(name: str, value: Callable[..., object] = _nothing) -> Callable[[Any], None]:
    """A part of a loan is left out."""

    def breaks(plane: Any) -> None:
        setattr(plane, name, value)

    return breaks


MUTANTS: dict[str, Callable[[Any], None]] = {
    "a key group that has come is not known": never_passes_on,
    "key groups that move are not known": without("_note_places"),
    "a table is valid too early": with_time(-5 * MS),
    "a table is valid too late": with_time(5 * MS),
    "a loan comes too late": late,
    "a stopped task goes on": forgets_the_stopped,
    "what is held is forgotten": forgets_what_is_aside,
    "frontiers do not see what the scan has": without("_look_for_older"),
    "frontiers count what the scan has applied": counts_applied_tuples,
    "the first lane is not lent": without("_lend_ahead"),
    "what is aside stays in the queue": without("_put_aside"),
    "messages at their turn are not waited for": without("_turns_due", lambda: FAR_NS),
    "frontiers are not waited for": without("_frontiers_due", lambda: FAR_NS),
    "rows are written over": without("_take_rows"),
}


DRAINS = {
    "messages that line up count once": lining_up(not_counted),
    "messages line up in front": lining_up(in_front),
    "messages line up before what comes at the same instant": lining_up(_nothing, blind),
    "tasks of one host are far apart": lambda plane: plane._lent.__setitem__("near", 0),
}


@pytest.mark.parametrize("mutant", MUTANTS | DRAINS)
def test_broken_loans_are_noticed(mutant: str) -> None:
    def broken(seed: int) -> list[str]:
        raw = draining_job(seed) if mutant in DRAINS else lending_job(seed)

        def factory(*given: Any) -> Borrowing:
            plane = lending(Random(f"length {seed}").choice(LENGTHS_NS))(*given)
            (MUTANTS | DRAINS)[mutant](plane)
            return plane

        return differences(rows_of(raw, CompiledPlane), rows_of(raw, factory))

    assert holds_apart(lambda: noticed(broken, range(150)))


# -- which runs


def large(**changes: Any) -> dict[str, Any]:
    """A job that is long enough for two kernels, of which half the key groups move."""
    raw = {
        "duration": "100 s",
        "workload": {"src": {"rate": "100000 /s", "keys": {"distribution": "uniform", "count": 1000}}},
        "operators": {
            "src": {"kind": "source", "parallelism": 2},
            "op": {
                "kind": "aggregate",
                "inputs": {"src": "key"},
                "parallelism": 4,
                "key_groups": 16,
                "service": {"distribution": "deterministic", "value": "1 us"},
                "state": {"model": "fixed", "bytes": "1 kB"},
            },
            "out": {"kind": "sink", "inputs": {"op": "shuffle"}},
        },
        "hosts": {"h": {"count": 4}},
        "network": {"latency": "1 ms"},
        "fault_tolerance": {"method": "none"},
        "events": {"move": {"kind": "reconfigure", "at": "1 s", "operator": "op", "strategy": "fluid"}},
    }
    for name, change in changes.items():
        raw[name] = {**raw[name], **change} if isinstance(raw.get(name), dict) else change
    return raw


def chosen(raw: dict[str, Any]) -> str:
    return kernel_for(RunPlan.of(scenario_from(raw), RunInputs(), 0)).name


def moved_by(**event: Any) -> dict[str, Any]:
    return large(events={"move": large()["events"]["move"] | event})


def operator(**changes: Any) -> dict[str, Any]:
    return large(operators={"op": large()["operators"]["op"] | changes})


def test_long_runs_in_which_key_groups_move_in_steps_are_lent() -> None:
    assert chosen(large()) == BOTH
    assert chosen(moved_by(scope="bin", gap="drain", overlap="pipelined")) == BOTH
    assert chosen(operator(state={"model": "per-key", "bytes": "1 kB"})) == BOTH


@pytest.mark.parametrize(
    "raw",
    [
        large(duration="2 s"),
        moved_by(protocol="direct", strategy="all-at-once"),
        moved_by(protocol="stop-and-restart", strategy="all-at-once"),
        operator(postpone={"distribution": "deterministic", "value": "1 s"}),
        operator(window={"length": "1 s"}),
        operator(state={"model": "window", "bytes": "100 B", "length": "1 s"}),  # whose size the scan does not know
        large(recording={"memory": True}),
        large(hosts={"h": {"count": 4, "cores": 2, "cpu": "processor-sharing"}}),
        moved_by(protocol="pause-and-resume", strategy="all-at-once"),
        moved_by(late="1 ms"),  # senders withhold outputs
    ],
)
def test_other_runs_stay_in_the_event_loop(raw: dict[str, Any]) -> None:
    assert chosen(raw) == EVENT_LOOP


def test_the_summary_says_how_much_the_scan_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_WORTH_OF_STEPS", 0)
    scenario = scenario_from(lending_job(4))
    found = simulate(scenario, RunInputs(steps=optimised_steps(scenario, {})))
    assert found.kernel is not None and found.kernel.name == BOTH
    assert found.kernel.why.startswith("there are events: move0, and the scan lends what matters to it: ")
    assert found.kernel.why.endswith(" % of the steps in the scan")


def test_a_run_is_made_again_in_the_event_loop_where_the_scan_has_kept_what_belongs_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise NotCovered("tuples of which the scan has kept some wait in two lists")

    monkeypatch.setattr(choice, "_WORTH_OF_STEPS", 0)
    monkeypatch.setattr(Borrowing, "take", broken)
    raw = lending_job(4)
    scenario = scenario_from(raw)
    found = simulate(scenario, RunInputs(steps=optimised_steps(scenario, {})))
    assert found.kernel == Kernel(EVENT_LOOP, "tuples wait in two lists")
    assert differences(rows_of(raw, CompiledPlane), found) == []
