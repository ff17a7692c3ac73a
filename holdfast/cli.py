"""The command line: finds commands, and turns each error into one line and an exit code.

Exit codes: 0 done, 1 the machine failed, 2 bad input, 3 infeasible, 4 a target missed or status unknown, 5 too little
evidence; 130 when interrupted. stdout is data, stderr is for messages.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

# Pydantic looks through all installed packages for plugins, which takes a fiftieth of a start; none concerns us.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# The threads of a matrix product wait for each other at full pace, for longer than such a product takes here, and each
# process of a sweep would have some.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

from holdfast import terminal
from holdfast._version import __version__
from holdfast.imports import shadowed
from holdfast.lazy_commands import LazyCommand, LazyGroup

if TYPE_CHECKING:
    from models.errors import InputError

MACHINE_FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
# how typer says that a path can have no such name -> how people do
_NO_PATHS = {
    "embedded null byte": "a path must not hold a null character",
    "surrogates not allowed": "a path must not hold half of a surrogate pair",
}

COMMANDS = {
    "run": LazyCommand("run", "run", "Simulate a scenario: latency, load, recoveries, what was lost."),
    "sweep": LazyCommand("sweep", "sweep", "Simulate every combination of the values of a scenario's [sweep]."),
    "compare": LazyCommand("compare", "compare", "Compare two designs: means, differences, intervals."),
    "reproduce": LazyCommand("reproduce", "reproduce", "Try the claims of papers again, beside their own figures."),
    "study": LazyCommand("study", "study", "From real flights to a report: ingest, plan, simulate designs."),
    "plan": LazyCommand("plan", "app", "Find the best plan for a problem file."),
    "verify": LazyCommand("verify", "verify", "Check a plan against its problem without any solver."),
    "availability": LazyCommand(
        "availability", "availability", "Say how often queries are broken by hosts that are down."
    ),
    "size": LazyCommand("size", "size", "Find the cheapest system for an availability and a recovery time."),
    "failures": LazyCommand("failures", "failures", "Read a failure log: MTTF, MTTR, and the laws that fit."),
    "fleet": LazyCommand("fleet", "fleet", "Simulate hosts that fail under queries that come and go."),
    "ingest": LazyCommand("ingest", "ingest", "Make a profile of a trace (needs Java)."),
    "validate": LazyCommand("validate", "validate", "Check a scenario file and say what deserves a second look."),
    "init": LazyCommand("init", "init", "Write a scenario file for a job of Flink, from a few answers."),
    "show": LazyCommand("show", "show", "Show a scenario: topology, placement, expected load, size."),
    "schema": LazyCommand("library", "schema", "Print the JSON schema of a kind of files."),
    "library": LazyCommand("library", "library", "List the scenarios that come with holdfast, or print one."),
    "doctor": LazyCommand("doctor", "doctor", "Check that everything required is installed."),
}


class _Commands(LazyGroup):
    """The commands of holdfast."""

    table = COMMANDS


def _version(asked: bool) -> None:
    if asked:
        print(f"holdfast {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@app.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """What-if answers and best plans for stateful stream-processing clusters.

    stdout is data, with --json exactly one JSON document; stderr is for messages. Exit codes: 0 done, 1 the
    machine failed, 2 bad input, 3 infeasible, 4 a target missed or status unknown, 5 too little evidence.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            # Names of files may hold bytes that the terminal's encoding has not: shown escaped, not a traceback.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    logging.disable(logging.CRITICAL)  # libraries log what they raise, with its stack; what we say is in the exception
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Filled once the command is over: `atexit` has to be registered before, to be called last.
    codes: list[int] = []
    if arguments is None:  # this process is ours
        atexit.register(_leave, codes)  # as the first it is the last that is called
    # Without arguments the help is what is meant; typer alone would call that a usage error.
    codes.append(_guarded(given or ["--help"]))
    sys.exit(codes[0])


