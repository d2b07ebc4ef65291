#!/usr/bin/env python3
"""Prints every change of several sets, as they come: follow.py SET-URL..."""

import asyncio
import sys

import tidings


async def follow(url: str) -> None:
    async for change in tidings.afollow(url, position="0"):
        print(url, change.change, change.loc, flush=True)


async def main() -> None:
    async with asyncio.TaskGroup() as group:
        for url in sys.argv[1:]:
            group.create_task(follow(url))


if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass
