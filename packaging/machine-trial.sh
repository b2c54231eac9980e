#!/bin/sh
# Runs in the machine of try-machine.sh: compares what outlived the boot before, then writes until the machine ends.
#
# Parameters of the kernel: trial.boot is the number of this boot, and trial.end is what ends it. The number of records
# must be from trial.least to trial.most.
#
# Each boot leaves a tree, a row in a database whose log is in the pool, and records. The record N is the file
# records/N, then the row N of files/app.db. Both are in one file system, so an image of one moment has a prefix of the
# records, and at most one file without its row.
set -u
# The records go on while the machine goes down, until a write fails.
trap '' TERM
stty -F /dev/ttyS1 raw
exec > /dev/ttyS1 2>&1 < /dev/null
pool=/dev/shm/ferrite-x home=/var/lib/ferrite/x source=/usr/share/zoneinfo unit=ferrite@x
files=$home/files
library=$(echo /usr/lib/*/ferrite/libferrite_sqlite.so)

parameter() { # NAME
    sed -n "s/.*trial\.$1=\([a-z0-9]*\).*/\1/p" /proc/cmdline
}
boot=$(parameter boot) end=$(parameter end) least=$(parameter least) most=$(parameter most)

fail() { # WHY
    echo "failed: $*"
    journalctl -b --no-pager -o cat -u $unit | tail -n 30 | sed 's/^/journal: /'
    echo "end of the journal"
    exit 1
}

as_ferrite() {
    setpriv --reuid ferrite --regid ferrite --clear-groups "$@"
}

digest() { # FOLDER
    tar -C "$1" --sort=name -c . | sha256sum
}

content() { # N
    yes "record $1" 2> /dev/null | head -c 20000
}

# Runs a statement on the database whose log is in the pool. Its last connection leaves the log there.
logged() { # STATEMENT
    as_ferrite sqlite3 -batch -bail <<- SQL
	.load $library
	.open file:$home/logged.db?vfs=ferrite&pool=$pool
	.output /dev/null
	.dbconfig no_ckpt_on_close on
	pragma journal_mode = wal;
	.output
	$1
	SQL
}

# Starts the service, with this time between two saves.
serve() { # TIME
    wanted="FERRITE_UP=--size 192M --no-disk --mount $files --allow-other --keep $home/image --every $1"
    if ! grep -qsxF -- "$wanted" /etc/ferrite/x.env; then
        printf '%s\n' "FERRITE_POOL=$pool" "$wanted" > /etc/ferrite/x.env
        systemctl restart $unit || fail "the service does not start again"
    fi
    mountpoint -q "$files" || fail "nothing is mounted on $files"
}

# Compares the tree, the database with its log in the pool, and the records.
compare() { # BOOT LEAST MOST
    cd "$files" || fail "no $files"
    [ "$(echo tree-*)" = "tree-$1" ] || fail "the trees are $(echo tree-*), not tree-$1"
    if [ "$(digest "tree-$1")" != "$(digest $source)" ]; then
        fail "tree-$1 is not $source: $(diff -r "tree-$1" $source 2>&1 | head -n 3)"
    fi
    rows=$(logged 'select group_concat(boot, " ") from (select boot from boots order by boot);')
    [ "$rows" = "$(seq -s ' ' "$1")" ] || fail "the rows in logged.db are '$rows', not 1 to $1"
    sound=$(sqlite3 app.db 'pragma integrity_check')
    [ "$sound" = ok ] || fail "app.db is not sound: $sound"
    records=$(sqlite3 app.db 'select count(*) from records')
    highest=$(sqlite3 app.db 'select coalesce(max(n), 0) from records')
    [ "$records" = "$highest" ] || fail "app.db has $records rows up to $highest"
    [ "$records" -ge "$2" ] && [ "$records" -le "$3" ] || fail "there are $records records, not $2 to $3"
    for n in $(seq "$records"); do
        content "$n" | cmp -s - "records/$n" || fail "the record $n is not whole"
    done
    left=$(ls records | wc -l)
    [ "$left" -le $((records + 1)) ] || fail "there are $left files for $records records"
    cd /
    echo "compared: tree, databases and $records records are there, $2 to $3 were expected"
}

# Writes the next record, below the working folder.
write() {
    next=$((records + 1))
    { content $next > records/$next && sqlite3 app.db "insert into records values ($next)"; } || return
    records=$next
    echo "written $records"
}

# Returns the number of generations of the image.
generation() {
    as_ferrite ferrite pool info $pool --json | tr -d '\n' | sed -n 's/.*"kept":[^}]*"generation": *\([0-9]*\).*/\1/p'
}

# Sends a signal that the service does not survive or answer, and waits until systemd has started it again.
fault() { # SIGNAL
    restarts=$(systemctl show -P NRestarts $unit)
    systemctl kill --kill-whom=main --signal="$1" $unit
    tries=0
    until [ "$(systemctl show -P NRestarts $unit)" -gt "$restarts" ] && systemctl is-active --quiet $unit; do
        tries=$((tries + 1))
        [ $tries -lt 180 ] || fail "systemd does not start the service again after SIG$1"
        sleep 1
    done
    echo "started again after SIG$1"
}

if [ "$boot" = 1 ]; then
    serve 1h
    systemctl enable --quiet $unit
    mkdir "$files/records" || fail "no first folder"
    sqlite3 "$files/app.db" 'create table records (n integer primary key)' || fail "no first database"
    logged 'create table boots (boot integer primary key);' || fail "no database with its log in the pool"
    records=0
else
    systemctl start $unit || fail "the service does not start"
    compare $((boot - 1)) "$least" "$most"
fi
case $end in
nothing) exit ;;
cut) serve 4s ;;
*) serve 1h ;;
esac

cd "$files" || fail "no $files"
rm -rf tree-* && cp -a $source "tree-$boot" || fail "the tree is not copied"
logged "insert into boots values ($boot);" || fail "no row in the database with its log in the pool"
for _ in 1 2 3 4 5; do write || fail "no record"; done
case $end in
reboot)
    cd /
    fault KILL
    compare "$boot" "$records" "$records"
    fault STOP
    compare "$boot" "$records" "$records"
    restarts=$(systemctl show -P NRestarts $unit)
    cd "$files"
    for _ in 1 2 3 4 5; do write || fail "no record"; done
    [ "$(systemctl show -P NRestarts $unit)" = "$restarts" ] || fail "the service did not stay"
    systemctl reboot
    while write 2> /dev/null; do :; done
    echo "the records ended after $records"
    ;;
cut)
    # A generation is of a save that began after the end of the generation before.
    saved=$records begun=$(generation)
    [ -n "$begun" ] || fail "ferrite pool info names no generation of the image"
    while write; do
        here=$records now=$(generation)
        if [ "${now:-0}" -ge $((begun + 2)) ]; then
            echo "kept $saved"
            saved=$here begun=$now
        fi
    done
    fail "no record"
    ;;
power)
    for _ in 1 2 3 4 5; do write || fail "no record"; done
    echo "power $records"
    systemctl kill --kill-whom=main --signal=PWR $unit
    until journalctl -b --no-pager -o cat -u $unit | grep -q '^the power fails: saved'; do
        write || fail "no record"
    done
    echo saved
    while write; do :; done
    ;;
esac
