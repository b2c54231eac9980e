use super::*;
use proptest::prelude::*;

fn go(name: &[u8], kinds: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    kinds.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

/// N5: the decoder distinguishes lengths that disagree with the data and invalid names, and never reads past the end.
#[test]
fn options_with_wrong_lengths_are_refused() {
    let whole = go(b"disk0", &[3, 1, 77]);
    let expected = Choice { name: "disk0", wants_name: true, wants_block_size: true, wants_description: false };
    assert_eq!(choice(&whole), Ok(expected));
    for cut in 0..whole.len() {
        assert_eq!(choice(&whole[..cut]), Err(Malformed::Length), "cut to {cut} bytes");
    }
    assert_eq!(choice(&[&whole[..], &[0]].concat()), Err(Malformed::Length));
    assert_eq!(choice(&go(&[0xff], &[])), Err(Malformed::Name));
    assert_eq!(choice(&go(&[b'a'; 4097], &[])), Err(Malformed::Name));
    assert_eq!(contexts(&[&[0; 4][..], &[0xff; 4]].concat()), Err(Malformed::Length));
}

/// N5: flags that were not offered end the connection, as the protocol demands.
#[test]
fn client_flags_are_checked() {
    assert_eq!(client_flags([0, 0, 0, 3]), Ok(ClientFlags { fixed_newstyle: true, no_zeroes: true }));
    assert_eq!(client_flags([0, 0, 0, 4]), Err(Malformed::Flags));
}

/// A request is read field by field, in network order; its magic number is required.
#[test]
fn requests_are_decoded() {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&[0, 1, 0, 6]);
    bytes[8..16].copy_from_slice(&7_u64.to_be_bytes());
    bytes[16..24].copy_from_slice(&4096_u64.to_be_bytes());
    bytes[24..].copy_from_slice(&512_u32.to_be_bytes());
    let expected = Request { cookie: 7, command: Command::WriteZeroes, flags: 1, span: Span::new(4096, 512) };
    assert_eq!(request(bytes), Ok(expected));
    bytes[0] ^= 1;
    assert_eq!(request(bytes), Err(Malformed::Magic));
}

proptest! {
    /// N5: no bytes make a decoder panic or use more memory than a few times their length.
    #[test]
    fn any_bytes_decode_or_are_refused(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = choice(&data);
        if let Ok(found) = contexts(&data) {
            prop_assert!(found.queries.len() * 4 <= data.len());
        }
        if let Some(head) = data.first_chunk() {
            let _ = request(*head);
        }
    }
}
