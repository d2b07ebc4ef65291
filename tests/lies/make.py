#!/usr/bin/env python3
"""Makes the corpus of lies, which all readers must judge alike (R-450 to R-455): a file of JSON
for each kind beside this program. Keys, times and the epoch are fixed, so each run makes the same
bytes. e2e/lies_test.py serves the vectors to the three readers.

    tests/lies/make.py

A file has a right `reader` and a right `source`, and vectors, each of which says what is other:

    name     of the vector, unique in all files
    reader   what the reader begins with: `key` and `witnesses`, lines of verifier keys;
             `require`, how many witnesses; `position`, `digest` there, and the `kept` checkpoint
    source   what the source says: `changes`, the messages by the number after which they begin,
             each with `before`, its Tidings-After-Digest; `checkpoint`; `tiles`. null: 404
    last     the number of the last entry of the source
    file     instead of a source: a proof of an entry, or evidence, that `verify` reads; `digest`,
             that of the entry `seq`
    verdict  `is`: "accepted"; "refused", it ends; "held back", it asks again, for the source may
             say other things later; "rewound", it ends with status 4, and the history is another
             one; "evidence", likewise, with texts that convince others.
             `seqs`: these entries are handed over. `fault`: as CheckpointError names it, or
             "malformed", "usage" or "gone". `words`: the reason has all of these; by the reader,
             where it words that in its own way: `c` (the library, Python and the command), `js`
             `js`: members that are other there
    not      readers that cannot be asked, and why

A text is a string, or a list of lines, each of which ends with a newline. Tiles are hashes in hex.
"http://broker.example" stands for the address of the source.

A time that is a little ahead needs a clock, so those vectors are of the year 2100. The readers take
up to five minutes: unit/verify/verify_signed and web/tidings test that bound.
"""

import base64
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tidings_test.tlog import DASH, Key, root_of, sha256  # noqa: E402

SET = "http://broker.example/sets/news"
EPOCH = "9f2c5b7d01e4a683"
OTHER_EPOCH = "0123456789abcdef"
ORIGIN = f"broker.example/sets/news/{EPOCH}"
AT = 1_767_225_660  # 2026-01-01T00:01:00Z
IN_2100 = 4_102_444_800
NOTHING = bytes(32)


def key_of(name):
    return Key(sha256(f"tidings lies: {name}".encode()))


LOG, STRANGER = key_of("log"), key_of("stranger")
WITNESSES = {f"w{i}.example": key_of(f"witness {i}") for i in (1, 2, 3)}


def line_of(seq, loc=None, time=None):
    loc, time = loc or f"http://example.com/r/{seq}", time or f"2026-01-01T00:{seq // 60:02}:{seq % 60:02}"
    return (
        f'<url><loc>{loc}</loc><rs:md change="created" datetime="{time}.000000Z" td:seq="{seq}"/></url>'
    )


def numbered(line, seq):
    return re.sub(r'td:seq="\d+"', f'td:seq="{seq}"', line)


def text_of(digest):
    return f"sha-256:{digest.hex()}"


class Log:
    """A log with these lines: `digests` from that of the epoch on; `hashes` of leaves."""

    def __init__(self, lines, epoch=EPOCH):
        self.lines, self.epoch = lines, epoch
        self.digests = [sha256(epoch.encode())]
        for line in lines:
            self.digests.append(sha256(self.digests[-1] + line.encode() + b"\n"))
        self.hashes = [sha256(b"\0" + digest) for digest in self.digests[1:]]

    def digest(self, seq):
        return text_of(self.digests[seq])

    def hash_of(self, begin, end):
        return root_of(self.hashes[begin:end])

    def way(self, index, begin, end):
        """From a leaf to the root (RFC 6962, section 2.1.1)."""
        if end - begin == 1:
            return []
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        if index < middle:
            return [*self.way(index, begin, middle), self.hash_of(middle, end)]
        return [*self.way(index, middle, end), self.hash_of(begin, middle)]


TRUE = Log([line_of(seq) for seq in (1, 2, 3)])
LAST_IS_OTHER = Log([*TRUE.lines[:2], line_of(3, "http://example.com/x/3")])
SIX = Log([line_of(seq) for seq in range(1, 7)])
SECOND_IS_OTHER = Log([TRUE.lines[0], line_of(2, "http://example.com/x/2"), TRUE.lines[2]])
LONG = Log([line_of(seq) for seq in range(1, 301)])
OF_OTHER_EPOCH = Log(TRUE.lines, OTHER_EPOCH)
EARLY = Log([TRUE.lines[0], line_of(2, time="2026-01-01T00:00:00"), TRUE.lines[2]])


# Messages


