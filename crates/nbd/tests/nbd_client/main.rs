//! The NBD client against this project's server, against widely used servers, and against hostile ones. The rules C1 to
//! C8 are at the top of `ferrite_nbd::client`.

mod flight;
mod hostile;
mod model;
mod offers;
mod peers;
mod puppet;
#[path = "../support/queued_disk.rs"]
mod queued_disk;
mod queues;
mod stage;
