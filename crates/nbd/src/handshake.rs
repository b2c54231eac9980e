//! The handshake, from the greeting to a session (or to an end).

use std::time::{Duration, Instant};

use super::consts::{BASE_ALLOCATION, BASE_ALLOCATION_ID, INIT_MAGIC, OPTION_MAGIC, handshake, info_kind, option, rep};
use super::export::{Export, Exports, Refusal, block_sizes, transmission_flags};
use super::peer::{End, Peer};
use super::session::Session;
use super::wire::{self, Choice, ClientFlags, Malformed, OptionHeader};

/// Longest option that the server parses, in bytes.
const OPTION_MAX_BYTES: u32 = 64 << 10;
/// Longest option that the server receives in order to refuse it, in bytes; a longer one ends the connection.
const DRAINED_MAX_BYTES: u32 = 1 << 20;

/// The next state of the handshake after an option.
enum Next {
    Option,
    Transmission(Session),
    End,
}

/// A client that has not chosen its export yet.
pub(super) struct Handshake<'a, 't> {
    pub peer: &'a mut Peer<'t>,
    pub exports: &'a dyn Exports,
    /// Limit for the whole handshake, TLS included (N9).
    pub timeout: Duration,
    /// Returns true if the server is stopping.
    pub stopping: &'a dyn Fn() -> bool,
    structured: bool,
    /// The export for which the client chose `base:allocation`.
    allocation_of: Option<String>,
}

impl<'a, 't> Handshake<'a, 't> {
    /// Creates the handshake of a client that has just connected.
    pub fn new(
        peer: &'a mut Peer<'t>,
        exports: &'a dyn Exports,
        timeout: Duration,
        stopping: &'a dyn Fn() -> bool,
    ) -> Self {
        Self { peer, exports, timeout, stopping, structured: false, allocation_of: None }
    }

    /// Greets the client and answers its options. Returns `None` if the client ended the session properly.
    pub fn run(mut self) -> Result<Option<Session>, End> {
        self.peer.set_deadline(Some(Instant::now() + self.timeout))?;
        let flags = self.greet()?;
        loop {
            match self.answer_option(flags)? {
                Next::Option => {}
                Next::Transmission(session) => {
                    self.peer.flush()?;
                    self.peer.set_deadline(None)?;
                    return Ok(Some(session));
                }
                Next::End => {
                    self.peer.flush()?;
                    return Ok(None);
                }
            }
        }
    }

    fn greet(&mut self) -> Result<ClientFlags, End> {
        self.peer.outbox.put(&INIT_MAGIC.to_be_bytes());
        self.peer.outbox.put(&OPTION_MAGIC.to_be_bytes());
        self.peer.outbox.put(&((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) as u16).to_be_bytes());
        Ok(wire::client_flags(self.peer.take()?)?)
    }

    fn answer_option(&mut self, flags: ClientFlags) -> Result<Next, End> {
        let OptionHeader { option, len } = wire::option_header(self.peer.take()?)?;
        if len > DRAINED_MAX_BYTES {
            return Err(End::TooLong(u64::from(len)));
        }
        if len > OPTION_MAX_BYTES {
            self.peer.discard(len as usize)?;
            self.refuse(option, rep::ERR_TOO_BIG, "the option is too long");
            return self.sent(Next::Option);
        }
        self.peer.need(len as usize)?;
        let data = self.peer.inbox.held()[..len as usize].to_vec();
        self.peer.inbox.consume(data.len());
        let next = self.dispatch(option, &data, flags)?;
        self.sent(next)
    }

    fn sent(&mut self, next: Next) -> Result<Next, End> {
        self.peer.flush()?;
        Ok(next)
    }

