"""Files and a session for what reads them with Spark: names that Spark takes, our settings, its errors as ours."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analysis.spark.conditions import first_line
from analysis.spark.session import Setup, spark_session
from analysis.spark.sources import Source, packed_faults
from models.errors import NO_VALUE, InputError, raise_if_any

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.timeType.enabled": "true",  # a column of a type that we do not use must not be in the way
}


def linked(sources: Sequence[Source], folder: Path) -> dict[str, Source]:
    """Return link name -> source: to Spark some names are patterns or hidden files, ours are not."""
    links = {f"{number:06}{source.suffix}": source for number, source in enumerate(sources)}
    for name, source in links.items():
        # Numbered names: two files of one name in different folders stay apart, and bad rows can be traced to theirs.
        (folder / name).symlink_to(source.path.resolve())
    return links


@contextlib.contextmanager
def session_for(given: SparkSession | None, chosen: Setup, zone: str = "UTC") -> Iterator[SparkSession]:
    """Return a session with our settings beside the given one, or beside one that is started; times are of the zone."""
    started = spark_session(java_options=chosen.java) if given is None else contextlib.nullcontext(given)
    with started as session, _ended_by_interrupt(session) if given is None else contextlib.nullcontext():
        own = session.newSession()  # our settings are not the caller's
        for name, value in (*_SETTINGS.items(), *chosen.sql.items()):
            own.conf.set(name, value)
        own.conf.set("spark.sql.session.timeZone", zone)
        yield own


@contextlib.contextmanager
def _ended_by_interrupt(session: SparkSession) -> Iterator[None]:
    """End the JVM on Ctrl-C, and let this process go on as after any Ctrl-C.

    PySpark would wait for the job that runs, to its end, and the job would not know.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []

    def end(number: int, _frame: object) -> None:
        pressed.append(number)
        logging.disable(logging.CRITICAL)  # py4j shows the tracebacks of all that waited for an answer
        # Killing the JVM ends the wait of py4j at once, with an error that becomes KeyboardInterrupt below.
        session.sparkContext._gateway.proc.kill()  # type: ignore[union-attr]
        raise KeyboardInterrupt

    before, logged = signal.signal(signal.SIGINT, end), logging.root.manager.disable
    try:
        yield
    except Exception:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        if not pressed:
            logging.disable(logged)


@contextlib.contextmanager
def spark_errors(path: str, sources: Sequence[Source] = (), named: str = "ingest.files") -> Iterator[None]:
    """Raise what Spark cannot do with the input as an InputError: a broken file, a division by zero in SQL.

    Of a packed file that is broken Spark may say neither which it is nor why, so the sources are read again then;
    a fault in one has the path `named`.
    Ctrl-C stays KeyboardInterrupt: it cancels the jobs, and PySpark then raises the error of a cancelled job.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        # Read only now: unpacking all files before each run would double the work for a rare fault.
        raise_if_any(fault for source in sources for fault in packed_faults(source, named))
        text = str(getattr(error, "java_exception", "")) if isinstance(error, Py4JJavaError) else error
        raise InputError.at(path, NO_VALUE, f"the rows cannot be read: {first_line(text)}") from error


@contextlib.contextmanager
def watched(session: SparkSession, tell: Callable[[float], None]) -> Iterator[None]:
    """Tell which share of the work is done, of what takes longer than two seconds; so long nobody wants to know."""
    done, shares = threading.Event(), [0.0]
    tracker = session.sparkContext.statusTracker()

    def look() -> None:
        while not done.wait(_LOOK_S if shares[0] else _SHORT_S):
            with contextlib.suppress(Exception):  # a session that ends does not answer
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                long = [stage for stage in stages if stage is not None and stage.numTasks >= _TASKS]
                for stage in long[:1]:
                    shares.append(stage.numCompletedTasks / stage.numTasks)
                    # Stages follow each other, each from 0: a bar must not go back.
                    shares[:] = [max(shares)]
                    tell(shares[0])

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


_SHORT_S, _LOOK_S = 2.0, 0.5
_TASKS = 4  # of fewer the share says little
