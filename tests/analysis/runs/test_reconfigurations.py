"""What a summary says of reconfigurations.

Oracle: numbers written down by hand for a table of three steps and five deliveries. For when epochs are answered: a
loop over all pairs of deliveries.
"""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from random import Random

import numpy as np
import pytest
from rich.console import Console
from small_runs import small_records, small_scenario

from analysis.report.content import decisions
from analysis.report.migration_sections import reconfigurations_section
from analysis.runs.metrics import metrics_of, possible_metrics
from analysis.runs.reconfigurations import EPOCH_NS, epochs_answered_ns, latencies_of_born, reconfigurations
from analysis.runs.summary import summarise
from analysis.runs.tables import reconfigurations_table
from holdfast.run_tables import reconfigurations_said
from holdfast.terminal import printed
from models.records.decisions import Action, Decision, Verdict
from models.records.tables import HISTOGRAM_TABLES, NEVER, RunRecords, table

MS = 1_000_000


def records(last_installed: int = 900 * MS) -> RunRecords:
    one = small_records()
    steps = [
        (0, 1, "batched", 100 * MS, 0, 200 * MS, 230 * MS, 300 * MS, 2, 1000, NEVER, 0, 0),
        (0, 1, "batched", 100 * MS, 1, 301 * MS, 330 * MS, 700 * MS, 2, 500, NEVER, 0, 0),
        (0, 1, "batched", 100 * MS, 2, 701 * MS, 730 * MS, last_installed, 1, 250, NEVER, 0, 0),
    ]
    born = [(199, 5), (200, 300), (500, 80), (899, 20), (900, 999)]  # and latency [ms]: the first and last do not count
    tables = {**one.tables, "reconfigurations": table("reconfigurations", steps)}
    return with_deliveries(replace(one, tables=tables), [(at * MS, (at + latency) * MS) for at, latency in born])


def with_deliveries(one: RunRecords, times: list[tuple[int, int]]) -> RunRecords:
    """Return the records with these instants of birth and delivery [ns] in place of theirs."""
    return replace(one, tables={**one.tables, "deliveries": table("deliveries", [(2, *both) for both in times])})


def test_times_are_those_of_the_steps_and_latencies_those_of_what_was_born_meanwhile() -> None:
    (found,) = reconfigurations([records()])
    assert (found.strategy, found.steps, found.groups, found.bytes) == ("batched", 3, 5, 1750)
    assert (found.requested_s, found.begun_s, found.duration_s) == (0.1, 0.2, 0.7)
    assert found.longest_step_s == 0.399
    assert (found.latency_max_s, found.latency_p99_s) == (0.3, 0.3)


def test_one_that_waits_to_the_end_of_the_run_has_no_step_and_no_time() -> None:
    waits = (1, 1, "fluid", 150 * MS, 0, NEVER, NEVER, NEVER, 0, 0, NEVER, 0, 0)
    one = records()
    steps = one.tables["reconfigurations"]
    rows = [*zip(*(column.tolist() for column in steps.values()), strict=True), waits]
    tables = {**one.tables, "reconfigurations": table("reconfigurations", rows)}
    _, found = reconfigurations([replace(one, tables=tables)])
    assert (found.strategy, found.requested_s, found.steps) == ("fluid", 0.15, 0)
    assert found.begun_s is found.duration_s is found.latency_max_s is found.extra_bytes is None


def test_one_that_has_not_ended_has_no_duration() -> None:
    (found,) = reconfigurations([records(NEVER)])
    assert found.duration_s is None
    assert found.longest_step_s == 0.399
    assert found.latency_max_s == 0.999  # until the end of the run


def test_of_one_that_has_not_ended_the_table_says_how_many_steps_were_over() -> None:
    for last_ns, said in ((900 * MS, ("steps", 3)), (NEVER, ("steps over", "2 of 3"))):
        given = reconfigurations([records(last_ns)])
        found = reconfigurations_table(given)
        heads = [column.head for column in found.columns]
        assert (heads[5], found.rows[0][5]) == said
        assert "cancelled" not in heads


