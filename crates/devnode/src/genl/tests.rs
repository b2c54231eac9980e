use super::*;

/// A message reads back as its attributes, through padding and nesting.
#[test]
fn attributes_are_found_behind_padded_ones() {
    let message = GenlMessage::new(20, 1).text(10, "ab").nested(7, |inside| inside.word(1, 5)).word(3, 9).finish();
    assert_eq!(message.0.len(), HEAD_BYTES + 4 + 8 + 12 + 8);
    assert_eq!(u32::from_ne_bytes(take(&message.0, 0).unwrap()) as usize, message.0.len());
    assert_eq!(GenlAnswer::first_of(&message.0, 3), Ok(GenlAnswer::Value(9)));
    assert_eq!(GenlAnswer::first_of(&message.0, 4), Ok(GenlAnswer::Nothing));
    for short in 0..message.0.len() {
        let _ = GenlAnswer::first_of(&message.0[..short], 3);
    }
}

#[test]
fn an_acknowledgement_is_the_end_and_an_error_its_number() {
    let describe = |error: i32| {
        let mut datagram = [0; 36];
        datagram[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        datagram[16..20].copy_from_slice(&error.to_ne_bytes());
        GenlAnswer::first_of(&datagram, 1)
    };
    assert_eq!(describe(0), Ok(GenlAnswer::Done));
    assert_eq!(describe(-libc::ENOENT), Err(libc::ENOENT));
    assert_eq!(GenlAnswer::first_of(&[], 1), Err(libc::EPROTO));
}

/// Every kernel has the family of families, and no kernel has the other family asked for here.
#[test]
fn the_kernel_is_asked() {
    assert_eq!(family("nlctrl"), Ok(CONTROL));
    assert_eq!(family("ferrite-none"), Err(libc::ENOENT));
}
