use super::*;

/// N12: an address is in a network by its leading bits, and never in a network of the other family.
#[test]
fn networks_hold_their_addresses() {
    for (network, inside, outside) in [
        ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
        ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
        ("10.99.0.0/8", "10.1.1.1", "9.99.0.0"),
        ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
        ("0.0.0.0/0", "203.0.113.9", "::1"),
        ("::/0", "2001:db8::1", "203.0.113.9"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ("127.0.0.1", "::ffff:127.0.0.1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1", "127.0.0.2"),
    ] {
        let parsed: Network = network.parse().unwrap();
        assert!(parsed.contains(inside.parse().unwrap()), "{inside} in {network}");
        assert!(!parsed.contains(outside.parse().unwrap()), "{outside} in {network}");
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
    }
}

#[test]
fn nonsense_is_no_network() {
    for text in ["", "/", "localhost", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "1.2.3/8"] {
        let error = text.parse::<Network>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text}: not an address")), "{error}");
    }
}
