//! Common work on file trees, on the mount: copy, build, pack and unpack, keep versions, name and link.

use std::fs;
use std::path::Path;

use crate::kill::number;
use crate::mount::{Place, start};
use crate::programs::client;
use crate::server::{Server, assert_sound, json, run};

/// Runs a shell that stops at the first failing command.
fn shell(at: &Path, script: &str) -> String {
    run(client("bash").args(["-ec", script]).current_dir(at).env("HOME", at))
}

/// Runs `work` on a mount, and checks the pool afterwards.
fn on_a_mount(more: &[&str], work: impl FnOnce(&Path)) {
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let server: Server = start(&pool, &at, &[&["--size", "512M", "--disk", "d=8M"][..], more].concat());
    work(&at);
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn git_keeps_a_repository_in_it() {
    on_a_mount(&[], |at| {
        shell(
            at,
            "git init -q one; cd one; git config user.email a@b; git config user.name a
             cp -r /usr/include/linux .; git add .; git commit -qm first
             git mv linux other; echo more > file; git add .; git commit -qm second; cd ..
             git clone -q --no-local one two; cd two; git fsck --full --strict; git gc -q --prune=now
             git checkout -q HEAD~1; diff -rq --no-dereference linux /usr/include/linux
             git checkout -q -; git fsck --full --strict; test -z \"$(git status --porcelain)\"",
        );
    });
}

#[test]
fn cargo_builds_in_it() {
    for more in [&[][..], &["--cached"]] {
        on_a_mount(more, |at| {
            let home = std::env::var_os("HOME").unwrap_or_default();
            let script = "cargo new -q --vcs none hello; cd hello; cargo build -q --offline; cargo run -q --offline
                          echo 'fn main() { println!(\"again\") }' > src/main.rs; cargo run -q --offline";
            let message = run(client("bash").args(["-ec", script]).current_dir(at).env("HOME", home));
            assert_eq!(message, "Hello, world!\nagain\n");
        });
    }
}

/// The mount keeps all that `cp -a` and `rsync -aHAX` copy: attributes, access lists, links, holes, times before 1970.
#[test]
fn copies_are_as_the_original() {
    for more in [&[][..], &["--cached"]] {
        on_a_mount(more, |at| {
            let message = shell(
                at,
                r#"mkdir one; cd one; echo a > a; ln a b; ln -s a c; mkdir d; mkfifo d/f; setfattr -n user.k -v v a
                   setfacl -m u:daemon:rw a; setfacl -d -m g:bin:rx d; touch d/in; chmod 6751 b; truncate -s 3M d/holes
                   head -c 100000 /dev/urandom >> d/holes; touch -d '1960-01-02 03:04:05.123456789' a
                   stat -c %.9Y a
                   cd ..; cp -a one two; rsync -aHAX one/ three/
                   told() { cd $1; getfacl -nR .; getfattr -dR -m - .; find . -printf '%p %y %m %n %U %G %l\n' | sort
                            find . -type f -printf '%p %T@ %s\n' | sort; find . -type f | sort | xargs sha256sum; cd ..; }
                   for copy in two three; do diff <(told one) <(told $copy); done
                   test $(stat -c %b one/d/holes) -lt 1000"#,
            );
            assert_eq!(message, "-315521754.876543211\n", "the time that was set");
        });
    }
}

const UNWRITTEN: &str = r#"
import os, subprocess
for i in range(20):
    with open("from", "wb", buffering=0) as file:
        file.write(b"data" * 750000)
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 0
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 3000000
        subprocess.check_call("cp --sparse=auto from to && cmp from to && cp --sparse=always from to && cmp from to", shell=True)
    os.unlink("from")
"#;

/// A seek for data also finds data that the kernel has not written back yet.
#[test]
fn a_file_is_copied_whole_while_it_is_open() {
    for more in [&[][..], &["--cached"]] {
        on_a_mount(more, |at| drop(run(client("python3").args(["-c", UNWRITTEN]).current_dir(at))));
    }
}

const NAMES: &str = r#"
import os
def bytes_of(skip): return [bytes([b]) for b in range(1, 256) if b not in skip]
names = bytes_of(b"/.") + [b * 255 for b in bytes_of(b"/")] + [b"a" + b + b"z" for b in bytes_of(b"/")]
for n in names:
    with open(b"./" + n, "wb") as file: file.write(n)
assert sorted(os.listdir(b".")) == sorted(names)
for n in names: assert open(b"./" + n, "rb").read() == n
try: open("x" * 256, "w"); assert False
except OSError as error: assert error.errno == 36
for n in names: os.rename(b"./" + n, b"./~" + n[:254][::-1]); os.stat(b"./~" + n[:254][::-1])
for n in os.listdir(b"."): os.unlink(b"./" + n)
assert os.listdir(b".") == []
"#;

#[test]
fn names_are_any_bytes() {
    on_a_mount(&[], |at| drop(run(client("python3").args(["-c", NAMES]).current_dir(at))));
}

const MANY: &str = r#"
import os, sys
count = int(sys.argv[1])
for i in range(count): os.mknod("file-%d" % i)
assert sorted(os.listdir(".")) == sorted("file-%d" % i for i in range(count))
for i in range(0, count, 97): assert os.stat("file-%d" % i).st_size == 0
assert not os.path.exists("file-%d" % count)
seen = 0
for entry in os.scandir("."): os.unlink(entry.name); seen += 1
assert seen == count and os.listdir(".") == []
"#;

/// A listing returns each file once, also while the listed files are removed.
#[test]
fn a_folder_holds_many_files() {
    let count = (20_000 * number("FERRITE_ROUNDS", 1)).min(1_000_000).to_string();
    on_a_mount(&["--allow-other"], |at| {
        fs::create_dir(at.join("many")).expect("made");
        run(client("python3").args(["-c", MANY, &count]).current_dir(at.join("many")));
    });
}

/// Packs a tree of `count` files in folders of fifty, with the usual sizes of source files.
const PACKED: &str = r#"
import io, sys, tarfile
count, seed = int(sys.argv[1]), 1
with tarfile.open(sys.argv[2], "w") as packed:
    for i in range(count):
        seed = seed * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        size = (seed >> 40) % 4096 if seed >> 33 & 3 else (seed >> 40) % 60000
        file = tarfile.TarInfo("tree/%d/%d/file%d.c" % (i // 1000, i // 50, i))
        file.size, file.mtime = size, 1000000000 + i
        packed.addfile(file, io.BytesIO(b"%d\n" % seed * (size // 8 + 1)))
"#;

/// Unpacks, removes and unpacks a tree of sources. After each removal, all its bytes and inodes are free again.
#[test]
fn a_tree_that_is_removed_leaves_nothing() {
    let Some(Place { folder, pool, at }) = Place::new() else { return };
    let (count, packed) = ((8000 * number("FERRITE_ROUNDS", 1)).min(80_000), folder.path().join("tree.tar"));
    run(client("python3").args(["-c", PACKED, &count.to_string()]).arg(&packed));
    let server = start(&pool, &at, &["--size", "1536M", "--disk", "d=8M"]);
    let taken = || {
        let space = &json(&["fs", "stat", pool.to_str().expect("text"), "files"])["space"];
        let bytes = |name: &str| space[name].as_u64().expect("a number");
        (bytes("total_bytes") - bytes("free_bytes"), bytes("inodes"))
    };
    let mut after = Vec::new();
    for _ in 0..3 {
        run(client("tar").arg("-xf").arg(&packed).current_dir(&at));
        run(client("tar").arg("-df").arg(&packed).current_dir(&at));
        assert!(taken().1 > count, "{} inodes", taken().1);
        run(client("rm").args(["-rf", "tree"]).current_dir(&at));
        let is_empty = || taken().1 == 1 && taken().0 <= 16 << 20;
        let freed = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_empty()
        });
        assert!(freed, "{:?} taken after it was removed", taken());
        std::thread::sleep(std::time::Duration::from_millis(500));
        after.push(taken());
    }
    assert!(after.iter().all(|taken| *taken == after[0]), "{after:?}");
    server.interrupt();
    assert_sound(&pool);
}
