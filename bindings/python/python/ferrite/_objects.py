"""The objects of a store, which behave like the types of Python."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import (
    Any,
    Iterable,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Tuple,
    Type,
    Union,
    overload,
)

from . import _ferrite

Bytes = Union[bytes, bytearray, memoryview]

_PAGE = 256
_MISSING: Any = object()


def raw(value: object) -> bytes:
    """Convert a bytes-like ``value`` to bytes. All other types, also numbers, raise ``TypeError``."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"expected bytes, not {type(value).__name__}: encode the value first")


class Object:
    """A named object in a store."""

    _native: Any
    # This reference keeps the store alive as long as one of its objects is open.
    _store: Any = None

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The name of the object in the store."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether the object is closed."""
        return bool(self._native.is_closed())

    def close(self) -> None:
        """Close the object after the running calls of other threads have ended.

        A second close has no effect. Any other use of a closed object raises ``ValueError``.
        """
        self._native.close()

    def __repr__(self) -> str:
        return f"<ferrite.{type(self).__name__} {self._name!r}{' closed' if self.closed else ''}>"


class Map(Object, MutableMapping[bytes, bytes]):
    """A durable dict of bytes, in the order of the keys. Each change is durable when its call returns.

    An iteration sees concurrent insertions and removals behind its current key.
    """

    _native: _ferrite.Map

    def __init__(self, name: str, native: _ferrite.Map) -> None:
        super().__init__(name)
        self._native = native

    def __getitem__(self, key: Bytes) -> bytes:
        found = self._native.get(raw(key))
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        self._native.put(raw(key), raw(value))

    def __delitem__(self, key: Bytes) -> None:
        if self._native.remove(raw(key)) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (bytes, bytearray, memoryview)) and self._native.contains(raw(key))

    def __len__(self) -> int:
        return self._native.len()

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self.pages())

    def pages(self, after: Optional[bytes] = None) -> Iterator[Tuple[bytes, bytes]]:
        """Iterate over keys and values in order, from the first key greater than ``after`` on."""
        while True:
            page = self._native.page(after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def pop(self, key: Bytes, default: Any = _MISSING) -> Any:
        """Remove ``key`` and return its value, or ``default``. The removal is atomic between threads."""
        found = self._native.remove(raw(key))
        if found is None and default is _MISSING:
            raise KeyError(key)
        return default if found is None else found

    def update(self, *args: Any, **named: Any) -> None:
        """Set several keys atomically: after a crash all of them are set, or none."""
        if named:
            raise TypeError("keys are bytes, so named arguments cannot be keys")
        with self.transaction() as t:
            for key, value in dict(*args).items():
                t[key] = value

    def clear(self) -> None:
        """Remove all keys atomically."""
        with self.transaction() as t:
            t.clear()

    def transaction(self) -> "Transaction":
        """Start changes that the end of the ``with`` applies together, or that an exception discards."""
        return Transaction(self)

    def checkpoint(self) -> None:
        """Take a checkpoint now, so that the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """Return descriptions of the damaged parts that a salvage gave up."""
        return self._native.losses()


class MapChange(MutableMapping[bytes, bytes]):
    """A map with the changes of a transaction. Reads see the changes made so far. It belongs to one thread."""

    def __init__(self, original: Mapping[bytes, bytes], batch: Any) -> None:
        self._original = original
        self._changes: "dict[bytes, Optional[bytes]]" = {}
        self._cleared = False
        self._batch = batch

    def __getitem__(self, key: Bytes) -> bytes:
        key = raw(key)
        if key in self._changes:
            found = self._changes[key]
            if found is None:
                raise KeyError(key)
            return found
        if self._cleared:
            raise KeyError(key)
        return self._original[key]

    def __setitem__(self, key: Bytes, value: Bytes) -> None:
        self._batch.ensure_open()
        key, value = raw(key), raw(value)
        self._batch.put(key, value)
        self._changes[key] = value

    def __delitem__(self, key: Bytes) -> None:
        self._batch.ensure_open()
        key = raw(key)
        self[key]
        self._batch.remove(key)
        self._changes[key] = None

    def clear(self) -> None:
        """Remove all keys."""
        self._batch.ensure_open()
        self._batch.clear()
        self._changes.clear()
        self._cleared = True

    def __iter__(self) -> Iterator[bytes]:
        before = [] if self._cleared else [key for key in self._original if key not in self._changes]
        added = [key for key, value in self._changes.items() if value is not None]
        return iter(sorted(before + added))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Transaction(MapChange):
    """A map with changes that are applied together at the end of the ``with``."""

    def __init__(self, original: Map) -> None:
        super().__init__(original, _ferrite.Batch())
        self._native = original._native

    def __enter__(self) -> "Transaction":
        self._batch.ensure_open()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None and (self._changes or self._cleared):
            self._native.commit(self._batch)
        else:
            self._batch.end()


class Queue(Object):
    """A durable deque of bytes. Each change, also a pop, is durable when its call returns."""

    _native: _ferrite.Queue

    def __init__(self, name: str, native: _ferrite.Queue) -> None:
        super().__init__(name)
        self._native = native

    def append(self, entry: Bytes) -> None:
        """Add an entry at the right end."""
        self._native.push(False, [raw(entry)])

    def appendleft(self, entry: Bytes) -> None:
        """Add an entry at the left end."""
        self._native.push(True, [raw(entry)])

    def extend(self, entries: Iterable[Bytes]) -> None:
        """Add entries at the right end atomically: after a crash all of them are there, or none."""
        self._native.push(False, [raw(entry) for entry in entries])

    def extendleft(self, entries: Iterable[Bytes]) -> None:
        """Add entries at the left end atomically, one after the other and so in reverse order."""
        self._native.push(True, [raw(entry) for entry in entries])

    def pop(self) -> bytes:
        """Remove the entry at the right end and return it."""
        return self._popped(self._native.pop(False))

    def popleft(self) -> bytes:
        """Remove the entry at the left end and return it."""
        return self._popped(self._native.pop(True))

    @staticmethod
    def _popped(entry: Optional[bytes]) -> bytes:
        if entry is None:
            raise IndexError("pop from an empty queue")
        return entry

    def clear(self) -> None:
        """Remove all entries atomically."""
        self._native.clear()

    def checkpoint(self) -> None:
        """Take a checkpoint now, so that the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """Return descriptions of the damaged parts that a salvage gave up."""
        return self._native.losses()

    def __len__(self) -> int:
        return self._native.len()

    def __getitem__(self, index: int) -> bytes:
        at = index + len(self) if index < 0 else index
        entry = self._native.get(at) if 0 <= at < len(self) else None
        if entry is None:
            raise IndexError("queue index out of range")
        return entry

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        while (entry := self._native.get(at)) is not None:
            yield entry
            at += 1

    def __contains__(self, entry: object) -> bool:
        return any(known == entry for known in self)


class Log(Object, Sequence):  # type: ignore[type-arg]
    """A durable append-only list of bytes. Old entries can be cut off at the front.

    An index counts from the oldest entry. The number of an entry counts from the creation of the log and never changes;
    ``first`` and ``end`` are such numbers.
    """

    _native: _ferrite.Log

    def __init__(self, name: str, native: _ferrite.Log) -> None:
        super().__init__(name)
        self._native = native

    def append(self, entry: Bytes) -> int:
        """Append an entry and return its number. A full log raises ``FullError``: cut it."""
        return self._native.append(raw(entry))

    def extend(self, entries: Iterable[Bytes]) -> int:
        """Append entries, wait once for all of them, and return the number of the first one.

        A crash during the call may leave only the first few entries. If the entries do not fit, none is appended.
        """
        return self._native.extend([raw(entry) for entry in entries])

    @property
    def first(self) -> int:
        """The number of the oldest entry. In an empty log it is the number of the next entry."""
        return self._native.first()

    @property
    def end(self) -> int:
        """The number of the next entry."""
        return self._native.end()

    @property
    def capacity_bytes(self) -> int:
        """The space for entries. An entry needs its length plus 40 bytes, rounded up to a multiple of 64."""
        return self._native.capacity_bytes()

    @property
    def used_bytes(self) -> int:
        """The space that the entries use."""
        return self._native.used_bytes()

    def get(self, number: int) -> Optional[bytes]:
        """Return the entry ``number``, or ``None`` if it was cut off or does not exist yet."""
        return self._native.get(number) if self.first <= number < self.end else None

    def cut(self, number: int) -> None:
        """Cut off all entries before ``number``."""
        self._native.cut(number)

    def __len__(self) -> int:
        return self.end - self.first

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> List[bytes]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[bytes, List[bytes]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        entry = self._native.get(self.first + at) if 0 <= at < len(self) else None
        if entry is None:
            raise IndexError("log index out of range")
        return entry

    def losses(self) -> List[str]:
        """Return descriptions of the damaged parts that a salvage found."""
        return self._native.losses()

    def rescued(self) -> List[Tuple[int, bytes]]:
        """Return the entries that a salvage found behind the damage, with their numbers.

        These entries are no longer part of the log, and the first append overwrites them. Copy the entries that you
        need before that.
        """
        return self._native.rescued()


class Value(Object):
    """Bytes of a fixed length that are updated in place. ``set`` is durable when it returns, and atomic."""

    _native: _ferrite.Value

    def __init__(self, name: str, native: _ferrite.Value) -> None:
        super().__init__(name)
        self._native = native

    def get(self) -> bytes:
        """Return the current bytes."""
        return self._native.get()

    def set(self, value: Bytes) -> None:
        """Set the bytes. ``value`` must have the length of the old bytes."""
        self._native.set(raw(value))

    def __len__(self) -> int:
        return self._native.size()

    def __bytes__(self) -> bytes:
        return self.get()
