"""The OpenAPI document: what FastAPI finds in the routes, and the schemas that they only name."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from server.api.examples import OF_SCHEMAS
from server.api.models import NewSubmission
from server.api.problems_json import ProblemDocument

_NAMED: tuple[type[BaseModel], ...] = (NewSubmission, ProblemDocument)
_TAGS = [
    {"name": "submissions", "description": "Hand in, look, watch, cancel, grade again."},
    {"name": "problems", "description": "What there is to solve."},
    {"name": "leaderboard", "description": "Who is fastest."},
    {"name": "devices", "description": "What there is to grade on."},
    {"name": "agents", "description": "How agents get work and hand in reports. Needs a key with the role agent."},
    {"name": "operations", "description": "For whoever runs the server."},
]


def install(app: FastAPI) -> None:
    """Have an app make its document so."""
    found = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = found()
            schemas = document["components"]["schemas"]
            for model in _NAMED:
                schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update(schema.pop("$defs", {}))
                schemas[model.__name__] = schema
            # Not in the models: FastAPI takes every null out of an example there.
            for name, example in OF_SCHEMAS.items():
                schemas[name]["examples"] = [example]
            document["tags"] = _TAGS
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
