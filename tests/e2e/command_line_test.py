"""The command lines of both programs: each command of their own tables."""

import os
import re
import shlex

import pytest

from tidings_test.broker import BIN, PROGRAMS
from tidings_test.command_table import commands_of

pytestmark = pytest.mark.parametrize("program", ["tidings", "tidingsd"])

# A terminal of 80 columns whose user wants no colours.
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm-256color"}


def assert_plain(text):
    """True of text for such a terminal: short lines, no control characters."""
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert re.findall(r"[^\n\x20-\x7e]", text) == []


def test_the_table_is_whole(program):
    names = {command.name for command in commands_of(program)}
    assert names >= {"help", "completion"}
    assert len(names) >= 10


def test_each_command_has_its_help(program, run):
    for command in commands_of(program):
        assert_plain(command.help)
        assert command.usage.startswith(f"usage: {command}")
        assert command.usage.endswith(" [OPTION]...")
        for wish in ("-h", "--help"):
            behind = run(program, *command.words, wish, env=PLAIN).output()
            before = run(program, wish, *command.words, env=PLAIN).output()
            assert f"{behind}\n" == f"{before}\n" == command.help


def test_the_program_has_its_help(program, run):
    texts = [run(program, *words, env=PLAIN) for words in (["help"], ["--help"], ["-h"])]
    for text in texts:
        assert_plain(text.output())
        assert text.errors() == ""
    whole, *others = [text.output() for text in texts]
    assert others[0] == others[1]
    assert others[0] == whole or program == "tidingsd"
    for command in commands_of(program):
        assert f"\n  {command.name}" in whole
    version = run(program, "--version").output()
    assert re.fullmatch(rf"{program} \d+\.\d+\.\d+\S*", version)


def test_each_example_is_a_command_with_options_that_there_are(program):
    for command in commands_of(program):
        assert command.examples, f"{command} has no example"
        for line in command.examples:
            words = shlex.split(line)
            assert words[: len(command.words) + 1] == [program, *command.words], line
            for option in re.findall(r" --([a-z0-9-]+)", line):
                assert option in command.options, line


def test_a_group_lists_its_commands(program, run):
    groups = {c.words[0] for c in commands_of(program) if len(c.words) == 2}
    for group in groups:
        lines = [f"\n  {c.name}" for c in commands_of(program) if c.words[0] == group]
        for words in ([group, "--help"], [group, "-h"], ["help", group]):
            asked = f"\n{run(program, *words).output()}"
            assert all(line in asked for line in lines), group
        alone = run(program, group, status=2)
        assert all(line in alone.errors() for line in lines[1:]), group
        assert alone.output() == ""


def test_a_typo_gets_a_suggestion(program, run):
    for command in commands_of(program):
        typo = [*command.words[:-1], f"{command.words[-1]}x"]
        wrong = run(program, *typo, status=2)
        assert wrong.errors() == (
            f'{program}: there is no command "{" ".join(typo)}"; '
            f'did you mean "{command.name}"?'
        )
        for option in {*list(command.options)[:2], "help"}:
            wrong = run(program, *command.words, f"--{option}x", status=2)
            assert wrong.errors() == (
                f"{command}: --{option}x: there is no such option; "
                f"did you mean --{option}?"
            )
            assert wrong.output() == ""


def test_an_option_without_its_value_is_refused(program, run):
    for command in commands_of(program):
        kinds = {bool(argument): (o, argument) for o, argument in command.options.items()}
        for option, argument in kinds.values():
            if argument:
                wrong = run(program, *command.words, f"--{option}", status=2)
                says = f"{command}: --{option}: {argument} is missing"
            else:
                wrong = run(program, *command.words, f"--{option}=x", status=2)
                says = f"{command}: --{option}: takes no value"
            assert wrong.errors() == says


def test_no_argument_ends_with_a_sentence(program, run, tmp_path):
    for command in commands_of(program):
        status = 2 if command.has_required_operand else None
        done = run(program, *command.words, status=status, cwd=tmp_path, env=PLAIN)
        if done.status:
            assert done.errors().startswith(f"{command}: "), done.errors()
            assert len(done.err) == 1
            assert done.output() == ""
        if status:
            assert " needs " in done.errors() or " is missing" in done.errors()
    if program == "tidings":  # tidingsd serves
        assert "no command" in run(program, status=2).errors()


