"""Options that commands share, and their checks: each fault names the option as it was written, with a hint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Literal

import typer

from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.schema_types import seed_faults
from models.units import UnitError, parse
from models.validation_messages import similar

File = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file, or a name of the library")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change one value; may be repeated")
]
On = Annotated[Literal["local", "spark"], typer.Option("--on", help="Processes of this machine, or Spark")]
OnWorkers = Annotated[int, typer.Option("--workers", min=1, help="Processes, or threads of Spark on this machine")]
Master = Annotated[str | None, typer.Option("--master", help="Master URL of a Spark cluster that sees --out")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document")]


def refuse_limits(time_limit: float, seed: int = 0, workers: int = 1) -> None:
    """Raise InputError for a time limit, a seed and a number of workers that cannot be meant, all at once."""
    # One message for all three, as for the keys of a file.
    raise_if_any(_faulty_limits(time_limit, seed, workers))


def _faulty_limits(time_limit: float, seed: int, workers: int) -> Iterator[InputFault]:
    if not (time_limit > 0 and math.isfinite(time_limit)):
        yield InputFault("--time-limit", time_limit, "must be a positive number of seconds", "--time-limit 60")
    yield from seed_faults("--seed", seed)
    if workers < 1:
        yield InputFault("--workers", workers, "must be a whole number, at least 1", "--workers 1")


def refuse_master(master: str | None, on: str) -> None:
    """Raise InputError for a Spark master where no Spark is asked for."""
    if master is not None and on != "spark":
        raise InputError.at("--master", master, "is for --on spark")


def refuse_method(method: str, known: Sequence[str]) -> None:
    """Raise InputError for a method that there is not."""
    if method not in known:
        rule = "must be one of " + ", ".join(known)
        raise InputError.at("--method", method, rule, similar(method, known) or f"--method {known[0]}")


def bytes_of(memory: str) -> float | None:
    """Return the bytes of --memory, None where it is not given; raises InputError."""
    try:
        found = parse(memory, "B") if memory else None
    except UnitError as error:
        raise InputError.at("--memory", memory, error.rule, error.hint) from error
    if found is not None and found <= 0:
        raise InputError.at("--memory", memory, "must be above 0", "--memory '2 GB'")
    return found


@contextmanager
def as_options(given: Mapping[str, str]) -> Iterator[None]:
    """Name faults of values that came from options (path -> option) by these options within the block."""
    try:
        yield
    except InputError as error:
        raise InputError(*(_as_option(one, given) for one in error.faults)) from None


def _as_option(fault: InputFault, given: Mapping[str, str]) -> InputFault:
    option = given.get(fault.path)
    if option is None or fault.value is NO_VALUE:
        return fault
    return replace(fault, path=option, hint=fault.hint or f"leave {option} out, or give another number")


def option_names(names: Iterable[str]) -> dict[str, str]:
    """Return parameter -> option as it is written."""
    return {name: "--" + name.replace("_", "-") for name in names}
