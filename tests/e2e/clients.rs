//! Real clients of a served disk, with every guard and scheme.

use std::path::Path;

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, ok, run};

fn served(pool: &Path, more: &[&str]) -> Server {
    let mut command = ferrite();
    command.args(["disk", "serve"]).arg(pool).arg("d").arg("--unix").arg(format!("{}.nbd", pool.display())).args(more);
    Server::of(&mut command, pool, "d is served at")
}

fn made(pool: &Path) {
    ok(&["pool", "create", pool.to_str().expect("text"), "--size", "96M"]);
    ok(&["disk", "create", pool.to_str().expect("text"), "d", "--size", "64M"]);
}

#[test]
fn fio_verifies_what_many_jobs_wrote_with_every_guard_and_scheme() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    made(&pool);
    let keys = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" ospke"));
    let ways: [&[&str]; 10] = [
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
            "--do_verify=1",
            "--verify_fatal=1",
            "--fsync=64",
            "--thread",
            "--io_size=4M",
        ];
        run(client("fio").current_dir(folder.path()).args(fio).arg(format!("--uri={}", server.uri("d"))));
        server.interrupt();
    }
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
