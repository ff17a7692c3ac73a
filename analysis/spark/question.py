"""A question to a trace: columns, rows, streams, number of key groups, length of a bin.

`condition` checks the SQL that a user gives: one true-or-false expression over the columns of a row, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analysis.spark.sources import FLIGHT_STREAMS, Source, common_columns, nearest
from models.errors import InputError, InputFault, raise_if_any
from models.records.profile import ALL

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


MOST_CELLS = 50_000_000  # streams * key groups * bins, and the square of streams * key groups

MOST_COPIES = 1000


@dataclass(frozen=True)
class Question:
    """The options of ingest; checked on construction, apart from what only the files or Spark can tell."""

    key: str
    time: str
    where: str | None
    streams: Mapping[str, str]
    key_groups: int
    bin_s: float
    max_bad_share: float
    copies: int = 1
    weight: str | None = None

    def __post_init__(self) -> None:
        faults = _group_faults(self) + _bin_faults(self.bin_s)
        if isinstance(self.copies, bool) or not isinstance(self.copies, int) or not 1 <= self.copies <= MOST_COPIES:
            rule = f"must be a whole number between 1 and {MOST_COPIES}"
            faults.append(InputFault("ingest.copies", self.copies, rule))
        if not 0 <= self.max_bad_share <= 1:
            rule = "must lie between 0 and 1"
            faults.append(InputFault("ingest.max_bad_share", self.max_bad_share, rule))
        for name in self.streams:
            if name == ALL or not name.strip() or not name.isprintable():
                rule = f'must have a name, and another than "{ALL}", which every profile has'
                faults.append(InputFault("ingest.streams", name, rule))
        raise_if_any(faults)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are asked for, by the name of the option."""
        return {"key": self.key, "time": self.time, **({} if self.weight is None else {"weight": self.weight})}

    @property
    def bin_us(self) -> int:
        """The length of a bin in microseconds."""
        return round(self.bin_s * 1e6)

    def with_flight_streams(self, sources: Sequence[Source]) -> Question:
        """Return the question with those streams of flights whose column is in every file."""
        have = common_columns(sources)
        return replace(self, streams={n: sql for n, sql in FLIGHT_STREAMS.items() if sql.split()[0] in have})


def _group_faults(question: Question) -> list[InputFault]:
    groups, series = question.key_groups, len(question.streams) + 1
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        return [InputFault("ingest.key_groups", groups, "must be a whole number, at least 1")]
    # The correlation has a row and a column for each series: it, not the counts, fills the memory.
    if (series * groups) ** 2 > MOST_CELLS:
        rule = f"must be at most {int(MOST_CELLS**0.5) // series} with these streams"
        return [InputFault("ingest.key_groups", groups, rule)]
    return []


def _bin_faults(bin_s: float) -> list[InputFault]:
    if isinstance(bin_s, bool) or not isinstance(bin_s, (int, float)) or not 0 < bin_s < 1e12:
        return [InputFault("ingest.bin", bin_s, "must be positive")]
    bin_us = round(bin_s * 1e6)
    # Spark counts in microseconds: bins of a fraction of one would drift over a long trace.
    if bin_us < 1 or abs(bin_us - bin_s * 1e6) > 1e-3:
        return [InputFault("ingest.bin", bin_s, "must be a whole number of microseconds")]
    return []


# They call any Java method by name.
_REFUSED_FUNCTIONS = {"reflect", "java_method", "try_reflect"}
# They give another answer tomorrow, or for another user.
_CHANGING = ("Current", "Now", "LocalTimestamp", "SessionUser", "InputFile")
_SUBQUERIES = {"Exists", "ListQuery", "InSubquery"}


def condition(frame: DataFrame, sql: str, path: str) -> Column:
    """Return the expression as a column of `frame` that is true or false, false where SQL says null.

    Raises InputError at `path` for text that is not one boolean expression over the frame's columns, for a
    subquery, an aggregate, and for functions that call Java or whose answer changes from run to run.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    # By the text first: analysing an expression may already call the functions that it names.
    _refuse_by_text(frame, sql, path)
    _refuse_by_meaning(frame, sql, path)
    # SQL has three truth values: a row whose condition is null is not wanted.
    return F.coalesce(F.expr(sql), F.lit(False))


def first_line(error: Any) -> str:
    """Return Spark's message in one line, without its own advice."""
    text = " ".join(str(error).strip().split("\n", 1)[0].split())
    text = text.split("] ", 1)[1] if text.startswith("[") and "] " in text else text
    return text.split(" SQLSTATE:", 1)[0].rstrip(". ")


def _refuse_by_text(frame: DataFrame, sql: str, path: str) -> None:
    """Raise InputError for text that is no expression, or names what is refused; nothing is analysed or run."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    if not sql.strip():
        raise InputError.at(path, sql, "must be a condition in SQL")
    parser = frame.sparkSession._jsparkSession.sessionState().sqlParser()
    try:
        parsed = parser.parseExpression(sql)
    except PySparkException as error:
        raise InputError.at(path, sql, f"is not a condition in SQL: {first_line(error)}") from None
    for node in _nodes(parsed):
        kind = node.getClass().getSimpleName()
        if kind in _SUBQUERIES or kind.endswith("Subquery"):
            raise InputError.at(path, sql, "must not hold a subquery")
        if "UnresolvedIdentifier" in kind:  # it could hide a refused name
            raise InputError.at(path, sql, "must not hold IDENTIFIER")
        if kind.startswith("UnresolvedFunction"):
            parts = node.nameParts()
            name = str(parts.apply(parts.size() - 1)).lower()
            if name in _REFUSED_FUNCTIONS:
                raise InputError.at(path, sql, f"must not call {name}")


def _refuse_by_meaning(frame: DataFrame, sql: str, path: str) -> None:
    """Raise InputError for an expression that is not true or false, looks at other rows, or changes between runs."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.types import BooleanType  # noqa: PLC0415

    try:
        chosen = frame.select(F.expr(sql))
    except PySparkException as error:
        raise _unknown_column(frame, sql, path, error) from None
    fields = chosen.schema.fields
    if len(fields) != 1 or not isinstance(fields[0].dataType, BooleanType):
        shown = fields[0].dataType.simpleString() if len(fields) == 1 else f"{len(fields)} columns"
        raise InputError.at(path, sql, f"must be true or false, it is {shown}")
    plan = chosen._jdf.queryExecution().analyzed()
    base = frame._jdf.queryExecution().analyzed()
    # An aggregate, a window or a generator puts something else between the frame and its projection.
    if plan.nodeName() != "Project" or plan.children().apply(0) != base:
        raise InputError.at(path, sql, "must look at one row alone: no aggregate, window or generator")
    changing = any(
        node.getClass().getSimpleName().startswith(_CHANGING) for node in _nodes(plan.projectList().apply(0))
    )
    if changing or not plan.deterministic():
        raise InputError.at(path, sql, "must give the same answer in every run")


def _unknown_column(frame: DataFrame, sql: str, path: str, error: Any) -> InputError:
    """Return the error for an expression that Spark cannot resolve, with the nearest column as a hint."""
    if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
        name = str((error.getMessageParameters() or {}).get("objectName", "")).replace("`", "")
        return InputError.at(path, sql, f"{name} is not a column of every file", nearest(name, frame.columns))
    return InputError.at(path, sql, f"cannot be used: {first_line(error)}")


def _nodes(expression: Any) -> Iterator[Any]:
    """Yield an expression of Spark and all that it consists of."""
    yield expression
    children = expression.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
