"""What a program may do with descriptors, on the folder that is named; each file is looked at from within and by
another process. What it prints does not depend on how the folder's files are reached."""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

folder = sys.argv[1]
often = 40


def path(name):
    return os.path.join(folder, name)


def other(name):
    """The file as a process sees it that knows of no library."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(["cat", path(name)], capture_output=True, check=True, env=plain).stdout


def check(name, wanted, what):
    within = open(path(name), "rb").read()
    without = other(name)
    assert within == wanted, (what, "within", len(within), len(wanted))
    assert without == wanted, (what, "without", len(without), len(wanted))
    assert os.stat(path(name)).st_size == len(wanted), (what, "size")


def fails(number, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == number, (call, arguments, error)
    else:
        raise AssertionError((call, arguments, "did not fail"))


def pattern(seed, length):
    return bytes((seed * 31 + i * 7) % 251 for i in range(length))


def reads_and_writes():
    fd = os.open(path("plain"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    wanted = bytearray()
    for i in range(often):
        piece = pattern(i, 100 + 37 * i)
        assert os.write(fd, piece) == len(piece)
        wanted += piece
        assert os.lseek(fd, 0, os.SEEK_CUR) == len(wanted)
    check("plain", wanted, "written in turn")
    for i in range(often):
        piece, at = pattern(i + 100, 500), i * 611
        assert os.pwrite(fd, piece, at) == 500
        wanted[at:at + 500] = piece
        assert os.pread(fd, 600, at) == wanted[at:at + 600], i
    check("plain", wanted, "overwritten")
    assert os.lseek(fd, 0, os.SEEK_SET) == 0
    got = b""
    while piece := os.read(fd, 1000):
        got += piece
    assert got == wanted
    assert os.read(fd, 10) == b"" and os.pread(fd, 10, len(wanted) + 5) == b""
    assert os.lseek(fd, -10, os.SEEK_END) == len(wanted) - 10
    assert os.read(fd, 100) == wanted[-10:]
    os.lseek(fd, 20, os.SEEK_SET)
    assert fcntl.ioctl(fd, termios.FIONREAD, b"    ") == (len(wanted) - 20).to_bytes(4, sys.byteorder)
    assert os.lseek(fd, 0, os.SEEK_DATA) == 0
    fails(22, os.lseek, fd, -1, os.SEEK_SET)
    fails(22, os.pread, fd, 10, -1)
    fails(6, os.lseek, fd, len(wanted) + 1, os.SEEK_DATA)
    os.fsync(fd)
    os.fdatasync(fd)
    os.close(fd)
    fails(9, os.read, fd, 1)
    return wanted


def vectors(wanted):
    fd = os.open(path("plain"), os.O_RDWR)
    for i in range(often):
        parts = [bytearray(100), bytearray(0), bytearray(333)]
        assert os.preadv(fd, parts, i * 50) == 433
        assert parts[0] + parts[2] == wanted[i * 50:i * 50 + 433]
        assert os.readv(fd, parts) == 433
        assert parts[0] + parts[2] == wanted[i * 433:(i + 1) * 433]
        assert os.pwritev(fd, [b"ab", b"", b"cde"], i * 50) == 5
        wanted[i * 50:i * 50 + 5] = b"abcde"
    os.lseek(fd, 7, os.SEEK_SET)
    for i in range(often):
        assert os.writev(fd, [b"0123", b"45"]) == 6
        wanted[7 + 6 * i:13 + 6 * i] = b"012345"
    check("plain", wanted, "vectors")
    os.close(fd)


def flags():
    fd = os.open(path("flags"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    wanted, at = bytearray(), 0
    for i in range(often):
        for flag in (os.RWF_DSYNC, os.RWF_SYNC):
            piece = b"%03d of %d\n" % (i, flag)
            assert os.pwritev(fd, [piece[:3], piece[3:]], -1, flag) == len(piece)
            wanted[at:at + len(piece)] = piece
            at += len(piece)
            assert os.pwritev(fd, [b"at", b" ", b"place"], 3 * i, flag) == 8
            wanted[3 * i:3 * i + 8] = b"at place"
            assert os.lseek(fd, 0, os.SEEK_CUR) == at
        assert os.pwritev(fd, [b"appended"], 5, os.RWF_APPEND) == 8
        wanted += b"appended"
        assert os.lseek(fd, 0, os.SEEK_CUR) == at
        if i % 8 == 7:
            assert os.pwritev(fd, [b"app", b"ended"], -1, os.RWF_APPEND) == 8
            wanted += b"appended"
            at = len(wanted)
            assert os.lseek(fd, 0, os.SEEK_CUR) == at
    check("flags", wanted, "written by flags")
    os.lseek(fd, 0, os.SEEK_SET)
    for i in range(often):
        room = [bytearray(5), bytearray(6)]
        assert os.preadv(fd, room, -1, os.RWF_SYNC) == 11 and room[0] + room[1] == wanted[11 * i:11 * i + 11]
        assert os.preadv(fd, room, i, os.RWF_DSYNC) == 11 and room[0] + room[1] == wanted[i:i + 11]
    fails(22, os.preadv, fd, [bytearray(1)], -2, os.RWF_SYNC)
    fails(95, os.pwritev, fd, [b"x"], -1, 1 << 30)
    assert os.lseek(fd, 0, os.SEEK_CUR) == 11 * often
    os.close(fd)


def threads_share_an_offset_by_flags():
    fd = os.open(path("shared"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    ways = (lambda record: os.write(fd, record), lambda record: os.pwritev(fd, [record], -1, os.RWF_DSYNC),
            lambda record: os.pwritev(fd, [record[:3], record[3:]], -1, os.RWF_SYNC))
    records = [b"%d%04d\n" % (way, i) for way in range(3) for i in range(1000)]
    crew = [threading.Thread(target=lambda way: [ways[way](record) for record in records[way * 1000:way * 1000 + 1000]],
                             args=(way,)) for way in range(3)]
    [thread.start() for thread in crew]
    [thread.join() for thread in crew]
    assert sorted(other("shared").splitlines(True)) == records
    os.close(fd)


def threads_share_an_offset():
    """A call with several buffers is one, whatever other threads do by the same descriptor."""
    for parts in (3, 70):
        fd = os.open(path("shared"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        records = [[b"%c%03d%02d;" % (name, i, k) for k in range(parts)] for name in b"abc" for i in range(300)]
        wanted = sorted(b"".join(record) for record in records)
        length = 7 * parts

        def write(mine):
            for record in mine:
                assert os.writev(fd, record) == length

        def read(found):
            while True:
                room = [bytearray(7) for _ in range(parts)]
                if not (got := os.readv(fd, room)):
                    return
                assert got == length, got
                found.append(b"".join(room))

        found = []
        for work, shares in ((write, [records[at::3] for at in range(3)]), (read, [found] * 3)):
            os.lseek(fd, 0, os.SEEK_SET)
            crew = [threading.Thread(target=work, args=(share,)) for share in shares]
            [thread.start() for thread in crew]
            [thread.join() for thread in crew]
        content = other("shared")
        assert sorted(content[at:at + length] for at in range(0, len(content), length)) == wanted, parts
        assert sorted(found) == wanted, (parts, len(found))
        os.close(fd)


def rights():
    reader = os.open(path("plain"), os.O_RDONLY)
    writer = os.open(path("plain"), os.O_WRONLY)
    for _ in range(often):
        fails(9, os.write, reader, b"x")
        fails(9, os.pwrite, reader, b"x", 0)
        fails(9, os.read, writer, 1)
        fails(9, os.pread, writer, 1, 0)
        fails(9, os.readv, writer, [bytearray(0), bytearray(0)])
        fails(9, os.writev, reader, [b"", b""])
        assert len(os.pread(reader, 100, 0)) == 100
    os.close(reader)
    os.close(writer)


def copies_share_an_offset(wanted):
    one = os.open(path("plain"), os.O_RDONLY)
    two, three = os.dup(one), fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 100)
    four = os.open(path("plain"), os.O_RDONLY)
    os.dup2(one, four)
    at = 0
    for i in range(often):
        for fd in (one, two, three, four):
            assert os.read(fd, 13) == wanted[at:at + 13], (i, fd)
            at += 13
    os.close(one)
    assert os.read(two, 10) == wanted[at:at + 10]
    assert os.lseek(four, 0, os.SEEK_CUR) == at + 10
    os.closerange(two, two + 1)
    fails(9, os.read, two, 1)
    for fd in (three, four):
        os.close(fd)


def children_share_an_offset(wanted):
    fd = os.open(path("plain"), os.O_RDONLY)
    for i in range(often):
        assert os.read(fd, 10) == wanted[10 * i:10 * i + 10]
    at = 10 * often
    child = os.fork()
    if child == 0:
        good = os.read(fd, 10) == wanted[at:at + 10] and os.pread(fd, 20, 5) == wanted[5:25]
        own = os.open(path("plain"), os.O_RDONLY)
        good = good and all(os.read(own, 30) == wanted[30 * i:30 * i + 30] for i in range(often))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(fd, 10) == wanted[at + 10:at + 20]
    assert os.pread(fd, 10, 3) == wanted[3:13]
    os.set_inheritable(fd, True)
    os.lseek(fd, 50, os.SEEK_SET)
    told = subprocess.run(["head", "-c", "10"], stdin=fd, capture_output=True, check=True).stdout
    assert told == wanted[50:60], told
    assert os.lseek(fd, 0, os.SEEK_CUR) >= 60
    os.close(fd)


def another_program_finds_the_offset(wanted):
    script = f"import os; fd = os.open({path('plain')!r}, 0); os.set_inheritable(fd, True)\n" \
        f"for i in range({often}): os.read(fd, 10)\n" \
        "os.execvp('python3', ['python3', '-c', f'import os; os.write(1, os.read({fd}, 10))'])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert told == wanted[10 * often:10 * often + 10], told


def appends():
    one = os.open(path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o644)
    wanted = b""
    for i in range(often):
        os.write(one, b"%04d\n" % i)
        wanted += b"%04d\n" % i
        assert os.lseek(one, 0, os.SEEK_CUR) == len(wanted)
    assert os.pwrite(one, b"end", 0) == 3, "appends, wherever it is told to"
    wanted += b"end"
    for i in range(often):
        assert os.writev(one, [b"parts", b"", b"%03d" % i, b"\n"]) == 9
        assert os.pwritev(one, [b"of ", b"one"], 3) == 6
        wanted += b"parts%03d\nof one" % i
    long = [pattern(1, 10000), pattern(2, 20000)]
    assert os.writev(one, long) == 30000
    wanted += b"".join(long)
    assert os.lseek(one, 0, os.SEEK_CUR) == len(wanted)
    check("log", wanted, "appended")
    fcntl.fcntl(one, fcntl.F_SETFL, 0)
    os.lseek(one, 0, os.SEEK_SET)
    for i in range(often):
        os.write(one, b"x")
    wanted = b"x" * often + wanted[often:]
    check("log", wanted, "does not append any more")
    os.close(one)


def appenders_do_not_overwrite_each_other():
    open(path("both"), "w").close()
    children = []
    for name in b"ab":
        child = os.fork()
        if child == 0:
            fd = os.open(path("both"), os.O_WRONLY | os.O_APPEND)
            for i in range(500):
                os.writev(fd, [b"%c" % name, b"%03d" % i, b"\n"]) if i % 2 else os.write(fd, b"%c%03d\n" % (name, i))
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    lines = other("both").split()
    assert len(lines) == 1000 and len(set(lines)) == 1000, len(lines)
    assert [line for line in lines if line[0] == ord("a")] == [b"a%03d" % i for i in range(500)]


def mappings_see_writes():
    fd = os.open(path("mapped"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for i in range(often):
        os.write(fd, b"0" * 4096)
    view = mmap.mmap(fd, 4096 * often)
    for i in range(often):
        os.pwrite(fd, b"w%03d" % i, i * 4096)
        assert view[i * 4096:i * 4096 + 4] == b"w%03d" % i
        view[i * 4096 + 8:i * 4096 + 12] = b"m%03d" % i
        assert os.pread(fd, 4, i * 4096 + 8) == b"m%03d" % i
    view.flush()
    seen = other("mapped")
    assert all(seen[i * 4096:i * 4096 + 12] == b"w%03d0000m%03d" % (i, i) for i in range(often))
    view.close()
    os.close(fd)


def children_have_mappings():
    fd = os.open(path("mapped"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(fd, 4096)
    view = mmap.mmap(fd, 4096)
    view[0] = 1
    child = os.fork()
    if child == 0:
        own = os.open(path("mapped"), os.O_RDWR)
        good = True
        for i in range(often):
            view[1] = i
            good = good and os.pread(own, 1, 1) == bytes([i])
            os.pwrite(own, bytes([i]), 2)
            good = good and view[2] == i
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    view.close()
    os.close(fd)


def children_append():
    """By a descriptor whose offset is the kernel's already, behind what was written by others meanwhile."""
    one = os.open(path("log"), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o644)
    two = os.open(path("log"), os.O_WRONLY | os.O_APPEND)
    size = 0
    for i in range(often):
        for _ in range(often):
            size += os.write(two, b"01234") + os.pwrite(two, b"56789", 3)
        child = os.fork()
        if child == 0:
            os._exit(0 if os.write(one, b"child") == 5 else 1)
        size += 5
        assert os.waitpid(child, 0)[1] == 0
        assert os.lseek(one, 0, os.SEEK_CUR) == size, i
    os.close(one)
    os.close(two)


