use super::*;

#[test]
fn libraries_not_in_use_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = SystemTime::now() - 2 * KEPT;
    let made = |name: &str, used: SystemTime| {
        let path = folder.path().join(name);
        let file = File::create(&path).expect("made");
        file.set_modified(used).expect("set");
        path
    };
    let gone = made("libferrite_preload-1.so", old);
    let kept = [made("libferrite_preload-2.so", SystemTime::now()), made("other.so", old)];
    prune(folder.path()).expect("pruned");
    assert!(!gone.exists() && kept.iter().all(|path| path.exists()));
}
