"""Pages of the documentation, as a reader uses them: commands are typed, files are saved, and
what a page says a command prints is printed.

    page = Page(ROOT / "doc/first_hour.md")
    page.blocks                     the indented blocks, each with the paragraph above it
    Reader(tmp_path, start_broker, run, start).read(page)

A block has one of these forms:

    $ tidings get URL               a command. Lines below it, up to the next "$ ", are what
    set   http://...                it prints: each is a part of the output or of the errors,
    position  ...-2                 each in its order, and "..." in it is any text. A line
                                    that ends with "\\" goes on in the next one.
    # systemctl start tidingsd      a command of root, which changes the machine. It is not
                                    run; its first word is one of ROOT_PROGRAMS.
    tidings follow SET-URL          a form, with a word in capitals for what the reader puts
                                    there. It is not run.

The paragraph above a block says more about it:

    ... as `NAME`:                  the block is a file. The reader saves it.
    ... second terminal ...:        (in its last sentence) commands run there, beside those of
                                    the first terminal; likewise in a third one. A block
                                    without commands is what that terminal prints.
    Press Ctrl-C in the second terminal.

The command `tidingsd`, or `./broker/start`, with options alone starts the broker of the page;
a second one starts it again, at the same address and with the same data. Unless its first command
does, a page has a broker from its beginning, with a set "demo" of three changes. All commands run in one folder, which
has the checkout's doc, packaging and tests in it.
"""

import os
import pathlib
import re
import shlex

from tidings_test import http
from tidings_test.broker import BIN, ROOT
from tidings_test.waiting import wait_for

PROMPT = "$ "
ROOT_PROMPT = "# "
ADDRESS = "127.0.0.1:8787"  # of the broker, on all pages
WEB_PORT = "8000"  # of a web server
PORTS = re.compile(r"\b(8000|879[012])\b")  # of what else a page starts

# A line that begins with one of these is a command.
PROGRAMS = frozenset(
    """apt-get awk build/release/bin/tidings build/release/bin/tidingsd caddy cc cp
    createdb curl docker grep initdb install journalctl kill ldconfig mkdir mosquitto_pub
    mosquitto_sub mv nginx node npm openssl perl pg_ctl printf prometheus promtool psql
    python3 rsync sh sha256sum sqlite3 sudo systemctl tidings tidingsd umask wget ./broker/start""".split()
)
METHODS = re.compile(r"-X (?:DELETE|GET|PATCH|POST|PUT)\b|<<'END'")
ROOT_PROGRAMS = frozenset(
    """apt-get bash cmake dpkg-buildpackage echo install journalctl ldconfig loginctl make
    runuser systemctl systemd-sysusers usermod""".split()
)
PLACE = re.compile(r"(?<![A-Z_$\"{])[A-Z]{2,}(?:-[A-Z]+)*(?![A-Z_a-z])")  # SET-URL, FILE
SERVERS = ("tidingsd", "./broker/start")
SUBCOMMANDS = ("token", "key", "check", "backup", "restore", "cluster", "postgresql", "help", "completion")


