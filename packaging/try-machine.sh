#!/bin/sh
# Boots a Debian with the package in QEMU, ends it in three ways, and compares what outlived each end:
#   packaging/try-machine.sh DEB KERNEL [ROUNDS [SEED [SUITE]]]
# KERNEL is a folder with boot/vmlinuz* and lib/modules, such as target/guest after `cargo xtask test`. As root, with
# qemu-system-x86_64, debootstrap and mkfs.ext4, and a mirror. A round takes some minutes; QEMU only emulates.
#
#   reboot  `systemctl reboot` in order      everything is there that was written before it
#   cut     the power fails after a save     the last whole image is there
#   power   SIGPWR, then the power fails     everything is there that was written before SIGPWR
#
# machine-trial.sh runs in the machine: it compares, writes, and prints what must be there after the next end.
set -eu
# In a mount namespace, so that no mount outlives the script.
[ -n "${FERRITE_TRY:-}" ] || exec unshare --mount --propagation private env FERRITE_TRY=1 sh "$0" "$@"
deb=$(realpath "${1:?usage: try-machine.sh DEB KERNEL [ROUNDS [SEED [SUITE]]]}")
kernel=$(realpath "${2:?usage: try-machine.sh DEB KERNEL [ROUNDS [SEED [SUITE]]]}")
rounds=${3:-1} seed=${4:-1} suite=${5:-bookworm}
here=$(cd "$(dirname "$0")" && pwd)
for program in qemu-system-x86_64 debootstrap mkfs.ext4; do
    command -v "$program" > /dev/null || {
        echo "$program is missing: apt-get install qemu-system-x86 debootstrap e2fsprogs" >&2
        exit 1
    }
done
work=$(mktemp -d)
root=$work/root disk=$work/disk qemu=
cut_power() {
    [ -z "$qemu" ] || kill -KILL "$qemu" 2> /dev/null || true
    wait
    qemu=
}
trap 'cut_power; umount "$root/proc" 2> /dev/null || true; rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM HUP

# Writes the machine's disk, its kernel and its first file system.
build() {
    set -- adduser,systemd,systemd-sysv,dbus,udev,kmod,initramfs-tools,sqlite3,tzdata
    debootstrap --variant=minbase --include="$1" "$suite" "$root" > "$work/log" 2>&1 || {
        tail -n 5 "$work/log" >&2
        exit 1
    }
    mount -t proc proc "$root/proc"
    version=$(ls "$kernel/lib/modules")
    mkdir -p "$root/lib/modules"
    cp -r "$kernel/lib/modules/$version" "$root/lib/modules/"
    cp "$kernel/boot/config-$version" "$root/boot/"
    cp "$kernel/boot/vmlinuz-$version" "$work/vmlinuz"
    echo MODULES=list > "$root/etc/initramfs-tools/conf.d/trial"
    printf '%s\n' virtio_pci virtio_blk ext4 > "$root/etc/initramfs-tools/modules"
    cp "$deb" "$root/tmp/ferrite.deb"
    install -m 755 "$here/machine-trial.sh" "$root/usr/local/sbin/machine-trial"
    inside() {
        chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp DEBIAN_FRONTEND=noninteractive "$@"
    }
    inside dpkg -i /tmp/ferrite.deb > "$work/log"
    inside depmod "$version"
    inside mkinitramfs -o /tmp/initramfs "$version" > "$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
    mv "$root/tmp/initramfs" "$work/initramfs"
    # The machine needs one more module. Others would take time at each boot.
    find "$root/lib/modules" -name '*.ko*' ! -name 'fuse.ko*' -delete
    inside depmod "$version"
    cat > "$root/etc/systemd/system/trial.service" <<- UNIT
	[Service]
	ExecStart=/usr/local/sbin/machine-trial
	TimeoutStopSec=1min
	[Install]
	WantedBy=multi-user.target
	UNIT
    # A short limit, so that the trial sees that the watchdog works.
    mkdir "$root/etc/systemd/system/ferrite@.service.d"
    printf '[Service]\nWatchdogSec=20s\n' > "$root/etc/systemd/system/ferrite@.service.d/trial.conf"
    inside systemctl enable --quiet trial
    umount "$root/proc"
    truncate -s 1G "$disk"
    mkfs.ext4 -q -d "$root" "$disk"
    rm -rf --one-file-system "$root"
}

