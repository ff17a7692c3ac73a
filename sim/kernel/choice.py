"""Which kernel a run gets: the scan where every task is a server of its own, the event loop for all else.

Both have a run in turns if only failures of hosts are against the scan (`takes_turns`).

The first need that the scan does not meet (`sim.kernel.needs`) is why a run gets the event loop; a run without any gets
the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from models.records.tables import BOTH, EVENT_LOOP, SCAN, Kernel
from models.scenario.events import HostFailure, Rebalance, Reconfigure
from models.steady_state.estimate import detail_and_steps
from models.units import to_ns
from sim.clock import Clock
from sim.control.assembly import PlaneFactory
from sim.control.cluster import Cluster, RunPlan
from sim.data_plane import DataPlane, Listener, Plane
from sim.kernel.hand_over.spells import failures, spells
from sim.kernel.needs import needs_of, passes_watermarks

_FUNCTIONS = {
    "scan": 95,
    "saving scan": 120,
    "timed scan": 125,
    "plain": 190,
    "extended": 400,
    "both": 500,
    "lending": 520,
}  # that are compiled until a run is under way, about
WORTH = 2e7  # steps that two kernels are worth their compilation
_WORTH_OF_STEPS = WORTH / 4  # the same where key groups move in steps, which costs the event loop most
_LARGER = 1.5  # the exponent of what is compiled, for the time that it takes


def plane_of(kernel: Kernel, factor: float = 1.0) -> PlaneFactory:
    """Return the factory of a kernel's data plane.

    Where both have the run in turns, `factor` makes the time longer for which the event loop has it before a failure.
    """
    if kernel.name == BOTH:
        return _both(factor)
    if kernel.name == SCAN:
        from sim.kernel.scan.plane import ScanPlane  # noqa: PLC0415 - only one of the two is loaded

        return ScanPlane
    from sim.kernel.event_loop.plane import CompiledPlane  # noqa: PLC0415

    full: Callable[[RunPlan, Cluster, Clock, Listener], DataPlane] = CompiledPlane
    return full


def _both(factor: float) -> PlaneFactory:
    from sim.kernel.hand_over.barriers import in_turns  # noqa: PLC0415
    from sim.kernel.hand_over.borrowing import Borrowing, length_of  # noqa: PLC0415

    in_spells = in_turns(factor)

    def made(plan: RunPlan, cluster: Cluster, clock: Clock, listener: Listener) -> Plane:
        if lends(plan):
            return Borrowing(plan, cluster, clock, listener, length_of(plan))
        return in_spells(plan, cluster, clock, listener)

    return made


@contextmanager
def compilation(plan: RunPlan, told: Callable[[float], None]) -> Iterator[None]:
    """While code is compiled `told` gets the share of the time that it will take; nothing if all was kept."""
    from sim.kernel.tools.cache import watched  # noqa: PLC0415 - Numba is loaded when a run begins

    expected, done = _FUNCTIONS[code_for(plan)], 0

    def one_more() -> None:
        nonlocal done
        done += 1
        told(time_share(done, expected))

    with watched(one_more):
        yield


def code_for(plan: RunPlan) -> str:
    """Return the name of the code that a run needs most of: each kernel is compiled in several forms."""
    return code_of(kernel_for(plan), plan)


def code_of(kernel: Kernel, plan: RunPlan) -> str:
    """Return the same of a run whose kernel has been chosen."""
    from sim.kernel.event_loop.setup import needs_more  # noqa: PLC0415

    if kernel.name == BOTH:
        return "lending" if lends(plan) else "both"
    if kernel.name == SCAN:
        if plan.scenario.fault_tolerance.takes_checkpoints:
            return "saving scan"
        return "timed scan" if passes_watermarks(plan) else "scan"
    return "extended" if needs_more(plan) else "plain"


def time_share(done: int, expected: int) -> float:
    """Return the share of the time that compiling so many of the functions takes: the later ones are larger.

    As measured of the scan: half of its 112 functions take a third of the time.
    """
    return min(1.0, (done / expected) ** _LARGER)


def kernel_for(plan: RunPlan) -> Kernel:
    """Return the name of the kernel, and the first reason for it."""
    need = next(needs_of(plan), None)
    if need is None:
        return Kernel(SCAN, "every task and every link is a first-in-first-out server of its own")
    if need.at_times and lends(plan):
        return Kernel(BOTH, f"{need.why}, and the scan lends what matters to it")
    if need.at_times and takes_turns(plan):
        barriers = plan.scenario.fault_tolerance.job_checkpoints is not None
        when = "and the scan has the run in between" if barriers else "at instants that are known before"
        return Kernel(BOTH, f"{need.why}, {when}")
    return Kernel(EVENT_LOOP, need.why)


def takes_turns(plan: RunPlan) -> bool:
    """Return whether the scan has the run but for spells around failures and rebalances.

    The scan could do the run if nothing happened. What the event loop needs to know then follows from checkpoints that
    it has seen; without checkpoints no host may fail. A run of less than `WORTH` steps is over before the code of both
    kernels is compiled.
    """
    scenario, tolerance = plan.scenario, plan.scenario.fault_tolerance
    if tolerance.method == "none" and scenario.may_fail:
        return False
    # The ledger of a part does not know what was there twice before it.
    if tolerance.method != "none" and tolerance.guarantee != "exactly-once":
        return False
    aligned = tolerance.job_checkpoints is not None and not tolerance.unaligned
    if not aligned and not (plan.keeps_ids and (tolerance.method in ("checkpoint", "none") or tolerance.unaligned)):
        return False
    if tolerance.job_checkpoints is not None and not _has_quiet_times(plan):
        return False
    if scenario.has_replicas or scenario.failures is not None or scenario.waves.interval_s is not None:
        return False
    if scenario.detector.errs or not all(isinstance(one, (HostFailure, Rebalance)) for one in scenario.events.values()):
        return False
    if not all(need.at_times for need in needs_of(plan)):
        return False
    if any(group.cpu == "processor-sharing" for group in plan.host_groups):
        return False
    if detail_and_steps(scenario, plan.inputs)[1] < WORTH * scenario.replications:
        return False
    found = spells(plan)
    return 2 * sum(spell.end - spell.begin for spell in found) < to_ns(scenario.duration_s)


def lends(plan: RunPlan) -> bool:
    """Return whether the scan has the run and lends tuples to the event loop where control acts: `Borrowing`.

    All events move key groups in steps by Megaphone, which uses few verbs unless configurations are late: then
    senders withhold outputs. The run is long enough for two kernels.
    """
    events = plan.scenario.events.values()
    steps = all(isinstance(one, Reconfigure) and one.protocol == "megaphone" and not one.late_s for one in events)
    if not events or not steps or plan.keeps_ids or plan.scenario.waves.interval_s is not None:
        return False
    if plan.scenario.fault_tolerance.takes_checkpoints:
        return False
    if not all(need.at_times for need in needs_of(plan)):
        return False
    described = [operator.description for operator in plan.operators]
    if any(one.threads > 1 and one.service is not None for one in described):
        return False
    return detail_and_steps(plan.scenario, plan.inputs)[1] >= _WORTH_OF_STEPS * plan.scenario.replications


def _has_quiet_times(plan: RunPlan) -> bool:
    """Return whether a job whose checkpoints barriers take runs undisturbed for most of the time.

    A failure concerns what has come since the last checkpoint, and as much while states are read. Without a latency a
    barrier may act at the instant at which it is sent.
    """
    scenario = plan.scenario
    others = scenario.recovery.adapts or scenario.elasticity.policy != "none"
    others = others or scenario.fault_tolerance.local_recovery is not None
    if others or not plan.latency_ns or not all(isinstance(one, HostFailure) for one in scenario.events.values()):
        return False
    each_s = 2 * scenario.fault_tolerance.interval_s + scenario.detector.timeout_s
    return 2 * len(failures(plan)) * each_s < scenario.duration_s


def check_plane(plan: RunPlan, plane: Plane) -> None:
    """Raises ValueError if the run needs managers, and with them verbs that the plane does not have.

    Whether it processes tuples as the run asks is not checked here: tests look at the scan where it is not chosen.
    """
    if isinstance(plane, DataPlane):
        return
    for need in needs_of(plan):
        if need.interfaces != (Plane,):
            names = " and ".join(interface.__name__ for interface in need.interfaces)
            raise ValueError(f"{need.why}: the run needs a data plane with {names}, not {type(plane).__name__}")
