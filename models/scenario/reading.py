"""From plain tables, as a TOML file gives them, to a Scenario, with all faults at once where that cannot be; and back.

Shapes are checked first. What is broken is then left out and the rest is checked for references and
consistency, so that one misspelt key does not hide a missing input.

The design points of a sweep are every combination of the values of `sweep`.

`raw_of` is the way back: quantities as text with units, defaults left out.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pydantic import BaseModel, ValidationError

from models import units
from models.engines.behaviours import EngineDefault
from models.errors import NO_VALUE, InputError, InputFault, raise_if_any
from models.scenario.changes import VERSION, changed, set_by_design, split_path, swept_in_designs, with_design
from models.scenario.description import FORMAT
from models.scenario.engine import ENGINE_TABLES, Engine, applies, values_at, with_defaults, without
from models.scenario.fault_tolerance import PlanFile
from models.scenario.file_keys import dimension_of, entry_of, fields_of, tag_of_model
from models.scenario.scenario import Scenario
from models.scenario.workload import ConstantRate
from models.schema_types import FROM_FILE
from models.validation_messages import Step, faults_of, path_text


def raw_of(scenario: Scenario) -> dict[str, Any]:
    """Return the tables whose reading by `models.scenario.reading.scenario_from` gives the same scenario.

    >>> from models.scenario.reading import scenario_from
    >>> job = {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}}
    >>> raw = {"format": 1, "duration": "10 min", "operators": job,
    ...        "workload": {"a": {"rate": "5 /s"}}, "hosts": {"worker": {}}}
    >>> raw_of(scenario_from(raw)) == raw
    True
    """
    defaults = () if scenario.engine is None else scenario.engine.defaults
    # What the engine says is written first, also where it is the default of a scenario without an engine.
    keep = ["format", *(one.path for one, _ in engine_values(scenario))]
    if defaults and "interval_s" in scenario.fault_tolerance.model_fields_set:
        keep.append("fault_tolerance.interval")  # an engine may have no default for it
    if "engine" in scenario.sweep:  # each of the others would bring what the file says and this one leaves out
        keep += _said(
            scenario, {one.path for other in _ENGINES for one in other.defaults} | {"fault_tolerance.interval"}
        )
    made = _table(scenario, keep)
    for default in defaults:
        without(made, default.path.split("."), default.value, scenario._by_engine)
    return made


def _said(scenario: Scenario, paths: set[str]) -> Iterator[str]:
    """Yield those of these paths at which the file has a value itself; an entry of a table counts for all of them."""

    def says(value: Any, steps: Sequence[str]) -> bool:
        if steps[0] == "*":
            return any(says(entry, steps[1:]) for entry in value.values())
        name = next((name for name, field in type(value).model_fields.items() if steps[0] in (name, field.alias)), "")
        inner = getattr(value, name) if name in value.model_fields_set else None
        return inner is not None and (len(steps) == 1 or says(inner, steps[1:]))

    return (path for path in sorted(paths - scenario._by_engine) if says(scenario, path.split(".")))


def engine_values(scenario: Scenario) -> list[tuple[EngineDefault, bool]]:
    """Return what the scenario's engine brings, and whether its values hold, wherever they stand in the file."""
    defaults = () if scenario.engine is None else scenario.engine.defaults
    made = _table(scenario, keep=[one.path for one in defaults])
    brought = [one for one in defaults if applies(one, made)]
    return [(one, all(value == one.value for value in values_at(made, one.path))) for one in brought]


def _table(model: BaseModel, keep: Collection[str] = ()) -> dict[str, Any]:
    """Return the keys of one description that differ from their defaults; those in `keep`, by path, in any case."""
    tag = tag_of_model(type(model))
    always = {path.partition(".")[0] for path in keep} | ({tag[0]} if tag else set())
    table = {}
    attributes = [getattr(model, name) for name in type(model).model_fields]
    for (key, field), value in zip(fields_of(type(model)).items(), attributes, strict=True):
        # Defaults are left out, so that a file says only what its author chose; the tag that names the kind stays.
        is_default = not field.is_required() and value == field.get_default(call_default_factory=True)
        if value is None or (is_default and key not in always):
            continue
        entry = entry_of(field.annotation)
        dimension = dimension_of(field.annotation, field.metadata) if entry is None else dimension_of(entry)
        table[key] = _plain(value, dimension, _below(key, keep))
    return table


