//! The NBD server against a client of this project, which can also send invalid messages, and against widely used
//! clients. The rules N1 to N20 are at the top of `ferrite_nbd`.

mod certificates;
mod client;
mod commands;
mod disks;
mod failing;
mod handshake;
mod hostile;
mod lent;
mod programs;
mod queued;
#[path = "../support/queued_disk.rs"]
mod queued_disk;
mod shelf;
mod slow;
mod stopping;
mod tcp;
mod tls;