def test_too_many_operands_are_refused(program, run):
    for command in commands_of(program):
        if "..." in command.usage.removesuffix(" [OPTION]..."):
            continue
        wrong = run(program, *command.words, *"abcdefgh", status=2)
        assert "is too much; --help says more" in wrong.errors()


@pytest.mark.parametrize(
    "stdout, reason",
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
)
def test_output_that_nobody_gets_is_a_failure(program, stdout, reason, run):
    wishes = [[*command.words, "-h"] for command in commands_of(program)]
    wishes += [["help"], ["--help"], ["--version"], ["help", "--scdoc"]]
    wishes += [["completion", shell] for shell in ("bash", "zsh", "fish")]
    for words in wishes:
        line = f"exec {PROGRAMS[program]} {' '.join(words)} {stdout}"
        done = run("/bin/sh", "-c", line, status=1)
        assert done.errors() == f"{program}: cannot write to standard output: {reason}"


# No file that the program opens gets their descriptors, and the output with them.
def test_closed_streams_are_no_files(program, start, tmp_path):
    runs = {
        "tidings": ("follow http://127.0.0.1:1/sets/a --verbose", "again in"),
        "tidingsd": (f"--listen 127.0.0.1:0 --data {tmp_path}/data", "ready"),
    }
    words, awaited = runs[program]
    line = f"exec {PROGRAMS[program]} {words} <&- >&-"
    running = start("/bin/sh", "-c", line)
    running.err.find(lambda said: awaited in said)
    fds = [os.readlink(f"/proc/{running.pid}/fd/{fd}") for fd in (0, 1)]
    assert fds == ["/dev/null", "/dev/null"]


# scdoc, and the fonts of troff, say what is wrong with the page.
def test_the_manual_page_says_all_and_has_no_fault(program, run, tmp_path):
    page = tmp_path / f"{program}.1"
    scdoc = f"{PROGRAMS[program]} help --scdoc | /usr/bin/scdoc >{page}"
    assert run("/bin/sh", "-c", scdoc).errors() == ""
    shown = run(
        *("/usr/bin/man", "--warnings", "--local-file", page),
        env={"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PAGER": "cat"},
    )
    assert shown.errors() == ""
    text = re.sub(r".\x08", "", shown.output())
    for command in commands_of(program):
        assert f"   {command.usage.removeprefix('usage: ').split(' --')[0]}"[:60] in (
            text.replace(" [OPTION]...", "")
        ) or f"   {command}" in text
        for option in command.options.keys() - {"help"}:
            assert re.search(rf"^ +--{option}\b", text, re.M), (command.name, option)
    built = BIN.parent / "man" / f"{program}.{'8' if program == 'tidingsd' else '1'}"
    if built.exists():
        assert built.read_text().splitlines()[10:] == page.read_text().splitlines()[10:]


def completions(program, shell, run, tmp_path):
    """The file of a shell, after that shell has read it without a complaint."""
    path = tmp_path / f"_{program}"
    text = run(program, "completion", shell)
    path.write_text(f"{text.output()}\n")
    checked = run(f"/usr/bin/{shell}", "-n", path)
    assert (checked.output(), checked.errors()) == ("", "")
    return path


def expected(program):
    """Words on the line, and what the last of them may become: for each command, its
    name, its options, all and by their first letters, and the values of options that
    are words."""
    for command in commands_of(program):
        for n in range(len(command.words)):
            yield [*command.words[:n], command.words[n][:2]], {command.words[n]}
        options = {f"--{option}" for option in command.options}
        yield [*command.words, "--"], options
        begun = min(options, default="--")[:4]
        found = {option for option in options if option.startswith(begun)}
        yield [*command.words, begun], found
        for option, argument in command.options.items():
            if re.fullmatch(r"[a-z]+(\|[a-z]+)+", argument):
                for value in argument.split("|"):
                    yield [*command.words, f"--{option}", value[:1]], {value}
            elif argument == "FILE":
                yield [*command.words, f"--{option}", "a f"], {"a file"}
            elif argument == "DIR":
                yield [*command.words, f"--{option}", "a d"], {"a directory"}


