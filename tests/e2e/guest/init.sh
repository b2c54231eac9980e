#!/bin/busybox sh
# The guest's first process. FERRITE_GUEST, and what was durable before, come from the kernel's command line.
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root FERRITE_BIN=/usr/bin/ferrite
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for point in /dev/shm /run /tmp; do mkdir -p $point && mount -t tmpfs tmpfs $point; done
echo 1 > /proc/sys/kernel/printk
for module in /modules/*; do insmod $module; done
exec > /dev/ttyS1 2>&1

# Gives the namespace $1 to the driver $3 by its region's device of kind $2, as ndctl does.
give() {
    region=${1#namespace}
    cd /sys/bus/nd/devices/region${region%.0} || return
    seed=$(cat $2_seed)
    echo $1 > /sys/bus/nd/drivers/nd_pmem/unbind
    echo 2097152 > $seed/align
    echo pmem > $seed/mode
    cat /proc/sys/kernel/random/uuid > $seed/uuid
    echo $1 > $seed/namespace
    echo $seed > /sys/bus/nd/drivers/$3/bind
    cd /
}

# The disks of the persistent memory whose provider is $1.
disks() {
    for region in /sys/bus/nd/devices/region*; do
        region=$(readlink -f $region)
        [ "$(cat ${region%/*}/provider)" = $1 ] || continue
        for disk in $region/*/block/pmem*; do [ -e $disk ] && echo /dev/${disk##*/}; done
    done
}

# Makes a region of the CXL device, and device DAX of it, as the cxl tool and ndctl do.
cxl() {
    cd /sys/bus/cxl/devices || return
    region=$(cat decoder0.0/create_pmem_region) && echo $region > decoder0.0/create_pmem_region || return
    for decoder in $(ls -d decoder*); do [ -e $decoder/dpa_size ] && break; done
    echo pmem > $decoder/mode
    echo 268435456 > $decoder/dpa_size
    cat /proc/sys/kernel/random/uuid > $region/uuid
    echo 1 > $region/interleave_ways
    echo 256 > $region/interleave_granularity
    echo 268435456 > $region/size
    echo $decoder > $region/target0
    echo 1 > $region/commit
    echo $region > /sys/bus/cxl/drivers/cxl_region/bind
    for bus in /sys/bus/nd/devices/ndbus*; do
        bus=$(readlink -f $bus)
        [ "$(cat $bus/provider)" = CXL ] || continue
        for namespace in $bus/region*/namespace[0-9]*; do
            cat /proc/sys/kernel/random/uuid > $namespace/uuid
            echo 268435456 > $namespace/size
            give ${namespace##*/} dax dax_pmem
        done
    done
    cd /
}

# The larger NVDIMM becomes a block device with DAX and a file system on it, the smaller one device DAX.
if [ "$FERRITE_GUEST" = working ]; then
    for path in /sys/bus/nd/devices/namespace*; do
        path=$(readlink -f $path)
        [ "$(cat ${path%/*/*}/provider)" = ACPI.NFIT ] || continue
        if [ "$(cat $path/size)" -gt 200000000 ]; then give ${path##*/} pfn nd_pmem; else give ${path##*/} dax dax_pmem; fi
    done
    mkfs.ext4 -q -F -b 4096 $(disks ACPI.NFIT)
    mkfs.ext4 -q -F -b 4096 $(disks e820)
    mkdir -p /mnt/memmap && mount -t ext4 -o dax $(disks e820) /mnt/memmap
    cxl
fi
mkdir -p /mnt/pm && mount -t ext4 -o dax $(disks ACPI.NFIT) /mnt/pm
for dax in /sys/bus/dax/devices/dax*; do
    case $(readlink -f $dax) in
        */ACPI0012:*) ln -s /dev/${dax##*/} /run/dax-nvdimm ;;
        */ACPI0017:*) ln -s /dev/${dax##*/} /run/dax-cxl ;;
    esac
done

# A tree of files and links for the tests to copy.
mkdir -p /usr/include/links && busybox --install -s /usr/include/links && cp -r /modules /usr/include

tests() {
    echo "stage $1"
    FERRITE_GUEST=$1 /e2e --test-threads 1 --show-output "$2" 2> /tmp/errors | cat
    sed 's/^/errors: /' /tmp/errors
    echo "end $1"
}
tests $FERRITE_GUEST guest::
if [ "$FERRITE_GUEST" = working ]; then
    FERRITE_GUEST=writing /e2e --nocapture --exact guest::power::what_is_durable_is_told 2>&1 | cat
fi
poweroff -f
