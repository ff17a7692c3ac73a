"""pydantic's errors in this project's words: paths as in the file, one fault for each key, with a hint.

`faults_of` turns the errors of a validation into faults. The functions about names are used by other rules, too: each
message that refuses a name suggests the nearest one that exists.
"""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from models import display
from models.errors import NO_VALUE, InputError, InputFault, LazyHint
from models.scenario.file_keys import children_at, example_at
from models.schema_types import FROM_FILE

_SCALAR_BRANCH = {"literal_error", "int_type", "int_from_float", "float_type", "string_type"}
_TABLE_BRANCH = {"model_type", "model_attributes_type", "dict_type", "mapping_type"}
_TAG_KEYS = ("distribution", "model", "kind")
_RATE_TAGS = {"constant", "steps", "ramp", "series", "profile"}
_NAME_RULE = "a name starts with a letter and holds letters, digits and underscores, 64 at most"

_STEP = re.compile(r"[.\[]")  # where a path goes on
_MOST_COMPARED = 200  # names with which difflib compares one, at some 30 us each

Step = str | int
M = TypeVar("M", bound=BaseModel)


def path_text(steps: Iterable[Step]) -> str:
    """Return the path as messages show it: dots between keys, numbers in brackets, odd keys in quotes.

    >>> path_text(("sweep", "a.b", 1))
    'sweep."a.b"[1]'
    """
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + _key_text(step)
    return text


def _key_text(key: str) -> str:
    """Return a key as paths show it: in quotes unless it is plain ASCII, and not longer than 80 characters."""
    shown = key if len(key) <= 80 else key[:77] + "..."
    plain = shown and all(c.isascii() and (c.isalnum() or c in "_-") for c in shown)
    return shown if plain else '"' + (shown if shown.isprintable() else repr(shown)[1:-1]) + '"'


def nearest(key: str, known: Iterable[str]) -> str:
    """Return a hint that names the known key nearest to `key`, or the few that exist; "" when there is none.

    Up to 12 known names are listed if none is near. Of many names only the 200 most alike are compared.

    >>> nearest("paralelism", ["parallelism", "kind"]), nearest("x", ["a", "b"])
    ('did you mean parallelism?', 'known here: a, b')
    """
    names = list(known)
    close = similar(key, names)
    if not close and 0 < len(names) <= 12:
        return "known here: " + ", ".join(_key_text(name) for name in names)
    return close


def similar(key: str, known: Iterable[str]) -> str:
    """Return the hint of `nearest` where the rule lists what is known: a name that is like the key, or ""."""
    close = difflib.get_close_matches(key[:80], _most_alike(key[:80], list(known)), n=1, cutoff=0.6)
    return f"did you mean {_key_text(close[0])}?" if close else ""


def nearest_if_shown(key: str, known: Collection[str], besides: str | None = None) -> LazyHint:
    """Return the hint of `nearest` among others than `besides`, for faults that may be thousands.

    `known` must not change.

    The search is made only for faults that are shown (`errors.MOST_SHOWN`), when the error becomes text.
    """
    return LazyHint(lambda: nearest(key, (name for name in known if name != besides)))


def _most_alike(key: str, names: list[str]) -> list[str]:
    """Return the names that begin and end most like the key, in their order; all where they are few."""
    if len(names) <= _MOST_COMPARED:
        return names

    def shared(index: int) -> int:
        return _alike(key, names[index]) + _alike(key[::-1], names[index][::-1])

    return [names[index] for index in sorted(heapq.nlargest(_MOST_COMPARED, range(len(names)), key=shared))]


