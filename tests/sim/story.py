"""story.py - one story of a simulated world: who does what, drawn from a seed, and what has to hold whatever happens.

    plan(seed) -> acts --> Story.tell() --> Broken, or nothing

An act is a tuple (name, arguments..., steps), where `steps` is how far the world runs behind it. A story without some of its acts is a
story, too: that is how a failing one is made short (run.py).
"""

import contextlib
import hashlib
import json
import random
import re
import shutil
import signal
import subprocess

from sim.world import SECOND, STILL, Hangs, World

PORT = 8787
SET = f"http://127.0.0.1:{PORT}/sets/s"
COPY = f"http://127.0.0.1:{PORT}/sets/copy"  # made by tidings harvest
FOLLOWERS = [
    ("--transport", "websocket", "--key", "key"),
    ("--transport", "events"),
    ("--transport", "longpoll", "--key", "key"),
    ("--transport", "poll", "--poll", 2),
    ("--callback-listen", "127.0.0.1:9000"),  # WebSub
]
POSTERS = 2  # tokens that may post; the first one may be revoked
PATIENCE_S = 900  # of the world's clock: what has not come by then never comes
SIZES = [1, 1, 1, 3, 3, 20, 60, 500]  # of posts; the entries of the largest are in a segment at first
ACT_S = 20  # longest time behind an act
LINE = re.compile(r"^(\d+) (\S+) (created|updated|deleted) (\S+)$")


class Broken(Exception):
    """What a story has shown to be wrong."""


def plan(seed):
    """Draws the acts of a story."""
    dice = random.Random(f"acts {seed}")
    acts = [("follow", i, dice.randint(0, 400)) for i in range(len(FOLLOWERS))]
    n_posts = 0
    for _ in range(dice.randint(12, 30)):
        kind = dice.choices(
            ["post", "crash", "end", "power", "follow", "rotate", "cut", "silence", "full", "failing", "wait", "clock", "verify", "revoke", "harvest"],
            [40, 6, 4, 8, 10, 8, 4, 3, 3, 3, 8, 2, 2, 3, 4],
        )[0]  # fmt: skip
        steps = dice.choice([dice.randint(0, 300), dice.randint(0, 3000), dice.randint(0, 30000)])
        if kind == "post":
            n_posts += 1
            acts.append((kind, n_posts, dice.choice(SIZES), dice.randint(1, POSTERS), steps))
        elif kind == "power":
            acts.append((kind, dice.choice(["broker", "broker", "clients"]), steps))
        elif kind in ("follow", "cut", "silence"):
            acts.append((kind, dice.randrange(len(FOLLOWERS)), steps))
        elif kind == "failing":
            acts.append((kind, dice.randint(1, 12), steps))
        elif kind == "wait":
            acts.append((kind, dice.choice([1, 5, 30, 90]), 0))
        elif kind == "clock":
            acts.append((kind, dice.choice([-200, -1, 1, 200, 3600]), steps))
        else:
            acts.append((kind, steps))
    return acts


