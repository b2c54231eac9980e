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
mod tests;
