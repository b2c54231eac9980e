//! The address of an export in the form of a URI (github.com/NetworkBlockDevice/nbd, doc/uri.md).

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::ConnectError;

/// The default port of NBD.
const PORT: u16 = 10809;

/// A server's address and the name of its export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The URI that the caller passed, for messages.
    pub uri: String,
    pub address: Address,
    /// The name of the export; empty for the server's default.
    pub export: String,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

impl Target {
    /// Parses `nbd+unix:///NAME?socket=PATH` or `nbd://HOST[:PORT]/NAME`.
    pub fn parse(uri: &str) -> Result<Self, ConnectError> {
        let parsed = parse(uri);
        let (address, export) = parsed.map_err(|why| ConnectError::Uri { uri: uri.to_owned(), why })?;
        Ok(Self { uri: uri.to_owned(), address, export })
    }
}

fn parse(uri: &str) -> Result<(Address, String), &'static str> {
    let (scheme, rest) = uri.split_once("://").ok_or("not a URI")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let export = String::from_utf8(decoded(path)?).map_err(|_| "the export's name is not UTF-8")?;
    let address = match scheme {
        "nbd" if query.is_empty() => tcp(authority)?,
        "nbd" => return Err("nbd:// takes nothing behind a question mark"),
        "nbd+unix" if authority.is_empty() => unix(query)?,
        "nbd+unix" => return Err("nbd+unix:// is followed by a third slash, and names no host"),
        "nbds" | "nbds+unix" => return Err("this client does not speak TLS"),
        _ => return Err("an unknown scheme"),
    };
    Ok((address, export))
}

fn unix(query: &str) -> Result<Address, &'static str> {
    let path = query.strip_prefix("socket=").filter(|path| !path.contains('&'));
    let path = decoded(path.ok_or("behind the question mark stands socket=PATH and nothing else")?)?;
    if path.is_empty() {
        return Err("the socket's path is empty");
    }
    Ok(Address::Unix(OsString::from_vec(path).into()))
}

fn tcp(authority: &str) -> Result<Address, &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("a bracket is not closed")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() || host.contains('@') {
        return Err("names no host");
    }
    let port = match port.strip_prefix(':') {
        Some(number) => number.parse().map_err(|_| "the port is no number")?,
        None if port.is_empty() => PORT,
        None => return Err("something stands between host and path"),
    };
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// Returns the URI of the export `name` on the Unix socket `path`.
pub fn unix_uri(name: &str, path: &Path) -> String {
    format!("nbd+unix:///{}?socket={}", encoded(name.as_bytes()), encoded(path.as_os_str().as_bytes()))
}

/// Returns the URI of the export `name` at a TCP address; it requires TLS if `is_tls` is true.
pub fn tcp_uri(name: &str, address: SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "nbds" } else { "nbd" };
    format!("{scheme}://{address}/{}", encoded(name.as_bytes()))
}

/// Encodes with a percent sign every byte that a URI or a shell could misread.
fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: &u8| if plain(*byte) { char::from(*byte).into() } else { format!("%{byte:02X}") };
    bytes.iter().map(encode).collect()
}

/// Decodes the percent signs.
fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("behind a percent sign stand two hexadecimal digits")?);
        rest = &rest[2..];
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
