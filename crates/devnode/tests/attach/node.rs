//! Every operation on the node reaches the disk (AT1).

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferrite_devnode::Way;
use ferrite_disk::{Access, Disk, FileDisk, FileDiskOptions};
use ferrite_memory::Span;

use crate::ram::{Asked, Fault, RamDisk};
use crate::stand::{Aligned, Stand, direct, run, text};

const MIB: u64 = 1 << 20;

fn attribute(device: &Path, name: &str) -> String {
    let path = Path::new("/sys/block").join(device.file_name().unwrap()).join(name);
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// AE3: a program that fsyncs the node returns after the disk's flush did, and the flush comes after the write.
#[test]
fn fsync_waits_for_the_disks_flush() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = stand.attach("fsync", &disk);
    disk.asked();
    disk.shut_flush();
    let returned = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = fs::OpenOptions::new().write(true).open(attached.device()).unwrap();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_all().unwrap();
            returned.store(true, Ordering::SeqCst);
        });
        disk.await_flush();
        assert!(!returned.load(Ordering::SeqCst), "fsync returned before the disk's flush");
        disk.open_flush();
    });
    let asked = disk.asked();
    let flushed = asked.iter().position(|one| *one == Asked::Flush).expect("a flush");
    let written = asked.iter().position(|one| *one == Asked::Write(Span::new(0, 4096))).expect("the write");
    assert!(written < flushed, "{asked:?}");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// A segment of a file system's SSD is one request, although the allocator's large buffers begin within a page.
#[test]
fn half_a_mebibyte_is_one_request() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = stand.attach("whole", &disk);
    let node = FileDisk::open(attached.device(), &FileDiskOptions::default()).unwrap();
    let bytes = vec![7; 520 << 10];
    let page = bytes.as_ptr().align_offset(4096);
    for offset in [0, 16] {
        disk.asked();
        node.write(0, &bytes[page + offset..][..512 << 10], Access::Cached).unwrap();
        assert_eq!(disk.asked(), [Asked::Write(Span::new(0, 512 << 10))], "{offset} bytes behind a page");
    }
    drop(node);
    attached.detach().unwrap();
    stand.assert_clean();
}

/// AE1: discarded spans, and spans zeroed with permission to deallocate, read as zeros although this disk's trim keeps
/// the content at the ends. Their space is freed. Spans zeroed without that permission keep their space. Over NBD a
/// discard promises no zeros, and before Linux 6.13 the driver does not support zeroing: the kernel writes zeros.
#[test]
fn discards_and_zeroes_reach_the_disk_and_read_as_zeros() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = stand.attach("discard", &disk);
    let device = text(attached.device());
    let span = Span::new(4096, MIB);
    let by_loop = attached.way() == Way::Loop;
    let zeroing = attribute(attached.device(), "queue/write_zeroes_max_bytes") != "0";
    for (command, asked) in [
        ("blkdiscard -o 4096 -l 1048576", Asked::Trim(span)),
        ("fallocate --punch-hole -o 4096 -l 1048576", Asked::Trim(span)),
        ("blkdiscard -z -o 4096 -l 1048576", Asked::Zero(span)),
    ] {
        if command.contains("punch") && !by_loop {
            continue;
        }
        direct(attached.device()).write_all_at(Aligned::filled(2 << 20, 0xA5).get(), 0).unwrap();
        disk.asked();
        let words: Vec<&str> = command.split(' ').chain([device.as_str()]).collect();
        run(words[0], &words[1..]);
        let is_zeroing = matches!(asked, Asked::Zero(_));
        assert!(
            disk.asked().contains(&asked) || is_zeroing && !zeroing,
            "the disk was not asked for {asked:?} by {command}"
        );
        assert_eq!(disk.has_space(Span::new(MIB / 2, 64 << 10)), is_zeroing, "the space after {command}");
        let mut read = Aligned::filled(2 << 20, 1);
        direct(attached.device()).read_exact_at(read.get(), 0).unwrap();
        let (before, after) = read.get().split_at(4096);
        assert!(before.iter().all(|byte| *byte == 0xA5), "{command} lost bytes before the span");
        let zeros = after[..1 << 20].iter().all(|byte| *byte == 0);
        assert!(zeros || !is_zeroing && !by_loop, "the span does not read as zeros after {command}");
        assert!(after[1 << 20..].iter().all(|byte| *byte == 0xA5), "{command} lost bytes after the span");
    }
    attached.detach().unwrap();
    stand.assert_clean();
}

