"""The figures that were measured last: measured.tsv beside this file, whose head describes
the format. tests/bench/record writes it, and the pages and charts that show it."""

import dataclasses
import pathlib
import statistics

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "measured.tsv"

HEAD = """\
# Written by tests/bench/run --record; read by tests/bench/record and tests/bench/chart.
# Fields are separated by tabs.
#
# "=" begins a scenario: its name, its area, its load, and when and how it was measured: turns
# and their seconds, the date, the cores of the machine, its load before, versions of peers.
# Then a line for each figure of each server: the server, the figure, its median, smallest
# and largest, and the same three of its proportion to each server that it is compared with
# in the same turn (SERVER=MEDIAN,SMALLEST,LARGEST).
"""

@dataclasses.dataclass(frozen=True)
class Spread:
    """A median, the smallest and the largest of some turns."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values))

    @classmethod
    def parse(cls, text):
        return cls(*map(float, text.split(",")))

    def __str__(self):
        return ",".join(f"{value:.9g}" for value in (self.median, self.least, self.most))

    def shown(self):
        """The median, and the range if it is another number."""
        ends = [number(self.least), number(self.most)]
        if ends[0] == ends[1]:
            return number(self.median)
        return f"{number(self.median)} ({'-'.join(ends)})"


def number(value):
    """Three digits that count, with commas between thousands."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    size = abs(value)
    return f"{value:.{1 if size >= 10 else 2 if size >= 1 else 3}f}"


@dataclasses.dataclass
class Scenario:
    name: str
    area: str
    load: str
    how: dict  # when and how it was measured: turns, seconds, date, cores, load, versions
    figures: dict  # by (server, figure): a Spread
    ratios: dict  # by (server, figure, other server): a Spread

    def servers(self):
        return list(dict.fromkeys(server for server, _ in self.figures))

    def base(self):
        """The server whose CPU is 1 in charts and tables; None: there is none."""
        servers = self.servers()
        # With time to wait between posts, and with 100 changes in each, a flush costs a
        # subscriber nothing: the floor is what sends alone.
        order = [*(s for s in servers if s.startswith("floor")), "nginx"]
        if self.name == "fan-full-1":
            order.insert(0, "floor-log")
        if self.area == "tls":
            order.append("tidings")
        return next((base for base in order if base in servers), None)


def state(scenarios):
    """When and how some scenarios were measured, in words."""

    def ends(key, cast):
        values = sorted({cast(s.how[key]) for s in scenarios})
        first, last = (f"{v:g}" if cast is float else str(v) for v in (values[0], values[-1]))
        return first if first == last else f"{first} to {last}"

    turns = "turn" if ends("turns", int) == "1" else "turns"
    return (
        f"{ends('turns', int)} {turns} of {ends('seconds', float)} s, {ends('date', str)},"
        f" {ends('cores', int)} cores, load {ends('load', float)} before"
    )


def read(path=FILE):
    """The scenarios of the file, by name."""
    scenarios = {}
    current = None
    for line in path.read_text().splitlines():
        if line.startswith("= "):
            name, area, load, how = line[2:].split("\t")
            how = dict(pair.split("=") for pair in how.split())
            current = Scenario(name, area, load, how, {}, {})
            scenarios[current.name] = current
        elif line and not line.startswith("#"):
            server, figure, spread, *ratios = line.split("\t")
            current.figures[server, figure] = Spread.parse(spread)
            for ratio in ratios:
                other, text = ratio.split("=")
                current.ratios[server, figure, other] = Spread.parse(text)
    return scenarios


def write(scenarios, path=FILE):
    lines = [HEAD]
    for s in scenarios.values():
        how = " ".join(f"{key}={value}" for key, value in s.how.items())
        lines.append("\t".join([f"= {s.name}", s.area, s.load, how]) + "\n")
        for (server, figure), spread in s.figures.items():
            ratios = [
                f"{other}={ratio}"
                for (of_server, of_figure, other), ratio in s.ratios.items()
                if (of_server, of_figure) == (server, figure)
            ]
            lines.append("\t".join([server, figure, str(spread), *ratios]) + "\n")
    path.write_text("".join(lines))
