#!/bin/sh
# Installs a wheel into a new environment and uses each of its parts: packaging/try-wheel.sh WHEEL
# Prints the time from `pip install` to the first durable write.
set -eu
wheel=$(realpath "${1:?usage: try-wheel.sh WHEEL}")
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
begun=$(date +%s%N)
env/bin/pip install --quiet --no-index "$wheel"
env/bin/python - << 'END'
import ferrite
with ferrite.open("pool", create="64M") as store:
    store.map("people")[b"ada"] = b"1815"
END
echo "first durable write $((($(date +%s%N) - begun) / 1000000)) ms after the start of pip install"
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
