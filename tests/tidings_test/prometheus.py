"""Debian's Prometheus, which scrapes a broker, and promtool.

    prometheus = Prometheus(tmp_path / "prometheus", config)
    prometheus.wait_scrapes(3)
    prometheus.query("rate(tidings_posts_total[1m])")    a list of series

The configuration is text; its rules are files that it names.
"""

import pathlib
import subprocess
import urllib.parse

from tidings_test import http
from tidings_test.process import Process
from tidings_test.waiting import wait_for


def promtool(*arguments, stdin=None):
    """Run it; what it says. It has to end with 0."""
    done = subprocess.run(
        ["/usr/bin/promtool", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Prometheus(http.Client):
    """A Prometheus that runs, with an empty database of its own."""

    def __init__(self, directory, config):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.file = self.directory / "prometheus.yml"
        self.file.write_text(config)
        promtool("check", "config", self.file)
        port, self._keeper = http.keep_port()
        super().__init__(port)
        self.process = Process(
            "/usr/bin/prometheus",
            f"--config.file={self.file}",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        wait_for("Prometheus to be ready", self._is_ready)

    def _is_ready(self):
        assert self.process.is_running, self.process.err
        try:
            return self.get("/-/ready").status == 200
        except (http.ConnectionEnded, OSError):
            return False

    def ask(self, path, **parameters):
        """The data of an answer of its API, which has to be a success."""
        answer = self.get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        assert answer.status == 200, (parameters, answer)
        return answer.json()["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def wait_scrapes(self, n):
        """Return after that many scrapes that went well."""

        def look():
            found = self.query("sum(sum_over_time(up[1h]))")
            return found and float(found[0]["value"][1]) >= n

        wait_for(f"{n} scrapes", look)

    def end(self):
        self.disconnect()
        self.process.signal(15)
        self.process.wait()
        self._keeper.close()
