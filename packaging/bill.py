#!/usr/bin/python3
"""bill.py: the bill of materials of a release, SPDX 2.3 in JSON.

    bill.py note DIST SYSTEM ROOT PROGRAM...
    bill.py write DIST VERSION

`note` writes to DIST/.libraries/SYSTEM which libraries of Debian the programs of the system
in the folder ROOT load (ldd), with version and licence. `write` makes
DIST/tidings-VERSION.spdx.json of all these lists and of the files in DIST, and deletes the
lists. The licence is that of "Files: *" in the library's debian/copyright; NOASSERTION where
that file is not in Debian's form, or names a licence that SPDX does not know by this name.
The same files give the same bytes. SOURCE_DATE_EPOCH is the time of the document.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import uuid

# Debian's names of licences that are SPDX's under another name.
NAMES = {
    "expat": "MIT",
    "mit": "MIT",
    "curl": "curl",
    "isc": "ISC",
    "zlib": "Zlib",
    "apache-2.0": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "edl-1.0": "BSD-3-Clause",
    "epl-2.0": "EPL-2.0",
    "postgresql": "PostgreSQL",
    "openldap-2.8": "OLDAP-2.8",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0-only",
    "gpl-3+": "GPL-3.0-or-later",
    "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3": "LGPL-3.0-only",
    "lgpl-3+": "LGPL-3.0-or-later",
}


def run(root, *command):
    """What the command prints in the system of that folder."""
    done = subprocess.run(
        ["chroot", root, *command], check=False, capture_output=True, text=True
    )
    return done.stdout


def debian_licence(text):
    """The licence of "Files: *", as Debian names it; "" if the text names none so."""
    if not text.startswith("Format:"):
        return ""
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"^Files:\s*\*\s*$", paragraph, re.M):
            found = re.search(r"^License:[ \t]*(\S.*)$", paragraph, re.M)
            return found.group(1).strip() if found else ""
    return ""


def spdx_licence(name):
    """That as an expression of SPDX; NOASSERTION unless all of its names are known."""
    words = re.split(r"\s+(and|or)\s+", name)
    named = [
        word.upper() if word in ("and", "or") else NAMES.get(word.lower()) for word in words
    ]
    # "and/or", commas and exceptions are more than this knows.
    return " ".join(named) if all(named) else "NOASSERTION"


def owners(root, paths):
    """The packages of Debian that have these files; a folder may be a link's (/lib)."""
    named = {path: {path, "/usr" + path, path.removeprefix("/usr")} for path in paths}
    for path, real in zip(paths, run(root, "realpath", *paths).split(), strict=True):
        named[path] |= {real, "/usr" + real, real.removeprefix("/usr")}
    found = {}
    for line in run(root, "dpkg", "-S", *sorted(set().union(*named.values()))).splitlines():
        if not line.startswith("diversion "):
            package, _, path = line.rpartition(": ")
            found[path] = package.split(":")[0]
    packages = set()
    for path, names in named.items():
        if not (has := names & set(found)):
            sys.exit(f"bill.py: {path}: of no package of {root}")
        packages |= {found[name] for name in has}
    return sorted(packages)


def libraries(root, programs):
    """Each library that the programs load, one row a package."""
    lines = run(root, "ldd", *programs)
    if not lines or "not found" in lines:
        sys.exit(f"bill.py: ldd in {root}:\n{lines}")
    packages = owners(root, sorted(set(re.findall(r"(/\S+) \(0x", lines))))
    form = "${Package} ${Version} ${source:Package}\n"
    for line in run(root, "dpkg-query", "-W", "-f", form, *packages).splitlines():
        package, version, source = line.split()
        file = pathlib.Path(root, "usr/share/doc", package, "copyright")
        licence = debian_licence(file.read_text(errors="replace") if file.exists() else "")
        yield {
            "package": package,
            "version": version,
            "source": source,
            "debian": licence,
            "licence": spdx_licence(licence),
        }


def note(dist, system, root, *programs):
    rows = list(libraries(root, programs))
    folder = pathlib.Path(dist, ".libraries")
    folder.mkdir(exist_ok=True)
    (folder / system).write_text(json.dumps(rows))
    print(f"{system}: {len(rows)} packages of Debian are loaded by the programs")


def spdx_id(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(words))


def file_package(path, name, version):
    """A file of the release, as a package."""
    return {
        "SPDXID": spdx_id("File", name),
        "name": name,
        "versionInfo": version,
        "packageFileName": name,
        "supplier": "Organization: The Tidings maintainers",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [
            {
                "algorithm": "SHA256",
                "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
        ],
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "2026 The Tidings maintainers",
    }


def library_package(system, row):
    package = {
        "SPDXID": spdx_id("Library", system, row["package"]),
        "name": row["package"],
        "versionInfo": row["version"],
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "sourceInfo": f"source package {row['source']}, {system}",
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": row["licence"],
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": "pkg:deb/debian/{package}@{version}?distro={0}".format(
                    system, **row
                ).replace("+", "%2B"),
            }
        ],
    }
    if row["debian"] and row["licence"] == "NOASSERTION":
        package["licenseComments"] = f'debian/copyright says "{row["debian"]}"'
    return package


def relation(one, kind, other):
    return {
        "spdxElementId": one,
        "relationshipType": kind,
        "relatedSpdxElement": other,
    }


def document(dist, version):
    """The document but for its namespace, which is made of its content."""
    top = spdx_id("Tidings")
    packages, relations = [], [relation("SPDXRef-DOCUMENT", "DESCRIBES", top)]
    files = [
        path
        for path in sorted(dist.rglob("*"))
        if path.is_file() and ".libraries" not in path.parts and path.name != "SHA256SUMS"
    ]
    own = {
        "SPDXID": top,
        "name": "tidings",
        "versionInfo": version,
        "supplier": "Organization: The Tidings maintainers",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "2026 The Tidings maintainers",
    }
    packages.append(own)
    for path in files:
        packages.append(file_package(path, str(path.relative_to(dist)), version))
        relations.append(relation(top, "CONTAINS", packages[-1]["SPDXID"]))
    for listed in sorted(dist.glob(".libraries/*")):
        for row in json.loads(listed.read_text()):
            packages.append(library_package(listed.name, row))
            relations.append(relation(top, "DYNAMIC_LINK", packages[-1]["SPDXID"]))
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"tidings-{version}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
            "creators": ["Organization: The Tidings maintainers", "Tool: packaging/bill.py"],
        },
        "packages": packages,
        "relationships": relations,
    }


def write(dist, version):
    dist = pathlib.Path(dist)
    made = document(dist, version)
    unique = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    made["documentNamespace"] = f"https://spdx.org/spdxdocs/tidings-{version}-{unique}"
    text = json.dumps(made, indent=1, sort_keys=True) + "\n"
    (dist / f"tidings-{version}.spdx.json").write_text(text)
    shutil.rmtree(dist / ".libraries", ignore_errors=True)


if __name__ == "__main__":
    {"note": note, "write": write}[sys.argv[1]](*sys.argv[2:])
