#!/bin/sh
# Writes a Debian package: packaging/deb.sh BUILT OUT
# BUILT holds ferrite, libferrite.so, libferrite.a and libferrite_sqlite.so. SOURCE_DATE_EPOCH dates everything, so the
# same files give the same package.
set -eu
export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:?is the time of the last commit}"
built=${1:?usage: deb.sh BUILT OUT}
out=${2:?usage: deb.sh BUILT OUT}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -n 1)
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -q DEB_HOST_MULTIARCH 2> /dev/null || echo "$(uname -m)-linux-gnu")
mkdir -p "$out"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
chmod 755 "$tree"

put() { # MODE FROM TO
    install -D -m "$1" "$2" "$tree/$3"
}
lib=usr/lib/$multiarch
put 755 "$built/ferrite" usr/bin/ferrite
put 644 "$here/../bindings/c/include/ferrite.h" usr/include/ferrite.h
put 644 "$built/libferrite.so" "$lib/libferrite.so.0"
put 644 "$built/libferrite.a" "$lib/libferrite.a"
put 644 "$built/libferrite_sqlite.so" "$lib/ferrite/libferrite_sqlite.so"
ln -s libferrite.so.0 "$tree/$lib/libferrite.so"
strip --strip-unneeded "$tree/usr/bin/ferrite" "$tree/$lib/libferrite.so.0" "$tree/$lib/ferrite/libferrite_sqlite.so"
strip --strip-debug --enable-deterministic-archives "$tree/$lib/libferrite.a"
mkdir -p "$tree/$lib/pkgconfig"
sed -e "s|@PREFIX@|/usr|" -e "s|^libdir=.*|libdir=\${prefix}/lib/$multiarch|" -e "s|@VERSION@|$version|" \
    "$here/../bindings/c/ferrite.pc.in" > "$tree/$lib/pkgconfig/ferrite.pc"
put 644 "$here/ferrite@.service" usr/lib/systemd/system/ferrite@.service
put 644 "$here/copyright" usr/share/doc/ferrite/copyright
put 644 "$here/lintian-overrides" usr/share/lintian/overrides/ferrite
mkdir -p "$tree/etc/ferrite"

"$built/ferrite" man "$tree/usr/share/man/man1"
for shell in bash zsh fish; do
    case $shell in
    bash) to=usr/share/bash-completion/completions/ferrite ;;
    zsh) to=usr/share/zsh/vendor-completions/_ferrite ;;
    fish) to=usr/share/fish/vendor_completions.d/ferrite.fish ;;
    esac
    mkdir -p "$tree/$(dirname $to)"
    "$built/ferrite" completions $shell > "$tree/$to"
done
printf 'ferrite (%s) unstable; urgency=medium\n\n  * Release %s.\n\n -- %s  %s\n' \
    "$version" "$version" "Ferrite maintainers <maintainers@ferrite.invalid>" "$(date -R -d "@$SOURCE_DATE_EPOCH")" \
    > "$tree/usr/share/doc/ferrite/changelog"
gzip -9n "$tree/usr/share/doc/ferrite/changelog" "$tree"/usr/share/man/man1/*

# The oldest glibc that has all symbols that the programs ask for.
glibc=$(grep -aohE 'GLIBC_2\.[0-9]+' "$tree/usr/bin/ferrite" "$tree/$lib/libferrite.so.0" \
    "$tree/$lib/ferrite/libferrite_sqlite.so" | sed 's/GLIBC_//' | sort -V | tail -n 1)
depends="libc6 (>= $glibc)"
if readelf --dynamic "$tree/usr/bin/ferrite" "$tree/$lib/libferrite.so.0" "$tree/$lib/ferrite/libferrite_sqlite.so" \
    | grep -q 'NEEDED.*libgcc_s'; then
    depends="$depends, libgcc-s1"
fi
mkdir "$tree/DEBIAN"
sed -e "s|@VERSION@|$version|" -e "s|@ARCHITECTURE@|$architecture|" -e "s|@DEPENDS@|$depends|" \
    -e "s|@SIZE@|$(du -sk --apparent-size "$tree/usr" | cut -f 1)|" "$here/control.in" > "$tree/DEBIAN/control"
for script in postinst prerm postrm; do
    install -m 755 "$here/$script" "$tree/DEBIAN/$script"
done
printf 'libferrite 0 ferrite (>= %s)\n' "$version" > "$tree/DEBIAN/shlibs"
printf 'activate-noawait ldconfig\n' > "$tree/DEBIAN/triggers"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
# One thread, because the number of threads would change the bytes.
DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/ferrite_${version}_$architecture.deb" > /dev/null
echo "$out/ferrite_${version}_$architecture.deb"
