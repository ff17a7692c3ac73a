"""Records of failure logs: what is bad, what is not asked for, who was watched and when."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pytest

from analysis.failure_logs import records
from analysis.failure_logs.reader import read_plain
from analysis.failure_logs.records import LogQuestion, kind_of, log_of
from analysis.spark.sources import open_sources
from models.errors import InputError
from models.reliability.failure_log import US, FailureLog

DAY = 86_400
LANL = Path(__file__).parents[3] / "examples" / "lanl-system-8.csv.gz"
TRICKY = (
    "host,down,up,cause\n"
    "a,2020-01-01,2020-01-01T01:00,disk\n"
    "a,2020-01-01 00:30,2020-01-01 02:00:00.5,\n"  # overlaps
    "a,2020-01-01 02:00:00.5,2020-01-01 10:00Z,net\n"  # touches
    "b,100,50,\n"
    ",5,6,\n"
    "b,5\n"
    "b,7,x,\n"
    "b,1e3,2000,\n"
    "b,1000,2000.1234567,disk\n"
    "b,3000,,\n"
    "b,4000,,\n"
    'c,2020-03-08 02:30,2020-11-01 01:30,"quoted, x"\n'  # hours that a clock change skips, or has twice
    "c,-5,6,\n"
    "c,2020-13-01,7,\n"
    '"c","9,8,7\n'
)
BAD = {
    records.BACKWARDS: 1,
    records.FAILS_AGAIN: 1,
    records.MALFORMED: 2,
    records.NO_DOWN: 3,
    records.NO_HOST: 1,
    records.NO_UP: 1,
}


def read(path: Path, question: LogQuestion) -> records.Records:
    sources = open_sources([path])
    return read_plain(sources, kind_of(sources[0].columns, sources[0].name), question)


def table(tmp_path: Path, text: str, **question) -> FailureLog:  # type: ignore[no-untyped-def]
    (tmp_path / "log.csv").write_text(text)
    asked = LogQuestion(**question)
    return log_of(read(tmp_path / "log.csv", asked), asked)


def test_every_record_is_used_or_bad_for_one_reason(tmp_path: Path) -> None:
    (tmp_path / "tricky.csv").write_text(TRICKY)
    found = read(tmp_path / "tricky.csv", LogQuestion(zone="America/Denver"))
    assert found.bad == BAD
    assert found.read == found.used + sum(BAD.values()) == 15
    assert found.host == ("a", "b", "b", "c")
    assert found.causes == {"disk": 2, "net": 1, "not given": 2, "quoted, x": 1}
    begin = datetime.datetime(2020, 1, 1, 7, tzinfo=datetime.UTC).timestamp()
    assert found.down_us[0] == begin * US
    assert found.up_us.tolist()[0] == (begin + 3 * 3600) * US
    assert found.up_us.tolist()[1:3] == [2_000_123_456, -1]
    assert (found.up_us[3] - found.down_us[3]) / US == 238 * DAY - 2 * 3600  # in elapsed time


def test_too_many_bad_records_are_refused_with_reasons_and_the_first_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"9 of 15 records \(60 %\) cannot be used .*log.csv, line [0-9]+"):
        table(tmp_path, TRICKY)
    assert table(tmp_path, TRICKY, max_bad_share=0.7).hosts == ("a", "b", "c")


def test_overlaps_are_merged_unless_they_are_refused(tmp_path: Path) -> None:
    text = "host,down,up\na,10,20\na,15,30\nb,40,50\n"
    log = table(tmp_path, text)
    assert (log.down_us // US).tolist() == [10, 40]
    assert log.notes["merged"] == 1
    with pytest.raises(InputError, match="1 records overlap"):
        table(tmp_path, text, merge=False)


def test_hosts_that_never_failed_count_when_they_are_said_to_be_there(tmp_path: Path) -> None:
    text = "host,down,up\na,10,20\na,30,40\nquiet-0,40,50\n"
    log = table(tmp_path, text, n_hosts=5)
    assert log.hosts == ("a", "quiet-0", "quiet-1", "quiet-2", "quiet-3")
    assert log.up_s_of.tolist() == [20, 30, 40, 40, 40]
    with pytest.raises(InputError, match="must be at least 2: so many hosts failed"):
        table(tmp_path, text, n_hosts=1)


def test_the_window_is_what_was_given_or_what_the_records_tell(tmp_path: Path) -> None:
    text = "host,down,up\na,2020-01-02,2020-01-03\n"
    given = table(tmp_path, text, begin="2020-01-01", end="2020-01-11")
    assert (given.up_s_of / DAY).tolist() == [9]
    assert given.failures == 1
    assert table(tmp_path, text).failures == 0  # nothing is known of before


@pytest.mark.parametrize(
    "question, rule",
    [
        ({"zone": "Mars/Olympus"}, "must be a time zone"),
        ({"begin": "yesterday"}, "must be a time in ISO 8601"),
        ({"n_hosts": 0}, "must be between 1"),
        ({"max_bad_share": -0.1}, "must be at least 0"),
        ({"begin": "2020-01-05", "end": "2020-01-05"}, "must end after it begins"),
    ],
)
def test_questions_that_make_no_sense_are_refused(tmp_path: Path, question, rule: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=rule):
        table(tmp_path, "host,down,up\na,10,20\n", **question)


def test_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks up: a failure log has the columns host, down and up"):
        table(tmp_path, "host,down,end\na,1,2\n")


def test_parquet_says_the_same_as_text(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    text = "host,down,up\na,2020-01-02 03:04:05.5,2020-01-03\nb,2020-01-02 04:00:00,\n"
    at = [np.datetime64(one, "ns") for one in ("2020-01-02T03:04:05.5", "2020-01-02T04:00:00", "2020-01-03")]
    columns = {"host": ["a", "b"], "down": pa.array(at[:2]), "up": pa.array([at[2], None])}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    asked = LogQuestion(zone="Europe/Berlin")
    kept = log_of(read(tmp_path / "log.parquet", asked), asked)
    plain = table(tmp_path, text, zone="Europe/Berlin")
    for name in ("begin_us", "end_us", "host", "down_us", "up_us"):
        assert np.array_equal(getattr(kept, name), getattr(plain, name))


def test_the_laboratorys_log_has_its_quiet_nodes_and_its_months() -> None:
    asked = LogQuestion(zone="America/Denver")
    log = log_of(read(LANL, asked), asked)
    assert len(log.hosts) == 164
    assert (log.failures, int(np.count_nonzero(log.failures_of == 0))) == (469, 45)
    begins = {datetime.datetime.fromtimestamp(us / US, datetime.UTC).strftime("%Y-%m-%dT%H") for us in log.begin_us}
    assert begins == {"2001-04-01T07", "2002-12-01T07"}  # 1-Apr and 2-Dec, turned round


def test_a_cause_alone_keeps_all_hosts() -> None:
    asked = LogQuestion(zone="America/Denver", causes=("Network",))
    records = read(LANL, asked)
    log = log_of(records, asked)
    assert len(log.hosts) == 164
    assert records.causes == {"Network": 19}
    assert records.unwanted == 475 - 19


@pytest.mark.parametrize(
    "text, begin",
    [("5-Apr", "2005-04"), ("Nov-96", "1996-11"), ("3-Sep", "2003-09"), ("Dec-01", "2001-12"), ("13-13", None)],
)
def test_months_are_read_whichever_way_round_they_are(text: str, begin: str | None) -> None:
    us = records._month_us(text, "UTC")
    found = None if us is None else datetime.datetime.fromtimestamp(us / US, datetime.UTC).strftime("%Y-%m")
    assert found == begin


def test_a_node_that_its_system_does_not_have_is_a_bad_record(tmp_path: Path) -> None:
    header = ",".join(records.LANL_COLUMNS)
    line = "8,16,{},Nov-96,current,{},{},,,,,,"
    rows = [line.format(node, "1/2/1997 3:04", up) for node, up in ((3, "1/2/1997 4:04"), (16, "1/2/1997 4:04"))]
    (tmp_path / "lanl.csv").write_text("\n".join([header, *rows, line.format(2, "9/9/1999 1:00", "")]))
    found = read(tmp_path / "lanl.csv", LogQuestion(max_bad_share=0.5))
    assert found.bad == {records.NO_NODE: 1}
    assert found.host == ("8-2", "8-3")
    log = log_of(found, LogQuestion(max_bad_share=0.5))
    assert len(log.hosts) == 16
    assert found.causes == {"not given": 2}
