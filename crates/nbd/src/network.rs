//! The addresses that may connect.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all addresses that begin with the same bits: `192.0.2.7`, `10.0.0.0/8`, `2001:db8::/32`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

/// A text that is not a [`Network`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: not an address such as 192.0.2.7 or ::1, nor a network such as 10.0.0.0/8")]
pub struct NotNetwork(String);

impl Network {
    /// Returns true if `address` is in the network. An IPv4 address from an IPv6 socket counts as an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (mine, width) = bits(self.address);
        let (other, other_width) = bits(address.to_canonical());
        let free_bits = width - self.prefix_bits;
        width == other_width && (free_bits == u128::BITS || (mine ^ other) >> free_bits == 0)
    }
}

/// Returns the address as a number, and its number of bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix_bits: bits(address).1 }
    }
}

impl FromStr for Network {
    type Err = NotNetwork;

    fn from_str(text: &str) -> Result<Self, NotNetwork> {
        let not_network = || NotNetwork(text.to_owned());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let whole = Self::from(address.parse::<IpAddr>().map_err(|_| not_network())?);
        let Some(prefix) = prefix else { return Ok(whole) };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
        let prefix_bits = prefix.parse().ok().filter(|bits| is_number && *bits <= whole.prefix_bits);
        Ok(Self { prefix_bits: prefix_bits.ok_or_else(not_network)?, ..whole })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix_bits == bits(self.address).1 {
            return write!(out, "{}", self.address);
        }
        write!(out, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
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
        for text in
            ["", "/", "localhost", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "::/129", "1.2.3/8"]
        {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text}: not an address")), "{error}");
        }
    }
}
