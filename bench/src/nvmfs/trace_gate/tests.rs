//! Lines that pass a gate.

use super::*;

#[test]
fn whole_lines_pass_behind_the_head_once_the_gate_is_open() {
    let (mut passed, is_open) = (Vec::new(), Arc::new(AtomicBool::new(false)));
    let mut gate = TraceGate::new(&mut passed, Arc::clone(&is_open));
    gate.write_all(b"version\nadd\nopen\n1 wri").expect("memory");
    is_open.store(true, Ordering::Relaxed);
    gate.write_all(b"te\n2 write\n").expect("memory");
    assert_eq!(passed, b"version\nadd\nopen\n2 write\n");
}