class Block:
    """Indented lines, without their indentation, and the paragraph above them."""

    def __init__(self, above, lines):
        self.above = above
        self.lines = lines

    @property
    def file_name(self):
        """The name under which the reader saves it; None: it is no file."""
        found = re.search(r" as\s+`([^`/]+)`[^`:]*:$", self.above)
        return found and found[1]

    @property
    def is_commands(self):
        return self.lines[0].startswith(PROMPT)

    @property
    def terminal(self):
        """The terminal that its last sentence names; None: the first one."""
        last = re.split(r"[.!] ", self.above)[-1]
        found = re.search(r"(second|third) terminal", last)
        return found and found[1]

    @property
    def interrupted(self):
        """The terminal in which the reader presses Ctrl-C before."""
        found = re.search(r"Ctrl-C in the (second|third) terminal", self.above)
        return found and found[1]

    def commands(self):
        """Pairs of a command and the lines that it prints."""
        pairs = []
        for line in self.lines:
            if line.startswith(PROMPT):
                pairs.append((line.removeprefix(PROMPT), []))
            elif not pairs[-1][1] and pairs[-1][0].endswith("\\"):
                pairs[-1] = (f"{pairs[-1][0]}\n{line}", [])
            elif line:
                pairs[-1][1].append(line)
        return pairs

    def unmarked(self):
        """Lines that are commands, and that nobody runs."""
        if self.file_name or self.is_commands:
            return []
        found = []
        text = "\n".join(self.lines).replace("\\\n", " ")
        for line in text.split("\n"):
            program = line.removeprefix(ROOT_PROMPT).split(" ")[0]
            if line.startswith(ROOT_PROMPT) and program in PROGRAMS | ROOT_PROGRAMS:
                if program not in ROOT_PROGRAMS:
                    found.append(line)
            elif line.split(" ")[0] in PROGRAMS and not PLACE.search(METHODS.sub("", line)):
                found.append(line)
        return found


