"""A PostgreSQL server of a test's own: a directory, a unix socket, no port.

    database = Postgresql()
    database.query("SELECT 1")              rows, each the text of its columns
    run("psql", ..., env=database.env)      its clients find it by these variables
    database.end()

PostgreSQL does not run as root: then it is the user postgres, whom the package creates.
"""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

from tidings_test.process import Process

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")
USER = "postgres"


class Postgresql:
    """A server that runs. Its log has what logical decoding needs."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tidings-postgresql-"))
        data = self.directory / "data"
        self.env = {
            "PGHOST": str(self.directory),
            "PGUSER": USER,
            "PGDATABASE": "postgres",
            "PGOPTIONS": "--client-min-messages=warning",
        }
        as_user = []
        if os.getuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.directory.chmod(0o755)
            as_user = ["/usr/bin/setpriv", "--reuid", USER, "--regid", str(user.pw_gid)]
            as_user += ["--clear-groups", "--pdeathsig", "KILL"]
        made = subprocess.run(
            [*as_user, PROGRAMS / "initdb", "-D", data, "-A", "trust", "-U", USER, "-N"]
            + ["-E", "UTF8", "--no-locale"],
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.directory,
            "fsync": "off",  # no test crashes the machine
            "wal_level": "logical",
        }
        options = [word for pair in settings.items() for word in ("-c", "%s=%s" % pair)]
        self.process = Process(
            *as_user, PROGRAMS / "postgres", "-D", data, *options, cwd="/"
        )
        self.process.err.find(lambda line: "ready to accept connections" in line)

    def query(self, text, database="postgres"):
        """The rows of its answer."""
        done = subprocess.run(
            ["/usr/bin/psql", "-d", database, "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def end(self):
        self.process.signal(2)  # a fast shutdown
        self.process.wait()
        shutil.rmtree(self.directory)
