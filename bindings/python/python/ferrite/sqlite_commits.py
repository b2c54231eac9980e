"""Compare the commits a second of one SQLite database, with its log beside it and with its log in a pool.

    python3 -m ferrite.sqlite_commits [DIR] [--pool POOL] [--commits N]
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from . import FerriteError
from . import sqlite as ferrite_sqlite


def commits_a_second(database: sqlite3.Connection, commits: int) -> float:
    """Insert ``commits`` rows of 100 bytes, each in a transaction of its own, and return the rate."""
    database.execute("create table rows (content blob)")
    database.commit()
    row = bytes(100)
    start = time.perf_counter()
    for _ in range(commits):
        with database:
            database.execute("insert into rows values (?)", (row,))
    return commits / (time.perf_counter() - start)


def plain(path: Path) -> sqlite3.Connection:
    """Open ``path`` as SQLite does, with durable commits in WAL mode."""
    database = sqlite3.connect(path)
    database.execute("pragma journal_mode=wal").close()
    database.execute("pragma synchronous=full").close()
    return database


def compare(folder: Path, pool: str, commits: int) -> None:
    """Print the rates of two new databases in ``folder``, one of them with its log in ``pool``."""
    with tempfile.TemporaryDirectory(prefix="ferrite-commits-", dir=folder) as scratch:
        database = plain(Path(scratch) / "before.db")
        before = commits_a_second(database, commits)
        database.close()
        print(f"before  {before:9,.0f} commits a second, log in {folder}", flush=True)
        database = ferrite_sqlite.connect(Path(scratch) / "after.db", pool=pool, create="64M")
        after = commits_a_second(database, commits)
        database.close()
        print(f"after   {after:9,.0f} commits a second, log in {pool}: {after / before:.1f} times as many")
    print(f"These commits survive what the pool survives: `ferrite pool info {pool}` prints it.")


def main() -> None:
    """Read the arguments, and compare."""
    parser = argparse.ArgumentParser(prog="python3 -m ferrite.sqlite_commits", description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", type=Path, help="where the databases are made")
    parser.add_argument("--pool", default="/dev/shm/pool", help="made with 64 MiB if it is missing [%(default)s]")
    parser.add_argument("--commits", default=2000, type=int, metavar="N", help="of each kind [%(default)s]")
    arguments = parser.parse_args()
    if arguments.commits < 1:
        parser.error("--commits needs a number of at least 1")
    try:
        compare(arguments.folder, arguments.pool, arguments.commits)
    except (FerriteError, OSError, sqlite3.Error) as error:
        sys.exit(f"ferrite.sqlite_commits: {error}")


if __name__ == "__main__":
    main()
