"""`tidings doctor`: each thing that this machine may lack is a line of its own, with what to
do about it."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess

import pytest

from tidings_test.broker import PROGRAMS, is_sanitized

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
NAMES = (
    "libraries",
    "certificates",
    "media types",
    "clock",
    "data",
    "files",
    "seccomp",
    "port",
)


def examine(*arguments, program=PROGRAMS["tidings"], n_files=5000, **environment):
    """Its exit status, and its findings by their names."""
    done = subprocess.run(
        [program, "doctor", "--json", *arguments],
        env={
            name: value
            for name, value in os.environ.items()
            if name not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "MAGIC")
        }
        | environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, n_files)),
        stdout=subprocess.PIPE,
        check=False,
    )
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert tuple(finding["check"] for finding in findings) == NAMES
    return done.returncode, {finding["check"]: finding for finding in findings}


@pytest.fixture
def folder():
    """A folder on a disk: TMPDIR of the tests may be memory."""
    path = pathlib.Path("/var/tmp") / f"doctor-{os.getpid()}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def taken():
    """An address that is in use."""
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


# What is wrong; the check that finds it; its verdict; what it found.
WRONG = {
    "no certificate in the file": (
        {"SSL_CERT_FILE": "/dev/null"}, (), "certificates", "fail", "no certificate in it"),
    "no such file": (
        {"SSL_CERT_FILE": "/no/such/file"}, (), "certificates", "fail", "No such file"),
    "no database of libmagic": (
        {"MAGIC": "/no/such/file"}, (), "media types", "warn", "cannot be read"),
    "the clock of a new machine": (
        {"LD_PRELOAD": FAKETIME, "FAKETIME": "@2001-01-01 00:00:00"}, (),
        "clock", "fail", "2001-01-01T"),
    "a place of the kernel": ({}, ("--data", "/proc/tidings"), "data", "fail", "/proc: "),
    "data in memory": ({}, ("--data", "/dev/shm/tidings/data"), "data", "warn", "tmpfs"),
    "few files": ({"n_files": 1000}, (), "files", "warn", "1000 may be open"),
    "too few files": ({"n_files": 100}, (), "files", "fail", "100 may be open"),
    "an address of others": (
        {}, ("--listen", "192.0.2.1:80"), "port", "fail", "Cannot assign requested address"),
    "no address": ({}, ("--listen", "nobody:80"), "port", "fail", "nobody, port 80: "),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_says_what_is_wrong_and_what_to_do(wrong, folder):
    environment, arguments, name, verdict, found = WRONG[wrong]
    if "LD_PRELOAD" in environment and is_sanitized():
        pytest.skip("the library of a sanitizer has to be the first")

    code, findings = examine(*(arguments or ("--data", folder)), **environment)

    finding = findings[name]
    assert finding["verdict"] == verdict
    assert found in finding["found"]
    assert finding["advice"]
    assert code == (verdict == "fail")


def test_is_content_with_a_good_machine(folder):
    code, findings = examine("--data", folder / "data", "--listen", "[::1]:0")

    assert code == 0
    # Whether a time server is asked is this machine's business; so is its disk.
    assert not [
        name
        for name, finding in findings.items()
        if finding["verdict"] != "ok" and name not in ("clock", "data")
    ]
    assert findings["data"]["found"].startswith(f"{folder}: ")
    assert findings["certificates"]["found"] == "/usr/lib/ssl/cert.pem"


def test_warns_of_an_address_in_use(taken):
    code, findings = examine("--listen", taken)

    assert (code, findings["port"]["verdict"]) == (0, "warn")
    assert "Address already in use" in findings["port"]["found"]


def test_prints_lines_for_people():
    done = subprocess.run(
        [PROGRAMS["tidings"], "doctor", "--data", "/proc"], stdout=subprocess.PIPE, text=True, check=False
    )

    lines = done.stdout.splitlines()
    assert [line[:19].split(None, 1)[1].strip() for line in lines] == list(NAMES)
    assert lines[4].startswith("fail  data          /proc: ")
    assert ": give the broker a --data that its user can write" in lines[4]
    assert done.returncode == 1


def test_a_bundle_brings_the_database_of_media_types(folder):
    (folder / "bin").mkdir()
    (folder / "share/tidings").mkdir(parents=True)
    program = shutil.copy(PROGRAMS["tidings"], folder / "bin/tidings")
    shutil.copy("/usr/lib/file/magic.mgc", folder / "share/tidings/magic.mgc")

    _, findings = examine(program=program)

    assert findings["media types"] == {
        "check": "media types",
        "verdict": "ok",
        "found": f"{folder}/share/tidings/magic.mgc",
    }
