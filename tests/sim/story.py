"""story.py - one story of a simulated world: who does what, drawn from a seed, and what has to hold whatever happens.

    plan(seed) -> acts --> Story.tell() --> Broken, or nothing

An act is a tuple (name, arguments..., steps), where `steps` is how far the world runs behind it. A story without some of its acts is a
story, too: that is how a failing one is made short (run.py).
"""

import contextlib
import datetime
import hashlib
import ipaddress
import json
import random
import re
import shutil
import signal
import subprocess
import sys

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from sim import liar
from sim.world import SECOND, START_S, STILL, Hangs, World

PORT = 8787
MQTT_PORT = 1883
LIAR_PORT = 8700
FOLLOWERS = [
    ("--transport", "websocket", "--key", "key"),
    ("--transport", "events"),
    ("--transport", "longpoll", "--key", "key"),
    ("--transport", "poll", "--poll", 2),
    ("--callback-listen", "127.0.0.1:9000"),  # WebSub
]
PROVERS = 3  # the first followers compare each line with what the broker has hashed: nobody can lie to them
POSTERS = 2  # tokens that may post; the first one may be revoked
PATIENCE_S = 900  # of the world's clock: what has not come by then never comes
SIZES = [1, 1, 1, 3, 3, 20, 60, 500]  # of posts; the entries of the largest are in a segment at first
ACT_S = 20  # longest time behind an act
FILES = 5  # resources of the set that has content
LINE = re.compile(r"^(\d+) (\S+) (created|updated|deleted) (\S+)$")


class Broken(Exception):
    """What a story has shown to be wrong."""


def plan(seed):
    """Draws the acts of a story. Few followers make it short, so that more are told."""
    dice = random.Random(f"acts {seed}")
    cast = dice.sample(range(len(FOLLOWERS)), dice.choice([1, 1, 2, 2, 3, 5]))
    acts = [("follow", i, dice.randint(0, 400)) for i in cast]
    has = {kind: dice.random() < 0.4 for kind in ("harvest", "file", "backup", "lie")}
    provers = [i for i in cast if i < PROVERS]
    has["lie"] &= bool(provers)
    weights = {
        "post": 40, "crash": 6, "end": 4, "power": 8, "follow": 10, "rotate": 8, "cut": 4, "silence": 3, "full": 3, "failing": 3,
        "wait": 8, "clock": 2, "drift": 1, "suspend": 3, "verify": 2, "revoke": 3, "token": 1, "harvest": 6, "file": 20, "mirror": 6,
        "backup": 6, "lie": 8,
    }  # fmt: skip
    kinds = [kind for kind in weights if has.get("file" if kind == "mirror" else kind, True)]
    n_posts = 0
    for _ in range(dice.randint(5, 20)):
        kind = dice.choices(kinds, [weights[kind] for kind in kinds])[0]
        steps = dice.choice([dice.randint(0, 300), dice.randint(0, 3000), dice.randint(0, 30000)])
        n_posts += kind in ("post", "file")
        acts.append(
            {
                "post": lambda: (kind, n_posts, dice.choice(SIZES), dice.randint(1, POSTERS), steps),
                "file": lambda: (kind, n_posts, dice.randint(1, FILES), dice.choice(["updated", "updated", "deleted"]), steps),
                "power": lambda: (kind, dice.choice(["broker", "broker", "clients"]), steps),
                "follow": lambda: (kind, dice.choice(cast), steps),
                "lie": lambda: (kind, dice.choice(provers), steps),
                "cut": lambda: (kind, dice.choice(cast), steps),
                "silence": lambda: (kind, dice.choice(cast), steps),
                "suspend": lambda: (kind, dice.choice(["broker", *cast]), dice.choice([1, 8, 40, 120]), steps),
                "failing": lambda: (kind, dice.randint(1, 12), steps),
                "wait": lambda: (kind, dice.choice([1, 5, 30, 90]), 0),
                "clock": lambda: (kind, dice.choice([-200, -1, 1, 200, 3600]), steps),
                "drift": lambda: (kind, dice.choice([-500, 500]), steps),
            }.get(kind, lambda: (kind, steps))()
        )
    return acts


