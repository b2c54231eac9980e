use ferrite_guest::GuestCounts;

use super::*;

/// Returns the report about a closed guest.
pub fn usual() -> GuestReport {
    GuestReport {
        name: "g".into(),
        size: 64 << 20,
        pm_bytes: 8 << 20,
        min_bytes: 8 << 20,
        max_bytes: 8 << 20,
        weight: 100,
        disk: Some("/mnt/g.img".into()),
        counts: None,
        why: None,
        pid: None,
        pending: None,
    }
}

#[test]
fn a_guest_is_shown_with_where_its_pages_are() {
    let counts = GuestCounts { truth_frames: 256, copy_frames: 512, waits: 3, ..GuestCounts::default() };
    let guest = GuestReport { counts: Some(counts), why: Some("no space left".into()), ..usual() };
    let mapped = GuestReport { counts: None, pid: Some(77), ..guest.clone() };
    assert!(show_counts(&mapped).contains("mapped by process 77") && !show_counts(&mapped).contains("free"));
    let ranged = show_counts(&GuestReport { max_bytes: 16 << 20, ..guest.clone() });
    assert!(ranged.contains("8 MiB in the pool (8 MiB to 16 MiB, weight 100), on"), "{ranged}");
    let half = show_guest(&GuestReport { pending: Some("import".into()), ..usual() });
    assert!(half.contains("an import did not end"), "{half}");
    let text = show_counts(&guest);
    for part in
        ["64 MiB, 8 MiB in the pool, on /mnt/g.img", "1 MiB newer", "2 MiB that", "3 writes", "waits for its disk"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
