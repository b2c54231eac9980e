use super::*;

#[test]
fn services_are_refused_until_the_end() {
    let path = std::env::temp_dir().join(format!("ferrite-policy-{}", process::id()));
    let refused = RefusedStarts::begin(&path).expect("written");
    let status = Command::new("sh").arg(&path).status().expect("a shell");
    assert_eq!(status.code(), Some(101));
    // A second guard leaves the script of the first alone.
    drop(RefusedStarts::begin(&path).expect("there"));
    assert!(path.exists());
    drop(refused);
    assert!(!path.exists());
}
