//! TLS, on loopback: real clients, wrong certificates, clients that speak in the clear, and hostile ones.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Disk, RamDisk};
use ferrite_nbd::client::{ConnectError, ConnectOptions, NbdDisk};
use ferrite_nbd::consts::{OPTION_REPLY_MAGIC, option, rep};
use ferrite_nbd::{ListeningTcp, Options, Server, TcpOptions, Tls, TlsError, TlsFiles};

use super::certificates::{Certificates, text};
use super::client::{Client, context_data, go_data, option_bytes};
use super::disks::{Probe, server, server_with};
use super::programs::run;
use super::tcp::{LOOPBACK, on_tcp, until};

fn listen(server: &Server, tls: Tls) -> ListeningTcp {
    server.listen_tcp(LOOPBACK, TcpOptions { allow: Vec::new(), tls: Some(tls) }).unwrap()
}

/// Returns the URI for libnbd, with the certificates in `folder`.
fn uri(listening: &ListeningTcp, folder: &Path) -> String {
    format!("nbds://localhost:{}/disk0?tls-certificates={}", listening.address().port(), folder.display())
}

/// Returns the options for QEMU that mean the same address and certificates.
fn qemu(listening: &ListeningTcp, folder: &Path) -> [String; 2] {
    let object = format!("tls-creds-x509,id=tls0,endpoint=client,verify-peer=yes,dir={}", folder.display());
    let port = listening.address().port();
    let image =
        format!("driver=nbd,server.type=inet,server.host=localhost,server.port={port},export=disk0,tls-creds=tls0");
    [object, image]
}