class Story(contextlib.AbstractContextManager):
    """`programs`: the folder of tidingsd and tidings. `template`: a data directory with the set s, or None to make one."""

    def __init__(self, folder, library, programs, template, seed):
        self.world = World(folder, library, seed)
        self.programs = programs
        self.data = self.world.disk("broker").folder / "data"
        self.own = self.world.disk("clients").folder
        self.rotate_entries = self.world.dice.choice([16, 64, 1000])
        self.broker = None
        self.posts = {}  # number: (party, locs, True if its token had ended)
        self.revocations = []
        self.followers = {}  # number: the one that runs
        self.outputs = {i: [] for i in range(len(FOLLOWERS))}  # of those that ended: lists of lines
        self.errands = []
        self.harvester = None
        self.latest_ns = 0
        self.sizes = {}  # of outputs that had not all
        self.closed = {}  # file of a closed list: digest
        if template:
            shutil.copytree(template, self.data)
            for name in ("key", "admin", *(f"poster{i + 1}" for i in range(POSTERS))):
                shutil.copy(template.with_name(name), self.own / name)

    def __exit__(self, *how):
        return self.world.__exit__(*how)

    # Parties

    def start(self, name, command, *arguments, disk="clients", **others):
        return self.world.start(name, [f"{self.programs}/{command}", *map(str, arguments)], disk, **others)

    def start_broker(self):
        self.broker = self.start(
            "broker", "tidingsd", "--listen", f"127.0.0.1:{PORT}", "--data", self.data, "--threads", 2, "--seccomp", "off",
            "--rotate-entries", self.rotate_entries, "--heartbeat", 5, "--checkpoint-every", 2, "--allow-callbacks", "127.0.0.0/8",
            disk="broker",
        )  # fmt: skip

    def start_follower(self, i):
        self.followers[i] = self.start(
            f"follower{i}", "tidings", "follow", SET, "--from-start", "--state", f"state{i}", "--verbose", *FOLLOWERS[i]
        )

    def stop_follower(self, i):
        party = self.followers.pop(i)
        self.world.kill(party)
        self.outputs[i].append(party.output())

    def start_harvester(self, *how):
        if self.harvester:
            self.world.kill(self.harvester)
        self.harvester = self.start(
            "harvester", "tidings", "harvest", SET, COPY, "--state", "harvested", "--target-token-file", "admin", "--key", "key", *how
        )

    # Acts

    def act(self, kind, *arguments):
        w = self.world
        if not self.broker or self.broker.is_over:
            self.start_broker()
        if kind == "post":
            number, n, poster = arguments
            locs = [f"http://e.org/{number}/{i}" for i in range(n)]
            path = self.own / f"post{number}"
            path.write_text("".join(json.dumps({"loc": loc, "change": "created"}) + "\n" for loc in locs))
            is_over = poster == 1 and any(r.status == 0 and r.output() == "204" for r in self.revocations)
            party = self.start(
                f"post{number}", "tidings", "publish", SET, path, "--type", "ndjson", "--key", number, "--retry", 300,
                "--token-file", f"poster{poster}",
            )  # fmt: skip
            self.posts[number] = party, locs, is_over
        elif kind == "revoke":
            header = f"Authorization: Bearer {(self.own / 'admin').read_text().strip()}"
            url = SET.replace("/sets/s", "/tokens/poster1")
            command = ["/usr/bin/curl", "-sS", "-X", "DELETE", "-m", 60, "-H", header, "-o", "/dev/null", "-w", "%{http_code}", url]
            self.revocations.append(w.start("revoke", command, "clients"))
        elif kind == "crash":
            w.kill(self.broker)
        elif kind == "end":
            w.kill(self.broker, signal.SIGTERM)
        elif kind == "power":
            if arguments[0] == "clients":
                for i in list(self.followers):
                    self.stop_follower(i)
            w.lose_power(arguments[0])
        elif kind == "follow":
            if arguments[0] in self.followers:
                self.stop_follower(arguments[0])
            self.start_follower(arguments[0])
        elif kind == "harvest":
            self.start_harvester("--every", 5)
        elif kind == "rotate":
            self.errands.append(self.start("rotate", "tidings", "set", "rotate", SET, "--token-file", "admin"))
        elif kind == "verify":
            self.errands.append(self.start("verify", "tidings", "verify", SET, "--key", "key"))
        elif kind in ("cut", "silence"):
            party = self.followers.get(arguments[0])
            if party:
                getattr(w, kind)(party)
        elif kind == "full":
            process = w.shared.processes[self.broker.number]
            process.is_full = not process.is_full
            w.tell(f"makes the disk {'full' if process.is_full else 'free'}")
        elif kind == "failing":
            w.shared.processes[self.broker.number].failing = arguments[0]
            w.tell(f"lets the broker's sync number {arguments[0]} from now on fail")
        elif kind == "clock":
            # A reader refuses a checkpoint that is five minutes ahead of its clock.
            self.latest_ns = max(self.latest_ns, w.shared.offset_ns)
            w.shared.offset_ns = max(w.shared.offset_ns + arguments[0] * SECOND, self.latest_ns - 240 * SECOND)
            w.tell(f"sets the clock by {arguments[0]} s")
        elif kind == "wait":
            w.run(seconds=arguments[0])

    # What has to hold

    def watch(self):
        """At each act."""
        for path in self.data.glob("sets/s/changes/*.xml*"):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if self.closed.setdefault(path.name, digest) != digest:
                raise Broken(f"the closed list {path.name} has changed")
        for party in [*self.followers.values(), self.harvester]:
            if party and party.is_over and party.status != -9:
                raise Broken(f"{party.name} has ended with {party.status}: {party.errors()[-1500:]}")

    def wait(self, seconds, until, what):
        end = self.world.run(steps=20_000_000, seconds=seconds, until=until)
        if not until():
            raise Broken(f"{what}: {'nobody can go on' if end == STILL else 'not in time'}")

    def lines(self, i):
        """Returns the entries that a follower has printed: a line may come again after a kill, in no other way."""
        texts = [*self.outputs[i], self.followers[i].output()] if i in self.followers else self.outputs[i]
        found = {}
        for text in texts:
            last = None
            for line in text.split("\n")[:-1]:
                match = LINE.match(line)
                if not match:
                    raise Broken(f"follower {i} printed: {line}")
                seq = int(match[1])
                if last is not None and seq != last + 1:
                    raise Broken(f"follower {i} printed {seq} behind {last}")
                if last is None and seq > len(found) + 1:
                    raise Broken(f"follower {i} printed {seq}, and never {len(found) + 1}")
                if found.setdefault(seq, line) != line:
                    raise Broken(f"follower {i} printed {line}, and once {found[seq]}")
                last = seq
        return found

    def tell(self, acts):
        try:
            self.start_broker()
            self.world.run(steps=2000)
            for kind, *arguments, steps in acts:
                self.act(kind, *arguments)
                self.world.run(steps=steps, seconds=ACT_S)
                self.watch()
            self.end()
        except Hangs as problem:
            raise Broken(str(problem)) from None

    def end(self):
        """All accidents are over: everybody gets what there is."""
        w = self.world
        w.tell("ends the accidents")
        if self.broker.is_over:
            self.start_broker()
        else:
            process = w.shared.processes[self.broker.number]
            process.is_full = process.failing = 0
            w.run(seconds=1)
            if self.broker.is_over:
                self.start_broker()
        parties = [party for party, _, _ in self.posts.values()] + self.errands + self.revocations
        self.wait(PATIENCE_S, lambda: all(p.is_over for p in parties), "somebody waits for ever")
        log = self.log()
        self.watch()
        for i in range(len(FOLLOWERS)):
            if i not in self.followers:
                self.start_follower(i)
        self.waiting = list(self.followers)
        self.wait(PATIENCE_S, lambda: self.have_all(len(log)), "a follower does not get all changes")
        for i in self.followers:
            self.compare(i, log)
        self.check_posts(log)
        self.check_copy(log)
        verify = self.start("verify", "tidings", "verify", SET, "--key", "key")
        self.wait(PATIENCE_S, lambda: verify.is_over, "verify does not end")
        if verify.status != 0:
            raise Broken(f"verify ends with {verify.status}: {verify.output()}{verify.errors()}")
        w.kill(self.broker, signal.SIGTERM)
        self.wait(PATIENCE_S, lambda: self.broker.is_over, "the broker does not end")
        if self.broker.status != 0:
            raise Broken(f"the broker ends with {self.broker.status}: {self.broker.errors()[-1500:]}")
        self.watch()

    def have_all(self, n):
        self.waiting = [i for i in self.waiting if not self.has_all(i, n)]
        return not self.waiting

    def has_all(self, i, n):
        """Asked very often: reads only what has grown."""
        party = self.followers[i]
        size = party.out.stat().st_size
        if self.sizes.get(i) == (party.number, size) and not party.is_over:
            return False
        self.sizes[i] = party.number, size
        return party.is_over or len(self.lines(i)) >= n

    def log(self, url=SET):
        key = ["--key", "key"] if url == SET else []
        reader = self.start("log", "tidings", "follow", url, "--from-start", "--until-caught-up", *key)
        self.wait(PATIENCE_S, lambda: reader.is_over, "the log cannot be read")
        if reader.status != 0:
            raise Broken(f"the log cannot be read: {reader.status}: {reader.errors()}")
        lines = reader.output().splitlines()
        times = [line.split(" ")[1] for line in lines]
        if [int(line.split(" ")[0]) for line in lines] != list(range(1, len(lines) + 1)):
            raise Broken("the log has holes: " + " ".join(line.split(" ")[0] for line in lines))
        if times != sorted(times):
            raise Broken("the times of the log go back")
        return lines

    def compare(self, i, log):
        for seq, line in self.lines(i).items():
            if seq > len(log) or log[seq - 1] != line:
                raise Broken(f"follower {i} has {line}, and the log {log[seq - 1] if seq <= len(log) else 'nothing there'}")

    def check_copy(self, log):
        """The set that was harvested has each resource, and lost none on the way."""
        self.start_harvester("--once")
        self.wait(PATIENCE_S, lambda: self.harvester.is_over, "the harvest does not end")
        if self.harvester.status != 0:
            raise Broken(f"the harvest ends with {self.harvester.status}: {self.harvester.errors()[-1500:]}")
        self.harvester = None
        lines = [line.split(" ", 3) for line in self.log(COPY)]
        if any(change == "deleted" for _, _, change, _ in lines):
            raise Broken("the copy has deletions, and the set none")
        if {loc for _, _, _, loc in lines} != {line.split(" ", 3)[3] for line in log}:
            raise Broken(f"the copy has {len(lines)} changes of {len(log)}")

    def check_posts(self, log):
        """Acknowledged is durable; each post is there whole and once, in order, or not at all."""
        locs = [line.split(" ", 3)[3] for line in log]
        for number, (party, own, is_over) in self.posts.items():
            at = [i for i, loc in enumerate(locs) if loc.startswith(f"http://e.org/{number}/")]
            if party.status == 0 and len(at) != len(own):
                raise Broken(f"post {number} of {len(own)} was acknowledged, and the log has {len(at)} of it")
            if at and is_over:
                raise Broken(f"post {number} is in the log, and its token was revoked before")
            if at and [locs[i] for i in at] != own:
                raise Broken(f"post {number} of {len(own)} is in the log as {[locs[i] for i in at]}")
            said = re.search(r"first=(\d+) last=(\d+)", party.output())
            if said and (int(said[1]), int(said[2])) != (at[0] + 1, at[-1] + 1):
                raise Broken(f"post {number} was told {said[0]}, and has {at[0] + 1} to {at[-1] + 1}")


def make_template(folder, library, programs):
    """Makes a data directory with a set s, and the key of its checkpoints beside it; returns its path."""
    with Story(folder / "first", library, programs, None, 0) as story:
        story.start_broker()
        story.world.run(seconds=3)
        create = story.start("create", "tidings", "set", "create", SET)
        story.wait(60, lambda: create.is_over, "the set is not made")
        story.world.kill(story.broker, signal.SIGTERM)
        story.wait(60, lambda: story.broker.is_over, "the broker does not end")
        rights = {"everyone": ["--subscribe", "*"], "admin": ["--admin"]}
        rights |= {f"poster{i + 1}": ["--publish", "s"] for i in range(POSTERS)}
        for name, words in rights.items():
            token = story.start(name, "tidingsd", "token", "add", name, "--data", story.data, *words, disk="broker")
            story.wait(60, lambda token=token: token.is_over, f"{name} gets no token")
            (folder / name).write_text(token.output())
            (folder / name).chmod(0o600)
        shutil.copytree(story.data, folder / "template")
        key = subprocess.run([f"{programs}/tidingsd", "key", "show", "s", "--data", story.data], capture_output=True, check=True)
        (folder / "key").write_bytes(key.stdout)
    return folder / "template"
