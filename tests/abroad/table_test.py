"""The table of README.md, and the files of the sources."""

from tidings_test import abroad, looks


def test_table_is_up_to_date():
    assert looks.README.read_text(encoding="utf-8") == looks.readme()


def test_list_names_sources_and_commands_that_exist():
    for name, command in looks.not_yet():
        source = abroad.Source.named(name)
        assert command in looks.commands() and source.says_of(command), name


# A member that nobody reads is a check that nobody makes.
def test_each_member_of_a_source_is_known():
    for source in abroad.all_sources():
        assert source.unknown_members() == set(), source.name
