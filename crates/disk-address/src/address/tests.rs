use std::fs;
use std::os::unix::fs::symlink;

use ferrite_disk::RamDisk;
use tempfile::TempDir;

use super::*;
use crate::drive_model::MODEL_NAMES;
use crate::tests::make_pool;

/// Makes a folder with a file `image`, a file `a:b` and a pool `a:pool`. Returns also a function that puts the folder
/// before each `@` of a text.
fn world() -> (TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["image", "a:b"] {
        fs::write(folder.path().join(name), [7; 512]).expect("written");
    }
    make_pool(&folder.path().join("a:pool"));
    let at = folder.path().to_str().expect("text").to_owned() + "/";
    (folder, move |text: &str| text.replace('@', &at))
}

/// If an address meant another disk than its form says, a copy would overwrite that disk.
#[test]
fn every_form_of_address_names_its_place() {
    let (_folder, at) = world();
    let in_pool = |pool: &str, name: &str| DiskPlace::InPool { pool: at(pool).into(), name: name.into() };
    let nbd = |uri: &str| DiskPlace::Nbd(uri.into());
    let rows = [
        ("@image", DiskPlace::File(at("@image").into())),
        ("@missing", DiskPlace::File(at("@missing").into())),
        // The file exists, so its colon separates nothing.
        ("@a:b", DiskPlace::File(at("@a:b").into())),
        ("@a:pool", DiskPlace::File(at("@a:pool").into())),
        // The pool exists, so only the colon behind it separates.
        ("@a:pool:d", in_pool("@a:pool", "d")),
        ("@a:pool:d:e", in_pool("@a:pool", "d:e")),
        // Neither exists: the last colon separates.
        ("@none:x:d", in_pool("@none:x", "d")),
        ("nbd+unix:///d?socket=/s", nbd("nbd+unix:///d?socket=/s")),
        ("nbd://host:99/d", nbd("nbd://host:99/d")),
        // The program that connects says what is wrong with a URI.
        ("http://host/", nbd("http://host/")),
    ];
    for (text, place) in rows {
        for model in ["", "hdd-7200:", "ssd-sata:", "ftl-page:", "ftl-fast:ssd-nvme-plp:"] {
            let text = format!("{model}{}", at(text));
            let address = DiskAddress::parse(&text).expect(&text);
            assert_eq!((&address.place, address.models.len()), (&place, model.matches(':').count()), "{text}");
            assert_eq!(address.to_string(), text);
        }
    }
}

/// An address that is stored has to name the same disk for a process in another folder.
#[test]
fn an_absolute_address_names_the_disk_from_every_folder() {
    let here = std::env::current_dir().expect("a folder");
    for (text, path) in [("image", "/image"), ("ssd-sata:fault:none:image", "/image"), ("./pool:d", "/pool:d")] {
        let address = DiskAddress::parse(text).expect(text).absolute().expect("absolute");
        assert!(address.to_string().ends_with(&format!("{}{path}", here.display())), "{text}: {address}");
        assert_eq!(DiskAddress::parse(&address.to_string()).expect("it parses again"), address, "{text}");
    }
    let uri = DiskAddress::parse("hdd-7200:nbd://h/d").expect("parsed").absolute().expect("absolute");
    assert_eq!(uri.to_string(), "hdd-7200:nbd://h/d");
}

