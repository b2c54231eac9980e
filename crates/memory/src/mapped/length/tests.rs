use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

#[test]
fn a_size_that_huge_pages_cannot_have_is_told() {
    // Where the machine has no pages of that size there is nothing to refuse.
    let Ok(file) = memfd_create("huge", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) else {
        return;
    };
    let file = File::from(file);
    let said = set_len(&file, 9 << 20).expect_err("refused").to_string();
    assert!(said.contains("pages of 2048 KiB") && said.contains("a multiple"), "{said}");
    set_len(&file, 10 << 20).expect("sized");
}
