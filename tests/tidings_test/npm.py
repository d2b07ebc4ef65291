"""Packages of npm that tests meet: tests/npm names them, with their versions.

    def test_something(start, tmp_path):
        npm.install(tmp_path)               programs there import and require them
        start(npm.node(), tmp_path / "program.mjs")
        start(npm.command("openapi-typescript"), ...)

To add one: `npm install --package-lock-only --save-exact --legacy-peer-deps NAME` in
tests/npm, with `omit-lockfile-registry-resolved`, so that the lock file names no registry.

Where there is no Node, no npm or no way to its registry, the test is skipped; with
TIDINGS_NPM=required in the environment, as .ci/run has it, it fails.
"""

import os
import platform
import shutil
import subprocess

import pytest

from tidings_test.broker import ROOT

MODULES = ROOT / "build/npm/node_modules"


def node():
    """The path of Node."""
    return shutil.which("node") or _miss("there is no Node")


def modules():
    """The folder of the packages; NODE_PATH of programs that require() them."""
    node()
    installed = subprocess.run(
        [ROOT / "tests/npm/install"], stderr=subprocess.PIPE, check=False
    )
    if installed.returncode:
        _miss(installed.stderr.decode().strip())
    return MODULES


def install(directory):
    """Let programs in that directory use the packages; returns it."""
    (directory / "node_modules").symlink_to(modules())
    return directory


def command(name):
    """The path of a program that a package brings."""
    return modules() / ".bin" / name


def helm():
    """The path of Helm, the package manager of Kubernetes, for x86-64."""
    if platform.machine() != "x86_64":
        _miss("there is no Helm for this machine")
    modules()
    return MODULES.parent / "helm"


def _miss(what):
    if os.environ.get("TIDINGS_NPM") == "required":
        pytest.fail(what)
    pytest.skip(what)
