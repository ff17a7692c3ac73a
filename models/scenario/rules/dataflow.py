"""Rules about the job: every operator has the inputs, the service and the tasks that its kind asks for.

The module also holds the names that rules look up, with those of entries that could not be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import networkx as nx

from models import display, units
from models.errors import NO_VALUE, InputFault
from models.scenario.job import Operator, PerKeyState, PerTupleState, Reading
from models.scenario.scenario import Scenario
from models.scenario.workload import ProfileRate
from models.topology import layout
from models.validation_messages import Step, nearest_if_shown, path_text


def broken_in(section: str, broken: Collection[str]) -> set[str]:
    """Return the names of the entries of a section that could not be read."""
    return {path.split(".", 1)[1] for path in broken if path.startswith(section + ".")}


def whole(section: str, broken: Collection[str]) -> bool:
    """Return whether a section was read with all its entries."""
    return section not in broken and not broken_in(section, broken)


def unknown_name(
    path: tuple[Step, ...],
    name: str,
    what: str,
    known: Collection[str],
    shown: object | None = None,
    besides: str | None = None,
) -> InputFault:
    """Return the fault of a reference to something that does not exist; the hint names another than `besides`.

    `what`: its kind, as in "there is no host of this name". `known`: names that exist. `shown`: the value of the fault,
    if that is not the name.
    """
    value = name if shown is None else shown
    hint = nearest_if_shown(name, known, besides)
    return InputFault(path_text(path), value, f"there is no {what} of this name", hint)


MOST_TASKS = 100_000
MOST_GROUPS = 1 << 20  # as many bins as Megaphone was measured with
MOST_WINDOWS = 1000  # that a tuple is in
SHORTEST_S = 0.001  # of windows, and of the time between two watermarks or outputs of a timer
SHORTEST_SCAN_S = 10e-6  # of all key groups, in a round
_MOST_CYCLES = 10  # that are told of operators that reach each other
_MOST_STEPS = 20  # of a cycle that are told
_WITH_SERVICE = ("map", "filter", "aggregate", "join")


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of workload tables, inputs, kinds, parallelism and the shape of the dataflow.

    `broken` as in `models.scenario.rules.faults`. The shape of the graph is checked only if all operators could be
    read.
    """
    yield from _of_workload(scenario, broken)
    unread = broken_in("operators", broken)
    known = dict.fromkeys((*scenario.operators, *unread))
    profile = _has_profile(scenario) or not whole("workload", broken)
    for name, operator in scenario.operators.items():
        yield from _of_takes(name, operator, profile)
        yield from _of_inputs(scenario, name, operator, known)
        yield from _of_kind(name, operator)
        yield from _of_window(name, operator)
        yield from _of_timer(name, operator)
        yield from _of_postponement(name, operator)
        yield from _of_sizes_by_input(name, operator)
        yield from _of_scan(name, operator)
        yield from _of_tasks(name, operator)
        if operator.kind == "source" and operator.reading is not None:
            yield from _of_reading(scenario, name, operator.reading, "duration" not in broken)
    if whole("operators", broken):
        yield from _of_shape(scenario)


def a_kind(kind: str) -> str:
    """Return a kind of operator with its article."""
    return f"an {kind}" if kind[0] == "a" else f"a {kind}"


def _at(name: str, *keys: str) -> str:
    """Return the path of a key of an operator."""
    return path_text(("operators", name, *keys))


