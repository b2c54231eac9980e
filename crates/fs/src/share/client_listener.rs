//! Lets clients in to a file system whose pool serves nothing else: a program's that has one in its own process.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use crate::file_system::FileSystem;
use crate::share::layout::request::ClientRequest;
use crate::share::layout::request::SHARE;
use crate::{Error, Result};
use ferrite_owner::EndedConnection;
use ferrite_owner::Handler;
use ferrite_owner::ListeningSocket;
use ferrite_owner::ServiceCall;
use ferrite_owner::ServiceReply;
use ferrite_owner::services::parse;
use ferrite_pool::Claim;
use ferrite_pool::Error as PoolError;
use ferrite_pool::Failure;
use ferrite_pool::claim;

/// Clients come in until it is dropped.
#[derive(Debug)]
pub struct ClientListener {
    _listening: ListeningSocket,
}

struct ClientService {
    fs: Arc<FileSystem>,
    boot_id: [u8; 16],
}

impl Handler for ClientService {
    fn call(&self, call: ServiceCall<'_>) -> std::result::Result<ServiceReply, Failure> {
        let request: ClientRequest = parse(SHARE, call.request)?;
        if request.file_system() != self.fs.tag().name {
            return Err(Failure::not_found(format!("there is no file system {:?} here", request.file_system())));
        }
        Ok(self.fs.answer(self.boot_id, call.caller, &request)?)
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        self.fs.end_sessions_of(ended.caller.connection);
    }
}

fn failed(why: impl Display) -> Error {
    PoolError::Owner(Failure::failed(why)).into()
}

impl ClientListener {
    /// Accepts clients that look for `fs` at `pool`, a file without another owner; it need not hold the pool's bytes.
    /// `boot_id` identifies this boot of the machine.
    ///
    /// # Errors
    /// Fails if another process owns the pool.
    pub fn open(fs: &Arc<FileSystem>, pool: &Path, boot_id: [u8; 16]) -> Result<Self> {
        let Claim::Ours(lock) = claim(pool).map_err(failed)? else {
            return Err(failed(format!("{} is another process's", pool.display())));
        };
        let service = ClientService { fs: Arc::clone(fs), boot_id };
        Ok(Self { _listening: ListeningSocket::start(&lock, Arc::new(service)).map_err(failed)? })
    }
}
