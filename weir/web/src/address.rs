//! HTTP addresses, and host names that clients may use for them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Parses an HTTP address: `127.0.0.1:9111`, `[::1]:9111`, `localhost:9111`, or the port alone, for 127.0.0.1. Port 0 is a free one.
///
/// # Errors
/// Advice on the correct form.
pub fn http_address(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let port = |text: &str| text.parse::<u16>().ok().map(local);
    text.parse::<SocketAddr>()
        .ok()
        .or_else(|| port(text))
        .or_else(|| port(text.strip_prefix("localhost:")?))
        .ok_or_else(|| {
            "write an IP address and a port, as 127.0.0.1:9111 or [::1]:9111, or the port alone for 127.0.0.1"
                .to_owned()
        })
}

/// Whether only this machine reaches an address.
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Whether a request's `Host` is valid for a server that only this machine reaches. This prevents DNS rebinding: a foreign page whose
/// name resolves to this machine sends its own name.
pub(crate) fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_ip_address_and_a_port() {
        for (text, is) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("0", "127.0.0.1:0"),
            ("localhost:9", "127.0.0.1:9"),
        ] {
            assert_eq!(http_address(text).map(|address| address.to_string()), Ok(is.to_owned()), "{text}");
        }
        for text in ["", "lab", "lab:80", "70000", "127.0.0.1", "::1:80:", "http://127.0.0.1:80"] {
            assert!(http_address(text).is_err_and(|message| message.contains("127.0.0.1:9111")), "{text}");
        }
        let local = |text: &str| is_local(&http_address(text).unwrap());
        assert!(local("80") && local("[::1]:80") && local("127.9.9.9:80") && local("[::ffff:127.0.0.1]:80"));
        assert!(!local("0.0.0.0:80") && !local("[::]:80") && !local("10.0.0.1:80"));
    }

    #[test]
    fn a_foreign_name_is_not_this_machines() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9111", "[::1]:80", "[::1]", "10.1.2.3:4"] {
            assert!(is_local_host(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:9111", "127.0.0.1.evil.example:80", "[evil]:80", "localhost.x"] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
