#!/usr/bin/python3
"""Writes the C code of tidings._libtidings: build_native.py CC HEADERS VERSION OUT

CC is the C compiler, HEADERS the folder of tidings.h, VERSION that of the package. The
declarations are those of the headers, as the compiler's preprocessor prints them: nothing
is written down twice.

The module is compiled and linked (cffi's API mode) instead of opened at run time (ABI
mode), for two reasons. The compiler checks every declaration and layout. And the linker
binds each function with the version that the headers describe: if a struct grows in a
later libtidings, the old function stays for programs built before (tidings.h). dlsym(3)
would find the new function, which reads beyond the old struct.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import cffi

# Python functions that C calls: td_*_fn and the callbacks of options.
CALLBACKS = """
#define TD_POSITION_SIZE ...
static char *const PACKAGE_VERSION;

extern "Python" {
    int follower_on_message(const struct td_message *, void *);
    void follower_on_end(enum td_status, const char *, void *);
    void handle_on_trouble(const char *, unsigned, void *);
    int source_on_message(const struct td_message *, void *);
    int source_on_start(struct td_start *, void *);
    void source_on_missed(const char *, const char *, void *);
    void sets_on_set(const char *, const char *, void *);
    void feed_on_checkpoint(const char *, const char *, const char *, const char *, void *);
    void verify_on_list(const char *, const struct td_proof *, void *);
    void publisher_on_durable(uint64_t, const struct td_receipt *, void *);
    void publisher_on_refused(uint64_t, const char *, const char *, void *);
    void sync_on_event(const struct td_sync_event *, void *);
}
"""


def declarations(compiler, headers):
    """What tidings.h declares, without what the system's headers declare: cffi knows
    size_t and uint64_t."""
    with tempfile.TemporaryDirectory() as system:
        for name in ("stddef.h", "stdint.h"):
            pathlib.Path(system, name).touch()
        options = ["-E", "-P", "-nostdinc", "-D__attribute__(x)=", "-isystem", system]
        tidings = pathlib.Path(headers, "tidings.h")
        done = subprocess.run(
            [*shlex.split(compiler), *options, tidings],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return re.sub(r"^#.*$", "", done.stdout, flags=re.MULTILINE)


def write(compiler, headers, version, out):
    ffi = cffi.FFI()
    ffi.cdef(declarations(compiler, headers) + CALLBACKS)
    lines = f'#include "tidings.h"\n#define PACKAGE_VERSION "{version}"\n'
    ffi.set_source("tidings._libtidings", lines)
    ffi.emit_c_code(str(out))


if __name__ == "__main__":
    write(*sys.argv[1:])
