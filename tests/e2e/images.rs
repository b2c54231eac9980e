//! Disk images in the formats of virtual machines, copied into disks.

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};

/// Makes an image of `format` at `path` that holds the raw disk at `from`.
fn convert(from: &str, format: &str, path: &str) {
    run(client("qemu-img").args(["convert", "-f", "raw", "-O", format, from, path]));
}

/// A copy of a virtual machine's image contains the disk in the image, in a disk that `copy` makes.
#[test]
fn images_of_virtual_machines_are_copied_as_what_they_hold() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (raw, pool, back) = (path("raw"), path("pool"), path("back"));
    let mut bytes = vec![0; 6 << 20];
    bytes[1 << 20..2 << 20].fill(7);
    bytes[(6 << 20) - 512..].fill(9);
    std::fs::write(&raw, &bytes).expect("written");
    let server = Server::start(pool.as_ref(), &["--no-attach", "--no-disk", "--size", "64M"]);
    for format in ["qcow2", "vmdk", "vhdx"] {
        let image = path(&format!("image, \"{format}\""));
        convert(&raw, format, &image);
        let copy = ferrite().args(["disk", "copy", &image, &format!("{pool}:{format}")]).output().expect("it ran");
        let said = String::from_utf8_lossy(&copy.stderr).into_owned();
        assert!(copy.status.success() && said.contains("made a disk of"), "{format}: {said}");
        ok(&["disk", "copy", &format!("{pool}:{format}"), &back]);
        let found = std::fs::read(&back).expect("read");
        assert!(found[..bytes.len()] == bytes && found[bytes.len()..].iter().all(|byte| *byte == 0), "{format}");
        std::fs::remove_file(&back).expect("removed");
        ok(&["disk", "copy", "--raw", &image, &back]);
        let is_same = std::fs::read(&back).expect("read").starts_with(&std::fs::read(&image).expect("read"));
        assert!(is_same, "{format}: --raw takes the file's bytes");
        std::fs::remove_file(&back).expect("removed");
        let mut without = ferrite();
        without.env("PATH", folder.path()).args(["disk", "copy", &image, &back]);
        let said = refused(&mut without, 1);
        assert!(said.contains("apt install qemu-utils") && !folder.path().join("back").exists(), "{said}");
    }
    server.interrupt();
    assert_sound(pool.as_ref());
}

/// Such an image would make the reader copy whatever file the image names.
#[test]
fn an_image_that_names_another_file_is_refused() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (secret, pool) = (path("secret"), path("pool"));
    std::fs::write(&secret, vec![3; 1 << 20]).expect("written");
    ok(&["pool", "create", &pool, "--size", "32M"]);
    let made = |name: &str, words: &[&str]| {
        run(client("qemu-img").args(["create", "-q"]).args(words).arg(path(name)));
        path(name)
    };
    let qcow2 = made("backed", &["-f", "qcow2", "-F", "raw", "-b", &secret]);
    convert(&secret, "vmdk", &path("base"));
    let vmdk = made("delta", &["-f", "vmdk", "-F", "vmdk", "-b", &path("base")]);
    for image in [qcow2, vmdk] {
        let said = refused(ferrite().args(["disk", "copy", &image, &format!("{pool}:d")]), 1);
        assert!(said.contains("that names") && said.contains("qemu-img convert"), "{said}");
        assert_eq!(json(&["disk", "list", &pool]), serde_json::json!([]), "nothing is made for it");
    }
    assert_eq!(std::fs::read(&secret).expect("read"), vec![3; 1 << 20]);
}
