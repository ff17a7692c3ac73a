"""Queries drawn from six templates, as many as it takes to load hosts with so much.

    1  S-F-D          3  S-P-F-A-D              5  (S-F, S'-F')-Q-A-D
    2  S-F-A-D        4  (S-F, S'-F')-J-D       6  (S-F, S'-F')-J-F-A-D

The paper has six templates and does not give them. These, and the numbers of `models.queries.description.Templates`,
are assumptions that meet the figures it reports; `docs/explanation/selective-replication.md` says which of its claims
hang on them. Every number of an operator is a function of the seed and of what the operator is, so equal operators are
equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from models.errors import InputError
from models.queries.description import Kind, Templates
from models.queries.graph import OperatorTable, QueryGraph, table_of
from models.queries.operators import Operator, Query
from sim.draws import code_of

_LETTERS: dict[str, Kind] = {
    "S": "source",
    "P": "projection",
    "F": "filter",
    "A": "aggregation",
    "J": "join",
    "Q": "sequence",
    "D": "destination",
}
# Each step: a letter and the steps that feed it; "F'" is a filter of the second stream.
_SHAPES: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...] = (
    (("S", ()), ("F", (0,)), ("D", (1,))),
    (("S", ()), ("F", (0,)), ("A", (1,)), ("D", (2,))),
    (("S", ()), ("P", (0,)), ("F", (1,)), ("A", (2,)), ("D", (3,))),
    (("S", ()), ("F", (0,)), ("S'", ()), ("F", (2,)), ("J", (1, 3)), ("D", (4,))),
    (("S", ()), ("F", (0,)), ("S'", ()), ("F", (2,)), ("Q", (1, 3)), ("A", (4,)), ("D", (5,))),
    (("S", ()), ("F", (0,)), ("S'", ()), ("F", (2,)), ("J", (1, 3)), ("F", (4,)), ("A", (5,)), ("D", (6,))),
)
N_TEMPLATES = len(_SHAPES)
_MOST_QUERIES = 20_000


@dataclass(frozen=True, eq=False)
class Workload:
    """Queries, their operators as one table, and the rates of the streams [1/s] at which the load is as asked."""

    queries: tuple[Query, ...]
    table: OperatorTable
    rates: FloatArray

    @property
    def load(self) -> FloatArray:
        """CPUs that each operator takes, (n,)."""
        return self.table.load(self.rates)


def workload(made: Templates, seed: int) -> Workload:
    """Return queries, added until their operators load as much as asked; rates are then scaled to exactly that.

    Raises InputError where queries of these templates never load so much.
    """
    rng = np.random.default_rng(code_of("query templates", seed))
    given = {f"stream{k}": float(rate) for k, rate in enumerate(rng.uniform(*made.rate_per_s, made.streams))}
    drawn = _Drawing(made, seed, given, rng)
    graph, total = QueryGraph(), 0.0
    loads: dict[int, float] = {}
    while total < made.load:
        # Equal operators are shared: with few streams new queries may add no load at all.
        if len(graph.queries) >= _MOST_QUERIES:
            raise InputError.at("templates.load", made.load, "is never reached: equal operators are shared")
        query = drawn.query(f"q{len(graph.queries)}")
        new = graph.add(query.query)
        by_node = {number: query.loads[name] for name, number in graph.members(query.query.name).items()}
        loads |= {number: by_node[number] for number in new}
        total += sum(by_node[number] for number in new)
    table = table_of(graph, dict.fromkeys(given, made.tuple_bytes))
    rates = table.rates(given)
    # The last query overshoots the load: scaling all rates makes workloads of all seeds equally heavy.
    return Workload(tuple(graph.queries.values()), table, rates * (made.load / float(table.load(rates).sum())))


@dataclass(frozen=True)
class _Drawn:
    query: Query
    loads: dict[str, float]  # before scaling


class _Drawing:
    """Draws queries; what an operator costs hangs on the seed and on what it is."""

    def __init__(self, made: Templates, seed: int, rates: dict[str, float], rng: np.random.Generator) -> None:
        self._made, self._seed, self._rates, self._rng = made, seed, rates, rng
        self._of_stream = _zipf(made.streams, made.popularity)

    def query(self, name: str) -> _Drawn:
        """Draw one query: a template by weight, its streams by popularity, and a predicate for each operator."""
        shape = _SHAPES[int(self._rng.choice(N_TEMPLATES, p=np.array(self._made.weights) / sum(self._made.weights)))]
        two = any(letter == "S'" for letter, _ in shape)
        picked = self._rng.choice(self._made.streams, 2 if two else 1, replace=False, p=self._of_stream)
        operators: dict[str, Operator] = {}
        texts: list[str] = []  # what each step is, down to its sources
        leaving: list[float] = []
        loads: dict[str, float] = {}
        for step, (letter, inputs) in enumerate(shape):
            kind = _LETTERS[letter[0]]
            rate = sum(leaving[one] for one in inputs)
            predicate = self._predicate(kind, letter, picked, [texts[one] for one in inputs])
            if kind == "source":
                rate = self._rates[predicate]
            text = self._text(kind, predicate, [texts[one] for one in inputs], name)
            operator = self._operator(kind, predicate, tuple(f"o{one}" for one in inputs), text, rate)
            operators[f"o{step}"] = operator
            loads[f"o{step}"] = rate * operator.cost_s
            texts.append(text)
            leaving.append(rate * operator.selectivity)
        return _Drawn(Query(name, operators), loads)

    def _predicate(self, kind: Kind, letter: str, picked: IntArray, inputs: list[str]) -> str:
        if kind == "source":
            return f"stream{int(picked[len(letter) - 1])}"  # S' reads the second
        if kind == "destination":
            return ""
        count = getattr(self._made.predicates, kind)
        return f"{kind}{int(self._rng.choice(count, p=_zipf(count, self._made.popularity)))}"

    def _text(self, kind: Kind, predicate: str, inputs: list[str], query: str) -> str:
        ordered = sorted(inputs) if kind == "join" else inputs
        own = query if kind == "destination" else predicate
        return f"{kind}:{own}({','.join(ordered)})"

    def _operator(self, kind: Kind, predicate: str, inputs: tuple[str, ...], text: str, rate: float) -> Operator:
        made = self._made
        own = np.random.default_rng(code_of("operator", self._seed, text))
        cost_s = getattr(made.cost_s, kind) * float(own.uniform(*made.spread))
        if made.largest is not None and rate * cost_s > made.largest:
            cost_s = made.largest / rate
        selectivity = float(own.uniform(*getattr(made.selectivity, kind)))
        size = 0.0 if kind == "destination" else made.tuple_bytes
        return Operator(kind, predicate, inputs, None, cost_s, selectivity, size)


def _zipf(n: int, exponent: float) -> FloatArray:
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())
