"""The JSON Schema of `hangdoc.report/1`, generated from the dataclasses."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..model.report import REPORT_SCHEMA, Report

# Public names that Python reserves: definition -> field -> name in JSON.
PUBLIC_NAMES = {"Wait": {"source": "from", "target": "to"}, "ProgressRow": {"kind": "class"}}


def report_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of what `--json` prints, under its public names."""
    schema = msgspec.json.schema(Report)
    for name, names in PUBLIC_NAMES.items():
        definition = schema["$defs"][name]
        definition["properties"] = {names.get(key, key): value for key, value in definition["properties"].items()}
        definition["required"] = [names.get(key, key) for key in definition["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": REPORT_SCHEMA, **schema}


def report_schema_text() -> str:
    """The schema as it is kept in docs/report.schema.json."""
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"
