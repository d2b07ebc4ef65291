"""The tools that keep the product small and its comments readable: tools/size.py,
unused.py, circles.py and pictures.py find what they are there for, in a product of a few
lines, and name it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A product without a fault: low is below high, which hands it an event to call.
SOUND = {
    "base/low.h": "void low_read(struct low *low);\n",
    "base/low.c": (
        '#include "base/low.h"\n\n'
        "struct low {\n    void (*on_end)(void);\n    void (*end)(void);\n};\n\n"
        "void\nlow_read(struct low *low)\n{\n    low->on_end();\n}\n"
    ),
    "base/high.h": "void high_end(void);\nvoid high_open(void);\n",
    "base/high.c": (
        '#include "base/high.h"\n#include "base/low.h"\n\n'
        "void\nhigh_end(void)\n{\n}\n\n"
        "void\nhigh_open(void)\n{\n"
        "    struct low low = {.on_end = high_end};\n\n    low_read(&low);\n}\n"
    ),
    "client/main.c": (
        '#include "base/high.h"\n\nint\nmain(void)\n{\n'
        "    high_open();\n    high_end();\n    return 0;\n}\n"
    ),
    "doc/architecture.md": (
        "## The files of that way\n\n`base/low.c` and `base/high.c`.\n\n## Next\n"
    ),
    "doc/size.md": (
        "| files | 36 |\n| fan-out | 24 |\n| pointers | 9 |\n| large structs | 9 |\n"
        "| 3 | none | base/none.c |\n"
    ),
}

# A picture and a table that stand straight; the first line of the file is 1.
PICTURE = """\
/*
 * low.h - reads.
 *
 *     open --> READING --end--> ENDED
 *                |  ^             |
 *                |  +--- again ---+
 *                v
 *              FAILED
 *
 *     low_open    begins
 *     low_read    reads one piece, and
 *                 keeps it
 *     low_close   ends
 */
