"""Field types of the descriptions: quantities with units, bounded numbers, read-only maps; their base model.

A description has two faces. In a file its keys carry quantities as text (`interval = "5 s"`). In code the
same field is a plain number in SI units with the unit in its name (`interval_s = 5.0`).

    class Pause(Description):
        lasts_s: PositiveSeconds = Field(alias="lasts")

    Pause.model_validate({"lasts": "5 s"}, context=FROM_FILE).lasts_s  # 5.0
    Pause(lasts_s=5.0)                                                 # the same, in code

`Seed` has one range for every option and key, so that the same number decides the draws of each command.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from models import units
from models.errors import InputFault

MOST_SEED = 2**63 - 1
SEED_RULE = "must be a whole number between 0 and 2^63 - 1"


def seed_faults(path: str, seed: object) -> Iterator[InputFault]:
    """Yield the fault of a value that is no seed, under the name of its option or key.

    A seed is a whole number from 0 to 2^63 - 1; booleans are none, NumPy's integers are.
    """
    try:
        number = -1 if isinstance(seed, bool) else operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number <= MOST_SEED:
        yield InputFault(path, seed, SEED_RULE, f"as in {path} 1" if path.startswith("--") else "")


V = TypeVar("V")
FROM_FILE = {"units": True}  # validation context: bare numbers for dimensioned keys are refused


class FrozenMap(dict[str, V]):
    """A dict that nobody can change after it was made; keeps the order it was made in.

    Every method that changes a dict raises TypeError. It can be hashed if its values can, and pickled.
    """

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError."""
        raise TypeError("a description is read-only")

    __setitem__ = __delitem__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse
    __ior__ = _refuse

    # dict's own way would restore items by __setitem__, which is refused: workers are sent pickled descriptions.
    def __reduce__(self) -> tuple[type, tuple[dict[str, V]]]:
        """Return how to make the map again in another process."""
        return FrozenMap, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        """Return a hash of the items in their order."""
        return hash(tuple(self.items()))


def frozen(value: Any) -> Any:
    """Return the value with read-only maps and tuples in place of dicts and lists, all the way down.

    >>> frozen({"a": [1, 2]})
    {'a': (1, 2)}
    """
    if isinstance(value, Mapping):
        return FrozenMap({key: frozen(one) for key, one in value.items()})
    return tuple(frozen(one) for one in value) if isinstance(value, (list, tuple)) else value


class Description(BaseModel):
    """Base of everything a scenario file can say: frozen, and unknown keys are errors.

    The text below a field says what it means; `meanings` reads it. Pydantic would read the source text of every
    description when it is imported, a tenth of the time in which a short run is made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema with the meanings of all fields."""
        schema = handler(core_schema)
        keys = handler.resolve_ref_schema(schema)["properties"]
        for name, text in meanings(cls).items():
            keys[cls.model_fields[name].alias or name]["description"] = text
        return schema


@lru_cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return name of a field -> its meaning, as its class or one above says it; not where a field says it itself."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if owner is not Description and owner is not BaseModel and issubclass(owner, BaseModel):
            found |= _texts_below(owner)
    fields = model.model_fields
    return {name: fields[name].description or text for name, text in found.items() if name in fields}


