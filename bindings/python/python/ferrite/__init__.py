"""Named objects that outlive crashes, at memory speed.

    import ferrite

    with ferrite.open("/dev/shm/pool", create="64M") as store:
        people = store.map("people")
        people[b"ada"] = b"1815"          # durable here
        with people.transaction() as t:   # both, or after a crash neither
            t[b"grace"] = b"1906"
            del t[b"ada"]

A store is a pool of persistent memory in a file or on a device. In it are objects with names, which behave like
Python's own: a map like a dict, a queue like a deque, a log like a list, a value of a fixed length. Keys, values and
entries are bytes, and are copied in and out.

A change is durable when it returns, as far as what the store lies in is: memory (tmpfs) survives the end of the
process, an NVDIMM and a disk survive power loss too; ``Store.describe`` says it with the reason. After a crash an
object has every change that had returned, and of one that had not all or nothing, but of a log's ``extend`` maybe the
first few entries. A store that another process owns (``ferrite up``, or a program like this one) is opened through
that process. An object is open in one process at a time; a forked child has none of its parent's.
"""

from __future__ import annotations

import os
import weakref
from typing import Optional, Union

from . import _ferrite
from ._ferrite import (
    VALUE_BYTES_MAX,
    BusyError,
    DamagedError,
    FerriteError,
    FullError,
    NotFoundError,
    PoisonedError,
    RevokedError,
    WrongTypeError,
)
from ._bundle import Bundle, BundleTransaction, MapView, QueueChange, QueueView
from ._objects import Log, Map, MapChange, Queue, Transaction, Value
from ._store import Store, Tag, size

__all__ = [
    "VALUE_BYTES_MAX",
    "Bundle",
    "BundleTransaction",
    "BusyError",
    "DamagedError",
    "FerriteError",
    "FullError",
    "Log",
    "Map",
    "MapChange",
    "MapView",
    "NotFoundError",
    "PoisonedError",
    "Queue",
    "QueueChange",
    "QueueView",
    "RevokedError",
    "Store",
    "Tag",
    "Transaction",
    "Value",
    "WrongTypeError",
    "create",
    "open",
    "restore",
]

Path = Union[str, "os.PathLike[str]"]

_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def open(path: Path, create: Optional[Union[int, str]] = None) -> Store:  # noqa: A001
    """Open the store at ``path`` and recover it; with ``create``, a size such as ``"64M"``, make it where there is none."""
    if create is not None and not os.path.exists(path):
        try:
            return _kept(Store(_ferrite.Store.create(os.fspath(path), size(create)), path))
        except FerriteError:
            if not os.path.exists(path):
                raise
            # Somebody else was faster.
    return _kept(Store(_ferrite.Store.open(os.fspath(path)), path))


def create(path: Path, size_bytes: Union[int, str]) -> Store:
    """Make a new store of ``size_bytes`` (a number, or text such as ``"64M"``) at ``path``; what is there is refused."""
    return _kept(Store(_ferrite.Store.create(os.fspath(path), size(size_bytes)), path))


def restore(image: Path, path: Path, lose: Optional[int] = None) -> None:
    """Restore the backup ``image`` into a new file, or the file or device ``path`` that nobody has open. Content there, a
    store or anything but zeros, is lost only if ``lose`` is the size of it in bytes, which the refusal names."""
    _ferrite.restore(os.fspath(image), os.fspath(path), lose)


def _kept(store: Store) -> Store:
    _stores.add(store)
    return store


def _forget() -> None:
    """In a forked child: what is open belongs to the parent, with its locks and grants."""
    for store in list(_stores):
        store._abandon()


os.register_at_fork(after_in_child=_forget)
