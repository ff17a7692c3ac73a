"""Conditions in SQL that users give: one true-or-false expression over the columns of a row, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType

from analysis.spark.sources import nearest
from models.errors import InputError

# They call any Java method by name.
_REFUSED_FUNCTIONS = {"reflect", "java_method", "try_reflect"}
# They give another answer tomorrow, or for another user.
_CHANGING = ("Current", "Now", "LocalTimestamp", "SessionUser", "InputFile")
_SUBQUERIES = {"Exists", "ListQuery", "InSubquery"}


def condition(frame: DataFrame, sql: str, path: str) -> Column:
    """Return the expression as a column of `frame` that is true or false, false where SQL says null.

    Raises InputError at `path` for text that is not one boolean expression over the frame's columns, for a
    subquery, an aggregate, and for functions that call Java or whose answer changes from run to run.

    `frame` must have the columns of the files alone, so that no expression can name a column that ingest has added.
    Spark analyses the expression here, and evaluates it for no row.
    """
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
