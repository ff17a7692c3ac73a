"""The command `init`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from holdfast import terminal
from models import display
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.scenario.reading import scenario_from
from models.scenario.scenario import Scenario
from models.units import UnitError, parse
from models.validation_messages import similar
from scenarios.files.documents import refuse_suffix
from scenarios.files.starter import FlinkJob, KafkaStreamsJob, SparkQuery, StormTopology
from scenarios.files.write_once import refuse_unwritable, write_text
from scenarios.runs.inputs import checked

_MOST_TASKS = 10_000
_BUSY = 0.5
_CHANGE, _CHANGE_BYTES = "50 MB", 50e6


def init(
    engine: Annotated[
        str, typer.Argument(metavar="ENGINE", help="Engine of the job: flink, spark, kafka-streams or storm")
    ],
    out: Annotated[Path | None, typer.Option(help="File to write; without it ENGINE-job.toml")] = None,
    rate: Annotated[str | None, typer.Option(help="Records that come in, as in 20000 /s")] = None,
    state: Annotated[
        str | None, typer.Option(help="Keyed state of the job, as in 40 GB; storm: of stateful bolts, 0 B without any")
    ] = None,
    change: Annotated[
        str | None, typer.Option(help="flink: what of it changes between two checkpoints, as in 50 MB")
    ] = None,
    taskmanagers: Annotated[str | None, typer.Option(help="flink: TaskManagers x slots of each, as in 6x4")] = None,
    interval: Annotated[
        str | None, typer.Option(help="flink: time between two checkpoints; spark: between two triggers; as in 60 s")
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="kafka-streams, spark: size of a record in it, as in 250 B")
    ] = None,
    executors: Annotated[str | None, typer.Option(help="spark: executors x cores of each, as in 3x4")] = None,
    instances: Annotated[
        str | None, typer.Option(help="kafka-streams: instances x stream threads of each, as in 3x4")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(help="kafka-streams: partitions of the input topic; spark: of the state; not asked, 200"),
    ] = None,
    standbys: Annotated[int | None, typer.Option(help="kafka-streams: standby replicas; not asked, 0")] = None,
    supervisors: Annotated[
        str | None, typer.Option(help="storm: supervisors x bolt executors on each, as in 3x4")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="storm: message time-out, as in 30 s")] = None,
    start: Annotated[
        str | None, typer.Option(help="storm: time until a worker has started; spark: until a query has; as in 10 s")
    ] = None,
    busy: Annotated[float, typer.Option(help="Share of the time that tasks are busy; not asked")] = _BUSY,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file")] = False,
) -> None:
    """Write a scenario to begin with: what happens when a TaskManager, a driver, an instance or a supervisor dies?

    Questions are asked for what no option says, on a terminal; elsewhere the answers in brackets are taken.
    """
    of_flink = {"--change": change, "--taskmanagers": taskmanagers, "--interval": interval}
    of_kafka = {"--record": record, "--instances": instances, "--partitions": partitions, "--standbys": standbys}
    of_storm = {"--supervisors": supervisors, "--timeout": timeout, "--start": start}
    of_spark = {"--executors": executors, "--record": record, "--partitions": partitions, "--interval": interval}
    of_spark["--start"] = start
    options: dict[str, Mapping[str, object]] = {
        "flink": of_flink,
        "spark": of_spark,
        "kafka-streams": of_kafka,
        "storm": of_storm,
    }
    if engine not in options:
        *others, last = options
        hint = similar(engine.lower(), options) or "holdfast init flink"
        raise InputError.at("ENGINE", engine, f"must be {', '.join(others)} or {last}", hint)
    every = {key: value for own in options.values() for key, value in own.items()}
    foreign = [(key, value) for key, value in every.items() if key not in options[engine]]
    raise_if_any([InputFault(key, value, f"is not of {engine}") for key, value in foreign if value is not None])
    answers = {"--rate": rate, "--state": state, "--busy": busy, **options[engine]}
    given = {key: value for key, value in answers.items() if value not in (None, _BUSY)}
    out = Path(f"{engine}-job.toml") if out is None else out
    refuse_suffix(out, (".toml",))
    refuse_unwritable(out, force=force, option="--out")
    job: FlinkJob | SparkQuery | KafkaStreamsJob | StormTopology
    if engine == "flink":
        rate, state = (
            _answer(rate, "Records that come in", "20000 /s"),
            _answer(state, "Keyed state of the job", "40 GB"),
        )
        job = _flink_job(
            rate,
            busy,
            state,
            _answer(change, "What of it changes between two checkpoints", _usual_change(state)),
            _answer(taskmanagers, "TaskManagers x slots of each", "6x4"),
            _answer(interval, "Time between two checkpoints", "60 s"),
        )
    elif engine == "spark":
        job = _spark_query(
            _answer(rate, "Records that come in", "20000 /s"),
            busy,
            _answer(state, "State of the query", "10 GB"),
            _answer(record, "Size of a record in it", "250 B"),
            _answer(executors, "Executors x cores of each", "3x4"),
            200 if partitions is None else partitions,
            _answer(interval, "Time between two triggers", "5 s"),
            _answer(start, "Time until a new driver has started the query", "10 s"),
        )
    elif engine == "storm":
        job = _storm_topology(
            _answer(rate, "Tuples that spouts emit", "20000 /s"),
            busy,
            _answer(state, "State of stateful bolts", "0 B"),
            _answer(supervisors, "Supervisors x bolt executors on each", "3x4"),
            _answer(timeout, "Message time-out", "30 s"),
            _answer(start, "Time until a worker has started", "10 s"),
        )
    else:
        job = _kafka_streams_job(
            _answer(rate, "Records that come in", "20000 /s"),
            busy,
            _answer(state, "State of the application", "40 GB"),
            _answer(record, "Size of a record in it", "250 B"),
            _answer(instances, "Instances x stream threads of each", "3x4"),
            _answer(None if partitions is None else str(partitions), "Partitions of the input topic", "24"),
            standbys or 0,
        )
    text = job.text
    with _by_option(engine, given):
        scenario = scenario_from(tomllib.loads(text))
    write_text(out, text, force=force)
    stands = f"; one simulated record stands for {display.count(job.scale)}" if job.scale > 1 else ""
    if _runs(scenario, out.parent):
        terminal.show(f"Wrote {out}{stands}. Go on with: holdfast run {out}")
    else:
        terminal.show(f"Wrote {out}{stands}. It cannot be run as it is. Go on with: holdfast validate {out}")


_PARALLELISM = ("--taskmanagers", "--executors", "--instances", "--supervisors")
# End of a key -> options of whose answers it is made, the most telling first.
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    "rate": ("--rate",),
    "service.mean": ("--rate", "--busy", *_PARALLELISM),
    "state.bytes": ("--state", "--partitions", *_PARALLELISM),
    "deserialise": ("--record",),
    "recovery.restart.value": ("--start",),
    "fault_tolerance.interval": ("--interval",),
    "acker.timeout": ("--timeout",),
    "delay.high": ("--interval", "--timeout"),
}


@contextmanager
def _by_option(engine: str, given: Mapping[str, object]) -> Iterator[None]:
    """Name the options of which a key is made that is refused: nobody has seen the key.

    `given`: option -> its answer; what is asked for on the terminal is not in it.
    """
    change = ("--change" if "--change" in given else "--state", "--rate", "--interval")  # all the state, if need be
    made_of = {**_MADE_OF, "state.change": change if engine == "flink" else ("--record", "--rate")}
    try:
        yield
    except InputError as error:
        raise InputError(*(_of_option(fault, made_of, given) for fault in error.faults)) from error


def _of_option(fault: InputFault, made_of: Mapping[str, tuple[str, ...]], given: Mapping[str, object]) -> InputFault:
    """Return the fault with the options in place of the key; as it is where no option makes the key."""
    makers = next((options for key, options in made_of.items() if f".{fault.path}".endswith(f".{key}")), ())
    if not makers:
        return fault
    one, *others = [option for option in makers if option in given] or [makers[0]]
    beside = f" together with {' and '.join(f'{option} = {given[option]}' for option in others)}" if others else ""
    rule = f"is out of range{beside}: {fault.path} would be {fault.value}, which {fault.rule}"
    return InputFault(one, given.get(one, NO_VALUE), rule, fault.hint)


def _runs(scenario: Scenario, folder: Path) -> bool:
    """Return whether a run is not refused."""
    try:
        checked(scenario, folder)
    except InputError:
        return False
    return True


def _answer(given: str | None, question: str, usual: str) -> str:
    if given is not None or not sys.stdin.isatty():
        return usual if given is None else given
    answer: str = typer.prompt(question, default=usual)
    return answer


def _usual_change(state: str) -> str:
    """Return what is taken for the change: 50 MB, or the state if that is smaller."""
    try:
        return state if 0 < parse(state, "B") < _CHANGE_BYTES else _CHANGE
    except UnitError:  # which is said later
        return _CHANGE


class _Answers:
    """Reads answers, and remembers the faults of all."""

    def __init__(self) -> None:
        self.faults: list[InputFault] = []

    def quantity(self, option: str, text: str, dimension: str, *, zero: bool = False) -> float:
        """Return a quantity of more than zero, or also of none where that may be."""
        try:
            found = parse(text, dimension)
        except UnitError as error:
            self.faults.append(InputFault(option, text, error.rule, error.hint))
            return 1.0
        if found < 0 or (found == 0 and not zero):
            self.faults.append(InputFault(option, text, "must be more than zero"))
        return found

    def share(self, option: str, value: float) -> float:
        """Return a number between 0 and 1."""
        if not 0 < value < 1:
            self.faults.append(InputFault(option, value, "must be a number between 0 and 1", f"{option} 0.5"))
        return value

    def pair(self, option: str, text: str, example: str, what: str) -> tuple[int, int]:
        """Return the numbers on both sides of an x."""
        one, other = _counts(text)
        if not 0 < one * other <= _MOST_TASKS:
            rule = f"must be two whole numbers with an x between them, {_MOST_TASKS:,} {what} at most"
            self.faults.append(InputFault(option, text, rule, f"{option} {example}"))
        return one, other

    def count(self, option: str, text: str, least: int, most: int) -> int:
        """Return a whole number."""
        digits = text.strip()
        found = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 6 else -1
        if not least <= found <= most:
            self.faults.append(InputFault(option, text, f"must be a whole number from {least} to {most:,}"))
        return found


def _flink_job(rate: str, busy: float, state: str, change: str, taskmanagers: str, interval: str) -> FlinkJob:
    """Return the job; raises InputError with all faults at once."""
    read = _Answers()
    read.share("--busy", busy)
    hosts, slots = read.pair("--taskmanagers", taskmanagers, "6x4", "slots")
    job = FlinkJob(
        rate_per_s=read.quantity("--rate", rate, "1/s"),
        busy=busy,
        state_bytes=read.quantity("--state", state, "B"),
        change_bytes=read.quantity("--change", change, "B"),
        taskmanagers=hosts,
        slots=slots,
        interval_s=read.quantity("--interval", interval, "s"),
    )
    if not read.faults and job.change_bytes > job.state_bytes:
        read.faults.append(InputFault("--change", change, f"must be no more than the state, {state}"))
    raise_if_any(read.faults)
    return job


def _spark_query(
    rate: str, busy: float, state: str, record: str, executors: str, partitions: int, interval: str, start: str
) -> SparkQuery:
    """Return the query; raises InputError with all faults at once."""
    read = _Answers()
    read.share("--busy", busy)
    hosts, cores = read.pair("--executors", executors, "3x4", "cores")
    query = SparkQuery(
        rate_per_s=read.quantity("--rate", rate, "1/s"),
        busy=busy,
        state_bytes=read.quantity("--state", state, "B"),
        record_bytes=read.quantity("--record", record, "B"),
        executors=hosts,
        cores=cores,
        partitions=read.count("--partitions", str(partitions), 1, _MOST_TASKS),
        interval_s=read.quantity("--interval", interval, "s"),
        start_s=read.quantity("--start", start, "s"),
    )
    raise_if_any(read.faults)
    return query


def _kafka_streams_job(
    rate: str, busy: float, state: str, record: str, instances: str, partitions: str, standbys: int
) -> KafkaStreamsJob:
    """Return the job; raises InputError with all faults at once."""
    read = _Answers()
    read.share("--busy", busy)
    hosts, threads = read.pair("--instances", instances, "3x4", "threads")
    job = KafkaStreamsJob(
        rate_per_s=read.quantity("--rate", rate, "1/s"),
        busy=busy,
        state_bytes=read.quantity("--state", state, "B"),
        record_bytes=read.quantity("--record", record, "B"),
        instances=hosts,
        threads=threads,
        partitions=read.count("--partitions", partitions, 1, _MOST_TASKS),
        standbys=read.count("--standbys", str(standbys), 0, 100),
    )
    raise_if_any(read.faults)
    return job


def _storm_topology(rate: str, busy: float, state: str, supervisors: str, timeout: str, start: str) -> StormTopology:
    """Return the topology; raises InputError with all faults at once."""
    read = _Answers()
    read.share("--busy", busy)
    hosts, executors = read.pair("--supervisors", supervisors, "3x4", "executors")
    job = StormTopology(
        rate_per_s=read.quantity("--rate", rate, "1/s"),
        busy=busy,
        state_bytes=read.quantity("--state", state, "B", zero=True),
        supervisors=hosts,
        executors=executors,
        timeout_s=read.quantity("--timeout", timeout, "s"),
        start_s=read.quantity("--start", start, "s"),
    )
    raise_if_any(read.faults)
    return job


def _counts(text: str) -> tuple[int, int]:
    """Return the numbers on both sides of the x; zeros for anything else."""
    parts = text.lower().replace(" ", "").split("x")
    if len(parts) == 2 and all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return int(parts[0]), int(parts[1])
    return 0, 0
