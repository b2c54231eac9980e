//! Members of a cache that are replaced, lost, swapped, or of another time than the pool.

use std::fs;

use serde_json::Value;

use crate::cache_setup::{CachedDisk, DISK_BYTES, KEEPS_DIRTY, SSD_BYTES, ended, number, started};
use crate::programs::ferrite;
use crate::server::{Server, json, ok, refused, run};

fn lost(stat: &Value) -> u64 {
    number(&stat["bytes"]["lost"])
}

/// Returns the number that a refusal asks for.
fn bytes_to_lose(said: &str) -> String {
    let number =
        said.split("--lose ").nth(1).and_then(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
    number.unwrap_or_else(|| panic!("no number: {said}")).into()
}

/// CA5: after an SSD was replaced and its pages have their second copies again, another old SSD may die.
#[test]
fn a_replaced_ssd_takes_the_copies_of_the_one_that_failed() {
    let mut cached = CachedDisk::new("", "fault:none:", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("512M", "24M", 1));
    let fio = started(cached.writing("256M", "96M", 2).arg("--rate_iops=6000"));
    let added =
        json(&["cache", "add-ssd", &cached.pool, "c", &format!("fault:none:{}", cached.sized("s2", SSD_BYTES))]);
    assert_eq!((&added["id"], &added["state"]), (&2.into(), &"online".into()), "{added}");
    cached.fault("s0", "error@from=0");
    let failed = |id: usize, stat: &Value| stat["ssds"][id]["state"] == "failed";
    let stat = cached.await_stat("all has two copies", |stat| failed(0, stat) && stat["bytes"]["single"] == 0);
    assert!(number(&stat["collect"]["repaired"]) > 0 && number(&stat["bytes"]["dirty"]) > 0, "{stat}");
    cached.fault("s1", "error@from=0");
    ended(fio);
    let stat = cached.await_stat("the other one failed", |stat| failed(1, stat) && stat["bytes"]["single"] == 0);
    assert_eq!(lost(&stat), 0, "{stat}");
    run(&mut cached.checking("256M", "96M", 2));
    cached.assert_sound();
    cached.server().interrupt();
}

/// CA20: when both SSDs die at once, exactly what `stat` counts as lost is an error to read, and writes go on.
#[test]
fn reads_fail_of_lost_blocks_alone_and_writes_go_on() {
    let mut cached = CachedDisk::new("", "fault:none:", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("96M", "24M", 1));
    ["s0", "s1"].iter().for_each(|ssd| cached.fault(ssd, "error@from=0"));
    let failed_reads = || {
        let read = ended(started(&mut cached.fio(&["--rw=read", "--size=96M", "--continue_on_error=read"])));
        number(&read["jobs"][0]["total_err"])
    };
    failed_reads();
    // These writes are the first that the disk gets.
    run(&mut cached.writing("96M", "4M", 9));
    let both = |stat: &Value| [0, 1].iter().all(|id| stat["ssds"][id]["state"] == "failed");
    let is_still = |stat: &Value| both(stat) && number(&stat["bytes"]["dirty"]) == lost(stat);
    let stat = cached.await_stat("both failed, and nothing waits", is_still);
    assert!(lost(&stat) > 12 << 20, "{stat}");
    assert_eq!(failed_reads() * 4096, lost(&stat), "{stat}");
    let said = refused(ferrite().args(["cache", "clean", &cached.pool, "c"]), 1);
    assert!(said.contains(&format!("{} dirty bytes are lost", lost(&stat))), "{said}");
    cached.assert_sound();
    // New SSDs take new data, and send it to the disk, although the oldest data cannot be read.
    for name in ["s2", "s3"] {
        ok(&["cache", "add-ssd", &cached.pool, "c", &cached.sized(name, SSD_BYTES)]);
    }
    run(&mut cached.writing("96M", "8M", 3));
    refused(ferrite().args(["cache", "clean", &cached.pool, "c"]), 1);
    run(&mut cached.fio(&["--rw=write", "--bs=256k", "--size=96M"]));
    ok(&["cache", "clean", &cached.pool, "c"]);
    assert_eq!((failed_reads(), lost(&cached.stat())), (0, 0));
    cached.assert_sound();
    cached.server().interrupt();
}

/// CA13: a pool of an earlier time than its SSDs is refused, and its way out asks for the number of bytes that it loses.
#[test]
fn a_pool_from_an_older_backup_is_refused_until_its_content_is_forgotten() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("64M", "8M", 1));
    let image = cached.text("image");
    ok(&["pool", "backup", &cached.pool, &image]);
    run(&mut cached.writing("64M", "8M", 2));
    cached.server().interrupt();
    fs::remove_file(&cached.pool).expect("removed");
    ok(&["pool", "restore", &image, &cached.pool]);
    cached.start();
    let server = cached.server();
    let said = server.lines.join("\n");
    assert!(said.contains("failed") && said.contains("later") && said.contains("ferrite cache forget"), "{said}");
    refused(ferrite().args(["cache", "stat", &cached.pool, "c"]), 1);
    let forget = |scope: &[&str]| {
        let mut forget = ferrite();
        forget.args(["cache", "forget", &cached.pool, "c"]).args(scope);
        forget
    };
    let bytes = bytes_to_lose(&refused(&mut forget(&["--clean"]), 1));
    assert_eq!(bytes, (8 << 20).to_string());
    let said = refused(&mut forget(&["--lose", "4096"]), 1);
    assert_eq!(bytes_to_lose(&said), bytes, "{said}");
    run(&mut forget(&["--lose", &bytes]));
    run(&mut cached.verifying("16M"));
    server.interrupt();
    cached.assert_sound();
}

