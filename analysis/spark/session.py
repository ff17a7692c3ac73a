"""One local Spark session that leaves the terminal clean and nothing behind, set up for the size of its input.

`spark_session` starts the JVM, silences it, handles Ctrl-C meanwhile, and ends it. `setup` chooses Spark's settings by
the size of the input: settings that help with large data slow a small file down. No setting changes a result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.spark.java import Java, ensure_java
from analysis.spark.sources import Source
from models.errors import InputError, MissingTool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_QUIET = "status = off\nrootLogger.level = off\n"
_PYTHON_LOGGERS = (
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
)  # they repeat what the exception says
_LOOPBACK = ("spark.driver.host", "spark.driver.bindAddress")  # others reach the driver by its own address
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
"""A third less CPU until the first result, and no collections of classes, of which Spark loads 18,000."""


@contextlib.contextmanager
def spark_session(
    name: str = "holdfast",
    *,
    cores: int | None = None,
    memory: str = "1g",
    master: str | None = None,
    java_options: str = QUICK_START,
) -> Iterator[SparkSession]:
    """Yield a Spark session in UTC, stopped on leaving: `cores` threads of this machine (None: all), or on `master`.

    Where a session runs already, that one is given and left running. Raises MissingTool without pyspark or Java.
    """
    cores = cores if cores is not None else os.cpu_count() or 1
    if cores < 1:
        raise InputError.at("cores", cores, "must be at least 1")
    running = _running_session()
    if running is not None:
        # A session belongs to whoever started it: stopping it here would end the work of others.
        yield running
        return
    java = ensure_java()
    with _quiet_loggers(), tempfile.TemporaryDirectory(prefix="holdfast-spark-") as scratch:
        with _own_interrupt() as pressed:
            conf = settings(Path(scratch), cores, memory, java_options)
            session, gateway = _start(name, java, Path(scratch), master or f"local[{cores}]", conf)
        try:
            if pressed:
                raise KeyboardInterrupt
            yield session
        finally:
            _stop(session, gateway)


def require_pyspark() -> None:
    """Raise MissingTool without PySpark, which is optional; call it before a module is imported that loads it."""
    try:
        import pyspark  # noqa: F401, PLC0415
    except ImportError:
        raise MissingTool("This needs PySpark: run `pip install 'holdfast[spark]'`.") from None


def _running_session() -> SparkSession | None:
    """Return the session that this process runs already, or None; raises MissingTool without PySpark."""
    require_pyspark()
    from pyspark import SparkContext  # noqa: PLC0415 - only where Spark is asked for
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None


def settings(scratch: Path, cores: int, memory: str, java_options: str = QUICK_START) -> dict[str, str]:
    """Return the configuration of the session, by Spark's names."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark asks the network for the name of the machine otherwise, which fails or waits where there is none.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'{java_options} "-Djava.io.tmpdir={scratch}" '
        f'"-Dlog4j2.configurationFile={scratch / "log4j2.properties"}"',
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        # Times without a zone are UTC by our rules, not local time of the machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        "spark.default.parallelism": str(max(cores, 2)),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }


def _start(name: str, java: Java, scratch: Path, master: str, chosen: dict[str, str]) -> tuple[SparkSession, Any]:
    """Start the JVM and a session; raises MissingTool with its last line where it does not start."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    (scratch / "log4j2.properties").write_text(_QUIET, encoding="utf-8")
    # Without system properties and files of the machine: results and messages must not depend on them.
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    for key, value in chosen.items():
        if key not in _LOOPBACK or master.startswith("local"):
            conf.set(key, value)
    environment = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",  # a user's own `models/` in the working directory must not win over ours
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else {}),
        "PYSPARK_SUBMIT_ARGS": None,
        "SPARK_CONF_DIR": str(scratch),  # one machine's defaults are not another's
    }
    # The JVM writes to the terminal before its logging is configured: a file takes that, for the message on failure.
    log = scratch / "jvm.log"
    with _environment(environment), log.open("wb") as log_file:
        try:
            gateway = launch_gateway(conf, {"stdout": log_file, "stderr": log_file})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            last = log.read_text(errors="replace").strip().splitlines()[-1:] or [str(error)]
            raise MissingTool(f"Spark did not start with the Java in {java.home}: {last[0]}") from error
    return SparkSession(context, _plain_session(context)), gateway


def _plain_session(context: Any) -> Any:
    """Return a session of Spark without the functions of its machine learning, or None where it must have them.

    Spark's own constructor registers those, which we do not use, and takes two CPU seconds for it.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415

    java = context._jvm
    try:
        nothing = java.scala.Option.empty()
        empty = getattr(getattr(java, "scala.collection.immutable.Map$"), "MODULE$").empty()
        extensions = java.org.apache.spark.sql.SparkSessionExtensions()
        kind = getattr(java, "org.apache.spark.sql.classic.SparkSession")
        return kind(context._jsc.sc(), nothing, nothing, extensions, empty, empty)
    except (Py4JError, TypeError):  # another version of Spark has another constructor
        return None


