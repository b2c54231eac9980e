"""Regions: what was persisted is there at the next opening, also after a kill, and nothing else is."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import ferrite
import pytest

COMMAND = os.environ.get("FERRITE_BIN") or pathlib.Path(sys.executable).parent / "ferrite"
SIZE = 8 << 20


@pytest.fixture
def pool():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "pool")
        ferrite.create(path, "32M").close()
        disk = os.path.join(folder, "disk")
        create = [COMMAND, "guest", "create", path, "g", "--size", "8M", "--pm", "2M", "--disk", disk]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        try:
            ferrite.Region(path, "g").close()
        except ferrite.FerriteError as error:
            if "userfaultfd" in str(error) or "Linux 6.4" in str(error):
                pytest.skip(str(error))
            raise
        yield path


def test_what_was_persisted_is_there_and_nothing_else(pool):
    with ferrite.Region(pool, "g") as region:
        assert len(region) == SIZE and region[:8] == bytes(8)
        region[4093:4099] = b"across"
        region[10_000:10_004] = b"lost"
        assert region[4093:4099] == b"across"
        region.persist(4093, 6)
        region.barrier()
        assert "'g'" in repr(region) and not region.closed
    assert region.closed
    region.close()
    with pytest.raises(ValueError):
        region[:1]
    with ferrite.Region(pool, "g") as region:
        assert region[4093:4099] == b"across" and region[10_000:10_004] == bytes(4)


def test_a_store_and_a_region_of_one_pool_are_open_together(pool):
    with ferrite.open(pool) as store, ferrite.Region(pool, "g") as region:
        store.map("names")[b"a"] = b"1"
        region[:1] = b"x"
        region.persist()
        region.barrier()
        with pytest.raises(ferrite.BusyError):
            ferrite.Region(pool, "g")
    with pytest.raises(ferrite.NotFoundError):
        ferrite.Region(pool, "other")


def test_ranges_and_locks_are_checked(pool):
    with ferrite.Region(pool, "g") as region:
        for wrong in (lambda: region.persist(SIZE, 1), lambda: region.persist(-1, 1), lambda: region.persist(0, -1)):
            with pytest.raises(ValueError):
                wrong()
        with pytest.raises(ValueError):
            region[:4] = b"12345"
        with pytest.raises(ValueError):
            region[::2]
        with pytest.raises(TypeError):
            region[3]
        with region.lock(0, 8):
            with pytest.raises(ferrite.FerriteError, match="unlock first"):
                region.barrier()
        region.barrier()


def test_a_barrier_copies_no_locked_bytes(pool):
    with ferrite.Region(pool, "g") as region:
        region.persist(0, 16)
        barrier = threading.Thread(target=region.barrier)
        with region.lock(8, 8):
            barrier.start()
            barrier.join(0.05)
            assert barrier.is_alive()
            region[:16] = b"x" * 16
        barrier.join()
    with ferrite.Region(pool, "g") as region:
        assert region[:16] == b"x" * 16


KILLED = """
import os, sys, ferrite
region = ferrite.Region(sys.argv[1], "g")
for number in range(1, 1001):
    at = number * 8000
    region[at:at + 8] = number.to_bytes(8, "little")
    region.persist(at, 8)
    region.barrier()
    region[0:8] = number.to_bytes(8, "little")
    region.persist(0, 8)
    region.barrier()
    print(number, flush=True)
"""


def test_a_kill_keeps_every_barrier(pool):
    program = subprocess.Popen([sys.executable, "-c", KILLED, pool], stdout=subprocess.PIPE, text=True)
    lines = [int(program.stdout.readline()) for _ in range(300)]
    program.kill()
    lines += [int(line) for line in program.stdout.read().split()]
    program.wait()
    with ferrite.Region(pool, "g") as region:
        count = int.from_bytes(region[:8], "little")
        assert count >= lines[-1]
        for number in range(1, count + 1):
            assert int.from_bytes(region[number * 8000:number * 8000 + 8], "little") == number


def test_a_child_of_fork_has_no_region(pool):
    with ferrite.Region(pool, "g") as region:
        child = os.fork()
        if child == 0:
            os._exit(0 if region.closed else 1)
        assert os.waitpid(child, 0)[1] == 0
        region[:1] = b"p"
        assert region[:1] == b"p"
