"""liar.py - stands between a reader and its broker, and alters names of resources on the way now and then.

    python3 -S liar.py SEED OWN-PORT PORT

All addresses of the broker that it hands on are its own, so a reader that begins here stays here. What it alters keeps its length. It
knows no gzip, and leaves what is packed alone.
"""

import random
import re
import select
import socket
import sys

NAME = re.compile(rb"(http://e\.org/\d+/)(\d)")
ONE_OF = 6  # messages with names are altered


def main(seed, own, port):
    dice = random.Random(seed)
    listener = socket.create_server(("127.0.0.1", own))
    others = {}  # socket: the one at the other end
    ours, theirs = (b"http://127.0.0.1:%d" % each for each in (own, port))
    clients = set()
    while True:
        for one in select.select([listener, *others], [], [])[0]:
            if one is listener:
                client, server = listener.accept()[0], socket.socket()
                try:
                    server.connect(("127.0.0.1", port))
                except OSError:
                    client.close()
                    continue
                others |= {client: server, server: client}
                clients.add(client)
            elif one in others:
                carry(one, others, one in clients, lambda data: lie(data.replace(theirs, ours), dice))


def carry(one, others, is_client, change):
    try:
        data = one.recv(65536)
        if data:
            others[one].sendall(data if is_client else change(data))
            return
    except OSError:
        pass
    for each in (one, others[one]):
        del others[each]
        each.close()


def lie(data, dice):
    names = list(NAME.finditer(data))
    if not names or dice.randrange(ONE_OF):
        return data
    at = dice.choice(names).start(2)
    return data[:at] + b"%d" % ((data[at] - 47) % 10) + data[at + 1 :]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