def _stop(session: SparkSession, gateway: Any) -> None:
    """Stop the session and the JVM, and clear what PySpark remembers of them."""
    from pyspark import SparkContext  # noqa: PLC0415

    # After an interrupt the machine may not answer any more: it ends below, and PySpark need not say so.
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown", RuntimeWarning)
        session.stop()
        gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()  # the JVM ends when its standard input does
        gateway.proc.wait(timeout=60)
    # PySpark keeps these for ever: a later session of this process would talk to a JVM that has ended.
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextlib.contextmanager
def _environment(changes: dict[str, str | None]) -> Iterator[None]:
    """Change environment variables within the block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _own_interrupt() -> Iterator[list[int]]:
    """Keep Ctrl-C waiting until Spark has started, then handle it as before; yields the signals that came.

    A machine that is half started would stay for ever, and Spark's own handler ends in a page of tracebacks.
    """
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    # PySpark sets a handler of its own while it starts; `finally` puts back the one of before.
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _quiet_loggers() -> Iterator[None]:
    """Disable the loggers of PySpark that repeat what exceptions say."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    # Made by PySpark's own factory: a plain logger of that name would break PySpark.
    loggers = [PySparkLogger.getLogger(name) for name in _PYTHON_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


SMALL_BYTES = 32 * 2**20
"""Up to here one job brings all rows to this process, which has room for so many; more are counted on Spark."""
_GZIP = 8  # how many times longer text is than its gzip file
_PARQUET = 6  # and than the Parquet file of the same rows
# Spark's own classes have been verified where its jars were built; the JVM does it again, in a sixth of a short run.
_TRUSTED = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
_LONG_RUN = "-XX:+UseSerialGC -XX:MetaspaceSize=256m"
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Setup:
    """Options of the JVM, settings of Spark SQL, and whether one job brings all rows to this process.

    `java` is one string of options for the driver's JVM, `sql` maps names of settings to values. `at_once` is True for
    inputs so small that counting them in this process beats three jobs of Spark.
    """

    java: str
    sql: Mapping[str, str]
    at_once: bool


def text_bytes(sources: Iterable[Source]) -> int:
    """Return about how long the rows of the files are as plain text.

    Packed and columnar files are multiplied by what such files usually expand to: a guess that decides how Spark is set
    up, and no result.
    """
    return sum(source.path.stat().st_size * _longer(source.suffix) for source in sources)


def setup(size: int, cores: int) -> Setup:
    """Return the setup for `size` bytes of text on so many cores.

    Settings change the time that a run takes, and never its result.
    """
    # One task, no code generation: starting Spark is most of such a run.
    if size <= SMALL_BYTES:
        sql = {
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # generating and compiling code takes longer than running it
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.files.maxPartitionBytes": str(SMALL_BYTES),
        }
        return Setup(f"{QUICK_START} {_TRUSTED}", sql, at_once=True)
    # Enough tasks to say how long it will take, none so short that starting it counts.
    part = min(max(size // 32, 8 * _MEBIBYTE), 128 * _MEBIBYTE)
    sql = {
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        "spark.sql.files.maxPartitionBytes": str(part),
    }
    return Setup(_LONG_RUN, sql, at_once=False)


def _longer(suffix: str) -> int:
    return _PARQUET if suffix == ".parquet" else _GZIP if suffix.endswith(".gz") else 1
