"""The JSON schema of scenario files says what the reader says."""

from __future__ import annotations

from models.scenario.file_keys import descriptions, schema_of
from models.scenario.scenario import Scenario


def test_defaults_of_quantities_carry_units() -> None:
    schema = schema_of(Scenario)
    assert schema["properties"]["warmup"]["default"] == "0 s"
    assert schema["$defs"]["Network"]["properties"]["latency"]["default"] == "0.2 ms"
    assert schema["$defs"]["FaultTolerance"]["properties"]["remote"]["default"] == "800 Mbit/s"


def test_every_table_forbids_unknown_keys_and_every_description_is_there() -> None:
    schema = schema_of(Scenario)
    assert {model.__name__ for model in descriptions(Scenario)} == {Scenario.__name__, *schema["$defs"]}
    assert all(table["additionalProperties"] is False for table in (schema, *schema["$defs"].values()))


def test_keys_are_those_of_files_and_not_of_code() -> None:
    schema = schema_of(Scenario)
    keys = [key for table in (schema, *schema["$defs"].values()) for key in table.get("properties", {})]
    assert [key for key in keys if key.endswith(("_s", "_bytes"))] == []


def test_a_rate_may_be_a_quantity_or_a_table() -> None:
    first, *tables = schema_of(Scenario)["$defs"]["SourceWorkload"]["properties"]["rate"]["anyOf"]
    assert first["type"] == "string"
    assert len(tables) == 5