#[test]
fn an_address_that_names_no_disk_is_refused_with_what_to_write() {
    let (_folder, at) = world();
    let rows: [(&str, &[&str]); 12] = [
        ("", &["is empty", "POOL:NAME"]),
        ("-", &["is not a disk", "./-"]),
        ("ftl-page:-", &["is not a disk"]),
        ("hdd-7200:", &["hdd-7200: has no disk behind it", "write hdd-7200:FILE"]),
        ("ssd-sata:ftl-fast:", &["ftl-fast: has no disk"]),
        ("hdd-7201:image", &["no simulated drive is called \"hdd-7201\"", "ssd-nvme-plp", "./hdd-7201"]),
        ("fault:drop", &["fault: needs a plan", "fault:PLAN:FILE"]),
        ("fault:drop:", &["fault: has no disk behind it"]),
        ("fault:melt:image", &["fault plan: ", "melt"]),
        (":d", &["the pool's path is empty", "name its file"]),
        ("@a:pool:", &["a:pool: names no disk of that pool", "a:pool:NAME", "`ferrite disk list`"]),
        ("@none:", &["none: names no disk"]),
    ];
    for (text, parts) in rows {
        let error = DiskAddress::parse(&at(text)).expect_err(text).to_string();
        assert!(parts.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{text:?}: {error}");
    }
    // A pool that is called like a drive can be named.
    let address = DiskAddress::parse("./hdd-7201:d").expect("a pool and a name");
    assert_eq!(address.place, DiskPlace::InPool { pool: "./hdd-7201".into(), name: "d".into() });
}

/// The help, the parser and the message about a wrong name have the same drives.
#[test]
fn every_drive_of_the_help_can_be_named() {
    for name in MODEL_NAMES {
        let parsed = DiskAddress::parse(&format!("{name}:image")).expect(name);
        assert_eq!(parsed.models.len(), 1, "{name}");
        assert!(ADDRESS_FORMS.contains(&format!("{name}:")) && DriveModel::resembles(name), "{name}");
    }
}

/// A faulty device may stand between the drive that is simulated over it and the file.
#[test]
fn a_disk_behind_a_fault_plan_fails_as_the_plan_says() {
    let address = DiskAddress::parse("ssd-nvme:fault:error@op=write,from=1:image").expect("parsed");
    assert_eq!((address.models.len(), &address.place), (2, &DiskPlace::File("image".into())));
    let disk = address.with_models(Arc::new(RamDisk::new(1 << 20))).expect("modeled").disk;
    disk.write(0, &[5; 4096], ferrite_disk::Access::Cached).expect("request 0");
    disk.write(0, &[6; 4096], ferrite_disk::Access::Cached).expect_err("a later request");
    let mut bytes = [0; 4096];
    disk.read(0, &mut bytes).expect("reads pass");
    assert_eq!(bytes, [5; 4096]);
}

/// Otherwise a copy would overwrite the disk that it reads.
#[test]
fn one_disk_is_known_under_its_other_names() {
    let (folder, at) = world();
    symlink("image", folder.path().join("link")).expect("linked");
    fs::hard_link(at("@a:pool"), at("@hard")).expect("linked");
    let is_same = |one: &str, other: &str| {
        let [one, other] = [one, other].map(|text| DiskAddress::parse(&at(text)).expect(text).place);
        assert_eq!(one.is_same(&other), other.is_same(&one));
        one.is_same(&other)
    };
    for other in ["@image", "@link", "@./image", "hdd-7200:@link", "ftl-page:ssd-sata:@image"] {
        assert!(is_same("@image", other), "{other}");
    }
    for other in ["@a:b", "@a:pool:image", "@missing", "nbd://image"] {
        assert!(!is_same("@image", other), "{other}");
    }
    assert!(is_same("@a:pool:d", "ssd-nvme:@hard:d") && !is_same("@a:pool:d", "@hard:e"));
    assert!(is_same("@missing", "hdd-5400:@missing") && is_same("nbd://h/d", "hdd-5400:nbd://h/d"));
}

/// A user compares drives by these counts: the disk keeps its bytes behind every drive, and each flash drive counts.
#[test]
fn a_disk_behind_its_drives_keeps_its_bytes_and_is_counted() {
    let address = DiskAddress::parse("ftl-page:ssd-nvme:ftl-fast:image").expect("parsed");
    let below: Arc<dyn Disk> = Arc::new(RamDisk::new(1 << 20));
    let ModeledDisk { disk, flash } = address.with_models(Arc::clone(&below)).expect("modeled");
    disk.write(8192, &[5; 4096], ferrite_disk::Access::Cached).expect("written");
    disk.flush().expect("flushed");
    let mut bytes = [0; 4096];
    below.read(8192, &mut bytes).expect("read");
    assert_eq!(bytes, [5; 4096]);
    let counts: Vec<_> = flash.iter().map(|drive| (drive.name, drive.figures().expect("sound").host_writes)).collect();
    assert_eq!(counts, [("ftl-fast", 1), ("ftl-page", 1)], "from the disk outwards");
    assert_eq!(flash[0].shape.extra_blocks, crate::EXTRA_BLOCKS_MIN, "a small drive has the least");
}