class Story(contextlib.AbstractContextManager):
    """`programs`: the folder of tidingsd and tidings. `template`: a data directory with the sets s and files, or None to make one.
    One of four brokers speaks TLS, and one of four has a bridge to Mosquitto."""

    def __init__(self, folder, library, programs, template, seed):
        self.world = World(folder, library, seed)
        self.programs = programs
        self.data = self.world.disk("broker").folder / "data"
        self.own = self.world.disk("clients").folder
        self.rotate_entries = self.world.dice.choice([16, 64, 1000])
        self.is_secure = template and self.world.dice.random() < 0.25
        self.has_mqtt = template and self.world.dice.random() < 0.25
        self.trust = ["--cacert", "cert.pem"] if self.is_secure else []
        base = f"{'https' if self.is_secure else 'http'}://127.0.0.1:{PORT}"
        self.set, self.files, self.copy, self.tokens = (f"{base}/{name}" for name in ("sets/s", "sets/files", "sets/copy", "tokens"))
        self.broker = None
        self.hearer = self.mirror = self.liar = None
        self.lied_to = set()  # followers that read from the liar
        self.cast = []
        self.contents = []  # who posted resources with their bytes, which the broker serves
        self.backups = []  # (party, entries that were acknowledged before it)
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
            for name in ("key", "admin", *(f"poster{i + 1}" for i in range(POSTERS)), "cert.pem", "cert-key.pem"):
                shutil.copy(template.with_name(name), self.own / name)

    def __exit__(self, *how):
        return self.world.__exit__(*how)

    # Parties

    def start(self, name, command, *arguments, disk="clients", **others):
        return self.world.start(name, [f"{self.programs}/{command}", *map(str, arguments)], disk, **others)

    def start_broker(self):
        self.is_ending = False
        secure = ["--tls-cert", self.own / "cert.pem", "--tls-key", self.own / "cert-key.pem"] if self.is_secure else []
        mqtt = ["--mqtt", f"mqtt://127.0.0.1:{MQTT_PORT}"] if self.has_mqtt else []
        self.broker = self.start(
            "broker", "tidingsd", "--listen", f"127.0.0.1:{PORT}", "--data", self.data, "--threads", 2, "--seccomp", "off",
            "--rotate-entries", self.rotate_entries, "--heartbeat", 5, "--checkpoint-every", 2, "--allow-callbacks", "127.0.0.0/8",
            *secure, *mqtt, disk="broker",
        )  # fmt: skip

    def start_reader(self, name, command, *arguments):
        return self.start(name, "tidings", command, *arguments, *self.trust)

    def publish(self, number, *arguments):
        """A repeat of the command adds nothing."""
        return self.start_reader(f"post{number}", "publish", *arguments, "--key", number, "--retry", 300)

    def start_follower(self, i, url=None):
        self.lied_to.discard(i)
        self.followers[i] = self.start_reader(
            f"follower{i}", "follow", url or self.set, "--from-start", "--state", f"state{i}", "--verbose", *FOLLOWERS[i]
        )

    def stop_follower(self, i):
        party = self.followers.pop(i)
        self.lied_to.discard(i)
        self.world.kill(party)
        self.outputs[i].append(party.output())

    def start_harvester(self, *how):
        if self.harvester:
            self.world.kill(self.harvester)
        self.harvester = self.start_reader(
            "harvester", "harvest", self.set, self.copy, "--state", "harvested", "--target-token-file", "admin", "--key", "key", *how
        )

    def start_mirror(self, *how):
        if self.mirror:
            self.world.kill(self.mirror)
        self.mirror = self.start_reader("mirror", "sync", self.files, "mirror", "--no-progress", "--verbose", *how)

    def lying_url(self):
        if not self.liar:
            program = [sys.executable, "-S", liar.__file__, self.world.dice.getrandbits(32), LIAR_PORT, PORT]
            # What Python keeps of a first start would make the second one another story.
            same = {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": "", "PYTHONDONTWRITEBYTECODE": "1"}
            self.liar = self.world.start("liar", program, "elsewhere", env=same)
        return self.set.replace(f":{PORT}/", f":{LIAR_PORT}/")

    def start_mqtt(self):
        """Mosquitto, and a client that hears what the bridge publishes; both live as long as the story."""
        path = self.world.disk("elsewhere").folder / "mosquitto.conf"
        path.write_text(f"listener {MQTT_PORT} 127.0.0.1\nallow_anonymous true\nuser root\n")
        server = self.world.start("mosquitto", ["/usr/sbin/mosquitto", "-c", path], "elsewhere")
        self.wait(PATIENCE_S, lambda: " running" in server.errors(), "Mosquitto does not begin")
        topic = ["-q", 1, "-t", "tidings/s/notifications", "-c", "-i", "hearer"]
        command = ["/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", MQTT_PORT, *topic]
        self.hearer = self.world.start("hearer", command, "elsewhere")

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
            party = self.publish(number, self.set, path, "--type", "ndjson", "--token-file", f"poster{poster}")
            self.posts[number] = party, locs, is_over
        elif kind == "file":
            number, name, change = arguments
            path = self.own / f"file{name}"
            path.write_text(f"{name} " * 100)
            content = ["--content", path] if change == "updated" else []
            loc = f"{self.files}/content/{hashlib.sha256(path.read_bytes()).hexdigest()}"
            self.contents.append(self.publish(number, self.files, loc, "--change", change, *content, "--token-file", "poster2"))
        elif kind == "revoke":
            header = f"Authorization: Bearer {(self.own / 'admin').read_text().strip()}"
            command = ["/usr/bin/curl", "-sS", "-X", "DELETE", "-m", 60, "-H", header, "-o", "/dev/null", "-w", "%{http_code}"]
            command += [*self.trust, f"{self.tokens}/poster1"]
            self.revocations.append(w.start("revoke", command, "clients"))
        elif kind == "crash":
            w.kill(self.broker)
        elif kind == "end":
            w.kill(self.broker, signal.SIGTERM)
            self.is_ending = True
        elif kind == "power":
            if arguments[0] == "clients":
                for i in list(self.followers):
                    self.stop_follower(i)
            w.lose_power(arguments[0])
        elif kind in ("follow", "lie"):
            if arguments[0] in self.followers:
                self.stop_follower(arguments[0])
            if kind == "lie" and not self.is_secure:
                self.start_follower(arguments[0], self.lying_url())
                self.lied_to.add(arguments[0])
            else:
                self.start_follower(arguments[0])
        elif kind == "harvest":
            self.start_harvester("--every", 5)
        elif kind == "rotate":
            self.errands.append(self.start_reader("rotate", "set", "rotate", self.set, "--token-file", "admin"))
        elif kind == "verify":
            self.errands.append(self.start_reader("verify", "verify", self.set, "--key", "key"))
        elif kind == "token":
            self.errands.append(
                self.start("token", "tidingsd", "token", "add", f"t{w.n_started}", "--publish", "x", "--data", self.data, disk="broker")
            )
        elif kind == "mirror":
            self.start_mirror("--poll", 2)
        elif kind == "backup":
            acknowledged = sum(len(locs) for party, locs, _ in self.posts.values() if party.status == 0)
            folder = self.data.with_name(f"backup{len(self.backups)}")
            party = self.start("backup", "tidingsd", "backup", folder, "--data", self.data, disk="broker")
            self.backups.append((party, folder, acknowledged))
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
        elif kind == "drift":
            w.shared.drift = arguments[0]
            w.tell(f"lets the clock run {arguments[0]} millionths too fast")
        elif kind == "suspend":
            who, seconds = arguments
            party = self.broker if who == "broker" else self.followers.get(who)
            if party:
                w.shared.processes[party.number].still_ns = w.shared.now_ns + seconds * SECOND
                w.tell(f"suspends {party.name} for {seconds} s")
        elif kind == "wait":
            w.run(seconds=arguments[0])

    # What has to hold

    def watch(self):
        """At each act."""
        for path in self.data.glob("sets/s/changes/*.xml*"):
            if path.suffix == ".new":
                continue  # its file under way
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if self.closed.setdefault(path.name, digest) != digest:
                raise Broken(f"the closed list {path.name} has changed")
        for i in [i for i in self.lied_to if self.followers[i].status in (1, 4)]:
            self.stop_follower(i)  # it has noticed
        for party in [*self.followers.values(), self.harvester, self.mirror]:
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
            if self.has_mqtt:
                self.start_mqtt()
            self.start_broker()
            self.world.run(steps=2000)
            self.cast = sorted({act[1] for act in acts if act[0] == "follow"})
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
        for process in w.shared.processes:
            process.is_full = process.failing = process.still_ns = 0
        if self.is_ending:
            self.wait(PATIENCE_S, lambda: self.broker.is_over, "the broker does not end")
        w.run(seconds=1)
        if self.broker.is_over:
            self.start_broker()
        parties = [each[0] for each in [*self.posts.values(), *self.backups]] + self.contents + self.errands + self.revocations
        self.wait(PATIENCE_S, lambda: all(p.is_over for p in parties), "somebody waits for ever")
        log = self.log()
        self.watch()
        for i in list(self.lied_to):
            self.stop_follower(i)
        for i in self.cast:
            if i not in self.followers:
                self.start_follower(i)
        self.waiting = list(self.followers)
        self.wait(PATIENCE_S, lambda: self.have_all(len(log)), "a follower does not get all changes")
        for i in self.followers:
            self.compare(i, log)
        self.check_posts(log)
        if self.harvester:
            self.check_copy(log)
        if self.contents:
            self.check_mirror()
        if self.has_mqtt:
            self.check_mqtt(log)
        self.expect("the proof", self.start_reader("verify", "verify", self.set, "--key", "key"))
        w.kill(self.broker, signal.SIGTERM)
        self.expect("the broker", self.broker)
        self.watch()
        for party, folder, acknowledged in self.backups:
            if party.status == 0:
                self.check_backup(folder, acknowledged, log)

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

    def expect(self, what, party, status=0):
        """Waits until a party ends as it should; returns what it has printed."""
        self.wait(PATIENCE_S, lambda: party.is_over, f"{what}: it does not end")
        if party.status != status:
            raise Broken(f"{what}: {party.name} ends with {party.status}: {party.output()[-500:]}{party.errors()[-1500:]}")
        return party.output()

    def read_log(self, url, *how):
        reader = self.start_reader("log", "follow", url, "--from-start", "--until-caught-up", *how)
        return self.expect("the log cannot be read", reader).splitlines()

    def log(self, url=None):
        lines = self.read_log(url) if url else self.read_log(self.set, "--key", "key")
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
        self.expect("the harvest", self.harvester)
        self.harvester = None
        lines = [line.split(" ", 3) for line in self.log(self.copy)]
        if any(change == "deleted" for _, _, change, _ in lines):
            raise Broken("the copy has deletions, and the set none")
        if {loc for _, _, _, loc in lines} != {line.split(" ", 3)[3] for line in log}:
            raise Broken(f"the copy has {len(lines)} changes of {len(log)}")

    def check_mirror(self):
        """The mirror has the last bytes of each resource of the log, and no other file."""
        self.start_mirror("--until-caught-up")
        self.expect("the mirror", self.mirror)
        self.mirror = None
        lines = [line.split(" ", 3) for line in self.read_log(self.files)]
        last = {loc.rpartition("/")[2]: change for _, _, change, loc in lines}
        found = {path.name.rstrip("%"): hashlib.sha256(path.read_bytes()).hexdigest() for path in self.mirrored()}
        wanted = {digest: digest for digest, change in last.items() if change != "deleted"}
        if found != wanted:
            raise Broken(f"the mirror has {found}, and the last of each resource was {last}")

    def mirrored(self):
        return [p for p in (self.own / "mirror").rglob("*") if p.is_file() and ".tidings" not in p.parts]

    def check_mqtt(self, log):
        """All changes came over the bridge; some may have come again."""
        self.wait(PATIENCE_S, lambda: self.heard() >= len(log), "the bridge has not published all changes")

    def heard(self):
        last = 0
        for line in self.hearer.output().split("\n")[:-1]:
            if not line:
                continue
            message = json.loads(line)
            if message["after"] > last:
                raise Broken(f"the bridge published what follows {message['after']} behind {last}")
            last = max(last, message["last"])
        return last

    def check_backup(self, folder, acknowledged, log):
        """A backup that is ready is whole, also behind a loss of power, and has what was acknowledged before."""
        self.data = folder.with_name(f"{folder.name}-restored")
        restore = ["restore", folder, "--data", self.data, "--same-log"]
        self.expect("the backup", self.start("restore", "tidingsd", *restore, disk="broker"))
        self.start_broker()  # which deletes what a crash has left
        lines = self.log()
        if lines != log[: len(lines)] or len(lines) < acknowledged:
            raise Broken(f"the backup has {len(lines)} entries, and {acknowledged} were acknowledged before")
        self.world.kill(self.broker, signal.SIGTERM)
        self.expect("the broker of the backup", self.broker)
        self.expect("the backup", self.start("check", "tidingsd", "check", "--deep", "--data", self.data, disk="broker"))

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


def make_certificate(folder):
    """Of the days of the world. Signatures of this kind have one length: others would make a seed's story another one each time."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    begin = datetime.datetime.fromtimestamp(START_S, datetime.timezone.utc) - datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + datetime.timedelta(days=1000))
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(address, False).sign(key, None)
    pem, form, open_key = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(signed.public_bytes(pem))
    (folder / "cert-key.pem").write_bytes(key.private_bytes(pem, form, open_key))


def make_template(folder, library, programs):
    """Makes a data directory with the sets s and files, and tokens, keys and a certificate beside it; returns its path."""
    make_certificate(folder)
    with Story(folder / "first", library, programs, None, 0) as story:
        story.start_broker()
        story.world.run(seconds=3)
        for url, *how in ([story.set], [story.files, "--content", "inline"]):
            story.expect("a set", story.start("create", "tidings", "set", "create", url, *how))
        story.world.kill(story.broker, signal.SIGTERM)
        story.wait(60, lambda: story.broker.is_over, "the broker does not end")
        rights = {"everyone": ["--subscribe", "*"], "admin": ["--admin"]}
        rights |= {f"poster{i + 1}": ["--publish", "s,files"] for i in range(POSTERS)}
        for name, words in rights.items():
            token = story.start(name, "tidingsd", "token", "add", name, "--data", story.data, *words, disk="broker")
            (folder / name).write_text(story.expect("a token", token))
            (folder / name).chmod(0o600)
        shutil.copytree(story.data, folder / "template")
        key = subprocess.run([f"{programs}/tidingsd", "key", "show", "s", "--data", story.data], capture_output=True, check=True)
        (folder / "key").write_bytes(key.stdout)
    return folder / "template"
