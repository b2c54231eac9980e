//! The NBD server against a client of our own, which can also say what no good client says, and against the clients
//! people use. The rules N1 to N16 are on top of `ferrite_nbd`.

mod certificates;
mod client;
mod commands;
mod disks;
mod failing;
mod handshake;
mod hostile;
mod lent;
mod programs;
mod shelf;
mod slow;
mod stopping;
mod tcp;
mod tls;