/// Returns the error text of `program`, which must fail.
fn failure(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(!output.status.success(), "{program} {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn plain(listening: &ListeningTcp) -> Client {
    Client::on(on_tcp(TcpStream::connect(listening.address()).unwrap()))
}

/// libnbd's programs work under TLS: the properties of the disk, its map, and a copy there and back over four
/// connections.
#[test]
fn libnbd_works_under_tls() {
    let certificates = Certificates::new();
    let disk = Arc::new(RamDisk::new(16 << 20));
    let server = server(disk.clone());
    let listening = listen(&server, certificates.tls(None));
    let uri = uri(&listening, &certificates.path("trusting"));
    let shown = run("nbdinfo", "libnbd-bin", &["--json", &uri]);
    for expected in
        [r#""TLS": true"#, r#""export-name": "disk0""#, r#""structured": true"#, r#""export-size": 16777216"#]
    {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    let bytes: Vec<u8> = (0..16_u32 << 20).map(|at| if at >> 20 & 1 == 0 { (at % 253) as u8 } else { 0 }).collect();
    let (image, back) = (certificates.path("image"), certificates.path("back"));
    fs::write(&image, &bytes).unwrap();
    run("nbdcopy", "libnbd-bin", &["--connections=4", "--flush", text(&image), &uri]);
    let mut content = vec![0; bytes.len()];
    disk.read(0, &mut content).unwrap();
    assert!(content == bytes);
    run("nbdcopy", "libnbd-bin", &["--connections=4", &uri, text(&back)]);
    assert!(fs::read(&back).unwrap() == bytes);
}

/// QEMU works under TLS too, with a client certificate.
#[test]
fn qemu_works_under_tls() {
    let certificates = Certificates::new();
    let disk = Arc::new(RamDisk::new(16 << 20));
    let server = server(disk.clone());
    let listening = listen(&server, certificates.tls(Some("ca-cert.pem")));
    let [object, image] = qemu(&listening, &certificates.path("member"));
    let shown = run("qemu-img", "qemu-utils", &["info", "--object", &object, "--image-opts", &image]);
    assert!(shown.contains("16 MiB"), "{shown}");
    let source = certificates.path("image");
    let bytes: Vec<u8> = (0..16_u32 << 20).map(|at| (at / 4096 % 251) as u8).collect();
    fs::write(&source, &bytes).unwrap();
    let convert = ["convert", "-n", "-f", "raw", "--object", &object, "--target-image-opts", text(&source), &image];
    run("qemu-img", "qemu-utils", &convert);
    let mut content = vec![0; bytes.len()];
    disk.read(0, &mut content).unwrap();
    assert!(content == bytes);
}

/// A client that does not trust the server's authority leaves. The server rejects a client with an unknown certificate,
/// and accepts a known client beside them.
#[test]
fn wrong_certificates_are_refused() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let open = listen(&server, certificates.tls(None));
    failure("nbdinfo", &["--size", &uri(&open, &certificates.path("doubting"))]);
    let [object, image] = qemu(&open, &certificates.path("doubting"));
    failure("qemu-img", &["info", "--object", &object, "--image-opts", &image]);
    run("nbdinfo", "libnbd-bin", &["--size", &uri(&open, &certificates.path("trusting"))]);
    let closed = listen(&server, certificates.tls(Some("ca-cert.pem")));
    failure("nbdinfo", &["--size", &uri(&closed, &certificates.path("stranger"))]);
    failure("nbdinfo", &["--size", &uri(&closed, &certificates.path("trusting"))]);
    run("nbdinfo", "libnbd-bin", &["--size", &uri(&closed, &certificates.path("member"))]);
    until("every connection has ended", || server.connections() == 0);
}

/// N10: in the clear the server reveals nothing, not even the names, and the refusal gives the reason; programs show it
/// too.
#[test]
fn nothing_is_told_in_the_clear() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let listening = listen(&server, certificates.tls(None));
    let mut client = plain(&listening);
    for (number, data) in [
        (option::LIST, Vec::new()),
        (option::STRUCTURED_REPLY, Vec::new()),
        (option::INFO, go_data("disk0", &[])),
        (option::GO, go_data("disk0", &[])),
        (option::SET_META_CONTEXT, context_data("disk0", &["base:allocation"])),
        (9999, Vec::new()),
    ] {
        let replies = client.option(number, &data);
        assert_eq!(replies.iter().map(|reply| reply.kind).collect::<Vec<_>>(), [rep::ERR_TLS_REQD], "option {number}");
    }
    assert_eq!(client.option(option::STARTTLS, b"x")[0].kind, rep::ERR_INVALID);
    assert_eq!(client.option(option::ABORT, &[])[0].kind, rep::ACK);
    let mut client = plain(&listening);
    client.say(&option_bytes(option::EXPORT_NAME, b"disk0"));
    assert_eq!(client.rest(), b"");
    let address = listening.address();
    let ours =
        NbdDisk::connect(&format!("nbd://{address}/disk0"), &ConnectOptions::default()).err().expect("connected");
    assert!(matches!(&ours, ConnectError::Refused { why, .. } if why.contains("insists on TLS")), "{ours}");
    failure("nbdinfo", &["--size", &format!("nbd://{address}/disk0")]);
}

/// A client that requires TLS finds none on a server without TLS, and leaves.
#[test]
fn tls_is_not_pretended() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let listening = server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap();
    failure("nbdinfo", &["--size", &uri(&listening, &certificates.path("trusting"))]);
    assert_eq!(plain(&listening).option(option::STARTTLS, &[])[0].kind, rep::ERR_UNSUP);
}

/// N11: bytes sent in the clear behind STARTTLS, by an attacker in between, end the connection.
#[test]
fn nothing_is_smuggled_in_before_tls() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let listening = listen(&server, certificates.tls(None));
    let mut client = plain(&listening);
    client.say(&[option_bytes(option::STARTTLS, &[]), option_bytes(option::LIST, &[])].concat());
    let ack = [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    assert_eq!(client.rest(), ack);
    until("the connection has ended", || server.connections() == 0);
}

