"""The Spark session as a program of its own: a clean terminal, nothing left behind, our modules first."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from analysis.spark.session import _plain_session, _stop, settings

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from analysis.spark.session import spark_session
def environment():
    own = {'SPARK_AUTH_SOCKET_TIMEOUT', 'SPARK_BUFFER_SIZE'}  # pyspark sets these
    return {k: v for k, v in os.environ.items() if k not in own}

before = environment()

def where(_):
    import sys
    import models
    return sys.flags.safe_path, models.__file__

with spark_session(cores=1) as spark:
    assert environment() == before
    print(*spark.sparkContext.parallelize([0], 1).map(where).first())
    print(spark.conf.get("spark.sql.session.timeZone"))
    with spark_session() as again:
        assert again.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
    process = spark.sparkContext._gateway.proc
print(process.poll())
"""


@pytest.mark.spark
def test_a_session_leaves_the_terminal_and_the_disk_clean_and_finds_our_modules(tmp_path: Path) -> None:
    here, scratch = tmp_path / "here", tmp_path / "a scratch folder"
    (here / "models").mkdir(parents=True)
    (here / "models" / "__init__.py").write_text("raise ImportError('not ours')", encoding="utf-8")
    scratch.mkdir()
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(run, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"True {ROOT / 'models' / '__init__.py'}", "UTC", "0"]
    assert [path.name for path in here.iterdir()] == ["models"]
    assert [path.name for path in scratch.iterdir() if path.name.startswith("holdfast")] == []


def test_a_machine_that_an_interrupt_ended_is_stopped_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, getattr(SparkContext, name))  # of other tests, given back after this
    context: Any = SparkContext.__new__(SparkContext)
    context._jsc = SimpleNamespace(stop=gone)
    with pytest.warns(RuntimeWarning, match="Unable to cleanly shutdown"):
        context.stop()
    context._jsc = SimpleNamespace(stop=gone)
    done: list[str] = []
    gateway = SimpleNamespace(shutdown=lambda: done.append("shut down"), proc=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _stop(SimpleNamespace(stop=context.stop), gateway)  # type: ignore[arg-type]
    assert done == ["shut down"]


def test_settings_keep_to_this_machine_and_show_nothing() -> None:
    found = settings(Path("/scratch"), 3, "2g")
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.executorEnv.PYTHONSAFEPATH"] == "1"


@pytest.mark.spark
def test_the_session_is_made_without_extensions_and_by_spark_itself_where_that_cannot_be(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    assert _plain_session(context) is not None
    monkeypatch.setattr(context, "_jsc", SimpleNamespace(sc=lambda: "no context"))
    assert _plain_session(context) is None