/// CA11, CA13: SSDs in each other's places are not used, give no wrong byte, and are right again in their own places.
#[test]
fn swapped_ssds_give_no_wrong_byte() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("256M", "24M", 1));
    cached.server().interrupt();
    let swap = || {
        for (from, to) in [("s0", "t"), ("s1", "s0"), ("t", "s1")] {
            fs::rename(cached.path(from), cached.path(to)).expect("renamed");
        }
    };
    swap();
    let mut swapped = Server::start(cached.pool.as_ref(), &["--no-attach", "--no-disk"]);
    let stat = cached.stat();
    for id in [0, 1] {
        assert!(stat["ssds"][id]["why"].as_str().is_some_and(|why| why.contains("another member")), "{stat}");
    }
    let output = cached.checking("256M", "24M", 1).output().expect("fio runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !said.contains("verify"), "blocks cannot be read, and none is wrong: {said}");
    swapped.interrupt();
    swap();
    swapped = Server::start(cached.pool.as_ref(), &["--no-attach", "--no-disk"]);
    let stat = cached.stat();
    assert_eq!((&stat["ssds"][0]["state"], lost(&stat)), (&"online".into(), 0), "{stat}");
    run(&mut cached.checking("256M", "24M", 1));
    swapped.interrupt();
    cached.assert_sound();
}

/// CA11: an older copy of an SSD is not read, and comes back empty.
#[test]
fn an_older_copy_of_an_ssd_gives_no_wrong_byte() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("256M", "24M", 1));
    cached.server().interrupt();
    fs::copy(cached.path("s1"), cached.path("copy")).expect("copied");
    cached.start();
    run(&mut cached.writing("256M", "24M", 2));
    cached.server().interrupt();
    fs::rename(cached.path("copy"), cached.path("s1")).expect("renamed");
    let server = Server::of(ferrite().args(["disk", "serve", &cached.pool, "c"]), cached.pool.as_ref(), "online");
    assert!(server.lines.iter().any(|line| line.contains("1 of 2 SSDs online")), "{:?}", server.lines);
    server.interrupt();
    cached.start();
    let stat = cached.stat();
    let why = stat["ssds"][1]["why"].as_str();
    assert!(why.is_some_and(|why| why.contains("an older copy")), "{stat}");
    run(&mut cached.checking("256M", "24M", 2));
    let back = json(&["cache", "online", &cached.pool, "c", "1"]);
    assert_eq!((&back["content"], &back["state"]), (&"empty".into(), &"online".into()), "{back}");
    run(&mut cached.checking("256M", "24M", 2));
    assert_eq!(lost(&cached.stat()), 0);
    cached.assert_sound();
    cached.server().interrupt();
}

/// A copy of a pool whose cache is served finds the members in use, and disturbs nothing.
#[test]
fn a_second_server_of_the_members_is_refused() {
    let mut cached = CachedDisk::new("", "", &KEEPS_DIRTY).serve();
    run(&mut cached.writing("64M", "8M", 1));
    let copy = cached.text("other");
    fs::copy(&cached.pool, &copy).expect("copied");
    let second = Server::start(copy.as_ref(), &["--no-attach", "--no-disk"]);
    let said = second.lines.join("\n");
    assert!(said.contains("0 of 2 SSDs online") && said.contains("not served"), "{said}");
    second.interrupt();
    for member in ["disk", "s0"] {
        let said =
            refused(ferrite().args(["disk", "export", &cached.text(member), "--unix", &cached.text("socket")]), 1);
        assert!(said.contains("of a cache of pool"), "{said}");
    }
    run(&mut cached.checking("64M", "8M", 1));
    cached.server().interrupt();
    assert_eq!(fs::metadata(cached.path("disk")).expect("there").len(), DISK_BYTES);
}
