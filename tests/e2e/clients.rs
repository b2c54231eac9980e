//! Real clients of a served disk, with every guard and every scheme.

use std::path::Path;

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, run};

fn served(pool: &Path, more: &[&str]) -> Server {
    let mut command = ferrite();
    command.args(["disk", "serve"]).arg(pool).arg("d").arg("--unix").arg(format!("{}.nbd", pool.display())).args(more);
    Server::of(&mut command, pool, "d is served at")
}

fn made(pool: &Path) {
    ok(&["pool", "create", pool.to_str().expect("text"), "--size", "96M"]);
    ok(&["disk", "create", pool.to_str().expect("text"), "d", "--size", "64M", "--checksum"]);
}

#[test]
fn fio_verifies_what_many_jobs_wrote_with_every_guard_and_scheme() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    made(&pool);
    let keys = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" ospke"));
    let ways: [&[&str]; 15] = [
        &[],
        &["--in-place"],
        &["--guard", "none", "--scheme", "flush"],
        &["--guard", "pagetable"],
        &["--guard", "private"],
        &["--guard", "keys", "--scheme", "clwb"],
        &["--guard", "keys=strict"],
        &["--guard", "none", "--scheme", "clflushopt"],
        &["--guard", "none", "--scheme", "clflush"],
        &["--guard", "none", "--scheme", "writeback", "--in-place"],
        &["--guard", "none", "--scheme", "writeback-all"],
        &["--guard", "buffered", "--in-place"],
        &["--guard", "buffered", "--buffers", "4", "--buffer-size", "2M", "--no-batch", "--high", "0.5"],
        &["--verify", "--stages"],
        &["--verify", "--in-place", "--guard", "none"],
    ];
    for way in ways {
        if way.iter().any(|word| word.starts_with("keys")) && !keys {
            println!("skipped: {way:?}: this processor has no protection keys");
            continue;
        }
        let server = served(&pool, way);
        let fio = [
            "--name=verify",
            "--ioengine=nbd",
            "--rw=randrw",
            "--bsrange=512-128k",
            "--size=16M",
            "--iodepth=16",
            "--numjobs=4",
            "--offset_increment=16M",
            "--verify=crc32c",
            "--verify_state_save=0",
            "--do_verify=1",
            "--verify_fatal=1",
            "--fsync=64",
            "--thread",
            "--io_size=4M",
        ];
        run(client("fio").current_dir(folder.path()).args(fio).arg(format!("--uri={}", server.uri("d"))));
        let stat = json(&["disk", "stat", pool.to_str().expect("text"), "d"]);
        assert!(stat["open"]["errors"] == 0 && stat["open"]["writes"].as_u64() > Some(0), "{way:?}: {stat}");
        assert_eq!(stat["reached_at"][0], server.uri("d"), "{way:?}");
        server.interrupt();
        assert_sound(&pool);
    }
}

#[test]
fn a_byte_that_changes_behind_a_disk_is_an_error_and_not_an_answer() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    made(&pool);
    let server = served(&pool, &[]);
    run(client("qemu-io").args(["-f", "raw", "-c", "write -P 0xA7 1M 1M", &server.uri("d")]));
    server.interrupt();
    let mut bytes = std::fs::read(&pool).expect("read");
    let at = bytes.windows(4096).position(|block| block == [0xA7; 4096]).expect("the data is in the pool");
    bytes[at + 100] ^= 1;
    std::fs::write(&pool, &bytes).expect("written");
    let said = crate::server::refused(ferrite().args(["pool", "check"]).arg(&pool), 1);
    assert!(said.contains("\"d\""), "{said}");
    let server = served(&pool, &[]);
    let read =
        client("qemu-io").args(["-f", "raw", "-c", "read -P 0xA7 1M 1M", &server.uri("d")]).output().expect("runs");
    assert!(!read.status.success() || String::from_utf8_lossy(&read.stdout).contains("error"), "{read:?}");
    run(client("qemu-io").args([
        "-f",
        "raw",
        "-c",
        "write -P 0xA7 1M 1M",
        "-c",
        "read -P 0xA7 1M 1M",
        &server.uri("d"),
    ]));
    server.interrupt();
    assert_sound(&pool);
}

