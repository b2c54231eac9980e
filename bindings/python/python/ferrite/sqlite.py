"""SQLite databases whose logs are in a Ferrite pool.

    import ferrite.sqlite

    database = ferrite.sqlite.connect("app.db", pool="/dev/shm/pool", create="64M")
    with database:
        database.execute("insert into notes values ('kept')")   # durable when this block ends

The database stays in its file; the write-ahead log is in the pool. ``connect`` needs a Python whose ``sqlite3`` loads
extensions. Any other program loads the extension at ``loadable_path()``.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Optional, Union
from urllib.parse import quote

from . import FerriteError
from . import open as _open_store

__all__ = ["connect", "loadable_path"]

_is_loaded = False


def loadable_path() -> str:
    """Return the path of the extension, as ``.load`` of the SQLite shell and ``load_extension`` take it."""
    path = Path(__file__).with_name("libferrite_sqlite.so")
    if not path.exists():
        raise FerriteError(f"{path} is missing: this build has no SQLite extension; install the wheel ferrite-pm")
    return str(path.with_suffix(""))


def connect(
    database: Union[str, "os.PathLike[str]"],
    *,
    pool: Union[str, "os.PathLike[str]", None] = None,
    create: Optional[Union[int, str]] = None,
    **options: Any,
) -> sqlite3.Connection:
    """Open ``database`` with its log in ``pool``, in WAL mode, so that a commit is durable when it returns.

    Without ``pool``, use the pool in ``FERRITE_POOL``. With ``create``, a size such as ``"64M"``, create the pool if it
    does not exist. ``options`` are those of ``sqlite3.connect``.
    """
    pool = os.fspath(pool) if pool is not None else os.environ.get("FERRITE_POOL", "")
    if not pool:
        raise ValueError("name a pool, by pool= or in FERRITE_POOL")
    _load()
    if create is not None:
        _open_store(pool, create=create).close()
    path = quote(os.path.abspath(os.fspath(database)))
    uri = f"file:{path}?vfs=ferrite&pool={quote(os.path.abspath(pool), safe='/')}"
    connection = sqlite3.connect(uri, uri=True, **options)
    try:
        connection.execute("pragma journal_mode=wal").close()
        connection.execute("pragma synchronous=full").close()
    except BaseException:
        connection.close()
        raise
    return connection


def _load() -> None:
    """Register the VFS once in this process: it stays after the connection that loaded it is closed."""
    global _is_loaded
    if _is_loaded:
        return
    loader = sqlite3.connect(":memory:")
    try:
        if not hasattr(loader, "enable_load_extension"):
            raise FerriteError(
                "this Python's sqlite3 loads no extensions: use a Python that does (Debian's, python.org's or uv's), or "
                "the package apsw"
            )
        loader.enable_load_extension(True)
        loader.load_extension(loadable_path())
        _is_loaded = True
    finally:
        loader.close()
