# PostgreSQL on a mount of its own user, under `ferrite run`; killed while pgbench commits, round after round.
# $1 ferrite   $2 a folder in memory   $3 rounds   $4 PostgreSQL's programs
set -e
F=$1; H=$2; rounds=$3; PATH=$4:$PATH
mkdir $H/dev; cp $F $H/ferrite; chmod 755 $H $H/ferrite; chown -R postgres $H
# The copies of other mounts would keep them from ending.
awk '$3 == "fuse.ferrite" { print $2 }' /proc/mounts | xargs -r -n1 umount -l
mount -t tmpfs -o mode=755 none $H/dev || { echo "skipped: no mounts in a namespace"; exit 0; }
mknod -m 666 $H/dev/fuse c 10 229; mount --bind $H/dev/fuse /dev/fuse || { echo "skipped: no device"; exit 0; }
cd $H
export HOME=$H PATH LC_ALL=C rounds PGHOST=$H PGDATABASE=postgres
exec setpriv --reuid postgres --regid postgres --clear-groups bash -ec '
server= database=
family() {
    echo $1
    local child
    # awk by itself would end at a process that has just gone.
    for child in $(cat /proc/[0-9]*/stat 2> /dev/null | awk -v of=$1 "{ pid = \$1; sub(/.*\\) /, \"\") } \$2 == of { print pid }"); do
        family $child
    done
}
end() { kill -9 $(family $database) 2> /dev/null || true; wait $database 2> /dev/null || true; database=; }
# Whatever fails, nothing of this lives on.
trap "end; kill -9 \$server; fusermount3 -uz m" EXIT
./ferrite up --pool p --size 512M --disk d=8M --no-attach --mount m > served 2>&1 & server=$!
for i in $(seq 600); do grep -q "Ctrl-C ends it" served && break; sleep 0.05; done
grep "mounted on" served
initdb --no-locale --no-sync -A trust -D m/data > made
# What a killed one leaves is in its own folder, and not in /dev/shm.
settings="-c listen_addresses= -c dynamic_shared_memory_type=mmap -c shared_buffers=4MB -k $HOME"
start() {
    for i in $(seq 600); do
        if [ -z "$database" ] || ! kill -0 $database 2> /dev/null; then
            # The killed one may still be about to end, and then it does not start.
            ./ferrite run $1 -- postgres -D m/data $settings > log 2>&1 & database=$!
        fi
        psql -qAtX -c "select 1" > /dev/null 2>&1 && return
        sleep 0.05
    done
    cat log; false
}
ask() { psql -qAtX -v ON_ERROR_STOP=1 -c "$1"; }
start
pgbench -i -q -s 1 > made 2>&1
all=0
for round in $(seq $rounds); do
    (sleep 0.$((RANDOM % 5 + 3)); kill -9 $(family $database)) 2> /dev/null & killer=$!
    pgbench -n -c 2 -j 2 -T 60 > told 2> lost || true
    wait $killer || true; end
    told=$(sed -n "s/^number of transactions actually processed: \([0-9]*\).*/\1/p" told)
    start
    found=$(ask "select count(*) from pgbench_history")
    sums=$(ask "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)")
    # Each of the two clients may have one that was committed and not told.
    if [ $found -lt $((all + told)) ] || [ $found -gt $((all + told + 2)) ] || [ $sums != t ]; then
        echo "round $round: $all and $told committed, $found there, sums $sums"; exit 1
    fi
    all=$found
done
kill -INT $database; wait $database; database=
start "--stat --json"
pgbench -n -c 2 -j 2 -t 200 > told
kill -INT $(family $database | sed -n 2p); wait $database; database=
tail -1 log
kill -TERM $server; wait $server
trap - EXIT
./ferrite pool check p
echo "$all commits, none lost"'
