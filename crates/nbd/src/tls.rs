//! The server's side of TLS: its certificate, the authorities that it trusts, and a secured stream of bytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use super::transport::{receive_with, send_with};

/// The files of a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate (PEM), then the certificates that lead to its authority.
    pub certificate: PathBuf,
    /// The server's private key (PEM).
    pub key: PathBuf,
    /// The authorities that must have signed a client's certificate (PEM); without them, clients need no certificate.
    pub client_authority: Option<PathBuf>,
}

/// The reason why the server cannot offer TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, is not PEM, or holds other data.
    #[error("{path}: {why}", path = .path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The defect of the file.
        why: String,
    },
    /// The certificate and the key are not a pair, or are of an unsupported kind.
    #[error("{certificate} and {key} cannot be used together: {source}", certificate = .certificate.display(), key = .key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
}

/// A certificate that is ready for use. Clones share one certificate.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// Reads the files once: a renewed certificate requires a restart of the server.
    ///
    /// # Errors
    /// Returns [`TlsError`], which names the file.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|why| unfit(&files.key, &why.to_string()))?;
        let unpaired =
            |source| TlsError::Pair { certificate: files.certificate.clone(), key: files.key.clone(), source };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(unpaired)?;
        let builder = match &files.client_authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|why| unfit(path, &why.to_string()))?)
            }
        };
        Ok(Self(Arc::new(builder.with_single_cert(chain, key).map_err(unpaired)?)))
    }
}

fn unfit(path: &Path, why: &str) -> TlsError {
    TlsError::File { path: path.into(), why: format!("{why}; a PEM file is needed") }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unfit(path, "no certificate in it")),
        Err(why) => Err(unfit(path, &why.to_string())),
    }
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|why| unfit(path, &why.to_string()))?;
    }
    Ok(Arc::new(store))
}

/// The bytes under TLS, with flags for recv and send.
struct Wire<'a> {
    stream: &'a TcpStream,
    flags: libc::c_int,
}

impl Read for Wire<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        receive_with(self.stream, into, self.flags)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_with(self.stream, bytes, self.flags)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of a secured stream.
pub(super) struct Secured(Box<ServerConnection>);

impl Secured {
    /// Makes the handshake on `stream` until `until`, however slowly the client sends (N9). `arm` limits the next
    /// receive.
    pub fn shake_hands(
        tls: &Tls,
        stream: &TcpStream,
        until: Option<Instant>,
        arm: impl Fn(Option<Instant>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut secured = Self(Box::new(ServerConnection::new(Arc::clone(&tls.0)).map_err(io::Error::other)?));
        while secured.0.is_handshaking() {
            arm(until)?;
            if secured.fetch(stream, 0)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(secured)
    }

    /// Receives bytes under TLS once. 0 means the end of the stream.
    fn fetch(&mut self, stream: &TcpStream, flags: libc::c_int) -> io::Result<usize> {
        let count = self.0.read_tls(&mut Wire { stream, flags })?;
        let processed = self.0.process_new_packets();
        // An alert that describes the error is sent too, as far as the socket has room for it.
        let sent = self.drain(stream, if processed.is_err() { libc::MSG_DONTWAIT } else { 0 });
        processed.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        sent.map(|()| count)
    }

    fn drain(&mut self, stream: &TcpStream, flags: libc::c_int) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(&mut Wire { stream, flags })?;
        }
        Ok(())
    }

    /// Returns bytes that were already received and deciphered; otherwise receives, at most until `until`.
    pub fn receive(
        &mut self,
        stream: &TcpStream,
        into: &mut [u8],
        flags: libc::c_int,
        mut arm_again: impl FnMut() -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut is_first = true;
        loop {
            match self.0.reader().read(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                taken => return taken,
            }
            if !std::mem::take(&mut is_first) {
                arm_again()?;
            }
            self.fetch(stream, flags)?;
        }
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.0.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.drain(stream, 0)?;
        }
        Ok(())
    }

    /// Announces the end of the stream, if that is possible without waiting.
    pub fn say_goodbye(&mut self, stream: &TcpStream) {
        self.0.send_close_notify();
        // A client that does not receive the announcement finds the connection closed.
        let _ = self.drain(stream, libc::MSG_DONTWAIT);
    }
}