def _texts_below(owner: type) -> dict[str, str]:
    """Return name of an annotated attribute -> the text that stands below it in the source of its class."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    body = made.body if isinstance(made, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


# Largest value by dimension, and how it reads: times stay far below 2^63 ns, rates below a tuple per ns.
_LARGEST = {
    "s": (36_500 * 86_400.0, "36500 d"),
    "B": (2.0**50, "1024 TiB"),
    "B/s": (1e15, "8,000,000 Gbit/s"),
    "1/s": (1e9, "1,000,000,000 /s"),
    "USD/s": (1e9, "1,000,000,000 USD/s"),
}
# Smallest value above zero: the clock counts nanoseconds, and rates have gaps that it can count.
_SMALLEST = {
    "s": (1e-9, "1 ns"),
    "B": (0.001, "0.001 B"),
    "B/s": (0.001, "0.001 B/s"),
    "1/s": (1e-9, "0.000000001 /s"),
    "USD/s": (1e-12, "0.000000000001 USD/s"),
}


@dataclass(frozen=True)
class Dimension:
    """Mark on a field type: its values are quantities of this dimension of `models.units`."""

    name: str


def _quantity(dimension: str, rule: str, accepts: Callable[[float], bool]) -> Any:
    """Return the marks of a field type: how quantities of a dimension are read, checked, written and described.

    `rule`: which numbers are allowed, for messages; `accepts` tells them. Values beyond `_SMALLEST` and `_LARGEST` are
    refused as well: times and sums of them have to fit into 64 bits of nanoseconds.
    """
    (smallest, smallest_text), (largest, largest_text) = _SMALLEST[dimension], _LARGEST[dimension]
    example = units.example(dimension)

    def read(value: object, info: ValidationInfo) -> object:
        # In code a number is in SI units. In a file it must carry its unit: nobody can tell seconds from milliseconds.
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and not (info.context or {}).get("units"):
            return value
        try:
            found = units.parse(value, dimension)
        except units.UnitError as error:
            raise PydanticCustomError("unit", "{rule}", {"rule": error.rule, "hint": error.hint}) from None
        return found

    def check(value: float) -> float:
        if not accepts(value):
            raise PydanticCustomError("range", "{rule}", {"rule": rule, "hint": ""})
        if 0 < value < smallest:
            least = f"must be {'zero, or ' if accepts(0.0) else ''}at least {smallest_text}"
            raise PydanticCustomError("range", "{rule}", {"rule": least, "hint": f'as in "{example}"'})
        if value > largest:
            raise PydanticCustomError("range", "{rule}", {"rule": f"must be at most {largest_text}", "hint": ""})
        return value

    return (
        Dimension(dimension),
        BeforeValidator(read),
        AfterValidator(check),
        PlainSerializer(lambda value: None if value is None else units.show(value, dimension)),
        WithJsonSchema({"type": "string", "examples": [example], "description": f'{rule}; as in "{example}"'}),
    )


def _positive(value: float) -> bool:
    return value > 0


def _measurable(value: float) -> bool:
    return value >= 0.001


def _not_negative(value: float) -> bool:
    return value >= 0


Seconds = Annotated[float, *_quantity("s", "must not be negative", _not_negative)]
PositiveSeconds = Annotated[float, *_quantity("s", "must be longer than zero", _positive)]
Bytes = Annotated[float, *_quantity("B", "must not be negative", _not_negative)]
PositiveBytes = Annotated[float, *_quantity("B", "must be more than zero", _positive)]
BytesPerSecond = Annotated[float, *_quantity("B/s", "must be at least 0.001 B/s", _measurable)]
PerSecond = Annotated[float, *_quantity("1/s", "must not be negative", _not_negative)]
PricePerSecond = Annotated[float, *_quantity("USD/s", "must not be negative", _not_negative)]

Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Seed = Annotated[int, Field(strict=True, ge=0, le=MOST_SEED)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]


def _file_path(value: str) -> str:
    """Refuse the text of a path that no file system takes: asking for it would raise something else than OSError."""
    if "\0" in value:
        rule = "must not hold a null character: no file name has one"
    elif len(value) > _LONGEST_PATH or max(len(part.encode()) for part in value.split("/")) > _LONGEST_NAME:
        rule = f"must have names of at most {_LONGEST_NAME} bytes, and {_LONGEST_PATH} characters together"
    else:
        return value
    raise PydanticCustomError("range", "{rule}", {"rule": rule, "hint": ""})


_LONGEST_NAME = 255  # bytes of one name between slashes
_LONGEST_PATH = 4000
FilePath = Annotated[str, Field(min_length=1), AfterValidator(_file_path)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]

T = TypeVar("T")
ReadOnlyMap = Annotated[Mapping[str, T], AfterValidator(FrozenMap)]
NamedMap = Annotated[Mapping[Name, T], AfterValidator(FrozenMap)]
