use std::os::unix::fs::symlink;

use super::*;

fn view(path: &Path) -> NamespaceView {
    NamespaceView::of(&NamedPlaces::of_paths([path]))
}

fn shared(view: &NamespaceView, path: &Path) -> Result<(), Failure> {
    view.ensure_shared(&NamedPlaces::of_paths([path]))
}

#[test]
fn a_path_is_the_same_place_if_its_folder_is_and_what_is_below_has_the_same_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("real")).expect("made");
    symlink(at("real"), at("link")).expect("linked");
    symlink("real/image", at("to image")).expect("linked");
    let image = view(&at("real/image"));
    for same in ["real/image", "link/image", "to image"] {
        assert_eq!(shared(&image, &at(same)), Ok(()), "{same}");
    }
    for other in ["image", "real/other", "real/image/x", "gone/image"] {
        let said = shared(&image, &at(other)).expect_err(other).message;
        assert!(said.contains("another place"), "{said}");
    }
    // A path that does not exist yet is compared, too.
    let new = view(&at("new/image"));
    assert!(shared(&new, &at("new/image")).is_ok() && shared(&new, &at("image")).is_err());
}

#[test]
fn a_caller_that_could_not_look_is_believed() {
    let text = serde_json::from_str::<NamespaceView>(r#"{"places": [], "mounts": null}"#).expect("it is read");
    assert_eq!(text, NamespaceView::default());
    assert_eq!(shared(&text, "/image".as_ref()), Ok(()));
}