def _of_workload(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield workloads of operators that are no sources, sources without one, and watermarks that come too often."""
    unread = broken_in("operators", broken)
    sources = [name for name, operator in scenario.operators.items() if operator.kind == "source"]
    for name in scenario.workload:
        if name in scenario.operators:
            kind = scenario.operators[name].kind
            if kind != "source":
                yield InputFault(
                    path_text(("workload", name)), NO_VALUE, f"operator {name} is {a_kind(kind)}, not a source"
                )
        elif name not in unread and "operators" not in broken:
            yield unknown_name(("workload", name), name, "source", sources, shown=NO_VALUE)
    for name, workload in scenario.workload.items():
        if workload.watermark_s < SHORTEST_S:
            shown, shortest = units.show(workload.watermark_s, "s"), units.show(SHORTEST_S, "s")
            yield InputFault(path_text(("workload", name, "watermark")), shown, f"must be at least {shortest}")
    if "workload" in broken:
        return
    for name in sources:
        if name not in scenario.workload and name not in broken_in("workload", broken):
            yield InputFault(path_text(("workload", name)), NO_VALUE, f"is missing: the source {name} needs a workload")


def _of_takes(name: str, operator: Operator, profile: bool) -> Iterator[InputFault]:
    """Yield the faults of shares; `profile` says whether a stream may have one."""
    for upstream, taken in operator.takes.items():
        if upstream not in operator.inputs:
            yield InputFault(_at(name, "takes", upstream), taken, "is not one of the inputs")
        elif isinstance(taken, str) and not profile:
            yield InputFault(_at(name, "takes", upstream), taken, "needs a source with a profile", "or write a number")


def _of_inputs(scenario: Scenario, name: str, operator: Operator, known: Collection[str]) -> Iterator[InputFault]:
    """Yield the faults of inputs; `known` are the operators of the file, also those that could not be read."""
    if operator.kind == "source" and operator.inputs:
        yield InputFault(_at(name, "inputs"), NO_VALUE, "a source has no inputs")
    if operator.kind != "source" and not operator.inputs:
        yield InputFault(_at(name, "inputs"), NO_VALUE, f"is missing: {a_kind(operator.kind)} needs an input")
    for upstream, partitioning in operator.inputs.items():
        other = scenario.operators.get(upstream)
        if other is None:
            if upstream not in known:
                path = ("operators", name, "inputs", upstream)
                yield unknown_name(path, upstream, "operator", known, NO_VALUE, besides=name)
        elif other.kind == "sink":
            yield InputFault(_at(name, "inputs", upstream), NO_VALUE, "a sink has no output")
        elif partitioning == "forward" and other.parallelism != operator.parallelism:
            yield InputFault(
                _at(name, "inputs", upstream),
                "forward",
                f"needs equal parallelism: {upstream} has {display.count(other.parallelism)}, this "
                f"{display.count(operator.parallelism)}",
            )
    if operator.keyed and any(partitioning != "key" for partitioning in operator.inputs.values()):
        yield InputFault(_at(name, "inputs"), NO_VALUE, "either all inputs are partitioned by key or none")


def _has_profile(scenario: Scenario) -> bool:
    """Return True if a source has a measured rate, which knows shares of streams."""
    return any(isinstance(workload.rate, ProfileRate) for workload in scenario.workload.values())


def _of_kind(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield keys that the kind of an operator needs or excludes."""
    kind = operator.kind
    if kind in _WITH_SERVICE and operator.service is None:
        yield InputFault(_at(name, "service"), NO_VALUE, f"is missing: {a_kind(kind)} needs a service time")
    if kind == "aggregate" and operator.inputs and not operator.keyed:
        yield InputFault(_at(name, "inputs"), NO_VALUE, "an aggregate needs an input partitioned by key")
    if kind == "join" and len(operator.inputs) == 1:
        yield InputFault(_at(name, "inputs"), NO_VALUE, "a join needs at least two inputs")
    yield from _of_selectivity(name, operator)
    if kind == "source":
        yield from _of_source(name, operator)
    elif operator.reading is not None:
        yield InputFault(_at(name, "reading"), NO_VALUE, f"{a_kind(kind)} reads no log", "sources do")
    if kind == "sink" and operator.output is not None:
        yield InputFault(_at(name, "output"), NO_VALUE, "a sink has no output")


def _of_selectivity(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield selectivities that the kind excludes, and those by input that lack one or name another operator."""
    kind, made, here = operator.kind, operator.selectivity, _at(name, "selectivity")
    if kind in ("source", "sink"):
        if made != 1:
            hint = f"what a source emits stands in workload.{name}" if kind == "source" else ""
            shown = NO_VALUE if isinstance(made, Mapping) else made
            yield InputFault(here, shown, "must be 1 for a source" if hint else "a sink has no output", hint)
        return
    limit = 1 if kind == "filter" else None
    if not isinstance(made, Mapping):
        if limit is not None and made > limit:
            yield InputFault(here, made, "must be at most 1 for a filter")
        return
    if operator.window is not None or kind == "join":
        why = "a join makes its outputs of pairs" if kind == "join" else "a window makes its outputs of all inputs"
        yield InputFault(here, NO_VALUE, f"must be one number: {why}")
        return
    for upstream, value in made.items():
        where = _at(name, "selectivity", upstream)
        if upstream not in operator.inputs:
            yield InputFault(where, value, "is not one of the inputs", nearest_if_shown(upstream, operator.inputs))
        elif limit is not None and value > limit:
            yield InputFault(where, value, "must be at most 1 for a filter")
    yield from _of_missing_inputs(name, operator, made, "selectivity")


def _of_missing_inputs(name: str, operator: Operator, made: Collection[str], *key: str) -> Iterator[InputFault]:
    for upstream in operator.inputs:
        if upstream not in made:
            yield InputFault(_at(name, *key, upstream), NO_VALUE, "is missing: each input needs one")


def _of_sizes_by_input(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield sizes of a state by input that are no whole bytes, lack an input, or name another operator."""
    if not isinstance(operator.state, PerKeyState) or not isinstance(operator.state.entry_bytes, Mapping):
        return
    made = operator.state.entry_bytes
    for upstream, size in made.items():
        where = _at(name, "state", "bytes", upstream)
        if upstream not in operator.inputs:
            hint = nearest_if_shown(upstream, operator.inputs)
            yield InputFault(where, units.show(size, "B"), "is not one of the inputs", hint)
        elif size != round(size):
            yield InputFault(where, units.show(size, "B"), "must be whole bytes where each input has its own")
    yield from _of_missing_inputs(name, operator, made, "state", "bytes")


def _of_window(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield windows of operators that have none, and windows that are too short or overlap too often."""
    window = operator.window
    if window is None:
        return
    if operator.kind not in ("aggregate", "join"):
        yield InputFault(
            _at(name, "window"), NO_VALUE, f"{a_kind(operator.kind)} has no window: an aggregate or a join has"
        )
    for key, value_s in (("length", window.length_s), ("slide", window.step_s)):
        if value_s < SHORTEST_S:
            shortest = units.show(SHORTEST_S, "s")
            yield InputFault(_at(name, "window", key), units.show(value_s, "s"), f"must be at least {shortest}")
    if window.length_s > MOST_WINDOWS * window.step_s:
        windows = display.number(window.length_s / window.step_s)
        rule = f"puts every tuple into {windows} windows: {display.count(MOST_WINDOWS)} at most"
        yield InputFault(_at(name, "window", "slide"), units.show(window.step_s, "s"), rule)


def _of_timer(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield timers of operators that have none, and timers that go off too often."""
    if operator.timer is None:
        return
    if operator.kind not in ("map", "filter") or operator.keyed:
        rule = "needs a map or a filter without an input partitioned by key"
        yield InputFault(_at(name, "timer"), NO_VALUE, rule)
    if operator.timer.every_s < SHORTEST_S:
        shown, shortest = units.show(operator.timer.every_s, "s"), units.show(SHORTEST_S, "s")
        yield InputFault(_at(name, "timer", "every"), shown, f"must be at least {shortest}")


def _of_postponement(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield post-dated outputs of operators that keep none, and states that wait for such outputs without any."""
    state = operator.state
    if isinstance(state, PerTupleState) and state.closes:
        where, hint = _at(name, "state", "until"), "or leave it out: tuples stay to the end"
        if operator.postpone is None:
            yield InputFault(where, state.until, f"needs operators.{name}.postpone: no output waits", hint)
        elif {*operator.inputs.values()} - {"key"}:
            yield InputFault(where, state.until, "needs all inputs by key: one task has all tuples of a key", hint)
    if operator.postpone is None or operator.kind not in ("source", "sink"):
        return
    why = "has no state to keep outputs in" if operator.kind == "source" else "has no output"
    hint = "a map, a filter or an aggregate behind it can postpone" if operator.kind == "source" else ""
    yield InputFault(_at(name, "postpone"), NO_VALUE, f"a {operator.kind} {why}", hint)


def _of_scan(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield scans of operators without key groups or a service, and rounds that are too short."""
    if operator.scan_s is None:
        return
    shown = units.show(operator.scan_s, "s")
    if not operator.keyed or operator.service is None:
        yield InputFault(_at(name, "scan"), shown, "needs an input partitioned by key, and a service")
    elif operator.scan_s * operator.groups < SHORTEST_SCAN_S:
        rule = f"makes rounds of {units.show_about(operator.round_s, 's')}"
        rule += f": at least {units.show(SHORTEST_SCAN_S, 's')} are possible"
        yield InputFault(_at(name, "scan"), shown, rule, "leave so short a scan out")


def _of_source(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield keys that a source cannot have; its workload says what it emits."""
    hint = f"what a source emits stands in workload.{name}"
    if operator.buffer is not None:
        yield InputFault(_at(name, "buffer"), operator.buffer, "a source has no queue", "what waits there is its lag")
    for key in ("service", "output", "state"):
        if getattr(operator, key) is not None:
            yield InputFault(_at(name, key), NO_VALUE, f"a source has no {key}", hint if key == "output" else "")


def _of_reading(scenario: Scenario, name: str, reading: Reading, has_end: bool) -> Iterator[InputFault]:
    """Yield ways to read that are not one, and files that are too short, or never complete (if the run `has_end`)."""
    here = ("operators", name, "reading")
    by_engine = path_text((*here, "poll")) in scenario._by_engine
    if (reading.file_s is None) == (reading.poll is None) and not by_engine:
        rule = "needs a file or a poll" if reading.poll is None else "cannot be by file and by poll"
        yield InputFault(path_text(here), NO_VALUE, rule, 'as in file = "200 ms", or poll = 500')
    if reading.order != "written" and reading.file_s is None:
        rule = "is an order of files; a poll returns records as they were written"
        yield InputFault(_at(name, "reading", "order"), reading.order, rule, 'as in file = "200 ms"')
    if reading.file_s is not None:
        shown, where = units.show(reading.file_s, "s"), _at(name, "reading", "file")
        if reading.file_s < SHORTEST_S:
            yield InputFault(where, shown, f"must be at least {units.show(SHORTEST_S, 's')}")
        elif has_end and reading.file_s >= scenario.duration_s:
            rule = f"must be shorter than the duration of {units.show(scenario.duration_s, 's')}"
            yield InputFault(where, shown, rule, "a file is read once it is complete")


def _of_tasks(name: str, operator: Operator) -> Iterator[InputFault]:
    """Yield numbers of tasks, key groups and threads that are too large or do not fit each other."""
    if operator.key_groups is not None:
        if not operator.keyed:
            yield InputFault(_at(name, "key_groups"), operator.key_groups, "needs an input partitioned by key")
        elif operator.key_groups < operator.parallelism:
            rule = f"must be at least the parallelism of {display.count(operator.parallelism)}"
            yield InputFault(_at(name, "key_groups"), operator.key_groups, rule)
        if operator.key_groups > MOST_GROUPS:
            yield InputFault(
                _at(name, "key_groups"), operator.key_groups, f"must be at most {display.count(MOST_GROUPS)}"
            )
    if operator.key_hash != "crc32" and not operator.keyed:
        yield InputFault(_at(name, "key_hash"), operator.key_hash, "needs an input partitioned by key")
    if operator.parallelism > MOST_TASKS:
        yield InputFault(_at(name, "parallelism"), operator.parallelism, f"must be at most {display.count(MOST_TASKS)}")
    kept = operator.state is not None or operator.postpone is not None
    if operator.threads > 1 and (operator.keyed or kept or operator.kind == "source"):
        yield InputFault(
            _at(name, "threads"),
            operator.threads,
            "must be 1 unless the operator has no key input, no state and a service",
            "several threads break the order within a key",
        )
    if operator.threads > MOST_TASKS:
        yield InputFault(_at(name, "threads"), operator.threads, f"must be at most {display.count(MOST_TASKS)}")


def _of_shape(scenario: Scenario) -> Iterator[InputFault]:
    """Yield the faults of the graph as a whole."""
    operators = scenario.operators
    graph = layout.dataflow(scenario)
    kinds = {operator.kind for operator in operators.values()}
    for kind in ("source", "sink"):
        if kind not in kinds:
            yield InputFault("operators", NO_VALUE, f"at least one operator must be {a_kind(kind)}")
    for name, operator in operators.items():
        if operator.kind != "sink" and not graph[name]:
            yield InputFault(path_text(("operators", name)), NO_VALUE, "nobody reads the output of this operator")
    yield from _of_cycles(scenario)
    # One fault for the sum only if no single operator has that fault already.
    total = sum(operator.parallelism for operator in operators.values())
    if total > MOST_TASKS and all(operator.parallelism <= MOST_TASKS for operator in operators.values()):
        yield InputFault(
            "operators", NO_VALUE, f"{display.count(total)} tasks are too many: {display.count(MOST_TASKS)} at most"
        )


def _of_cycles(scenario: Scenario) -> Iterator[InputFault]:
    """Yield a fault for each cycle, at its first operator, in file order; only some if there are very many.

    Strongly connected components are found first: only inside one can there be cycles, and their number may be
    exponential, so at most ten of each component are listed (Johnson, SIAM J. Computing 1975, by networkx).
    """
    if layout.has_order(scenario):
        return
    by_flink = scenario.engine is not None and scenario.engine.name == "flink"
    hint = "an aligned checkpoint of Flink would wait for its own barrier in an iteration" if by_flink else ""
    names = list(scenario.operators)
    place = {name: index for index, name in enumerate(names)}
    # Numbers instead of names: networkx goes through sets, whose order must not depend on how text is hashed.
    graph = nx.relabel_nodes(layout.dataflow(scenario), place)
    tangles = [sorted(found) for found in nx.strongly_connected_components(graph)]
    for tangle in sorted(one for one in tangles if len(one) > 1 or graph.has_edge(one[0], one[0])):
        cycles = list(islice(nx.simple_cycles(graph.subgraph(tangle).copy()), _MOST_CYCLES + 1))
        for cycle in sorted(_from_least(cycle) for cycle in cycles[:_MOST_CYCLES]):
            yield _on_cycle(names[cycle[0]], [names[index] for index in (*cycle, cycle[0])], hint)
        if len(cycles) > _MOST_CYCLES:
            rule = f"is one of {len(tangle)} operators with more than {_MOST_CYCLES} cycles"
            yield InputFault(_at(names[tangle[0]], "inputs"), NO_VALUE, rule)


def _from_least(cycle: list[int]) -> list[int]:
    """Return the cycle from its first operator in the order of the file."""
    begin = cycle.index(min(cycle))
    return cycle[begin:] + cycle[:begin]


def _on_cycle(name: str, path: list[str], hint: str) -> InputFault:
    """Return the fault of a cycle; a long one is shortened in the middle."""
    if len(path) > _MOST_STEPS + 3:
        path = [*path[:_MOST_STEPS], f"{len(path) - _MOST_STEPS - 2} more", *path[-2:]]
    return InputFault(_at(name, "inputs"), NO_VALUE, "is on a cycle: " + " -> ".join(path), hint)
