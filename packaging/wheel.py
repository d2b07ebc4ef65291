#!/usr/bin/python3
"""Makes a wheel independent of the system that it was built on:

    packaging/wheel.py pack WHEEL FOLDER     writes FOLDER/NAME-manylinux_2_N_ARCH.whl
    packaging/wheel.py check WHEEL           looks whether nothing is missing in it

pack copies each library that the wheel's module needs, but glibc's, into NAME.libs beside
the package, under a name of its own, so that no other copy in the same process takes its
place; the module and the libraries find each other by their run path. It adds the licences
that Debian's packages of these libraries have. The wheel's tag names the newest glibc whose
symbols are needed. The same files give the same bytes (SOURCE_DATE_EPOCH).

check ends with 1 if a program file needs a library that is neither glibc's nor in the
wheel, looks for one outside of it, needs a newer glibc than the tag says, or if RECORD is
not that of the files.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

# Of each system that a manylinux wheel is for (PEP 600).
GLIBC = re.compile(
    r"(ld-linux-[-a-z0-9]+|libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so\.\d+"
)


def said(*command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def dynamic(path, name):
    """The values of a field in the dynamic section of a program file."""
    pattern = rf"\({name}\).*\[(.*)\]"
    return re.findall(pattern, said("readelf", "--wide", "--dynamic", path))


def newest_glibc(paths):
    """The newest version of glibc's symbols that the files need, as (2, 34)."""
    texts = [said("readelf", "--wide", "--version-info", path) for path in paths]
    found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", "".join(texts))
    return max((int(major), int(minor)) for major, minor in found)


def program_files(top):
    return sorted(
        path
        for path in top.rglob("*")
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    )


def needed(path):
    """The libraries that the loader finds here for a program file and for those, but
    glibc's: their names and paths."""
    lines = [line.split() for line in said("ldd", path).splitlines()]
    missing = [line[0] for line in lines if "not found" in " ".join(line)]
    if missing:
        raise SystemExit(f"{path}: the loader does not find {', '.join(missing)}")
    found = {line[0]: pathlib.Path(line[2]) for line in lines if "=>" in line}
    return {name: at.resolve() for name, at in found.items() if not GLIBC.fullmatch(name)}


def own_name(name, path):
    """libuv.so.1 becomes libuv-0a1b2c3d.so.1: the digits are those of its bytes."""
    stem, rest = name.split(".so", 1)
    return f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.so{rest}"


