#!/bin/sh
# Installs a wheel into a new environment and uses each of its parts: packaging/try-wheel.sh WHEEL [PYTHON]
# Prints the time from `pip install` to the first durable write, and from a start of the server until it serves.
set -eu
wheel=$(realpath "${1:?usage: try-wheel.sh WHEEL [PYTHON]}")
python=${2:-python3}
since() { # NANOSECONDS
    echo "$((($(date +%s%N) - $1) / 1000000)) ms"
}
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$python" -m venv env
begun=$(date +%s%N)
env/bin/pip install --quiet --no-index "$wheel"
env/bin/python - << 'END'
import ferrite
with ferrite.open("pool", create="64M") as store:
    store.map("people")[b"ada"] = b"1815"
END
echo "first durable write $(since "$begun") after the start of pip install"
begun=$(date +%s%N)
env/bin/ferrite up --pool served --size 64M --disk d=8M --no-attach --no-mount --detach > /dev/null
echo "served $(since "$begun") after the start of ferrite up"
env/bin/ferrite down --pool served > /dev/null
env/bin/ferrite --version
env/bin/ferrite pool check pool
env/bin/python - << 'END'
import sqlite3

import ferrite
import ferrite.sqlite

with ferrite.open("pool") as store:
    assert store.map("people")[b"ada"] == b"1815"
assert ferrite.sqlite.loadable_path()
if not hasattr(sqlite3.Connection, "enable_load_extension"):
    try:
        ferrite.sqlite.connect("app.db", pool="pool")
    except ferrite.FerriteError as why:
        print("refused as it should be:", why)
    raise SystemExit
database = ferrite.sqlite.connect("app.db", pool="logs", create="64M")
with database:
    database.execute("create table notes (text)")
    database.execute("insert into notes values ('kept')")
assert database.execute("select text from notes").fetchall() == [("kept",)]
again = ferrite.sqlite.connect("app.db", pool="logs")
assert again.execute("pragma journal_mode").fetchone() == ("wal",)
assert not __import__("os").path.exists("app.db-wal")
print("a commit of SQLite is in the pool")
END
env/bin/python -m ferrite.sqlite_commits --pool logs --commits 100 . || {
    env/bin/python -c 'import sqlite3; raise SystemExit(hasattr(sqlite3.Connection, "enable_load_extension"))'
}
# A Python whose sqlite3 loads no extensions is refused in words, here one that lacks the method.
env/bin/python - << 'END'
import sqlite3

import ferrite
import ferrite.sqlite


class WithoutExtensions(sqlite3.Connection):
    def __getattribute__(self, name):
        if name == "enable_load_extension":
            raise AttributeError(name)
        return super().__getattribute__(name)


connect = sqlite3.connect
sqlite3.connect = lambda *path, **options: connect(*path, factory=WithoutExtensions, **options)
try:
    ferrite.sqlite.connect("other.db", pool="pool")
except ferrite.FerriteError as why:
    assert "loads no extensions" in str(why), why
else:
    raise SystemExit("it was not refused")
END
if command -v auditwheel > /dev/null; then
    tag=$(basename "$wheel" .whl)
    auditwheel show "$wheel" | tr '\n' ' ' | grep -q "is consistent with the following platform tag: \"${tag##*abi3-}\""
fi