def _alike(one: str, other: str) -> int:
    """Return with how many equal characters two texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def faults_of(errors: Sequence[ErrorDetails], raw: object, root: type[BaseModel]) -> list[InputFault]:
    """Return one fault for each key that pydantic complains about, in the order of its errors.

    `raw` is what was validated; `root` its model, for the names of the keys that were possible.

    For a union pydantic complains about every alternative. Of the complaints about one key, the first is kept that
    belongs to the alternative that was written: those about tables for a table, those about plain values for a plain
    value.
    """
    # pydantic reports an error for each branch of a union: they belong to one key, and one of them is what was meant.
    by_path: dict[tuple[Step, ...], list[ErrorDetails]] = {}
    for error in errors:
        by_path.setdefault(tuple(_file_path(error, raw)), []).append(error)
    parents = {path[:end] for path in by_path for end in range(len(path))}
    faults = []
    for path, found in by_path.items():
        value = _value_at(raw, path)
        kept = _without_other_branches(found, value, path in parents)
        faults += [_fault(error, path, value, found, root) for error in kept[:1]]
    return faults


def validated(
    root: type[M],
    raw: object,
    *,
    from_file: bool = True,
    refined: Callable[[Sequence[InputFault]], Iterable[InputFault]] | None = None,
) -> M:
    """Return the description that the tables of a file hold.

    `raw`: the tables as a TOML reader gives them. `from_file`: keys have the names of a file and quantities need units;
    otherwise also the names of the code, with bare numbers. `refined`: what becomes of the faults; `of_meant_kind` if
    None. Raises InputError with all faults of shape.
    """
    if not isinstance(raw, Mapping):
        raise InputError.at("file", raw, "must be a table")
    context: dict[str, Any] = dict(FROM_FILE) if from_file else {}
    try:
        return root.model_validate(raw, by_alias=True, by_name=not from_file, context=context)
    except ValidationError as error:
        found = faults_of(error.errors(include_url=False), raw, root)
        raise InputError(*(refined or of_meant_kind)(found)) from None


def of_meant_kind(found: Sequence[InputFault]) -> Iterator[InputFault]:
    """Yield the faults without those that only say that a list, or a table, could have been the other of two kinds."""
    # A path that goes on below a value shows that a table was meant, so "must be a list" there only misleads.
    tables = {fault.path[: end.start()] for fault in found for end in _STEP.finditer(fault.path)}
    for fault in found:
        if fault.value == [] and fault.rule == "must be a number":
            yield InputFault(fault.path, fault.value, "must have at least 1 entry")
        elif not fault.rule.startswith("must be a ") or fault.path not in tables:
            yield fault


def _file_path(error: ErrorDetails, raw: object) -> Iterator[Step]:
    """Yield the error's place without the labels that pydantic puts in for branches of unions."""
    here, loc = raw, error["loc"]
    after_rate = False
    for index, step in enumerate(loc):
        last_and_needed = index == len(loc) - 1 and error["type"] in ("missing", "extra_forbidden")
        if not last_and_needed and (step == "[key]" or _is_tag(here, step, after_rate)):
            after_rate = False
            continue
        after_rate = step == "rate"
        below = _value_at(here, (step,))
        if below is not NO_VALUE and not isinstance(here, str):
            here = below
            yield step
        elif last_and_needed:
            yield step


def _is_tag(here: object, step: Step, after_rate: bool) -> bool:
    """Return True if a step of pydantic's path names an alternative of a union, and is no key of the file."""
    if after_rate and step in _RATE_TAGS:
        return True
    return isinstance(here, Mapping) and any(here.get(key) == step for key in _TAG_KEYS)


def _value_at(raw: object, path: Iterable[Step]) -> object:
    """Return the value at a path of the raw tables; NO_VALUE if there is none."""
    here: Any = raw
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return NO_VALUE
    return here


def _without_other_branches(found: list[ErrorDetails], value: object, deeper: bool) -> list[ErrorDetails]:
    """Return the errors of the branch that was meant: a table's when a table was written, else the plain value's."""
    if deeper:  # a list counts as too short when its entries are wrong: they are reported themselves
        found = [error for error in found if error["type"] != "too_short"]
    other = _TABLE_BRANCH if not isinstance(value, Mapping) else _SCALAR_BRANCH | {"unit"}
    kept = [error for error in found if error["type"] not in other]
    if kept:
        return kept
    return [] if deeper and isinstance(value, Mapping) else found


