//! Formats of names, ports and addresses, and upstream's messages for invalid values.
//!
//! Every function returns the problems of a value; an empty list means that it is valid.
//!
//! # Upstream
//! [`apimachinery/pkg/util/validation`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go).

use std::net::IpAddr;

use kubegc_core::{Behavior, KubernetesVersion};

/// Names are called RFC 1123 names; before, DNS-1123 names.
const NAMES_ARE_RFC_1123: Behavior = Behavior::since(20, 0, "kubernetes #94182");

/// Lengths of labels are said in bytes.
pub(crate) const LENGTHS_ARE_BYTES: Behavior = Behavior::since(35, 0, "apimachinery 3d653663");
/// A label that is a subdomain is refused for its dots.
const DOTS_ARE_NAMED: Behavior = Behavior::since(27, 0, "kubernetes #114172");

pub(crate) const NAME_PART_MAX: usize = 63;
pub(crate) const SUBDOMAIN_MAX: usize = 253;

pub(crate) fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The same for keys and values of labels.
fn label_too_long(version: KubernetesVersion, max: usize) -> String {
    let unit = if version.has(LENGTHS_ARE_BYTES) {
        "bytes"
    } else {
        "characters"
    };
    format!("must be no more than {max} {unit}")
}

pub(crate) fn not_between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The prefix of a name without a dash at its end: the generated part begins with a letter or digit, so a
/// dash before it is valid.
pub(crate) fn masked_prefix(prefix: &str) -> String {
    let mut masked = prefix.to_owned();
    if prefix.len() > 1 && prefix.ends_with('-') {
        masked.truncate(prefix.len() - 1);
        masked.pop();
        masked.push('a');
    }
    masked
}

/// The message for a value that does not match a pattern, with examples.
fn mismatch(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    // Upstream puts two spaces before each `or`.
    let examples = examples.join(",  or ");
    if examples.is_empty() {
        format!("{message} (regex used for validation is '{pattern}')")
    } else {
        format!("{message} (e.g. {examples}, regex used for validation is '{pattern}')")
    }
}

/// One problem for the length and one for the form.
fn checked(value: &str, max: usize, fits: bool, problem: impl FnOnce() -> String) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > max {
        problems.push(too_long(max));
    }
    if !fits {
        problems.push(problem());
    }
    problems
}

fn is_name_part(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Whether a string can be the key of a label: an optional DNS subdomain, a slash, a name.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    qualified_name(KubernetesVersion::LATEST, text).is_empty()
}

fn is_subdomain(name: &str) -> bool {
    name.as_bytes().split(|&byte| byte == b'.').all(is_label)
}

fn is_label(label: &[u8]) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    label.first().is_some_and(alphanumeric)
        && label.last().is_some_and(alphanumeric)
        && label.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// A name with too many slashes is called a label key.
const QUALIFIED_NAMES_ARE_LABEL_KEYS: Behavior = Behavior::since_about(35, "between 1.34 and 1.36");

