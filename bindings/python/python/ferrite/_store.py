"""Stores, which contain the objects."""

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
    """Convert a number or a text such as ``"64M"`` or ``"1G"`` to a number of bytes."""
    if isinstance(text, int):
        return text
    number, unit = (text[:-1], _UNITS.get(text[-1:].upper(), 0)) if text[-1:].isalpha() else (text, 1)
    if not unit or not number.isdigit():
        raise ValueError(f"{text!r} is not a size: write a number of bytes, or a number with K, M, G or T")
    return int(number) * unit


def _bytes(text: Optional[Union[int, str]]) -> Optional[int]:
    return None if text is None else size(text)


class Tag(NamedTuple):
    """A named entry of a store."""

    name: str
    kind: str
    size: int


class Store:
    """A pool of persistent memory that contains objects. Close it, or use it in a ``with``. Its objects, and their
    views and transactions, keep it open.

    The methods that return an object by its name create the object if it does not exist. While an object is open, they
    return the same Python object again.
    """

    def __init__(self, native: _ferrite.Store, path: "Union[str, os.PathLike[str]]") -> None:
        self._native = native
        self._path = os.fspath(path)
        self._objects: "weakref.WeakValueDictionary[str, Object]" = weakref.WeakValueDictionary()
        # The native handles of these objects. A handle may exist a little longer than its object.
        self._natives: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
        # The handles that were just opened, until the two dictionaries above contain them.
        self._opened: Dict[str, Any] = {}
        # Serializes the opening and freeing of objects and the closing of the store.
        self._lock = threading.RLock()

    @property
    def path(self) -> str:
        """The path of the store."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return self._native.is_closed()

    @property
    def owner_pid(self) -> Optional[int]:
        """The id of the process that owns the store, or ``None`` if this process owns it."""
        return self._native.owner_pid()

    def describe(self) -> str:
        """Return one line that describes the memory of the store and the failures that it survives."""
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
        """Return the map of that name. It is like a dict of bytes in the order of the keys.

        Changes go to a log of ``log_bytes``, which applies when the map is created. A checkpoint is taken after
        ``checkpoint_records`` changes (0: no limit by count) or after ``checkpoint_bytes`` of changes (by default three
        quarters of the log). ``salvage`` opens a damaged map with the content that is still readable: see
        ``Map.losses``.
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
        """Return the queue of that name. It is like a deque of bytes. The options are those of ``map``."""
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
        """Return the bundle of that name. The options are those of ``map``."""
        options = (checkpoint_records, _bytes(checkpoint_bytes), salvage)
        return self._find(Bundle, name, lambda: self._native.bundle(name, size(log_bytes), *options))

    def log(self, name: str, *, log_bytes: Union[int, str] = "4M", salvage: bool = False) -> Log:
        """Return the append-only log of that name.

        It is like a list of bytes. A new log has space for ``log_bytes``.
        """
        return self._find(Log, name, lambda: self._native.log(name, size(log_bytes), salvage))

    def value(self, name: str, initial: bytes, *, scheme: Optional[str] = None) -> Value:
        """Return the value of that name, which is updated in place atomically. A new value is set to ``initial``.

        The length of a value never changes, and is at most ``VALUE_BYTES_MAX``. If ``initial`` has a different length,
        the call raises ``WrongTypeError``. ``scheme`` selects the instructions that make the value durable: ``nt`` (the
        default), ``flush``, ``clwb``, ``clflushopt``, ``clflush``, or ``writethrough``. If the value is open with
        another scheme, the call raises ``ValueError``.
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
            native = self._find_native(name)
            if native is not None and native.is_closed():
                # Another thread may still be closing it, so wait for that thread.
                native.close()
            if native is None or native.is_closed():
                # This must be a single step. Otherwise an interrupt could lose the handle of an open object.
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

    def _find_native(self, name: str) -> Any:
        return self._opened.get(name) or self._natives.get(name)

    def _all_natives(self) -> List[Any]:
        return [*self._opened.values(), *self._natives.values()]

    def tags(self) -> List[Tag]:
        """Return all named entries of the store, of every kind, in the order of names."""
        return [Tag(*tag) for tag in self._native.tags()]

    def __contains__(self, name: object) -> bool:
        return any(tag.name == name for tag in self.tags())

    def free(self, name: str) -> None:
        """Free the object of that name. Its content is lost. An object that this process has open is closed first."""
        with self._lock:
            native = self._find_native(name)
            if native is not None:
                native.close()
            self._native.free(name)

    def backup(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Write a backup to a file. It is durable on return. An older backup in the file stays valid until then."""
        self._native.backup(os.fspath(path))

    def close(self) -> None:
        """Close every object and then the store cleanly. A second close has no effect."""
        with self._lock:
            if not self.closed:
                self.finalize()

    def finalize(
        self, *, defragment: bool = False, backup: "Optional[Union[str, os.PathLike[str]]]" = None
    ) -> None:
        """Close an open store like ``close``; before that, optionally write a backup and defragment the store.

        Only the owner of the store can make the backup and defragment it. If the backup fails, or if another process
        owns the store, the objects are closed but the store stays open. ``closed`` returns which of both is the case. A
        later failure closes the store as a crash does.
        """
        with self._lock:
            for native in self._all_natives():
                native.close()
            self._native.finalize(defragment, None if backup is None else os.fspath(backup))

    def _abandon(self) -> None:
        # The thread that holds the lock may not exist in the child.
        self._lock = threading.RLock()
        for native in self._all_natives():
            native.abandon()
        self._native.abandon()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ferrite.Store {self._path!r}{' closed' if self.closed else ''}>"