def licence_of(path):
    """The package of Debian that a library is of, or was built from, and the file with its
    licences; None: the library is of this project."""
    for at in (path, f"*/{path.name}", f"*/{path.name.split('.so')[0]}.so.*"):
        done = subprocess.run(
            ("dpkg", "-S", at), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for package in re.findall(r"^([^:, ]+)", done.stdout, re.MULTILINE):
            licence = pathlib.Path("/usr/share/doc", package, "copyright")
            if licence.exists():
                return package, licence
    return None


def copy_libraries(own, modules, libs):
    """Copies what the modules need; the licences of all but the library `own`, and which
    of the libraries have them."""
    libraries = {}
    for module in modules:
        libraries.update(needed(module))
    names = {name: own_name(name, path) for name, path in libraries.items()}
    libs.mkdir()
    licences = {}
    for name, path in sorted(libraries.items()):
        copy = libs / names[name]
        shutil.copyfile(path, copy)
        subprocess.run(("strip", "--strip-unneeded", copy), check=True)
        subprocess.run(("patchelf", "--set-soname", copy.name, copy), check=True)
        licence = licence_of(path)
        if licence:
            licences.setdefault(licence, []).append(name)
        elif not name.startswith(f"{own}."):
            raise SystemExit(f"{path}: no package says what its licence is")
    for path in [*modules, *libs.iterdir()]:
        place = os.path.join("$ORIGIN", os.path.relpath(libs, path.parent))
        edits = [("--set-rpath", place.removesuffix("/."))]
        for name in dynamic(path, "NEEDED"):
            if name in names:
                edits.append(("--replace-needed", name, names[name]))
        for edit in edits:  # patchelf 0.14 mixes up the values of several
            subprocess.run(("patchelf", *edit, path), check=True)
    return licences


def record_of(folder):
    """The lines of RECORD, but its own: name, sum, size."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "RECORD":
            content = path.read_bytes()
            sum_ = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
            name = path.relative_to(folder).as_posix()
            yield name, f"sha256={sum_.rstrip(b'=').decode()}", str(len(content))


def info_of(folder):
    (info,) = folder.glob("*.dist-info")
    return info


def pack(wheel, out):
    name, version, python, abi, platform = wheel.stem.split("-")
    when = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
    with tempfile.TemporaryDirectory() as work:
        top = pathlib.Path(work)
        zipfile.ZipFile(wheel).extractall(top)
        info, modules = info_of(top), program_files(top)
        licences = copy_libraries(f"lib{name}", modules, top / f"{name}.libs")
        (info / "licenses").mkdir(exist_ok=True)
        for (package, licence), libraries in licences.items():
            text = f"Of {', '.join(libraries)}:\n\n{licence.read_text()}"
            (info / "licenses" / f"{package}.txt").write_text(text)

        glibc = "_".join(map(str, newest_glibc(program_files(top))))
        tag = f"{python}-{abi}-manylinux_{glibc}_{platform.removeprefix('linux_')}"
        metadata = (info / "WHEEL").read_text()
        metadata = re.sub(r"^Tag: .*$", f"Tag: {tag}", metadata, flags=re.MULTILINE)
        (info / "WHEEL").write_text(metadata)
        lines = io.StringIO()
        rows = [*record_of(top), (f"{info.name}/RECORD", "", "")]
        csv.writer(lines, lineterminator="\n").writerows(rows)
        (info / "RECORD").write_text(lines.getvalue())

        result = out / f"{name}-{version}-{tag}.whl"
        with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, *_ in rows:
                member = zipfile.ZipInfo(entry, when)
                mode = 0o755 if (top / entry) in program_files(top) else 0o644
                member.external_attr = (0o100000 | mode) << 16
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, (top / entry).read_bytes())
    print(result)


def faults_of(top, tag):
    files = program_files(top)
    names = {path.name for path in files}
    for path in files:
        for name in dynamic(path, "NEEDED"):
            if name not in names and not GLIBC.fullmatch(name):
                yield f"{path.name} needs {name}, which is not in the wheel"
        paths = ":".join(dynamic(path, "RUNPATH") + dynamic(path, "RPATH")).split(":")
        for place in filter(None, paths):
            at = pathlib.Path(os.path.normpath(place.replace("$ORIGIN", str(path.parent))))
            if not at.is_relative_to(top):
                yield f"{path.name} looks for libraries in {place}"
    if not files:
        yield "there is no module"
    elif newest_glibc(files) > tag:
        yield "a file needs glibc {}.{}".format(*newest_glibc(files))
    info = info_of(top)
    rows = [tuple(row) for row in csv.reader((info / "RECORD").read_text().splitlines())]
    if sorted(rows) != sorted([*record_of(top), (f"{info.name}/RECORD", "", "")]):
        yield "RECORD is not that of the files"


def check(wheel):
    tag = re.search(r"-manylinux_(\d+)_(\d+)_", wheel.name)
    if not tag:
        raise SystemExit(f"{wheel.name}: the name does not say for which glibc it is")
    with tempfile.TemporaryDirectory() as work:
        zipfile.ZipFile(wheel).extractall(work)
        top = pathlib.Path(work)
        faults = list(faults_of(top, (int(tag[1]), int(tag[2]))))
        if faults:
            raise SystemExit("\n".join(f"{wheel.name}: {fault}" for fault in faults))
        print(
            f"{wheel.name}: {len(program_files(top)) - 1} libraries inside, "
            f"glibc {tag[1]}.{tag[2]}, {wheel.stat().st_size / 1e6:.1f} MB"
        )


def main():
    match sys.argv[1:]:
        case ["pack", wheel, out]:
            pack(pathlib.Path(wheel), pathlib.Path(out))
        case ["check", wheel]:
            check(pathlib.Path(wheel))
        case _:
            print(__doc__, file=sys.stderr)
            raise SystemExit(2)


if __name__ == "__main__":
    main()
