"""disk.py - what is left of a machine's disk when its power goes.

libworld.so keeps a journal of all changes of files and names, and of all syncs (world.h). A change of a file is durable when the file was
synced after it; a change of a name when its folder was. Of the rest a seeded part is left: of a file any writes, torn at 512 bytes, of a
folder the first ones. This is less than a file system of today keeps, and as much as POSIX promises.
"""

import os
import shutil
import struct

RECORD = struct.Struct("=6IQQQ")
WRITE, SIZE, SYNC, SYNC_ALL, CREATE, MKDIR, LINK, RENAME, UNLINK, RMDIR = range(1, 11)
SECTOR = 512


class Disk:
    def __init__(self, folder):
        self.folder = folder
        self.journal = folder.with_name(folder.name + ".journal")
        (folder / ".lost").mkdir(parents=True)

    def records(self):
        """Yields (op, kept, ino, at, old_size, path, other, old, new)."""
        data = self.journal.read_bytes() if self.journal.exists() else b""
        at = 0
        while at < len(data):
            op, n_path, n_other, n_old, n_new, kept, ino, where, old_size = RECORD.unpack_from(data, at)
            at += RECORD.size
            parts = []
            for size in (n_path, n_other, n_old, n_new):
                parts.append(data[at : at + size])
                at += size
            yield op, kept, ino, where, old_size, parts[0].decode(), parts[1].decode(), parts[2], parts[3]

    def lose_power(self, dice):
        writes, names = {}, []  # of each file, in order; of all folders
        for record in self.records():
            op, ino, path, other = record[0], record[2], record[5], record[6]
            if op == SYNC:
                writes.pop(ino, None)
                folder = self.path_of_folder(ino)
                names = without_synced(names, folder) if folder else names
            elif op == SYNC_ALL:
                writes, names = {}, []
            elif op in (WRITE, SIZE):
                writes.setdefault(ino, []).append(record)
            else:
                names.append((record, {os.path.dirname(p) for p in (path, other) if p}))
        files = self.files()
        n_lost = 0
        for ino, changes in writes.items():
            if ino in files:
                n_lost += lose_writes(files[ino], changes, dice)
        n_names = self.lose_names(names, dice)
        self.journal.unlink(missing_ok=True)
        shutil.rmtree(self.folder / ".lost")
        (self.folder / ".lost").mkdir()
        for path in self.folder.rglob("*-shm"):
            path.unlink()
        return f"{n_lost} of {sum(map(len, writes.values()))} writes, {n_names} of {len(names)} names are gone"

    def files(self):
        return {os.stat(p).st_ino: p for p in self.folder.rglob("*") if p.is_file()}

    def path_of_folder(self, ino):
        if not hasattr(self, "folders"):
            self.folders = {}
        if ino not in self.folders:
            self.folders = {os.stat(p).st_ino: str(p) for p in [self.folder, *self.folder.rglob("*")] if p.is_dir()}
        return self.folders.get(ino)

    def lose_names(self, names, dice):
        """Takes back the names of each folder behind a seeded point."""
        left = {}
        for _, folders in names:
            for folder in folders:
                left[folder] = left.get(folder, 0) + 1
        keeps = {folder: dice.choice([0, n, dice.randint(0, n)]) for folder, n in sorted(left.items())}
        lost = []
        for record, folders in names:
            if all(keeps[f] > 0 for f in folders):
                for f in folders:
                    keeps[f] -= 1
            else:
                for f in folders:
                    keeps[f] = 0
                lost.append(record)
        for op, kept, _, _, _, path, other, _, _ in reversed(lost):
            old = self.folder / ".lost" / str(kept)
            if not os.path.isdir(os.path.dirname(path)):
                continue  # its folder is durably gone
            if op in (CREATE, LINK):
                os.unlink(path)
            elif op == MKDIR:
                shutil.rmtree(path)
            elif op == RENAME:
                os.rename(other, path)
                if kept:
                    os.link(old, other)
            elif op == UNLINK and kept and not os.path.lexists(path):  # a socket may be there
                os.link(old, path)
            elif op == RMDIR:
                os.mkdir(path)
        return len(lost)


def without_synced(names, folder):
    """A file that came from another folder is here then, and all its former names were."""
    left, former = [], set()
    for record, folders in reversed(names):
        path, other = record[5], record[6]
        if folders <= {folder} or folder == os.path.dirname(other) or (other or path) in former:
            former |= {path} if other else set()
        else:
            left.append((record, folders))
    return left[::-1]


def lose_writes(path, changes, dice):
    """Takes back all, then makes some of them again."""
    with open(path, "r+b") as file:
        for op, _, _, at, old_size, _, _, old, _ in reversed(changes):
            if op == WRITE or old:
                file.seek(at)
                file.write(old)
            file.truncate(old_size)
        chance = dice.choice([0, 0.5, 1])
        n_lost = 0
        for op, _, _, at, _, _, _, _, new in changes:
            if dice.random() >= chance:
                n_lost += 1
            elif op == SIZE:
                file.truncate(at)
            else:
                if dice.random() < 0.2:
                    new = new[: len(new) // SECTOR * SECTOR * dice.randint(0, 1)] if len(new) > SECTOR else new
                file.seek(at)
                file.write(new)
    return n_lost


