"""The schema speaks of what is printed."""

from __future__ import annotations

import json
from typing import Any

from reports import hung

from hangdoc import codec
from hangdoc.report.schema import report_schema


def test_schema_has_the_printed_names() -> None:
    schema = report_schema()
    printed: dict[str, Any] = json.loads(codec.report_json(hung()))
    definitions = schema["$defs"]
    _check(printed, definitions["Report"], definitions)
    assert {"from", "to"} <= set(definitions["Wait"]["properties"])
    assert "class" in definitions["ProgressRow"]["properties"]


def _check(value: Any, shape: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Every object has exactly the properties of its definition; lists and references are followed."""
    if "$ref" in shape:
        shape = definitions[shape["$ref"].rpartition("/")[2]]
    if "anyOf" in shape:
        matching = [one for one in shape["anyOf"] if ("$ref" in one) == isinstance(value, dict)]
        if isinstance(value, list):
            matching = [one for one in matching if one.get("type") == "array"]
        if matching and isinstance(value, (dict, list)):
            _check(value, matching[0], definitions)
    elif isinstance(value, dict) and "properties" in shape:
        assert set(value) == set(shape["properties"])
        for name, one in value.items():
            _check(one, shape["properties"][name], definitions)
    elif isinstance(value, list) and "items" in shape:
        for one in value:
            _check(one, shape["items"], definitions)