def children_append_by_a_flag():
    """By a descriptor that they inherited, while their parent writes on by another."""
    fd = os.open(path("log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(0 if os.pwritev(fd, [b"child"], -1, os.RWF_APPEND) == 5 else 1)
    own = os.open(path("log"), os.O_RDWR)
    for _ in range(often):
        os.write(own, b"parent")
    os.write(go, b"!")
    assert os.waitpid(child, 0)[1] == 0
    check("log", b"parent" * often + b"child", "appended by a child")
    [os.close(end) for end in (ready, go, own, fd)]


def neither_read_nor_written():
    """Linux's fourth access mode is for ioctl alone."""
    fd = os.open(path("neither"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    assert os.write(fd, b"content") == 7
    os.close(fd)
    fd = os.open(path("neither"), os.O_ACCMODE)
    for _ in range(often):
        fails(9, os.pread, fd, 3, 0)
        fails(9, os.pwrite, fd, b"x", 0)
    fails(22, os.ftruncate, fd, 0)
    os.close(fd)
    check("neither", b"content", "by who may not")


def appends_no_further_than_the_last_byte():
    """The offset of pwrite is looked at although nothing goes there."""
    fd = os.open(path("far"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    for _ in range(often):
        assert os.pwrite(fd, b"near", 1 << 40) == 4
        fails(22, os.pwrite, fd, b"far", (1 << 63) - 2)
    os.close(fd)
    check("far", b"near" * often, "appended")


def children_are_made_while_threads_open_files():
    ended = threading.Event()

    def work(number):
        while not ended.is_set():
            os.close(os.open(path("opened%d" % number), os.O_RDWR | os.O_CREAT, 0o644))

    crew = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in crew]
    for i in range(10 * often):
        child = os.fork()
        if child == 0:
            os._exit(0)
        until = time.monotonic() + 20
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            assert time.monotonic() < until or os.kill(child, 9) or ended.set(), ("a child hangs", i)
            time.sleep(0.0001)
    ended.set()
    [thread.join() for thread in crew]


def mapped(fd, size, flags):
    view = libc.mmap(None, size, mmap.PROT_READ, flags, fd, 0)
    return len(ctypes.string_at(view, size).strip(b"\0"))


def children_know_the_size():
    """Of a file that they inherited and their parent writes on, by calls that do not ask for it."""
    size, most = often * 100, 1 << 15
    ways = (
        lambda fd, to: os.sendfile(to, fd, 0, most),
        lambda fd, to: os.copy_file_range(fd, to, most, 0),
        lambda fd, to: os.splice(fd, os.pipe()[1], most, offset_src=0),
        lambda fd, to: struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"    "))[0],
        lambda fd, to: mapped(fd, size, mmap.MAP_PRIVATE),
        lambda fd, to: mapped(fd, size, mmap.MAP_SHARED),
    )
    for number, way in enumerate(ways):
        fd = os.open(path("grown"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            to = os.open(path("news"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            os.read(ready, 1)
            os._exit(0 if way(fd, to) == size else 1)
        own = os.open(path("grown"), os.O_RDWR)
        for _ in range(often):
            os.write(own, b"g" * 100)
        os.write(go, b"!")
        assert os.waitpid(child, 0)[1] == 0, number
        [os.close(end) for end in (ready, go, own, fd)]


def children_set_flags():
    for first, then, length in ((0, os.O_APPEND, 460), (os.O_APPEND, 0, 400)):
        fd = os.open(path("flagged"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | first)
        for i in range(often):
            os.write(fd, b"x" * 10)
        by_a_child(lambda: fcntl.fcntl(fd, fcntl.F_SETFL, then))
        for i in range(20):
            assert os.pwrite(fd, b"y", 3) == 1 and os.pwritev(fd, [b"z", b"z"], 5) == 2
        assert os.fstat(fd).st_size == length == len(other("flagged"))
        os.close(fd)


def appends_by_standard_input():
    end = os.open(path("behind"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    beside, kept = os.open(path("behind"), os.O_WRONLY), os.dup(0)
    os.dup2(end, 0)
    for i in range(often):
        os.lseek(beside, 0, os.SEEK_END)
        os.write(beside, b"x" * 100)
        os.write(0, b"y" * 10)
        assert os.lseek(0, 0, os.SEEK_CUR) == 110 * (i + 1), (i, os.lseek(0, 0, os.SEEK_CUR))
    os.dup2(kept, 0)
    [os.close(fd) for fd in (end, beside, kept)]
    check("behind", (b"x" * 100 + b"y" * 10) * often, "behind what another descriptor appended")


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint), ("parts", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_len", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]


def messages_hand_descriptors_on(wanted):
    here, there = socket.socketpair()
    byte, part = ctypes.create_string_buffer(b"m", 1), ctypes.create_string_buffer(16)
    part.raw = struct.pack("PN", ctypes.addressof(byte), 1)
    for many in (False, True):
        fd = os.open(path("plain"), os.O_RDONLY)
        for i in range(often):
            assert os.read(fd, 10) == wanted[10 * i:10 * i + 10]
        rights = struct.pack("Nii", 20, socket.SOL_SOCKET, socket.SCM_RIGHTS) + struct.pack("ii", fd, 0)
        control = ctypes.create_string_buffer(rights, 24)
        message = Message(None, 0, ctypes.addressof(part), 1, ctypes.addressof(control), 24)
        sent = libc.sendmmsg(here.fileno(), ctypes.byref(message), 1, 0) if many else \
            libc.sendmsg(here.fileno(), ctypes.byref(message), 0)
        assert sent == 1, ctypes.get_errno()
        _, [got], _, _ = socket.recv_fds(there, 1, 1)
        assert os.read(got, 10) == wanted[10 * often:10 * often + 10], many
        assert os.read(fd, 10) == wanted[10 * often + 10:10 * often + 20], many
        os.close(fd)
        os.close(got)
    here.close()
    there.close()


def the_kernel_knows_the_size():
    """Right after a write, by calls that tell nobody a size; none of them asks for it by itself."""
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    to = os.open(path("news"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for shared in (None, mmap.MAP_PRIVATE, mmap.MAP_SHARED):
        fd = os.open(path("size"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        for i in range(often):
            os.write(fd, pattern(i, 4096))
            last = pattern(i, 4096)[-100:]
            if shared is None:
                assert fcntl.ioctl(fd, termios.FIONREAD, b"    ") == b"\0\0\0\0"
                assert os.sendfile(to, fd, (i + 1) * 4096 - 100, 200) == 100, i
                assert os.pread(to, 100, i * 100) == last
                continue
            view = libc.mmap(None, (i + 1) * 4096, mmap.PROT_READ, shared, fd, 0)
            assert ctypes.string_at(view + (i + 1) * 4096 - 100, 100) == last
            libc.munmap(view, (i + 1) * 4096)
        os.close(fd)
    os.close(to)
    fd = os.open(path("size"), os.O_RDWR | os.O_APPEND | os.O_TRUNC)
    for i in range(often):
        os.write(fd, b"0123456789")
        if i % 10 == 5:
            other("size")
        assert os.lseek(fd, 0, os.SEEK_CUR) == 10 * (i + 1), i
    os.close(fd)


def truncation_by_others():
    fd = os.open(path("cut"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for i in range(often):
        os.write(fd, b"c" * 1000)
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(["truncate", "-s", "1500", path("cut")], check=True, env=plain)
    assert os.pread(fd, 4000, 0) == b"c" * 1500
    assert os.pread(fd, 10, 2000) == b""
    os.ftruncate(fd, 3000)
    assert os.pread(fd, 4000, 0) == b"c" * 1500 + b"\0" * 1500
    os.lseek(fd, 4000, os.SEEK_SET)
    for i in range(often):
        os.write(fd, b"d" * 10)
    check("cut", b"c" * 1500 + b"\0" * 2500 + b"d" * 10 * often, "behind a hole")
    os.close(fd)


def names_come_and_go():
    fd = os.open(path("gone"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for i in range(often):
        os.write(fd, b"g" * 100)
    os.rename(path("gone"), path("moved"))
    for i in range(often):
        os.pwrite(fd, b"h", i * 100)
    check("moved", (b"h" + b"g" * 99) * often, "renamed")
    os.unlink(path("moved"))
    for i in range(often):
        os.pwrite(fd, b"i", i * 100)
        assert os.pread(fd, 2, i * 100) == b"ig"
    assert os.fstat(fd).st_nlink == 0
    os.close(fd)


def others_read_after_each_write():
    fd = os.open(path("seen"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for i in range(often):
        os.write(fd, b"s%03d" % i)
    for i in range(often):
        os.pwrite(fd, b"t%03d" % i, i * 4)
        if i % 8 == 0:
            assert other("seen")[:i * 4 + 4] == b"".join(b"t%03d" % j for j in range(i + 1)), i
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for i in range(4):
        subprocess.run(["dd", "of=" + path("seen"), "bs=4", "seek=%d" % i, "conv=notrunc", "status=none"],
                       input=b"from", check=True, env=plain)
        assert os.pread(fd, 4, i * 4) == b"from", i
    os.close(fd)


def streams():
    fd = os.open(path("stream"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    for i in range(often):
        os.write(fd, b"fd\n")
    with open(path("stream"), "ab") as stream:
        for i in range(often):
            stream.write(b"py\n")
            stream.flush()
    assert os.lseek(fd, 0, os.SEEK_END) == 6 * often
    os.close(fd)
    script = f"exec 3<>{path('stream')}; read a <&3; echo over >&3; cat <&3 | wc -l; echo x >> {path('stream')}; tail -1 {path('stream')}"
    told = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.split()
    assert told[-1] == b"x", told


def same(fd, name):
    within, without = os.fstat(fd), os.stat(path(name))
    fields = [field for field in dir(within) if field.startswith("st_")]
    differ = [(field, getattr(within, field), getattr(without, field)) for field in fields
              if getattr(within, field) != getattr(without, field)]
    assert not differ and os.fstat(fd) == within, differ


def what_is_told_of_a_file():
    fd = os.open(path("told"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
    wanted = b""
    for i in range(often):
        os.write(fd, b"t%03d" % i)
        wanted += b"t%03d" % i
        same(fd, "told")
    for i in range(often):
        os.pwrite(fd, b"u", i * 4)
        assert os.pread(fd, 1, i * 4) == b"u"
        same(fd, "told")
    wanted = wanted.replace(b"t", b"u")
    other("told")
    same(fd, "told")
    reader = os.open(path("told"), os.O_RDONLY)
    for change in (lambda: os.chmod(path("told"), 0o604), lambda: os.link(path("told"), path("also")),
                   lambda: os.utime(path("told"), ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321)),
                   lambda: os.utime(path("told"), (-5, -7)), lambda: os.unlink(path("also")),
                   lambda: os.write(fd, b"more"), lambda: os.setxattr(fd, "user.a", b"b" * 3000)):
        change()
        same(fd, "told")
        same(reader, "told")
    child = os.fork()
    if child == 0:
        same(fd, "told")
        os.utime(path("told"), (1, 2))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    same(fd, "told")
    check("told", wanted + b"more", "told of")
    os.close(fd)
    fails(9, os.fstat, fd)
    os.close(reader)


def times_of_reads_and_writes():
    with open(path("timed"), "wb") as file:
        file.write(b"t" * 100000)
    os.utime(path("timed"), (1000000000, 1500000000))
    fd = os.open(path("timed"), os.O_RDONLY | os.O_NOATIME)
    for i in range(often):
        assert os.pread(fd, 100, i * 100) == b"t" * 100
    assert os.stat(path("timed")).st_atime == os.fstat(fd).st_atime == 1000000000, "not to be noted"
    os.close(fd)
    fd = os.open(path("timed"), os.O_RDWR)
    for i in range(often):
        assert os.pwrite(fd, b"T", os.stat(fd).st_size - 1 - i) == 1
    os.utime(fd, (4000000000, 4000000000))
    for i in range(often):
        assert os.pwrite(fd, b"u", i) == 1
    assert abs(os.fstat(fd).st_mtime - time.time()) < 10, "a write is of the moment, whatever was set before"
    time.sleep(1)
    assert abs(os.stat(path("timed")).st_mtime - time.time()) < 10
    os.close(fd)


def where_a_file_ends():
    fd = os.open(path("end"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    reader = os.open(path("end"), os.O_RDONLY)
    wanted = b""
    for i in range(often):
        os.write(fd, b"e" * 1000)
        wanted += b"e" * 1000
    for i in range(often):
        size = (i * 7919) % 50000
        os.ftruncate(fd, size)
        wanted = wanted[:size] + b"\0" * (size - len(wanted))
        assert os.lseek(fd, 0, os.SEEK_END) == size
        same(fd, "end")
        os.write(fd, b"f%03d" % i)
        wanted += b"f%03d" % i
        assert os.pread(reader, 100000, 0) == wanted
        if i % 8 == 0:
            check("end", wanted, "cut or grown")
            with open(path("end"), "rb") as stream:
                view = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
                assert view[:] == wanted
                view.close()
    fails(22, os.ftruncate, reader, 5)
    fails(22, os.ftruncate, fd, -1)
    check("end", wanted, "at last")
    for one in (fd, reader):
        os.close(one)


def threads_write_places_of_their_own():
    fd = os.open(path("threads"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.ftruncate(fd, 4 * 1000 * 64)

    def work(number):
        for i in range(1000):
            at = (number * 1000 + i) * 64
            os.pwrite(fd, pattern(number + i, 64), at)
            assert os.pread(fd, 64, at) == pattern(number + i, 64)

    crew = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    [thread.start() for thread in crew]
    [thread.join() for thread in crew]
    check("threads", b"".join(pattern(n + i, 64) for n in range(4) for i in range(1000)), "threads")
    os.close(fd)


def a_number_is_given_out_again(wanted):
    for i in range(often):
        fd = os.open(path("plain"), os.O_RDONLY)
        assert os.read(fd, 5) == wanted[:5]
        os.close(fd)
        gives_out_again(fd)


def gives_out_again(fd):
    """The number of `fd`, which was closed, stands for something else now."""
    pipe = os.pipe()
    assert fd in pipe, (fd, pipe)
    os.write(pipe[1], b"pipe")
    assert os.read(pipe[0], 10) == b"pipe"
    [os.close(end) for end in pipe]


def numbers_are_the_lowest():
    """What the library has open itself is out of the way."""
    first = os.open(os.devnull, os.O_RDONLY)
    os.close(first)
    fd = os.open(path("plain"), os.O_RDONLY)
    for i in range(often):
        os.pread(fd, 10, i)
    assert [fd, os.open(os.devnull, os.O_RDONLY), os.dup(fd)] == [first, first + 1, first + 2]
    fails(22, os.pread, fd, 100, (1 << 63) - 50)
    assert os.lseek(fd, 33, os.SEEK_SET) == 33
    assert libc.close_range(fd, fd, 0x80) == -1 and ctypes.get_errno() == 22
    assert os.lseek(fd, 0, os.SEEK_CUR) == 33, "a call that is refused changes nothing"
    os.closerange(first, first + 3)


def streams_of_the_c_library(wanted):
    libc.fdopen.restype = ctypes.c_void_p
    room = ctypes.create_string_buffer(100)
    for i in range(often):
        fd = os.open(path("plain"), os.O_RDONLY)
        assert os.read(fd, 5) == wanted[:5]
        stream = ctypes.c_void_p(libc.fdopen(fd, b"r"))
        assert libc.fread(room, 1, 10, stream) == 10 and room.raw[:10] == wanted[5:15]
        libc.fclose(stream)
        gives_out_again(fd)
    fd = os.open(path("printed"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    wanted = b""
    for i in range(often):
        os.write(fd, b"written\n")
        wanted += b"written\n"
    for i in range(often):
        assert libc.dprintf(fd, b"%d %s %.1f\n", i, b"text", ctypes.c_double(i)) > 0
        os.write(fd, b"w\n")
        wanted += b"%d text %.1f\nw\n" % (i, i)
    check("printed", wanted, "printed")
    os.close(fd)


def by_a_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{work.__name__}: {error!r}, line {error.__traceback__.tb_next.tb_lineno}\n".encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def standard_output():
    """What is written by its number, by the C library's stream, by a child and after all that is there in this order."""
    fd = os.open(path("standard"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, b"first\n")
    os.dup2(fd, 1)
    written = b"first\n"
    for i in range(often):
        os.write(1, b"written %d\n" % i)
        libc.printf(b"printed %d\n", i)
        libc.fflush(None)
        os.writev(1, [b"in ", b"parts\n"])
        os.write(fd, b"by the other\n")
        written += b"written %d\nprinted %d\nin parts\nby the other\n" % (i, i)
        assert os.lseek(1, 0, os.SEEK_CUR) == len(written)
    assert os.fstat(1).st_size == len(written)
    check("standard", written, "before a child")
    for i in range(3):
        if (child := os.fork()) == 0:
            os.write(1, b"child %d\n" % i)
            os._exit(0)
        os.waitpid(child, 0)
        os.write(1, b"parent %d\n" % i)
        written += b"child %d\nparent %d\n" % (i, i)
    check("standard", written, "with children")


def standard_output_appends():
    fd = os.open(path("standard"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(fd, 1)
    os.close(fd)
    for i in range(often):
        os.write(1, b"first\n")
    fcntl.fcntl(1, fcntl.F_SETFL, os.O_APPEND)
    written = b"first\n" * often
    for i in range(often):
        os.lseek(1, 0, os.SEEK_SET)
        os.write(1, b"w\n")
        os.pwrite(1, b"p\n", 0)
        libc.printf(b"printed\n")
        libc.fflush(None)
        written += b"w\np\nprinted\n"
        assert os.lseek(1, 0, os.SEEK_CUR) == len(written)
    check("standard", written, "appended")


def standard_output_is_closed():
    """By the stream; the number is another file's then."""
    for i in range(often):
        fd = os.open(path("standard"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(fd, 1)
        os.close(fd)
        for k in range(often):
            os.write(1, b"a")
        if i:
            assert os.close(1) is None
        else:
            assert libc.fclose(ctypes.c_void_p.in_dll(libc, "stdout")) == 0
        assert os.open(path("after"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) == 1
        for k in range(often):
            os.write(1, b"b")
        os.close(1)
        assert other("standard") == b"a" * often and other("after") == b"b" * often
        os.open("/dev/null", os.O_WRONLY)


def standard_input(wanted):
    fd = os.open(path("plain"), os.O_RDONLY)
    os.dup2(fd, 0)
    os.close(fd)
    for i in range(often):
        assert os.read(0, 10) == wanted[10 * i:10 * i + 10]
        assert os.lseek(0, 0, os.SEEK_CUR) == 10 * i + 10
    assert bytes([libc.getchar()]) == wanted[10 * often:10 * often + 1]
    os.lseek(0, -5, os.SEEK_END)
    assert os.read(0, 100) == wanted[-5:] and os.read(0, 100) == b""
    assert os.lseek(0, 0, os.SEEK_CUR) == len(wanted)
    fails(9, os.write, 0, b"x")
    assert os.lseek(0, 0, os.SEEK_CUR) == len(wanted)


def calls_by_number(wanted):
    read, close, dup = 0, 3, 32
    room = ctypes.create_string_buffer(100)
    for i in range(often):
        fd = os.open(path("plain"), os.O_RDONLY)
        for at in range(0, 100, 10):
            assert libc.syscall(read, fd, room, 10) == 10 and room.raw[:10] == wanted[at:at + 10]
        copy = libc.syscall(dup, fd)
        assert os.read(copy, 10) == wanted[100:110]
        assert libc.syscall(close, copy) == 0
        gives_out_again(copy)
        libc.close_range(fd, fd, 0)
        gives_out_again(fd)
        fails(9, os.pread, fd, 1, 0)


def the_kernel_moves_the_offset(wanted):
    fd = os.open(path("plain"), os.O_RDONLY)
    to = os.open(path("copied"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    at = 0
    for i in range(often):
        assert os.read(fd, 10) == wanted[at:at + 10]
        assert os.write(to, b"0123456789") == 10
        assert os.sendfile(to, fd, None, 7) == 7
        assert os.copy_file_range(fd, to, 5) == 5
        assert os.lseek(to, 0, os.SEEK_CUR) == 22 * (i + 1)
        at += 22
    check("copied", b"".join(b"0123456789" + wanted[i + 10:i + 22] for i in range(0, at, 22)), "copied")
    given = os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=[
        (os.POSIX_SPAWN_DUP2, fd, 0), (os.POSIX_SPAWN_OPEN, 1, path("rest"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)])
    assert os.waitpid(given, 0)[1] == 0
    assert os.read(fd, 10) == b"", "the other has read to the end"
    check("rest", wanted[at:], "the rest")
    os.close(fd)
    os.close(to)


def buffers_that_are_none():
    fd = os.open(path("plain"), os.O_RDWR)
    room = ctypes.create_string_buffer(8)
    for i in range(often):
        assert os.pread(fd, 8, 0) == os.pread(fd, 8, 0)
        for at in (0, 8, 1 << 47, (1 << 64) - 1, (1 << 64) - 4096):
            for call in (libc.read, libc.write, libc.pread, libc.pwrite):
                assert call(fd, ctypes.c_void_p(at), ctypes.c_size_t(8), ctypes.c_long(0)) == -1, (call, at)
                assert ctypes.get_errno() == 14, (call, at)
            assert libc.readv(fd, ctypes.c_void_p(at), 1) == -1 and ctypes.get_errno() == 14
            assert libc.fstat(fd, ctypes.c_void_p(at)) == -1 and ctypes.get_errno() == 14
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0
    assert libc.read(fd, room, 8) == 8
    os.close(fd)


def files_without_names():
    fails(95, os.open, folder, os.O_RDWR | os.O_TMPFILE, 0o600)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for i in range(often):
            assert file.write(b"n%03d" % i) == 4
        assert os.fstat(file.fileno()).st_nlink == 0
        assert os.pread(file.fileno(), 1000, 0) == b"".join(b"n%03d" % i for i in range(often))


def limits():
    import resource
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        shrunk = os.open(path("shrunk"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        for i in range(often):
            os.pwrite(shrunk, b"s" * 100, i * 100)
        fd = os.open(path("limited"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        resource.setrlimit(resource.RLIMIT_FSIZE, (often * 10, often * 10))
        for i in range(often):
            os.write(fd, b"l" * 10)
        fails(27, os.write, fd, b"too much")
        told = []
        signal.signal(signal.SIGXFSZ, lambda *_: told.append("a signal"))
        for sizes in ((100,), (60, 40), (60, 50)):
            parts, wanted = [b"l" * size for size in sizes] + [b"beyond"], 100
            assert os.pwritev(fd, parts, often * 10 - 100) == wanted, sizes
            os.lseek(fd, -100, os.SEEK_END)
            assert os.writev(fd, parts) == wanted and os.lseek(fd, 0, os.SEEK_CUR) == often * 10, sizes
        assert not told
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        assert os.pwrite(fd, b"12345", often * 10 - 3) == 3
        assert libc.fallocate(shrunk, 0, ctypes.c_long(0), ctypes.c_long(often * 99)) == 0
        os.ftruncate(shrunk, often * 100 - 10)
        fails(27, os.ftruncate, shrunk, often * 100 + 10)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    check("limited", b"l" * (often * 10 - 3) + b"123", "limited")
    check("shrunk", b"s" * (often * 100 - 10), "shrunk")


def space_ends():
    """Amid the parts of a write; what a removed file had is there for the next one at once."""
    parts, sums = [b"a" * 100, b"b" * (3 << 20)], []
    for i in range(3):
        fd = os.open(path("full"), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        sums.append(0)
        try:
            while done := os.writev(fd, parts):
                sums[i] += done
        except OSError as error:
            assert error.errno == 28, error
        assert os.fstat(fd).st_size == os.lseek(fd, 0, os.SEEK_CUR) == sums[i], sums
        os.close(fd)
        os.unlink(path("full"))
    assert max(sums) - min(sums) < 16 << 20, sums


libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
wanted = reads_and_writes()
vectors(wanted)
flags()
threads_share_an_offset_by_flags()
threads_share_an_offset()
rights()
copies_share_an_offset(wanted)
children_share_an_offset(wanted)
another_program_finds_the_offset(wanted)
appends()
appenders_do_not_overwrite_each_other()
children_append()
children_append_by_a_flag()
children_know_the_size()
neither_read_nor_written()
appends_no_further_than_the_last_byte()
children_set_flags()
appends_by_standard_input()
mappings_see_writes()
children_have_mappings()
children_are_made_while_threads_open_files()
messages_hand_descriptors_on(wanted)
the_kernel_knows_the_size()
truncation_by_others()
names_come_and_go()
others_read_after_each_write()
streams()
what_is_told_of_a_file()
times_of_reads_and_writes()
where_a_file_ends()
threads_write_places_of_their_own()
a_number_is_given_out_again(wanted)
by_a_child(numbers_are_the_lowest)
streams_of_the_c_library(wanted)
by_a_child(standard_output)
by_a_child(standard_output_appends)
by_a_child(standard_output_is_closed)
by_a_child(lambda: standard_input(wanted))
calls_by_number(wanted)
the_kernel_moves_the_offset(wanted)
buffers_that_are_none()
files_without_names()
limits()
space_ends()
print("all is as it should be")
