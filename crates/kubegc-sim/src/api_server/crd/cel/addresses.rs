//! IP addresses and networks: as Go parses them, with its errors, and as values of expressions.
//!
//! # Upstream
//! `ParseAddr` and `ParsePrefix` in
//! [`net/netip`](https://github.com/golang/go/blob/go1.25.0/src/net/netip/netip.go).

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::library::value;
use crate::status::quoted;

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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

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

    pub(super) const fn is_link_local_unicast(self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
    }

    pub(super) fn is_link_local_multicast(self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(address) => matches!(address.octets(), [0xff, scope, ..] if scope & 0x0f == 2),
        }
    }

    pub(super) const fn is_global_unicast(self) -> bool {
        let broadcast = matches!(self.0, IpAddr::V4(address) if address.is_broadcast());
        let other = self.0.is_unspecified() || self.0.is_loopback() || self.0.is_multicast();
        !broadcast && !other && !self.is_link_local_unicast()
    }
}

const fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

impl Network {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match parse_prefix(text) {
            Ok((address, _)) if is_mapped(address) => Err(format!(
                "IPv4-mapped IPv6 address {} is not allowed",
                quoted(text)
            )),
            Ok((address, length)) => Ok(Self {
                address: Address(address),
                length,
            }),
            Err(problem) => Err(format!(
                "network address parse error during conversion from string: {problem}"
            )),
        }
    }

    /// The network with the bits of hosts unset.
    pub(super) fn masked(self) -> Self {
        let length = self.length.into();
        let address = match self.address.0 {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V4((address.to_bits() & !host).into())
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(length).unwrap_or(0);
                IpAddr::V6((address.to_bits() & !host).into())
            }
        };
        Self {
            address: Address(address),
            ..self
        }
    }

    pub(super) fn contains(self, address: Address) -> bool {
        self.address.0.is_ipv4() == address.0.is_ipv4() && Self { address, ..self }.masked() == self.masked()
    }

    pub(super) fn contains_network(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

/// A problem, and where it is.
type Problem<'t> = (&'static str, &'t str);

/// An address and its zone.
///
/// # Errors
/// Go's error.
fn parse(text: &str) -> Result<(IpAddr, &str), String> {
    let parsed = match text.find(['.', ':', '%']).and_then(|at| text.as_bytes().get(at)) {
        Some(b'.') => v4(text).map(|address| (address.into(), "")),
        Some(b':') => v6(text),
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

/// An address and the length of its network.
///
/// # Errors
/// Go's error.
fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let failed = |problem: &str| format!("netip.ParsePrefix({}): {problem}", quoted(text));
    let (address, length) = text.rsplit_once('/').ok_or_else(|| failed("no '/'"))?;
    let (address, zone) = parse(address).map_err(|problem| failed(&problem))?;
    if !zone.is_empty() {
        return Err(failed("IPv6 zones cannot be present in a prefix"));
    }
    let bad = || failed(&format!("bad bits after slash: {}", quoted(length)));
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || length.len() > 1 && length.starts_with('0') {
        return Err(bad());
    }
    let bits: u64 = length.parse().map_err(|_| bad())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = u8::try_from(bits).ok().filter(|bits| *bits <= max);
    bits.map(|bits| (address, bits))
        .ok_or_else(|| failed("prefix length out of range"))
}

fn v4(text: &str) -> Result<Ipv4Addr, Problem<'_>> {
    let mut octets = Vec::new();
    let (mut value, mut digits) = (0_u16, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if digits == 0 || at + 1 == text.len() {
                    return Err(("IPv4 field must have at least one digit", &text[at..]));
                }
                if octets.len() == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                octets.push(value.to_le_bytes()[0]);
                (value, digits) = (0, 0);
            }
            _ => return Err(("unexpected character", text.get(at..).unwrap_or_default())),
        }
    }
    octets.push(value.to_le_bytes()[0]);
    let octets: [u8; 4] = octets.try_into().map_err(|_| ("IPv4 address too short", ""))?;
    Ok(octets.into())
}

fn v6(text: &str) -> Result<(IpAddr, &str), Problem<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        None => (text, ""),
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some(parts) => parts,
    };
    // The groups, and the position of `::`.
    let (mut groups, mut ellipsis) = (Vec::new(), None);
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
    }
    // Terminates: each step adds a group, or fails.
    while groups.len() < 8 && !(rest.is_empty() && ellipsis == Some(groups.len())) {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        let (group, after) = rest.split_at(digits);
        if after.starts_with('.') {
            if ellipsis.is_none() && groups.len() != 6 {
                return Err((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            if groups.len() > 6 {
                return Err((
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ));
            }
            let [one, two, three, four] = v4(rest)?.octets();
            groups.extend([u16::from_be_bytes([one, two]), u16::from_be_bytes([three, four])]);
            rest = "";
            break;
        }
        groups.push(u16::from_str_radix(group, 16).unwrap_or_default());
        if after.is_empty() {
            rest = after;
            break;
        }
        rest = match after.strip_prefix(':') {
            None => return Err(("unexpected character, want colon", after)),
            Some("") => return Err(("colon must be followed by more characters", after)),
            Some(rest) => rest,
        };
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(groups.len());
            rest = after;
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match ellipsis {
        None if groups.len() < 8 => return Err(("address string too short", "")),
        Some(_) if groups.len() == 8 => {
            return Err(("the :: must expand to at least one field of zeros", ""));
        }
        Some(at) => {
            let missing = 8 - groups.len();
            drop(groups.splice(at..at, std::iter::repeat_n(0, missing)));
        }
        None => {}
    }
    let groups: [u16; 8] = groups.try_into().unwrap_or_default();
    Ok((Ipv6Addr::from(groups).into(), zone))
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_prefix};

    #[test]
    fn addresses_are_those_of_the_standard_library() {
        let plain = "1.2.3.4 :: ::1 1:: fe80::1:2 1:2:3:4:5:6:7:8 ::ffff:1.2.3.4 1:2::3.4.5.6";
        for text in plain.split(' ') {
            assert_eq!(parse(text).unwrap(), (text.parse().unwrap(), ""), "{text}");
        }
        assert_eq!(parse("fe80::1%eth0").unwrap().1, "eth0");
    }

    #[test]
    fn errors_are_those_of_go() {
        for (text, problem) in [
            ("nope", "unable to parse IP"),
            ("", "unable to parse IP"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            ("1:2", "address string too short"),
            ("::12345", "each group must have 4 or less digits (at \"12345\")"),
            ("::1::2", "multiple :: in address (at \":2\")"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            (
                "::g",
                "each colon-separated field must have at least one digit (at \"g\")",
            ),
            (
                "1:2:3:4:5:6:7::8",
                "the :: must expand to at least one field of zeros",
            ),
            ("fe80::1%", "zone must be a non-empty string"),
        ] {
            assert_eq!(
                parse(text).unwrap_err(),
                format!("ParseAddr({text:?}): {problem}")
            );
        }
    }

    #[test]
    fn networks_have_a_length() {
        assert_eq!(parse_prefix("10.0.0.0/8").unwrap().1, 8);
        for (text, problem) in [
            ("10.0.0.0", "no '/'"),
            ("10.0.0.0/33", "prefix length out of range"),
            ("10.0.0.0/08", "bad bits after slash: \"08\""),
            ("10.0.0.0/", "bad bits after slash: \"\""),
            ("x/8", "ParseAddr(\"x\"): unable to parse IP"),
        ] {
            assert_eq!(
                parse_prefix(text).unwrap_err(),
                format!("netip.ParsePrefix({text:?}): {problem}")
            );
        }
    }
}
