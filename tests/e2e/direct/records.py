"""Appends records to the file that is named, by sixteen processes that open it again all the time, and looks for torn ones."""

import os
import sys

name, size, often, crew = sys.argv[1], int(sys.argv[2]), 1000, 16
for number in range(crew):
    if os.fork() == 0:
        record = bytes([97 + number]) * (size - 1) + b"\n"
        for i in range(often):
            if i % 12 == 0:
                fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            assert os.write(fd, record) == size
            if i % 12 == 11:
                os.close(fd)
        os._exit(0)
for number in range(crew):
    assert os.wait()[1] == 0
content = open(name, "rb").read()
records = [content[at : at + size] for at in range(0, len(content), size)]
whole = [record for record in records if record[-1:] == b"\n" and record[:-1] == record[:1] * (size - 1)]
print(len(content) == crew * often * size, len(records) - len(whole))
os.unlink(name)