def _below(key: str, paths: Collection[str]) -> list[str]:
    """Return what is left of the paths below a key."""
    return [rest for head, _, rest in (path.partition(".") for path in paths) if head == key and rest]


def _plain(value: Any, dimension: str | None, keep: Collection[str] = ()) -> Any:
    """Return a value as a file has it; `dimension` is that of its numbers, and `keep` as in `_table`."""
    if isinstance(value, ConstantRate):
        return units.show(value.constant_per_s, "1/s")
    if isinstance(value, PlanFile) and value.plan.endswith(".json"):
        return value.plan
    if isinstance(value, Engine) and "version" not in value.model_fields_set:
        return value.name
    if isinstance(value, Engine):
        return {"name": value.name, "version": value.version}
    if isinstance(value, BaseModel):
        return _table(value, keep)
    if isinstance(value, Mapping):
        return {key: _plain(entry, dimension, _below("*", keep)) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(entry, dimension) for entry in value]
    is_word = isinstance(value, str)  # such as "drain", which some keys have in place of a quantity
    return value if dimension is None or is_word else units.show(float(value), dimension)


_ENGINES = tuple(Engine(name=name) for name in ENGINE_TABLES)
_TABLES = ("workload", "operators", "hosts", "events")  # a broken entry leaves the other entries usable
_STAND_IN: Mapping[str, Any] = {"duration": "1 s", "workload": {}, "operators": {}, "hosts": {}}
_MOST_TRIED = 1000  # scenarios that are made to check the values of a sweep
_ENOUGH = 20  # combinations in which a value has the same fault: it is the value's own
_NOT_VARIED = ("sweep", "replications", "format")


def scenario_from(raw: object, *, from_file: bool = True) -> Scenario:
    """Return the scenario that the tables describe.

    With `from_file` quantities must carry units; without it bare numbers are in SI units. Raises InputError
    with every fault: shapes, references, consistency, and sweep values that do not make a valid scenario.

    >>> from holdfast import scenario_from
    >>> scenario = scenario_from({
    ...     "duration": "1 min", "workload": {"a": {"rate": "5 /s"}}, "hosts": {"worker": {}},
    ...     "operators": {"a": {"kind": "source"}, "b": {"kind": "sink", "inputs": {"a": "shuffle"}}}})
    >>> scenario.duration_s
    60.0
    """
    scenario = _checked(raw, from_file=from_file)
    raise_if_any(swept_in_designs(scenario))
    raise_if_any(_sweep_faults(scenario))
    return scenario


def _checked(raw: object, *, from_file: bool) -> Scenario:
    """Return a scenario whose shapes and references are right; raises InputError with all faults."""
    if not isinstance(raw, Mapping):
        raise InputError.at("scenario", raw, "must be a table")
    _check_format(raw)
    raw = with_design(raw)
    context = FROM_FILE if from_file else {}
    try:
        scenario = _validated(raw, context)
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults = faults_of(details, raw, Scenario)
        broken = {_unit_of(entry["loc"]) for entry in details}
        # Faults of shape do not hide the others: the rest of the file is checked as if the broken parts were not there.
        raise InputError(*faults, *_faults_of_the_rest(raw, broken, context)) from None
    raise_if_any(_contradictions(scenario))
    return scenario


def _validated(raw: Mapping[str, Any], context: Mapping[str, Any]) -> Scenario:
    """Return the scenario of tables whose shapes are right; raises pydantic's ValidationError.

    `context` is FROM_FILE where keys are those of a file, and quantities need units; it is empty where code made the
    tables.
    """
    by_name = not context  # names of fields with units, such as duration_s, belong to code
    completed, filled = with_defaults(raw, Scenario)
    scenario = Scenario.model_validate(completed, by_alias=True, by_name=by_name, context=dict(context))
    scenario._by_engine = filled
    return scenario


def _check_format(raw: Mapping[str, Any]) -> None:
    """Raise InputError for a version of the format that is not known."""
    given = raw.get("format", FORMAT)
    if isinstance(given, bool) or not isinstance(given, int) or given != FORMAT:
        raise InputError.at("format", given, f"is not a format known here: {FORMAT} is")


