"""Small problems of placement, and the rules of placement counted by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from models.planning.placement import Placement


@st.composite
def placements(draw, most=8, hosts=4, **fields):
    n, n_hosts = draw(st.integers(1, most)), draw(st.integers(1, hosts))

    def many(low, high, size):
        return draw(st.lists(st.integers(low, high), min_size=size, max_size=size))

    values = {
        "cpu": many(0, 6, n),
        "host_cpu": many(2, 10, n_hosts),
        "operator": many(0, 4, n),
        "colour": many(-1, 3, n),
        "failure_domain": many(0, 2, n_hosts),
        "anti_affinity": draw(st.sampled_from(["host", "domain"])),
        "max_colours": draw(st.sampled_from([None, 1, 2])),
        "value": many(0, 9, n),
        "fixed": draw(st.none() | st.lists(st.sampled_from([-1, -1, -1, n_hosts - 1]), min_size=n, max_size=n)),
        "neighbours": [[0, 1], [1, 2], [2, 3], [0, 2]],
    }
    if draw(st.booleans()):
        values |= {"network": many(0, 6, n), "host_network": many(2, 10, n_hosts)}
    return Placement(**(values | fields))


def keeps_rules(problem: Placement, host: np.ndarray) -> bool:
    """Every constraint, counted by hand."""
    for h in range(problem.n_hosts):
        here = np.flatnonzero(host == h)
        if problem.cpu[here].sum() > problem.host_cpu[h]:
            return False
        if problem.network is not None and problem.network[here].sum() > problem.host_network[h]:
            return False
        colours = {int(c) for c in problem.colours[here] if c >= 0}
        if problem.max_colours is not None and len(colours) > problem.max_colours:
            return False
    placed = np.flatnonzero(host >= 0)
    pairs = [(int(problem.operators[i]), int(problem.zones[host[i]])) for i in placed]
    return len(pairs) == len(set(pairs))
