#!/bin/sh
# Installs a Debian package into a new system, uses and purges it: packaging/try-deb.sh DEB [SUITE]
# SUITE is the system's release, bookworm if not given. As root, with debootstrap and lintian, and a mirror.
set -eu
# In a mount namespace, so that no mount outlives the script.
[ -n "${FERRITE_TRY:-}" ] || exec unshare --mount --propagation private env FERRITE_TRY=1 sh "$0" "$@"
deb=$(realpath "${1:?usage: try-deb.sh DEB [SUITE]}")
suite=${2:-bookworm}
here=$(cd "$(dirname "$0")" && pwd)
lintian --fail-on error,warning "$deb"
work=$(mktemp -d)
trap 'umount "$work/root/proc" 2> /dev/null || true; rm -rf --one-file-system "$work"' EXIT
root=$work/root
debootstrap --variant=minbase --include=adduser,pkg-config,gcc,libc6-dev,systemd,man-db,zsh,fish "$suite" "$root" \
    > "$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
mount -t proc proc "$root/proc"
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home "$@"
}
files() { (cd "$root" && find . -xdev -path ./proc -prune -o -print | grep -vE '^\./(run/|var/(lib/dpkg|cache|log|lib/systemd)|etc/.*-$)' | sort); }
files > "$work/before"
cp "$deb" "$root/tmp/ferrite.deb"
cp "$here/../bindings/c/examples/counter.c" "$root/tmp/"
mkdir "$root/tmp/home"
inside dpkg -i /tmp/ferrite.deb
inside ferrite --version
mkdir -p "$root/var/lib/ferrite/test"
inside ferrite pool create /var/lib/ferrite/test/pool --size 64M
inside sh -c 'cc -o /tmp/counter /tmp/counter.c $(pkg-config --cflags --libs ferrite)'
inside ferrite up --pool /var/lib/ferrite/test/pool --disk d=8M --no-attach --no-mount --detach
inside ferrite stat /var/lib/ferrite/test/pool
inside ferrite down --pool /var/lib/ferrite/test/pool
inside ferrite pool check /var/lib/ferrite/test/pool
for page in ferrite ferrite-up ferrite-disk-create; do
    inside man -l "/usr/share/man/man1/$page.1.gz" > "$work/page"
    grep -q SYNOPSIS "$work/page"
done
inside bash -c '. /usr/share/bash-completion/completions/ferrite && complete -p ferrite'
inside zsh -fc 'autoload -Uz compinit && compinit -u -d /tmp/zcompdump && [ "${_comps[ferrite]}" = _ferrite ]'
inside fish -c 'complete --do-complete "ferrite doct"' | grep -q doctor
inside systemd-analyze verify ferrite@test.service
inside systemd-analyze security --offline=yes --no-pager --threshold=40 ferrite@test.service > "$work/security" \
    || { tail -n 3 "$work/security" >&2; exit 1; }
inside id ferrite
inside dpkg --purge ferrite
# The purge leaves the pools.
rm -r "$root/var/lib/ferrite/test/pool" "$root"/tmp/*
rmdir "$root/var/lib/ferrite/test" "$root/var/lib/ferrite"
files > "$work/after"
diff "$work/before" "$work/after"
