#!/bin/sh
# Installs the C library: bindings/c/install.sh PREFIX [FOLDER]
# PREFIX gets include/, lib/ and lib/pkgconfig/. FOLDER holds libferrite.so and libferrite.a; without it they are built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [FOLDER]}
built=${2:-}
if [ -z "$built" ]; then
    (cd "$here" && cargo build --release)
    built=${CARGO_TARGET_DIR:-$(cd "$here/../.." && pwd)/target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
prefix=$(cd "$prefix" && pwd)
# In the place of what is there, not into it: a program may be running with that.
install -m 644 "$here/include/ferrite.h" "$prefix/include/"
install -m 644 "$built/libferrite.a" "$prefix/lib/"
install -m 755 "$built/libferrite.so" "$prefix/lib/libferrite.so.0"
ln -sf libferrite.so.0 "$prefix/lib/libferrite.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/ferrite.pc.in" > "$prefix/lib/pkgconfig/ferrite.pc"
