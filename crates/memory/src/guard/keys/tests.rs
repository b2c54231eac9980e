use super::*;

/// There are only 15.
#[test]
fn a_key_that_another_thread_was_faster_to_make_is_given_back() {
    if let Err(why) = Key::of(false) {
        return println!("skipped: {why}");
    }
    for _ in 0..40 {
        let made = allocate(DENY_WRITES).expect("those of before are there again");
        assert!(made.loads().are_own(), "closed the way the guard means it");
        made.give_back();
        assert!(!made.loads().are_own(), "what the kernel denies before anybody asks");
    }
}

/// As the kernel has it where a handler of a signal begins.
pub fn deny_all() {
    const ALL_BUT_THE_FIRST: u32 = 0x5555_5554;
    if DENYING_WRITES.get().is_some() {
        write_register(ALL_BUT_THE_FIRST);
    }
}