/// `IsQualifiedName`: an optional DNS subdomain, a slash, a name.
pub(crate) fn qualified_name(version: KubernetesVersion, value: &str) -> Vec<String> {
    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut problems = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let subject = match version.has(QUALIFIED_NAMES_ARE_LABEL_KEYS) {
                true => "a valid label key",
                false => "a qualified name",
            };
            return vec![format!(
                "{subject} {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                let (usual, own) = (too_long(SUBDOMAIN_MAX), label_too_long(version, SUBDOMAIN_MAX));
                let of_prefix = subdomain(version, prefix).into_iter();
                problems.extend(
                    of_prefix.map(|problem| format!("prefix part {}", problem.replace(&usual, &own))),
                );
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_PART_MAX {
        problems.push(format!("name part {}", label_too_long(version, NAME_PART_MAX)));
    }
    if !is_name_part(name) {
        problems.push(format!("name part {NAME}"));
    }
    problems
}

/// `IsValidLabelValue`.
pub(crate) fn label_value(version: KubernetesVersion, value: &str) -> Vec<String> {
    let fits = value.is_empty() || is_name_part(value);
    let mut problems = checked(value, usize::MAX, fits, || {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                       must start and end with an alphanumeric character";
        let pattern = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
        mismatch(message, pattern, &["MyValue", "my_value", "12345"])
    });
    if value.len() > NAME_PART_MAX {
        problems.insert(0, label_too_long(version, NAME_PART_MAX));
    }
    problems
}

/// `IsDNS1123Label`.
pub(crate) fn label(version: KubernetesVersion, value: &str) -> Vec<String> {
    if version.has(DOTS_ARE_NAMED) && value.contains('.') && is_subdomain(value) {
        let mut problems = checked(value, NAME_PART_MAX, true, String::new);
        problems.push("must not contain dots".to_owned());
        return problems;
    }
    checked(value, NAME_PART_MAX, is_label(value.as_bytes()), || {
        let subject = if version.has(NAMES_ARE_RFC_1123) {
            "a lowercase RFC 1123 label"
        } else {
            "a DNS-1123 label"
        };
        let message = format!(
            "{subject} must consist of lower case alphanumeric characters or '-', and must start and end with an \
             alphanumeric character"
        );
        mismatch(&message, "[a-z0-9]([-a-z0-9]*[a-z0-9])?", &["my-name", "123-abc"])
    })
}

/// `IsDNS1123Subdomain`.
pub(crate) fn subdomain(version: KubernetesVersion, value: &str) -> Vec<String> {
    checked(value, SUBDOMAIN_MAX, is_subdomain(value), || {
        let subject = if version.has(NAMES_ARE_RFC_1123) {
            "a lowercase RFC 1123 subdomain"
        } else {
            "a DNS-1123 subdomain"
        };
        let message = format!(
            "{subject} must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character"
        );
        let pattern = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
        mismatch(&message, pattern, &["example.com"])
    })
}

/// `IsDNS1123SubdomainWithUnderscore`.
pub(crate) fn subdomain_with_underscores(value: &str) -> Vec<String> {
    let fits = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        is_label(rest.replace('_', "-").as_bytes())
    };
    checked(value, SUBDOMAIN_MAX, value.split('.').all(fits), || {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                       and must start and end with an alphanumeric character";
        let pattern = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        mismatch(message, pattern, &["example.com"])
    })
}

/// `IsDNS1035Label`.
pub(crate) fn dns_1035_label(value: &str) -> Vec<String> {
    let fits = is_label(value.as_bytes()) && value.starts_with(|c: char| c.is_ascii_lowercase());
    checked(value, NAME_PART_MAX, fits, || {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                       character, and end with an alphanumeric character";
        mismatch(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"])
    })
}

/// The name of a kind: a DNS-1035 label in lower case.
pub(crate) fn kind_name(value: &str) -> Vec<String> {
    let problems = dns_1035_label(&value.to_lowercase()).into_iter();
    let of_kind = |problem| format!("may have mixed case, but should otherwise match: {problem}");
    problems.map(of_kind).collect()
}

/// `IsValidPortNum`.
pub(crate) fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65_535)
}

/// `IsInRange`.
pub(crate) fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    let fits = (low..=high).contains(&value);
    (!fits).then(|| not_between(low, high)).into_iter().collect()
}

/// `net.ParseIP` of Go before 1.17, which accepts leading zeros.
pub(crate) fn parse_ip(value: &str) -> Option<IpAddr> {
    value.parse().ok().or_else(|| {
        let parts = value.split('.').map(|part| {
            let fits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| fits)
        });
        let parts: Vec<u8> = parts.collect::<Option<_>>()?;
        <[u8; 4]>::try_from(parts).ok().map(IpAddr::from)
    })
}

/// `net.ParseCIDR`: the network and the length of its mask.
pub(crate) fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address = parse_ip(address)?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    let fits = length <= if address.is_ipv4() { 32 } else { 128 };
    fits.then(|| masked(address, length).map(|network| (network, length)))?
}

