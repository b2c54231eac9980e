//! The client's end of the control socket.

use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferrite_memory::process::effective_user;
use ferrite_pool::time_limit::TimeLimit;
use ferrite_pool::{Failure, Holder, LockError, ensure_trusted};
use serde::Serialize;
use serde_json::Value;

use super::channel::{FrameChannel, ReceivedFrame};
use super::socket_place::SocketPlace;
use super::uncancelled::Uncancelled;
use super::wire::{FDS_MAX, PROTOCOL, WireMessage};
use super::{Error, NamedPlaces, NamespaceView, ProgressCall, Result, ended_connection, socket};

/// Time for an owner to send its hello, and to complete a frame that it has begun.
const FRAME_TIME: Duration = Duration::from_secs(10);

/// A request to a service.
#[derive(Debug)]
pub struct ServiceRequest<'a> {
    /// The name of the service.
    pub service: &'a str,
    /// The request, in the words of the service.
    pub request: Value,
    /// Descriptors that go with the request, at most [`FDS_MAX`].
    pub fds: Vec<BorrowedFd<'a>>,
    /// What this process sees of the places that the request names.
    pub view: Option<NamespaceView>,
}

/// A request type of one service.
pub trait TypedRequest: Serialize {
    /// The name of the service.
    const SERVICE: &'static str;

    /// Returns the places that the request names.
    fn places(&self) -> NamedPlaces<'_> {
        NamedPlaces::default()
    }
}

impl<'a> ServiceRequest<'a> {
    /// Returns `request`, with what this process sees of the places that it names.
    pub fn of<R: TypedRequest>(request: &R) -> Self {
        let places = request.places();
        let view = (!places.is_empty()).then(|| NamespaceView::of(&places));
        Self { view, ..Self::new(R::SERVICE, request) }
    }

    /// Returns a request without descriptors that names no places.
    ///
    /// # Panics
    /// If `request` has no JSON, which is a bug of its type.
    pub fn new(service: &'a str, request: &impl Serialize) -> Self {
        let request = serde_json::to_value(request).expect("a request is JSON");
        Self { service, request, fds: Vec::new(), view: None }
    }

    /// Adds descriptors.
    #[must_use]
    pub fn with_fds(self, fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Self {
        Self { fds: fds.into_iter().collect(), ..self }
    }
}

/// A connection to the process that owns a pool. Calls are made one after another; dropping it during one cancels it.
#[derive(Debug)]
pub struct OwnerClient {
    channel: FrameChannel,
    owner_pid: u32,
    /// The pool, for messages.
    path: PathBuf,
    /// The longest silence during a call.
    silence: TimeLimit,
    /// True after a call was aborted: the next frame would belong to that call.
    broken: bool,
}

impl OwnerClient {
    /// Connects to the owner of the pool at `path`.
    ///
    /// # Errors
    /// [`Error::NoOwner`] if no process holds the pool, [`Error::Silent`] if its holder answers no calls, [`Error::Refused`]
    /// if one side does not trust the other, [`LockError::Untrusted`] if another user owns the pool's file or may write to it
    /// (O8), [`Error::Version`] if they are of different releases; [`Error::Died`] and
    /// [`Error::Timeout`] if no hello comes, [`Error::Io`] if the path cannot be looked at.
    pub fn connect(path: &Path) -> Result<Self> {
        Self::connect_within(path, FRAME_TIME)
    }

    /// As [`OwnerClient::connect`], if the owner answers within `greeting`.
    ///
    /// # Errors
    /// As [`OwnerClient::connect`].
    pub fn connect_within(path: &Path, greeting: Duration) -> Result<Self> {
        let (path, pool) = find(path)?;
        Self::connect_at(&SocketPlace::candidates(&path, &pool), &path, &pool, greeting)
    }

