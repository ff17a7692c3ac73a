"""Checkpoints on the links of hosts: how they share a link with records, and whether they keep up with the interval.

Loads are means over the run, and tasks are where they start. `fifo` and `fair` are the disciplines of a link: messages
one after the other, or all at once with equal shares (processor sharing).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.scenario.inputs import RunInputs
from models.scenario.job import FixedState, PerKeyState
from models.scenario.scenario import Scenario
from models.steady_state.flow import copies
from models.steady_state.load import Load, layout_of_groups
from models.topology import layout
from models.units import to_ns

_LONGEST_S = 1e9  # interval that is tried


@dataclass(frozen=True)
class LinkSharing:
    """How the links of a run are shared, and why: as the scenario says, or by the rule of `link_sharing`.

    `why` ends a sentence for people; `str()` gives both.
    """

    sharing: Literal["fifo", "fair"]
    why: str

    def __str__(self) -> str:
        return f"{self.sharing} ({self.why})"


def link_sharing(scenario: Scenario) -> LinkSharing:
    """Return how hosts share their bandwidth: `network.sharing`, or by rule where a valid scenario does not say.

    The rule is `fair` if a host with a bandwidth sends both records and checkpoints, else `fifo`. It depends on the
    scenario alone, not on its duration and not on what executes it.
    """
    if scenario.network.sharing is not None:
        return LinkSharing(scenario.network.sharing, "network.sharing says so")
    senders = _senders_of_both(scenario)
    bounded = (host for host, group in layout.hosts(scenario).items() if group.network_bytes_per_s is not None)
    host = next((host for host in bounded if host in senders), None)
    if host is None:
        return LinkSharing("fifo", "no host with a bandwidth sends both records and checkpoints")
    return LinkSharing("fair", f"{host} has a bandwidth and sends both records and checkpoints")


def _senders_of_both(scenario: Scenario) -> set[str]:
    """Return the hosts that send records and checkpoints to others, or may do so after a recovery or a move."""
    tolerance, hosts = scenario.fault_tolerance, layout.hosts(scenario)
    alone = len(hosts) == 1
    if not tolerance.takes_checkpoints or (alone and tolerance.store != "remote"):
        return set()
    saved = [name for name, operator in scenario.operators.items() if tolerance.saves(operator)]
    if scenario.keeps_ids:
        return set(hosts) if saved and not alone else set()
    placed = layout.placement(scenario)
    parallelism = {name: operator.parallelism for name, operator in scenario.operators.items()}
    savers = {placed[layout.task_name(name, index)] for name in saved for index in range(parallelism[name])}
    return savers & _senders_of_records(scenario)


def _senders_of_records(scenario: Scenario) -> set[str]:
    """Return the hosts from which records go to other hosts, as tasks are placed at the start."""
    placed, found = layout.placement(scenario), set()
    for name, operator in scenario.operators.items():
        readers = [placed[layout.task_name(name, index)] for index in range(operator.parallelism)]
        for upstream, partitioning in operator.inputs.items():
            for index in range(scenario.operators[upstream].parallelism):
                sender = placed[layout.task_name(upstream, index)]
                reached = [readers[index % len(readers)]] if partitioning == "forward" else readers
                if any(host != sender for host in reached):
                    found.add(sender)
    return found


def due_offsets_ns(scenario: Scenario, partitions: int) -> list[int]:
    """Return how long after each multiple of the interval the checkpoint of each of so many partitions is due [ns].

    Staggered checkpoints are spread evenly over the interval, so that they do not share links all at once; others are
    due together.
    """
    interval_ns = due_every_ns(scenario)
    return [k * interval_ns // partitions if scenario.fault_tolerance.staggered else 0 for k in range(partitions)]


def flush_ns(scenario: Scenario) -> int:
    """Return how long before tasks commit to changelogs sinks confirm what they have [ns]: a hundredth of the interval.

    So a commit covers outputs that have been delivered, and does not hold them: producers are flushed before it. At
    least a confirmation has to arrive until then.
    """
    interval_ns = due_every_ns(scenario)
    return min(max(interval_ns // 100, 2 * to_ns(scenario.network.latency_s) + 1), interval_ns // 2)


def due_every_ns(scenario: Scenario) -> int:
    """Return the time between two checkpoints of a partition [ns]."""
    return max(1, to_ns(scenario.fault_tolerance.interval_s))


@dataclass(frozen=True)
class Bottleneck:
    """A host, task or store that cannot carry the checkpoints of an interval, by mean rates and the last state."""

    where: str  # a host, a task, or the remote store
    does: Literal["sends", "writes", "stores"]
    bytes_: float  # of checkpoints in an interval
    bytes_per_s: float  # that it can carry
    taken_share: float  # of that, by records on a link or services of a task
    needs_s: float  # time for the checkpoints of one interval; infinite where nothing is left for them
    shortest_s: float | None  # the shortest interval that it keeps up with; None if it keeps up with none


def bottlenecks(
    scenario: Scenario, load: Load, inputs: RunInputs | None = None, within_s: float | None = None
) -> list[Bottleneck]:
    """Return what falls behind with checkpoints at `fault_tolerance.interval`, the worst of each kind first.

    With `within_s` what needs longer than that for the checkpoints of an interval.

    A checkpoint is state, or the part of it that changed since the one before, and the outputs of an interval that are
    kept until their receivers are saved. Expected values, not bounds; of a valid scenario, as tasks are placed at the
    start.

    `load`: that of `expected_load` for the same scenario and inputs. A carrier keeps up if it carries the checkpoints
    of an interval within one, in the capacity that records and services leave. Without checkpoints the list is empty.
    """
    tolerance = scenario.fault_tolerance
    if not tolerance.takes_checkpoints:
        return []
    found, within_s = [], tolerance.interval_s if within_s is None else within_s
    for where, does, uploads, rate, taken in _carriers(scenario, load, inputs):
        left = rate * (1 - taken)
        size = sum(one.size(tolerance.interval_s) for one in uploads)
        if size > left * within_s:
            shortest = _shortest_s(uploads, left, tolerance.interval_s)
            needs = size / left if left > 0 else math.inf
            found.append(Bottleneck(where, does, size, rate, taken, needs, shortest))
    return sorted(found, key=lambda one: -one.needs_s)


@dataclass(frozen=True)
class _Upload:
    """The checkpoints of one task, as a function of the interval."""

    most: float  # [B] state that can be in one
    per_s: float  # [B/s] at which state grows or changes
    kept_per_s: float  # [B/s] of outputs that are kept
    spread: bool  # changes fall on keys at random, so that some fall on the same one

    def size(self, interval_s: float) -> float:
        """Return the bytes of one interval.

        Of S bytes of keys, updates of u bytes at random keys change S (1 - exp(-u / S)) on average: some hit a key
        again.
        """
        changed = self.per_s * interval_s
        if self.most <= 0 or math.isinf(self.per_s):
            state = self.most
        elif self.spread:
            state = -self.most * math.expm1(-changed / self.most)
        else:
            state = min(self.most, changed)
        return state + self.kept_per_s * interval_s


def _shortest_s(uploads: Sequence[_Upload], left: float, interval_s: float) -> float | None:
    """Return the shortest interval whose checkpoints need no longer than it, by bisection; None if there is none.

    Bytes in a second never rise with the interval.
    """

    def keeps_up(at_s: float) -> bool:
        return sum(one.size(at_s) for one in uploads) <= left * at_s

    low, high = interval_s, 2 * interval_s
    while not keeps_up(high):
        low, high = high, 2 * high
        if high > _LONGEST_S:
            return None
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if keeps_up(middle) else (middle, high)
    return high


def _carriers(
    scenario: Scenario, load: Load, inputs: RunInputs | None
) -> Iterator[tuple[str, Literal["sends", "writes", "stores"], list[_Upload], float, float]]:
    """Yield what carries checkpoints: name, what it does, which, its rate [B/s], and the share that others take."""
    placed, hosts, by_host = layout.placement(scenario), layout.hosts(scenario), defaultdict(list)
    for name, operator in scenario.operators.items():
        if not scenario.fault_tolerance.saves(operator):
            continue
        for index, upload in enumerate(_uploads(scenario, load, name, inputs)):
            task = layout.task_name(name, index)
            by_host[placed[task]].append(upload)
            if operator.serialise_bytes_per_s is None:
                continue
            if scenario.fault_tolerance.snapshots.mode == "asynchronous":
                # Beside the task each key group is written on its own, and tuples take nothing of that.
                groups = layout_of_groups(operator).tolist().count(index)
                yield task, "writes", [upload], operator.serialise_bytes_per_s * groups, 0.0
            else:
                rate = operator.serialise_bytes_per_s * operator.threads
                yield task, "writes", [upload], rate, min(1.0, float(load.operators[name].utilisation[index]))
    remote = scenario.fault_tolerance.store == "remote"
    for host, uploads in by_host.items():
        bandwidth = hosts[host].network_bytes_per_s
        if bandwidth is not None and (remote or len(hosts) > 1):
            yield host, "sends", uploads, bandwidth, min(1.0, load.hosts[host].sent_bytes_per_s / bandwidth)
    if remote:
        every = [upload for uploads in by_host.values() for upload in uploads]
        yield "the remote store", "stores", every, scenario.fault_tolerance.remote_bytes_per_s, 0.0


def _uploads(scenario: Scenario, load: Load, name: str, inputs: RunInputs | None) -> list[_Upload]:
    """Return the checkpoints of each task of an operator."""
    operator, own, tolerance = scenario.operators[name], load.operators[name], scenario.fault_tolerance
    sent = sum(copies(scenario, name, reader, inputs) for reader in layout.dataflow(scenario)[name])
    sent *= own.flow.rate_out.mean_per_s * layout.output_bytes(scenario)[name]
    trimming = tolerance.acked_slices
    with_outputs = tolerance.guarantee != "at-most-once" and (trimming is None or trimming.reading == "safe")
    with_outputs = with_outputs and not tolerance.completes_checkpoints  # whose snapshots hold none
    kept = sent * own.task_shares if with_outputs else 0 * own.task_shares
    state, shares = operator.state, own.task_shares
    if isinstance(state, (FixedState, PerKeyState)):  # by key groups, however the load is spread
        tasks = layout_of_groups(operator)
        shares = np.bincount(tasks, minlength=operator.parallelism) / operator.groups
    each = None if state is None else state.tuple_bytes
    if each is None or tolerance.kind == "full":
        changes = np.full(operator.parallelism, math.inf)  # all of it in each checkpoint
    else:
        changes = own.flow.rate_in.mean_per_s * own.task_shares * each
        if operator.postpone is not None:  # those that have left by then are none: an upper bound
            made = own.flow.rate_out.mean_per_s * layout.output_bytes(scenario)[name]
            changes = changes + made * own.task_shares
    columns = zip((own.state_bytes * shares).tolist(), changes.tolist(), kept.tolist(), strict=True)
    return [_Upload(*column, spread=isinstance(state, PerKeyState)) for column in columns]
