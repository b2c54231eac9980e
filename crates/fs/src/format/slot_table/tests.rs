use proptest::prelude::*;

use super::*;

fn ssd(number: u64) -> TierSsd {
    let (first, address) = (SegmentNo(number * 100), format!("/dev/ssd{number}"));
    TierSsd { uuid: [number as u8 + 1; 16], first, segments: 100, state: SsdState::InUse, address }
}

#[test]
fn a_header_is_read_as_it_was_written() {
    for count in 0..=TIER_SSDS_MAX as u64 {
        let ssds: Vec<TierSsd> = (0..count).map(ssd).collect();
        assert_eq!(decode_header(&encode_header(&ssds, TierPolicy::Ferrite)), Some(ssds));
    }
    let joining = TierSsd { state: SsdState::Joining, address: "é".repeat(140), ..ssd(1) };
    assert_eq!(decode_header(&encode_header(std::slice::from_ref(&joining), TierPolicy::Paper)), Some(vec![joining]));
}

#[test]
fn a_damaged_header_is_none() {
    let page = encode_header(&[ssd(0), ssd(1)], TierPolicy::Ferrite);
    assert_eq!(decode_header(&[0; PAGE as usize]), None);
    for at in 0..page.len() {
        let mut torn = page;
        torn[at] ^= 0x10;
        assert_eq!(decode_header(&torn), None, "byte {at}");
    }
}

proptest! {
    /// Even with a right checksum, what an SSD of the header says may be anything.
    #[test]
    fn a_hostile_header_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), PAGE as usize)) {
        let mut page: [u8; PAGE as usize] = bytes.try_into().unwrap();
        page[..8].copy_from_slice(&MAGIC);
        page[12..16].copy_from_slice(&VERSION.to_le_bytes());
        let crc = crc32fast::hash(&page[CRC_FROM..]);
        page[8..12].copy_from_slice(&crc.to_le_bytes());
        let _ = decode_header(&page);
    }
}
