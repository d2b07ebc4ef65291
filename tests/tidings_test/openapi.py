"""broker/http/openapi.json, as a client's generator reads it.

    DESCRIPTION.check(answer, "GET", "/sets/{set}")     the answer is described
    DESCRIPTION.check_json(value, "Entry")              by that schema
"""

import functools
import json
import pathlib

import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "broker/http"
FILE, STREAMS_FILE = FOLDER / "openapi.json", FOLDER / "asyncapi.json"

# The part of OpenAPI 3.1 that the description uses; no other member is allowed. (Debian
# has no validator of OpenAPI 3.1.)
REFERENCE = {"type": "object", "required": ["$ref"]}
TEXT = {"type": "string", "minLength": 1}


def shape(required="", optional="", /, **members):
    """An object with these members; those without a schema are texts."""
    names = [*required.split(), *optional.split()]
    return {
        "type": "object",
        "required": required.split(),
        "properties": {**dict.fromkeys(names, TEXT), **members},
        "additionalProperties": False,
    }


def all_of(schema, names=".*"):
    return {
        "type": "object",
        "patternProperties": {names: schema},
        "additionalProperties": False,
    }


SCHEMA = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
CONTENT = all_of(shape(schema=SCHEMA), r"^[a-z*]+/[a-z0-9.*+-]+$")
RESPONSE = {
    "if": REFERENCE,
    "then": shape("$ref"),
    "else": shape("description", content=CONTENT),
}
PARAMETER = shape(
    "name in description schema",
    required={"const": True},
    schema=SCHEMA,
    **{"in": {"enum": ["query", "header", "path"]}},
)
OPERATION = shape(
    "operationId summary responses security x-rights parameters",
    responses=all_of(RESPONSE, "^([1-5][0-9][0-9]|default)$"),
    security={"type": "array", "items": all_of({"const": []}, "^token$")},
    parameters={"type": "array", "items": shape("$ref"), "uniqueItems": True},
    requestBody=shape(
        "content description", content=CONTENT, required={"type": "boolean"}
    ),
    **{"x-rights": {"type": "array", "items": TEXT}},
)
OPENAPI = shape(
    "openapi info servers paths components",
    openapi={"const": "3.1.0"},
    info=shape("title version description"),
    servers={"type": "array", "items": shape("url")},
    paths=all_of(all_of(OPERATION, "^(get|head|put|post|patch|delete)$"), "^/"),
    components=shape(
        parameters=all_of(PARAMETER, "^[a-zA-Z0-9._-]+$"),
        responses=all_of(RESPONSE, "^[a-zA-Z0-9._-]+$"),
        schemas=all_of(SCHEMA, "^[a-zA-Z0-9._-]+$"),
        securitySchemes=all_of(
            shape(
                "type scheme description",
                type={"const": "http"},
                scheme={"const": "bearer"},
            ),
            "^token$",
        ),
    ),
)


class Description:
    def __init__(self, text):
        self.all = json.loads(text)

    def resolve(self, part):
        """What a reference leads to; the part itself if it is none."""
        if "$ref" not in part:
            return part
        at = self.all
        for name in part["$ref"].removeprefix("#/").split("/"):
            at = at[name]
        return at

    @property
    def operations(self):
        """By method and path: GET, "/sets"."""
        return {
            (method.upper(), path): operation
            for path, methods in self.all["paths"].items()
            for method, operation in methods.items()
        }

    def check(self, answer, method, path):
        """Status and media type of the answer are among those that the operation has,
        and a problem is one."""
        responses = self.operations[method, path]["responses"]
        named = responses.get(str(answer.status))
        assert named, (method, path, answer)
        content = self.resolve(named).get("content", {})
        type = (answer["Content-Type"] or "").split(";")[0]
        has_body = method != "HEAD" and answer.status not in (101, 204, 304)
        is_named = type in content or "*/*" in content
        assert not type or not has_body or is_named, (method, path, answer)
        if type in content and type.endswith("json") and answer.body:
            self.check_json(answer.json(), content[type].get("schema", {}))

    def check_json(self, value, schema):
        """The value is what the schema, or that of this name, describes."""
        if isinstance(schema, str):
            schema = {"$ref": f"#/components/schemas/{schema}"}
        self.validator(json.dumps(schema)).validate(value)

    def is_valid(self, value, schema):
        try:
            self.check_json(value, schema)
        except jsonschema.ValidationError:
            return False
        return True

    @functools.lru_cache
    def validator(self, schema):
        whole = {**json.loads(schema), "components": self.all["components"]}
        return jsonschema.Draft202012Validator(whole)


DESCRIPTION = Description(FILE.read_text())
STREAMS = Description(STREAMS_FILE.read_text())  # in AsyncAPI
