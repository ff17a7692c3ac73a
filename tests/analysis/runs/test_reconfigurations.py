"""What a summary says of reconfigurations.

Oracle: numbers written down by hand for a table of three steps and five deliveries.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from small_runs import small_records, small_scenario

from analysis.report.content import decisions
from analysis.report.migration_sections import reconfigurations_section
from analysis.runs.metrics import metrics_of, possible_metrics
from analysis.runs.reconfigurations import reconfigurations
from analysis.runs.summary import summarise
from models.records.decisions import Action, Decision, Verdict
from models.records.tables import HISTOGRAM_TABLES, NEVER, RunRecords, table

MS = 1_000_000


def records(last_installed: int = 900 * MS) -> RunRecords:
    one = small_records()
    steps = [
        (0, 1, "batched", 100 * MS, 0, 200 * MS, 230 * MS, 300 * MS, 2, 1000, NEVER),
        (0, 1, "batched", 100 * MS, 1, 301 * MS, 330 * MS, 700 * MS, 2, 500, NEVER),
        (0, 1, "batched", 100 * MS, 2, 701 * MS, 730 * MS, last_installed, 1, 250, NEVER),
    ]
    born = [(199, 5), (200, 300), (500, 80), (899, 20), (900, 999)]  # and latency [ms]: the first and last do not count
    deliveries = [(2, at * MS, (at + latency) * MS) for at, latency in born]
    tables = {**one.tables, "reconfigurations": table("reconfigurations", steps)}
    return replace(one, tables={**tables, "deliveries": table("deliveries", deliveries)})


def test_times_are_those_of_the_steps_and_latencies_those_of_what_was_born_meanwhile() -> None:
    (found,) = reconfigurations([records()])
    assert (found.strategy, found.steps, found.groups, found.bytes) == ("batched", 3, 5, 1750)
    assert (found.requested_s, found.begun_s, found.duration_s) == (0.1, 0.2, 0.7)
    assert found.longest_step_s == 0.399
    assert (found.latency_max_s, found.latency_p99_s) == (0.3, 0.3)


def test_one_that_has_not_ended_has_no_duration() -> None:
    (found,) = reconfigurations([records(NEVER)])
    assert found.duration_s is None
    assert found.longest_step_s == 0.399
    assert found.latency_max_s == 0.999  # until the end of the run


def test_one_that_is_cancelled_ends_there_and_says_how_many_steps_were_over() -> None:
    one = records(NEVER)
    listed = one.tables["reconfigurations"]
    cancelled = {**listed, "cancelled_ns": np.full(3, 800 * MS)}
    (found,) = reconfigurations([replace(one, tables={**one.tables, "reconfigurations": cancelled})])
    assert (found.steps_over, found.over_of_all, found.cancelled_s, found.duration_s) == (2, "2 of 3", 0.8, None)
    assert found.latency_max_s == 0.3  # of what was born until then


def test_extra_memory_is_beyond_what_is_held_before_and_after_so_not_known_until_the_end() -> None:
    held = [(0, 40), (250, 90), (400, 70), (900, 50)]  # instants [ms], and bytes of the state of a task
    rows = table("memory", [(at * MS, 1, 0, size, 0, 0, 0, 0) for at, size in held])
    for last, extra in ((900 * MS, 40), (NEVER, None)):
        one = records(last)
        (found,) = reconfigurations([replace(one, tables={**one.tables, "memory": rows})])
        assert found.extra_bytes == extra


def test_without_rows_of_tuples_there_is_no_latency() -> None:
    one = records()
    binned = {name: table(name, []) for name in HISTOGRAM_TABLES}
    (found,) = reconfigurations([replace(one, tables={**one.tables, **binned})])
    assert found.duration_s == 0.7
    assert found.latency_max_s is None


def test_metrics_have_means_and_maxima() -> None:
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=reconfigurations([records()]))
    found = metrics_of(summary)
    assert found["reconfigurations.count"] == 1.0
    assert found["reconfigurations.duration_s.max"] == 0.7
    assert found["reconfigurations.latency_max_s.mean"] == 0.3
    assert found["reconfigurations.bytes"] == 1750.0
    own = {name for name in found if name.startswith("reconfigurations.")}
    assert own <= {*possible_metrics(small_scenario())}


def test_a_run_without_any_has_none() -> None:
    assert reconfigurations([small_records()]) == ()
    assert np.size(small_records().tables["reconfigurations"]["number"]) == 0


def test_the_page_has_a_row_for_each() -> None:
    section = reconfigurations_section(reconfigurations([records(), records(NEVER)]))
    assert section is not None
    (listed,) = section.tables
    assert len(listed.rows) == 2
    assert reconfigurations_section(()) is None


def test_each_decision_is_about_something() -> None:
    verdicts = dict.fromkeys((Action.COMPARE, Action.BALANCE, Action.STOP), Verdict.REFUSED)
    rows = [(k, *Decision(one, "x", verdict=verdicts.get(one, Verdict.DONE))) for k, one in enumerate(Action)]
    made = decisions([small_records(decisions=rows)])
    assert {one.action for one in made} == {*Action}
    assert all(one.about for one in made)
