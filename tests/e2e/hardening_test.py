"""Options of compiler and linker that make a fault harder to exploit: the checks of
Debian's hardening-check, with binutils alone, for the files of this build.

(hardening-check finds stack clash protection only where a function allocates by
alloca(), which no function of ours does: it says "unknown".)
"""

import json
import platform
import re
import shlex
import subprocess

import pytest

from tidings_test.broker import BIN, PROGRAMS, ROOT, is_sanitized

LIBRARY = BIN.parent / "lib/libtidings.so"
IS_X86 = platform.machine() == "x86_64"

pytestmark = pytest.mark.skipif(
    is_sanitized(), reason="sanitizers look for such faults themselves"
)


def tell(*command, cwd=None):
    return subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def is_optimised():
    cache = (BIN.parent / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_BUILD_TYPE:\w+=Rel", cache, re.M)


@pytest.mark.parametrize("file", [*PROGRAMS.values(), LIBRARY], ids=lambda p: p.name)
def test_programs_and_library_are_hardened(file):
    headers = tell("readelf", "--wide", "--file-header", "--program-headers", file)
    dynamic = tell("readelf", "--wide", "--dynamic", file)
    functions = tell("nm", "--dynamic", "--undefined-only", file)
    assert re.search(r"Type: +DYN", headers)
    assert "GNU_RELRO" in headers
    assert not re.search(r"GNU_STACK.* RWE ", headers)
    assert "(BIND_NOW)" in dynamic or re.search(r"FLAGS\).* BIND_NOW", dynamic)
    if file != LIBRARY:
        assert re.search(r"FLAGS_1\).* PIE", dynamic)
    assert "__stack_chk_fail" in functions
    assert bool(re.search(r"__\w+_chk@", functions)) == bool(is_optimised())
    if IS_X86:
        notes = tell("readelf", "--notes", file)
        assert "x86 feature: IBT, SHSTK" in notes
        # It touches each page of a large frame.
        code = tell("objdump", "-d", "--no-show-raw-insn", file)
        assert re.search(r"sub +\$0x1000,%rsp\n.*(or|mov)q +\$0x0,.*\(%rsp\)", code)


# A file of the users' build: the release preset compiles it, even if this build is
# another one.
def test_a_release_checks_the_sizes_of_buffers(tmp_path):
    tell("cmake", "--preset", "release", "-B", tmp_path, "-DTIDINGS_TESTS=OFF", cwd=ROOT)
    for one in json.loads((tmp_path / "compile_commands.json").read_text()):
        if one["file"].endswith("base/file.c"):
            command = shlex.split(one["command"])
    command[command.index("-o") + 1] = str(tmp_path / "file.o")
    tell(*command, "-fno-lto", cwd=tmp_path)
    functions = tell("nm", "--undefined-only", tmp_path / "file.o")
    assert re.search(r"__\w+_chk$", functions, re.M)
