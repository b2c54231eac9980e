//! The NBD client against this project's server, against widely used servers, and against hostile ones. The rules C1 to
//! C6 are at the top of `ferrite_nbd::client`.

mod flight;
mod hostile;
mod model;
mod offers;
mod peers;
mod puppet;
mod stage;
