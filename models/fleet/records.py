"""Tables that a fleet run emits about hosts, instances and queries: rows with units, no statistic.

`TABLES` has the columns of each table, in the order of the values of a row. Instants are whole nanoseconds from the
begin of the run. An interval of time is [from, to): it ends at the end of the run where nothing else ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models.records.tables import Column

Row = tuple[Any, ...]


def _at(name: str, meaning: str) -> Column:
    """Return the column of an instant [ns]."""
    return Column(name, "int64", "ns", meaning)


def _name(name: str, meaning: str) -> Column:
    """Return a column of names as the file has them."""
    return Column(name, "str", "", meaning)


TABLES: dict[str, tuple[Column, ...]] = {
    "host_downtimes": (
        _name("host", "host"),
        _at("down_ns", "went down"),
        _at("up_ns", "was up again, or the end of the run"),
    ),
    "presence": (
        _name("query", "query"),
        _at("from_ns", "arrived and was admitted"),
        _at("to_ns", "left, or the end of the run"),
    ),
    "outages": (
        _name("query", "query"),
        _at("from_ns", "an operator of it had no instance that serves"),
        _at("to_ns", "all had again, it left, or the end of the run"),
    ),
    "take_overs": (
        _name("part", "operator, or part of a split one"),
        _at("at_ns", "another instance serves"),
        _name("origin", "host that served before"),
        _name("target", "host that serves now"),
        Column("gap_ns", "int64", "ns", "how long nobody served"),
    ),
    "instances": (
        _name("part", "operator, or part of a split one"),
        _name("host", "host"),
        _name("role", "primary | replica"),
        Column("share", "float64", "", "of the load of the operator"),
        _at("from_ns", "live from"),
        _at("to_ns", "until, or the end of the run"),
    ),
    "standing": (
        _name("query", "query"),
        _at("from_ns", "its instances were placed so"),
        _at("to_ns", "placed otherwise, it left, or the end of the run"),
        Column("broken", "float64", "", "exact P(broken) in the long run if they stayed so"),
    ),
    "overloads": (
        _name("host", "host"),
        _at("from_ns", "its instances need more than all of its CPU"),
        _at("to_ns", "until, or the end of the run"),
    ),
    "decisions": (
        _at("at_ns", "when"),
        _name("action", "admit | place | move | split | add | remove | acquire | release | stuck"),
        _name("subject", "query, part or host"),
        _name("origin", "host that it leaves, or empty"),
        _name("target", "host that it goes to, or empty"),
        _name("verdict", "begun | done | refused | aborted"),
        _name("reason", "why"),
    ),
    "refusals": (
        _at("at_ns", "when"),
        _name("action", "move | split | remove | admit"),
        _name("subject", "query or part"),
        _name("query", "query that would miss its availability objective"),
        Column("before", "float64", "", "exact P(broken) as it is"),
        Column("after", "float64", "", "exact P(broken) after it"),
        Column("allowed", "float64", "", "P(broken) that the objective allows"),
    ),
}


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """The rows of one replication by table, in order of time; names as in the file, instants in ns.

    `replication`: its number, from 0. `end_ns`: when the run ended. `method`: "events" or "merged", how the rows came
    about; they do not depend on it. `rows`: table of `TABLES` -> rows, each a tuple in the order of its columns.
    `split` has the operator of each part that is a share of one; any other part has the name of its operator.
    """

    replication: int
    end_ns: int
    method: str
    rows: dict[str, list[Row]]
    split: Mapping[str, str] = field(default_factory=dict)
