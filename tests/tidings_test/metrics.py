"""The answer to GET /metrics, read strictly: by the rules of Prometheus' text format
0.0.4 and its naming conventions, as promtool checks them.

    assert broker.metrics()["tidings_sets"] == 1
    wait_for("two fetches", lambda: broker.metrics()["tidings_fetches"] == 2)

A series is named as it stands: 'tidings_subscribers{transport="eventsource"}'.
"""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'{NAME}="[^"\\]+"'
SAMPLE = re.compile(rf"(({NAME})(?:{{({LABEL}(?:,{LABEL})*)}})?) (\d\S*)")
COMMENT = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")


class Metrics(dict):
    """Values by their series."""

    def __init__(self, answer):
        super().__init__()
        assert answer.status == 200, answer
        assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.text.endswith("\n")
        self.families = {}
        family = None
        for line in answer.text.splitlines():
            if line.startswith("#"):
                family = self._read_comment(line, family)
            else:
                self._read_sample(line, family)
        family.check_end()

    def samples_of(self, family):
        """The series of a family."""
        parts = (family, *(f"{family}_{part}" for part in ("bucket", "count", "sum")))
        return [series for series in self if series.partition("{")[0] in parts]

    def _read_comment(self, line, family):
        match = COMMENT.fullmatch(line)
        assert match, f"neither HELP nor TYPE: {line!r}"
        what, name, text = match.groups()
        if what == "HELP":
            if family:
                family.check_end()
            assert name not in self.families, f"{name} comes twice"
            self.families[name] = Family(name)
            return self.families[name]
        assert family and name == family.name and not family.type, line
        assert text in ("counter", "gauge", "histogram"), line
        assert (text == "counter") == name.endswith("_total"), line
        family.type = text
        return family

    def _read_sample(self, line, family):
        match = SAMPLE.fullmatch(line)
        assert match, f"no sample: {line!r}"
        series, name, labels, value = match.groups()
        value = float(value)
        assert family and family.type, f"out of its family: {line!r}"
        assert series not in self, f"comes twice: {line!r}"
        if family.type == "histogram":
            family.read(name.removeprefix(family.name), labels or "", value)
        else:
            assert name == family.name, f"out of its family: {line!r}"
        self[series] = value


class Family:
    """The metrics of one name; of a histogram, how far it was read."""

    def __init__(self, name):
        self.name = name
        self.type = None
        self.has_sum = False
        self.le = self.bucket = 0.0

    def read(self, part, labels, value):
        """Of each series the buckets come in order, and each includes the earlier ones;
        then the sum, and the count."""
        assert part in ("_bucket", "_sum", "_count"), f"{self.name}: {part}"
        if part == "_bucket":
            le = float(re.search(r'(?:^|,)le="([^"]+)"', labels)[1])
            assert self.le == 0 or le > self.le, f"{self.name}: buckets do not grow"
            assert value >= self.bucket, f"{self.name}: buckets do not grow"
            self.le, self.bucket = le, value
        if part == "_sum":
            self.has_sum = True
        if part == "_count":
            assert self.has_sum and math.isinf(self.le), f"{self.name}: not whole"
            assert value == self.bucket, f"{self.name}: not as in the last bucket"
            self.has_sum, self.le, self.bucket = False, 0.0, 0.0

    def check_end(self):
        assert self.type, f"{self.name} has no TYPE"
        assert not self.has_sum and not self.le, f"{self.name}: not whole"
