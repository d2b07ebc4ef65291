"""Backups of a broker's data directory, and brokers on what they restore.

    backups = Backups(run, tmp_path / "backup")
    did = backups.make(broker)
    did.copied, did.kept          how many files
    backups.restore(broker)       stops it; its data directory is a restored one now
"""

import collections
import re

Did = collections.namedtuple("Did", "copied copied_bytes kept kept_bytes")

FIGURES = re.compile(
    r"copied (\d+) files of (\d+) bytes; "
    r"the former backup has (\d+) more, of (\d+) bytes"
)


class Backups:
    def __init__(self, run, directory):
        self.run = run
        self.directory = directory

    def make(self, broker, *options, status=0):
        """Back up the data directory of the broker, which may run."""
        done = self.run(
            "tidingsd",
            "backup",
            self.directory,
            "--data",
            broker.data,
            *options,
            status=status,
        )
        (figures,) = (
            found for line in done.out if (found := FIGURES.fullmatch(line))
        )
        return Did(*map(int, figures.groups()))

    def files(self):
        """The names of all files of the latest backup, from the backup's folder."""
        lines = (self.directory / "manifest").read_text().splitlines()
        return [line[66:] for line in lines if line[0] != "#"]

    def check_whole(self):
        """The manifest is one that everybody can check, and names all files."""
        self.run("/bin/sh", "-c", f"cd {self.directory} && sha256sum -c --quiet manifest")
        present = {
            str(path.relative_to(self.directory))
            for path in self.directory.glob("0*/**/*")
            if path.is_file()
        }
        assert present == set(self.files())

    def restore(self, broker, *options, status=0):
        """Give the broker, which has ended, a data directory made of the latest
        backup. The output of the restore."""
        new = broker.data.with_name(f"{broker.data.name}-restored")
        done = self.run(
            "tidingsd", "restore", self.directory, "--data", new, *options, status=status
        )
        if status == 0:
            self.run("tidingsd", "check", "--deep", "--data", new)
        broker.data = new
        return done
