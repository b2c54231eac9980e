//! Damaged, truncated and otherwise unusual pools.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, SmallHost, assert_sound, folder, json, ok, refused, run};

fn made(at: &Path) -> String {
    let pool = at.join("pool").to_str().expect("text").to_owned();
    ok(&["pool", "create", &pool, "--size", "32M"]);
    ok(&["disk", "create", &pool, "d", "--size", "1M"]);
    pool
}

/// Asserts that every command that opens a pool refuses `pool` with a word of `why`, and does not change it.
fn all_refuse(pool: &str, why: &[&str]) {
    let before = fs::read(pool).expect("read");
    for command in [["pool", "info"], ["pool", "check"], ["tag", "list"], ["disk", "list"]] {
        let said = refused(ferrite().args(command).arg(pool), 1);
        assert!(why.iter().any(|word| said.contains(word)), "{command:?}: {said}");
        assert!(!said.contains("panicked") && said.contains(pool), "{said}");
    }
    let said = refused(ferrite().args(["up", "--no-attach", "--pool", pool]), 1);
    assert!(said.lines().count() <= 2 && said.contains(pool), "{said}");
    assert!(fs::read(pool).expect("read") == before, "a refused pool is not touched");
}

#[test]
fn truncated_foreign_empty_and_corrupt_pools_are_refused_in_one_line() {
    let folder = folder(true);
    let pool = made(folder.path());
    let whole = fs::read(&pool).expect("read");
    fs::write(&pool, &whole[..whole.len() / 2]).expect("written");
    all_refuse(&pool, &["truncated"]);
    fs::write(&pool, vec![0xA5; 16 << 20]).expect("written");
    all_refuse(&pool, &["not a Ferrite pool"]);
    fs::write(&pool, "").expect("written");
    all_refuse(&pool, &["0 bytes", "empty", "smallest", "at least one whole page"]);
    let mut corrupt = whole.clone();
    corrupt[..8192].iter_mut().skip(20).for_each(|byte| *byte ^= 0x55);
    fs::write(&pool, &corrupt).expect("written");
    all_refuse(&pool, &["corrupt"]);
    fs::write(&pool, &whole).expect("written");
    assert_sound(pool.as_ref());
}

/// If the process can start no thread, a check runs without threads, with or without a progress bar.
#[test]
fn a_pool_is_checked_where_no_thread_can_be_had() {
    const NOBODY: u32 = 65534;
    let folder = folder(true);
    let pool = made(folder.path());
    if chown(&pool, Some(NOBODY), None).is_err() {
        return println!("skipped: only root starts programs as somebody else, whom a limit on threads holds");
    }
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("its owner may");
    // This clone may lie where only its user gets.
    let ferrite = folder.path().join("ferrite");
    fs::copy(ferrite_path(), &ferrite).expect("copied");
    let check = format!(
        "setpriv --reuid {NOBODY} --clear-groups prlimit --nproc=1 '{}' pool check '{pool}'",
        ferrite.display()
    );
    let message = run(client("sh").args(["-c", &check]));
    assert!(message.contains("sound"), "{message}");
    let message = run(client("script").args(["-qec", &check, "/dev/null"]));
    assert!(message.contains("sound") && !message.contains("panicked"), "{message}");
}

#[test]
fn a_size_that_is_a_multiple_of_nothing_works() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let pool = pool.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "33333333"]);
    ok(&["disk", "create", pool, "d", "--size", "1000448"]);
    assert_eq!(json(&["disk", "stat", pool, "d"])["size_bytes"], 1_000_448);
    let server = Server::start(Path::new(pool), &["--no-attach"]);
    run(client("qemu-io").args([
        "-f",
        "raw",
        "-c",
        "write -P 3 999936 512",
        "-c",
        "read -P 3 999936 512",
        &server.uri("d"),
    ]));
}

#[test]
fn a_full_host_disk_under_a_sparse_pool_is_an_error_and_loses_nothing() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "24M") else { return };
    let pool = host.path().join("pool");
    let pool = pool.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "64M"]);
    ok(&["disk", "create", pool, "d", "--size", "4M"]);
    let said = refused(ferrite().args(["disk", "create", pool, "e", "--size", "32M"]), 1);
    assert_sound(pool.as_ref());
    let disks = json(&["disk", "list", pool]);
    assert!(said.contains("no space left"), "{said}");
    assert_eq!(disks.as_array().map(Vec::len), Some(1));
}

/// If `up` makes a pool and cannot fill it, `up` removes the pool before the next try. An older pool stays unchanged.
#[test]
fn a_first_start_that_finds_no_room_leaves_no_pool() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "24M") else { return };
    let path = host.path().join("pool");
    let pool = path.to_str().expect("text");
    let up = ["up", "--no-mount", "--no-attach", "--pool", pool, "--size", "64M", "--disk", "e=32M"];
    assert!(refused(ferrite().args(up), 1).contains("no space left"));
    assert_eq!(fs::read_dir(host.path()).expect("there").count(), 0);
    ok(&["pool", "create", pool, "--size", "64M"]);
    assert!(refused(ferrite().args(up), 1).contains("no space left"));
    assert_sound(&path);
}

