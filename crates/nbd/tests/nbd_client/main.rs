//! The NBD client against the server of this project, against those of others, and against hostile ones. The rules C1
//! to C6 are on top of `ferrite_nbd::client`.

mod flight;
mod hostile;
mod model;
mod offers;
mod peers;
mod puppet;
mod stage;
