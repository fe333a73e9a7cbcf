"""What schemathesis has to be told in code."""

import os
import uuid

import schemathesis

OWN_TOKEN = os.environ["SCENE_TOKEN_ID"]

# The HTTP library of the server parses no longer target; such a request never reaches the API (contract 1.1).
LONGEST_TARGET = 60_000


@schemathesis.hook
def filter_query(context, query):
    return not query or sum(len(str(value).encode()) for value in query.values()) * 3 < LONGEST_TARGET


@schemathesis.hook
def map_body(context, body):
    """Python's 3.0 is an integer to JSON Schema. On the wire of this API an integer has no fraction."""
    if isinstance(body, dict):
        return {name: map_body(context, value) for name, value in body.items()}
    if isinstance(body, list):
        return [map_body(context, value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@schemathesis.hook
def before_call(context, case, kwargs):
    """The run needs its token until the end."""
    if case.path_parameters and case.path_parameters.get("token_id") == OWN_TOKEN:
        case.path_parameters["token_id"] = str(uuid.UUID(int=0))
