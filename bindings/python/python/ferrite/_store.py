"""Stores: what is opened first, and holds the objects."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Type, TypeVar, Union

from . import _ferrite
from ._bundle import Bundle
from ._objects import Log, Map, Object, Queue, Value, raw

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

O = TypeVar("O", bound=Object)


def size(text: Union[int, str]) -> int:
    """A number of bytes: ``4096``, ``"64M"``, ``"1G"``."""
    if isinstance(text, int):
        return text
    number, unit = (text[:-1], _UNITS.get(text[-1:].upper(), 0)) if text[-1:].isalpha() else (text, 1)
    if not unit or not number.isdigit():
        raise ValueError(f"{text!r} is no size: write a number of bytes, or one with K, M, G or T")
    return int(number) * unit


def _bytes(text: Optional[Union[int, str]]) -> Optional[int]:
    return None if text is None else size(text)


class Tag(NamedTuple):
    """Something in a store that has a name."""

    name: str
    kind: str
    size: int


class Store:
    """A pool of persistent memory with objects in it. Close it, or use it in a ``with``. Its objects, and their views and
    transactions, keep it open.

    An object that is asked for by its name is made where there is none. While it is open it is the same object that is
    returned again.
    """

    def __init__(self, native: _ferrite.Store, path: "Union[str, os.PathLike[str]]") -> None:
        self._native = native
        self._path = os.fspath(path)
        self._objects: "weakref.WeakValueDictionary[str, Object]" = weakref.WeakValueDictionary()
        # What they stand on, which outlives an object a little where it is let go.
        self._natives: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
        # What has just been opened, until the two above know of it.
        self._opened: Dict[str, Any] = {}
        # Objects are opened, freed and closed with the store one at a time.
        self._lock = threading.RLock()

    @property
    def path(self) -> str:
        """Where it is."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._native.is_closed()

    @property
    def owner_pid(self) -> Optional[int]:
        """The process that owns the store, where that is another one."""
        return self._native.owner_pid()

    def describe(self) -> str:
        """What it lies in, and what that survives, in one line."""
        return self._native.describe()

    def map(
        self,
        name: str,
        *,
        log_bytes: Union[int, str] = "4M",
        checkpoint_records: int = 0,
        checkpoint_bytes: Optional[Union[int, str]] = None,
        salvage: bool = False,
    ) -> Map:
        """The map of that name, like a dict of bytes in the order of the keys.

        Changes go to a log of ``log_bytes``, given when it is made. A checkpoint is taken after ``checkpoint_records``
        changes (0: never by count) or ``checkpoint_bytes`` of them (three quarters of the log). With ``salvage`` a
        damaged map is opened with what is left of it: see ``Map.losses``.
        """
        options = (checkpoint_records, _bytes(checkpoint_bytes), salvage)
        return self._find(Map, name, lambda: self._native.map(name, size(log_bytes), *options))

    def queue(
        self,
        name: str,
        *,
        log_bytes: Union[int, str] = "4M",
        checkpoint_records: int = 0,
        checkpoint_bytes: Optional[Union[int, str]] = None,
        salvage: bool = False,
    ) -> Queue:
        """The queue of that name, like a deque of bytes. The options are those of ``map``."""
        options = (checkpoint_records, _bytes(checkpoint_bytes), salvage)
        return self._find(Queue, name, lambda: self._native.queue(name, size(log_bytes), *options))

    def bundle(
        self,
        name: str,
        *,
        log_bytes: Union[int, str] = "4M",
        checkpoint_records: int = 0,
        checkpoint_bytes: Optional[Union[int, str]] = None,
        salvage: bool = False,
    ) -> Bundle:
        """Maps and queues that change together, by transactions. The options are those of ``map``."""
        options = (checkpoint_records, _bytes(checkpoint_bytes), salvage)
        return self._find(Bundle, name, lambda: self._native.bundle(name, size(log_bytes), *options))

    def log(self, name: str, *, log_bytes: Union[int, str] = "4M", salvage: bool = False) -> Log:
        """The append-only log of that name, like a list of bytes, with room for ``log_bytes`` where it is made now."""
        return self._find(Log, name, lambda: self._native.log(name, size(log_bytes), salvage))

    def value(self, name: str, initial: bytes, *, scheme: Optional[str] = None) -> Value:
        """The value of that name, updated in place all or nothing; where there is none it is made as ``initial``.

        Its length never changes, at most ``VALUE_BYTES_MAX``: ``WrongTypeError`` where ``initial`` has another.
        ``scheme`` says how it is flushed from its opening on: ``nt`` (unless another is given), ``flush``, ``clwb``,
        ``clflushopt``, ``clflush``, ``writethrough``; ``ValueError`` where it is open with another.
        """
        first = raw(initial)
        found = self._find(Value, name, lambda: self._native.value(name, first, "nt" if scheme is None else scheme))
        if len(found) != len(first):
            raise _ferrite.WrongTypeError(f"{name!r} is open as a value of {len(found)} bytes, not of {len(first)}")
        if scheme not in (None, found._native.scheme()):
            raise ValueError(f"{name!r} is open with scheme {found._native.scheme()}: close it to open it with {scheme}")
        return found

    def _find(self, kind: Callable[[str, Any], O], name: str, make: Callable[[], Any]) -> O:
        with self._lock:
            native = self._known(name)
            if native is not None and native.is_closed():
                # Another thread may be closing it yet.
                native.close()
            if native is None or native.is_closed():
                # In one step, or an interrupt might leave it open and unknown.
                self._opened[name] = make()
                native = self._opened[name]
            if type(native).__name__ != kind.__name__:
                raise _ferrite.WrongTypeError(f"{name!r} is open as a {type(native).__name__}")
            found: Any = self._objects.get(name)
            if found is None or found._native is not native:
                found = kind(name, native)
                found._store = self
                self._natives[name], self._objects[name] = native, found
            self._opened.pop(name, None)
            return found  # type: ignore[no-any-return]

    def _known(self, name: str) -> Any:
        return self._opened.get(name) or self._natives.get(name)

    def _all_known(self) -> List[Any]:
        return [*self._opened.values(), *self._natives.values()]

    def tags(self) -> List[Tag]:
        """Everything in it that has a name, of whatever kind, by name."""
        return [Tag(*tag) for tag in self._native.tags()]

    def __contains__(self, name: object) -> bool:
        return any(tag.name == name for tag in self.tags())

    def free(self, name: str) -> None:
        """Free the object of that name: its content is gone, its space free. If it is open here it is closed first."""
        with self._lock:
            known = self._known(name)
            if known is not None:
                known.close()
            self._native.free(name)

    def backup(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Write a backup to a file, durable on return; a good one there stays until then."""
        self._native.backup(os.fspath(path))

    def close(self) -> None:
        """Close every object and the store, in order. Closing twice is harmless."""
        with self._lock:
            if not self.closed:
                self.finalize()

    def finalize(
        self, *, defragment: bool = False, backup: "Optional[Union[str, os.PathLike[str]]]" = None
    ) -> None:
        """As ``close`` of a store that is open; before, where asked for, write a backup and then defragment it, which are
        its owner's to do. Where the backup fails, or is not this process's to make, the store stays open, and ``closed`` says
        so; its objects are closed. What fails after that closes it as a crash would."""
        with self._lock:
            for known in self._all_known():
                known.close()
            self._native.finalize(defragment, None if backup is None else os.fspath(backup))

    def _abandon(self) -> None:
        # A thread that had it is not in the child.
        self._lock = threading.RLock()
        for known in self._all_known():
            known.abandon()
        self._native.abandon()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ferrite.Store {self._path!r}{' closed' if self.closed else ''}>"
