"""Chains of operators: which are served by one thread, and why others are not.

As in Flink, an operator is chained to the one that it reads if that is its only input, by forward, in the same slots.
Task k of each operator of a chain has the thread of task k of its head. Sources serve nothing, so a chain that begins
with one has the thread of what reads it.
"""

from __future__ import annotations

from models.scenario.description import ScenarioDescription
from models.topology import layout


def wants_chain(scenario: ScenarioDescription, name: str) -> bool:
    """Return whether an operator is to be chained to what it reads, if it can be."""
    asked = scenario.operators[name].chain
    return scenario.placement.chaining if asked is None else asked


def refusal(scenario: ScenarioDescription, name: str) -> str | None:
    """Return why an operator cannot be chained to what it reads; None if it can.

    Says nothing of inputs that do not exist.
    """
    operator = scenario.operators[name]
    if operator.kind == "source":
        return "a source begins a chain"
    if len(operator.inputs) != 1:
        return "an operator with several inputs begins a chain"
    (upstream, partitioning), *_ = operator.inputs.items()
    above = scenario.operators.get(upstream)
    if not layout.is_pairwise(partitioning):
        return f"it reads {upstream} by {partitioning}: only a forward edge is chained"
    if above is None:
        return None
    if above.parallelism != operator.parallelism:
        return f"{upstream} has another parallelism"
    if above.threads > 1 or operator.threads > 1:
        return "a chain has one thread for each of its tasks"
    if any(above.task_of(group) != group % operator.parallelism for group in range(above.groups)):
        return f"{upstream} has more key groups than tasks, and its forward edge sends them round robin"
    if operator.buffer is not None and above.kind != "source":
        return "within a chain there is no queue that could have a bound"
    return _apart(scenario, upstream, name)


def _apart(scenario: ScenarioDescription, one: str, other: str) -> str | None:
    """Return why tasks of two operators with equal numbers do not share slots; None where they do."""
    placement, count = scenario.placement, range(scenario.operators[one].parallelism)
    if not placement.slot_sharing:
        return "it has slots of its own: placement.slot_sharing is false"
    groups = [placement.operators.get(name) for name in (one, other)]
    hosts = [[placement.tasks.get(layout.task_name(name, k)) for k in count] for name in (one, other)]
    if groups[0] != groups[1] or hosts[0] != hosts[1]:
        return f"it is in another slot sharing group than {one}: placement puts it elsewhere"
    return None


def refusal_of_job(scenario: ScenarioDescription) -> str | None:
    """Return when operators of a job are chained in a run, which is not the case here; None if some can be."""
    tolerance = scenario.fault_tolerance
    if any(group.cpu == "shared" for group in scenario.hosts.values()):
        return 'where hosts.X.cpu is "dedicated" or "processor-sharing"'
    moved = scenario.migrates or scenario.rebalances or scenario.adjusts or scenario.waves.interval_s is not None
    if moved or scenario.elasticity.policy != "none" or scenario.has_replicas:
        return "without moves, rebalances and replicas of tasks"
    if scenario.rescales_job or scenario.recovery.adapts:
        return "without rescalings of the job"
    restarts = tolerance.method == "region-restart" and tolerance.job_checkpoints is not None
    if not restarts and (tolerance.method != "none" or scenario.may_fail):
        return 'with fault_tolerance.method = "region-restart" and barriers, or where no host may fail and it is "none"'
    return None


def chains_of(scenario: ScenarioDescription) -> tuple[dict[str, int], ...]:
    """Return the chains of two operators or more, in file order of their heads: operator -> steps from the head."""
    if refusal_of_job(scenario) is not None:
        return ()
    found: dict[str, dict[str, int]] = {}
    chain: dict[str, dict[str, int]] = {}  # of each operator
    for name in layout.topological(scenario):
        upstream = next(iter(scenario.operators[name].inputs), "")
        if wants_chain(scenario, name) and refusal(scenario, name) is None:
            chain[name] = chain[upstream]
            chain[name][name] = chain[upstream][upstream] + 1
        else:
            found[name] = chain[name] = {name: 0}
    return tuple(found[name] for name in scenario.operators if len(found.get(name, ())) > 1)


def threads_of(scenario: ScenarioDescription) -> tuple[tuple[str, ...], ...]:
    """Return the operators of each chain that share threads: all but a source, where two or more have a service."""
    operators = scenario.operators
    called = (tuple(name for name in chain if operators[name].kind != "source") for chain in chains_of(scenario))
    return tuple(names for names in called if sum(operators[name].service is not None for name in names) > 1)