def test_one_that_is_cancelled_ends_there_and_says_how_many_steps_were_over() -> None:
    one = records(NEVER)
    listed = one.tables["reconfigurations"]
    cancelled = {**listed, "cancelled_ns": np.full(3, 800 * MS)}
    (found,) = reconfigurations([replace(one, tables={**one.tables, "reconfigurations": cancelled})])
    assert (found.steps_over, found.over_of_all, found.cancelled_s, found.duration_s) == (2, "2 of 3", 0.8, None)
    assert found.latency_max_s == 0.3  # of what was born until then
    open_ended = reconfigurations([records(NEVER)])[0]
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=(found, open_ended, open_ended))
    metrics = metrics_of(summary)
    counts = ["reconfigurations.count", "reconfigurations.cancelled", "reconfigurations.unfinished", "moves.cancelled"]
    assert [metrics[name] for name in counts] == [3.0, 1.0, 2.0, 1.0]
    words = "Of 3 reconfigurations: 1 cancelled after a crash, 2 not over at the end of the run."
    assert reconfigurations_said(summary)[1] == words


def test_key_groups_that_begin_empty_are_told_with_the_state_that_they_had() -> None:
    one = records(NEVER)
    lost = {"lost_groups": np.array([0, 2, 1]), "lost_bytes": np.array([0, 40_000, 9_000])}
    listed = {**one.tables["reconfigurations"], **lost}
    found = reconfigurations([replace(one, tables={**one.tables, "reconfigurations": listed})])
    assert (found[0].lost_groups, found[0].lost_bytes, found[0].begin_empty) == (3, 49_000, "3 (49 kB)")
    section = reconfigurations_section(found)
    assert section is not None
    assert "3 key groups lost 49 kB of state" in section.words
    assert "begin empty" in [column.head for column in section.tables[0].columns]
    without = reconfigurations_section(reconfigurations([one]))
    assert without is not None
    assert "begin empty" not in [column.head for column in without.tables[0].columns]
    assert "empty" not in without.words
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=(*found, *found))
    metrics = metrics_of(summary)
    assert (metrics["reconfigurations.lost_groups"], metrics["reconfigurations.lost_bytes"]) == (6.0, 98_000.0)


def test_the_terminal_has_room_for_all_numbers_where_a_crash_took_states() -> None:
    (one,) = reconfigurations([records(NEVER)])
    longest = replace(one, strategy="pause-and-resume", steps_over=66, steps=66, extra_bytes=3_200_000)
    cancelled = replace(longest, begun_s=7.4543, cancelled_s=0.8, lost_groups=32, lost_bytes=12_800_000)
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=(cancelled, longest))
    parts = [part for part in reconfigurations_said(summary) if not isinstance(part, str)]
    shown = StringIO()
    for part in parts:
        Console(file=shown, width=80).print(printed(part))
    text = shown.getvalue()
    for cell in ("pause-and-resume", "7.4543 s", "66 of 66", "32 (12.8 MB)", "999 ms", "3.2 MB"):
        assert cell in text, text


def test_extra_memory_is_beyond_what_is_held_before_and_after_so_not_known_until_the_end() -> None:
    held = [(0, 40), (250, 90), (400, 70), (900, 50)]  # instants [ms], and bytes of the state of a task
    rows = table("memory", [(at * MS, 1, 0, size, 0, 0, 0, 0) for at, size in held])
    for last, extra in ((900 * MS, 40), (NEVER, None)):
        one = records(last)
        (found,) = reconfigurations([replace(one, tables={**one.tables, "memory": rows})])
        assert found.extra_bytes == extra


