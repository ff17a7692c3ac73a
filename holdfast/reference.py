"""The generated reference pages: `python -m holdfast.reference` writes them to docs/reference."""

from __future__ import annotations

import importlib
import inspect
import re
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow.parquet as pq
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import holdfast
from holdfast.cli import COMMANDS
from holdfast.file_kinds import KINDS, described
from holdfast.lazy_commands import functions_of
from models import display, units
from models.fleet import records as fleet_records
from models.records.tables import HISTOGRAM_TABLES, TABLES, RunRecords, table
from models.scenario.engine import ENGINE_TABLES, Engine, versions_of
from models.scenario.file_keys import dimension_of, entry_of, fields_of, models_in, options, tag_of_model
from models.schema_types import meanings
from scenarios.runs.store import DERIVED, OF_HISTOGRAMS, RAW, STORED, write_run

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
_WRITTEN = "This page is written by `python -m holdfast.reference`; change the code, not the page.\n"
WRITTEN_BY_HAND = frozenset({"data-plane.md", "glossary.md", "report.md", "simulator.md"})
"""Pages beside the generated ones, which `write` leaves alone."""
_WHOLE = "The file"
_MISSING = {
    "flink": "Flink has no default for it.",
    "spark": "Spark runs batches back to back where no trigger is set.",
}
_COMPARED = {
    "flink": "How well it predicts recorded recoveries is [measured](../explanation/flink-recordings.md).",
    "spark": "How well it predicts recorded recoveries is [measured](../explanation/spark-recordings.md).",
    "kafka-streams": "All of it is from the manual and the source text, and was not compared with recordings.",
    "storm": "All of it is from the manual and the source text, and was not compared with recordings.",
}
_KINDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}


def pages() -> dict[str, str]:
    """Return file name -> text of every generated page."""
    keys = {f"{kind}.md": keys_page(kind) for kind in KINDS}
    engines = {f"{name}.md": engine_page(name) for name in ENGINE_TABLES}
    return keys | engines | {"api.md": api_page(), "cli.md": cli_page(), "records.md": records_page()}


def keys_page(kind: str) -> str:
    """Return every key of a kind of file with type, unit, default and meaning; for fleets also the tables."""
    text = _keys_page(kind)
    return text if kind != "fleet" else f"{text}\n{_tables_of_fleet()}"


def engine_page(name: str) -> str:
    """Return what an engine brings, by version, and what of it is modelled."""
    engine, versions = Engine.model_validate({"name": name}), versions_of(name)
    short = engine.short
    like = f'{{ name = "{name}", version = "{versions[min(2, len(versions) - 1)]}" }}'
    parts = [
        f"# {short} as an engine\n",
        _WRITTEN,
        f'With `engine = "{name}"`, or `{like}`, a scenario has the values of '
        f"{short} where it says nothing, and its rules in any case. `holdfast show FILE --defaults` prints those of a "
        f"file. {_COMPARED[name]}\n",
        "## What it brings\n",
        f"| key | value | option of {short} | source |\n|---|---|---|---|",
    ]
    for one in engine.defaults:
        beside = f" with `{one.when[1]}`" if one.when else ""
        beside += f" where there is `{one.where}`" if one.where else ""
        parts.append(f"| `{one.path}` | `{_toml(one.value)}`{beside} | {_code(one.option)} | {one.source} |")
    latest = {(one.path, one.when): one.value for one in engine.defaults}
    others = [
        f"| {version} | `{one.path}` | `{_toml(one.value)}` |"
        for version in versions
        for one in Engine.model_validate({"name": name, "version": version}).defaults
        if one.value != latest[one.path, one.when]
    ]
    if others:
        parts += ["\nOther versions differ in:\n\n| version | key | value |\n|---|---|---|", *others]
    missing = f" A scenario has to say `fault_tolerance.interval`: {_MISSING[name]}" if name in _MISSING else ""
    parts.append(f"\nVersions: {', '.join(versions)}.{missing}\n")
    parts.append("## What of it is there\n\n| behaviour | | how | keys |\n|---|---|---|---|")
    for what in engine.behaviours:
        keys = ", ".join(f"`{path}`" for path in what.paths)
        parts.append(f"| {what.name} | {what.status.value} | {what.text} | {keys} |")
    return "\n".join(parts) + "\n"


