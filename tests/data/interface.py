"""What users of a version rely on, as lists of lines in tests/data/VERSION. A later version
may add lines, and loses none.

    abi.txt        functions of libtidings with their symbol versions and types; structs,
                   with the place of each member; values of enums
    commands.txt   commands of both programs, and their options
    http.txt       routes, parameters, statuses, and the members of all JSON with their
                   types; channels of the streams
    metrics.txt    metrics with their types and labels
    tidingsd.ini   the settings, as `tidingsd --example` prints them

`make` writes them, and e2e/compatibility compares them with the present version.
"""

import importlib.util
import json
import re
import subprocess

import cffi

from tidings_test.broker import BIN, PROGRAMS, ROOT
from tidings_test.command_table import OPTION, commands_of

LIBRARY = BIN.parent / "lib/libtidings.so"


def printed(*command):
    return subprocess.run(command, check=True, stdout=-1, text=True).stdout


# The C library


def abi():
    """As the compiler lays the structs of the headers out on this machine."""
    ffi = cffi.FFI()
    text = _headers()
    ffi.cdef(text)
    versions = dict(
        line.split()[-1].split("@@")
        for line in printed("nm", "-D", "--with-symbol-versions", LIBRARY).splitlines()
        if "@@TIDINGS_" in line and " A " not in line
    )
    for prototype in re.findall(r"^[^\n{}]*?\btd_\w+\([^;{}]*\);", text, re.M):
        if "typedef" not in prototype and "(*" not in prototype.split("(")[0]:
            prototype = re.sub(r"\s+", " ", prototype).strip()
            name = re.search(r"\b(td_\w+)\(", prototype)[1]
            yield f"function {prototype.removesuffix(';')} {versions.get(name)}"
    typedefs, structs, _ = ffi.list_types()
    for name in typedefs:
        if name.startswith("td_"):
            yield f"typedef {name} {ffi.typeof(name + ' *').cname}"
    for name in structs:
        yield from _struct(ffi, ffi.typeof(f"struct {name}"))
    for name in sorted(set(re.findall(r"\benum (td_\w+)\s*{", text))):
        for value, symbol in ffi.typeof(f"enum {name}").elements.items():
            yield f"enum {name} {symbol} {value}"


def _headers():
    """The declarations, as the Python package reads them."""
    path = ROOT / "python/build_native.py"
    spec = importlib.util.spec_from_file_location("build_native", path)
    build_native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_native)
    return build_native.declarations("cc", ROOT / "client")


def _struct(ffi, struct):
    if struct.kind == "struct" and struct.fields:  # None: its members are ours
        yield f"{struct.cname} {ffi.sizeof(struct)} bytes"
        for name, field in struct.fields:
            yield f"{struct.cname} {name} {field.offset} {field.type.cname}"


# The command line, settings and metrics


def commands():
    for option, argument in OPTION.findall(printed(PROGRAMS["tidingsd"], "--help")):
        yield f"tidingsd --{option}{'=' if argument else ''}"
    for program in PROGRAMS:
        for command in commands_of(program):
            yield str(command)
            for option, argument in command.options.items():
                yield f"{command} --{option}{'=' if argument else ''}"


def settings():
    yield from printed(PROGRAMS["tidingsd"], "--example").splitlines()


def metrics(broker):
    found = broker.metrics()
    for name, family in found.families.items():
        labels = {
            label
            for series in found.samples_of(name)
            for label in re.findall(r'[{,](\w+)="', series)
        }
        yield " ".join([name, family.type, *sorted(labels)])


# HTTP


def http():
    for option in ("--openapi", "--asyncapi"):
        description = json.loads(printed(PROGRAMS["tidingsd"], option))
        yield from _routes(description)
        yield from _channels(description)
        for name, schema in description["components"]["schemas"].items():
            yield from _schema(name, schema)


def _routes(description):
    for path, methods in description.get("paths", {}).items():
        for method, operation in methods.items():
            route = f"{method.upper()} {path}"
            yield route
            if method == "head":
                continue  # as get
            for right in operation.get("x-rights", []):
                yield f"{route} right {right}"
            for parameter in operation.get("parameters", []):
                _, name = parameter["$ref"].rsplit("/", 1)
                yield f"{route} {name}"
            for type, content in operation.get("requestBody", {}).get("content", {}).items():
                yield f"{route} takes {type} {_name(content.get('schema', {}))}".strip()
            for status, answer in operation["responses"].items():
                if not status.isdigit() or int(status) >= 300:
                    continue
                yield f"{route} {status}"
                for type, content in answer.get("content", {}).items():
                    yield f"{route} {status} {type} {_name(content.get('schema', {}))}".strip()
    for name, parameter in description["components"].get("parameters", {}).items():
        yield from _schema(name, parameter["schema"])


def _channels(description):
    for channel in description.get("channels", {}).values():
        for name in channel["messages"]:
            yield f"channel {channel['address']} {name}"


def _name(schema):
    return schema.get("$ref", "").rpartition("/")[2]


def _schema(path, schema):
    """The types of a schema and of all below it; alternatives by their order."""
    if "$ref" in schema:
        yield f"{path} is {_name(schema)}"
    types = schema.get("type", [])
    for type in [types] if isinstance(types, str) else types:
        yield f"{path} is {type}"
    for value in schema.get("enum", [schema["const"]] if "const" in schema else []):
        yield f"{path} may be {json.dumps(value)}"
    for name in schema.get("required", []):
        yield f"{path} requires {name}"
    for name, below in schema.get("properties", {}).items():
        yield from _schema(f"{path}.{name}", below)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _schema(f"{path}[]", schema[word])
    for word in ("oneOf", "anyOf", "allOf", "prefixItems"):
        for n, below in enumerate(schema.get(word, [])):
            yield from _schema(f"{path}|{n}", below)


def lists(broker):
    """All of them, by the names of their files."""
    return {
        "abi.txt": abi(),
        "commands.txt": commands(),
        "http.txt": http(),
        "metrics.txt": metrics(broker),
        "tidingsd.ini": settings(),
    }