    pub(super) fn connect_at(
        candidates: &[SocketPlace],
        path: &Path,
        pool: &Metadata,
        greeting: Duration,
    ) -> Result<Self> {
        let (mut hindrance, mut failure) = (None, None);
        let holder = Holder::find(pool);
        // The owner may have opened the pool by another name: a second link, another mount.
        let other_name = holder.as_ref().and_then(|holder| holder.name_of(pool)).filter(|name| name != path);
        let other_place = other_name.and_then(|name| SocketPlace::beside(&name));
        for address in candidates.iter().chain(&other_place) {
            match address.connect() {
                Ok(socket) => match Self::meet(socket, holder.as_ref(), path, pool, greeting) {
                    Ok(Some(client)) => return Ok(client),
                    Ok(None) => {}
                    Err(why) => _ = failure.get_or_insert(why),
                },
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
                Err(e) => _ = hindrance.get_or_insert(e),
            }
        }
        if let Some(why) = failure {
            return Err(why);
        }
        let doing = || format!("connecting to the owner of {}", path.display());
        match (hindrance, holder) {
            (Some(e), _) if e.kind() == ErrorKind::PermissionDenied => Err(Error::Refused(format!(
                "the owner of {} runs as another user: ask as that user, or as root",
                path.display()
            ))),
            (Some(e), _) => Err(Error::io(doing(), e)),
            (None, Some(holder)) => Err(Error::Silent { path: path.into(), holder }),
            (None, None) => Err(Error::NoOwner(path.into())),
        }
    }

    /// Returns a client of the process at the other end of `socket`; `None` if that owns another pool (O2). The kernel may hide
    /// the holder of this pool, or the holder has just released it: the file that the other end has locked decides.
    fn meet(
        socket: OwnedFd,
        holder: Option<&Holder>,
        path: &Path,
        pool: &Metadata,
        greeting: Duration,
    ) -> Result<Option<Self>> {
        let pid = owner_pid(&socket, pool)?;
        if holder.is_some_and(|holder| holder.is_not(pid)) {
            return Ok(None);
        }
        let (client, owned) = Self::greet(socket, pid, path, greeting).map_err(|error| silent(error, pid, path))?;
        Ok(Some(client).filter(|_| owned == Some((pool.dev(), pool.ino()))))
    }

    /// Exchanges hellos. Returns the client, and the file that the owner has locked.
    fn greet(socket: OwnedFd, owner_pid: u32, path: &Path, greeting: Duration) -> Result<(Self, Option<(u64, u64)>)> {
        let limit = TimeLimit::of(greeting);
        let process = ended_connection::process_of_peer(socket.as_fd(), owner_pid).ok();
        let mut channel = FrameChannel::to_owner(socket, process);
        let owned = match channel.receive(limit, limit)?.map(|frame| frame.message) {
            Some(WireMessage::Hello { protocol: PROTOCOL, pool, .. }) => pool,
            Some(WireMessage::Hello { protocol: theirs, program, .. }) => {
                return Err(Error::Version { program, theirs, ours: PROTOCOL });
            }
            Some(WireMessage::Refused { why }) => return Err(Error::Refused(why)),
            Some(_) => return Err(Error::Protocol("no hello".into())),
            None => return Err(Error::Died),
        };
        channel.send(&WireMessage::hello(), &[], limit).map_err(died)?;
        Ok((Self { channel, owner_pid, path: path.into(), silence: TimeLimit::forever(), broken: false }, owned))
    }

    /// The owner's process.
    pub fn owner_pid(&self) -> u32 {
        self.owner_pid
    }

    /// Fails calls with [`Error::Timeout`] after `silence` without a reply or progress. A new client has no limit.
    pub fn give_up_after(&mut self, silence: Duration) {
        self.silence = TimeLimit::of(silence);
    }

