use super::*;

#[test]
fn what_the_kernel_says_is_understood() {
    assert_eq!(of_meminfo("MemTotal: 9 kB\nMemAvailable:     123 kB\n"), Some(123 << 10));
    assert_eq!(of_meminfo("MemTotal: 9 kB\n"), None);
    assert_eq!([group_left("max\n", "7\n"), group_left("9\n", "7\n"), group_left("7", "9")], [None, Some(2), Some(0)]);
}

#[test]
fn what_no_machine_has_is_refused_and_a_page_is_not() {
    assert!(ensure(4096, "a page").is_ok());
    let refused = ensure(u64::MAX, "everything").expect_err("too much").to_string();
    assert!(refused.starts_with("everything takes 17592186044416 MiB of memory, and "), "{refused}");
}