/// The process that writes to the pipe of a put may be slow, or need the pool itself. So the put does not own the pool.
#[test]
fn a_put_from_a_pipe_keeps_nobody_out_of_the_pool() {
    let folder = folder(true);
    let pool = folder.path().join("pool").to_str().expect("text").to_owned();
    let (content, back) = (folder.path().join("content"), folder.path().join("back"));
    ok(&["pool", "create", &pool, "--size", "256M"]);
    let bytes: Vec<u8> = (0..24_u32 << 20).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(&content, &bytes[..8 << 20]).expect("written");
    ok(&["tag", "put", &pool, "a", content.to_str().expect("text")]);
    let copy = r#""$0" tag get "$1" a | "$0" tag put "$1" b && (sleep 8 | "$0" tag put "$1" c & sleep 0.5; "$0" tag list "$1")"#;
    let listed = run(client("sh").args(["-c", copy]).arg(ferrite_path()).arg(&pool));
    assert!(listed.contains("b  "), "{listed}");
    ok(&["tag", "get", &pool, "b", back.to_str().expect("text")]);
    assert!(fs::read(&back).expect("read") == bytes[..8 << 20], "it is another");

    // The content is also larger than the amount that is read in advance.
    fs::write(&content, &bytes).expect("written");
    let put = r#"cat "$2" | "$0" tag put "$1" b --lose 8M"#;
    run(client("sh").args(["-c", put]).arg(ferrite_path()).arg(&pool).arg(&content));
    ok(&["tag", "get", &pool, "b", back.to_str().expect("text")]);
    assert!(fs::read(&back).expect("read") == bytes, "it is another");
}

#[test]
fn the_list_of_tags_says_no_size_of_what_has_none() {
    let folder = folder(true);
    let pool = made(folder.path());
    ok(&["fs", "create", &pool, "files"]);
    let message = ok(&["tag", "list", &pool]);
    let size = |name: &str| {
        let line = message.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {message}"));
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).nth(2).map(str::to_owned)
    };
    assert_eq!((size("files").as_deref(), size("d").as_deref()), (Some("-"), Some("1 MiB")), "{message}");
}

#[test]
fn a_pool_grows_and_its_disks_with_it() {
    let folder = folder(true);
    let pool = made(folder.path());
    assert!(refused(ferrite().args(["disk", "resize", &pool, "d", "--size", "40M"]), 1).contains("full"));
    let grown = json(&["pool", "grow", &pool, "--size", "64M"]);
    assert_eq!((grown["before_bytes"].as_u64(), grown["after_bytes"].as_u64()), (Some(32 << 20), Some(64 << 20)));
    ok(&["disk", "resize", &pool, "d", "--size", "40M"]);
    assert!(refused(ferrite().args(["pool", "grow", &pool, "--size", "32M"]), 1).contains("only grow"));
    let server = Server::start(pool.as_ref(), &["--no-attach"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 3 39M 1M", "-c", "read -P 3 39M 1M", &server.uri("d")]));
    assert!(refused(ferrite().args(["pool", "grow", &pool]), 1).contains("end that first"));
    server.interrupt();
    assert_sound(pool.as_ref());
}

/// If a pool cannot grow, it stays unchanged: its file is not too long to open, and it holds no unused space.
#[test]
fn a_pool_that_cannot_grow_keeps_its_length() {
    let folder = folder(true);
    let pool = made(folder.path());
    let said = refused(ferrite().args(["pool", "grow", &pool, "--size", "100T"]), 1);
    assert!(said.contains(&pool) && said.contains("100 TiB"), "{said}");
    assert_eq!(fs::metadata(&pool).expect("there").len(), 32 << 20);
    let foreign = folder.path().join("foreign").to_str().expect("text").to_owned();
    fs::write(&foreign, vec![0xA5; 16 << 20]).expect("written");
    refused(ferrite().args(["pool", "grow", &foreign, "--size", "64M"]), 1);
    assert_eq!(fs::metadata(&foreign).expect("there").len(), 16 << 20);
    assert_sound(pool.as_ref());
}

#[test]
fn a_full_host_gets_back_what_a_growth_had_reserved() {
    let folder = folder(true);
    let Some(host) = SmallHost::new(folder.path(), "48M") else { return };
    let path = host.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "16M"]);
    let taken = || fs::metadata(&path).map(|found| (found.len(), found.blocks())).expect("there");
    let before = taken();
    let said = refused(ferrite().args(["pool", "grow", pool, "--size", "1T"]), 1);
    assert!(said.contains("no space left") && said.contains(pool), "{said}");
    assert_eq!(taken(), before);
    ok(&["disk", "create", pool, "d", "--size", "4M"]);
    assert_sound(&path);
    // The server was killed before the pool used the space by which its file had grown.
    fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("longer");
    assert_sound(&path);
    assert_eq!(json(&["disk", "list", pool]).as_array().map(Vec::len), Some(1));
}

