"""The size of an operator's state at the end of a run, as expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from models.scenario import nexmark
from models.scenario.description import ScenarioDescription
from models.scenario.inputs import RunInputs
from models.scenario.job import FixedState, PerKeyState, PerTupleState, WindowState
from models.scenario.workload import NexmarkKeys, SellerKeys
from models.steady_state.flow import Flow, copies
from models.steady_state.open_keys import tuples_of_open_auctions
from models.topology import layout


def bytes_at_the_end(
    scenario: ScenarioDescription, name: str, rates: Mapping[str, Flow], inputs: RunInputs | None = None
) -> float:
    """Return the state at the end of a run [B].

    Of a state per key an upper bound, but for keys of NEXMark: all keys have been seen, or each tuple had its own. Of
    tuples that leave with an output of their key, too: nothing has left, but for bids of NEXMark.
    """
    operator, until = scenario.operators[name], scenario.duration_s
    state, flow = operator.state, rates[name]
    later = 0.0
    if operator.postpone is not None:  # Little's law: so many outputs wait for their time
        waiting = flow.rate_out.mean_per_s * min(operator.postpone.mean_s, until)
        later = waiting * layout.output_bytes(scenario)[name]
    if isinstance(state, FixedState):
        return later + state.group_bytes * operator.groups
    if isinstance(state, PerTupleState):
        tuples = flow.rate_in.mean_per_s * until
        if state.closes:
            tuples = min(tuples, _of_open_keys(scenario, name, rates, inputs))
        return later + state.entry_bytes * tuples
    if isinstance(state, WindowState):
        return later + state.entry_bytes * flow.rate_in.mean_per_s * min(state.length_s, until)
    if isinstance(state, PerKeyState):
        keys = {upstream: _keys_over(scenario, name, upstream, rates, inputs) for upstream in operator.inputs}
        if isinstance(state.entry_bytes, Mapping):
            return later + sum(state.bytes_of(upstream) * count for upstream, count in keys.items())
        return later + state.tuple_bytes * min(layout.keys_seen(scenario, name), sum(keys.values()))
    return later


def _of_open_keys(
    scenario: ScenarioDescription, name: str, rates: Mapping[str, Flow], inputs: RunInputs | None
) -> float:
    """Return how many tuples of open keys an operator has at the end, where auctions of NEXMark open them; else inf."""
    operator = scenario.operators[name]
    auctions, bids, outputs, in_flight = 0.0, 0.0, 0.0, 1
    for upstream in operator.inputs:
        (origin, *others) = dict.fromkeys(_origins(scenario, upstream))
        keys = scenario.workload[origin].keys if origin in scenario.workload else None
        made = rates[origin].rate_out.mean_per_s
        come = rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs)
        field = keys.field if isinstance(keys, NexmarkKeys) and not others else None
        if field == "auction.id" and not auctions:
            auctions, outputs = made, operator.selectivity_of(upstream) * (come / made if made else 0.0)
        elif field == "bid.auction" and not operator.selectivity_of(upstream):
            assert isinstance(keys, NexmarkKeys)
            bids, in_flight = bids + come, max(in_flight, keys.in_flight)
        else:
            return inf
    assert operator.postpone is not None
    return tuples_of_open_auctions(operator.postpone, outputs, auctions, bids, in_flight, scenario.duration_s)


def _keys_over(
    scenario: ScenarioDescription, name: str, upstream: str, rates: Mapping[str, Flow], inputs: RunInputs | None
) -> float:
    """Return how many different keys an operator has got from an operator upstream by the end."""
    until = scenario.duration_s
    tuples = rates[upstream].rate_out.mean_per_s * copies(scenario, upstream, name, inputs) * until
    origins = list(dict.fromkeys(_origins(scenario, upstream)))
    made = sum(rates[origin].rate_out.mean_per_s for origin in origins) * until
    share = tuples / made if made else 0.0
    found, most, others = 0.0, 0.0, 0.0
    for origin in origins:
        own = rates[origin].rate_out.mean_per_s * until
        output = scenario.operators[origin].output
        if scenario.operators[origin].kind == "source":
            workload = scenario.workload[origin]
            if isinstance(workload.keys, NexmarkKeys):
                found += nexmark.expected_ids(workload.keys.field, own, own * share, workload.keys.in_flight)
                continue
            count = workload.most_keys(until)
            most = max(most, scenario.operators[name].groups if count is None else count)
        else:
            assert output is not None and output.keys is not None
            if isinstance(output.keys, SellerKeys):
                auctions = layout.keys_seen(scenario, origin)
                found += nexmark.expected_ids("auction.seller", auctions, min(own * share, auctions), 1)
                continue
            most = max(most, output.keys.count)
        others += own * share
    return found + min(most, others)


def _origins(scenario: ScenarioDescription, name: str) -> Iterator[str]:
    """Yield the operators that have given the keys to the outputs of an operator."""
    operator = scenario.operators[name]
    if operator.kind == "source" or (operator.output is not None and operator.output.keys is not None):
        yield name
        return
    for upstream in operator.inputs:
        yield from _origins(scenario, upstream)
