use super::*;

#[test]
fn any_name_and_path_come_through_a_uri() {
    for (name, path) in [("disk0", "/tmp/a"), ("a b/ü?&%41", "/tmp/ö %2F?socket=x&y#'"), ("", "/s")] {
        let uri = unix_uri(name, Path::new(path));
        assert!(uri.is_ascii() && !uri.contains([' ', '\'', '#', '&']), "{uri}");
        let Target { address, export, .. } = Target::parse(&uri).unwrap();
        assert_eq!((export.as_str(), address), (name, Address::Unix(path.into())), "{uri}");
    }
    let tcp = |is_tls| tcp_uri("a b", "[::1]:10809".parse().unwrap(), is_tls);
    assert_eq!(tcp(true), "nbds://[::1]:10809/a%20b");
    let uri = tcp(false);
    assert_eq!(uri, "nbd://[::1]:10809/a%20b");
    assert_eq!(Target::parse(&uri).unwrap().export, "a b");
}

fn unix(path: &str, export: &str) -> Result<(Address, String), &'static str> {
    Ok((Address::Unix(path.into()), export.into()))
}

fn tcp(host: &str, port: u16, export: &str) -> Result<(Address, String), &'static str> {
    Ok((Address::Tcp { host: host.into(), port }, export.into()))
}

#[test]
fn uris_name_a_server_and_an_export() {
    for (uri, expected) in [
        ("nbd+unix:///?socket=/run/x", unix("/run/x", "")),
        ("nbd+unix:///disk0?socket=/run/a%20b", unix("/run/a b", "disk0")),
        ("nbd+unix://?socket=relative", unix("relative", "")),
        ("nbd://host", tcp("host", 10809, "")),
        ("nbd://host/", tcp("host", 10809, "")),
        ("nbd://127.0.0.1:99/a/b%C3%A4", tcp("127.0.0.1", 99, "a/bä")),
        ("nbd://[::1]:99/x", tcp("::1", 99, "x")),
        ("nbd://[::1]/x", tcp("::1", 10809, "x")),
    ] {
        assert_eq!(parse(uri), expected, "{uri}");
    }
}

/// An invalid URI is refused, with the reason and the valid form.
#[test]
fn nonsense_is_refused() {
    for uri in [
        "disk0",
        "http://host/",
        "nbds://host/",
        "nbd:///x",
        "nbd://host:x/",
        "nbd://host:70000/",
        "nbd://[::1/",
        "nbd://[::1]9/",
        "nbd://host/?tls=1",
        "nbd+unix:///x",
        "nbd+unix:///?socket=",
        "nbd+unix://host/?socket=/x",
        "nbd+unix:///?socket=/x&y=1",
        "nbd://h/%",
        "nbd://h/%2",
        "nbd://h/%+1",
        "nbd://h/%ff",
        "nbd://user@h/",
    ] {
        let error = Target::parse(uri).unwrap_err().to_string();
        assert!(error.starts_with(uri) && error.contains("nbd+unix:///NAME?socket=PATH"), "{error}");
    }
}
