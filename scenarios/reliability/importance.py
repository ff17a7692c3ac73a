"""The importance of hosts and domains, and the gain from one more replica, the greatest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from models.errors import InputError
from models.reliability.description import Availability
from models.reliability.importance import birnbaum, replica_gain
from models.reliability.problem import Setting, queries_of, settings_of
from models.reliability.queries import Queries

_MOST_PAIRS = 1000  # of an operator and a host that are tried


@dataclass(frozen=True)
class Element:
    """A host or a domain, and the bounds of its importance."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class Replica:
    """One more instance of an operator on a host, and the bounds of what the mean share of running queries gains."""

    operator: str
    host: str
    low: float
    high: float


@dataclass(frozen=True)
class Importance:
    """Of one setting: elements and replicas, the greatest first; `left_out` operators were not tried."""

    label: str
    elements: tuple[Element, ...]
    replicas: tuple[Replica, ...]
    left_out: int

    def document(self) -> dict[str, Any]:
        """Return the entry as JSON has it."""
        return asdict(self)


def importances(description: Availability, p: Sequence[float] = ()) -> tuple[Importance, ...]:
    """Return the importance of elements and replicas in each setting of independent hosts; InputError for none.

    Raises InputError where no setting has independent hosts. The importance of Birnbaum is P(broken | element down) -
    P(broken | element up), here of the mean query.
    """
    queries = queries_of(description)
    settings = [one for one in settings_of(description, p) if one.is_independent and len(one.weights) == 1]
    if not settings:
        raise InputError.at("--importance", True, "is for hosts that are independent, without standbys")
    return tuple(_importance(description, queries, one) for one in settings)


def _importance(description: Availability, queries: Queries, setting: Setting) -> Importance:
    """Return the importance of one setting.

    At most _MOST_PAIRS pairs of operator and host are tried, operators with fewest instances first.
    """
    hosts, operators = description.host_names, tuple(description.operators)
    names = (*hosts, *(description.domains or ("all hosts",)))
    of_elements = birnbaum(queries, setting.failures)
    elements = [
        Element(names[k], float(of_elements.low[0, k]), float(of_elements.high[0, k]))
        for k in range(min(len(names), of_elements.low.shape[1]))
    ]
    # Operators with fewest instances gain most from one more: they are tried first when not all can be.
    order = sorted(range(len(operators)), key=lambda one: (len(queries.instances[one]), one))
    tried = order[: max(1, _MOST_PAIRS // len(hosts))]
    replicas = []
    for operator in tried:
        for host in range(len(hosts)):
            if host not in queries.instances[operator]:
                gain = replica_gain(queries, setting.failures, operator, host)
                replicas.append(Replica(operators[operator], hosts[host], float(gain.low[0]), float(gain.high[0])))
    return Importance(
        setting.label,
        tuple(sorted(elements, key=lambda one: (-one.high, one.name))),
        tuple(sorted(replicas, key=lambda one: (-one.high, one.operator, one.host))),
        len(order) - len(tried),
    )
