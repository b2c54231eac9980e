use super::*;

#[test]
fn the_name_of_a_wheel_has_the_glibc_that_it_needs() {
    assert_eq!(glibc_minor("/manylinux_2_9_/ferrite_pm-0.1.0-cp39-abi3-manylinux_2_17_x86_64.whl\n"), Some(17));
    assert_eq!(glibc_minor("ferrite_pm-0.1.0-cp39-abi3-linux_x86_64.whl"), None);
}
