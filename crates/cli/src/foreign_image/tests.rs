use super::*;

fn qcow2(version: u32, backing: Option<&[u8]>, features: u64) -> Vec<u8> {
    let mut head = vec![0; 4096];
    head[..4].copy_from_slice(b"QFI\xfb");
    head[4..8].copy_from_slice(&version.to_be_bytes());
    if let Some(name) = backing {
        head[8..16].copy_from_slice(&1000_u64.to_be_bytes());
        head[16..20].copy_from_slice(&(name.len() as u32).to_be_bytes());
        head[1000..1000 + name.len()].copy_from_slice(name);
    }
    head[72..80].copy_from_slice(&features.to_be_bytes());
    head
}

fn vmdk(capacity: u64, description: &str) -> Vec<u8> {
    let mut head = vec![0; 4096];
    head[..4].copy_from_slice(b"KDMV");
    head[12..20].copy_from_slice(&capacity.to_le_bytes());
    head[512..512 + description.len()].copy_from_slice(description.as_bytes());
    head
}

#[test]
fn formats_are_known_by_their_first_bytes() {
    let of = ForeignFormat::of_head;
    assert_eq!(of(&qcow2(3, None, 0)), Some(ForeignFormat::Qcow2));
    assert_eq!(of(&vmdk(9, "")), Some(ForeignFormat::Vmdk));
    assert_eq!(of(b"# Disk DescriptorFile\nversion=1\n"), Some(ForeignFormat::Vmdk));
    assert_eq!(of(b"vhdxfileabc"), Some(ForeignFormat::Vhdx));
    assert_eq!((of(b"vhdxfil"), of(b""), of(&[0; 4096])), (None, None, None));
}

#[test]
fn an_image_that_names_another_file_is_told_of() {
    let other = |head: &[u8]| ForeignFormat::of_head(head).expect("known").names_other(head);
    assert_eq!(other(&qcow2(3, None, 1)), None);
    assert_eq!(other(&vmdk(9, "CID=1\nparentCID=ffffffff\n")), None);
    let hostile = qcow2(2, Some(b"/etc/shadow"), 0);
    assert!(other(&hostile).is_some_and(|said| said.contains("\"/etc/shadow\"")));
    // An image names a file even if the name lies outside of the checked bytes.
    assert!(other(&hostile[..900]).is_some());
    for head in [
        qcow2(3, None, 4),
        vmdk(0, ""),
        vmdk(9, "parentFileNameHint=\"/etc/shadow\""),
        vmdk(9, "parentCID=1234"),
        b"# Disk DescriptorFile\nRW 8 FLAT \"/etc/shadow\" 0\n".to_vec(),
    ] {
        assert!(other(&head).is_some(), "{head:?}");
    }
    assert_eq!(other(&qcow2(2, None, 4)), None, "version 2 has no features");
}