# As bash does it when the user presses the tab key.
BASH = r"""
. "$1"; cd "$2"
while IFS=$'\t' read -r -a COMP_WORDS; do
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
    function=$(complete -p "${COMP_WORDS[0]}"); function=${function#*-F }
    "${function% *}" "${COMP_WORDS[0]}"
    printf '%s\t' "${COMPREPLY[@]}"; echo
done
"""


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    (folder / "a directory").mkdir(parents=True)
    (folder / "a file").write_text("")
    return folder


def test_bash_completes(program, run, tmp_path, files):
    path = completions(program, "bash", run, tmp_path)
    cases = list(expected(program))
    lines = "".join("\t".join([program, *words]) + "\n" for words, _ in cases)
    done = run("/usr/bin/bash", "-c", BASH, "bash", path, files, input=lines)
    assert done.errors() == ""
    assert len(done.out) == len(cases) > 50
    for (words, completed), line in zip(cases, done.out):
        found = line.split("\t")[:-1]
        assert completed <= set(found), (words, completed, found)
        assert all(each.startswith(words[-1]) for each in found), (words, found)


# "--name=va" is three words for bash.
def test_bash_completes_behind_an_equals_sign(program, run, tmp_path, files):
    path = completions(program, "bash", run, tmp_path)
    command = ["--log-level"] if program == "tidingsd" else ["follow", "--format"]
    line = "\t".join([program, *command, "=", "e" if program == "tidingsd" else "j"])
    done = run("/usr/bin/bash", "-c", BASH, "bash", path, files, input=f"{line}\n")
    assert done.output().split() == ["error" if program == "tidingsd" else "json"]


def test_fish_completes(program, run, tmp_path, files):
    path = completions(program, "fish", run, tmp_path)
    cases = list(expected(program))
    script = ["source $argv[1]", f"cd '{files}'"]
    for words, _ in cases:
        line = shlex.join([program, *words[:-1]])
        last = words[-1].replace(" ", "\\ ")
        script += [f"complete -C {shlex.quote(f'{line} {last}')}", "echo ."]
    (tmp_path / "script").write_text("\n".join(script))
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "none")}
    done = run(
        *("/usr/bin/fish", "--no-config", tmp_path / "script", path), env=environment
    )
    assert done.errors() == ""
    answers = "\n".join(done.out).split("\n.")
    assert len(answers) == len(cases) + 1
    for (words, completed), answer in zip(cases, answers):
        found = [line.split("\t")[0].rstrip("/") for line in answer.splitlines()]
        names = {each.replace("\\ ", " ") for each in found}
        assert completed <= names, (words, completed, found)


# zsh completes only in a terminal: the test types, and reads until the word is there.
def test_zsh_completes(program, start, run, tmp_path, files):
    path = completions(program, "zsh", run, tmp_path)
    master, terminal = os.openpty()
    shell = start(
        *("/usr/bin/zsh", "-f", "-i"),
        env={"TERM": "dumb", "PS1": "", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)},
        cwd=files,
        terminal=terminal,
    )
    os.close(terminal)

    def type_and_await(typed, awaited):
        os.write(master, typed.encode())
        seen = ""
        while awaited not in seen:
            seen += os.read(master, 65536).decode(errors="replace")

    os.write(master, f"autoload -Uz compinit; compinit -u -D; . {path}; echo\n".encode())
    shell.out.wait(1)
    cases = {
        "tidings": [("foll", "follow "), ("follow --form", "--format"), ("set cr", "create")],
        "tidingsd": [("back", "backup "), ("token add --pub", "--publish"), ("--li", "--listen")],
    }
    for typed, awaited in cases[program]:
        type_and_await(f"\x15{program} {typed}\t", awaited)
    shell.kill()
    os.close(master)