def _unit_of(loc: tuple[Step, ...]) -> tuple[str, ...]:
    """Return the path of the part to leave out because of an error: an entry of a table, or a whole section."""
    if loc and loc[0] in _TABLES and len(loc) > 1:
        return str(loc[0]), str(loc[1])
    return (str(loc[0]),) if loc else ()


def _faults_of_the_rest(
    raw: Mapping[str, Any], broken: set[tuple[str, ...]], context: Mapping[str, Any]
) -> list[InputFault]:
    """Return the contradictions of the file without its broken entries and sections."""
    if ("engine",) in broken:
        return []  # much of the rest depends on it
    rest: dict[str, Any] = {}
    for key, value in raw.items():
        if (key,) in broken:
            continue
        if key in _TABLES and isinstance(value, Mapping):
            value = {name: entry for name, entry in value.items() if (key, name) not in broken}  # noqa: PLW2901
        rest[key] = value
    # Required keys that are missing, or broken, get a value that causes no fault of its own.
    for key, value in _STAND_IN.items():
        rest.setdefault(key, value)
    try:
        scenario = _validated(rest, context)
    except ValidationError:  # the rest cannot stand alone: the faults of shape have to do
        return []
    return _contradictions(scenario, frozenset(".".join(unit) for unit in broken))


def _contradictions(scenario: Scenario, broken: Collection[str] = ()) -> list[InputFault]:
    """Return the faults between keys; `broken` as in `models.scenario.rules.faults`."""
    # Rules load networkx and the models of steady states: only where there is a scenario to check.
    from models.scenario import rules  # noqa: PLC0415

    return rules.faults(scenario, broken)


def _sweep_faults(scenario: Scenario) -> Iterator[InputFault]:
    """Yield the faults of paths that cannot be varied, and of values that are in no valid scenario."""
    if not scenario.sweep:
        return
    base = raw_of(scenario)
    base.pop("sweep", None)
    paths: dict[str, Sequence[Any]] = {}
    for path, values in scenario.sweep.items():
        where = path_text(("sweep", path))
        if split_path(path)[0] in _NOT_VARIED:
            yield InputFault(where, NO_VALUE, "cannot be varied: it is the same for all designs")
        elif not values:
            yield InputFault(where, NO_VALUE, "must have a value at least")
        else:
            paths[path] = values
            for index, value in enumerate(values):
                if any(type(one) is type(value) and one == value for one in values[:index]):
                    yield InputFault(path_text(("sweep", path, index)), value, "is there already: each value once")
    yield from _values_that_never_fit(base, paths)


def _values_that_never_fit(base: Mapping[str, Any], paths: Mapping[str, Sequence[Any]]) -> Iterator[InputFault]:
    """Yield faults of values that fit neither alone nor with others; none if a thousand attempts cannot tell."""
    left = _MOST_TRIED
    for path, values in paths.items():
        others = {name: inner for name, inner in paths.items() if name != path}
        for index, value in enumerate(values):
            if left <= 0:
                return
            left -= 1
            # A value that fits alone is fine; one that does not may need another key of the sweep beside it.
            fault = _fault_of(base, {path: value})
            if fault is None:
                continue
            never, tried = _never_fits(base, {path: value}, others, fault, left)
            left -= tried
            if never:
                where = path_text(("sweep", path, index))
                own = fault.path == (path or '""')
                yield InputFault(where, value, fault.rule if own else f"gives {fault}", fault.hint if own else "")


def _never_fits(
    base: Mapping[str, Any],
    own: Mapping[str, object],
    others: Mapping[str, Sequence[Any]],
    fault: InputFault,
    most: int,
) -> tuple[bool, int]:
    """Return whether no combination makes a setting valid, as far as `most` of them can tell; how many were tried."""
    tried, faults = 0, {str(fault)}
    for settings in _combinations(own, others):
        if tried >= most:
            return tried >= _ENOUGH and fault.path in own and len(faults) == 1, tried
        found = _fault_of(base, settings)
        tried += 1
        if found is None:
            return False, tried
        faults.add(str(found))
    return True, tried