"""

# Ways in which they break: text, what becomes of it, the faults.
BROKEN = (
    (  # the formatter has broken a long row
        "reads one piece, and\n *                 keeps it",
        "reads one piece, and\n * keeps it",
        ["12: a row of the picture has flowed out"],
    ),
    (  # and has joined it with the next one
        "and\n *                 keeps it\n *     low_close   ends",
        "and keeps it\n * low_close   ends",
        ["12: a row of the picture has flowed out"],
    ),
    (
        "|  ^             |",
        "|  ^              |",
        [
            "5: | stands one column beside another stroke",
            "6: + stands one column beside another stroke",
        ],
    ),
    (
        "                v\n",
        "                 v\n",
        [
            "6: | stands one column beside another stroke",
            "7: v stands one column beside another stroke",
        ],
    ),
    (
        "|  +--- again ---+",
        "|   +--- again --+",
        [
            "5: ^ stands one column beside another stroke",
            "6: + stands one column beside another stroke",
        ],
    ),
    (
        "|  +--- again ---+",
        "|     +- again --+",
        ["6: + touches nothing above or below"],
    ),
    (
        "low_close   ends",
        "low_close    ends",
        ["13: a cell begins one column beside those of other rows"],
    ),
    (
        "low_read    reads one",
        "low_readers reads one",
        ["11: a label touches its text: put two blanks between them"],
    ),
)


class Product:
    """A tree with the tools, and files that a test changes."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(ROOT / "tools", root / "tools")
        for name, text in SOUND.items():
            self.write(name, text)
        subprocess.run(["git", "init", "-q", root], check=True)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def replace(self, name, old, new):
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def git(self, *words):
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(
            ["git", *who, *words], cwd=self.root, capture_output=True, check=True, text=True
        ).stdout

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def run(self, tool, *options):
        """Returns the exit status of a tool and what it prints."""
        result = subprocess.run(
            [self.root / "tools" / tool, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout


@pytest.fixture
def product(tmp_path):
    return Product(tmp_path / "product")


# What a commit does to low.c, what its message says of it, and what --check says of that.
GROWTHS = (
    ("\n", "read: nothing more", None),
    ("\nlow->end();", "read: end", "+1 code lines; its message allows +0"),
    ("\nlow->end();", "read: end\n\nSize: +1 it has to end", None),
    ("\n/* a reason */", "read: say why", None),
    ("\na;\nb;\nc;", "read: more\n\nSize: +1 a\nSize: +1 b", "+3 code lines; its message allows +2"),
    ("\na;\nb;", "read: more\n\nSize: +1 a\nSize: +1 b", None),
    ("\n", "read: less\n\nSize: -3 no more of it", "+0 code lines; its message allows -3"),
    ("\nlow->end();", "read: end\n\nSize: +1", '"Size: +1" lacks its reason'),
)


@pytest.fixture
def committed(product):
    """The product, in which each later commit says by how much it makes it larger."""
    product.commit("begin")
    since = product.git("rev-parse", "HEAD").strip()
    text = (ROOT / "tools/size.py").read_text(encoding="utf-8")
    product.write("tools/size.py", re.sub(r'SINCE = "\w+"', f'SINCE = "{since}"', text))
    product.commit("size: begin")
    return product


def test_a_commit_that_makes_the_product_larger_says_so(committed):
    assert committed.run("size.py", "--check")[0] == 0
    base = (committed.root / "base/low.c").read_text(encoding="utf-8")
    for more, message, complaint in GROWTHS:
        committed.write("base/low.c", base.replace("low->on_end();", "low->on_end();" + more))
        committed.write("note", message)  # lest a commit be empty
        committed.commit(message)
        status, out = committed.run("size.py", "--check")
        subject = message.partition("\n")[0]
        found = [line for line in out.splitlines() if f" {subject}: " in line]
        assert status == (1 if complaint else 0), (message, out)
        assert [complaint in line for line in found] == [True] * bool(complaint), out
        committed.git("reset", "-q", "--hard", "HEAD~1")


def test_a_history_without_its_beginning_is_no_proof(product):
    product.commit("begin")
    status, out = product.run("size.py", "--check")
    assert status == 1
    assert "git does not know" in out


def test_a_more_complex_function_says_so(committed):
    committed.replace("tools/size.py", "COMPLEX = 20", "COMPLEX = 1")
    assert committed.run("size.py", "--check")[0] == 0
    committed.replace("base/low.c", "low->on_end();", "if (low->end) low->on_end();")
    status, out = committed.run("size.py", "--check")
    assert status == 1
    assert "base/low.c: low_read has complexity 2, 1 is allowed" in out
    committed.replace("doc/size.md", "| 3 | none | base/none.c |", "| 2 | low_read | low.c |")
    assert committed.run("size.py", "--check")[0] == 0


def test_what_is_above_its_ceiling_says_so(committed):
    committed.replace("doc/size.md", "| files | 36 |", "| files | 3 |")
    status, out = committed.run("size.py", "--check")
    assert status == 1
    assert "base: files: 4, the ceiling is 3" in out


def test_the_way_of_a_change_has_a_limit_and_existing_files(committed):
    committed.replace("doc/architecture.md", "base/high.c", "base/tall.c")
    status, out = committed.run("size.py", "--check")
    assert status == 1
    assert "doc/architecture.md lists base/tall.c, which does not exist" in out
    committed.replace("doc/architecture.md", "base/tall.c", "base/high.c")
    committed.replace("tools/size.py", "PATH_LINES = 12000", "PATH_LINES = 12")
    status, out = committed.run("size.py", "--check")
    assert status == 1
    assert "the way of a change has 25 code lines, 12 are allowed" in out


def test_what_nothing_needs_is_found(product):
    assert product.run("unused.py") == (0, "every declaration is needed\n")
    product.replace("base/low.h", "void low_read", "void low_gone(int n);\nvoid low_read")
    product.replace(
        "client/main.c", "    high_end();\n", ""
    )  # now high.c alone uses it
    product.replace("base/high.h", "void high_open", "void high_shut(void);\nvoid high_open")
    product.replace("base/high.c", "void\nhigh_open", "void\nhigh_shut(void)\n{\n}\n\nvoid\nhigh_open")
    status, out = product.run("unused.py")
    assert status == 1
    assert out.splitlines() == [
        "base/low.h: low_gone is declared and not defined",
        "base/high.c: high_end is used in this file alone and is not static",
        "base/high.c: high_shut is used nowhere",
    ]


def test_includes_that_say_nothing_new_are_found(product):
    product.replace("base/high.h", "void high_open", '#include "base/low.h"\n\nvoid high_open')
    status, out = product.run("unused.py")
    assert status == 1
    assert out == "base/high.c: base/low.h is included by another header that it includes\n"


def test_circles_are_found_also_by_pointers_that_are_kept(product):
    assert product.run("circles.py") == (0, "2 folders have no circles\n")
    product.replace("base/low.c", "low->on_end();", "low->end();")
    product.replace("base/high.c", ".on_end =", ".end =")
    status, out = product.run("circles.py")
    assert status == 1
    assert "low -> high: high_end (by end)" in out
    product.replace("base/low.c", "low->end();", "high_end();")
    status, out = product.run("circles.py", "base")
    assert status == 1
    assert "low -> high: high_end\n" in out


def test_pictures_that_moved_are_found(product):
    for old, new, faults in BROKEN:
        product.write("base/low.h", PICTURE + SOUND["base/low.h"])
        assert product.run("pictures.py") == (0, "2 pictures stand straight\n")
        product.replace("base/low.h", old, new)
        status, out = product.run("pictures.py")
        assert status == 1
        assert out.splitlines() == [f"base/low.h:{fault}" for fault in faults]
