//! URLs as Go parses them, and the functions of expressions on them.
//!
//! # Upstream
//! `parse` in [`net/url`](https://github.com/golang/go/blob/go1.25.0/src/net/url/url.go), and
//! [`urls.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/urls.go).

use std::{borrow::Cow, collections::BTreeMap};

use super::values::value;
use crate::status::quoted;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: String,
    /// The part after the scheme of a URL without slashes.
    opaque: String,
    user: String,
    pub(super) host: String,
    /// The path as it was written.
    path: String,
    query: String,
    fragment: String,
}
value!(Url, "kubernetes.URL");

/// The part of a URL that a text belongs to: hosts have characters and escapes of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    Other,
}

/// Whether a byte stands for itself in a part of a URL with these other characters.
fn keeps(others: &[u8], byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || others.contains(&byte)
}

const OF_HOST: &[u8] = b"!$&'()*+,;=:[]<>\"";
const OF_PATH: &[u8] = b"$&+,/:;=@";

impl Part {
    /// The text without escapes.
    fn unescaped(self, text: &str) -> Result<String, String> {
        let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
        while let Some(&byte) = bytes.get(at) {
            if byte == b'%' {
                let escape = &bytes[at..bytes.len().min(at + 3)];
                let digit = |place: usize| char::from(*escape.get(place)?).to_digit(16);
                let decoded = digit(1).zip(digit(2)).map(|(high, low)| (high * 16 + low) as u8);
                let decoded = decoded.filter(|decoded| match self {
                    Self::Host => *decoded >= 0x80 || escape == b"%25",
                    Self::Zone => escape == b"%25" || *decoded == b' ' || keeps(OF_HOST, *decoded),
                    Self::Other => true,
                });
                let wrong = || format!("invalid URL escape {}", quoted(&lossy(escape)));
                out.push(decoded.ok_or_else(wrong)?);
                at += 3;
                continue;
            }
            if self != Self::Other && byte.is_ascii() && !keeps(OF_HOST, byte) {
                let shown = quoted(&char::from(byte).to_string());
                return Err(format!("invalid character {shown} in host name"));
            }
            out.push(byte);
            at += 1;
        }
        Ok(lossy(&out).into_owned())
    }
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Whether a text is empty, or a colon with digits.
fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The error of a text that is no URL.
fn failed(text: &str) -> impl Fn(String) -> String {
    move |problem| format!("parse {}: {problem}", quoted(text))
}

impl Url {
    /// `ParseRequestURI`, and then `Parse`: a request does not separate its fragment.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_request(text)?;
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::read(address, false).map_err(failed(address))?;
        url.fragment = Part::Other.unescaped(fragment).map_err(failed(text))?;
        Ok(url)
    }

    /// `ParseRequestURI`.
    pub(super) fn parse_request(text: &str) -> Result<Self, String> {
        Self::read(text, true).map_err(failed(text))
    }

    fn read(text: &str, is_request: bool) -> Result<Self, String> {
        let mut url = Self::default();
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && is_request {
            return Err("empty url".to_owned());
        }
        if text == "*" {
            "*".clone_into(&mut url.path);
            return Ok(url);
        }
        let (scheme, rest) = scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.query);
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if is_request {
                return Err("invalid URI for request".to_owned());
            }
            let mut segments = rest.split('/');
            if segments.next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let has_authority = !scheme.is_empty() || !is_request && !rest.starts_with("///");
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix("//").filter(|_| has_authority) {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, after) = authority.split_at(end);
            path = after;
            url.set_authority(authority)?;
        }
        Part::Other.unescaped(path)?;
        path.clone_into(&mut url.path);
        Ok(url)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            None => (None, authority),
            Some((user, host)) => (Some(user), host),
        };
        self.host = host_of(host)?;
        let Some(user) = user else {
            return Ok(());
        };
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
        if !user.bytes().all(is_valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        for part in user.splitn(2, ':') {
            Part::Other.unescaped(part)?;
        }
        user.clone_into(&mut self.user);
        Ok(())
    }

    /// The host without its port, and the port.
    pub(super) fn host_and_port(&self) -> (&str, &str) {
        let colon = self.host.rfind(':').filter(|colon| is_port(&self.host[*colon..]));
        let (host, port) = match colon {
            Some(colon) => (&self.host[..colon], &self.host[colon + 1..]),
            None => (self.host.as_str(), ""),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }

    pub(super) fn escaped_path(&self) -> String {
        let is_valid = |byte: u8| keeps(OF_PATH, byte) || b"!'()*[]%".contains(&byte);
        if self.path.bytes().all(is_valid) {
            return self.path.clone();
        }
        let path = Part::Other.unescaped(&self.path).unwrap_or_default();
        let escaped = path.bytes().map(|byte| match keeps(OF_PATH, byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        escaped.collect()
    }

    /// The values of each key of the query. What cannot be read is left out.
    pub(super) fn values(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let query = self.query.replace('+', " ");
        let pairs = query.split('&');
        for pair in pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let [key, value] = [key, value].map(|text| Part::Other.unescaped(text));
            if let (Ok(key), Ok(value)) = (key, value) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

/// The scheme, or nothing, and what follows it.
///
/// # Errors
/// The text begins with a colon.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match text.split_once(':') {
        Some(("", _)) => Err("missing protocol scheme".to_owned()),
        Some((scheme, rest))
            if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_known) =>
        {
            Ok((scheme, rest))
        }
        _ => Ok(("", text)),
    }
}

/// The host of an authority, without escapes.
fn host_of(host: &str) -> Result<String, String> {
    let checked = |port: &str| match is_port(port) {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", quoted(port))),
    };
    if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        checked(&host[end + 1..])?;
        if let Some(zone) = host[..end].find("%25") {
            let before = Part::Host.unescaped(&host[..zone])?;
            let zone = Part::Zone.unescaped(&host[zone..end])?;
            return Ok(before + &zone + &Part::Host.unescaped(&host[end..])?);
        }
    } else if let Some(colon) = host.rfind(':') {
        checked(&host[colon..])?;
    }
    Part::Host.unescaped(host)
}