def message(after, lines, digest, last=None, epoch=EPOCH, before=None, foot=("</urlset>",)):
    """A message in XML as a broker writes it, with the digest before it. `digest`: None, or "own",
    that of these lines, whoever wrote them."""
    last = after + len(lines) if last is None else last
    if digest == "own":
        digest = before
        for line in lines:
            digest = text_of(sha256(bytes.fromhex(digest.partition(":")[2]) + f"{line}\n".encode()))
    own = f' td:digest="{digest}"' if digest else ""
    text = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">',
        f'<rs:ln rel="up" href="{SET}/capabilitylist.xml"/>',
        f'<rs:ln rel="self" href="{SET}/changes?after={epoch}-{after}"/>',
        f'<rs:ln rel="next" href="{SET}/changes?after={epoch}-{last}"/>',
        '<rs:md capability="change-notification" from="2026-01-01T00:00:00.000000Z"'
        f' until="2026-01-01T00:05:00.000000Z" td:epoch="{epoch}" td:after="{after}"'
        f' td:last="{last}"{own}/>',
        *[part for line in lines for part in line.split("\n")],
        *foot,
    ]
    return {"before": before, "text": text} if before else {"text": text}


def page(after, last, log=TRUE):
    return message(
        after, log.lines[after:last], log.digest(last), epoch=log.epoch, before=log.digest(after)
    )


def lying(lines, digest="true", after=0, log=TRUE, **how):
    """A page with these lines behind the true entry `after`."""
    digest = log.digest(len(log.lines)) if digest == "true" else digest
    return {"changes": {str(after): message(after, lines, digest, before=log.digest(after), **how)}}


# Checkpoints


def body_of(log, size=None, root=None, origin=None):
    size = len(log.hashes) if size is None else size
    root = root_of(log.hashes[:size]) if root is None else root
    origin = origin or f"broker.example/sets/news/{log.epoch}"
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"


def note(body, key=LOG, at=AT, more=""):
    name = body.partition("\n")[0]
    return f"{body}\n{key.sign(name, body)}{key.cosign(name, body, at) if at else ''}{more}"


def lines(text):
    """Text for JSON."""
    return text.split("\n")[:-1] if text.endswith("\n") else text


def checkpoint(log, size=None, **how):
    return note(body_of(log, size), **how)


def signed(*args, **how):
    return {"checkpoint": lines(checkpoint(*args, **how))}


def tiles(log, size=None):
    """All tiles of the tree of that size."""
    hashes, found, level = log.hashes[:size], {}, 0
    while hashes:
        for first in range(0, len(hashes), 256):
            width = min(256, len(hashes) - first)
            path = f"{level}/{first // 256:03}" + (f".p/{width}" if width < 256 else "")
            found[path] = [one.hex() for one in hashes[first : first + width]]
        hashes = [root_of(hashes[i : i + 256]) for i in range(0, len(hashes) - 255, 256)]
        level += 1
    return {"tiles": found}


def altered(text, at, byte):
    """The note with another byte in its signature `at`."""
    *before, signature = text.rstrip("\n").split("\n")[: at + 1 or None]
    head, _, data = signature.rpartition(" ")
    data = bytearray(base64.b64decode(data))
    data[byte] ^= 1
    rest = text.rstrip("\n").split("\n")[len(before) + 1 :]
    return "\n".join([*before, f"{head} {base64.b64encode(data).decode()}", *rest, ""])


def cosigned(names, text=None, of=None, at=AT + 10):
    text = text or checkpoint(TRUE)
    body = text.partition("\n\n")[0] + "\n"
    return text + "".join(WITNESSES[name].cosign(name, of or body, at) for name in names)


READER = {"key": [LOG.verifier(ORIGIN)], "position": "0"}
SOURCE = {
    "changes": {"0": page(0, 3), "3": page(3, 3)},
    **signed(TRUE),
    **tiles(TRUE),
}


# Vectors


def accepted(*seqs):
    return {"is": "accepted", "seqs": list(seqs) or [1, 2, 3]}


def refused(fault, words=(), seqs=()):
    words = words if isinstance(words, dict) else [words] if isinstance(words, str) else list(words)
    return {"is": "refused", "seqs": list(seqs), "fault": fault, "words": words}


def malformed(c=(), js=(), seqs=()):
    return refused("malformed", {"c": [c] if c else [], "js": [js] if js else []}, seqs)


def rewound(*words, seqs=()):
    return {"is": "rewound", "seqs": list(seqs), "words": list(words)}


def evidence(fault, words, seqs=()):
    return {**refused(fault, words, seqs), "is": "evidence"}


def held(words, seqs=()):
    return {**refused(None, words, seqs), "is": "held back", "fault": None}


