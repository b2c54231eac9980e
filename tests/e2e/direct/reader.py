"""Checks that all rounds that the writer told of are there: at most one place and the log's end are of a later one."""

import sys

told = int(sys.argv[2])
lines = open(sys.argv[1] + "/log", "rb").read().split(b"\n")
assert lines.pop() == b"", "the log ends within a line"
assert len(lines) % 4 == 0, "an append is there in part"
rounds = [int(line) for line in lines[::4]]
assert rounds == list(range(len(rounds))), "rounds of the log are missing"
assert all(int(line) == at // 4 for at, line in enumerate(lines))
assert len(rounds) > told, (len(rounds), told)
places = open(sys.argv[1] + "/places", "rb").read()
assert len(places) == 64 * 4096
torn = 0
for place in range(64):
    words = {places[at:at + 16] for at in range(place * 4096, place * 4096 + 4096, 16)}
    torn += len(words) > 1
    if len(words) == 1:
        number = int(words.pop())
        assert number % 64 == place and number > told - 64, (place, number, told)
assert torn <= 1, torn
