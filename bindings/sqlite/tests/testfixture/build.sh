#!/bin/sh
# Builds SQLite's own test program, and its speed test, from Debian's source: build.sh FOLDER. The source stays in FOLDER/source, for its
# tests. Every VFS that the program ever starts with has that of the library FERRITE_VFS as its default one; its scripts
# then see the logs in the pool as files (logs.tcl).
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/lists/partial"
cd "$1"
. /etc/os-release
echo "deb-src http://deb.debian.org/debian $VERSION_CODENAME main" >source.list
own="-o Dir::Etc::sourcelist=$PWD/source.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/lists"
apt-get -qq $own -o APT::Sandbox::User=root update
apt-get -qq $own -o APT::Sandbox::User=root --download-only source sqlite3
rm -rf source lists
tar -x --one-top-level=source --strip-components=1 -f sqlite3_*.orig.tar.xz
cd source
./configure --with-tcl=/usr/lib/tcl8.6 CFLAGS=-O1 >../configure.out
make sqlite3.c >../make.out
cat >>sqlite3.c <<'C'
#include <dlfcn.h>
SQLITE_API int ferrite_extra_init(const char *unused)
{
    const char *library = getenv("FERRITE_VFS");
    void *handle = library ? dlopen(library, RTLD_NOW) : 0;
    int (*init)(void *, char **, const sqlite3_api_routines *) = 0;

    (void)unused;
    if (!library)
        return SQLITE_OK;
    if (handle)
        *(void **)&init = dlsym(handle, "sqlite3_ferrite_default_init");
    return init && init(0, 0, &sqlite3Apis) == SQLITE_OK_LOAD_PERMANENTLY ? SQLITE_OK : SQLITE_ERROR;
}
C
sed -i 's|^int Sqlitetest1_Init(Tcl_Interp \*interp){|#include "logs.c"\n&\n  Tcl_CreateObjCommand(interp, "ferrite_file", ferrite_file, 0, 0);|' src/test1.c
sed -i '1i if {[info exists ::env(FERRITE_VFS)]} { source [file dirname [info script]]/../logs.tcl }' test/tester.tcl
make testfixture CFLAGS="-O1 -I$here -DSQLITE_EXTRA_INIT=ferrite_extra_init" >>../make.out 2>&1
make speedtest1 CFLAGS="-O2 -DSQLITE_EXTRA_INIT=ferrite_extra_init" >>../make.out 2>&1
# What it was built by: with another it is built again.
cp "$here"/* .