def vector(name, verdict, source=None, reader=None, **more):
    made = {"name": name, "reader": reader, "source": source, **more, "verdict": verdict}
    if verdict.get("fault", "") is None:
        del verdict["fault"]
    return {member: value for member, value in made.items() if value is not None}


L = TRUE.lines


def falsified(a, b, c):
    """Lies of as many entries, in order, about three entries: the digest tells."""
    seq = int(re.search(r'td:seq="(\d+)"', b)[1])
    first, second = (f"http://example.com/r/{seq - 1}", f"http://example.com/r/{seq}")
    return {
        "altered": [a, b.replace("/r/", "/x/"), c],
        "replaced": [a, numbered(a, seq), c],
        "exchanged": [a.replace(first, second), b.replace(second, first), c],
        "of-another-time": [a, b.replace(".000000Z", ".500000Z"), c],
    }


def mixed(a, b, c):
    """Lies that the numbers tell."""
    return {"swapped": [b, a, c], "omitted": [a, c], "doubled": [a, a, b, c]}


FALSE = falsified(*L)
HOLES = malformed("its entries are others", "holes")
ANOTHER = "another history"


def entries():
    yield vector("entries", accepted())
    yield vector("entries-without-a-key", accepted(), reader={"key": None}, **WITHOUT_KEY)
    yield vector("entries-in-two-pages", accepted(), {"changes": {"0": page(0, 2), "2": page(2, 3)}})
    again = {"changes": {"1": {**page(0, 3), "before": TRUE.digest(1)}}}
    yield vector("entries-again", accepted(2, 3), again, RESUMED)
    yield vector("entries-resumed", accepted(2, 3), reader=RESUMED, source={"changes": {"1": page(1, 3)}})
    for name, false in FALSE.items():
        yield vector(f"entry-{name}", rewound(ANOTHER, "entry 3"), lying(false))
        yield vector(
            f"entry-{name}-with-its-digest",
            evidence("digest", "its entry 3 is not the one that came"),
            lying(false, "own"),
        )
    for name, false in mixed(*L).items():
        yield vector(f"entries-{name}", HOLES, lying(false, last=3))
        yield vector(f"entries-{name}-with-their-digest", HOLES, lying(false, "own", last=3))
    six = {**signed(SIX), **tiles(SIX)}
    three = {"position": f"{EPOCH}-3", "digest": SIX.digest(3)}
    at_six = evidence("digest", "its entry 6 is not the one that came")

    def resumed(name, verdict, false, digest="true"):
        lie = lying(false, digest, 3, SIX, last=6)
        return vector(f"resumed-{name}", verdict, {**lie, **six}, three, last=6)

    for name, false in falsified(*SIX.lines[3:]).items():
        yield resumed(f"entry-{name}", rewound(ANOTHER, "entry 6"), false)
        yield resumed(f"entry-{name}-with-its-digest", at_six, false, "own")
    for name, false in mixed(*SIX.lines[3:]).items():
        yield resumed(f"entries-{name}", HOLES, false)
        yield resumed(f"entries-{name}-with-their-digest", HOLES, false, "own")
    at_one = {"position": RESUMED["position"]}
    yield vector("resumed-without-a-digest", accepted(2, 3), {"changes": {"1": page(1, 3)}}, at_one)
    yield vector(
        "resumed-without-a-digest-by-another",
        evidence("digest", "its entry 3 is not the one that came"),
        {"changes": {"1": message(1, L[1:], "own", before=TRUE.digest(2))}},
        at_one,
    )
    yield vector(
        "resumed-with-no-digest-anywhere",
        malformed("no digest came before it", "no digest came before it"),
        {"changes": {"1": {"text": page(1, 3)["text"]}}},
        at_one,
    )
    closed = [L[0], numbered(L[2], 2)]
    yield vector("entries-closed-up", rewound(ANOTHER, "entry 2"), lying(closed))
    yield vector(
        "entries-closed-up-with-their-digest",
        evidence("digest", "its entry 2 is not the one that came"),
        lying(closed, "own"),
    )
    first = {"changes": {"0": page(0, 1), "1": lying([L[1].replace("/r/", "/x/"), L[2]], after=1)["changes"]["1"]}}
    yield vector("entry-altered-in-a-later-message", rewound(ANOTHER, "entry 3", seqs=[1]), first)
    yield vector(
        "entry-altered-without-a-key", rewound(ANOTHER, "entry 3"), lying(FALSE["altered"]),
        reader={"key": None}, **WITHOUT_KEY,
    )
    yield vector(
        "entry-altered-to-a-resumed-reader",
        rewound(ANOTHER, "entry 3"),
        lying([L[1].replace("/r/", "/x/"), L[2]], after=1),
        reader=RESUMED,
    )
    renumbered = [numbered(L[1], 1), numbered(L[0], 2), L[2]]
    earlier = malformed(*["entry 2 is earlier than the one before it"] * 2)
    yield vector("entries-renumbered", earlier, lying(renumbered))
    yield vector("entries-renumbered-with-their-digest", earlier, lying(renumbered, "own"))
    # Signed, so that nothing but the times is wrong.
    yield vector(
        "entry-earlier-than-the-one-before",
        earlier,
        {"changes": {"0": page(0, 3, EARLY), "3": page(3, 3, EARLY)}, **signed(EARLY), **tiles(EARLY)},
    )
    yield vector(
        "entry-earlier-than-that-of-the-message-before",
        {**earlier, "seqs": [1]},
        {"changes": {"0": page(0, 1, EARLY), "1": page(1, 3, EARLY)}, **signed(EARLY), **tiles(EARLY)},
    )
    yield vector("entry-beside", malformed(), lying([L[0], L[1] + "<url></url>", L[2]]))
    hidden = f"<!--\n{L[1]}\n--> {L[1].replace('/r/', '/x/')}"
    yield vector(
        "entry-in-a-comment",
        malformed(None, "an entry is malformed"),
        lying([L[0], hidden, L[2]], TRUE.digest(3), last=3),
        **{"not": {"c": "it skips comments: entry 2 is the line within it, which the tree has"}},
    )
    yield vector("entry-without-its-end", malformed(), lying([L[0], L[1].replace("</url>", ""), L[2]]))
    yield vector("entry-of-two-lines", malformed(), lying([L[0], L[1].replace("<rs:md", "\n<rs:md"), L[2]]))