#[test]
fn images_copied_in_come_back_equal_by_nbdcopy_and_qemu() {
    let folder = folder(true);
    let (pool, image) = (folder.path().join("pool"), folder.path().join("image"));
    made(&pool);
    let mut bytes = vec![0; 64 << 20];
    for (i, word) in bytes.chunks_mut(4096).enumerate().filter(|(i, _)| i % 3 != 0) {
        word.fill((i % 255) as u8);
    }
    std::fs::write(&image, &bytes).expect("written");
    let server = served(&pool, &[]);
    let uri = server.uri("d");
    run(client("nbdcopy").arg("--flush").arg(&image).arg(&uri));
    run(client("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&image).arg(&uri));
    let back = folder.path().join("back");
    run(client("qemu-img").args(["convert", "-f", "raw", "-O", "raw", &uri]).arg(&back));
    assert!(std::fs::read(&back).expect("read") == bytes);
    let info = run(client("nbdinfo").args(["--json", &uri]));
    for word in ["\"is_read_only\": false", "\"can_multi_conn\": true", "\"can_fua\": true", "\"can_fast_zero\": true"]
    {
        assert!(info.contains(word), "{word} is missing from {info}");
    }
    assert!(run(client("nbdinfo").args(["--map", &uri])).contains("zero"));
    server.interrupt();
    let server = served(&pool, &["--read-only"]);
    assert!(run(client("nbdinfo").args(["--json", &server.uri("d")])).contains("\"is_read_only\": true"));
    run(client("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&image).arg(server.uri("d")));
}

/// Returns the TCP address that a server printed after `scheme://`.
fn tcp_uri(server: &Server, scheme: &str) -> String {
    let mut words = server.lines.iter().flat_map(|line| line.split_whitespace());
    let address = words.find_map(|word| word.strip_prefix(scheme)?.strip_prefix("://"));
    address.unwrap_or_else(|| panic!("no {scheme} in {:?}", server.lines)).to_owned()
}

#[test]
fn disks_are_served_by_tcp_to_who_is_allowed_and_by_tls_where_asked() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let up = |more: &[&str]| {
        let tcp = ["--no-attach", "--size", "64M", "--disk", "d=16M", "--tcp", "127.0.0.1:0"];
        Server::start(&pool, &[&tcp[..], more].concat())
    };
    let size = |uri: String| client("nbdinfo").args(["--size", &uri]).output().expect("nbdinfo runs");
    let server = up(&["--allow", "127.0.0.0/8"]);
    let report = size(format!("nbd://{}", tcp_uri(&server, "nbd")));
    assert_eq!(String::from_utf8_lossy(&report.stdout).trim(), (16 << 20).to_string());
    server.interrupt();
    let server = up(&["--allow", "10.1.2.3"]);
    assert!(!size(format!("nbd://{}", tcp_uri(&server, "nbd"))).status.success(), "not allowed");
    server.interrupt();
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
    let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    run(client("openssl").args(make).args(names).args(["-keyout", &path("key.pem"), "-out", &path("ca-cert.pem")]));
    let server = up(&["--tls-cert", &path("ca-cert.pem"), "--tls-key", &path("key.pem")]);
    let uri = tcp_uri(&server, "nbds");
    let report = json(&["disk", "stat", &path("pool"), "d"]);
    assert_eq!(report["reached_at"][1], format!("nbds://{uri}"), "it is told in one way: {report}");
    assert!(!size(format!("nbd://{uri}")).status.success(), "a plain client is turned away");
    let secured = size(format!("nbds://{uri}?tls-certificates={}", folder.path().display()));
    assert_eq!(String::from_utf8_lossy(&secured.stdout).trim(), (16 << 20).to_string(), "{secured:?}");
    server.interrupt();
    for wrong in [&["--allow", "1.2.3.4"][..], &["--tcp", "nowhere"], &["--tcp", "127.0.0.1:0", "--tls-cert", "x"]] {
        crate::server::refused(ferrite().args(["disk", "serve", "p", "d"]).args(wrong), 2);
    }
}
