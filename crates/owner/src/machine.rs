//! Numbers that the machine gives: the boot, the user, and random numbers.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Returns the identity of this boot of the machine. The kernel is asked once per process: clients wait for the answer.
///
/// # Errors
/// The error of the system if the identity cannot be read.
pub fn boot_id() -> io::Result<[u8; 16]> {
    static KNOWN: OnceLock<[u8; 16]> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let boot = uuid("/proc/sys/kernel/random/boot_id")?;
    Ok(*KNOWN.get_or_init(|| boot))
}

/// Returns a new random identity, another one in each process and after a fork.
///
/// # Errors
/// The error of the system if the kernel gives none.
pub fn random_uuid() -> io::Result<[u8; 16]> {
    uuid("/proc/sys/kernel/random/uuid")
}

/// Returns a random number.
///
/// # Panics
/// If the kernel gives no random numbers.
pub fn random() -> u64 {
    let uuid = random_uuid().expect("the kernel gives random numbers");
    let [high, low] = [0, 8].map(|at| u64::from_le_bytes(uuid[at..at + 8].try_into().expect("eight bytes")));
    high.rotate_left(32) ^ low
}

/// Returns the number of this process's user and of its group.
///
/// # Errors
/// The error of the system if `/proc` cannot be read.
pub fn user() -> io::Result<(u32, u32)> {
    let path = "/proc/self";
    fs::metadata(path).map(|me| (me.uid(), me.gid())).map_err(|error| doing("looking at", path, &error))
}

fn uuid(path: &str) -> io::Result<[u8; 16]> {
    let text = fs::read_to_string(path).map_err(|error| doing("reading", path, &error))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| io::Error::other(format!("{path} holds no UUID")))?;
    Ok(number.to_be_bytes())
}

fn doing(what: &str, path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {path}: {error}"))
}

#[cfg(test)]
mod tests;