WITHOUT_KEY = {"not": {"js": "without a key it reads server-sent events, which have no lines"}}
RESUMED = {"position": f"{EPOCH}-1", "digest": TRUE.digest(1)}


def messages():
    digest = TRUE.digest
    yield vector("digest-of-another-entry", rewound(ANOTHER, "entry 3"), lying(L, digest(2)))
    yield vector("digest-of-nothing", rewound(ANOTHER, "entry 3"), lying(L, text_of(NOTHING)))
    yield vector("digest-left-out", malformed("no digest", "no digest"), lying(L, None))
    yield vector("digest-cut-short", malformed(), lying(L, digest(3)[:-2]))
    yield vector("digest-of-another-kind", malformed(), lying(L, digest(3).replace("256", "512")))
    yield vector(
        "digest-before-is-another",
        rewound(ANOTHER),
        {"changes": {"1": {**page(1, 3), "before": digest(2)}}},
        reader=RESUMED,
    )
    # Its place is what the reader trusts most: the library asks for the checkpoint first.
    yield vector(
        "digest-of-the-place-is-another",
        {
            **evidence("digest", {"c": ["its entry 1 is not the one that came"]}),
            "js": {"is": "rewound", "fault": "rewound"},
        },
        {"changes": {"1": page(1, 3)}},
        reader={**RESUMED, "digest": digest(2)},
    )
    for name, wrong in {
        "number-of-the-first-is-wrong": lying(L, "true", last=4),
        "number-of-the-last-is-less": lying(L, "true", last=2),
        "number-skips-one": lying([L[0], L[1], numbered(L[2], 4)], "true", last=4),
        "number-repeats": lying([L[0], L[1], numbered(L[2], 2)], "true", last=3),
    }.items():
        yield vector(name, HOLES, wrong)
    for name, last in {"2-to-the-63": 2**63, "2-to-the-64-less-1": 2**64 - 1}.items():
        yield vector(f"number-of-the-last-is-{name}", malformed(), lying(L, "true", last=last))
        large = [L[0], L[1], numbered(L[2], last)]
        yield vector(f"number-of-an-entry-is-{name}", malformed(), lying(large, "true", last=3))
    yield vector("number-is-no-number", malformed(), lying([L[0], numbered(L[1], "2")[:-12] + 'x"/></url>', L[2]]))
    yield vector(
        "epoch-of-another-log",
        refused("origin"),
        {"changes": {"0": page(0, 3, OF_OTHER_EPOCH)}},
    )
    # The page asks again, from the same place, which a broker answers with 410.
    yield vector(
        "epoch-of-another-log-to-a-resumed-reader",
        {**refused("gone"), "js": {"is": "held back"}},
        {"changes": {"1": {"text": page(1, 3, OF_OTHER_EPOCH)["text"]}}},
        reader=RESUMED,
    )
    yield vector("message-is-another-document", malformed(), {"changes": {"0": capabilities(page(0, 3))}})
    cut = message(0, L, digest(3), before=digest(0), foot=())
    yield vector("message-cut-off", malformed(), {"changes": {"0": cut}})
    more = message(0, L, digest(3), before=digest(0), foot=("</urlset>", "<urlset/>"))
    yield vector("message-with-bytes-behind-it", malformed(), {"changes": {"0": more}})


