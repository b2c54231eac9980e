"""Named objects that survive crashes, at memory speed.

    import ferrite

    with ferrite.open("/dev/shm/pool", create="64M") as store:
        people = store.map("people")
        people[b"ada"] = b"1815"          # durable from here on
        with people.transaction() as t:   # atomic, also across a crash
            t[b"grace"] = b"1906"
            del t[b"ada"]

A store is a pool of persistent memory in a file or on a device. It contains objects with names, which behave like the
types of Python: a map like a dict, a queue like a deque, a log like a list, and a value like bytes of a fixed length.
Keys, values and entries are bytes, and are copied in and out.

A change is durable when its call returns, to the extent that the memory of the store is durable. Memory (tmpfs)
survives the end of the process. An NVDIMM and a disk also survive power loss. ``Store.describe`` returns which of these
applies, and the reason. After a crash an object contains every change whose call had returned. A change whose call had
not returned is there completely or not at all, except that ``Log.extend`` may leave its first few entries.

A store that another process owns (``ferrite up``, or a program like this one) is opened through that process. An object
is open in one process at a time. A forked child cannot use the objects of its parent.
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
from ._region import Region
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
    "Region",
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
    """Open the store at ``path`` and recover it.

    With ``create``, a size such as ``"64M"``, create the store if ``path`` does not exist.
    """
    if create is not None and not os.path.exists(path):
        try:
            return _remember(Store(_ferrite.Store.create(os.fspath(path), size(create)), path))
        except FerriteError:
            if not os.path.exists(path):
                raise
            # Another process created the store in the meantime.
    return _remember(Store(_ferrite.Store.open(os.fspath(path)), path))


def create(path: Path, size_bytes: Union[int, str]) -> Store:
    """Create a store of ``size_bytes`` (a number, or text such as ``"64M"``) at ``path``.

    The call refuses a path with existing content.
    """
    return _remember(Store(_ferrite.Store.create(os.fspath(path), size(size_bytes)), path))


def restore(image: Path, path: Path, lose: Optional[int] = None) -> None:
    """Restore the backup ``image`` into a new file, or into a file or device ``path`` that no process has open.

    The call overwrites existing content (a store, or any bytes other than zeros) only if ``lose`` is its size in bytes.
    The error message contains that size.
    """
    _ferrite.restore(os.fspath(image), os.fspath(path), lose)


def _remember(store: Store) -> Store:
    _stores.add(store)
    return store


def _abandon_stores() -> None:
    """Give up all open stores in a forked child: they belong to the parent, together with their locks and grants."""
    for store in list(_stores):
        store._abandon()


os.register_at_fork(after_in_child=_abandon_stores)
