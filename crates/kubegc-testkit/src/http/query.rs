//! Percent-decoding of URLs, and the parameters of the query.

use super::problem::{self, Refusal};

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query. A pair that cannot be decoded is left out, as upstream's server leaves it out.
    pub(super) fn read(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&');
        let decoded = pairs.filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let decoded = decoded.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key, true)?, decode(value, true)?))
        });
        Self(decoded.collect())
    }

    pub(super) fn first(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| &**value)
    }

    /// The first value of a parameter; empty if there is none.
    pub(super) fn text(&self, key: &str) -> &str {
        self.first(key).unwrap_or_default()
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.iter().filter(move |(name, _)| name == key);
        pairs.map(|(_, value)| &**value)
    }

    /// A flag: absent, `false` and `0` mean no, anything else means yes, the empty text too.
    ///
    /// # Upstream
    /// `Convert_Slice_string_To_bool` in `apimachinery/pkg/runtime/conversion.go`, 1.20.2.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.first(key)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A whole number. An empty text counts as absent.
    pub(super) fn number(&self, key: &str) -> Result<Option<i64>, Refusal> {
        let text = self.text(key);
        let refuse = |_| problem::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(refuse),
        }
    }
}

/// Undoes percent-encoding; `None` if an escape is cut short or no hexadecimal number. Bytes that are no
/// UTF-8 are replaced.
pub(super) fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => nibble(rest.next()?)? << 4 | nibble(rest.next()?)?,
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn nibble(digit: u8) -> Option<u8> {
    // A hexadecimal digit is below 16.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_and_broken_ones_are_refused() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("a%2Fb%20c", Some("a/b c")),
            ("a+b", Some("a+b")),
            ("%c3%bc", Some("ü")),
            ("%ff", Some("\u{fffd}")),
            ("%", None),
            ("%2", None),
            ("%zz", None),
        ] {
            assert_eq!(decode(text, false).as_deref(), expected, "{text}");
        }
        assert_eq!(decode("a+b", true).as_deref(), Some("a b"));
    }

    #[test]
    fn parameters_are_read_as_upstream_reads_them() {
        let query = Query::read(Some(
            "&limit=500&watch&x=1;y=2&bad=%zz&q=a%3Db&q=c&f=0&t=False&n=&z=ten",
        ));
        assert_eq!(query.number("limit"), Ok(Some(500)));
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!((query.first("x"), query.first("bad")), (None, None));
        assert_eq!(query.all("q").collect::<Vec<_>>(), ["a=b", "c"]);
        assert_eq!(
            (query.flag("f"), query.flag("t"), query.flag("none")),
            (Some(false), Some(false), None)
        );
        assert!(query.number("n") == Ok(None) && query.number("z").is_err());
        assert_eq!(Query::read(None), Query::default());
    }
}
