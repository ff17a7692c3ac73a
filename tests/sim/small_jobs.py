"""Small jobs for the tests of the simulator: scenarios by hand and at random, and what must hold after a run."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from models.records.decisions import Action
from models.records.tables import RunRecords
from models.scenario.inputs import RunInputs
from models.scenario.rules import faults
from models.scenario.rules.support import not_simulated
from models.scenario.scenario import Scenario
from sim import engine
from sim.control.assembly import Control, PlaneFactory
from sim.draws import source_id
from sim.plain.audit import accounts
from sim.plain.partition import Partition, Visit
from sim.plain.plane import PlainPlane

NS = 10**9
_plane: PlaneFactory = PlainPlane  # what `simulate` runs on where a test does not say


@contextmanager
def running_on(plane: PlaneFactory) -> Iterator[None]:
    """Inside, `simulate` runs on this data plane."""
    global _plane  # noqa: PLW0603 - the one place where tests of behaviour are told what they are about
    before, _plane = _plane, plane
    try:
        yield
    finally:
        _plane = before


def simulate(
    made: Scenario,
    inputs: RunInputs | None = None,
    replication: int = 0,
    on_progress: Callable[[float], None] | None = None,
    plane: PlaneFactory | None = None,
) -> RunRecords:
    """The rows of one replication on the data plane that is being tested."""
    return engine.simulate(made, inputs, replication, on_progress, plane or _plane)


def build(made: Scenario, inputs: RunInputs | None = None, replication: int = 0) -> Control:
    """A run on the plain data plane, for tests that look inside."""
    return engine.build(made, inputs, replication, PlainPlane)


def plain_plane_of(control: Control) -> PlainPlane:
    """The plain data plane of a run."""
    assert isinstance(control.plane, PlainPlane)
    return control.plane


def built(made: Scenario, inputs: RunInputs | None = None, until_ns: int = 0) -> PlainPlane:
    """The plain data plane of a scenario that has run up to an instant."""
    control = build(made, inputs)
    control.run(until_ns)
    return plain_plane_of(control)


def scenario(raw: dict[str, Any]) -> Scenario:
    """A scenario from the keys and units of a file; the rules of the schema hold for it."""
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    found = [*faults(made), *not_simulated(made)]
    assert not found, found
    return made


def queue(service: dict[str, Any], **changes: Any) -> Scenario:
    """Source -> one queue -> sink on one host; `changes` replace top-level keys, those of `q` its own."""
    operator = {"kind": "map", "inputs": {"src": "shuffle"}, "service": service, **changes.pop("q", {})}
    raw: dict[str, Any] = {
        "duration": "100 s",
        "workload": {"src": {"rate": "70 /s"}},
        "operators": {
            "src": {"kind": "source"},
            "q": operator,
            "out": {"kind": "sink", "inputs": {"q": "shuffle"}},
        },
        "hosts": {"h": {"count": 1}},
    }
    return scenario(raw | changes)


def random_job(draw: Random, **fixed: Any) -> dict[str, Any]:
    """Keys of a small scenario: layers of operators over 1 to 4 hosts, crashes at ugly instants, no warm-up.

    Sources fall silent at the end of the duration; run on beyond it to let everything drain.
    """
    hosts = draw.randint(1, 4)
    parallelism = draw.randint(1, 2)
    operators = _operators(draw, parallelism)
    raw: dict[str, Any] = {
        "seed": draw.randint(0, 999),
        "duration": f"{draw.choice([1, 3, 6])} s",
        "workload": {
            "src": {
                "rate": f"{draw.choice([5, 20, 40])} /s",
                "arrivals": draw.choice(["poisson", "deterministic"]),
                "keys": {"distribution": "uniform", "count": draw.choice([1, 4, 30])},
                "batch": draw.choice([1, 1, 3]),
            }
        },
        "operators": {"src": {"kind": "source", "parallelism": parallelism}, **operators},
        "hosts": {"h": {"count": hosts, "cpu": draw.choice(["shared", "dedicated"]), "cores": draw.randint(1, 2)}},
        "network": {"latency": draw.choice(["0 s", "1 ms", "50 ms", "400 ms"]), "sharing": "fifo"},
        "fault_tolerance": {
            "method": "checkpoint",
            "interval": draw.choice(["100 ms", "300 ms", "1 s", "20 s"]),
            "kind": draw.choice(["full", "incremental"]),
            "store": draw.choice(["nodes", "nodes", "remote"]),
            "staggered": draw.random() < 0.5,
            "remote": draw.choice(["100 MB/s", "20 kB/s"]),
            **fixed.pop("fault_tolerance", {}),
        },
        "detector": {"heartbeat": "200 ms", "timeout": draw.choice(["300 ms", "1 s"])},
        "events": _crashes(draw, hosts),
    }
    if draw.random() < 0.6:
        raw["hosts"]["h"]["network"] = draw.choice(["1 MB/s", "60 kB/s"])
    if raw["fault_tolerance"]["method"] == "none":
        raw["fault_tolerance"] = {"method": "none"}
    return raw | fixed


def with_buffers(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same keys with small queues: services are long enough to fill them now and then, and with luck instants meet.

    Some of these jobs have more to do than they can, so that their sources wait most of the time.
    """
    operators = {
        name: operator | {"buffer": draw.choice([1, 1, 2, 3, 10])}
        if operator["kind"] != "source" and draw.random() < 0.75
        else operator
        for name, operator in raw["operators"].items()
    }
    if draw.random() < 0.4:
        for operator in operators.values():
            if operator["kind"] not in ("source", "sink"):
                operator["service"] = {"distribution": "deterministic", "value": draw.choice(["10 ms", "50 ms"])}
    if draw.random() < 0.4:
        operators["out"] = operators["out"] | {"service": {"distribution": "deterministic", "value": "20 ms"}}
    made = raw | {"operators": operators}
    if draw.random() < 0.2:  # a failure is detected at once
        made["detector"] = {"heartbeat": "200 ms", "timeout": "1 ms"}
    return made