class Page:
    """A page, at its path."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.blocks = list(_blocks(self.path.read_text().splitlines()))

    def commands(self):
        return [pair for block in self.blocks if block.is_commands for pair in block.commands()]

    def uses(self, program):
        """True if a command of the page begins with that program."""
        return any(command.split(" ")[0] == program for command, _ in self.commands())

    def file(self, name):
        """The text of the file that the page shows under that name."""
        for block in self.blocks:
            if block.file_name == name:
                return "\n".join(block.lines) + "\n"
        raise AssertionError(f"{self.path.name} shows no file {name}")


def _blocks(lines):
    """An indented block ends with a line that is not indented. Blank lines are of it."""
    above, block, before = [], [], ""
    for line in [*lines, "."]:
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block:
            while not block[-1]:
                block.pop()
            yield Block(" ".join(above), block)
        if line:
            above = [*above, line] if before and not block else [line]
        before, block = line, []


class Reader:
    """Somebody who does what a page says, in a folder of its own. `others` are texts of pages
    and what stands for them in the test; `when_served` is called after each start of the broker."""

    def __init__(self, folder, start_broker, run, start, env=None, options=()):
        self.folder = pathlib.Path(folder) / "reader"
        self.folder.mkdir()
        for name in ("doc", "packaging", "tests"):
            (self.folder / name).symlink_to(ROOT / name)
        self.broker = None
        self.terminals = {}  # what runs in each, but for the first one
        self._start_broker, self._run, self._start = start_broker, run, start
        self._options = options
        self.others = {}
        self.when_served = lambda: None
        self._ports, self._keepers = {}, []
        self.env = {
            "PATH": f"{BIN}:/usr/bin:{os.environ['PATH']}",  # Debian's Python
            "TMPDIR": str(folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_STATE_HOME": str(self.folder / ".state"),
            **(env or {}),
        }

    def read(self, page, has_broker=True):
        """Do all that the page says, at a broker unless the page has its own ones."""
        if has_broker and not starts_broker(page.commands()[0][0]):
            self.serve([])
            self.broker.set("demo").post(3)
        for block in page.blocks:
            self.interrupt(block.interrupted)
            if block.file_name:
                (self.folder / block.file_name).write_text(
                    self.here("\n".join(block.lines) + "\n")
                )
            elif block.is_commands:
                for command, shown in block.commands():
                    self.type(command, shown, block.terminal)
            elif block.terminal:
                self.watch(block.terminal, block.lines)

    def type(self, command, shown=(), terminal=None):
        """Give a command, and compare what it prints."""
        if starts_broker(command):
            return self.serve(shlex.split(command)[1:])
        command = self.here(command)
        shell = ("/bin/bash", "-o", "pipefail", "-c", command)
        if terminal:
            program = self._start(*shell, cwd=self.folder, env=self.env)
            self.terminals[terminal] = program
            self._wait_listening(command)
            return self.watch(terminal, shown)
        done = self._run(*shell, cwd=self.folder, env=self.env)
        printed = [[self.there(said) for said in lines] for lines in (done.out, done.err)]
        for line in shown:
            assert any(take(line, lines) for lines in printed), (
                f"{command} did not print {line!r}: {done.output()}\n{done.errors()}"
            )
        assert "about:blank" not in done.output(), (command, done.output())

    def serve(self, options):
        """Start the broker of the page, or start it again with other options."""
        options = [self.here(option) for option in options]
        if "--config" in options:
            at = options.index("--config") + 1
            text = (self.folder / options[at]).read_text()
            options[at] = str(self.folder / "tidingsd.ini")
            pathlib.Path(options[at]).write_text(self.here(text))
        if self.broker:
            self.broker.stop()
            self.broker.set_options(*self._options, *options)
            self.broker.restart()
            return self.when_served()
        where = {"directory": self.folder, "data": "tidings-data"}
        self.broker = self._start_broker(*self._options, *options, **where)
        self.when_served()

    def interrupt(self, terminal):
        """Ctrl-C there."""
        program = self.terminals.get(terminal)
        if program and program.is_running:
            program.signal(2)
            program.wait()

    def watch(self, terminal, shown):
        """Wait until that terminal has printed these lines, in this order."""
        out = self.terminals[terminal].out
        for line in shown:
            out.next(lambda said: is_shown(line, self.there(said)), line)

    def here(self, text):
        """A text of the page with the addresses of the test."""
        if self.broker:
            text = text.replace(ADDRESS, f"127.0.0.1:{self.broker.port}")
        for page, test in self.others.items():
            text = text.replace(page, test)
        return PORTS.sub(lambda found: str(self._port(found[0])), text)

    def _port(self, number):
        if number not in self._ports:
            self._ports[number], keeper = http.keep_port()
            self._keepers.append(keeper)
        return self._ports[number]

    def there(self, text):
        """A text of the test with the addresses of the page."""
        if self.broker:
            text = text.replace(f"127.0.0.1:{self.broker.port}", ADDRESS)
        for number, port in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{number}")
        return text

    @property
    def web_url(self):
        return f"http://127.0.0.1:{self._port(WEB_PORT)}"

    def end(self):
        for keeper in self._keepers:
            keeper.close()

    def _wait_listening(self, command):
        """Wait for the ports that the command, or a file that it names, has in it."""
        named = (self.folder / word for word in command.split())
        text = "".join(path.read_text() for path in named if path.is_file() and path.suffix != ".pl")
        for port in self._ports.values():
            if str(port) in command + text:
                wait_for(f"a server at {port}", lambda: _is_listening(port))


def _is_listening(port):
    try:
        http.Client(port).connect().close()
    except ConnectionRefusedError:
        return False
    return True


def starts_broker(command):
    """True if it starts a broker, and is no other command of that program."""
    program, *options = command.split(" ")
    if program not in SERVERS or options[:1] in [[name] for name in SUBCOMMANDS]:
        return False
    return not {"--check", "--check-settings", "--example", "--help", "--routes"} & set(options)


def is_shown(line, said):
    """True if the line of a page is in what was said; "..." is any text."""
    parts = [re.escape(part) for part in line.split("...")]
    return re.search(".*".join(parts), said) is not None


def take(line, lines):
    """True if the line of a page is in one of the lines; that one and those before it are removed."""
    for i, said in enumerate(lines):
        if is_shown(line, said):
            del lines[: i + 1]
            return True
    return False


def anchors(text):
    """The addresses of the headings within a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-") for h in headings}


def follow_links(pages):
    """The number of relative links of the pages; those that lead to no file, or to a
    heading that its page lacks."""
    n_links, broken = 0, []
    for page in pages:
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            is_whole = target.exists() and (
                not anchor or anchor in anchors(target.read_text())
            )
            n_links += 1
            if not is_whole:
                broken.append((str(page), link))
    return n_links, broken