    fn dispatch(&mut self, number: u32, data: &[u8], flags: ClientFlags) -> Result<Next, End> {
        if number == option::ABORT {
            self.reply(number, rep::ACK, &[]);
            return Ok(Next::End);
        }
        if self.peer.insists_on_tls() {
            return self.insist_on_tls(number, data);
        }
        if number == option::EXPORT_NAME {
            return self.enter_by_name(data, flags);
        }
        if (self.stopping)() {
            self.refuse(number, rep::ERR_SHUTDOWN, "the server is stopping");
            return Ok(Next::Option);
        }
        match number {
            option::STARTTLS if self.peer.is_secured() => self.refuse(number, rep::ERR_INVALID, "TLS was started"),
            option::LIST => self.list(data),
            option::INFO | option::GO => return Ok(self.describe(number, data)),
            option::STRUCTURED_REPLY => self.enable_structured(data),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, data),
            _ => self.refuse(number, rep::ERR_UNSUP, "this option is not supported"),
        }
        Ok(Next::Option)
    }

    /// Refuses every option except STARTTLS (N10), so no state from before TLS exists. The protocol has no refusal for
    /// EXPORT_NAME.
    fn insist_on_tls(&mut self, number: u32, data: &[u8]) -> Result<Next, End> {
        match number {
            option::STARTTLS if data.is_empty() => {
                self.reply(number, rep::ACK, &[]);
                self.peer.start_tls()?;
            }
            option::STARTTLS => self.refuse_malformed(number, Malformed::Length),
            option::EXPORT_NAME => return Ok(Next::End),
            _ => self.refuse(number, rep::ERR_TLS_REQD, "TLS has to be started first"),
        }
        Ok(Next::Option)
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.peer.outbox.option_reply(option, kind, data);
    }

    fn refuse(&mut self, option: u32, kind: u32, text: &str) {
        self.reply(option, kind, text.as_bytes());
    }

    fn refuse_malformed(&mut self, option: u32, why: Malformed) {
        self.refuse(option, rep::ERR_INVALID, &why.to_string());
    }

    fn refuse_export(&mut self, option: u32, refusal: &Refusal) {
        let kind = match refusal {
            Refusal::Unknown => rep::ERR_UNKNOWN,
            Refusal::Denied(_) => rep::ERR_POLICY,
        };
        self.refuse(option, kind, &refusal.to_string());
    }

    /// Opens the export of EXPORT_NAME. The protocol has no refusal for this option: the connection is dropped instead.
    fn enter_by_name(&mut self, data: &[u8], flags: ClientFlags) -> Result<Next, End> {
        let name = wire::bare_name(data)?;
        if (self.stopping)() {
            return Ok(Next::End);
        }
        let Ok(export) = Export::open(self.exports, name) else { return Ok(Next::End) };
        let session = self.session(export);
        self.peer.outbox.put(&session.geometry.size.to_be_bytes());
        self.peer.outbox.put(&session.transmission_flags().to_be_bytes());
        if !flags.no_zeroes {
            self.peer.outbox.put(&[0; 124]);
        }
        Ok(Next::Transmission(session))
    }

    fn list(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.refuse_malformed(option::LIST, Malformed::Length);
        }
        for name in self.exports.list() {
            let mut entry = (name.len() as u32).to_be_bytes().to_vec();
            entry.extend_from_slice(name.as_bytes());
            entry.extend_from_slice(self.exports.description(&name).unwrap_or_default().as_bytes());
            self.reply(option::LIST, rep::SERVER, &entry);
        }
        self.reply(option::LIST, rep::ACK, &[]);
    }

    fn enable_structured(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.refuse_malformed(option::STRUCTURED_REPLY, Malformed::Length);
        }
        self.structured = true;
        self.reply(option::STRUCTURED_REPLY, rep::ACK, &[]);
    }

    /// Answers INFO or GO, which differ only in the next state.
    fn describe(&mut self, number: u32, data: &[u8]) -> Next {
        let choice = match wire::choice(data) {
            Ok(choice) => choice,
            Err(why) => {
                self.refuse_malformed(number, why);
                return Next::Option;
            }
        };
        let export = match Export::open(self.exports, choice.name) {
            Ok(export) => export,
            Err(refusal) => {
                self.refuse_export(number, &refusal);
                return Next::Option;
            }
        };
        self.send_description(number, &choice, &export);
        self.reply(number, rep::ACK, &[]);
        if number == option::GO { Next::Transmission(self.session(export)) } else { Next::Option }
    }

    fn send_description(&mut self, number: u32, choice: &Choice<'_>, export: &Export) {
        let geometry = export.disk.geometry();
        let mut bytes = geometry.size.to_be_bytes().to_vec();
        bytes.extend_from_slice(&transmission_flags(&geometry, self.structured).to_be_bytes());
        self.piece(number, info_kind::EXPORT, &bytes);
        if choice.wants_name {
            self.piece(number, info_kind::NAME, export.name.as_bytes());
        }
        if choice.wants_description
            && let Some(text) = self.exports.description(&export.name)
        {
            self.piece(number, info_kind::DESCRIPTION, text.as_bytes());
        }
        if choice.wants_block_size {
            self.piece(number, info_kind::BLOCK_SIZE, block_sizes(&geometry).map(u32::to_be_bytes).as_flattened());
        }
    }

    fn piece(&mut self, number: u32, kind: u16, bytes: &[u8]) {
        let mut data = kind.to_be_bytes().to_vec();
        data.extend_from_slice(bytes);
        self.reply(number, rep::INFO, &data);
    }

    fn contexts(&mut self, number: u32, data: &[u8]) {
        if number == option::SET_META_CONTEXT {
            self.allocation_of = None;
        }
        if !self.structured {
            return self.refuse(number, rep::ERR_INVALID, "structured replies must be asked for first");
        }
        let asked = match wire::contexts(data) {
            Ok(asked) => asked,
            Err(why) => return self.refuse_malformed(number, why),
        };
        let name = match Export::open(self.exports, asked.name) {
            Ok(export) => export.name,
            Err(refusal) => return self.refuse_export(number, &refusal),
        };
        let listing = number == option::LIST_META_CONTEXT;
        let wildcard = |query: &&str| listing && *query == "base:";
        let all = listing && asked.queries.is_empty();
        if all || asked.queries.iter().any(|query| *query == BASE_ALLOCATION || wildcard(query)) {
            let id = if listing { 0 } else { BASE_ALLOCATION_ID };
            self.reply(number, rep::META_CONTEXT, &[&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat());
            if !listing {
                self.allocation_of = Some(name);
            }
        }
        self.reply(number, rep::ACK, &[]);
    }

    /// Creates the session. Contexts chosen for another export do not count.
    fn session(&self, export: Export) -> Session {
        let allocation = self.allocation_of.as_ref() == Some(&export.name);
        Session::new(export.disk, self.structured, allocation)
    }
}
