#!/bin/busybox sh
# The first process of a machine with virtio-pmem. PMEM_FILES, the number of files that were durable before, comes from
# the kernel's command line; without it the file system is made.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
echo 1 > /proc/sys/kernel/printk
for module in /modules/*; do insmod $module; done
exec > /dev/ttyS1 2>&1
for look in $(seq 100); do
    [ -b /dev/pmem0 ] && break
    sleep 0.1
done

# The content of the file number $1.
content() {
    yes "file $1" | head -c 100000
}

first=0
if [ -z "$PMEM_FILES" ]; then
    mkfs.ext4 -q -F -b 4096 /dev/pmem0 && echo "made"
else
    # Replays the journal, and then nothing is left to repair.
    e2fsck -p /dev/pmem0
    [ $? -le 1 ] && e2fsck -fn /dev/pmem0 && echo "clean"
fi
mount -t ext4 -o dax=always /dev/pmem0 /mnt && echo "mounted $(grep -o dax=always /proc/mounts)"
if [ -n "$PMEM_FILES" ]; then
    for file in $(seq 0 $((PMEM_FILES - 1))); do
        content $file | cmp - /mnt/f$file && echo "whole $file"
    done
    first=$PMEM_FILES
fi
for file in $(seq $first 1000); do
    content $file | dd of=/mnt/f$file bs=50000 iflag=fullblock conv=fsync 2> /dev/null && echo "durable $file"
done
poweroff -f