def _leave(codes: list[int]) -> None:
    """Leave with the exit code of a command that has ended, without the interpreter's own end.

    That end takes all modules apart, for a tenth of the time of a short run. And if Ctrl-C comes while the interpreter
    executes source text, as it does for each dataclass that is imported, the interpreter remembers it, and kills itself
    by SIGINT at its end instead of leaving with the code.
    """
    if codes:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # All other functions of `atexit` have been called, all files are closed, and all output has been flushed.
        os._exit(codes[0])


def _guarded(arguments: list[str]) -> int:
    """Return the exit code; what goes wrong because of what was given becomes a line on stderr."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()  # whoever read it has gone: nothing to say
        return BROKEN_PIPE
    except OSError as error:
        from models.errors import MACHINE_FAULTS  # noqa: PLC0415 - only after the check that it is ours

        if error.errno not in MACHINE_FAULTS:
            raise
        _drop_stdout()
        terminal.error((error.strerror or str(error)).lower())
        return MACHINE_FAILED
    except (KeyboardInterrupt, typer.Abort):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only disturb the leaving
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except SystemExit as left:
        # typer leaves by itself when stdout is closed; the reason is what it was handling.
        reason = left.__context__
        if isinstance(reason, OSError) and reason.errno == errno.EPIPE:
            return BROKEN_PIPE
        raise
    except MemoryError:
        terminal.error("the memory of this machine is not enough for this")
        return BAD_INPUT
    if code == INTERRUPTED:  # typer says nothing when a key stops it
        print("interrupted", file=sys.stderr)
    return code


def _drop_stdout() -> None:
    """Redirect stdout to nowhere, so that the interpreter has nothing left to write at its end."""
    with contextlib.suppress(OSError, ValueError):  # in a test it may be no file
        # The buffer still holds what could not be written: the flush at exit would fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    """Return the exit code of a command; each error that is not a defect becomes one line on stderr."""
    # Before any import of ours: a folder `models` in the working directory would answer in its place.
    hidden = shadowed()
    if hidden:
        terminal.error(hidden)
        return BAD_INPUT
    # Only after the check that they are ours.
    from models.errors import MACHINE_FAULTS, InputError, MissingTool, WorkerLost, shortened  # noqa: PLC0415

    try:
        # Not standalone: errors come as exceptions, and become our lines and exit codes.
        result = app(arguments, prog_name="holdfast", standalone_mode=False)
    except InputError as error:
        _print_faults(error)
        return BAD_INPUT
    except MissingTool as error:
        terminal.error(error)
        return BAD_INPUT
    except WorkerLost as error:
        terminal.error(error)
        return MACHINE_FAILED
    except typer.Exit as error:
        return int(error.exit_code)
    except OSError as error:
        # An OSError without a file is none of the user's paths: `_guarded` decides.
        if isinstance(error, BrokenPipeError) or error.filename is None:
            raise
        terminal.error(f"{shortened(str(error.filename))}: {(error.strerror or str(error)).lower()}")
        return MACHINE_FAILED if error.errno in MACHINE_FAULTS else BAD_INPUT
    except Exception as error:
        # All else is a defect of holdfast, and keeps its traceback.
        if not _is_usage_error(error):
            raise
        _print_usage(error)
        return BAD_INPUT
    # With standalone_mode off typer returns the exit code of `typer.Exit` as the result.
    return result if isinstance(result, int) else 0


def _print_faults(error: InputError) -> None:
    for line in error.lines():
        terminal.error(line)


def _is_usage_error(error: Exception) -> bool:
    """Return whether click made this error of the arguments; typer may bring its own click: no one class."""
    return any(kind.__name__ == "ClickException" for kind in type(error).__mro__)


def _print_usage(error: Any) -> None:
    """Print a usage error as one line, and where the help is."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        print(context.get_help(), file=sys.stderr)
        return
    option, _, fault = error.format_message().rpartition("Value error, ")  # typer's mark of a value that is refused
    rule = next((rule for ending, rule in _NO_PATHS.items() if fault.endswith(ending)), fault)
    terminal.error(option + rule)
    if context is not None:
        print(f"see: {terminal.clean(context.command_path)} --help", file=sys.stderr)
