#!/usr/bin/python3
"""Makes the documentation as a web site: site.py DOCUMENTS VERSION OUT C_FILE EXAMPLE...

DOCUMENTS is the folder of the installed pages (tools/documents.cmake). OUT, which is
emptied first, gets a page for each, in HTML, with what they show, and the examples; the
index of the search; llms.txt and llms-full.txt. C_FILE gets all of these for the broker, compressed
(broker/documents/manual_document.h). cmark-gfm reads the Markdown, as GitHub does.

A page needs no server: links are relative, and the search reads a script.
"""

import gzip
import hashlib
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys

WEB = pathlib.Path(__file__).resolve().parent.parent / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
}

# Names of pages that are not those of their files.
NAMES = {
    "README.md": "readme.html",
    "CHANGELOG.md": "changelog.html",
    "SECURITY.md": "security-policy.html",
    "doc/README.md": "index.html",
}

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Tidings {version}</title>
<link rel="stylesheet" href="manual.css">
<script src="manual.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the page</a>
<header>
<a href="index.html">Tidings {version}</a>
<form id="search" role="search" hidden>
<label for="words">Search</label>
<input id="words" type="search" autocomplete="off" spellcheck="false">
</form>
<nav aria-label="Versions"><a href="changelog.html">Changes</a></nav>
</header>
<div class="sides">
<nav aria-label="Pages">
{pages}
</nav>
<main id="main">
<section id="found" aria-live="polite" hidden></section>
<article>
{body}</article>
<nav class="next" aria-label="Neighbours">{neighbours}</nav>
</main>
</div>
</body>
</html>
"""


def name_of(path):
    """The name of a page in the site, by its path below DOCUMENTS."""
    return NAMES.get(path) or pathlib.PurePath(path).stem + ".html"


def slug(heading):
    """The address of a heading within its page, as GitHub makes it."""
    text = html.unescape(re.sub(r"<[^>]+>", "", heading)).lower()
    return re.sub(r"[^\w -]", "", text).replace(" ", "-")


def tabbed(body):
    """Headings of the fourth level, one after the other, become tabs, which need no
    script."""
    made, n = [], 0
    for group in re.split(r"((?:<h4 id=.*?(?=<h[1-6] id=|\Z))+)", body, flags=re.DOTALL):
        tabs = re.findall(
            r'<h4 id="(.*?)">(.*?) <a class="mark".*?</h4>(.*?)(?=<h4 id=|\Z)', group, re.DOTALL
        )
        if not tabs:
            made.append(group)
            continue
        n += 1
        made.append('<fieldset class="tabs"><legend>In</legend>\n')
        for i, (own, name, content) in enumerate(tabs):
            chosen = " checked" if i == 0 else ""
            made.append(
                f'<input type="radio" name="tabs{n}" id="choose-{own}"{chosen}>'
                f'<label for="choose-{own}">{name}</label>\n'
                f'<div class="tab" id="{own}">{content}</div>\n'
            )
        made.append("</fieldset>\n")
    return "".join(made)


class Site:
    def __init__(self, documents, version):
        self.documents, self.version = documents, version
        self.paths = sorted(
            str(path.relative_to(documents)) for path in documents.rglob("*.md")
        )
        self.texts = {path: (documents / path).read_text() for path in self.paths}
        self.titles = {path: text.split("\n")[0][2:] for path, text in self.texts.items()}
        self.sections = list(self.read_sections())
        self.sections.append(("More", [path for path in self.paths if path not in self.listed()]))

    def read_sections(self):
        """The pages by task, in the order of doc/README.md: each where it comes first."""
        seen = {"doc/README.md"}
        for part in re.split(r"(?m)^## ", self.texts["doc/README.md"])[1:]:
            found = []
            for link in re.findall(r"\]\(([^)#]+\.md)", part):
                path = link.removeprefix("../") if link.startswith("../") else f"doc/{link}"
                if path in self.texts and path not in seen:
                    seen.add(path)
                    found.append(path)
            yield part.split("\n")[0], found

    def listed(self):
        return {"doc/README.md", *(path for _, paths in self.sections for path in paths)}

    def link(self, path, target):
        """A link of the page `path`, as it is in the site."""
        name, dash, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return target
        whole = pathlib.PurePath(path).parent / name
        parts = []
        for part in whole.parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        known = "/".join(parts)
        flat = name_of(known) if known in self.texts else parts[-1]
        return f"{flat}{dash}{anchor}"

    def read(self, path):
        """The page in HTML; its parts are (heading, address, text)."""
        command = ("cmark-gfm", "--extension", "table", "--extension", "strikethrough")
        done = subprocess.run(
            command, input=self.texts[path], stdout=subprocess.PIPE, text=True, check=True
        )
        taken, parts = set(), []

        def heading(match):
            level, text = match.groups()
            own = first = slug(text)
            n = 0
            while own in taken:
                n += 1
                own = f"{first}-{n}"
            taken.add(own)
            mark = f'<a class="mark" href="#{own}" aria-label="Link to this part">#</a>'
            return f'<h{level} id="{own}">{text} {mark}</h{level}>'

        body = re.sub(r"<h([1-6])>(.*?)</h\1>", heading, done.stdout, flags=re.DOTALL)
        body = re.sub(
            r'(href|src)="([^"]*)"',
            lambda m: f'{m[1]}="{html.escape(self.link(path, html.unescape(m[2])))}"',
            body,
        )
        body = body.replace("<th></th>", "<td></td>")
        body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
        body = body.replace("</table>", "</table></div>")
        body = body.replace("<pre>", '<pre tabindex="0">')
        for part in re.split(r"(?=<h[1-6] id=)", body):
            if found := re.match(r'<h[1-6] id="([^"]*)">(.*?) <a class="mark"[^>]*>#</a>', part, re.DOTALL):
                text = re.sub(r"<[^>]+>", " ", part[found.end() :])
                words = " ".join(html.unescape(text).split())
                title = html.unescape(re.sub(r"<[^>]+>", "", found[2]))
                parts.append((title, found[1], words))
        return tabbed(body), parts

    def contents(self, current):
        """The links to all pages."""
        lines = []
        for title, paths in self.sections:
            inside = any(path == current for path in paths)
            lines += [f"<details{' open' if inside else ''}><summary>{title}</summary>", "<ul>"]
            for path in paths:
                here = ' aria-current="page"' if path == current else ""
                text = html.escape(self.titles[path].replace("`", ""))
                lines.append(f'<li><a href="{name_of(path)}"{here}>{text}</a></li>')
            lines += ["</ul>", "</details>"]
        return "\n".join(lines)

    def neighbours(self, current):
        order = ["doc/README.md", *(path for _, paths in self.sections for path in paths)]
        at = order.index(current)
        links = []
        for rel, i in (("prev", at - 1), ("next", at + 1)):
            if 0 <= i < len(order):
                text = html.escape(self.titles[order[i]].replace("`", ""))
                links.append(f'<a rel="{rel}" href="{name_of(order[i])}">{text}</a>')
        return "\n".join(links)

    def write(self, out, examples):
        index = []
        for path in self.paths:
            body, parts = self.read(path)
            page = PAGE.format(
                title=html.escape(self.titles[path].replace("`", "")),
                version=self.version,
                pages=self.contents(path),
                body=body,
                neighbours=self.neighbours(path),
            )
            (out / name_of(path)).write_text(page)
            title = self.titles[path].replace("`", "")
            index += [[name_of(path), title, *part] for part in parts]
        text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
        (out / "search.js").write_text(f"globalThis.manualIndex = {text};\n")
        self.write_texts(out)
        for path in self.documents.rglob("*"):
            if path.is_file() and path.suffix != ".md":
                shutil.copy(path, out / path.name)
        for path in [WEB / "manual.css", WEB / "manual.js", *examples]:
            shutil.copy(path, out)

    def write_texts(self, out):
        """What programs with a language model read (llmstxt.org)."""
        lines = [f"# Tidings {self.version}", ""]
        lines += ["> " + self.texts["README.md"].split("\n")[2], ""]
        for title, paths in self.sections:
            lines += [f"## {title}", ""]
            lines += [f"- [{self.titles[p]}]({name_of(p)})" for p in paths]
            lines.append("")
        lines += ["All of it: [llms-full.txt](llms-full.txt)", ""]
        (out / "llms.txt").write_text("\n".join(lines))
        pages = (f"{self.texts[path].rstrip()}\n" for path in self.paths)
        (out / "llms-full.txt").write_text("\n".join(pages))


def write_c(site, out):
    """The files in a table of C, sorted by their names."""
    rows, arrays = [], []
    for i, path in enumerate(sorted(site.iterdir())):
        data = path.read_bytes()
        if path.name == "llms.txt":  # the broker has it at /
            data = data.replace(b"](", b"](doc/")
        packed = gzip.compress(data, 9, mtime=0)
        codes = ",".join(map(str, packed))
        arrays.append(f"static const unsigned char file{i}[] = {{{codes}}};\n")
        tag = ",".join(map(str, hashlib.sha256(data).digest()))
        type = TYPES.get(path.suffix, "text/plain; charset=utf-8")
        rows.append(
            f'    {{"{path.name}", "{type}", {{(const char *)file{i}, sizeof(file{i})}},'
            f" {len(data)}, {{{{{tag}}}}}}},\n"
        )
    out.write_text(
        '#include "broker/documents/manual_document.h"\n\n'
        + "".join(arrays)
        + "\nconst struct manual_file manual_files[] = {\n"
        + "".join(rows)
        + f"}};\nconst size_t manual_n_files = {len(rows)};\n"
    )


def main():
    documents, version, out, c_file, *examples = sys.argv[1:]
    out = pathlib.Path(out)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    Site(pathlib.Path(documents), version).write(out, examples)
    write_c(out, pathlib.Path(c_file))


if __name__ == "__main__":
    main()
