"""Overwrites places of a file and appends to a log, round after round, and tells the rounds that are done."""

import os
import sys

places = os.open(sys.argv[1] + "/places", os.O_RDWR | os.O_CREAT, 0o644)
log = os.open(sys.argv[1] + "/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for round in range(64):
    os.pwrite(places, b"%016d" % round * 256, round * 4096)
    os.write(log, b"%015d\n" % round * 4)
while True:
    round += 1
    os.pwrite(places, b"%016d" % round * 256, round % 64 * 4096)
    os.write(log, b"%015d\n" % round * 4)
    if round % 64 == 0:
        os.write(1, b"%d\n" % round)
