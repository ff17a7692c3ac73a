"""Rules about operators that are asked to be chained and cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from models.errors import InputFault
from models.scenario.rules.dataflow import whole
from models.scenario.scenario import Scenario
from models.topology.chains import refusal, refusal_of_job
from models.validation_messages import path_text


def faults(scenario: Scenario, broken: Collection[str]) -> Iterator[InputFault]:
    """Yield chains that cannot be; what an engine chains by itself is left as it is there.

    `broken` as in `models.scenario.rules.faults`.
    """
    engine = scenario.engine.name if scenario.engine else "flink"
    said = {
        path_text(("operators", name, "chain")): name
        for name, one in scenario.operators.items()
        if one.chain is not None
    }
    asked = {path: name for path, name in said.items() if scenario.operators[name].chain}
    if engine != "flink":
        if scenario.placement.chaining:
            yield InputFault("placement.chaining", "true", "is of Flink", "remove it")
        for path, name in said.items():
            yield InputFault(path, str(name in asked.values()).lower(), "is of Flink", "remove it")
        return
    if not all(whole(section, broken) for section in ("operators", "placement", "hosts", "events", "fault_tolerance")):
        return
    hint = "write chain = false, as startNewChain() does, or leave it out"
    for path, name in asked.items():
        reason = refusal(scenario, name)
        if reason is not None:
            yield InputFault(path, "true", f"cannot be chained: {reason}", hint)
    reason = refusal_of_job(scenario)
    if reason is not None and asked:
        yield from (InputFault(path, "true", f"operators are chained only {reason}", hint) for path in asked)
    elif reason is not None and scenario.placement.chaining and not scenario.is_by_engine("placement.chaining"):
        rule = f"operators are chained only {reason}"
        yield InputFault(
            "placement.chaining", "true", rule, "remove it, as pipeline.operator-chaining.enabled: false does"
        )
