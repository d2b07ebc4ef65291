"""The commands of a program, as it lists them itself."""

import functools
import re
import subprocess

from tidings_test.broker import PROGRAMS

# "  set create                 Creates a set."; what a line continues stands further right.
LINE = re.compile(r"^  ([a-z]+(?: [a-z]+)?)(?:  |$)")
OPTION = re.compile(r"^  --([a-z0-9-]+)(?: (\S.*?))?(?:  |$)", re.M)


class Command:
    """A command: its help, its options (name: argument, "" if it has none)."""

    def __init__(self, program, name):
        self.program, self.name = program, name
        self.words = name.split()
        self.help = _printed(program, "help", *self.words)
        self.options = dict(OPTION.findall(self.help))
        self.usage = self.help.partition("\n")[0]

    def __str__(self):
        return f"{self.program} {self.name}"

    @property
    def has_required_operand(self):
        operands = self.usage.removeprefix(f"usage: {self}").split()
        return not operands[0].startswith("[")

    @property
    def examples(self):
        """The lines of its examples, without the ends that continue them."""
        text = self.help.partition("\nExamples:\n")[2].partition("\n\n")[0]
        return [line.strip() for line in text.replace("\\\n", " ").splitlines()]


def _printed(program, *arguments):
    done = subprocess.run([PROGRAMS[program], *arguments], stdout=-1, check=True)
    return done.stdout.decode()


@functools.cache
def commands_of(program):
    lines = _printed(program, "help").splitlines()
    return [Command(program, found[1]) for found in map(LINE.match, lines) if found]