def capabilities(answer):
    text = [line.replace("change-notification", "capabilitylist") for line in answer["text"]]
    return {**answer, "text": text}


def checkpoints():
    yield vector("checkpoint", accepted())
    yield vector("checkpoint-of-more", accepted(1, 2), {"changes": {"0": page(0, 2), "2": page(2, 2)}}, last=2)
    kept = {name: {"kept": lines(checkpoint(TRUE, n))} for name, n in (("one", 1), ("two", 2), ("same", 3))}
    for name, reader in kept.items():
        yield vector(f"checkpoint-after-{name}", accepted(), reader=reader)
    for name, wrong in {
        "of-the-body": altered(checkpoint(TRUE), 4, 40),
        "of-the-time": altered(checkpoint(TRUE), 5, 40),
        "of-its-end": altered(checkpoint(TRUE), 4, 67),
    }.items():
        yield vector(
            f"signature-{name}-is-wrong",
            refused("signature", "the signature of " + ORIGIN + " is wrong"),
            {"checkpoint": lines(wrong)},
        )
    resized = checkpoint(TRUE).replace("\n3\n", "\n4\n")
    yield vector("signature-of-another-size", refused("signature", "is wrong"), {"checkpoint": lines(resized)})
    yield vector("key-of-a-stranger", refused("signature", ORIGIN), signed(TRUE, key=STRANGER))
    yield vector(
        "key-that-is-unknown", refused("signature", ORIGIN), reader={"key": [STRANGER.verifier(ORIGIN)]}
    )
    yield vector(
        "key-of-another-log",
        refused("signature", ORIGIN),
        reader={"key": [LOG.verifier(f"broker.example/sets/news/{OTHER_EPOCH}")]},
    )
    yield vector("key-among-others", accepted(), reader={"key": [STRANGER.verifier(ORIGIN), LOG.verifier(ORIGIN)]})
    yield vector("key-with-comments", accepted(), reader={"key": ["# of news", "", LOG.verifier(ORIGIN)]})
    for name, key in {"empty": [], "comments-alone": ["# none", "", "  # nothing"]}.items():
        yield vector(f"keys-{name}", refused("usage", "key"), reader={"key": key})
    yield vector("keys-of-witnesses-empty", refused("usage", "key"), reader={"witnesses": []})
    with_other_id = LOG.verifier(ORIGIN).replace(LOG.id(ORIGIN, 1).hex(), STRANGER.id(ORIGIN, 1).hex())
    yield vector("key-altered", refused("usage", "altered"), reader={"key": [with_other_id]})
    yield vector(
        "origin-of-another-set",
        refused("signature", "broker.example/sets/other"),
        {"checkpoint": lines(note(body_of(TRUE, origin=f"broker.example/sets/other/{EPOCH}")))},
    )
    other = f"broker.example/sets/news/{OTHER_EPOCH}"
    yield vector(
        "origin-of-another-epoch",
        refused("origin", "the log"),
        signed(OF_OTHER_EPOCH),
        reader={"key": [LOG.verifier(ORIGIN), LOG.verifier(other)]},
    )
    yield vector("time-left-out", refused("signature", "signed no time"), signed(TRUE, at=0))
    yield vector("time-of-the-past", accepted(), signed(TRUE, at=1_700_000_000))
    yield vector("time-in-2100", refused("signature", "is dated"), signed(TRUE, at=IN_2100))
    yield vector("time-in-the-year-10000", refused("signature"), signed(TRUE, at=253_402_300_800))
    yield vector("time-of-2-to-the-63", refused("signature"), signed(TRUE, at=2**63))
    for name, size in {"2-to-the-63": 2**63, "2-to-the-64-less-1": 2**64 - 1, "2-to-the-64": 2**64}.items():
        why = malformed("more than any log" if size < 2**64 else None)
        yield vector(f"size-of-{name}", why, {"checkpoint": lines(note(body_of(TRUE, size, TREE)))})
    yield vector("size-with-a-zero-before-it", malformed(), {"checkpoint": lines(note(body_of(TRUE, "03", TREE)))})
    yield vector("size-below-zero", malformed(), {"checkpoint": lines(note(body_of(TRUE, -3, TREE)))})

    yield vector(
        "tree-is-smaller",
        evidence("smaller", ["it had 3 entries", "has 2"]),
        signed(TRUE, 2, at=AT + 1),
        reader=kept["same"],
    )
    yield vector(
        "tree-is-smaller-and-older",
        held(["older", "has 2"]),
        signed(TRUE, 2, at=AT - 1),
        reader=kept["same"],
    )
    yield vector(
        "root-is-another",
        evidence("root", "3 entries"),
        reader={"kept": lines(checkpoint(LAST_IS_OTHER))},
    )
    yield vector(
        "root-of-a-later-time-is-another",
        evidence("root", "3 entries"),
        reader={"kept": lines(checkpoint(LAST_IS_OTHER, at=AT + 60))},
    )
    yield vector(
        "tree-does-not-continue",
        evidence("inconsistent", "its 3 entries do not continue the first 2"),
        reader={"kept": lines(checkpoint(SECOND_IS_OTHER, 2))},
    )
    yield vector(
        "tree-does-not-continue-from-one",
        evidence("inconsistent", "its 3 entries do not continue the first 1"),
        reader={"kept": lines(checkpoint(Log([FALSE["altered"][1]])))},
    )
    yield vector("tree-after-another-log", accepted(), reader={"kept": lines(checkpoint(OF_OTHER_EPOCH))})
    yield vector(
        "tree-has-another-entry",
        evidence("digest", "its entry 3 is not the one that came"),
        {**signed(LAST_IS_OTHER), **tiles(LAST_IS_OTHER)},
    )
    yield vector(
        "tree-has-another-entry-before",
        evidence("digest", "its entry 3 is not the one that came"),
        {**signed(SECOND_IS_OTHER), **tiles(SECOND_IS_OTHER)},
    )
    behind = "signs 2 entries: later ones are held back until it does"
    two = {"changes": {"2": page(2, 3)}, **signed(TRUE, 2), **tiles(TRUE, 2)}
    yield vector("tree-lags-behind", held(behind, [1, 2]), two)
    empty = {"checkpoint": lines(note(body_of(TRUE, 0, sha256(b""))))}
    yield vector("tree-is-empty", held("signs 0 entries"), empty)
    yield vector("checkpoint-is-away", refused(None), {"checkpoint": None})


