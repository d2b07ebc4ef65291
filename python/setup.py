"""Compiles tidings._libtidings against an installed libtidings, which pkg-config finds.
pyproject.toml has everything else about the package."""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # pip does not
import build_native  # noqa: E402


def package_version():
    """In an sdist its own; in a checkout that of the project."""
    for name, pattern in (
        ("PKG-INFO", r"^Version: (\S+)$"),
        ("../CMakeLists.txt", r"^project\(tidings VERSION ([0-9.]+) "),
    ):
        if (HERE / name).exists():
            return re.search(pattern, (HERE / name).read_text(), re.MULTILINE)[1]
    raise SystemExit("neither an sdist nor a checkout: the version is unknown")


VERSION = package_version()


def pkg_config(*arguments):
    """Its answer about a libtidings that has all that this package calls."""
    least = f"tidings >= {'.'.join(VERSION.split('.')[:2])}"
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *arguments, least]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"{error}\nThis package is built against libtidings: install it with its "
            "headers (Debian: libtidings-dev) and pkg-config, or take a wheel."
        ) from error
    return shlex.split(done.stdout)


class BuildNative(build_ext):
    def build_extension(self, extension):
        source = pathlib.Path(self.build_temp, "_libtidings.c")
        compiler = os.environ.get("CC") or sysconfig.get_config_var("CC")
        (headers,) = pkg_config("--variable=includedir")
        source.parent.mkdir(parents=True, exist_ok=True)
        build_native.write(compiler, headers, VERSION, source)
        extension.sources = [str(source)]
        # -w: cffi's code. -g0: debug information names the folder of the build.
        extension.extra_compile_args = [*pkg_config("--cflags"), "-w", "-g0"]
        extension.extra_link_args = pkg_config("--libs")
        super().build_extension(extension)


setup(
    version=VERSION,
    ext_modules=[Extension("tidings._libtidings", [], py_limited_api=True)],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