    /// Asks the owner for `request`, and returns the result and the descriptors that come with it.
    ///
    /// `on_progress` hears how far a long call has come; the call is cancelled when it returns false.
    ///
    /// # Errors
    /// [`Error::Failed`] has the owner's failure. After [`Error::Lost`] the call took effect, and the caller returns what the
    /// call granted. After any other ([`Error::Cancelled`], [`Error::Died`], [`Error::Timeout`],
    /// [`Error::Protocol`]), whether the call took effect is not known, and this connection is of no more use.
    pub fn call(
        &mut self,
        request: ServiceRequest<'_>,
        on_progress: ProgressCall<'_>,
    ) -> Result<(Value, Vec<OwnedFd>)> {
        let ServiceRequest { service, request, fds, view } = request;
        if fds.len() > FDS_MAX {
            return Err(Failure::failed(format!("more than {FDS_MAX} descriptors on one call")).into());
        }
        if self.broken {
            return Err(Error::Died);
        }
        self.broken = true;
        let _whole = Uncancelled::begin();
        let call = WireMessage::Call { service: service.into(), request, fds: fds.len(), view };
        let answer = self.exchange(&call, &fds, on_progress);
        self.broken = !matches!(answer, Ok(_) | Err(Error::Failed(_) | Error::Lost { .. }));
        if self.broken {
            self.channel.shut();
        }
        answer.map_err(|error| silent(error, self.owner_pid, &self.path))
    }

    /// Ends the connection, for all processes that have its descriptor.
    pub fn hang_up(&mut self) {
        self.broken = true;
        self.channel.shut();
    }

    fn exchange(
        &mut self,
        call: &WireMessage,
        fds: &[BorrowedFd<'_>],
        on_progress: ProgressCall<'_>,
    ) -> Result<(Value, Vec<OwnedFd>)> {
        self.channel.send(call, fds, self.silence).map_err(died)?;
        loop {
            let ReceivedFrame { message, fds } =
                self.channel.receive(self.silence, TimeLimit::of(FRAME_TIME))?.ok_or(Error::Died)?;
            match message {
                WireMessage::Progress(progress) => {
                    if !on_progress(progress) {
                        return Err(Error::Cancelled);
                    }
                }
                WireMessage::Reply { value, fds: sent } if sent == fds.len() => return Ok((value, fds)),
                WireMessage::Reply { value, .. } => return Err(Error::Lost { value: Box::new(value) }),
                WireMessage::Failed(failure) => return Err(failure.into()),
                _ => return Err(Error::Protocol("neither progress nor a reply".into())),
            }
        }
    }
}

/// Returns the process at the other end. Any user who may write to the folder can put a socket there: a request must not go
/// to that user (O3), and the foreign socket must not hide the owner's, which is then at the next place.
fn owner_pid(socket: &OwnedFd, pool: &Metadata) -> Result<u32> {
    let peer = socket::peer(socket.as_fd()).map_err(|e| Error::io("asking who owns the pool", e))?;
    if [effective_user(), 0, pool.uid()].contains(&peer.uid) {
        return Ok(peer.pid);
    }
    let uid = peer.uid;
    Err(Error::Refused(format!("the control socket is user {uid}'s, who does not own the pool's file")))
}

/// Returns [`Error::Died`] for a write that failed because the other side has closed the connection.
fn died(error: Error) -> Error {
    match error {
        Error::Io { source, .. } if super::channel::is_end(&source) => Error::Died,
        other => other,
    }
}

/// Names the process and the pool in the error about an owner that did not answer in time.
fn silent(error: Error, owner_pid: u32, path: &Path) -> Error {
    match error {
        Error::Timeout(_) => Error::Timeout(format!("process {owner_pid}, which owns {},", path.display())),
        other => other,
    }
}

fn find(path: &Path) -> Result<(PathBuf, Metadata)> {
    let doing = |e| Error::io(format!("looking at {}", path.display()), e);
    let path = path.canonicalize().map_err(doing)?;
    let pool = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path).and_then(|file| file.metadata());
    let pool = pool.map_err(doing)?;
    ensure_trusted(&path, &pool).map_err(LockError::Untrusted)?;
    Ok((path, pool))
}
