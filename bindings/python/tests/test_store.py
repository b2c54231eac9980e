"""Tests the creation, the sharing, the crash recovery and the backup of stores."""

import fcntl
import gc
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import ferrite
import pytest
from ferrite import _ferrite


def test_the_example_of_the_package_does_what_it_says(tmp_path):
    lines = [line[4:] for line in ferrite.__doc__.splitlines() if line.startswith("    ")]
    exec("\n".join(lines).replace("/dev/shm/pool", str(tmp_path / "pool")), {})
    with ferrite.open(tmp_path / "pool") as store:
        assert dict(store.map("people")) == {b"grace": b"1906"}


def test_objects_have_names_and_types_and_are_freed(store):
    assert store.map("map") is store.map("map")
    store.log("log").append(b"x")
    with pytest.raises(ferrite.WrongTypeError):
        store.queue("map")
    store.log("log").close()
    with pytest.raises(ferrite.WrongTypeError, match="a log, not a map"):
        store.map("log")
    assert [(tag.name, tag.kind) for tag in store.tags()] == [("log", "object"), ("map", "object")]
    store.free("map")
    assert "map" not in store and "log" in store
    with pytest.raises(ferrite.NotFoundError):
        store.free("map")


def test_sizes_are_numbers_or_text(store):
    map = store.map("map", log_bytes="64K", checkpoint_bytes="4K")
    for number in range(1000):
        map[b"k"] = b"%d" % number
    assert map[b"k"] == b"999"
    for wrong in ["many", "4X", "", "-1"]:
        with pytest.raises(ValueError, match="is not a size"):
            store.queue("queue", checkpoint_bytes=wrong)


def test_closed_objects_say_so(tmp_path):
    store = ferrite.create(tmp_path / "store", "16M")
    map = store.map("map")
    store.close()
    store.close()
    assert map.closed and store.closed and "closed" in repr(map)
    with pytest.raises(ValueError, match="closed"):
        map[b"k"] = b"v"
    with pytest.raises(ValueError, match="closed"):
        store.map("other")
    with pytest.raises(ValueError, match="closed"):
        store.finalize(backup=tmp_path / "image")


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(ferrite.FerriteError, match="No such file"):
        ferrite.open(tmp_path / "none")
    (tmp_path / "text").write_bytes(b"text" * 5_000_000)
    (tmp_path / "short").write_bytes(b"text")
    for no_pool in ["text", "short"]:
        with pytest.raises(ferrite.FerriteError, match="not a Ferrite pool"):
            ferrite.open(tmp_path / no_pool)
    with pytest.raises(ferrite.FerriteError):
        ferrite.create(tmp_path / "text", "16M")
    with pytest.raises(ValueError):
        ferrite.create(tmp_path / "new", "many")
    for wrong, words in [(10, "too small: 8 MiB at least"), (2**64 - 1, "too large")]:
        with pytest.raises(ferrite.FerriteError, match=words):
            ferrite.create(tmp_path / "new", wrong)
    assert sorted(os.listdir(tmp_path)) == ["short", "text"]


def test_a_backup_is_restored(store, tmp_path):
    store.map("map")[b"key"] = b"value"
    with pytest.raises(ferrite.FerriteError, match="holds a pool"):
        store.backup(store.path)
    store.backup(tmp_path / "image")
    store.map("map").clear()
    store.finalize(defragment=True)
    size = os.path.getsize(store.path)
    for lose in (None, size - 1):
        with pytest.raises(ferrite.FerriteError, match=f"--lose {size} "):
            ferrite.restore(tmp_path / "image", store.path, lose=lose)
    ferrite.restore(tmp_path / "image", tmp_path / "new")
    with ferrite.open(tmp_path / "new") as restored:
        assert dict(restored.map("map")) == {b"key": b"value"}
        with pytest.raises(ferrite.BusyError):
            ferrite.restore(tmp_path / "image", tmp_path / "new", lose=size)
    ferrite.restore(tmp_path / "image", store.path, lose=size)
    with ferrite.open(store.path) as restored:
        assert dict(restored.map("map")) == {b"key": b"value"}


