# Makes `kernel` and `initramfs` of a guest in the folder AT, of Debian's packages, the program FERRITE and the file INIT.
cd "$AT"
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
[ -n "$kernel" ] || { echo "apt-cache knows no linux-image-cloud-amd64: apt-get update" >&2; exit 1; }
apt-get --quiet download "$kernel" busybox-static bcache-tools dmsetup libdevmapper1.02.1 mdadm 2> errors ||
    { tail -n 2 errors >&2; exit 1; }
for package in *.deb; do dpkg-deb --extract "$package" packages; done
mkdir -p root/bin root/modules
mv packages/boot/vmlinuz-* kernel
for name in virtio virtio_ring virtio_pci virtio_pci_modern_dev virtio_pci_legacy_dev virtio_blk crc32c_generic libcrc32c crc64 \
    md-mod raid1 bcache dax dm-mod dm-bufio dm-bio-prison dm-persistent-data dm-cache dm-cache-smq; do
    find packages -name "$name.ko" -exec cp {} root/modules \;
done
for name in busybox dmsetup mdadm make-bcache; do
    find packages -path "*bin/$name" -type f -exec cp {} root/bin \;
done
cp "$FERRITE" root/bin/ferrite
# A static program has no libraries, and ldd fails on it.
for program in root/bin/*; do
    LD_LIBRARY_PATH=$(find "$AT/packages" -name 'libdevmapper*' -printf '%h:') ldd "$program" > libraries || continue
    for library in $(grep -o '/[^ ]*' libraries); do
        at=root${library#"$AT/packages"}
        mkdir -p "${at%/*}"
        cp -L "$library" "$at"
    done
done
cp "$INIT" root/init
chmod +x root/init
(cd root && find . | bin/busybox cpio -o -H newc) > initramfs 2> errors
rm -rf packages root ./*.deb