def _combinations(own: Mapping[str, object], others: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, object]]:
    """Yield all settings of a sweep with this one, neighbours far apart, since only the first may be tried.

    Numbers of combinations advance by about the golden ratio times their count, and coprime to it: every combination
    comes once, and any leading part of them is spread evenly over all.
    """
    count = math.prod(map(len, others.values())) if others else 0
    step = next(k for k in range(max(1, int(0.618 * count)), count + 2) if math.gcd(k, count) == 1)
    for number in range(count):
        place, settings = number * step % count, dict(own)
        for name, values in others.items():
            place, index = divmod(place, len(values))
            settings[name] = values[index]
        yield settings


def _fault_of(base: Mapping[str, Any], settings: Mapping[str, object]) -> InputFault | None:
    """Return the first fault of the scenario with the settings."""
    try:
        tables, wrong_paths = changed(base, settings)
        raise_if_any(wrong_paths)
        _checked(tables, from_file=True)
    except InputError as error:
        return error.faults[0]
    return None


def scenario_with(scenario: Scenario | Mapping[str, Any], changes: Mapping[str, object]) -> Scenario:
    """Return the scenario with other values at dotted paths such as "fault_tolerance.interval".

    Values are as in a file. Raises InputError for paths that no scenario has and for values that do not fit.

    >>> from holdfast import read_scenario, scenario_with
    >>> scenario = read_scenario("examples/two-hosts.toml").scenario
    >>> scenario_with(scenario, {"fault_tolerance.interval": "1 s"}).fault_tolerance.interval_s
    1.0
    """
    raw = raw_of(scenario) if isinstance(scenario, Scenario) else scenario
    tables, faults = changed(raw, changes)
    return _with_faults(tables, [*faults, *set_by_design(tables, changes)])


def scenario_with_settings(raw: Mapping[str, Any], settings: Mapping[str, str]) -> Scenario:
    """Return the scenario of a file with settings of a command line: each text is a TOML value if it can be.

    `raw`: tables of the file. `settings`: dotted path -> text, as in `--set duration="10 s"`. Text that is no TOML
    value is taken as it is, so that units need no quotes. Raises InputError as `scenario_with` does.
    """
    values = {path: _toml_value(text) for path, text in settings.items()}
    for path in settings.keys() & {VERSION}:  # a text, also where it looks like a number: 1.20 is not 1.2
        values[path] = values[path] if isinstance(values[path], str) else settings[path]
    tables, faults = changed(raw, values)
    return _with_faults(tables, [*faults, *set_by_design(tables, values)])


def _with_faults(tables: Mapping[str, Any], faults: list[InputFault]) -> Scenario:
    """Return the scenario, or an InputError with the faults that are known already and those of the tables."""
    try:
        scenario = scenario_from(tables)
    except InputError as error:
        raise InputError(*faults, *error.faults) from None
    raise_if_any(faults)
    return scenario


def _toml_value(text: str) -> object:
    """Return the value that the text is in TOML; the text itself if it is none."""
    try:
        found = tomllib.loads(f"value = {text}\n")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text


@dataclass(frozen=True)
class DesignPoint:
    """One combination of the values of a sweep.

    `number`: its place, from 0, in the order of `design_points`. `settings`: dotted path -> value as in a file.
    """

    number: int
    settings: Mapping[str, object]

    def of(self, scenario: Scenario) -> Scenario:
        """Return the scenario of this point, which has no sweep.

        Raises InputError where values that are fine alone do not go together.
        """
        raw = raw_of(scenario)  # with what other engines of the sweep would change
        raw.pop("sweep", None)
        return scenario_with(raw, self.settings)


def number_of_points(scenario: Scenario) -> int:
    """Return how many combinations there are; 1 without a sweep."""
    return math.prod(len(values) for values in scenario.sweep.values())


def design_points(scenario: Scenario) -> Iterator[DesignPoint]:
    """Yield all combinations, numbered from 0; the last path of the file varies fastest.

    >>> from holdfast import read_scenario
    >>> scenario = read_scenario("examples/two-hosts.toml").scenario
    >>> sweep = {"duration": ["40 s", "50 s"], "seed": [1, 2]}
    >>> swept = scenario_with(scenario, {"sweep": sweep})
    >>> [tuple(point.settings.values()) for point in design_points(swept)]
    [('40 s', 1), ('40 s', 2), ('50 s', 1), ('50 s', 2)]
    """
    paths = list(scenario.sweep)
    for number, values in enumerate(product(*scenario.sweep.values())):
        yield DesignPoint(number, dict(zip(paths, values, strict=True)))
