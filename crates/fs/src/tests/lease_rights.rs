//! What the owner lends for writing, and what not.

use std::sync::Arc;

use ferrite_pool::grant::GrantId;
use ferrite_pool::{Caller, PidFd};

use super::client_house::*;
use super::support::{BOOT, NAME};
use crate::share::layout::request::{ClientRequest, LeaseAccess};
use crate::share::layout::shared_state::LAYOUT;
use crate::tests::stop_at;
use crate::{FileSystem, Ino, SetAttr, SetXattr};

/// Ways to give a program rights of its own.
const WAYS: [fn(&FileSystem, Ino); 3] = [
    |fs, ino| set_mode(fs, ino, 0o4755),
    |fs, ino| set_mode(fs, ino, 0o2755),
    |fs, ino| fs.set_xattr(ino, b"security.capability", &[1; 20], SetXattr::Any).expect("set"),
];

fn set_mode(fs: &FileSystem, ino: Ino, mode: u16) {
    fs.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).expect("set");
}

/// Only who writes by the kernel takes such rights away.
#[test]
fn fg9_programs_with_rights_of_their_own_are_written_through_the_mount() {
    let house = House::new();
    let client = house.client();
    for (nth, give) in WAYS.iter().enumerate() {
        let ino = house.file(&format!("program {nth}"), &[1; 100]);
        drop(client.lease(ino, LeaseAccess::Append).expect("a plain file"));
        give(&house.fs, ino);
        assert!(
            [LeaseAccess::Write, LeaseAccess::Append].iter().all(|access| client.lease(ino, *access).is_err()),
            "{nth}"
        );
        assert!(client.lease(ino, LeaseAccess::Read).is_ok());
    }
}

/// While the owner looks at it, and has seen nothing that keeps it from lending it.
#[test]
fn fg9_a_program_that_is_given_rights_while_it_is_lent_is_not() {
    let house = House::new();
    let pid = std::process::id();
    let caller = Caller { pid, uid: 0, process: PidFd::open(pid).expect("it lives"), connection: u64::MAX };
    let answer = |request| house.fs.answer(BOOT, &caller, &request);
    let opened =
        answer(ClientRequest::DirectOpen { name: NAME.into(), layout: LAYOUT, held: None }).expect("let in").value;
    let session: GrantId = serde_json::from_value(opened["session"].clone()).expect("a grant");
    let lease = |ino: Ino, access| {
        let (name, ino, ahead_bytes, seen_ends) = (NAME.into(), ino.0, 0, None);
        answer(ClientRequest::DirectLease { name, session, ino, access, ahead_bytes, seen_ends })
    };
    for (nth, give) in WAYS.iter().enumerate() {
        for access in [LeaseAccess::Write, LeaseAccess::Append] {
            let ino = house.file(&format!("program {nth} {access:?}"), &[1; 100]);
            let fs = Arc::clone(&house.fs);
            let point = stop_at("fs: file found plain", move || {
                give(&fs, ino);
                fs.end_writing(ino);
            });
            assert!(lease(ino, access).is_err(), "FG9: {access:?} by way {nth}");
            assert!(!house.fs.is_written_directly(ino));
            drop(point);
            lease(ino, LeaseAccess::Read).expect("and nothing is left of it");
        }
    }
}
