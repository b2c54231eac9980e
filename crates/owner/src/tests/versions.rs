//! A peer of wire 1 or 2 is refused with one clear line, and refuses this side with one.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use serde::Deserialize;

use super::*;
use crate::wire::PROTOCOL;

/// Hellos of earlier versions, as they were on the wire.
const HELLOS: [(u32, &str); 2] = [
    (1, r#"{"hello":{"protocol":1,"program":"ferrite 0.1.0"}}"#),
    (2, r#"{"hello":{"protocol":2,"program":"ferrite 0.1.0"}}"#),
];
/// A call of earlier versions.
const CALL: &str = r#"{"call":{"request":{"do":"pool-info"},"fds":0}}"#;

/// The greeting as earlier versions read it.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EarlierMessage {
    Hello {
        protocol: u32,
        program: String,
        #[serde(default)]
        pool: Option<(u64, u64)>,
    },
    Refused {
        why: String,
    },
}

fn frame(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The text of each frame in `bytes`.
fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (text, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        texts.push(String::from_utf8(text.to_vec()).expect("JSON"));
        bytes = rest;
    }
    texts
}

/// Everything the owner says to a client that sends `texts`, until the owner closes the connection.
fn said_to(served: &Served, texts: &[&str]) -> Vec<String> {
    let mut socket = served.raw();
    texts.iter().for_each(|text| socket.write_all(&frame(text)).expect("send"));
    let mut bytes = Vec::new();
    // A reset means that the owner closed the connection with bytes unread.
    let _ = socket.read_to_end(&mut bytes);
    frames(&bytes)
}

#[test]
fn a_client_of_an_earlier_wire_reads_the_owners_version_and_is_not_served() {
    let served = Served::new();
    for (_, hello) in HELLOS {
        let said = said_to(&served, &[hello, CALL]);
        let [greeting] = &said[..] else { panic!("one frame: {said:?}") };
        match serde_json::from_str(greeting).expect("its reader understands it") {
            EarlierMessage::Hello { protocol, program, pool } => {
                assert_eq!(protocol, PROTOCOL);
                assert!(program.starts_with("ferrite ") && pool.is_some(), "{greeting}");
            }
            other => panic!("{other:?}"),
        }
    }
    served.is_well();
}

#[test]
fn a_client_names_the_version_of_an_owner_of_an_earlier_wire_in_one_line() {
    for (version, hello) in HELLOS {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("pool");
        File::create(&path).expect("pool");
        let fake = UnixListener::bind(path.with_extension("sock")).expect("bind");
        let owner = std::thread::spawn(move || {
            let mut socket = fake.accept().expect("client").0;
            socket.write_all(&frame(hello)).expect("send");
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let error = OwnerClient::connect(&path).expect_err("another version");
        assert!(matches!(error, Error::Version { theirs, ours: PROTOCOL, .. } if theirs == version), "{error:?}");
        let said = error.to_string();
        let names_both =
            said.contains(&format!("version {version} ")) && said.contains(&format!("version {PROTOCOL}:"));
        assert!(names_both && said.contains("same release") && !said.contains('\n'), "{said}");
        owner.join().expect("fake owner");
    }
}

/// A refusal has the shape that all versions read.
#[test]
fn a_refusal_is_read_by_clients_of_earlier_wires() {
    let served = Served::within(ListenLimits { connections: 0, ..ListenLimits::default() });
    let said = said_to(&served, &[]);
    let [refusal] = &said[..] else { panic!("one frame: {said:?}") };
    let EarlierMessage::Refused { why } = serde_json::from_str(refusal).expect("understood") else {
        panic!("{refusal}");
    };
    assert!(why.contains("connections already"), "{why}");
}