def _code(option: str) -> str:
    """Return the key of an option as code; words stay as they are."""
    key, colon, rest = option.partition(": ")
    return f"`{key}`{colon}{rest}" if "." in key else option


def _tables_of_fleet() -> str:
    """Return the part of a page about the tables that `holdfast fleet --out` writes."""
    parts = ["# Its tables\n"]
    parts.append("What `--out` writes, a file for each; before these columns stands the number of the replication.\n")
    for name, columns in fleet_records.TABLES.items():
        parts.append(f"## `{name}`\n\n| column | type | unit | meaning |\n|---|---|---|---|")
        for one in columns:
            parts.append(f"| `{one.name}` | {one.dtype} | {one.unit} | {_paragraph(one.meaning)} |")
        parts.append("")
    return "\n".join(parts)


_QUANTITIES = """\
A quantity is text with a unit, such as `"5 s"`; counts are bare numbers. NAME is a name that you choose, [] an \
entry of a list.
"""
_NUMBERS = """\
Numbers are bare, in the unit that the meaning states. What is null is not given. An NPZ file has an array for each key.
"""


def _keys_page(kind: str) -> str:
    """Return the page of a kind of file: a section for each model, breadth first from the whole file.

    A model that several keys may have, such as a distribution, has its section where it comes first.
    """
    root = described(kind)
    of = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    commands = ", ".join(f"`holdfast {one}`" for one in KINDS[kind].commands)
    suffixes = " or ".join(KINDS[kind].suffixes)
    parts = [
        f"# Keys of {of} file\n",
        _WRITTEN,
        f"Read by {commands}; its name ends in {suffixes}. `holdfast schema {kind}` prints the JSON schema.\n",
        _NUMBERS if KINDS[kind].module == "models.planning.problem_files" else _QUANTITIES,
    ]
    places: dict[type[BaseModel], list[str]] = {}
    # A queue, so that sections stand in the order of depth: the keys of the whole file first.
    waiting: list[tuple[str, type[BaseModel]]] = [(_WHOLE, root)]
    while waiting:
        title, model = waiting.pop(0)
        titles = places.setdefault(model, [])
        if title in titles:
            continue
        titles.append(title)
        for key, field in fields_of(model).items():
            inner = f"{'' if model is root else title + '.'}{key}"
            entry = _map_entry(field.annotation)
            if entry is not None:
                inner += "[]" if not _is_map(field.annotation) else ".NAME"
            found = models_in(field.annotation if entry is None else entry)
            for option in found:
                tag = tag_of_model(option)
                title_of = f'{inner}, {tag[0]} = "{tag[1]}"' if tag and len(found) > 1 else inner
                waiting.append((_one_of_rates(title_of, option) if key == "rate" else title_of, option))
    parts += [_section(titles, model) for model, titles in places.items()]
    return "\n".join(parts)


def _map_entry(annotation: Any) -> Any:
    """Return the type of the entries of a map if a value may be one, else of a list."""
    maps = [option for option in options(annotation) if _is_map(option)]
    return entry_of(maps[0] if maps else annotation)


def _one_of_rates(title: str, model: type[BaseModel]) -> str:
    """Return the title of a kind of rate, which its first key identifies."""
    return f"{title} = {{ {next(iter(fields_of(model)))} = ... }}"


def _is_map(annotation: Any) -> bool:
    return any(get_origin(option) is not tuple and entry_of(option) is not None for option in options(annotation))


