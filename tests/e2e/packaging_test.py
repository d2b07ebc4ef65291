"""debian/ and docker/ beside the rest of the tree: what CMake installs is in the packages,
the symbols are those of the library, one version is named everywhere, an image gets the
files that it is built from.

packaging/release builds and tries the packages, docker/check.sh the image.
"""

import email.utils
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import zipfile

import pytest

from tidings_test.broker import BIN, ROOT, is_sanitized
from tidings_test.documentation import follow_links

DEBIAN = ROOT / "debian"
LIBRARY = BIN.parent / "lib/libtidings.so"

# Debian's builds have these without asking (build-essential, and what dpkg itself needs),
# or have no use for them: curl is the first tour's.
ALWAYS_THERE = {"gcc", "libc6-dev", "gzip", "curl", "media-types"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The folder into which `cmake --install` has installed everything for a package."""
    top = tmp_path_factory.mktemp("installed")
    command = ("cmake", "--install", str(BIN.parent), "--prefix", "/usr")
    done = os.spawnvpe(
        os.P_WAIT, "cmake", command, {**os.environ, "DESTDIR": str(top)}
    )
    assert done == 0
    return top


@pytest.fixture(scope="module")
def installed(root):
    """Its files, as paths: "usr/bin/tidings"."""
    return [str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()]


# The whole installation, and the package alone that has the pages.
def test_every_link_of_the_installed_pages_leads_to_a_file(root, installed, tmp_path):
    for path in installed:
        for name, pattern, folder in rows():
            if name == "tidingsd.install" and folder and matches(path, pattern):
                depth = pattern.count("/")
                target = tmp_path.joinpath(folder, *path.split("/")[depth:])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((root / path).read_bytes())
    for top in (root / "usr/share/doc/tidings", tmp_path / "usr/share/doc/tidingsd"):
        n_links, broken = follow_links(top.rglob("*.md"))
        assert broken == []
        assert n_links >= 100


def rows():
    """Each line of debian/*.install and not-installed: (file, pattern, folder)."""
    for name in [*sorted(DEBIAN.glob("*.install")), DEBIAN / "not-installed"]:
        for line in name.read_text().splitlines():
            if line and not line.startswith("#"):
                # This build has no folder of the architecture: it is not for /usr.
                line = line.replace("usr/lib/*/", "usr/lib/")
                pattern, _, folder = line.partition(" ")
                yield name.name, pattern, folder


def matches(path, pattern):
    """As dh_install: a pattern may name a folder, and "*" ends at a slash."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def test_each_installed_file_is_in_one_package(installed):
    assert "usr/bin/tidingsd" in installed
    owners = {
        path: [name for name, pattern, _ in rows() if matches(path, pattern)]
        for path in installed
    }
    assert {path: names for path, names in owners.items() if len(names) != 1} == {}


# A build with sanitizers makes neither manual pages nor the Python package.
@pytest.mark.skipif(is_sanitized(), reason="not all is built")
def test_each_line_of_the_packages_names_a_file(installed):
    for name, pattern, _ in rows():
        is_source = any(ROOT.glob(pattern))
        found = [path for path in installed if matches(path, pattern)]
        assert is_source or found, (name, pattern)


# A symbol of a library stays for ever: a new one gets a line with the version that brings
# it, here and in client/packaging/tidings.map.
def test_the_symbols_are_those_of_the_library(run):
    lines = run("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).out
    exported = {line.split()[-1].replace("@@", "@") for line in lines}
    head, *symbols = (DEBIAN / "libtidings1.symbols").read_text().splitlines()
    assert head == "libtidings.so.1 libtidings1 #MINVER#"
    named = {line.split()[0] for line in symbols}
    versions = {name.partition("@")[2] for name in named}
    assert named - {f"{version}@{version}" for version in versions} == {
        name for name in exported if name.startswith("td_")
    }


# groff says what is wrong with a page, and lexgrog reads NAME as mandb does, for `man -k`.
def test_each_function_of_the_library_has_a_manual_page(root, run):
    pages = root / "usr/share/man/man3"
    symbols = (ROOT / "client/packaging/tidings.map").read_text()
    names = {*re.findall(r"^    (td_\w+);", symbols, re.M), "libtidings"}
    assert {path.stem for path in pages.glob("*.3")} == names
    files = [f"man3/{name}.3" for name in sorted(names)]
    checked = run("/usr/bin/groff", "-ww", "-z", "-man", "-Tutf8", *files, cwd=pages.parent)
    assert (checked.output(), checked.errors()) == ("", "")
    own = [name for name in files if ".so " not in (pages.parent / name).read_text()]
    heads = run("/usr/bin/lexgrog", *own, cwd=pages.parent).output()
    for name in names:
        assert re.search(rf'"{name} - [a-zA-Z]', heads), name
    page = (pages / "td_follow.3").read_text()
    assert "enum td_status td_follow(struct td_client *client" in page
    assert all(part in page for part in ("TD_GONE", "until_caught_up", "SEE ALSO"))


NUMBER = r"([0-9]+\.[0-9]+\.[0-9]+)"
MINOR = r"([0-9]+\.[0-9]+)"
DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"

# Each file that names the version: what stands before and behind it, and how often. The
# version is that of CMakeLists.txt, from which the build makes all others.
NAMED = [
    ("CMakeLists.txt", rf"^project\(tidings VERSION {NUMBER} ", 1),
    ("CHANGELOG.md", rf"\A(?:(?!## \[[0-9]).*\n)*## \[{NUMBER}\] - ", 1),
    ("SECURITY.md", rf"^\| the latest release, {MINOR}\.x ", 1),
    ("packaging/README.md", rf"`git tag -s v{NUMBER}`", 1),
    ("broker/http/asyncapi.json", rf'"title":"Tidings","version":"{NUMBER}"', 1),
    ("broker/http/openapi.json", rf'"title":"Tidings","version":"{NUMBER}"', 1),
    ("client/tidings_client.h", rf'^#define TD_VERSION_STRING "{NUMBER}"', 1),
    ("debian/changelog", rf"\Atidings \({NUMBER}\) ", 1),
    ("doc/browser.md", rf"tidings-{NUMBER}.tgz", 1),
    ("doc/cluster_on_kubernetes.md", rf"`tidings:{NUMBER}`", 1),
    ("doc/cluster_on_kubernetes.md", rf"tidings-chart-{NUMBER}.tgz", 1),
    ("doc/installing.md", rf"\btidings(?:d|-chart)?[-_]{NUMBER}[-+.]", 9),
    ("doc/kubernetes.md", rf"`tidings:{NUMBER}`", 1),
    ("doc/kubernetes.md", rf"tidings-chart-{NUMBER}.tgz", 1),
    ("doc/library.md", rf"find_package\(tidings {MINOR} ", 1),
    ("doc/python.md", rf"tidings-{NUMBER}-cp311-abi3-manylinux_2_34_x86_64.whl", 1),
    ("doc/python.md", rf"tidings-{NUMBER}.tar.gz", 2),
    ("packaging/helm/tidings/Chart.yaml", rf'^(?:version|appVersion): "?{NUMBER}"?$', 2),
    ("packaging/kubernetes/broker.yaml", rf"image: tidings:{NUMBER}$", 1),
    ("packaging/kubernetes/tidings.yaml", rf"image: tidings:{NUMBER}$", 3),
    ("web/package.json", rf'^  "version": "{NUMBER}"', 1),
]  # fmt: skip


def test_all_name_one_version(run):
    cmake = (ROOT / "CMakeLists.txt").read_text()
    (version,) = re.findall(NAMED[0][1], cmake, re.M)
    minor = version.rpartition(".")[0]
    others = [
        f"{name}: {found or 'none'}"
        for name, pattern, times in NAMED
        if (found := re.findall(pattern, (ROOT / name).read_text(), re.M))
        != times * [minor if MINOR in pattern else version]
    ]
    assert others == [], f"not {version}"
    for program in ("tidings", "tidingsd"):
        assert run(program, "--version").out[0] == f"{program} {version}"


# A release has one date: packages and tarballs are made with it.
def test_the_changelogs_have_one_date():
    news = (ROOT / "CHANGELOG.md").read_text()
    date = re.findall(rf"^## \[{NUMBER}\] - {DATE}$", news, re.M)[0][1]
    debian = (DEBIAN / "changelog").read_text()
    stamp = re.search(r"^ -- .*  (.+)$", debian, re.M)[1]
    assert email.utils.parsedate_to_datetime(stamp).date().isoformat() == date


def test_the_packages_build_with_what_packages_txt_names():
    control = (DEBIAN / "control").read_text()
    (field,) = re.findall(r"^Build-Depends:\n((?: .*\n)+)", control, re.M)
    named = set(re.findall(r"^ ([a-z0-9.+-]+)", field, re.M))
    table = (ROOT / "packages.txt").read_text()
    needed = set(re.findall(r"^([a-z0-9.+-]+) +build ", table, re.M)) - ALWAYS_THERE
    assert len(needed) >= 15
    assert needed - named == set()


# So the bytes are the same in whichever folder somebody builds what is installed. The file
# has an assert, which names it, and debug information; packaging/parts/deb builds all
# twice and compares.
@pytest.mark.skipif(is_sanitized(), reason="the same without it")
def test_no_object_names_the_folder_of_its_build(tmp_path):
    # Without a compiler cache, which may write its own idea of the folder.
    env = {**os.environ, "CMAKE_C_COMPILER_LAUNCHER": ""}
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "env": env}
    build = tmp_path / "build"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS=-g", "-DTIDINGS_TESTS=OFF"]
    cmake = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, *options]
    subprocess.run(cmake, **quiet)
    name = "CMakeFiles/proto.dir/proto/buf.c.o"
    subprocess.run(["ninja", "-C", build, name], **quiet)
    content = (build / name).read_bytes()
    assert b"proto/buf.c" in content
    assert os.fsencode(ROOT) not in content
    assert os.fsencode(tmp_path) not in content


BILL = ROOT / "packaging/bill.py"


def write_bill(dist):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000"}
    subprocess.run([BILL, "write", dist, "9.8.7"], check=True, env=environment)
    return json.loads((dist / "tidings-9.8.7.spdx.json").read_text())


# Parts of a release of its own: one is well, one is wrong, one lacks a program.
PARTS = {
    "good": 'build() { echo of good >"$dist/good.txt"; }; check() { say "good is well"; }',
    "wrong": 'build() { :; }; check() { fail "this file is broken"; }',
    "lacking": "build() { need no-such-program; }; check() { :; }",
}


def make_release(top, *arguments):
    for name in ("CMakeLists.txt", "CHANGELOG.md", "tools", "packaging/parts/common.sh"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, top / name)
    for name in ("release", "bill.py"):
        shutil.copy(ROOT / "packaging" / name, top / "packaging")
    (top / "packages.txt").write_text("bash  release  the shell\n")
    for name, body in PARTS.items():
        part = top / "packaging/parts" / name
        lines = ("#!/bin/bash", '. "$(dirname "$0")/common.sh"', body, 'run_part "$@"')
        part.write_text("\n".join(lines) + "\n")
        part.chmod(0o755)
    command = [top / "packaging/release", "--quick", "--dist", top / "dist", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_release_names_each_part_that_failed(tmp_path):
    done = make_release(tmp_path, *PARTS)
    assert done.stderr.splitlines()[-2:] == [
        "failed: wrong check: wrong: this file is broken",
        "not made: lacking: lacking: no-such-program is missing",
    ]
    assert "all is well" not in done.stdout
    assert done.returncode == 1


def test_a_release_has_sums_notes_and_a_bill(tmp_path):
    done = make_release(tmp_path, "good")
    assert done.returncode == 0, done.stderr
    assert "git tag -s v" in done.stdout
    sums = (tmp_path / "dist/SHA256SUMS").read_text().splitlines()
    names = [line.split()[1] for line in sums]
    version = re.search(r"tidings VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert names == ["RELEASE_NOTES.md", "good.txt", f"tidings-{version}.spdx.json"]
    content = (tmp_path / "dist/good.txt").read_bytes()
    assert sums[1].split()[0] == hashlib.sha256(content).hexdigest()
    notes = (tmp_path / "dist/RELEASE_NOTES.md").read_text()
    assert notes.startswith("### ") and "\n## " not in notes
    assert notes in (ROOT / "CHANGELOG.md").read_text()


# The root of this machine stands for a system that has the packages.
def test_the_bill_of_materials_names_each_library_with_its_licence(tmp_path):
    (tmp_path / "a.deb").write_text("a")
    libraries = [BIN / "tidings", BIN / "tidingsd"]
    subprocess.run([BILL, "note", tmp_path, "debian-12", "/", *libraries], check=True)
    bill = write_bill(tmp_path)
    # Since Debian 13, names of libraries with 64-bit times end so.
    packages = {p["name"].removesuffix("t64"): p for p in bill["packages"]}
    assert {"libuv1", "libcurl4", "libmosquitto1", "libc6"} <= set(packages)
    # What Debian 12 says of the C library is in no form for machines.
    libc = ("NOASSERTION", "LGPL-2.1-or-later")
    for name, licences in {"libuv1": ("MIT",), "libc6": libc}.items():
        assert packages[name]["licenseDeclared"] in licences
        version = ["dpkg-query", "-W", "-f", "${Version}", packages[name]["name"]]
        said = subprocess.run(version, check=True, capture_output=True, text=True).stdout
        assert packages[name]["versionInfo"] == said
    assert packages["tidings"]["licenseDeclared"] == "Apache-2.0"
    sums = [sum["checksumValue"] for sum in packages["a.deb"]["checksums"]]
    assert sums == ["ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"]
    assert bill["creationInfo"]["created"] == "2001-09-09T01:46:40Z"
    elements = {"SPDXRef-DOCUMENT"} | {each["SPDXID"] for each in bill["packages"]}
    for each in bill["relationships"]:
        assert {each["spdxElementId"], each["relatedSpdxElement"]} <= elements
    assert not (tmp_path / ".libraries").exists()
# The module of this build uses libraries of the system. packaging/parts/python packs a whole
# wheel, and tries it.
@pytest.mark.skipif(is_sanitized(), reason="there is no Python package")
def test_a_wheel_with_something_missing_is_refused(run, tmp_path):
    wheel = tmp_path / "tidings-1.0-cp311-abi3-manylinux_2_2_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        module = BIN.parent / "python/tidings/_libtidings.abi3.so"
        archive.write(module, "tidings/_libtidings.abi3.so")
        archive.writestr("tidings-1.0.dist-info/RECORD", "")
    said = run(ROOT / "packaging/wheel.py", "check", wheel, status=1).errors()
    assert re.search(r"_libtidings.abi3.so needs libtidings.so.\d, which is not in the", said)
    assert "_libtidings.abi3.so looks for libraries in $ORIGIN/../../lib" in said
    assert "a file needs glibc 2." in said
    assert "RECORD is not that of the files" in said
    assert "libc.so.6" not in said


# The service starts with the files of the package: their options are right, and the unit
# reads the file that has them.
def test_the_configuration_of_the_package_is_good(run, tmp_path):
    default = (DEBIAN / "tidingsd.default").read_text()
    (line,) = re.findall(r'^TIDINGSD_OPTIONS="(.*)"$', default, re.M)
    options = shlex.split(line)
    assert ("tidingsd.install", "broker/tidingsd.ini", "etc/tidings") in list(rows())
    assert options == ["--config", "/etc/tidings/tidingsd.ini"]
    ini = ("--config", ROOT / "broker/tidingsd.ini", "--data", tmp_path / "data")
    assert run("tidingsd", *ini, "--check").out[:] == ["tidingsd: settings are good"]
    unit = (ROOT / "packaging/tidingsd.service").read_text()
    assert "EnvironmentFile=-/etc/default/tidingsd\n" in unit
    assert " $TIDINGSD_OPTIONS\n" in unit


# Folders and files that .dockerignore lets through.
def test_an_image_is_built_from_all_files_that_cmake_reads():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = [ROOT / line[1:] for line in lines if line.startswith("!")]
    folders = [BIN.parent, BIN.parent / "client/packaging"]
    scripts = [folder / "cmake_install.cmake" for folder in folders]
    named = "".join(script.read_text() for script in scripts)
    installed = {path for path in re.findall(rf'"({re.escape(str(ROOT))}/[^"]+)"', named)}
    sources = [pathlib.Path(p) for p in installed if not p.startswith(str(BIN.parent))]
    cmake = (ROOT / "CMakeLists.txt").read_text()
    folders = re.findall(r"^add_subdirectory\(([a-z/]+)\)", cmake, re.M)
    sources += [ROOT / name for name in folders]
    assert len(sources) >= 6
    missing = [
        path
        for path in sources
        if not any(path.is_relative_to(place) for place in let_through)
    ]
    assert missing == []


# The page's lines are tested with a broker behind them (e2e/proxies).
def test_the_proxy_of_the_image_has_the_lines_of_the_page():
    page = (ROOT / "doc/proxies.md").read_text()
    (block,) = re.findall(
        r"^Caddy, which gets a certificate by itself:\n\n((?:    .*\n)+)", page, re.M
    )
    lines = [line.strip() for line in block.splitlines()]
    caddyfile = (ROOT / "docker/Caddyfile").read_text()
    for ours, theirs in (("{$SITE}", "changes.example.org"), ("tidingsd:", "127.0.0.1:")):
        assert ours in caddyfile
        caddyfile = caddyfile.replace(ours, theirs)
    own = [line.strip() for line in caddyfile.splitlines()]
    assert own[-len(lines) :] == lines


# An open broker, one with tokens, and none.
def test_the_health_check_of_the_image_knows_a_broker(start_broker, run):
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    (words,) = re.findall(r"^HEALTHCHECK .*\\\n    CMD (\[.*\])$", dockerfile, re.M)
    program, *arguments, url = json.loads(words)
    assert (program, url) == ("tidings", "http://127.0.0.1:8787/")
    broker = start_broker()
    check = (program, *arguments, url.replace("8787", str(broker.port)))
    run(*check)
    broker.add_token("root", admin=True)
    run(*check)
    broker.stop()
    run(*check, status=1)