TREE = root_of(TRUE.hashes)


def notes():
    text = checkpoint(TRUE)
    body = text.partition("\n\n")[0] + "\n"
    ours = text.split("\n")[4:6]
    others = []
    for i in range(15):
        name = f"stranger{i}.example"
        make = (key_of(name).sign, key_of(name).cosign)[i % 2]
        others.append(make(name, body)[:-1])
    orders = {
        "first": ours + others,
        "last": others + ours,
        "backwards": (ours + others)[::-1],
        "apart": [others[0], ours[1], *others[1:9], ours[0], *others[9:]],
    }
    for name, of in orders.items():
        assert len(of) == 17
        yield vector(f"note-of-17-signatures-ours-{name}", accepted(), {"checkpoint": [*body.split("\n"), *of]})
    unknown = f"{DASH} {ORIGIN} {base64.b64encode(bytes(200)).decode()}"
    of_unknown_kind = {"checkpoint": [*body.split("\n"), unknown, *ours]}
    yield vector("note-with-a-signature-of-another-kind", accepted(), of_unknown_kind)
    for name, bad in {
        "is-empty": "",
        "is-a-page": "<html><body>Sign in</body></html>\n",
        "with-garbage-behind-it": f"{text}and more\n",
        "with-a-body-behind-it": f"{text}\n{body}",
        "with-half-a-signature-behind-it": text + f"{DASH} {ORIGIN}\n",
        "without-the-last-newline": text[:-1],
        "without-an-empty-line": text.replace("\n\n", "\n"),
        "without-a-root": text.replace("=\n\n", "\n\n"),
        "without-a-size": "\n".join(text.split("\n")[:1] + text.split("\n")[2:]),
        "with-returns": text.replace("\n", "\r\n"),
        "with-a-hyphen-for-a-dash": text.replace(DASH, "-"),
        "with-base64-in-another-form": other_form(text),
    }.items():
        yield vector(f"note-{name}", malformed(), {"checkpoint": bad})
    # All of it is the body, which nobody has signed.
    yield vector("note-with-an-empty-line-behind-it", refused("signature", ORIGIN), {"checkpoint": f"{text}\n"})


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def other_form(text):
    """Sets a bit without a meaning in the first hash that ends with "="."""
    head, rest = text.split("=\n", 1)
    return f"{head[:-1]}{LETTERS[LETTERS.index(head[-1]) + 1]}=\n{rest}"


