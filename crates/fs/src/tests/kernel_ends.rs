//! What a kernel knows of the ends of files that are appended to directly.

use std::cell::RefCell;
use std::sync::Arc;

use super::client_house::*;
use super::client_leases::Copied;
use super::{Bug, plant};
use crate::client::FsSession;
use crate::share::layout::request::LeaseAccess;

/// Before the kernel has to forget a file it learns the end that was appended directly.
#[test]
fn fg8_the_end_is_known_before_copies_are_forgotten() {
    let house = House::new();
    let (one, other) = (house.client(), house.client());
    let (ino, copies) = (house.file("log", b""), Arc::new(Copied::default()));
    house.fs.set_copies(Arc::<Copied>::clone(&copies));
    house.fs.hold(ino).expect("the kernel knows it");
    let ends = RefCell::new(Vec::new());
    let look = || ends.borrow_mut().push((house.fs.getattr(ino).expect("told").size, copies.forgotten.lock().len()));
    let lease = |client: &Arc<FsSession>, access| client.lease_with(ino, access, 0, &look).expect("leased");
    let first = lease(&one, LeaseAccess::Append);
    first.append(b"one").expect("appended");
    assert!(ends.borrow().is_empty(), "nobody has appended before");
    let second = lease(&other, LeaseAccess::Write);
    assert_eq!(*ends.borrow(), [(3, 1)], "the end of who appended until now, before it is forgotten again");
    drop((first, second));
    lease(&other, LeaseAccess::Append).append(b"two").expect("appended");
    assert_eq!(ends.borrow().len(), 1, "known since");
    let reading = lease(&one, LeaseAccess::Read);
    assert_eq!(ends.borrow().len(), 1, "nothing is forgotten for who reads");
    drop(reading);
    drop(lease(&one, LeaseAccess::Write));
    assert_eq!(*ends.borrow(), [(3, 1), (6, 3)]);
}

/// Returns true if a client that wants to append waits for the kernel, which may be within an append and make another
/// request for the rest of it.
fn waits_for_the_kernel(bug: Option<Bug>) -> bool {
    let house = House::new();
    let (client, ino) = (house.client(), house.file("log", b""));
    house.fs.hold(ino).expect("the kernel knows it");
    let looks = RefCell::new(0);
    let begins = || {
        plant(bug);
        house.fs.expect_more(ino);
        plant(None);
    };
    let begins_another = || {
        *looks.borrow_mut() += 1;
        begins();
    };
    begins();
    let is_refused = client.lease_with(ino, LeaseAccess::Append, 0, &begins_another).is_err();
    let look = || *looks.borrow_mut() += 1;
    let is_let_in = !is_refused || client.lease_with(ino, LeaseAccess::Append, 0, &look).is_ok();
    assert!(is_let_in, "it has come to an end");
    is_refused && *looks.borrow() == 2
}

#[test]
fn fg11_who_is_to_append_waits_for_the_kernels_appends_first() {
    assert!(waits_for_the_kernel(None), "FG11");
}

#[test]
fn canary_who_appends_amid_an_append_of_the_kernel_is_found() {
    assert!(!waits_for_the_kernel(Some(Bug::HastyAppender)));
}