def _fault(
    error: ErrorDetails,
    path: tuple[Step, ...],
    value: object,
    found: list[ErrorDetails],
    root: type[BaseModel],
) -> InputFault:
    """Return the fault that the user sees for one error.

    `path`, `value`: the place in the file and its value. `found`: all errors of that place. `root`: the model of the
    file.
    """
    kind = error["type"]
    context = error.get("ctx", {})
    where = path_text(path) or "scenario"
    if kind == "missing":
        return InputFault(where, NO_VALUE, "is missing", _example_of(root, path))
    if error["loc"] and error["loc"][-1] == "[key]":
        return InputFault(where, NO_VALUE, _NAME_RULE)
    if kind == "extra_forbidden":
        return InputFault(where, NO_VALUE, "unknown key", _known_key_hint(root, path, error["loc"]))
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _tag_fault(where, value, context)
    rule, hint = _rule(kind, context)
    if (
        kind in _SCALAR_BRANCH
        and not isinstance(value, Mapping)
        and any(other["type"] in _TABLE_BRANCH for other in found)
    ):
        rule += ", or a table"
    if kind == "unit":
        words = [_rule(other["type"], other["ctx"])[0] for other in found if other["type"] == "literal_error"]
        rule += "".join(f", or {word.removeprefix('must be ')}" for word in words)
    return InputFault(where, value, rule, hint)


def _tag_fault(where: str, value: object, context: Mapping[str, Any]) -> InputFault:
    """Return the fault of a table whose tag (`kind`, `distribution`, `model`) is missing or unknown."""
    key = str(context.get("discriminator", "'kind'")).strip("'")
    if not isinstance(value, Mapping):
        return InputFault(where, value, f"must be a table with the key {key}")
    expected = [tag.strip().strip("'") for tag in str(context.get("expected_tags", "")).split(",") if tag.strip()]
    if key not in value:
        return InputFault(f"{where}.{key}", NO_VALUE, "is missing")
    tag = value[key]
    near = difflib.get_close_matches(str(tag)[:80], expected, n=1)
    hint = f"did you mean {near[0]}?" if near else ""
    return InputFault(f"{where}.{key}", tag, f"must be {_either(expected)}", hint)


def _either(choices: Sequence[str]) -> str:
    """Return alternatives in words: "a, b or c"."""
    quoted = list(choices)
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def _rule(kind: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """Return the rule that was broken, in plain words, and a hint."""
    if kind in ("unit", "range"):
        return str(context["rule"]), str(context.get("hint", ""))
    if kind == "rate":
        return 'must be a rate such as "100 /s" or a table with steps, ramp, series or profile', ""
    if kind == "literal_error":
        return "must be " + str(context["expected"]).replace("'", ""), ""
    words = _WORDS.get(kind)
    if words is None:
        return "is not what belongs here", ""
    return words.format(**{name: _bound(value) for name, value in context.items()}), ""


def _bound(value: object) -> object:
    """Return a bound as people write it: 2^63 - 1 with all its digits is unreadable, and rounded it is wrong."""
    if isinstance(value, int) and value > 10**9:
        exponent = value.bit_length()
        if value + 1 == 2**exponent:
            return f"2^{exponent} - 1"
    return display.number(value, 6) if isinstance(value, (int, float)) else value


_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_unicode": "must not hold half of a surrogate pair: that is no character",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": _NAME_RULE,
    "too_short": "must have at least {min_length} entry",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
    "mapping_type": "must be a table",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "invalid_key": "must have text as keys",
}


def known_keys(root: type[BaseModel], loc: Sequence[Step]) -> list[str]:
    """Return the keys that a table at the parent of `loc` may have; empty when that cannot be told.

    `loc` is pydantic's, with the labels of union branches: they say which description was meant.
    """
    return children_at(root, loc[:-1], labels=True)


def _known_key_hint(root: type[BaseModel], path: tuple[Step, ...], loc: Sequence[Step]) -> LazyHint:
    """Return the hint for an unknown key: the nearest that its table may have."""
    return LazyHint(lambda: nearest(str(path[-1]), known_keys(root, loc)))


def _example_of(root: type[BaseModel], path: tuple[Step, ...]) -> str:
    """Return the hint for a missing quantity: how it is written."""
    example = example_at(root, path)
    return f'write it as in {path[-1]} = "{example}"' if example else ""
