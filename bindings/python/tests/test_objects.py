"""Compares objects with the types of Python that they behave like, and reopens the store in between."""

from collections import deque

import ferrite
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

settings.register_profile("ferrite", deadline=None, max_examples=15, stateful_step_count=40, derandomize=True,
                          suppress_health_check=list(HealthCheck), database=None)
settings.load_profile("ferrite")

data = st.binary(max_size=60)
keys = st.binary(min_size=0, max_size=2)


class Reopening(RuleBasedStateMachine):
    """The common part of all comparisons: closes the store, or abandons it as a crash does, and opens it again."""

    folder = None
    number = 0

    def __init__(self):
        super().__init__()
        Reopening.number += 1
        self.path = self.folder / f"{type(self).__name__}{Reopening.number}"
        self.store = ferrite.create(self.path, "16M")
        self.open()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = ferrite.open(self.path)
        self.open()

    def teardown(self):
        self.store.close()
        self.path.unlink()


class Maps(Reopening):
    def __init__(self):
        self.known = {}
        super().__init__()

    def open(self):
        self.map = self.store.map("it", log_bytes="16K")

    @rule(key=keys, value=data)
    def set(self, key, value):
        self.map[key] = value
        self.known[key] = value

    @rule(key=keys)
    def delete(self, key):
        if key in self.known:
            del self.map[key], self.known[key]
        else:
            with pytest.raises(KeyError):
                del self.map[key]

    @rule(key=keys)
    def pop(self, key):
        assert self.map.pop(key, None) == self.known.pop(key, None)

    @rule(changes=st.dictionaries(keys, st.one_of(st.none(), data)), fails=st.booleans(), clears=st.booleans())
    def transaction(self, changes, fails, clears):
        after = dict(self.known)
        try:
            with self.map.transaction() as t:
                if clears:
                    t.clear()
                    after.clear()
                for key, value in changes.items():
                    if value is not None:
                        t[key] = after[key] = value
                    elif key in t:
                        del t[key], after[key]
                assert dict(t) == after
                if fails:
                    raise LookupError
            self.known = after
        except LookupError:
            pass

    @rule()
    def checkpoint(self):
        self.map.checkpoint()

    @rule(changes=st.dictionaries(keys, data))
    def update(self, changes):
        self.map.update(changes)
        self.known.update(changes)

    @invariant()
    def same(self):
        assert self.map == self.known
        assert list(self.map) == sorted(self.known)


class Queues(Reopening):
    def __init__(self):
        self.known = deque()
        super().__init__()

    def open(self):
        self.queue = self.store.queue("it", log_bytes="16K")

    @rule(entries=st.lists(data, max_size=4), left=st.booleans())
    def extend(self, entries, left):
        (self.queue.extendleft if left else self.queue.extend)(entries)
        (self.known.extendleft if left else self.known.extend)(entries)

    @rule(left=st.booleans())
    def pop(self, left):
        if self.known:
            popped = self.queue.popleft() if left else self.queue.pop()
            assert popped == (self.known.popleft() if left else self.known.pop())
        else:
            with pytest.raises(IndexError):
                self.queue.popleft() if left else self.queue.pop()

    @rule()
    def clear(self):
        self.queue.clear()
        self.known.clear()

    @invariant()
    def same(self):
        assert list(self.queue) == list(self.known)
        assert len(self.queue) == len(self.known)


class Logs(Reopening):
    def __init__(self):
        self.known, self.first = [], 0
        super().__init__()

    def open(self):
        self.log = self.store.log("it", log_bytes="16K")

    @rule(entries=st.lists(data, max_size=4))
    def extend(self, entries):
        try:
            self.log.extend(entries)
            self.known.extend(entries)
        except ferrite.FullError:
            assert self.log.used_bytes > self.log.capacity_bytes / 2

    @rule(part=st.floats(0, 1))
    def cut(self, part):
        many = int(part * len(self.known))
        self.log.cut(self.first + many)
        self.first += many
        del self.known[:many]

    @invariant()
    def same(self):
        assert list(self.log) == self.known
        assert (self.log.first, self.log.end) == (self.first, self.first + len(self.known))
        assert self.log[-3:] == self.known[-3:]


@pytest.mark.parametrize("machine", [Maps, Queues, Logs])
def test_an_object_is_what_it_is_in_python(machine, tmp_path):
    Reopening.folder = tmp_path
    run_state_machine_as_test(machine)


def test_a_value_keeps_its_length(store):
    value = store.value("it", b"\0" * 100)
    value.set(bytearray(range(100)))
    assert (bytes(value), len(value)) == (bytes(range(100)), 100)
    with pytest.raises(ValueError):
        value.set(b"short")
    with pytest.raises(ValueError, match="too large"):
        store.value("large", b"\0" * (ferrite.VALUE_BYTES_MAX + 1))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_value_of_another_length_is_told(store, is_open):
    value = store.value("it", b"0" * 100)
    if not is_open:
        value.close()
    for other in [b"12", b"0" * 101]:
        with pytest.raises(ferrite.WrongTypeError, match="of 100 bytes"):
            store.value("it", other)
    assert store.value("it", b"1" * 100).get() == b"0" * 100


def test_an_open_value_keeps_its_scheme(store):
    value = store.value("it", b"1", scheme="flush")
    assert store.value("it", b"1") is value and store.value("it", b"1", scheme="flush") is value
    for other in ["nt", "no scheme"]:
        with pytest.raises(ValueError, match="open with scheme flush"):
            store.value("it", b"1", scheme=other)
    value.close()
    with pytest.raises(ValueError, match="unknown scheme"):
        store.value("it", b"1", scheme="")
    assert store.value("it", b"1", scheme="nt") is store.value("it", b"1", scheme="nt")


def test_bytes_alone_are_kept(store):
    map = store.map("map")
    for wrong in ["text", 5, None]:
        with pytest.raises(TypeError):
            map[b"key"] = wrong
        with pytest.raises(TypeError):
            store.queue("queue").append(wrong)
    map[bytearray(b"key")] = memoryview(b"value")
    assert map[b"key"] == b"value"
    assert "key" not in map


def test_what_comes_out_is_a_copy(store):
    map = store.map("map")
    value = bytearray(b"value")
    map[b"key"] = value
    value[0] = 0
    assert map[b"key"] == b"value"


def test_what_is_beyond_any_index_is_not_there(store):
    queue, log, bundle = store.queue("queue"), store.log("log"), store.bundle("bundle")
    with bundle.transaction() as t:
        t.queue("queue").append(b"x")
    queue.append(b"x")
    log.append(b"x")
    for of in (queue, log, bundle.queue("queue")):
        for index in (1, -2, 2**63, 2**70, -(2**70)):
            with pytest.raises(IndexError):
                of[index]
        assert of[0] == of[-1] == b"x"
    assert log.get(-1) is log.get(1) is log.get(2**70) is None