/// AT1: the program gets the disk's error; the kernel's NBD driver converts any error into EIO.
#[test]
fn errors_reach_the_program() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = stand.attach("errors", &disk);
    let no_space = if attached.way() == Way::Nbd { libc::EIO } else { libc::ENOSPC };
    let file = direct(attached.device());
    let mut page = Aligned::filled(4096, 1);
    for (fault, errno) in [(Fault::Damaged, libc::EIO), (Fault::NoSpace, no_space), (Fault::Io(libc::EIO), libc::EIO)] {
        disk.fail_at(8 * MIB, fault);
        let write = file.write_all_at(page.get(), 8 * MIB).unwrap_err();
        assert_eq!(write.raw_os_error(), Some(errno), "writing with {fault:?}");
        let read = file.read_exact_at(page.get(), 8 * MIB).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(errno), "reading with {fault:?}");
        file.write_all_at(page.get(), 4 * MIB).expect("the rest of the disk still works");
    }
    drop(file);
    attached.detach().unwrap();
    stand.assert_clean();
}

/// The node has the disk's sector size, size and access rights, and direct I/O below it.
#[test]
fn the_node_has_the_disks_properties() {
    let Some(stand) = Stand::new() else { return };
    let mut disk = RamDisk::new(16 * MIB);
    (disk.sector_bytes, disk.read_only) = (4096, true);
    let mut attached = stand.attach("properties", &Arc::new(disk));
    let device = attached.device().to_owned();
    assert_eq!(attribute(&device, "queue/logical_block_size"), "4096");
    assert_eq!(attribute(&device, "size"), (16 * MIB / 512).to_string());
    assert_eq!(attribute(&device, "ro"), "1");
    if attached.way() == Way::Loop {
        assert_eq!(attribute(&device, "loop/dio"), "1");
        assert_eq!(attribute(&device, "queue/write_cache"), "write through", "a read-only node needs no flushes");
    }
    let written = fs::OpenOptions::new().write(true).open(&device).and_then(|mut file| file.write_all(&[1; 4096]));
    assert!(written.is_err(), "written to");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let locked = status.lines().any(|line| line.starts_with("VmLck:") && !line.ends_with(" 0 kB"));
    assert!(locked || attached.notes().iter().any(|note| note.contains("memory is not locked")), "{status}");
    attached.detach().unwrap();

    let mut attached = stand.attach("properties", &Arc::new(RamDisk::new(16 * MIB)));
    assert_eq!(attribute(attached.device(), "queue/logical_block_size"), "512");
    assert_eq!(attribute(attached.device(), "queue/write_cache"), "write back");
    attached.detach().unwrap();
    stand.assert_clean();
}

/// A disk that grows while it is attached shows its new size.
#[test]
fn the_node_grows_with_the_disk() {
    let Some(stand) = Stand::new() else { return };
    let disk = Arc::new(RamDisk::new(16 * MIB));
    disk.show(8 * MIB);
    let mut attached = stand.attach("grow", &disk);
    assert_eq!(attribute(attached.device(), "size"), (8 * MIB / 512).to_string());
    disk.show(16 * MIB);
    attached.grow().unwrap();
    assert_eq!(attribute(attached.device(), "size"), (16 * MIB / 512).to_string());
    direct(attached.device()).write_all_at(Aligned::filled(4096, 9).get(), 12 * MIB).unwrap();
    attached.detach().unwrap();
    let mut read = [0; 4096];
    disk.read(12 * MIB, &mut read).unwrap();
    assert_eq!(read, [9; 4096]);
    stand.assert_clean();
}
