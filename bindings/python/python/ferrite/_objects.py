"""Objects in a store, which behave like Python's own."""

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
    """``value`` as bytes; anything else is a mistake, a number too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"bytes are kept, not {type(value).__name__}: encode it first")


class Object:
    """Something with a name in a store."""

    _native: Any
    # Without its store nobody could close that, and nobody else could open it.
    _store: Any = None

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._native.is_closed())

    def close(self) -> None:
        """Close it, when calls of other threads that have begun are done. Closing twice is harmless; any other use of a
        closed object raises ``ValueError``."""
        self._native.close()

    def __repr__(self) -> str:
        return f"<ferrite.{type(self).__name__} {self._name!r}{' closed' if self.closed else ''}>"


class Map(Object, MutableMapping[bytes, bytes]):
    """A durable dict of bytes, in the order of the keys. Each change is durable when it returns.

    Iterating sees keys that are added behind the one it is at, and misses those that are gone.
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
        """Keys and values in order, from the first key greater than ``after`` on."""
        while True:
            page = self._native.page(after, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def pop(self, key: Bytes, default: Any = _MISSING) -> Any:
        """Take ``key`` away in one step, also between threads; what it had, or ``default``."""
        found = self._native.remove(raw(key))
        if found is None and default is _MISSING:
            raise KeyError(key)
        return default if found is None else found

    def update(self, *args: Any, **named: Any) -> None:
        """Set many keys in one step: after a crash all of them, or none."""
        if named:
            raise TypeError("keys are bytes, so they cannot be named arguments")
        with self.transaction() as t:
            for key, value in dict(*args).items():
                t[key] = value

    def clear(self) -> None:
        """Take every key away, in one step."""
        with self.transaction() as t:
            t.clear()

    def transaction(self) -> "Transaction":
        """Changes that are made together when the ``with`` ends, or not at all if it ends by an exception."""
        return Transaction(self)

    def checkpoint(self) -> None:
        """Take a checkpoint now: the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """What a salvage had to give up."""
        return self._native.losses()


class MapChange(MutableMapping[bytes, bytes]):
    """A map as it will be: reading sees the changes made so far over what the map holds. For one thread."""

    def __init__(self, of: Mapping[bytes, bytes], batch: Any) -> None:
        self._of = of
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
        return self._of[key]

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
        """Take every key away."""
        self._batch.ensure_open()
        self._batch.clear()
        self._changes.clear()
        self._cleared = True

    def __iter__(self) -> Iterator[bytes]:
        before = [] if self._cleared else [key for key in self._of if key not in self._changes]
        added = [key for key, value in self._changes.items() if value is not None]
        return iter(sorted(before + added))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Transaction(MapChange):
    """A map as it will be, and changes that are made together at the end of the ``with``."""

    def __init__(self, of: Map) -> None:
        super().__init__(of, _ferrite.Batch())
        self._native = of._native

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
    """A durable deque of bytes. Each change is durable when it returns; what was popped no crash brings back."""

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
        """Add entries at the right end in one step: after a crash all of them, or none."""
        self._native.push(False, [raw(entry) for entry in entries])

    def extendleft(self, entries: Iterable[Bytes]) -> None:
        """Add entries at the left end one after the other, so in reverse, in one step."""
        self._native.push(True, [raw(entry) for entry in entries])

    def pop(self) -> bytes:
        """Take the entry at the right end away."""
        return self._popped(self._native.pop(False))

    def popleft(self) -> bytes:
        """Take the entry at the left end away."""
        return self._popped(self._native.pop(True))

    @staticmethod
    def _popped(entry: Optional[bytes]) -> bytes:
        if entry is None:
            raise IndexError("pop from an empty queue")
        return entry

    def clear(self) -> None:
        """Take every entry away, in one step."""
        self._native.clear()

    def checkpoint(self) -> None:
        """Take a checkpoint now: the next opening has no changes to apply."""
        self._native.checkpoint()

    def losses(self) -> List[str]:
        """What a salvage had to give up."""
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
    """A durable append-only list of bytes. Old entries are cut off at the front.

    Indices count what is there; ``first`` and ``end`` are the numbers of entries since the log was made, which never
    change.
    """

    _native: _ferrite.Log

    def __init__(self, name: str, native: _ferrite.Log) -> None:
        super().__init__(name)
        self._native = native

    def append(self, entry: Bytes) -> int:
        """Append an entry; its number. ``FullError`` where there is no room: cut it."""
        return self._native.append(raw(entry))

    def extend(self, entries: Iterable[Bytes]) -> int:
        """Append entries with one wait for all; the number of the first. A crash in between leaves the first few, or
        none. Where they do not fit, none is appended."""
        return self._native.extend([raw(entry) for entry in entries])

    @property
    def first(self) -> int:
        """Number of the oldest entry; that of the next one where there is none."""
        return self._native.first()

    @property
    def end(self) -> int:
        """Number of the next entry."""
        return self._native.end()

    @property
    def capacity_bytes(self) -> int:
        """Room for entries: each takes its bytes and 40 more, rounded up to 64."""
        return self._native.capacity_bytes()

    @property
    def used_bytes(self) -> int:
        """Room that they take."""
        return self._native.used_bytes()

    def get(self, number: int) -> Optional[bytes]:
        """Entry ``number``; ``None`` where it was cut off or is not there yet."""
        return self._native.get(number) if self.first <= number < self.end else None

    def cut(self, number: int) -> None:
        """Cut off every entry before ``number``."""
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
        """What was damaged, where this was opened to salvage."""
        return self._native.losses()

    def rescued(self) -> List[Tuple[int, bytes]]:
        """Entries that a salvage found behind the damage, with their numbers; they are not in the log any more,
        and gone with the first append: copy them before, to where they are wanted."""
        return self._native.rescued()


class Value(Object):
    """Bytes of a fixed length, updated in place: durable when ``set`` returns, after a crash old or new."""

    _native: _ferrite.Value

    def __init__(self, name: str, native: _ferrite.Value) -> None:
        super().__init__(name)
        self._native = native

    def get(self) -> bytes:
        """What it is."""
        return self._native.get()

    def set(self, value: Bytes) -> None:
        """Set it; as long as it is."""
        self._native.set(raw(value))

    def __len__(self) -> int:
        return self._native.size()

    def __bytes__(self) -> bytes:
        return self.get()
