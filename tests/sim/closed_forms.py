"""What tests against closed forms share: how long runs are, what is seen in one, and when that agrees.

Every case runs ten independent replications with fixed seeds. The closed form must lie in Student's t interval of the
replications' means at 99.9 %, and the interval must be narrow enough to say something. A quarter of a million tuples
are created in all replications together; with the marker `slow` up to ten million, for which the interval must be
narrower by the square root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from small_jobs import NS, simulate

from models.records.tables import NEVER, RunRecords
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate
from models.steady_state.queueing import SteadyState
from sim.control.assembly import PlaneFactory
from sim.kernel.event_loop.plane import CompiledPlane
from sim.plain.plane import PlainPlane

CONFIDENCE, REPLICATIONS = 0.999, 10
EXPONENTIAL = {"distribution": "exponential", "mean": "10 ms"}
MILLION = 10**6

LENGTHS = [
    pytest.param(0.25, id="quarter-million"),
    pytest.param(1, id="million", marks=pytest.mark.slow),
    pytest.param(10, id="ten-million", marks=pytest.mark.slow),
]
"""How many million tuples."""


class Sized(NamedTuple):
    """A data plane, and how many tuples arrive at the least in all replications together."""

    make: PlaneFactory
    tuples: int = 0


PLAIN = Sized(PlainPlane)

PLANES = [
    pytest.param(PLAIN, id="plain", marks=pytest.mark.slow),
    pytest.param(Sized(CompiledPlane, MILLION // 4), id="compiled"),
    pytest.param(Sized(CompiledPlane, MILLION), id="million", marks=pytest.mark.slow),
    pytest.param(Sized(CompiledPlane, 10 * MILLION), id="long", marks=pytest.mark.slow),
]
"""The compiled plane, and the plain one as long as a case says, some 10^5 tuples: it gives equal rows elsewhere."""

Run = Callable[[Scenario, int, PlaneFactory], RunRecords]


def inside(values: Sequence[float], exact: float, width: float, what: str = "") -> None:
    """The exact mean is in the interval of the replications' `values`, which is at most that share of it to a side."""
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) / len(values) ** 0.5 * np.std(values, ddof=1)
    assert abs(np.mean(values) - exact) <= half, (what, np.mean(values), exact, half)
    assert half <= width * exact, f"{what}: +-{half} around {exact} says too little"


def seen(records: RunRecords, operator: str) -> dict[str, float]:
    """Means of an operator in the window after warm-up, by areas: waits and services are cut at its ends.

    Tuples that ended early count up to then: they waited, and those whose service had begun were served.
    """
    low, high = records.warmup_ns, records.duration_ns
    index = records.operators.index(operator)

    def rows(table: str) -> dict[str, np.ndarray]:
        columns = records.tables[table]
        return {name: column[columns["operator"] == index] for name, column in columns.items()}

    def area(begin: np.ndarray, stop: np.ndarray) -> float:
        return float(np.maximum(np.minimum(stop, high) - np.maximum(begin, low), 0).sum())

    gone = rows("dropped")
    gone = {name: column[gone["arrival_ns"] != NEVER] for name, column in gone.items()}
    cut = gone["start_ns"] != NEVER
    waits, begun, ended, waiting, busy = _sums(records, index, area)
    late = cut & (gone["arrival_ns"] >= low)
    waits += float((gone["start_ns"] - gone["arrival_ns"])[late].sum())
    waiting += area(gone["arrival_ns"], np.where(cut, gone["start_ns"], gone["at_ns"]))
    left = rows("waiting")["arrival_ns"]
    waiting += area(left, np.full(left.shape, high))
    busy += area(gone["start_ns"][cut], gone["at_ns"][cut])
    lost = int((rows("dropped")["at_ns"] >= low).sum())
    return {
        "wait_s": waits / (begun + int(late.sum())) / NS,
        "queue": waiting / (high - low),
        "utilisation": busy / (high - low) / records.servers[index],
        "lost": lost / (lost + ended),
    }


def _sums(records: RunRecords, index: int, area: Any) -> tuple[float, int, int, float, float]:
    """(waits [ns], how many, services that ended in the window, area of waiting, and of services) of the visits."""
    low, high = records.warmup_ns, records.duration_ns
    if records.detail == "histograms":
        times = records.tables["times"]
        own = times["operator"] == index
        of = {
            str(what): (int(count), float(above) * 2**32 + float(below))
            for what, count, above, below in zip(
                *(times[name][own] for name in ("what", "count", "sum_high", "sum_low")), strict=True
            )
        }
        return of["wait"][1], of["wait"][0], of["sojourn"][0], of["waiting"][1], of["busy"][1]
    visits = records.tables["visits"]
    own = visits["operator"] == index
    arrival, start, end = (visits[name][own] for name in ("arrival_ns", "start_ns", "end_ns"))
    counts = arrival >= low
    return (
        float((start - arrival)[counts].sum()),
        int(counts.sum()),
        int((end >= low).sum()),
        area(arrival, start),
        area(start, np.where(end == NEVER, high, end)),
    )


def _plainly(made: Scenario, replication: int, plane: PlaneFactory) -> RunRecords:
    return simulate(made, replication=replication, plane=plane)


def agrees(
    plane: Sized, made: Scenario, expected: Mapping[str, SteadyState], width: float = 0.2, run: Run = _plainly
) -> None:
    """The closed form of each operator lies in the interval of the replications.

    `width`: how wide that may be, as a share of the closed form, for the length that the scenario has.
    """
    rates = [source.rate for source in made.workload.values()]
    arrivals = (
        sum(rate.constant_per_s for rate in rates if isinstance(rate, ConstantRate)) * made.duration_s * REPLICATIONS
    )
    longer = max(1.0, plane.tuples / arrivals)
    made = made.model_copy(update={"duration_s": made.duration_s * longer})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in expected}
    for replication in range(REPLICATIONS):
        rows = run(made, replication, plane.make)
        for name, means in found.items():
            means.append(seen(rows, name))
    for name, state in expected.items():
        for what, exact in asdict(state).items():
            inside([one[what] for one in found[name]], exact, width / longer**0.5, f"{name}.{what}")


def window(seconds: int, **changes: Any) -> dict[str, Any]:
    """Keys of a run of so many seconds after an empty start."""
    return {"duration": f"{seconds} s", "warmup": "10 s", **changes}
