"""Files of `holdfast fleet` from reading to tables: workers, logs, query sets, objectives at the start."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fleet_systems import random_script, tables
from plain_availability import random_queries

from models.errors import InputError
from models.fleet.description import with_query_set
from models.fleet.records import TABLES
from models.fleet.rules import fleet_from, shaped_from
from models.fleet.system import system_of
from models.queries.graph import QueryGraph, table_of
from scenarios.files.parquet import read_parquet, units_of
from scenarios.fleet.runs import read_fleet, run_fleet, write_fleet
from scenarios.queries.files import read_queries
from sim.fleet.engine import simulate_fleet

EXAMPLES = Path(__file__).parents[3] / "examples"


def written(folder: Path, given: dict[str, object]) -> Path:
    path = folder / "asked.json"
    path.write_text(json.dumps(given))
    return path


def test_workers_do_not_change_the_answer() -> None:
    fleet = fleet_from({**random_script(3), "replications": 2, "manager": {"period": "6 h"}})
    one, two = (run_fleet(fleet, workers=n) for n in (1, 2))
    assert one.summary == two.summary
    assert [r.rows for r in one.records] == [r.rows for r in two.records]
    assert one.records[0].rows != one.records[1].rows
    assert run_fleet(fleet, seed=7).records[0].rows != one.records[0].rows


def test_all_rows_are_written_and_read_again(tmp_path: Path) -> None:
    result = run_fleet(fleet_from({**random_script(1), "replications": 2}))
    out = write_fleet(result, tmp_path / "out")
    assert json.loads((out / "summary.json").read_text()) == json.loads(json.dumps(result.summary))
    for name, columns in TABLES.items():
        found = read_parquet(out / f"{name}.parquet")
        rows = [(one.replication, *row) for one in result.records for row in one.rows[name]]
        assert list(zip(*found.values(), strict=True)) == rows
        assert list(found) == ["replication", *(column.name for column in columns)]
    assert units_of(out / "outages.parquet")["from_ns"] == "ns"
    with pytest.raises(InputError, match="is not overwritten"):
        write_fleet(result, out)
    write_fleet(result, out, table_format="csv", force=True)
    lines = (out / "take_overs.csv").read_text().splitlines()
    assert lines[0] == "replication,part,at_ns,origin,target,gap_ns"
    assert len(lines) == 1 + sum(len(one.rows["take_overs"]) for one in result.records)


def test_a_log_is_what_happens(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("host,down,up\nh0,86400,172800\nh1,90000,95000\nh0,200000,200001\n")
    given = tables(3, 2, log="log.csv", duration="10 d", operators={"x": ["h0", "h1"]}, queries={"q": ["x"]})
    result = run_fleet(*read_fleet(written(tmp_path, given)))
    assert result.records[0].rows["outages"] == [("q", 90_000 * 10**9, 95_000 * 10**9)]
    again = run_fleet(*read_fleet(written(tmp_path, given)), method="events")
    assert again.records[0].rows == result.records[0].rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("host,down\nh0,1\n", "must have a column up"),
        ("host,down,up\nh0,5,x\n", "line 2: up must be a number of seconds"),
        ("host,down,up\nh0,5,nan\n", "line 2: up must be a number of seconds"),
        ("host,down,up\nh0,5,3\n", "line 2: up must be after it went down"),
        ("host,down,up\nh9,5,7\n", "line 2: host is not a host"),
        ("host,down,up\nh0,5,7\nh0,6,9\n", "line 3: was down already, by line 2"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_log_is_one_clear_error(tmp_path: Path, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / "log.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_fleet(written(tmp_path, tables(3, 2, log="log.csv")))
    assert says in str(error.value)


def test_an_slo_that_fails_at_the_start_stops_before_anything_runs() -> None:
    queries = {"q": {"operators": ["x"], "slo": 0.995}, "r": {"operators": ["x"], "slo": 0.9}}
    fixed = tables(3, 2, p=0.1, times={"mttr": "1 d"}, operators={"x": ["h0", "h1"]}, queries=queries)
    result = run_fleet(fleet_from(fixed))
    assert result.records == ()
    assert [(one.query, one.slo) for one in result.unkept] == [("q", 0.995)]
    assert [result.unkept[0].broken, result.unkept[0].least_broken] == pytest.approx([0.01, 0.01])
    more = {"manager": {"replicas": 2, "budget": 1.0, "period": "1 d"}}
    assert run_fleet(fleet_from({**fixed, **more})).unkept == ()
    least = {**fixed, **more, "hosts": ["h0", "h1"]}
    assert [one.least_broken for one in run_fleet(fleet_from(least)).unkept] == pytest.approx([0.01])


def test_operators_are_shared_as_the_query_graph_shares_them() -> None:
    """At every instant there are those of a graph of the queries that are present, with its loads."""
    loaded = read_queries(EXAMPLES / "queries.toml")
    fleet = shaped_from(
        {
            "hosts": ["a", "b", "c"],
            "capacity": 3.0,
            "duration": "60 d",
            "times": {"mttf": "9 d", "mttr": "1 d"},
            "query_set": "queries.toml",
            "churn": {"stay": "5 d", "away": "5 d"},
            "manager": {"period": "1 d"},
        }
    )
    system = system_of(with_query_set(fleet, loaded.table, loaded.rates))
    rows = simulate_fleet(system).rows
    rates = np.array([system.fleet.sources[name].rate_per_s for name in system.fleet.sources])
    load = dict(zip(system.operators, (system.base + system.costs @ rates).tolist(), strict=True))
    seen = set()
    for at in sorted({row[1] for row in rows["presence"]} | {row[2] for row in rows["presence"]})[:-1]:
        present = frozenset(row[0] for row in rows["presence"] if row[1] <= at < row[2])
        there = {row[0] for row in rows["instances"] if row[4] <= at < row[5] and row[2] == "primary"}
        table = table_of(QueryGraph([one for one in loaded.queries if one.name in present]))
        given = {name: system.fleet.sources[name].rate_per_s for name in table.streams}
        assert len(there) == table.n_operators
        assert sum(load[name] for name in there) == pytest.approx(table.load(table.rates(given)).sum())
        seen.add(present)
    assert len(seen) >= 5


def test_tables_about_what_the_query_set_decides_are_refused(tmp_path: Path) -> None:
    (tmp_path / "queries.toml").write_text((EXAMPLES / "queries.toml").read_text())
    base = {"hosts": ["a"], "times": {"mttf": "9 d", "mttr": "1 d"}, "query_set": "queries.toml", "manager": {}}
    for changes, says in (
        ({"queries": {"averag": {"slo": 0.5}}}, "queries.averag = averag: is not among the queries of the query"),
        (
            {"queries": {"alerts": {"operators": ["x"]}}},
            "queries.alerts.operators = alerts: is what the query set says",
        ),
        ({"operators": {"alerts.out": {"cost": {"ticks": "1 s"}}}}, "is what the query set says"),
        ({"manager": None}, "needs hosts: there is no manager"),
        ({"query_set": "absent.toml"}, "query_set = absent.toml: "),
    ):
        given = {key: value for key, value in {**base, **changes}.items() if value is not None}
        with pytest.raises(InputError) as error:
            read_fleet(written(tmp_path, given))
        assert says in str(error.value)


def test_a_hundred_queries_on_a_hundred_hosts_for_years_are_no_work() -> None:
    """The merged rows and the exact figures beside them, at the size that is asked for; speed is for benchmarks."""
    queries = random_queries(np.random.default_rng(2), 100, 100)
    result = run_fleet(fleet_from(tables(100, 100, seed=2, duration="730 d", times={"mttf": "60 d", "mttr": "12 h"})))
    assert len(result.summary["queries"]) == len(queries.operators) == 100
    assert result.summary["method"] == "merged"
    running = result.summary["running"]
    assert running["time_average"]["mean"] == pytest.approx(running["exact"], abs=0.002)
