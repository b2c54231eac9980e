//! The description of this machine, and complaints about a busy one.

use super::*;

/// A reader of figures from a virtual machine must see how much of it the host took.
#[test]
fn what_the_host_took_is_a_part_of_all_time() {
    let before = CpuTicks::of("cpu  100 0 100 100 0 0 0 50 7 7\ncpu0 1 2 3\n");
    let after = CpuTicks::of("cpu  150 0 120 110 0 0 0 70 9 9\n");
    assert_eq!(after.stolen_since(before), 0.2);
    assert_eq!(before.stolen_since(before), 0.0);
    assert_eq!(CpuTicks::of("what").stolen_since(CpuTicks::of("")), 0.0, "a kernel that tells nothing took nothing");
}

#[test]
fn this_machine_is_described() {
    let machine = MachineState::here();
    assert!(!machine.processor.is_empty() && machine.cores > 0 && machine.memory_bytes > 64 << 20, "{machine:?}");
    assert!(machine.kernel.starts_with(|digit: char| digit.is_ascii_digit()), "{}", machine.kernel);
    assert_eq!(machine.cores, cores());
}

/// Figures of a busy machine mislead unless the verdict says so.
#[test]
fn a_busy_machine_is_complained_about() {
    let quiet = MachineState { load: 0.0, cores: 4, ..MachineState::here() };
    assert!(!quiet.complaints().any(|text| text.contains("busy")));
    let busy = MachineState { load: 2.1, ..quiet };
    let text = busy.complaints().next().expect("half of it is busy");
    assert_eq!(text, "others kept this machine busy (load 2.1): take the figures again");
}

#[test]
fn preemptions_of_this_thread_never_fall() {
    let before = preemptions().expect("Linux tells");
    std::thread::yield_now();
    assert!(preemptions().expect("Linux tells") >= before);
}
