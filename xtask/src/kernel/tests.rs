use super::*;

#[test]
fn the_package_behind_the_name_is_found() {
    let listed = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n  Suggests: x\n";
    assert_eq!(dependency(listed).as_deref(), Some("linux-image-6.1.0-56-cloud-amd64"));
    assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
}
