"""Calls by chance, of two processes in turns, on the folder that is named. What they print is the same wherever that is."""

import errno
import fcntl
import mmap
import os
import random
import sys
import zlib

folder, seed, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
slots = [-1] * 8
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
me = 1 if child == 0 else 0
chance = random.Random(seed * 2 + me)
below = chance.randrange


def say(*words):
    os.write(1, (" ".join(map(str, (me, *words))) + "\n").encode())


def path():
    return os.path.join(folder, "f%d" % below(4))


def length():
    return chance.choice([0, 1 + below(64), 4096, below(9000), below(9000), 8192 * (1 + below(3)), below(70000)])


def place():
    return chance.choice([below(300), below(60000), below(60000), 4096 * below(40), 4096 * below(900)])


def parts():
    return [below(300) for _ in range(66)] if below(10) == 0 else [length() if below(3) == 0 else below(300) for _ in range(5)]


def told(done):
    """What is told of a result: of bytes how many, and which."""
    if isinstance(done, list):
        done = b"".join(bytes(part) for part in done)
    return (len(done), zlib.crc32(done)) if isinstance(done, bytes) else done


def into(parts, read):
    room = [bytearray(len) for len in parts]
    return [read(room), b"".join(bytes(part) for part in room)][1:]


def of_all(name):
    with open(name, "rb", 0) as file:
        content = b""
        while piece := os.read(file.fileno(), 30000):
            content += piece
        return content


def of_stat(stat):
    return stat.st_size, stat.st_nlink, oct(stat.st_mode)


def opened(slot):
    if slots[slot] >= 0:
        os.close(slots[slot])
    slots[slot] = -1
    flags = chance.choice([os.O_RDWR] * 3 + [os.O_RDONLY, os.O_WRONLY]) | os.O_CREAT
    for flag, odds in ((os.O_APPEND, 3), (os.O_TRUNC, 12), (os.O_EXCL, 20)):
        flags |= flag if below(odds) == 0 else 0
    slots[slot] = os.open(path(), flags, 0o644)
    return flags


def copied(slot):
    other, how = below(8), below(3)
    if slots[slot] < 0 or slots[other] < 0 or slot == other:
        return "nothing"
    if how == 0:
        return slots[slot] and os.dup2(slots[slot], slots[other]) == slots[other]
    os.close(slots[other])
    slots[other] = -1
    slots[other] = os.dup(slots[slot]) if how == 1 else fcntl.fcntl(slots[slot], fcntl.F_DUPFD, 100)
    return "copied"


def mapped(fd):
    size, access = os.fstat(fd).st_size, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    if access == os.O_WRONLY or not 0 < size < 1 << 20:
        return "nothing"
    if access == os.O_RDONLY or below(2):
        with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
            return view[:]
    with mmap.mmap(fd, size) as view:
        for _ in range(3):
            view[below(size)] = below(256)
        seen = os.pread(fd, size, 0) == view[:]
        view.flush()
        return seen


def inherited(_):
    known = os.fork()
    if known == 0:
        for _ in range(8):
            step(chance.choice([reads, writes]))
        os._exit(0)
    return os.waitpid(known, 0)[1]


def within_the_kernel(fd):
    other = chance.choice(slots)
    if fd < 0 or other < 0 or os.fstat(fd).st_ino == os.fstat(other).st_ino:
        return "nothing"
    return os.sendfile(other, fd, chance.choice([None, below(9000)]), 1 + below(9000)) if below(2) else \
        os.copy_file_range(fd, other, 1 + below(9000))


def reads(fd):
    return os.read(fd, length())


def writes(fd):
    return os.write(fd, chance.randbytes(length()))


def standard(fd):
    """By standard input or error, which is a copy of it for a while, by itself and by a child."""
    number, done, nothing = chance.choice([0, 2]), [], os.open("/dev/null", os.O_RDWR)
    os.dup2(fd, number)
    for _ in range(1 + below(6)):
        try:
            done.append(told(chance.choice(of_standard)(chance.choice([fd, number, number]))))
        except OSError as error:
            done.append(errno.errorcode[error.errno])
    os.dup2(nothing, number)
    os.close(nothing)
    return str(done)


