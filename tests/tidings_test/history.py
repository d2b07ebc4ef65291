"""The changes that a receiver has got: every entry once, in order.

However the changes came (push, pull, a program), the test compares one thing: a
sequence without gap, repeats dropped by seq, and its digest. It checks the rules of one
history as it grows: consecutive seqs, increasing times, repeats equal to the first
time, digests and times as stated.
"""

from tidings_test.messages import first_digest, next_digest


class History:
    """The entries after entry `after`; None: after the one that the first message
    states. `digest` is that of the log up to the last entry, if it is known.
    `new_epochs` may come: the entries go on behind the last one."""

    def __init__(self, after=0, new_epochs=0):
        self.after = after
        self.last = after
        self.entries = []  # entry `seq` is entries[seq - after - 1]
        self.epoch = ""
        self.start_time = ""  # of entry `after`, where a heartbeat stated it
        self.digests = {}  # by seq; empty: not known
        self.repeats = 0
        self.new_epochs = new_epochs

    def __getitem__(self, seq):
        assert self.after < seq <= self.last, f"entry {seq} is not known"
        return self.entries[seq - self.after - 1]

    def add_document(self, document):
        """Add a message in XML, or a Change List."""
        entries = document.entries
        assert document.last - document.after == len(entries)
        self._begin(document.epoch, document.after)
        self._check_time(document.after, document.from_)
        if not entries and self.last == self.after == document.last > 0:
            self.digests = {self.last: bytes.fromhex(document.digest[8:])}
            self.start_time = document.until
        digest = self.digests.get(document.after)
        for seq, entry in enumerate(entries, document.after + 1):
            assert entry.seq == seq
            digest = digest and next_digest(digest, entry.line)
            self._add(entry, digest)
        self._check_time(document.last, document.until)
        if digest:
            assert document.digest == f"sha-256:{digest.hex()}"

    def add_entry(self, entry):
        """Add the entry behind the last one, or one again, from a document."""
        digest = self.digests.get(entry.seq - 1)
        self._add(entry, digest and next_digest(digest, entry.line))

    def add_message(self, message):
        """Add a message in JSON, in which entries have not the bytes of a digest; in
        XML, the same as its document."""
        if not isinstance(message.raw, dict):
            return self.add_document(message.raw)
        self._begin(message.epoch, message.after)
        for entry in message.entries:
            self._add(entry, None)

    def add_delivery(self, document):
        """Add a message of a stream: neither a repeat nor a gap."""
        assert self.last is None or document.after == self.last
        self.add_document(document)

    def check_same(self, other):
        """Both end at the same entry, and are the same where both have entries."""
        first = max(self.after, other.after) + 1
        assert self.last == other.last >= first
        for one, two in ((self, other), (other, self)):
            if one.start_time and two.after < one.after:
                assert one.start_time == two[one.after].datetime
        for seq in range(first, self.last + 1):
            assert _facts(self[seq]) == _facts(other[seq])

    def locs(self):
        return [entry.loc for entry in self.entries]

    def _begin(self, epoch, after):
        if self.after is None:
            self.after = self.last = after
        if not self.epoch:
            assert len(epoch) == 16
            self.epoch = epoch
            if self.after == 0 and not self.entries:
                self.digests[0] = first_digest(epoch)
        if epoch != self.epoch and self.new_epochs:
            self.new_epochs -= 1
            self.epoch = epoch
        assert epoch == self.epoch

    def _add(self, entry, digest):
        if self.after < entry.seq <= self.last:
            self.repeats += 1
            assert _facts(entry) == _facts(self[entry.seq])
            if digest and entry.seq in self.digests:
                assert digest == self.digests[entry.seq]
            return
        assert entry.seq == self.last + 1
        assert len(entry.datetime) == 27
        if self.entries:
            assert entry.datetime > self.entries[-1].datetime
        self.entries.append(entry)
        self.last = entry.seq
        if digest:
            self.digests[entry.seq] = digest

    def _check_time(self, seq, time):
        if time and self.after < seq <= self.last:
            assert time == self[seq].datetime

    def __repr__(self):
        return f"<entries {self.after} to {self.last}>"


def _facts(entry):
    return entry.datetime, entry.change, entry.loc