def test_a_finalize_whose_backup_fails_leaves_the_store_open(store, tmp_path):
    code = """
theirs = store.map("theirs")
print(flush=True)
sys.stdin.read()
theirs.close()
try:
    store.finalize(defragment=True)
except ferrite.FerriteError as error:
    print(error, store.closed)
"""
    process = other(code, store.path, stdin=subprocess.PIPE)
    process.stdout.readline()
    with pytest.raises(ferrite.BusyError):
        store.finalize(backup=tmp_path / "image")
    assert not store.closed
    store.map("map")[b"key"] = b"value"
    told = process.communicate()[0]
    assert process.returncode == 0 and "another process owns the store" in told and "False" in told, told
    with pytest.raises(ferrite.FerriteError, match="No such file"):
        store.finalize(backup=tmp_path / "no folder" / "image")
    assert not store.closed and dict(store.map("map")) == {b"key": b"value"}
    store.finalize(defragment=True, backup=tmp_path / "image")
    assert store.closed
    ferrite.restore(tmp_path / "image", tmp_path / "new")
    with ferrite.open(tmp_path / "new") as restored:
        assert dict(restored.map("map")) == {b"key": b"value"}


def test_threads_share_an_object(store):
    map = store.map("map")

    def fill(part):
        for number in range(200):
            map[f"{part}.{number}".encode()] = b"x"

    threads = [threading.Thread(target=fill, args=(part,)) for part in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(map) == 800


def test_what_is_closed_or_freed_waits_for_calls_of_other_threads(tmp_path):
    told = []

    def use(find, use):
        while True:
            try:
                use(find())
            except ValueError:
                # The store is closed.
                if store.closed:
                    return
            except BaseException as error:
                return told.append(error)

    for number in range(12):
        store = ferrite.create(tmp_path / f"store {number}", "16M")
        map, log, value = store.map("map", log_bytes="64K"), store.log("log", log_bytes="64K"), store.value("value", b"1")
        freed = lambda: store.map("freed", log_bytes="64K")
        uses = [
            (lambda: map, lambda map: map.update({b"%d" % key: b"v" * 40 for key in range(100)})),
            (lambda: log, lambda log: log.cut(log.append(b"v" * 4000))),
            (lambda: value, lambda value: value.set(b"2")),
            (freed, lambda map: map.update({b"%d" % key: b"v" * 40 for key in range(100)})),
        ]
        threads = [threading.Thread(target=use, args=each, daemon=True) for each in uses]
        [thread.start() for thread in threads]
        for _ in range(5):
            freed()
            store.free("freed")
        closing = [threading.Thread(target=each.close) for each in (map, log, value)]
        [thread.start() for thread in closing]
        store.close()
        [thread.join(20) for thread in threads + closing]
        assert store.closed and told == []


def test_threads_that_open_an_object_at_once_have_the_same_one(store):
    for number in range(20):
        barrier, found = threading.Barrier(2), []

        def find():
            barrier.wait()
            found.append(store.map(f"map {number}"))

        threads = [threading.Thread(target=find) for _ in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(found) == 2 and found[0] is found[1]
        store.free(f"map {number}")


def test_an_object_that_one_thread_lets_go_of_another_one_opens(store):
    done = []

    def fill():
        for _ in range(300):
            store.map("map", log_bytes="16K")[b"k"] = b"v"
        done.append(True)

    threads = [threading.Thread(target=fill) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(done) == 3


def test_a_view_keeps_its_bundle_open_until_the_store_is_closed(store):
    view = store.bundle("it").map("m")
    with store.bundle("it").transaction() as t:
        t.map("m")[b"k"] = b"v"
        with pytest.raises(ValueError, match="end that first"):
            with store.bundle("it").transaction():
                pass
    assert view[b"k"] == b"v"
    with pytest.raises(ferrite.WrongTypeError, match="open as a Bundle"):
        store.map("it")
    store.close()
    with pytest.raises(ValueError, match="closed"):
        view[b"k"]


@pytest.mark.parametrize(
    "find",
    [
        lambda store: store.map("it"),
        lambda store: store.map("it").transaction(),
        lambda store: store.bundle("it").map("m"),
        lambda store: store.bundle("it").queue("q"),
        lambda store: store.bundle("it").transaction(),
    ],
    ids=["object", "transaction", "map view", "queue view", "bundle's transaction"],
)
def test_what_is_kept_of_a_store_keeps_the_store(tmp_path, find):
    kept = find(ferrite.open(tmp_path / "store", create="16M"))
    gc.collect()
    with ferrite.open(tmp_path / "store") as beside:
        assert beside.owner_pid == os.getpid()
    del kept
    with ferrite.open(tmp_path / "store") as store:
        assert store.owner_pid is None


def other(code, path, **more):
    """Starts another process that runs ``code`` on the store."""
    code = f"import ferrite, os, sys\nstore = ferrite.open({str(path)!r})\n{code}"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, **more)


def test_another_process_works_beside_the_owner(store):
    mine = store.map("mine")
    mine[b"k"] = b"v"
    code = """
theirs = store.map("theirs")
theirs.update({bytes([n]): bytes(40) for n in range(200)})
try:
    store.map("mine")
except ferrite.BusyError as error:
    print(store.owner_pid, error)
"""
    process = other(code, store.path)
    told = process.communicate()[0]
    assert process.returncode == 0
    assert re.match(rf"{os.getpid()} tag \"mine\" is in use by", told), told
    assert len(store.map("theirs")) == 200 and dict(mine) == {b"k": b"v"}


def test_a_process_without_descriptors_left_keeps_nothing_that_it_did_not_get(store):
    store.map("map")[b"k"] = b"v"
    store.map("map").close()
    code = """
import resource
full = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        full.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for left in range(10):
    try:
        store.map("map")
        print("it needs", left)
        break
    except ferrite.FerriteError as error:
        print(error)
    os.close(full.pop())
store.map("map")[b"k"] = b"w"
"""
    process = other(code, store.path)
    told = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert told[-1].startswith("it needs"), told
    assert len(told) > 2 and all("too many files open" in line for line in told[:2]), told
    assert dict(store.map("map")) == {b"k": b"w"}


@pytest.mark.parametrize("role", ["owner", "tenant"])
def test_a_killed_process_loses_nothing_that_it_was_told(tmp_path, role):
    path = tmp_path / "store"
    ferrite.create(path, "32M").close()
    owner = ferrite.open(path) if role == "tenant" else None
    code = """
map, log = store.map("map", log_bytes="16K"), store.log("log")
first = int(map.get(b"last", b"-1")) + 1
for number in range(first, first + 100000):
    with map.transaction() as t:
        t[b"%d" % number] = b"%d" % number
        t[b"last"] = b"%d" % number
    log.append(b"%d" % number)
    if len(log) == 1000:
        log.cut(log.end)
    print(number, flush=True)
"""
    for _ in range(8):
        process = other(code, path)
        told = [int(process.stdout.readline()) for _ in range(60)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().splitlines()]
        process.wait()
        with owner or ferrite.open(path) as store:
            map = dict(store.map("map"))
            last = int(map.pop(b"last"))
            assert told[-1] <= last <= told[-1] + 1
            assert map == {b"%d" % number: b"%d" % number for number in range(last + 1)}
            entries = [int(entry) for entry in store.log("log")]
            assert entries == sorted(set(entries)), "each once"
            assert not entries or {number for number in told if number >= entries[0]} <= set(entries)
        owner = ferrite.open(path) if role == "tenant" else None
    if owner:
        owner.close()


@pytest.mark.parametrize("another", [False, True], ids=["this process is next", "another process is next"])
def test_a_killed_owner_revokes_what_it_lent(tmp_path, another):
    path = tmp_path / "store"
    ferrite.create(path, "32M").close()
    serve = "print('open', flush=True)\nsys.stdin.read()"
    owner = other(serve, path, stdin=subprocess.PIPE)
    assert owner.stdout.readline() == "open\n"
    store = ferrite.open(path)
    assert store.owner_pid == owner.pid
    objects = [store.map("map"), store.log("log"), store.value("value", b"old"), store.queue("queue")]
    changes = [
        lambda map: map.update({b"k": b"v"}),
        lambda log: log.append(b"e"),
        lambda value: value.set(b"new"),
        lambda queue: queue.append(b"i"),
    ]
    for change, it in zip(changes, objects):
        change(it)
    owner.kill()
    owner.communicate()
    for change, it in zip(changes, objects):
        with pytest.raises(ferrite.RevokedError, match="has ended.*open the pool again"):
            change(it)
    asks = [store.tags, lambda: store.map("new"), lambda: store.free("map"), lambda: store.backup(tmp_path / "image")]
    for ask in asks:
        with pytest.raises(ferrite.RevokedError, match="has ended"):
            ask()
    if another:
        owner = other(serve, path, stdin=subprocess.PIPE)
        assert owner.stdout.readline() == "open\n"
    store.close()
    with ferrite.open(path) as store:
        assert (store.owner_pid == owner.pid) == another
        assert dict(store.map("map")) == {b"k": b"v"} and list(store.log("log")) == [b"e"]
        assert store.value("value", b"old").get() == b"new" and list(store.queue("queue")) == [b"i"]
        store.map("map")[b"k"] = b"w"
        if another:
            owner.communicate("")


def owner_with_a_child(path, before=""):
    """Starts another process that has the store open, with a child that lives until its input ends."""
    code = """
store.map("map")[b"k"] = b"v"
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("open", flush=True)
sys.stdin.read()
"""
    ferrite.create(path, "32M").close()
    owner = other(before + code, path, stdin=subprocess.PIPE)
    assert owner.stdout.readline() == "open\n"
    return owner


def is_locked(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_child_of_a_killed_owner_keeps_nobody_out(tmp_path):
    path = tmp_path / "store"
    owner = owner_with_a_child(path)
    tenant = ferrite.open(path)
    mine = tenant.map("mine")
    mine[b"k"] = b"v"
    assert is_locked(path)
    owner.kill()
    owner.wait()
    assert not is_locked(path)
    with pytest.raises(ferrite.RevokedError):
        mine[b"k"] = b"w"
    with pytest.raises(ferrite.FerriteError, match="ended"):
        tenant.tags()
    tenant.close()
    with ferrite.open(path) as store:
        assert store.owner_pid is None
        assert dict(store.map("map")) == dict(store.map("mine")) == {b"k": b"v"}
    owner.stdin.close()
    assert owner.stdout.read() == ""


def test_canary_a_child_that_has_its_parents_lock_is_caught(tmp_path):
    path = tmp_path / "store"
    owner = owner_with_a_child(path, before="""
for fd in map(int, os.listdir("/proc/self/fd")):
    if os.path.exists(f"/proc/self/fd/{fd}") and os.path.samefile(f"/proc/self/fd/{fd}", store.path):
        os.dup(fd)
""")
    owner.kill()
    owner.wait()
    assert is_locked(path)
    owner.stdin.close()
    assert owner.stdout.read() == ""
    assert not is_locked(path)


def test_a_forked_child_has_nothing_of_its_parents(store):
    map = store.map("map")
    map[b"k"] = b"v"
    pid = os.fork()
    if pid == 0:
        try:
            map[b"k"] = b"child"
        except ValueError:
            os._exit(0 if map.closed and store.closed else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    map[b"k"] = b"parent"
    with pytest.raises(ferrite.BusyError):
        ferrite.open(store.path).map("map")


def test_a_close_waits_for_what_another_thread_does(store, tmp_path):
    store.map("map")[b"k"] = b"v" * 1000
    stop = threading.Event()

    def list_tags():
        while not stop.is_set():
            try:
                store.tags()
            except ValueError:
                return

    threads = [threading.Thread(target=list_tags) for _ in range(3)]
    for thread in threads:
        thread.start()
    image = tmp_path / "image"
    store.finalize(backup=image)
    assert image.exists(), "a backup that was asked for is there"
    stop.set()
    for thread in threads:
        thread.join()
    with ferrite.open(store.path) as again:
        assert again.owner_pid is None and again.map("map")[b"k"] == b"v" * 1000


def test_stubs_tell_of_every_native_function():
    stub = (Path(ferrite.__file__).parent / "_ferrite.pyi").read_text()
    told, kind = {}, None
    for line in stub.splitlines():
        if match := re.match(r"class (\w+)", line):
            kind = match[1]
        elif match := re.match(r"(    )?def (\w+)", line):
            told.setdefault(kind if match[1] else None, set()).add(match[2])
    for kind in ["Store", "Value", "Map", "Batch", "Queue", "Bundle", "Change", "Transaction", "Log", "Region"]:
        native = {name for name in vars(getattr(_ferrite, kind)) if not name.startswith("__")}
        assert native == {name for name in told[kind] if not name.startswith("__")}, kind
    for name, found in vars(ferrite).items():
        if inspect.isclass(found) and found.__module__.startswith("ferrite"):
            assert found.__doc__, name
            members = vars(found).items()
            assert all(inspect.getdoc(it) for key, it in members if callable(it) and not key.startswith("_")), name


def test_a_full_store_says_so_and_goes_on(tmp_path):
    with ferrite.create(tmp_path / "store", "16M") as store:
        with pytest.raises(ferrite.FullError):
            store.log("large", log_bytes="1G")
        log = store.log("small", log_bytes="4K")
        with pytest.raises(ferrite.FullError, match="is full"):
            while True:
                log.append(b"x" * 100)
        log.cut(log.first + 5)
        log.append(b"x")
