//! The speed of a restore of a kept image beside `cp`: run by hand, in release, on a quiet machine.
//!
//! ```text
//! KEPT_IMAGE=/disk/folder KEPT_POOL=/dev/shm/folder cargo test --release -p ferrite-pool --lib kept_speed -- --ignored --nocapture
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ferrite_memory::{MapOptions, Mapped};

use super::kept::FROZEN;
use super::*;

const GIB: u64 = 1 << 30;

fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| panic!("{variable} names a folder"))
}

fn mapped(path: &Path, bytes: u64) -> Arc<Mapped> {
    let _ = fs::remove_file(path);
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
    Arc::new(Mapped::map(file, &MapOptions::default()).unwrap())
}

/// Drops what the page cache has of the file at `path`.
fn make_cold(path: &Path) {
    let name = path.display();
    let done = Command::new("dd").args([format!("if={name}"), "iflag=nocache".into(), "count=0".into()]).output();
    assert!(done.unwrap().status.success());
}

#[test]
#[ignore = "a measurement of minutes"]
fn kept_speed() {
    let (image, pool) = (folder("KEPT_IMAGE").join("image"), folder("KEPT_POOL").join("pool"));
    let _ = fs::remove_file(&image);
    let memory = mapped(&pool, GIB + (64 << 20));
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let source = Pool::open(memory, BOOT).unwrap().0;
    let mut word = 1_u64;
    let value: Vec<u8> = (0..(63 << 20) / 8)
        .flat_map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            word.to_le_bytes()
        })
        .collect();
    for number in 0..16 {
        put(&source, &format!("value{number}"), &value);
    }
    let mut file = KeptFile::open(&source, &image, IMAGE).unwrap();
    file.save(&source, &FROZEN, &mut quiet).unwrap();
    drop((file, source));
    let copy = pool.with_extension("copy");
    for round in 0..6 {
        make_cold(&image);
        let _ = fs::remove_file(&copy);
        let start = Instant::now();
        assert!(Command::new("cp").args([&image, &copy]).status().unwrap().success());
        let copied = start.elapsed();
        let _ = fs::remove_file(&copy);
        make_cold(&image);
        let memory = mapped(&copy, GIB + (64 << 20));
        let start = Instant::now();
        restore_image(&image, &*memory, RestoreOptions::default(), &mut quiet).unwrap();
        let restored = start.elapsed();
        drop(memory);
        println!("{round}: cp {copied:?}, restore {restored:?}: {:.2}", copied.as_secs_f64() / restored.as_secs_f64());
    }
    for path in [&copy, &pool, &image] {
        let _ = fs::remove_file(path);
    }
}