def with_fair_links(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same keys with links that are shared evenly, and mostly slow enough for that to matter."""
    hosts = raw["hosts"]["h"] | {"network": draw.choice(["1 MB/s", "60 kB/s", "20 kB/s", "3 kB/s"])}
    return raw | {"network": raw["network"] | {"sharing": "fair"}, "hosts": {"h": hosts}}


def _operators(draw: Random, sources: int) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    unread = ["src"]
    names = ["src"]
    for layer in range(draw.randint(1, 4)):
        name = f"op{layer}"
        upstream = [unread[0]] if len(unread) > 1 else [draw.choice(names[-2:])]
        if len(names) > 1 and draw.random() < 0.3:
            upstream = list(dict.fromkeys([*upstream, draw.choice(names)]))
        made[name] = _operator(draw, upstream)
        if not {"key"} & set(made[name]["inputs"].values()) and len(upstream) == 1 and draw.random() < 0.3:
            above = sources if upstream == ["src"] else made[upstream[0]]["parallelism"]
            made[name] |= {"inputs": {upstream[0]: "forward"}, "parallelism": above}
        unread = [other for other in unread if other not in upstream] + [name]
        names.append(name)
    sinks = {other: draw.choice(["shuffle", "shuffle", "broadcast"]) for other in unread}
    if draw.random() < 0.3:
        sinks = dict.fromkeys(unread, "key")
    made["out"] = {"kind": "sink", "inputs": sinks, "parallelism": draw.randint(1, 2)}
    return made


def _operator(draw: Random, upstream: list[str]) -> dict[str, Any]:
    keyed = draw.random() < 0.6
    mean = draw.choice(["1 ms", "5 ms", "20 ms"])
    operator: dict[str, Any] = {
        "kind": "aggregate" if keyed and draw.random() < 0.5 else "map",
        "inputs": {other: "key" if keyed else draw.choice(["shuffle", "shuffle", "broadcast"]) for other in upstream},
        "parallelism": draw.randint(1, 3),
        "service": draw.choice(
            [{"distribution": "deterministic", "value": mean}, {"distribution": "exponential", "mean": mean}]
        ),
        "selectivity": draw.choice([1.0, 1.0, 0.5, 1.5, 2.0]),
    }
    if keyed:
        operator["key_groups"] = operator["parallelism"] + draw.randint(0, 3)
        operator["state"] = draw.choice(
            [
                {"model": "per-key", "bytes": "100 B"},
                {"model": "per-tuple", "bytes": "50 B"},
                {"model": "fixed", "bytes": "2 kB"},
            ]
        )
    elif draw.random() < 0.4:
        operator["threads"] = 3
    if draw.random() < 0.3:
        operator["takes"] = {upstream[0]: draw.choice([0.3, 0.8])}
    if draw.random() < 0.4:
        operator["serialise"] = operator["deserialise"] = draw.choice(["100 kB/s", "1 MB/s"])
    if draw.random() < 0.3:
        operator["output"] = {"tuple": "70 B", "keys": {"distribution": "zipf", "count": 9, "exponent": 1.0}}
    return operator


def _crashes(draw: Random, hosts: int) -> dict[str, dict[str, Any]]:
    """Crashes at random, on the lattice of checkpoints, and shortly after another one; 0 to 4 of them."""
    events: dict[str, dict[str, Any]] = {}
    last_ms = 0
    for index in range(draw.randint(0, 4)):
        kind = draw.choice(["random", "lattice", "again", "together"])
        at_ms = {
            "random": draw.randint(0, 7000),
            "lattice": draw.randint(0, 20) * 300,
            "again": last_ms + draw.choice([1, 100, 301, 500, 1001, 1050, 1500]),
            "together": last_ms,
        }[kind]
        last_ms = at_ms
        host = draw.randrange(hosts)
        event = {"at": f"{at_ms} ms", "kind": "host-failure", "host": f"h-{host}"}
        if host == 0 or draw.random() < 0.5:
            event["repair"] = draw.choice(["50 ms", "700 ms", "3 s"])
        events[f"crash{index}"] = event
    return events


def with_timers(draw: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """The same keys with timers, and states of the tuples of the last time."""
    for operator in raw["operators"].values():
        if operator["kind"] in ("source", "sink"):
            continue
        if "key" not in operator["inputs"].values() and draw.random() < 0.8:
            operator["timer"] = {"every": draw.choice(["100 ms", "77 ms", "300 ms", "1 s"])}
        elif "key" in operator["inputs"].values() and draw.random() < 0.8:
            operator["state"] = {"model": "window", "bytes": "10 B", "length": draw.choice(["100 ms", "1 s", "3 s"])}
    return raw


def random_joins(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job with windows, a join of two of its operators, and timers."""
    raw = random_windows(draw, **fixed)
    operators = raw["operators"]
    for operator in operators.values():
        keyed = "key" in operator["inputs"].values() if operator["kind"] != "source" else True
        if operator["kind"] == "map" and not keyed and draw.random() < 0.5:
            operator["timer"] = {"every": draw.choice(["100 ms", "77 ms", "1 s"])}
    out = operators.pop("out")
    operators["pairs"] = {
        "kind": "join",
        "inputs": dict.fromkeys(draw.sample(list(operators), 2), "key"),
        "parallelism": draw.randint(1, 3),
        "key_groups": draw.randint(3, 6),
        "service": {"distribution": "deterministic", "value": draw.choice(["1 us", "1 ms", "5 ms"])},
        "selectivity": draw.choice([1.0, 0.3, 1.5]),
        "window": {"length": draw.choice(["50 ms", "100 ms", "300 ms"])},
    }
    if draw.random() < 0.5:
        operators["pairs"]["state"] = {"model": "window", "bytes": "10 B", "length": "100 ms"}
    kind = next(iter(out["inputs"].values()))
    behind = "pairs"
    if draw.random() < 0.4:
        behind = "counts"
        operators["counts"] = {
            "kind": "aggregate",
            "inputs": {"pairs": "key"},
            "service": {"distribution": "exponential", "mean": "1 ms"},
            "window": {"length": "200 ms"},
        }
    operators["out"] = out | {"inputs": out["inputs"] | {behind: kind}}
    return raw


def random_windows(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job without failures in which aggregates have windows, on lattices of time as often as not."""
    raw = random_job(draw, **fixed) | {"events": {}}
    for workload in raw["workload"].values():
        workload["watermark"] = draw.choice(["50 ms", "100 ms", "200 ms", "333 ms", "1 s"])
        if draw.random() < 0.3:
            workload |= {"rate": "100 /s", "arrivals": "deterministic"}
    lattice = draw.random() < 0.4
    for operator in raw["operators"].values():
        if operator["kind"] in ("source", "sink"):
            continue
        if lattice:
            operator["service"] = {"distribution": "deterministic", "value": draw.choice(["1 ms", "5 ms", "10 ms"])}
        if "key" not in operator["inputs"].values():
            continue
        if draw.random() < 0.7:
            operator["kind"] = "aggregate"
            operator["window"] = draw.choice(
                [
                    {"length": "100 ms"},
                    {"length": "1 s"},
                    {"length": "1 s", "slide": "300 ms"},
                    {"length": "1 s", "slide": "100 ms"},
                    {"length": "500 ms", "slide": "700 ms"},
                    {"length": "123457 us", "slide": "41 ms"},
                ]
            )
        if draw.random() < 0.5:
            operator["state"] = {"model": "window", "bytes": "10 B", "length": draw.choice(["100 ms", "1 s", "3 s"])}
    return raw


def storm(draw: Random, **fixed: Any) -> dict[str, Any]:
    """A random job on more hosts that die and come back all the time."""
    raw = random_job(draw, **fixed)
    hosts = draw.randint(3, 7)
    raw["hosts"]["h"]["count"] = hosts
    raw["events"] = {
        f"crash{index}": {
            "at": f"{draw.choice([draw.randint(0, 11_000), draw.randint(0, 110) * 100])} ms",
            "kind": "host-failure",
            "host": f"h-{draw.randrange(hosts)}",
            "repair": draw.choice(["1 ms", "50 ms", "200 ms", "1 s", "2500 ms"]),
        }
        for index in range(draw.randint(4, 14))
    }
    return raw | {"duration": "10 s"}


@dataclass
class Run:
    """A run until nothing was left to do, and what the audit said before (time, lost)."""

    control: Control
    replayed: int
    cuts: list[tuple[int, dict[int, set[tuple[int, int]]], bool]]
    drained: bool

    @property
    def plane(self) -> PlainPlane:
        """Its plain data plane."""
        return plain_plane_of(self.control)

    @property
    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of all tables but the two large ones, as they are now."""
        return self.control.recorder.rows | self.plane.recorder.rows | {"recoveries": [*self.control.recoveries.rows()]}


def without_crashes(raw: dict[str, Any]) -> dict[str, Any]:
    """The same scenario in which no host dies."""
    return raw | {"events": {}}


def drain(raw: dict[str, Any], cuts_ns: tuple[int, ...] = (), most_s: int = 400, least_s: int = 0) -> Run:
    """Run beyond the duration, and for `least_s`, until everything is idle; audit at `cuts_ns` on the way."""
    events = raw["events"]
    # Crashes may come after the last arrival: the rule that events lie within the duration is about files.
    made = Scenario.model_validate(raw, context={"units": True}, by_alias=True, by_name=False)
    control = build(made)
    run, plane = Run(control, 0, [], False), plain_plane_of(control)
    send_again = plane.replay

    def counted(sender: int, receiver: int, turn: bool = False, missing: bool = False) -> tuple[int, int]:
        rows, size = send_again(sender, receiver, turn, missing)
        run.replayed += rows
        return rows, size

    plane.replay = counted  # type: ignore[method-assign]
    restore_in_flight = plane.in_flight_again

    def counted_in_flight(partition: Partition) -> list[Visit]:
        visits = restore_in_flight(partition)
        run.replayed += len(visits)
        return visits

    plane.in_flight_again = counted_in_flight  # type: ignore[method-assign]
    for cut in sorted(set(cuts_ns)):
        control.run(cut)
        lost = {index: account.lost for index, account in accounts(plane).items()}
        run.cuts.append((cut, lost, all(partition.live for partition in plane.all_partitions())))
    after = 14 if events else 0  # the last crash, its detection and its repair
    until = max(int(made.duration_s), after, 1 + max(cuts_ns, default=0) // NS, least_s) * NS
    while not run.drained and until < most_s * NS:
        control.run(until)
        run.drained = idle(plane)
        until += 2 * NS
    return run


def idle(plane: PlainPlane) -> bool:
    """Whether nothing will happen any more but checkpoints and samples."""
    return (
        in_progress(plane) == 0
        and not any(task.outbox for task in plane.tasks)
        and all(one.live and not (one.held or one.post_dated) for one in plane.all_partitions())
        and all(source.emitted == len(source.arrivals_ns) for source in plane.sources)
    )


def applied(plane: PlainPlane) -> dict[tuple[int, int], Counter[int]]:
    """(operator, partition) -> how often each id is in its state (of a sink: was delivered); sources left out."""
    return {
        (partition.operator.index, partition.index): Counter(partition.applied)
        for partition in plane.all_partitions()
        if not partition.operator.is_source
    }


def paths(plane: PlainPlane) -> dict[tuple[int, int], dict[int, tuple[Any, tuple[int, ...]]]]:
    """(operator, partition) -> id -> (the partitions it came through, its place in the source and among siblings)."""
    found: dict[tuple[int, int], dict[int, tuple[Any, tuple[int, ...]]]] = defaultdict(dict)
    for source in plane.sources:
        for sequence, key in enumerate(source.keys):
            todo: list[tuple[Partition, int, int, Any, tuple[int, ...]]]
            todo = [(source.partition, source_id(source.code, sequence), key, (), (sequence,))]
            while todo:
                partition, tuple_id, key_, path, place = todo.pop()
                here = (partition.operator.index, partition.index)
                if not partition.operator.is_source:
                    found[here][tuple_id] = (path, place)
                    made = partition.operator.outputs(tuple_id, key_)
                else:
                    made = [(tuple_id, key_)]
                for edge in partition.operator.edges:
                    for number, (child, child_key) in enumerate(made):
                        for target in edge.targets(child, child_key, partition.index):
                            receiver = plane.partitions[edge.down.index][target]
                            row = edge.id_for(child, target)
                            todo.append((receiver, row, child_key, (*path, here), (*place, number)))
    return found


def state_losses(run: Run) -> list[tuple[int, str]]:
    """(instant, partition's name) of each loss of state that the run reported."""
    return [(int(at), str(subject)) for at, action, subject, *_ in run.rows["decisions"] if action == Action.LOSE_STATE]


def in_progress(plane: PlainPlane) -> int:
    """Tuples on a wire, in a queue, in service or held."""
    queued = sum(isinstance(item, Visit) for task in plane.tasks for item in (*task.front, *task.queue, *task.serving))
    return len(plane.wire) + queued + sum(len(partition.held) for partition in plane.all_partitions())


def digest(records: RunRecords) -> str:
    """One hash of all rows and names."""
    found = hashlib.sha256()
    for name, columns in sorted(records.tables.items()):
        for column, values in sorted(columns.items()):
            found.update(f"{name}.{column}:".encode())
            found.update("\n".join(map(str, values.tolist())).encode())
    found.update(repr((records.operators, records.tasks, records.task_operator, records.hosts)).encode())
    return found.hexdigest()


def rows_of(records: RunRecords, operator: str) -> list[tuple[int, int, int]]:
    """(arrival, start, end) [ns] of an operator's visits, in the order in which they ended."""
    visits = records.tables["visits"]
    own = visits["operator"] == records.operators.index(operator)
    return list(zip(*(visits[name][own].tolist() for name in ("arrival_ns", "start_ns", "end_ns")), strict=True))