# Starts the machine for its boot of this number.
boot() { # END LEAST MOST
    number=$((number + 1))
    parameters="trial.boot=$number trial.end=$1 trial.least=$2 trial.most=$3"
    : > "$work/lines"
    qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 -m 1024M \
        -nodefaults -display none -no-reboot -kernel "$work/vmlinuz" -initrd "$work/initramfs" \
        -append "console=ttyS0 root=/dev/vda rw panic=-1 $parameters" \
        -drive if=virtio,format=raw,cache=writeback,file="$disk" \
        -serial "file:$work/console" -serial "file:$work/lines" < /dev/null 2> "$work/errors" &
    qemu=$!
    shown=0
}

# Prints the new lines of the machine that are not about each record.
show() {
    lines=$(wc -l < "$work/lines")
    sed -n "$((shown + 1)),${lines}p" "$work/lines" | grep -vE '^(written|kept)' | sed 's/^/    /' || true
    shown=$lines
}

failed() { # WHY
    show
    echo "-- the machine's console"
    tail -n 25 "$work/console" | cut -c -160
    cat "$work/errors"
    echo "failed in boot $number, seed $seed: $1" >&2
    exit 1
}

is_running() {
    grep -q '^State:[[:space:]]*[^ZX]' "/proc/$qemu/status" 2> /dev/null
}

# Waits until the machine prints a line that matches, or until it ends.
await() { # PATTERN SECONDS
    tries=$(($2 * 4))
    while is_running; do
        show
        if head -n "$shown" "$work/lines" | grep -qE "$1"; then return; fi
        if grep -q '^failed' "$work/lines"; then
            await_journal
            failed "$(grep '^failed' "$work/lines" | head -n 1)"
        fi
        tries=$((tries - 1))
        [ $tries -gt 0 ] || failed "no line '$1' within $2 s"
        sleep 0.25
    done
    show
    [ "$1" = ended ] || failed "the machine ended before the line '$1'"
}

# Waits for the journal that follows a failure.
await_journal() {
    tries=40
    until grep -q '^end of the journal' "$work/lines" || [ $tries = 0 ]; do
        tries=$((tries - 1))
        sleep 0.5
    done
}

# Returns the number in the last whole line that begins with this word.
last() { # WORD
    head -n "$(wc -l < "$work/lines")" "$work/lines" | sed -n "s/^$1 \([0-9]*\)$/\1/p" | tail -n 1
}

begun=$(date +%s)
echo "building a machine of Debian $suite"
build
echo "built the machine in $(($(date +%s) - begun)) s"
# The longest time of one boot, for a machine with other work.
limit=1200
number=0 least=0 most=0
for round in $(seq "$rounds"); do
    begun=$(date +%s)
    boot reboot "$least" "$most"
    await ended "$limit"
    wait "$qemu" || failed "QEMU ended with an error"
    qemu=
    least=$(last written) most=$((least + 1))
    echo "round $round: a reboot in order after record $least"

    boot cut "$least" "$most"
    await '^kept' "$limit"
    tenths=$(((seed * 7919 + number * 104729) % 60))
    sleep "$((tenths / 10)).$((tenths % 10))"
    cut_power
    least=$(last kept) most=$(($(last written) + 1))
    echo "round $round: the power failed after record $((most - 1)), a save has record $least"

    boot power "$least" "$most"
    await '^saved' "$limit"
    cut_power
    least=$(last power) most=$(($(last written) + 1))
    echo "round $round: the power failed after record $((most - 1)), SIGPWR came after record $least"
    echo "round $round took $(($(date +%s) - begun)) s"
done
boot nothing "$least" "$most"
await '^compared' "$limit"
cut_power
echo "$rounds rounds: trees and databases outlived each reboot, each power failure and each SIGPWR (seed $seed)"