def witnesses():
    known = [key.verifier(name, 4) for name, key in WITNESSES.items()]
    both = ["w1.example", "w2.example"]
    few = {"c": ["are required"], "js": ["witnesses have cosigned it"]}

    def case(name, verdict, text, known, require=None):
        reader = {"witnesses": known} | ({"require": require} if require else {})
        return vector(name, verdict, {"checkpoint": lines(text)}, reader=reader)

    yield case("witnesses-all", accepted(), cosigned(both), known[:2])
    yield case("witnesses-two-of-three", accepted(), cosigned(both), known, 2)
    yield case("witnesses-before-the-log", accepted(), reordered(cosigned(both)), known[:2])
    yield case("witnesses-one-that-is-unknown", accepted(), cosigned(both), known[:1])
    yield case("witnesses-too-few", refused("witnesses", few), cosigned(both), known)
    yield case("witnesses-two-of-three-required-three", refused("witnesses", few), cosigned(both), known, 3)
    yield case("witnesses-none", refused("witnesses", few), checkpoint(TRUE), known[:1])
    yield case(
        "witness-of-another-text",
        refused("witnesses", "the signature of w1.example is wrong"),
        cosigned(both[:1], of=body_of(TRUE, 2)),
        known[:1],
    )
    same = WITNESSES["w1.example"]
    refused_at_once = {
        **refused("usage", {**few, "c": ["2 witnesses are required"]}),
        "js": {"fault": "witnesses"},
    }
    twice = checkpoint(TRUE) + "".join(same.cosign(n, body_of(TRUE)) for n in ("w1.example", "again.example"))
    names = [same.verifier("w1.example", 4), same.verifier("again.example", 4)]
    yield case("witness-under-two-names", refused_at_once, twice, names, 2)
    yield case("witness-under-two-names-counts-once", accepted(), twice, names)
    yield case("witness-under-two-names-of-three", refused("witnesses", few), twice, [*names, known[1]], 2)
    yield case("witness-twice-in-a-note", accepted(), cosigned(["w1.example", "w1.example"]), known[:1])
    yield case("witness-twice-is-not-two", refused("witnesses", few), cosigned(["w1.example", "w1.example"]), known[:2])


def reordered(text):
    body, signatures = text.split("\n\n")
    return "\n".join([body, "", *signatures.split("\n")[:-1][::-1], ""])


def of_tiles():
    at = {"position": f"{EPOCH}-299", "digest": LONG.digest(299)}
    source = {"changes": {"299": page(299, 300, LONG), "300": page(300, 300, LONG)}, **signed(LONG)}
    yield vector("tiles-of-two-levels", accepted(300), {**source, **tiles(LONG)}, reader=at, last=300)
    name = "0/000.p/3"
    hashes = SOURCE["tiles"][name]
    full = hashes + [NOTHING.hex()] * 253
    yield vector("tile-that-is-full-for-a-partial-one", accepted(), {"tiles": {name: None, "0/000": full}})
    two = {"kept": lines(checkpoint(TRUE, 2))}
    no_root = held("tiles")
    for i in range(3):
        flipped = [bytes([one[0] ^ (1 if n == i else 0), *one[1:]]).hex() for n, one in enumerate(TRUE.hashes)]
        yield vector(f"tile-with-another-bit-in-hash-{i + 1}", no_root, {"tiles": {name: flipped}}, reader=two)
    last = [*hashes[:2], NOTHING.hex()]
    # Nothing needs its last hash: the entry that came makes it.
    yield vector("tile-with-another-last-hash", accepted(), {"tiles": {name: last}})
    for wrong, of in {
        "too-narrow": hashes[:2],
        "too-wide": [*hashes, hashes[0]],
        "empty": [],
        "no-whole-hashes": [*hashes[:2], hashes[2][:-2]],
        "wider-than-any": full + hashes,
    }.items():
        yield vector(f"tile-is-{wrong}", held("tile"), {"tiles": {name: of}}, reader=two)


def proofs():
    before = TRUE.digests[1] + L[1].encode() + b"\n"
    way = [base64.b64encode(one).decode() for one in TRUE.way(1, 0, 3)]
    rest = ["", *lines(checkpoint(TRUE))]

    def case(name, verdict, index=1, way=way, rest=rest, extra=before, more=(), **how):
        first = ["c2sp.org/tlog-proof@v1"]
        if extra is not None:
            first.append(f"extra {base64.b64encode(extra).decode()}")
        file = [*first, *more, f"index {index}", *way, *rest]
        return vector(name, verdict, file=file, seq=2, digest=TRUE.digest(2), **how)

    right = {"is": "accepted"}
    leads = refused("proof", {"c": ["do not lead"], "js": []})
    other_place = refused("proof", {"c": ["found entry 2"]})
    none = refused("malformed", {"c": ["it is no proof"], "js": ["it is no proof"]})
    yield case("proof", right)
    yield case("proof-with-an-altered-hash", leads, way=[base64.b64encode(NOTHING).decode(), *way[1:]])
    yield case("proof-with-hashes-swapped", leads, way=way[::-1])
    yield case("proof-with-a-hash-less", leads, way=way[:1])
    yield case("proof-with-a-hash-more", leads, way=[*way, way[0]])
    yield case("proof-of-another-index", other_place, index=0)
    yield case("proof-of-an-index-behind-the-tree", other_place, index=3)
    yield case("proof-of-an-index-with-a-zero", none, index="01")
    yield case("proof-of-an-index-of-2-to-the-64", none, index=2**64)
    yield case("proof-with-an-empty-extra", none, extra=b"")
    yield case("proof-with-two-extras", none, more=["extra AAAA"])
    yield case("proof-with-base64-in-another-form", none, way=[other_form(way[0] + "\n")[:-1], way[1]])
    yield case("proof-without-an-empty-line", none, rest=rest[1:])
    yield case("proof-with-two-empty-lines", refused("malformed"), rest=["", *rest])
    yield case(
        "proof-by-a-stranger",
        refused("signature", ORIGIN),
        rest=["", *lines(checkpoint(TRUE, key=STRANGER))],
    )
    yield case("proof-in-another-tree", leads, rest=["", *lines(checkpoint(SECOND_IS_OTHER))])
    other = TRUE.digests[1] + FALSE["altered"][1].encode() + b"\n"
    yield case(
        "proof-of-another-entry", leads, extra=other,
        **{"not": {"js": "a page brings its own entry, and readProof() does not return the one in the proof"}},
    )