def _section(titles: Sequence[str], model: type[BaseModel]) -> str:
    """Return one model as a table of its keys; `titles`: the places where a file may have it."""
    title, *others = titles
    name = title if title == _WHOLE else f"`{title}`"
    lines = [f"## {name}\n", _paragraph((model.__doc__ or "").split("\n\n")[0]) + "\n"]
    if others:
        tag = tag_of_model(model)
        ending = f', {tag[0]} = "{tag[1]}"' if tag else ""
        lines.append(f"Also for {', '.join(f'`{other.removesuffix(ending)}`' for other in others)}.\n")
    if not fields_of(model):
        return "\n".join(lines)
    lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
    said = meanings(model)
    for name, field in model.model_fields.items():
        key = field.alias or name
        meaning = _paragraph(said.get(name) or _tag_meaning(field))
        # The key that selects the model has a default in the class, but a file has to state it.
        must_be_said = title.endswith(f'{key} = "{(tag_of_model(model) or ("", ""))[1]}"')
        default = "(required)" if must_be_said else _default_text(field)
        lines.append(f"| `{key}` | {_type_text(field)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _tag_meaning(field: FieldInfo) -> str:
    return "Says which of the tables of this place it is." if get_origin(field.annotation) is Literal else ""


def _paragraph(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def _type_text(field: FieldInfo) -> str:
    wider = (getattr(mark, "json_schema_input_type", PydanticUndefined) for mark in field.metadata)
    annotation = next((found for found in wider if found is not PydanticUndefined), field.annotation)
    return " or ".join(dict.fromkeys(_kind_texts(annotation, field.metadata)))


def _kind_texts(annotation: Any, metadata: Any = ()) -> Iterator[str]:
    """Yield the types that a key may have, in words; those of a union one by one."""
    if get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            # `None` means that a key may be left out, which the column of defaults says.
            yield from _kind_texts(part) if part is not type(None) else ()
        return
    dimension = dimension_of(annotation, metadata)
    entry = entry_of(annotation)
    if dimension is not None and entry is None:
        yield f'quantity, as in `"{units.example(dimension)}"`'
        return
    if entry is not None:
        inner = " or ".join(dict.fromkeys(_kind_texts(entry)))
        yield f"table of names to {inner}" if _is_map(annotation) else f"list of {inner}"
        return
    for option in options(annotation):
        if get_origin(option) is Literal:
            yield ", ".join(f"`{value}`" for value in get_args(option))
        elif isinstance(option, type) and issubclass(option, BaseModel):
            tag = tag_of_model(option)
            yield f"table (`{tag[1]}`)" if tag else "table"
        else:
            yield _KINDS.get(option, "any value")


def _default_text(field: FieldInfo) -> str:
    """Return the default of a key as a scenario file would write it."""
    if field.is_required():
        return "(required)"
    if field.default_factory_takes_validated_data:  # the version of an engine
        return "the newest"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value == {}:
        return "none"
    dimension = dimension_of(field.annotation, field.metadata)
    if dimension is not None:
        return f'`"{units.show(float(value), dimension)}"`'
    if isinstance(value, BaseModel):
        given = value.model_dump(by_alias=True, mode="json", exclude_none=True)
        return "`{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in given.items() if entry != {}) + " }`"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def api_page() -> str:
    """Return every public name with its signature, the first paragraph of its docstring, and its example."""
    parts = ["# The Python API\n", _WRITTEN, _API]
    for title, names in _API_SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_name_text(name) for name in names]
    return "\n".join(parts)


_API = """\
`import holdfast` is light: a name is loaded when it is first used. All examples run in the tests, in a directory that
contains `examples`. Descriptions (such as `Scenario`) and plans are frozen values in SI units, with the unit at the end
of a field's name.
"""
# Written by hand for the order of reading; a test compares the names with `holdfast.__all__`.
_API_SECTIONS = {
    "Scenarios": (
        "Scenario",
        "LoadedScenario",
        "read_scenario",
        "scenario_from",
        "scenario_with",
        "scenario_text",
        "write_scenario",
        "warnings",
        "not_simulated",
        "expected_load",
        "estimate",
    ),
    "Runs": ("run", "RunResult"),
    "Sweeps and comparisons": ("sweep", "SweepResult", "read_sweep", "read_design", "compare_designs"),
    "Checkpoint allocation": (
        "CheckpointAllocation",
        "read_problem",
        "plan_checkpoints",
        "CheckpointPlan",
        "Status",
        "verify_checkpoints",
    ),
    "Availability": ("read_availability", "availability"),
    "Traces and profiles": ("ingest", "Profile", "read_profile", "write_profile"),
    "Errors and version": ("InputError", "InputFault", "MissingTool", "__version__"),
}


def examples_of(name: str) -> str:
    """Return the example of a public name: the end of its docstring, else of the docstring of its module.

    A class of a file's keys has it in its module, since its own docstring is part of the file's JSON schema.
    """
    found = getattr(holdfast, name)
    texts = [inspect.getdoc(found)] if inspect.isclass(found) or inspect.isfunction(found) else []
    home = found.__module__ if texts else "holdfast._version"
    texts.append(inspect.getdoc(importlib.import_module(home)))
    starts = [text[text.index(">>>") :] for text in texts if text and ">>>" in text]
    return starts[0] if starts else ""


def _name_text(name: str) -> str:
    """Return the entry of a public name: signature, first paragraph, example."""
    found = getattr(holdfast, name)
    said = "The version, as text." if isinstance(found, str) else (inspect.getdoc(found) or "").split("\n\n")[0]
    parts = [f"### `{name}`\n"]
    if signature := _signature(name, found):
        parts.append(f"    {signature.replace(chr(10), chr(10) + '    ')}\n")
    parts.append(re.sub(r"\s+", " ", said).strip() + "\n")
    parts.append(f"```python\n{examples_of(name)}\n```\n")
    return "\n".join(parts)


def _signature(name: str, found: Any) -> str:
    """Return how it is called; empty for texts, enumerations, and classes that only files make."""
    if not callable(found) or (inspect.isclass(found) and issubclass(found, Enum | BaseModel | RuntimeError)):
        return ""
    # From the code, not from the page: a parameter that is added appears with the next writing.
    signature = inspect.signature(found)
    parameters = signature.parameters.values()
    shown = [_parameter(one) for one in parameters]
    first = [k for k, one in enumerate(parameters) if one.kind is one.KEYWORD_ONLY][:1]
    if first:
        shown.insert(first[0], "*")
    end = ")" if inspect.isclass(found) else f") -> {signature.return_annotation}"
    line = f"{name}({', '.join(shown)}{end}"
    return line if len(line) <= _WIDTH else f"{name}(\n    " + ",\n    ".join(shown) + f",\n{end}"


_WIDTH = 110


def _parameter(one: inspect.Parameter) -> str:
    """Return a parameter with its type; a default that is no plain value is shown as dots."""
    text = ("*" if one.kind is one.VAR_POSITIONAL else "") + one.name
    if one.annotation is not one.empty:
        text += f": {one.annotation}"
    if one.default is one.empty:
        return text
    plain = one.default is None or isinstance(one.default, str | int | float | tuple)
    return f"{text} = {one.default!r}" if plain else f"{text} = ..."


def cli_page() -> str:
    """Return every command with its arguments and options."""
    parts = ["# The command line\n", _WRITTEN, _EXIT_CODES]
    for name, command in COMMANDS.items():
        parts.append(f"## holdfast {name}\n\n{command.summary}\n")
        found = list(functions_of(f"holdfast {name}", command))
        for title, function in found:
            parts.append(_command_text(title, function, heading=len(found) > 1 or title != f"holdfast {name}"))
    return "\n".join(parts)


_EXIT_CODES = """\
stdout is data (`--json`: exactly one JSON document), stderr is for messages.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the machine failed: a disk is full, a worker process was killed |
| 2 | bad input, or something needed is missing |
| 3 | infeasible |
| 4 | a target missed, a plan that does not hold, or status unknown |
| 5 | too little evidence |
| 130 | interrupted |
"""


def _command_text(title: str, function: Callable[..., Any], *, heading: bool) -> str:
    """Return the help text of a command and a table of its arguments and options."""
    lines = [f"### {title}\n"] if heading else []
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    lines += ["\n\n".join(_paragraph(part) for part in paragraphs) + "\n"]
    lines += ["| argument or option | default | meaning |", "|---|---|---|"]
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])[:2]
        shown, help_text = _option_name(name, kind, info), _paragraph(info.help or "")
        lines.append(f"| `{shown}` | {_option_default(parameter.default)} | {help_text} |")
    return "\n".join(lines) + "\n"


def _option_name(name: str, kind: Any, info: Any) -> str:
    """Return how the parameter is written: `FILE`, `--json`, `--seed N`."""
    # With Annotated, typer keeps the first name that an option is given as its default.
    given = [info.default] if isinstance(info.default, str) else []
    given += list(getattr(info, "param_decls", None) or [])
    declared = ", ".join(given or [f"--{name.replace('_', '-')}"])
    if type(info).__name__ == "ArgumentInfo":
        # click adds these dots itself; a metavar with its own would have them twice in --help.
        several = any(get_origin(one) is list for one in (kind, *get_args(kind)))
        return f"{info.metavar or name.upper()}{'...' if several else ''}"
    plain = next(options(kind), kind)
    if plain is bool:
        return declared
    return f"{declared} {info.metavar or {int: 'N', float: 'X', Path: 'PATH'}.get(plain, 'TEXT')}"


def _option_default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "(required)"
    return "none" if value is None or value is False else f"`{value}`"


def records_page() -> str:
    """Return every Parquet file of a run with its columns, types, units and meanings, read from empty files."""
    interval_s = inspect.signature(write_run).parameters["interval_ns"].default / 1e9
    parts = ["# Records of a run\n", _WRITTEN, _RECORDS, f"An interval is {display.duration(interval_s, 6)}.\n"]
    schemas = _schemas_of_a_run()
    for title, names in (
        ("Always there", (*DERIVED, *STORED)),
        ("Only of a run recorded as histograms", OF_HISTOGRAMS),
        ("Only with `--raw`", RAW),
    ):
        parts.append(f"## {title}\n")
        for name in names:
            parts.append(f"### `{name}.parquet`\n\n| column | type | unit | meaning |\n|---|---|---|---|")
            parts += [_record_row(field) for field in schemas[name]]
            parts.append("")
    return "\n".join(parts)


_RECORDS = """\
`holdfast run FILE --out DIR` writes `scenario.toml`, `summary.json`, `report.html` and these Parquet files into DIR.
Every Parquet file holds all replications, told apart by the column `replication`.

Instants are whole nanoseconds since the run began. Operators, tasks and hosts stand with their names. Null is an
instant that did not come before the end of the run, a quantile of an interval without a delivery, and a host where
there is none. Unit and meaning of each column are in the file too, as metadata of its field.

A run is recorded by tuples or as histograms (`recording.detail`). From histograms quantiles are off by at most 0.4 %,
`--raw` cannot give visits and deliveries, and intervals are longer than stated below in runs of more than an hour.

Where a simulated record stands for several (`resolution` of the scenario and of `summary.json`), columns of tuples
count those of the job. Rows of `visits`, `waiting`, `deliveries` and `dropped`, and the counts of `times` and
`time_bins`, are about simulated ones.
"""
_PARQUET_TYPES = {"double": "float64", "string": "text"}


def _schemas_of_a_run() -> dict[str, Any]:
    """Return table -> Arrow schema, from runs in which nothing happened: the written files are the definition."""
    nothing = {name: table(name, []) for name in (*TABLES, *HISTOGRAM_TABLES)}
    # An empty run has all tables of a real one: schemas do not depend on rows.
    binned = RunRecords(0, 0, 1, (), (), (), (), (), nothing)
    with tempfile.TemporaryDirectory() as folder:
        written = [
            *write_run(Path(folder) / "histograms", "", {}, [binned]).glob("*.parquet"),
            *write_run(Path(folder) / "tuples", "", {}, [], raw=True).glob("*.parquet"),
        ]
        return {path.stem: pq.read_schema(path) for path in sorted(written)}


def _record_row(field: Any) -> str:
    unit, meaning = ((field.metadata or {}).get(key, b"").decode() for key in (b"unit", b"meaning"))
    kind = _PARQUET_TYPES.get(str(field.type), str(field.type))
    return f"| `{field.name}` | {kind} | {unit or '-'} | {_paragraph(meaning)} |"


def write(folder: Path = FOLDER) -> None:
    """Write every page into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
