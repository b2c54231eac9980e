//! The order in which subjects, and what they need, are dropped.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

/// Notes its name when it is dropped.
struct Noted(&'static str, Rc<RefCell<Vec<&'static str>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// A folder that goes before the mount in it leaves both behind.
#[test]
fn subjects_go_first_and_then_the_latest_of_what_they_need() {
    let dropped = Rc::new(RefCell::new(Vec::new()));
    let mut field = Field::default();
    field.keep(Noted("folder", Rc::clone(&dropped)));
    field.enter("ours", Noted("our subject", Rc::clone(&dropped)));
    field.keep(Noted("mount", Rc::clone(&dropped)));
    field.enter("peer", Noted("the peer", Rc::clone(&dropped)));
    drop(field);
    assert_eq!(*dropped.borrow(), ["our subject", "the peer", "mount", "folder"]);
}

#[test]
fn a_subject_is_found_by_its_name() {
    let mut field = Field::default();
    field.enter("ours", 1);
    field.enter("peer", 2);
    assert_eq!((field.get("peer"), field.get("nobody")), (Some(&2), None));
}