def evidences():
    b64 = lambda one: base64.b64encode(one).decode()
    now = checkpoint(TRUE)
    two = checkpoint(SECOND_IS_OTHER, 2)
    instead = [b64(TRUE.hash_of(0, 2)), ""]
    onward = [b64(TRUE.hashes[2]), ""]
    place = f"{EPOCH}-3 {LAST_IS_OTHER.digest(3)}\n"
    leaf, up = [b64(TRUE.hashes[2]), ""], [b64(TRUE.hash_of(0, 2)), ""]
    yes = {"is": "evidence", "words": {"c": ["the holder of the key of " + ORIGIN]}}
    no = refused("evidence", {"c": ["does not contradict itself"]})

    def case(name, verdict, *parts, reader=None):
        file = []
        for i, part in enumerate(parts):
            part = lines(part) if isinstance(part, str) else part
            file += [*([""] if i in (1, 2) else []), *part]
        judges = {"not": {"js": "it makes evidence, and judges none"}}
        return vector(f"evidence-{name}", verdict, file=file, reader=reader, **judges)

    yield case("of-two-roots", yes, checkpoint(LAST_IS_OTHER), now)
    yield case("of-one-root-twice", no, now, checkpoint(TRUE, at=AT + 9))
    yield case("of-two-logs", no, checkpoint(OF_OTHER_EPOCH), now, reader=BOTH_KEYS)
    yield case("of-a-smaller-tree", yes, now, checkpoint(TRUE, 2, at=AT + 1))
    yield case("of-a-smaller-tree-before", no, now, checkpoint(TRUE, 2, at=AT - 1))
    yield case("of-a-tree-that-does-not-continue", yes, two, now, [*instead, *onward])
    yield case("of-a-tree-that-continues", no, checkpoint(TRUE, 2), now, [*instead, *onward])
    yield case("without-the-way", no, two, now)
    yield case("with-half-the-way", no, two, now, instead)
    yield case("with-another-way", no, two, now, [*instead, b64(NOTHING), ""])
    yield case("with-a-hash-more", no, two, now, [*instead, *onward[:1], *onward])
    yield case("of-an-entry", yes, place, now, [*leaf, *up])
    yield case("of-the-entry-that-is-there", no, f"{EPOCH}-3 {TRUE.digest(3)}\n", now, [*leaf, *up])
    yield case("of-an-entry-behind-the-tree", no, place.replace("-3 ", "-4 "), now, [*leaf, *up])
    yield case("of-an-entry-of-another-log", no, place.replace(EPOCH, OTHER_EPOCH), now, [*leaf, *up])
    yield case("of-a-stranger", refused("signature", {"c": [ORIGIN]}), checkpoint(LAST_IS_OTHER, key=STRANGER), now)


BOTH_KEYS = {"key": [LOG.verifier(ORIGIN), LOG.verifier(f"broker.example/sets/news/{OTHER_EPOCH}")]}

KINDS = {
    "entries": entries,
    "messages": messages,
    "checkpoints": checkpoints,
    "notes": notes,
    "witnesses": witnesses,
    "tiles": of_tiles,
    "proofs": proofs,
    "evidence": evidences,
}


def texts():
    """The text of each file."""
    for kind, make in KINDS.items():
        source = {} if kind in ("proofs", "evidence") else {"source": SOURCE, "last": 3}
        corpus = {"reader": READER, **source, "vectors": list(make())}
        yield f"{kind}.json", json.dumps(corpus, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, text in texts():
        (HERE / name).write_text(text, encoding="utf-8")
