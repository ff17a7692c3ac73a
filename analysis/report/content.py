"""Values that pages show and no summary has: topology, loads, allocations, lines over time, decisions.

First the values as frozen dataclasses, then the functions that make them from the scenario, the summary and the records
of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.report.parts import Cost, CostRow, LoadChecks, PlacedGroup, PlacedHost, PlacementChange
from analysis.runs.elasticity import first_placement, host_utilisation, last_placement
from analysis.runs.run_summary import RunSummary
from models.records.decisions import Action, sentence
from models.records.decisions import decisions as made_decisions
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.scenario import Scenario
from models.steady_state.flow import copies, flows
from models.topology import layout


@dataclass(frozen=True)
class OperatorBox:
    """One operator of the topology picture.

    `key_groups` is None for operators whose input is not partitioned by key.
    """

    name: str
    kind: str
    parallelism: int
    key_groups: int | None = None


@dataclass(frozen=True)
class Edge:
    """A stream between two operators; `rate_per_s` is the expected one."""

    source: str
    target: str
    partitioning: str
    rate_per_s: float | None = None


@dataclass(frozen=True)
class Topology:
    """The dataflow, and which tasks start on which host.

    `placement` maps a host to the names of its tasks.
    """

    operators: tuple[OperatorBox, ...]
    edges: tuple[Edge, ...]
    placement: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyGroupLoad:
    """Load of one stream: `counts` (n_groups, n_bins) tuples; bin k begins at k `bin_s`, counted from
    `start`.
    """

    stream: str
    counts: np.ndarray
    bin_s: float
    start: str = ""


@dataclass(frozen=True)
class Correlation:
    """Correlation of load series: `values` (n, n) in [-1, 1]; `blocks` are names and sizes in order of
    rows.
    """

    values: np.ndarray
    blocks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AllocationRow:
    """The result of one method of checkpoint allocation; shares are in [0, 1].

    `max_node_load` is in cores. `recovery_s` and `latency_p99_s` are those of a run with its plan.
    """

    method: str
    status: str
    objective: float | None
    bound: float | None
    gap: float | None
    usable: float | None = None
    assisted: float | None = None
    max_node_load: float | None = None
    recovery_s: float | None = None
    latency_p99_s: float | None = None
    used: bool = False


@dataclass(frozen=True)
class Reason:
    """A choice, what was chosen, and why not something else.

    All three are shown as they are. In `why`, "; " separates alternatives, each of which gets a line of its own.
    """

    what: str
    chosen: str
    why: str


@dataclass(frozen=True)
class Latency:
    """Latency per interval [s] by time of delivery [s] in one replication; NaN where nothing was.

    The arrays are (n,), one value for each interval; an interval begins at its `at_s` and lasts `interval_s`.
    """

    at_s: np.ndarray
    p50_s: np.ndarray
    p99_s: np.ndarray
    max_s: np.ndarray
    interval_s: float = 1.0
    replication: int = 0


@dataclass(frozen=True)
class Lines:
    """One line for each name: `values` (n_names, n) over `at_s` (n,), in one replication.

    `at_s` rises. NaN in `values` are gaps. It is what a page draws of a `Series`: seconds in place of nanoseconds, and
    few enough points for a page.
    """

    at_s: np.ndarray
    names: tuple[str, ...]
    values: np.ndarray
    replication: int = 0


@dataclass(frozen=True)
class AroundRebalances:
    """The time around the rebalances of one replication: the lines input and output [tuples/s], and latency.

    `expected_per_s` is the output in steady state. `replayed`: instants [s] and numbers of tuples that were emitted
    again at each, both (n,).
    """

    flow: Lines
    expected_per_s: float
    latency: Latency
    replayed: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Decision:
    """A decision of control with its time [s] and reason; `about` is the kind of thing that it is about.

    `action` is one of `models.records.decisions.Action`; `what` is the sentence that was made of the row.
    """

    at_s: float
    what: str
    why: str
    replication: int = 0
    about: str = ""
    action: str = ""


_NS, _HOUR = 1e9, 3600.0
_MOST_CHECKS = 240
_PART = 0.1  # of all checks: the first and the last of them say how busy hosts were before and after
_ABOUT: dict[str, str] = {
    Action.RESTORE: "recovery",
    Action.RESTART: "recovery",
    Action.LOSE_STATE: "recovery",
    Action.FAIL: "recovery",
    Action.FENCE: "recovery",
    Action.STOP: "hosts",
    Action.MOVE: "moves",
    Action.USE_DIRECT: "moves",
    Action.REBALANCE: "moves",
    Action.POSTPONE: "moves",
    Action.RESCALE: "parallelism",
    Action.RECONFIGURE: "moves",
    Action.STORE: "checkpoint hosts",
    Action.REALLOCATE: "checkpoint hosts",
    Action.COMPARE: "checkpoint hosts",
    Action.ADD_REPLICA: "replicas",
    Action.LOSE_REPLICA: "replicas",
    Action.TAKE_OVER: "replicas",
    Action.FINISH_EARLY: "replicas",
    Action.ACQUIRE: "hosts",
    Action.DRAIN: "hosts",
    Action.RELEASE: "hosts",
    Action.BALANCE: "hosts",
}


def decisions(records: Sequence[RunRecords]) -> tuple[Decision, ...]:
    """Return what was decided and why; who is to hold a checkpoint comes last, because there is most of it."""
    found = [
        Decision(at_ns / 1e9, sentence(made), made.reason, one.replication, _ABOUT[made.action], made.action)
        for one in records
        for at_ns, made in made_decisions(one.tables["decisions"])
    ]
    # The sort is stable: within both parts decisions stay in the order of time.
    return tuple(sorted(found, key=lambda one: one.action == Action.STORE))


def load_checks(one: RunRecords) -> LoadChecks | None:
    """Return what the adaptation manager found, at most 240 points; None where it never checked.

    The counts of neighbouring checks are added up, so the areas keep their meaning and no move is lost.
    """
    table = one.tables["adaptations"]
    if not len(table["at_ns"]):
        return None
    together = -(-len(table["at_ns"]) // _MOST_CHECKS)
    # Sums of neighbouring checks, not samples of them: no move is lost from the figure.
    begins = np.arange(0, len(table["at_ns"]), together)
    columns = ("groups", "usable", "assisted", "direct", "drained")
    risk, usable, assisted, direct, drained = (np.add.reduceat(table[name], begins) for name in columns)
    at_s = table["at_ns"][begins] / _NS
    return LoadChecks(at_s, risk, usable, assisted, direct, drained, together, one.replication)


def placement_change(scenario: Scenario, one: RunRecords) -> PlacementChange | None:
    """Return key groups by host before and after, and how busy hosts were; None where nothing moved.

    Loads are means over the first and the last tenth of the checks, as shares of each host's CPU.
    """
    before, after = first_placement(scenario), last_placement(scenario, one)
    changed = {who for who, host in before.items() if after[who] != host}
    if not changed:
        return None
    names = tuple(layout.hosts(scenario))
    rows: dict[str, tuple[list[PlacedGroup], list[PlacedGroup]]] = {name: ([], []) for name in names}
    for (operator, group), host in before.items():
        # Both sides name the other one: the page draws where a group went to, and where it came from.
        there = after[operator, group]
        rows[host][0].append(PlacedGroup(operator, group, there if there != host else ""))
        rows[there][1].append(PlacedGroup(operator, group, host if there != host else ""))
    loads, span_s = _loads(scenario, one)
    hosts = tuple(
        PlacedHost(name, tuple(left), tuple(right), *loads.get(name, (None, None)))
        for name, (left, right) in rows.items()
    )
    return PlacementChange(
        hosts, tuple(dict.fromkeys(operator for operator, _ in before)), len(changed), span_s, one.replication
    )


def _loads(scenario: Scenario, one: RunRecords) -> tuple[dict[str, tuple[float, float]], float | None]:
    """Return host -> CPU in use, means of the first and of the last checks, and what time these checks cover [s]."""
    series = host_utilisation(scenario, one)
    if not series.at_ns.size:
        return {}, None
    # A tenth of the checks at each end: a single check would show noise.
    count = max(1, round(_PART * series.at_ns.size))
    found = dict.fromkeys(layout.hosts(scenario), (0.0, 0.0))
    for name, values in zip(series.names, series.values, strict=True):
        found[name] = (float(values[:count].mean()), float(values[-count:].mean()))
    return found, float(series.at_ns[count - 1]) / _NS


def cost(scenario: Scenario, summary: RunSummary, replications: int) -> Cost | None:
    """Return what the hosts cost, those of one description together; None where none has a price.

    Prices are per hour in the result, and per second in the scenario. Hosts without a price cost nothing beside those
    that have one.
    """
    total = summary.hosts.cost_usd
    if total is None:
        return None
    used = summary.hosts.seconds
    rows = []
    for name, group in scenario.hosts.items():
        seconds = sum(used[layout.host_name(name, k)] for k in range(group.count))
        price = group.price_per_s
        rows.append(
            CostRow(
                name,
                group.count,
                seconds,
                None if price is None else price * _HOUR,
                None if price is None else price * seconds,
            )
        )
    per_s = total / summary.duration_s
    window_s = summary.duration_s - summary.warmup_s
    # Latency is of all replications together, the cost of one run.
    tuples = summary.latency_s.count / replications
    return Cost(tuple(rows), total, per_s * _HOUR, 1e6 * per_s * window_s / tuples if tuples else None)


def hosts_used(one: RunRecords) -> Lines | None:
    """Return how many hosts are in use from each instant to the next; None where that never changes.

    Each stretch has both of its ends as points, so that a line through them has steps.
    """
    table = one.tables["hosts_in_use"]
    begins, ends = (table[name].astype(np.int64) for name in ("from_ns", "until_ns"))
    changes = np.unique(np.concatenate((begins, ends)))
    changes = changes[(changes > 0) & (changes < one.duration_ns)]
    if not changes.size:
        return None
    at = np.concatenate(([0], changes))
    # From the rows, not by adding up changes: several hosts may come and go at one instant.
    count = [int(((begins <= when) & (when < ends)).sum()) for when in at.tolist()]
    # Both ends of each stretch, so that the line has steps.
    edges = np.stack([at, np.append(changes, one.duration_ns)], axis=1).ravel()
    return Lines(edges / _NS, ("hosts",), np.repeat(np.array(count, float), 2)[None, :], one.replication)


def topology(scenario: Scenario, inputs: RunInputs) -> Topology:
    """Return the dataflow with expected rates, and the tasks of each host at the start.

    Rates are those of `models.steady_state.flow`, which hold as long as nothing is overloaded.
    """
    rates = flows(scenario, inputs)
    boxes = tuple(
        OperatorBox(name, operator.kind, operator.parallelism, operator.groups if operator.keyed else None)
        for name, operator in scenario.operators.items()
    )
    edges = tuple(
        Edge(
            upstream,
            name,
            partitioning,
            rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs),
        )
        for name, operator in scenario.operators.items()
        for upstream, partitioning in operator.inputs.items()
    )
    placed: dict[str, tuple[str, ...]] = dict.fromkeys(layout.hosts(scenario), ())
    for task, host in layout.placement(scenario).items():
        placed[host] += (task,)
    return Topology(boxes, edges, placed)