/// If the host has no free page, the command refuses to make a pool and leaves nothing. Even reading it does not kill a
/// process.
#[test]
fn a_host_disk_without_a_page_left_is_an_error_and_keeps_nothing() {
    let folder = folder(true);
    let pool = made(folder.path());
    let image = folder.path().join("image").to_str().expect("text").to_owned();
    ok(&["pool", "backup", &pool, &image]);
    let Some(host) = SmallHost::new(folder.path(), "8M") else { return };
    let path = |name: &str| host.path().join(name).to_str().expect("text").to_owned();
    fs::File::create(path("blank")).and_then(|file| file.set_len(32 << 20)).expect("made");
    let _ = fs::write(path("fill"), vec![1; 8 << 20]);
    let new = path("new");
    let restore = ["pool", "restore", &image];
    for words in [
        &["pool", "create", &new, "--size", "16M"][..],
        &["pool", "create", &path("blank")],
        &["up", "--no-mount", "--no-attach", "--size", "16M", "--pool", &new],
        &[&restore[..], &[&new]].concat(),
        &[&restore[..], &[&path("blank")]].concat(),
    ] {
        let said = refused(ferrite().args(words), 1);
        assert!(said.contains("no space left") && said.contains(host.path().to_str().expect("text")), "{said}");
    }
    let left = || fs::read_dir(host.path()).expect("there").flatten().map(|it| it.file_name()).collect::<Vec<_>>();
    assert_eq!(left().len(), 2, "{:?}", left());
    // The host has enough space to start, and not enough for the whole image.
    fs::File::options().write(true).open(path("fill")).and_then(|file| file.set_len(5 << 20)).expect("shorter");
    assert!(refused(ferrite().args([&restore[..], &[&new]].concat()), 1).contains("no space left"));
    assert_eq!(left().len(), 2, "{:?}", left());
}

/// If the reader of the messages has exited, the command still does its work.
#[test]
fn nobody_need_listen_to_what_is_said_beside() {
    let folder = folder(false);
    let pool = made(folder.path());
    for words in [&["pool", "defrag", &pool][..], &["pool", "check", &pool], &["pool", "grow", &pool]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        run(ferrite().args(words).stderr(writer));
    }
}

#[test]
fn a_scattered_pool_is_defragmented_and_holds_what_it_held() {
    let folder = folder(true);
    let pool = folder.path().join("pool").to_str().expect("text").to_owned();
    ok(&["pool", "create", &pool, "--size", "64M"]);
    let content = |name: usize| vec![name as u8; 3_000_000 + name];
    let file = folder.path().join("content");
    for name in 0..12 {
        fs::write(&file, content(name)).expect("written");
        ok(&["tag", "put", &pool, &name.to_string(), file.to_str().expect("text")]);
    }
    (0..12).step_by(2).for_each(|name| _ = ok(&["tag", "remove", &pool, &name.to_string()]));
    ok(&["disk", "create", &pool, "d", "--size", "8M"]);
    let done = json(&["pool", "defrag", &pool]);
    let largest = |when: &str| done[when]["largest_free_run_bytes"].as_u64();
    assert!(largest("after") > largest("before"), "{done}");
    for name in (1..12).step_by(2) {
        ok(&["tag", "get", &pool, &name.to_string(), file.to_str().expect("text")]);
        assert!(fs::read(&file).expect("read") == content(name), "{name}");
    }
    assert_sound(pool.as_ref());
    let _server = Server::start(pool.as_ref(), &["--no-attach"]);
    assert!(refused(ferrite().args(["pool", "defrag", &pool]), 1).contains("end that first"));
}

#[test]
fn a_thin_disk_that_nobody_has_opened_gives_what_others_lack() {
    let folder = folder(true);
    let path = folder.path().join("pool");
    let pool = path.to_str().expect("text");
    ok(&["pool", "create", pool, "--size", "64M"]);
    ["t", "u"].iter().for_each(|name| _ = ok(&["disk", "create", pool, name, "--size", "256M", "--thin"]));
    let fill_and_discard = || {
        let server = Server::start(&path, &["--no-attach"]);
        let mut writes = client("qemu-io");
        writes.args(["-f", "raw", "-d", "unmap"]);
        (0..64).for_each(|at| _ = writes.args(["-c", &format!("write -P 5 {at}M 1M")]));
        writes.args(["-c", "discard 1M 255M", "-c", "flush"]).arg(server.uri("t")).output().expect("qemu-io runs");
        server.interrupt();
        assert!(json(&["disk", "stat", pool, "t"])["space_bytes"].as_u64() > Some(40 << 20), "it has kept what it had");
    };
    fill_and_discard();
    let server = Server::start(&path, &["--no-attach"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 6 0 64k", &server.uri("u")]));
    ok(&["disk", "create", pool, "k", "--size", "8M"]);
    server.interrupt();
    fill_and_discard();
    ok(&["disk", "create", pool, "beside-nobody", "--size", "8M"]);
    assert_sound(&path);
    let server = Server::start(&path, &["--no-attach"]);
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 5 0 1M", "-c", "read -P 0 1M 200M", &server.uri("t")]));
    run(client("qemu-io").args(["-f", "raw", "-c", "read -P 6 0 64k", &server.uri("u")]));
}
