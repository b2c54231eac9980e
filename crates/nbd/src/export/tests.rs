use super::*;

fn geometry() -> Geometry {
    Geometry {
        size: 1 << 20,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: 4096,
        volatile_cache: false,
        read_only: false,
        trim: true,
        identity: [0; 16],
    }
}

/// A client that trusts the flags never sends a refused request: no changes to a read-only disk, no DF without
/// structured replies.
#[test]
fn flags_follow_the_geometry() {
    let all = transmission_flags(&geometry(), true);
    assert_eq!(all, 0b1101_1110_1101, "{all:#b}");
    assert_eq!(all & !transmission_flags(&geometry(), false), transmission::SEND_DF);
    let untrimmed = transmission_flags(&Geometry { trim: false, ..geometry() }, true);
    assert_eq!(all & !untrimmed, transmission::SEND_TRIM);
    let fixed = transmission_flags(&Geometry { read_only: true, ..geometry() }, true);
    assert_eq!(fixed & transmission::READ_ONLY, transmission::READ_ONLY);
    assert_eq!(fixed & (transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES), 0);
}

/// Clients refuse sizes that are not powers of two or out of order.
#[test]
fn block_sizes_are_ordered_powers_of_two() {
    for (sector_bytes, preferred_bytes) in [(512, 1), (512, 4096), (4096, 512), (512, 5000), (512, u32::MAX)] {
        let sizes = block_sizes(&Geometry { sector_bytes, preferred_bytes, ..geometry() });
        assert!(sizes.is_sorted() && sizes.iter().all(|size| size.is_power_of_two()), "{sizes:?}");
    }
}