/// N9 under TLS: a client that is silent after STARTTLS, and a client that sends slowly, are dropped in the same time.
#[test]
fn half_open_handshakes_end() {
    let certificates = Certificates::new();
    let options = Options { handshake_timeout: Duration::from_secs(1), ..Options::default() };
    let server = server_with(Probe::new(), options);
    let listening = listen(&server, certificates.tls(None));
    let mut silent = plain(&listening);
    assert_eq!(silent.option(option::STARTTLS, &[])[0].kind, rep::ACK);
    assert_eq!(silent.rest(), b"");
    let mut dripping = plain(&listening);
    assert_eq!(dripping.option(option::STARTTLS, &[])[0].kind, rep::ACK);
    let mut stream = dripping.stream.try_clone().unwrap();
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3][..], &[7; 500]].concat();
    for byte in hello {
        std::thread::sleep(Duration::from_millis(10));
        if stream.write_all(&[byte]).is_err() {
            break;
        }
    }
    assert_eq!(dripping.rest(), b"");
    until("their places are given back", || server.connections() == 0);
}

/// N5: garbage instead of the TLS handshake ends only that connection, with an alert at most.
#[test]
fn rubbish_instead_of_tls_ends_one_connection() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let listening = listen(&server, certificates.tls(None));
    for rubbish in [vec![0; 4096], b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![22, 3, 1, 0xff, 0xff], vec![0xff; 40_000]] {
        let mut client = plain(&listening);
        assert_eq!(client.option(option::STARTTLS, &[])[0].kind, rep::ACK);
        let _ = client.stream.write_all(&rubbish);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        let mut alert = Vec::new();
        let _ = client.stream.read_to_end(&mut alert);
        assert!(alert.len() < 100, "{alert:?}");
    }
    run("nbdinfo", "libnbd-bin", &["--size", &uri(&listening, &certificates.path("trusting"))]);
    until("every connection has ended", || server.connections() == 0);
}

/// N8: a stop ends idle clients under TLS like other clients.
#[test]
fn a_stop_ends_secured_connections() {
    let certificates = Certificates::new();
    let server = server(Probe::new());
    let listening = listen(&server, certificates.tls(None));
    let uri = uri(&listening, &certificates.path("trusting"));
    let connect = format!("h.set_uri_allow_local_file(True); h.connect_uri('{uri}')");
    let script = format!("import nbd; h = nbd.NBD(); {connect}; print('in', flush=True); h.poll(60000)");
    // The program is Debian's Python, of which libnbd is a module.
    let mut client = Command::new("/usr/bin/python3").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 2];
    client.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!((&said, listening.stop()), (b"in", 0));
    client.wait().unwrap();
}

/// The error names an unusable file and its defect.
#[test]
fn unfit_files_are_named() {
    let certificates = Certificates::new();
    let right = certificates.files(Some("ca-cert.pem"));
    let (empty, missing) = (certificates.path("empty"), certificates.path("missing"));
    fs::write(&empty, b"").unwrap();
    let (cert, key, authority) = (right.certificate.clone(), right.key.clone(), right.client_authority.clone());
    for (certificate, key, client_authority, named) in [
        (missing.clone(), key.clone(), authority.clone(), &missing),
        (empty.clone(), key.clone(), authority.clone(), &empty),
        (key.clone(), key.clone(), authority.clone(), &key),
        (cert.clone(), missing.clone(), authority.clone(), &missing),
        (cert.clone(), cert.clone(), authority.clone(), &cert),
        (cert.clone(), key.clone(), Some(empty.clone()), &empty),
    ] {
        let error = Tls::load(&TlsFiles { certificate, key, client_authority }).unwrap_err();
        assert!(matches!(error, TlsError::File { .. }), "{error}");
        assert!(error.to_string().starts_with(text(named)), "{error}");
    }
    let other = certificates.path("ca-key.pem");
    let error = Tls::load(&TlsFiles { key: other.clone(), ..right }).unwrap_err();
    assert!(matches!(error, TlsError::Pair { .. }) && error.to_string().contains(text(&other)), "{error}");
}
