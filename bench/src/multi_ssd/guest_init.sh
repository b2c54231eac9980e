#!/bin/busybox sh
# The first process of the guest. SUBJECT and LOAD, the arguments of the load, come from the kernel's command line.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys /dev /run /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
# A module that needs another one loads in a later round.
for round in 1 2 3 4 5; do
    for module in /modules/*; do insmod $module 2> /dev/null; done
done
exec > /dev/ttyS1 2> /dev/ttyS0

mirror() {
    mdadm --create /dev/md0 --run --assume-clean --bitmap=none --metadata=1.0 --level=1 --raid-devices=2 /dev/vdb /dev/vdc
} >&2

# The cache before the disk, by the defaults of its documentation, except that no sequential stream goes around it.
case $SUBJECT in
    ferrite) device=/dev/vda ;;
    bcache)
        mirror
        make-bcache --writeback --bucket 32k --cache /dev/md0 --bdev /dev/vda >&2
        for member in /dev/md0 /dev/vda; do echo $member > /sys/fs/bcache/register; done
        device=/dev/bcache0
        for wait in 1 2 3 4 5 6 7 8 9 10; do [ -b $device ] || sleep 1; done
        echo 0 > /sys/block/bcache0/bcache/sequential_cutoff
        dmesg | grep bcache >&2; cat /sys/block/bcache0/bcache/state >&2
        ;;
    dm-cache)
        mirror
        # 1 MiB of the mirror has the metadata, and the rest the blocks of 32 KiB, the smallest that there are.
        rest=$(($(blockdev --getsz /dev/md0) - 2048))
        rest=$((rest / 64 * 64))
        dd if=/dev/zero of=/dev/md0 bs=1M count=1 conv=fsync 2> /dev/null
        dmsetup create fast_meta --noudevsync --table "0 2048 linear /dev/md0 0"
        dmsetup create fast --noudevsync --table "0 $rest linear /dev/md0 2048"
        table="/dev/dm-0 /dev/dm-1 /dev/vda 64 1 writeback smq 0"
        dmsetup create cached --noudevsync --table "0 $(blockdev --getsz /dev/vda) cache $table"
        device=/dev/dm-2
        ;;
esac
[ -b $device ] && ferrite bench-worker --blocks $device ${LOAD//,/ }
echo end
[ $SUBJECT = dm-cache ] && dmsetup status cached >&2
poweroff -f
