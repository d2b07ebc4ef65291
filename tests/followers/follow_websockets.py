"""Follows sets by Debian's python3-websockets, all in one process: follow_websockets.py SET-URL...

Prints "SET-URL LOC" for each change, and "SET-URL ended: REASON" where the handshake is refused."""

import asyncio
import json
import ssl
import sys

import websockets


async def follow(url):
    position = "0"
    stream = url.replace("http", "ws", 1) + "/stream"
    more = {"ssl": ssl.create_default_context()} if url.startswith("https:") else {}
    while True:
        try:
            async with websockets.connect(f"{stream}?after={position}", **more) as socket:
                async for text in socket:
                    message = json.loads(text)
                    for change in message["changes"]:
                        print(url, change["loc"], flush=True)
                    position = f"{message['epoch']}-{message['last']}"
        except websockets.InvalidStatusCode as refused:
            if refused.status_code < 500:
                print(url, "ended:", refused.status_code, flush=True)
                return
        except (OSError, websockets.WebSocketException) as lost:
            if isinstance(lost.__cause__, ValueError):  # no HTTP/1.1
                print(url, "ended:", lost.__cause__, flush=True)
                return
        await asyncio.sleep(0.5)


async def main():
    await asyncio.gather(*map(follow, sys.argv[1:]))


asyncio.run(main())