of_standard = [
    reads, writes, writes, lambda fd: os.lseek(fd, below(9000), os.SEEK_SET), lambda fd: os.lseek(fd, 0, os.SEEK_CUR),
    lambda fd: into(parts(), lambda room: os.readv(fd, room)),
    lambda fd: os.writev(fd, [chance.randbytes(len) for len in parts()]),
    lambda fd: os.pwritev(fd, [chance.randbytes(len) for len in parts()], -1, os.RWF_DSYNC),
    lambda fd: os.pwrite(fd, chance.randbytes(length()), place()),
    lambda fd: fcntl.fcntl(fd, fcntl.F_SETFL, chance.choice([0, 0, os.O_APPEND])),
    lambda fd: os.ftruncate(fd, place()), inherited,
]
flags = [os.RWF_DSYNC, os.RWF_SYNC]
of_descriptors = [
    standard, standard,
    lambda fd: os.pwritev(fd, [chance.randbytes(len) for len in parts()], chance.choice([-1, place()]), chance.choice(flags)),
    lambda fd: os.pwritev(fd, [chance.randbytes(len) for len in parts()], -1, os.RWF_APPEND),
    lambda fd: into(parts(), lambda room: os.preadv(fd, room, chance.choice([-1, place()]), chance.choice(flags))),
    reads, reads, writes, writes, writes,
    lambda fd: os.pread(fd, length(), place()),
    lambda fd: os.pwrite(fd, chance.randbytes(length()), place()),
    lambda fd: os.pwrite(fd, chance.randbytes(length()), place()),
    lambda fd: into(parts(), lambda room: os.readv(fd, room)),
    lambda fd: os.writev(fd, [chance.randbytes(len) for len in parts()]),
    lambda fd: into(parts(), lambda room: os.preadv(fd, room, place())),
    lambda fd: os.pwritev(fd, [chance.randbytes(len) for len in parts()], place()),
    lambda fd: os.lseek(fd, place(), os.SEEK_SET),
    lambda fd: os.lseek(fd, below(9000) - 4000, chance.choice([os.SEEK_CUR, os.SEEK_END])),
    lambda fd: os.ftruncate(fd, place()),
    lambda fd: fcntl.fcntl(fd, fcntl.F_SETFL, chance.choice([0, os.O_APPEND])),
    lambda fd: chance.choice([os.fsync, os.fdatasync])(fd),
    lambda fd: of_stat(os.fstat(fd)),
    lambda fd: of_stat(os.fstat(fd)),
    lambda fd: os.posix_fallocate(fd, place(), 1 + below(9000)),
    mapped, inherited, within_the_kernel,
]
of_names = [
    lambda: of_stat(os.stat(path())), lambda: os.truncate(path(), place()), lambda: os.rename(path(), path()),
    lambda: os.link(path(), path()), lambda: os.unlink(path()), lambda: of_all(path()), lambda: of_all(path()),
]


def step(call):
    """Of a descriptor; one that is none is opened."""
    slot = below(8)
    try:
        done = opened(slot) if slots[slot] < 0 or call == opened else told(call(slot if call == copied else slots[slot]))
    except OSError as error:
        done = errno.errorcode[error.errno]
    say(slot, done)


for turn in range(turns):
    if me or turn:
        os.read(to_child[0] if me else to_parent[0], 1)
    for number in range(chance.choice([3, 20, 40])):
        say(turn, number, "")
        kind = below(24)
        if kind > 3:
            step(chance.choice(of_descriptors))
        else:
            step([opened, copied, lambda _: chance.choice(of_names)(), lambda _: chance.choice(of_names)()][kind])
    os.write(to_parent[1] if me else to_child[1], b".")
if not me:
    assert os.waitpid(child, 0)[1] == 0
    for number in range(4):
        name = os.path.join(folder, "f%d" % number)
        say("end", told(of_all(name)) if os.path.exists(name) else "none")
