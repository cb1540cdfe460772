//! Addresses as flags name them: `:8080`, `127.0.0.1:8080`, `[::1]:8080`, or `0` for none.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// Where to listen, if at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// Nowhere; written `0`.
    #[default]
    Off,
    /// At one port, port 0 being any free one.
    At {
        /// Name or IP address of this machine; every one of its addresses when absent.
        host: Option<String>,
        /// The port.
        port: u16,
    },
}

/// A text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address such as :8080 or 127.0.0.1:8080, or 0 for none")]
pub struct InvalidAddress;

impl Address {
    /// Takes the address; nothing when it is off.
    ///
    /// # Errors
    ///
    /// Fails when the address is taken or is none of this machine.
    pub async fn listen(&self) -> io::Result<Option<TcpListener>> {
        let Self::At { host, port } = self else {
            return Ok(None);
        };
        let bound = match host {
            Some(host) => TcpListener::bind((host.as_str(), *port)).await,
            None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                // Where IPv6 is switched off, the other family is everything there is.
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await
                }
                bound => bound,
            },
        };
        bound.map(Some)
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or(InvalidAddress)?;
        let port = port.parse().map_err(|_| InvalidAddress)?;
        let inner = host.strip_prefix('[').and_then(|v6| v6.strip_suffix(']'));
        let is_bare = !host.contains([':', '[', ']', '/', ' ']);
        match inner {
            Some(v6) if v6.parse::<Ipv6Addr>().is_ok() => Ok(Self::At {
                host: Some(v6.to_owned()),
                port,
            }),
            None if is_bare => Ok(Self::At {
                host: Some(host.to_owned()).filter(|host| !host.is_empty()),
                port,
            }),
            Some(_) | None => Err(InvalidAddress),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(f, "0"),
            Self::At { host: None, port } => write!(f, ":{port}"),
            Self::At {
                host: Some(host),
                port,
            } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At {
                host: Some(host),
                port,
            } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_103_an_address_is_a_port_a_host_and_a_port_or_off() {
        for text in ["0", ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:0"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("0".parse(), Ok(Address::Off));
        for text in [
            "",
            "8080",
            ":",
            ":x",
            ":70000",
            "::1:80",
            "[x]:80",
            "a b:1",
            "http://h:1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(InvalidAddress), "{text}");
        }
    }
}
