//! URLs of objects and collections. Some addresses are refused: an empty name would mean the whole
//! collection.

use std::fmt::Write as _;

use kubegc_core::{ApiResource, StoreError, store::Address};

#[derive(Clone, Debug)]
pub(crate) struct Url(String);

impl Url {
    pub(crate) fn path(path: &str) -> Self {
        Self(path.to_owned())
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        encode(&mut self.0, value);
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The URL of a resource's objects, in one namespace or in all.
pub(crate) fn collection(resource: &ApiResource, namespace: Option<&str>) -> Result<Url, StoreError> {
    let mut text = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if let Some(namespace) = namespace {
        if !resource.is_namespaced() {
            return Err(StoreError::NotFound);
        }
        text.push_str("/namespaces/");
        encode(&mut text, segment("namespace", namespace)?);
    }
    text.push('/');
    encode(&mut text, &resource.resource);
    Ok(Url(text))
}

/// The URL of one object.
///
/// # Errors
/// [`StoreError::NotFound`] if a namespace is given and the kind is cluster-scoped, or the reverse: there is
/// no such URL. [`StoreError::Refused`] for names that cannot be part of a path; upstream's client refuses
/// them as well.
pub(crate) fn object(address: Address<'_>, subresource: Option<&str>) -> Result<Url, StoreError> {
    if address.resource.is_namespaced() == address.namespace.is_empty() {
        return Err(StoreError::NotFound);
    }
    let namespace = Some(address.namespace).filter(|namespace| !namespace.is_empty());
    let mut url = collection(address.resource, namespace)?;
    url.0.push('/');
    encode(&mut url.0, segment("name", address.name)?);
    if let Some(subresource) = subresource {
        url.0.push('/');
        encode(&mut url.0, segment("subresource", subresource)?);
    }
    Ok(url)
}

/// # Upstream
/// [`IsValidPathSegmentName`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go).
fn segment<'a>(what: &str, text: &'a str) -> Result<&'a str, StoreError> {
    if matches!(text, "" | "." | "..") || text.contains(['/', '%']) {
        return Err(not_sent(format!("{text:?} cannot be a {what}")));
    }
    Ok(text)
}

/// The error of a request that cannot be sent.
pub(crate) fn not_sent(message: String) -> StoreError {
    StoreError::Refused {
        code: 400,
        message,
        retry_after: None,
    }
}

fn encode(to: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@!$'()*,;".contains(&byte) {
            to.push(char::from(byte));
        } else {
            // Writing to a String never fails.
            let _written = write!(to, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::Scope::{Cluster, Namespaced};

    use super::*;

    /// Resource, namespace and name, and the URL or why there is none.
    const ROWS: &str = r#"
pods|shop|a|/api/v1/namespaces/shop/pods/a
clusterroles||system:a|/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a
clusterroles||a b?c#d|/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b%3Fc%23d
pods||a|not found
clusterroles|shop|a|not found
pods|shop||"" cannot be a name
pods|shop|..|".." cannot be a name
pods|shop|a/b|"a/b" cannot be a name
pods|..|a|".." cannot be a namespace
"#;

    #[test]
    fn urls_are_those_of_the_api_and_odd_names_are_not_sent() {
        let group = "rbac.authorization.k8s.io/v1";
        let resources = [
            ApiResource::new("v1", "Pod", "pods", Namespaced),
            ApiResource::new(group, "ClusterRole", "clusterroles", Cluster),
        ];
        for row in ROWS.trim().lines() {
            let [resource, namespace, name, expected] = row.split('|').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let resource = resources.iter().find(|known| *known.resource == *resource);
            let address = Address {
                resource: resource.expect(row),
                namespace,
                name,
            };
            let got = match object(address, None) {
                Ok(url) => url.0,
                Err(StoreError::Refused {
                    code: 400, message, ..
                }) => message,
                Err(error) => {
                    assert_eq!(error, StoreError::NotFound, "{row}");
                    "not found".to_owned()
                }
            };
            assert_eq!(got, expected, "{row}");
        }
        let url = Url::path("/apis").query("a", "b&c").query("d", "e=");
        assert_eq!(url.as_str(), "/apis?a=b%26c&d=e%3D");
    }
}
