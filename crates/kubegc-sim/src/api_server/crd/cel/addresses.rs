//! IP addresses and networks: as Go parses them, with its errors, and as values of expressions.
//!
//! # Upstream
//! `ParseAddr` and `ParsePrefix` in
//! [`net/netip`](https://github.com/golang/go/blob/go1.25.0/src/net/netip/netip.go).

use std::net::{IpAddr, Ipv4Addr};

use super::values::value;
use crate::{
    formats::{is_link_local, masked},
    status::quoted,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) IpAddr);
value!(Address, "net.IP");

/// An address and the number of its bits that name a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) address: Address,
    pub(super) length: u8,
}
value!(Network, "net.CIDR");

impl Address {
    /// An address without zone, and not an IPv4 address written as IPv6.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let shown = quoted(text);
        match parse(text) {
            Ok((_, zone)) if !zone.is_empty() => {
                Err(format!("IP address {shown} with zone value is not allowed"))
            }
            Ok((address, _)) if is_mapped(address) => {
                Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"))
            }
            Ok((address, _)) => Ok(Self(address)),
            Err(problem) => Err(format!(
                "IP Address {shown} parse error during conversion from string: {problem}"
            )),
        }
    }

    pub(super) const fn is_global_unicast(self) -> bool {
        let broadcast = matches!(self.0, IpAddr::V4(address) if address.is_broadcast());
        let other = self.0.is_unspecified() || self.0.is_loopback() || self.0.is_multicast();
        !broadcast && !other && !is_link_local(self.0)
    }
}

const fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

impl Network {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let shown = quoted(text);
        let network = parse_prefix(text).map_err(|problem| {
            let of = "network address parse error during conversion from string";
            format!("{of}: netip.ParsePrefix({shown}): {problem}")
        })?;
        match is_mapped(network.address.0) {
            true => Err(format!("IPv4-mapped IPv6 address {shown} is not allowed")),
            false => Ok(network),
        }
    }

    pub(super) fn shown(self) -> String {
        format!("{}/{}", self.address.0, self.length)
    }

    /// The network with the bits of hosts unset.
    pub(super) fn masked(self) -> Self {
        let address = masked(self.address.0, self.length).map_or(self.address, Address);
        Self { address, ..self }
    }

    pub(super) fn contains(self, address: Address) -> bool {
        masked(address.0, self.length) == masked(self.address.0, self.length)
    }

    pub(super) fn contains_network(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

/// A problem, and where it is.
type Problem<'t> = (&'static str, &'t str);

/// An address and its zone.
fn parse(text: &str) -> Result<(IpAddr, &str), String> {
    let parsed = match text.find(['.', ':', '%']).and_then(|at| text.as_bytes().get(at)) {
        Some(b'.') => match text.parse() {
            Ok(address) => Ok((IpAddr::V4(address), "")),
            Err(_) => Err(problem_of_v4(text)),
        },
        Some(b':') => match text.split_once('%').unwrap_or((text, "")) {
            (_, "") if text.contains('%') => Err(("zone must be a non-empty string", "")),
            (address, zone) => match address.parse() {
                Ok(address) => Ok((IpAddr::V6(address), zone)),
                Err(_) => Err(problem_of_v6(address)),
            },
        },
        Some(_) => Err(("missing IPv6 address", "")),
        None => Err(("unable to parse IP", "")),
    };
    parsed.map_err(|(problem, at)| {
        let at = match at {
            "" => String::new(),
            at => format!(" (at {})", quoted(at)),
        };
        format!("ParseAddr({}): {problem}{at}", quoted(text))
    })
}

/// A network.
///
/// # Errors
/// Go's error, without the text.
fn parse_prefix(text: &str) -> Result<Network, String> {
    let (address, length) = text.rsplit_once('/').ok_or("no '/'")?;
    let (address, zone) = parse(address)?;
    if !zone.is_empty() {
        return Err("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = is_number && (length.len() == 1 || !length.starts_with('0'));
    let bits: Option<u64> = length.parse().ok().filter(|_| is_canonical);
    let bits = bits.ok_or_else(|| format!("bad bits after slash: {}", quoted(length)))?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let length = u8::try_from(bits).ok().filter(|bits| *bits <= max);
    Ok(Network {
        address: Address(address),
        length: length.ok_or("prefix length out of range")?,
    })
}

/// The problem of a text that is no IPv4 address.
fn problem_of_v4(text: &str) -> Problem<'_> {
    let (mut octet, mut digits, mut dots) = (0_u16, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' if digits == 1 && octet == 0 => {
                return ("IPv4 field has octet with leading zero", "");
            }
            b'0'..=b'9' => {
                octet = octet * 10 + u16::from(byte - b'0');
                digits += 1;
                if octet > 255 {
                    return ("IPv4 field has value >255", "");
                }
            }
            b'.' if digits == 0 || at + 1 == text.len() => {
                return ("IPv4 field must have at least one digit", &text[at..]);
            }
            b'.' if dots == 3 => return ("IPv4 address too long", ""),
            b'.' => (octet, digits, dots) = (0, 0, dots + 1),
            _ => return ("unexpected character", text.get(at..).unwrap_or_default()),
        }
    }
    ("IPv4 address too short", "")
}

/// The problem of a text that is no IPv6 address.
fn problem_of_v6(text: &str) -> Problem<'_> {
    let (mut rest, mut groups) = (text.strip_prefix("::").unwrap_or(text), 0);
    let mut has_ellipsis = rest.len() < text.len();
    // Terminates: each step consumes a group, or returns.
    while groups < 8 && !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let after = &rest[digits..];
        match digits {
            0 => return ("each colon-separated field must have at least one digit", rest),
            1..=4 => {}
            _ => return ("each group must have 4 or less digits", rest),
        }
        if after.starts_with('.') {
            return match groups {
                _ if !has_ellipsis && groups != 6 => (
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ),
                7.. => (
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ),
                _ if rest.parse::<Ipv4Addr>().is_ok() => THE_ELLIPSIS_IS_EMPTY,
                _ => problem_of_v4(rest),
            };
        }
        groups += 1;
        rest = match after.strip_prefix(':') {
            None if after.is_empty() => after,
            None => return ("unexpected character, want colon", after),
            Some("") => return ("colon must be followed by more characters", after),
            Some(rest) => rest,
        };
        if let Some(after) = rest.strip_prefix(':') {
            if has_ellipsis {
                return ("multiple :: in address", rest);
            }
            has_ellipsis = true;
            rest = after;
        }
    }
    match rest {
        "" if has_ellipsis => THE_ELLIPSIS_IS_EMPTY,
        "" => ("address string too short", ""),
        rest => ("trailing garbage after address", rest),
    }
}

const THE_ELLIPSIS_IS_EMPTY: Problem<'static> = ("the :: must expand to at least one field of zeros", "");
