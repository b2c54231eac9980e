//! Exports, imports and changes of the size by requests to the service.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use ferrite_disk::Access;
use ferrite_owner::{Error, PoolAccess, ServiceRequest};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Failure, FailureKind};
use serde_json::Value;

use super::service::{SIZE, ServedGuests, ask, block, create, disk, refused};
use crate::{GuestImageReport, GuestReport, GuestRequest};

fn export() -> GuestRequest {
    GuestRequest::Export { name: "g".into() }
}

fn import() -> GuestRequest {
    GuestRequest::Import { name: "g".into() }
}

fn set_size(size: u64, lose: Option<u64>) -> GuestRequest {
    GuestRequest::SetSize { name: "g".into(), size, lose }
}

/// Sends `request` with `file`. The call is cancelled at its first progress unless `goes_on`.
fn send(
    access: &mut PoolAccess,
    request: &GuestRequest,
    file: &File,
    goes_on: bool,
) -> Result<GuestImageReport, Failure> {
    let call = ServiceRequest::of(request).with_fds([file.as_fd()]);
    match access.call(call, &mut |_| goes_on) {
        Ok(reply) => Ok(serde_json::from_value(reply.value).expect("understood")),
        Err(Error::Failed(failure)) => Err(failure),
        Err(other) => panic!("{other}"),
    }
}

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).expect("written");
    file
}

fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().expect("there").len() as usize];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).expect("read");
    bytes
}

/// Returns pages that have their `byte` of their number, except for every third one.
fn content(byte: impl Fn(u64) -> u8) -> Vec<u8> {
    let of = |page: u64| if page.is_multiple_of(3) { 0 } else { byte(page) };
    (0..SIZE / PAGE).flat_map(|page| [of(page); PAGE as usize]).collect()
}

#[test]
fn the_content_of_a_guest_is_exported_and_replaced() {
    let world = ServedGuests::new();
    let mut access = world.open();
    ask::<GuestReport>(&mut access, &create("g", "d"));
    let front = disk(&access, "g");
    let first = content(|page| 1 + page as u8 % 100);
    front.write(0, &first, Access::Cached).expect("written");
    let image = file(&[]);
    let report = send(&mut access, &export(), &image, true).expect("in use by a client of the owner");
    assert!(read(&image) == first);
    assert_eq!((report.size_bytes, report.copied_bytes + report.zeroed_bytes), (SIZE, SIZE));
    assert!(image.metadata().expect("there").blocks() * 512 < SIZE, "zeros are holes");
    assert_eq!(send(&mut access, &import(), &image, true).expect_err("in use").kind, FailureKind::Busy);
    let stopped = send(&mut access, &export(), &file(&[]), false).expect_err("stopped");
    assert_eq!(stopped.kind, FailureKind::Cancelled);
    front.write(0, &[9; PAGE as usize], Access::Cached).expect("an export that ended holds up no write");
    drop(front);

    let second = content(|page| 101 + page as u8 % 100);
    let short = file(&second[..SIZE as usize / 2]);
    send(&mut access, &import(), &short, true).expect("imported");
    let expected = |page: u64| if page < SIZE / PAGE / 2 { second[(page * PAGE) as usize] } else { 0 };
    let front = disk(&access, "g");
    assert!((0..SIZE / PAGE).all(|page| block(&*front, page) == expected(page)));
    drop(front);
    let long = file(&vec![1; SIZE as usize + 1]);
    let failure = send(&mut access, &import(), &long, true).expect_err("too long");
    assert!(failure.message.contains("ferrite guest resize"), "{failure}");
    assert_eq!(block(&*disk(&access, "g"), 1), second[PAGE as usize], "nothing has changed");
    assert!(refused(&mut access, &import()).message.contains("no file"));
}

/// VC1: a cancelled import leaves a guest that can be imported into and removed, and nothing else.
#[test]
fn vc1_a_cancelled_import_says_the_way_out() {
    let world = ServedGuests::new();
    let mut access = world.open();
    for name in ["g", "h"] {
        ask::<GuestReport>(&mut access, &create(name, if name == "g" { "d" } else { "e" }));
    }
    let image = file(&content(|_| 7));
    let stopped = send(&mut access, &import(), &image, false).expect_err("stopped");
    assert_eq!(stopped.kind, FailureKind::Cancelled);
    assert!(stopped.message.contains("ferrite guest import"), "{stopped}");
    for request in [GuestRequest::Stat { name: "g".into() }, export(), set_size(SIZE / 2, None)] {
        let failure = refused(&mut access, &request);
        assert!(failure.message.contains("did not end"), "{failure}");
    }
    let listed: Vec<GuestReport> = ask(&mut access, &GuestRequest::List);
    let pending: Vec<Option<&str>> = listed.iter().map(|guest| guest.pending.as_deref()).collect();
    assert_eq!(pending, [Some("import"), None]);
    send(&mut access, &import(), &image, true).expect("imported");
    assert_eq!(block(&*disk(&access, "g"), 1), 7);
    send(&mut access, &import(), &image, false).expect_err("stopped");
    let remove = |lose| GuestRequest::Remove { name: "g".into(), lose };
    assert!(refused(&mut access, &remove(None)).message.contains("--lose 0"));
    ask::<Value>(&mut access, &remove(Some(0)));
}

#[test]
fn vs1_a_guest_changes_its_size_by_requests() {
    let world = ServedGuests::new();
    let mut access = world.open();
    ask::<GuestReport>(&mut access, &create("g", "d"));
    let front = disk(&access, "g");
    front.write(SIZE / 2, &[5; 2 * PAGE as usize], Access::Cached).expect("written");
    front.write(SIZE / 2 - PAGE, &[6; PAGE as usize], Access::Cached).expect("written");
    assert_eq!(refused(&mut access, &set_size(SIZE / 2, None)).kind, FailureKind::Busy);
    drop(front);
    let failure = refused(&mut access, &set_size(2 * SIZE, None));
    assert!(failure.message.contains("needs"), "{failure}");
    let failure = refused(&mut access, &set_size(SIZE / 2, None));
    assert!(failure.message.contains("--lose 8192"), "{failure}");
    let report: GuestReport = ask(&mut access, &set_size(SIZE / 2, Some(8192)));
    assert_eq!(report.size, SIZE / 2);
    let front = disk(&access, "g");
    assert_eq!((front.geometry().size, block(&*front, SIZE / 2 / PAGE - 1)), (SIZE / 2, 6));
    drop(front);
    let report: GuestReport = ask(&mut access, &set_size(SIZE / 2 - 4 * PAGE, Some(PAGE)));
    assert_eq!((report.size, report.pid), (SIZE / 2 - 4 * PAGE, None));
}