/// The address without the bits after the mask; `None` for a mask that is too long for the family.
pub(crate) fn masked(address: IpAddr, length: u8) -> Option<IpAddr> {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(length)?).unwrap_or(0);
            Some(IpAddr::V4((u32::from(address) & mask).into()))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
            Some(IpAddr::V6((u128::from(address) & mask).into()))
        }
    }
}

/// `IsValidCIDR`.
pub(crate) fn cidr(text: &str) -> Vec<String> {
    let Some((network, length)) = parse_cidr(text) else {
        let problem = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        return vec![problem.to_owned()];
    };
    let (address, digits) = text.split_once('/').unwrap_or((text, ""));
    let problem = match address.parse::<IpAddr>() {
        Ok(_) if digits.len() > 1 && digits.starts_with('0') => {
            "must not have leading 0s in IP or prefix length"
        }
        Err(_) => "must not have leading 0s in IP or prefix length",
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => "must not have an IPv4-mapped IPv6 address",
        Ok(ip) if ip != network => "must not have bits set beyond the prefix length",
        Ok(_) => {
            let canonical = format!("{network}/{length}");
            let problem = not_canonical(&canonical);
            return (canonical != text).then_some(problem).into_iter().collect();
        }
    };
    vec![problem.to_owned()]
}

/// `IsValidCIDRForLegacyField`: other forms than the canonical one stay allowed, and other problems did
/// before `StrictIPCIDRValidation`.
pub(crate) fn legacy_cidr(version: KubernetesVersion, text: &str) -> Vec<String> {
    let mut problems = cidr(text);
    let is_strict = version.has(ZEROS_ARE_REFUSED) || parse_cidr(text).is_none();
    problems.retain(|problem| is_strict && !problem.starts_with("must be in canonical form"));
    problems
}

fn not_canonical(canonical: &str) -> String {
    format!("must be in canonical form ({})", crate::status::quoted(canonical))
}

pub(crate) const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

pub(crate) fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => matches!(ip.octets(), [0xff, scope, ..] if scope & 0x0f == 2),
    }
}

/// `StrictIPCIDRValidation`.
pub(crate) const ZEROS_ARE_REFUSED: Behavior = Behavior::since(36, 0, "kubernetes #137053");

/// `IsValidIPForLegacyField`.
pub(crate) fn ip(version: KubernetesVersion, value: &str) -> Vec<String> {
    let is_strict = version.has(ZEROS_ARE_REFUSED);
    let problem = match parse_ip(value) {
        None => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Some(IpAddr::V4(ip)) if ip.to_string() != value && is_strict => "must not have leading 0s",
        Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() && is_strict => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Some(_) => return Vec::new(),
    };
    vec![problem.to_owned()]
}

/// `IsValidIP`: in new fields, addresses are in their canonical form.
pub(crate) fn canonical_ip(value: &str) -> Vec<String> {
    let newest = KubernetesVersion::LATEST;
    let problems = ip(newest, value);
    match parse_ip(value) {
        Some(ip) if problems.is_empty() && ip.to_string() != value => {
            vec![not_canonical(&ip.to_string())]
        }
        _ => problems,
    }
}

/// `IsConfigMapKey`.
pub(crate) fn config_key(value: &str) -> Vec<String> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let fits = !value.is_empty() && value.bytes().all(known);
    let mut problems = checked(value, SUBDOMAIN_MAX, fits, || {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        mismatch(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"])
    });
    problems.extend(directory_prefix(value));
    problems
}

fn directory_prefix(value: &str) -> Option<String> {
    let problem = match value {
        "." => "must not be '.'",
        ".." => "must not be '..'",
        _ if value.starts_with("..") => "must not start with '..'",
        _ => return None,
    };
    Some(problem.to_owned())
}

/// `IsValidPathSegmentName`.
pub(crate) fn path_segment(value: &str) -> Vec<String> {
    match value {
        "." => return vec!["may not be '.'".to_owned()],
        ".." => return vec!["may not be '..'".to_owned()],
        _ => {}
    }
    let contained = ['/', '%'].into_iter().filter(|c| value.contains(*c));
    contained.map(|c| format!("may not contain '{c}'")).collect()
}