def test_a_tuple_that_waits_delays_all_of_its_epoch_and_of_later_ones() -> None:
    times = [(200 * MS, 201 * MS), (200 * MS + 500_000, 500 * MS), (300 * MS, 301 * MS), (899 * MS, 899 * MS)]
    (found,) = reconfigurations([with_deliveries(records(), [(199 * MS, 205 * MS), *times])])
    assert (found.latency_max_s, found.frontier_latency_max_s) == (0.2995, 0.3)
    one = with_deliveries(records(), times)
    latencies = latencies_of_born(one, 200 * MS, 900 * MS, epochs_answered_ns(one))
    assert latencies.tolist() == [300 * MS, 300 * MS - 500_000, 200 * MS, MS]  # the last epoch lasts a millisecond


@pytest.mark.parametrize("seed", range(30))
def test_an_epoch_is_answered_when_all_that_was_born_before_its_end_is(seed: int) -> None:
    draw = Random(seed)
    epoch_ns, step_ns = draw.choice([1, 3, 10, EPOCH_NS]), draw.choice([1, 2, 5, EPOCH_NS // 4])
    born = [draw.randrange(40) * step_ns for _ in range(draw.randrange(60))]
    times = [(at, at + draw.choice([0, draw.randrange(5), draw.randrange(80)]) * step_ns) for at in born]
    one = with_deliveries(small_records(), times)
    expected = []
    for created, _ in times:
        end = created - created % epoch_ns + epoch_ns
        expected.append(max(end, *(at for other, at in times if other < end)))
    assert epochs_answered_ns(one, epoch_ns).tolist() == expected


@pytest.mark.parametrize("seed", range(10))
def test_the_longest_latency_of_the_frontier_is_that_of_a_tuple_and_less_than_an_epoch_more(seed: int) -> None:
    draw = Random(seed)
    born = [draw.randrange(50 * MS) for _ in range(50)]
    one = with_deliveries(small_records(), [(at, at + draw.randrange(1, 20 * MS)) for at in born])
    single = latencies_of_born(one, 0, one.duration_ns)
    frontier = latencies_of_born(one, 0, one.duration_ns, epochs_answered_ns(one))
    assert (frontier >= single).all()
    assert single.max() <= frontier.max() < single.max() + EPOCH_NS


def test_the_terminal_has_the_longest_latency_of_the_frontier_of_each_strategy() -> None:
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=reconfigurations([records()]))
    (one,) = summary.reconfigurations
    several = (one, replace(one, frontier_latency_p99_s=0.4), replace(one, strategy="fluid"))
    *_, line = reconfigurations_said(replace(summary, reconfigurations=several))
    assert line == (
        "Latency of the frontier (all of that millisecond and before is answered): 99 % within 400 ms (batched), "
        "300 ms (fluid)."
    )
    unknown = (replace(one, frontier_latency_p99_s=None),)
    *_, line = reconfigurations_said(replace(summary, reconfigurations=unknown))
    assert (
        line == 'Latency is known where recording.detail is "tuples", and some that were born meanwhile came to a sink.'
    )
    assert reconfigurations_said(replace(summary, reconfigurations=())) == []


def test_without_rows_of_tuples_there_is_no_latency() -> None:
    one = records()
    binned = {name: table(name, []) for name in HISTOGRAM_TABLES}
    one = replace(one, tables={**one.tables, **binned})
    (found,) = reconfigurations([one])
    assert epochs_answered_ns(one).size == 0
    assert found.duration_s == 0.7
    assert found.latency_max_s is None
    assert found.frontier_latency_max_s is None


def test_metrics_have_means_and_maxima() -> None:
    summary = replace(summarise(small_scenario(), [small_records()]), reconfigurations=reconfigurations([records()]))
    found = metrics_of(summary)
    assert found["reconfigurations.count"] == 1.0
    assert found["reconfigurations.duration_s.max"] == 0.7
    assert found["reconfigurations.latency_max_s.mean"] == 0.3
    assert found["reconfigurations.frontier_latency_p99_s.max"] == 0.3
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
