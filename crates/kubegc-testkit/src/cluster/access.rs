//! Access rules of clients, set by a test.

use std::sync::Arc;

use super::Cluster;
use crate::{RequestMatcher, http::AccessRules};

/// The access rules of clients. Made by [`Cluster::access`].
///
/// The first rule that applies to a request decides; a request without one is allowed. A denied request gets
/// a 403 response and is not performed. Access reviews apply the same rules. The control plane is never
/// denied.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use k8s_openapi::api::core::v1::Secret;
/// use kube::api::{Api, ListParams};
/// use kubegc_testkit::{Cluster, RequestMatcher};
/// let cluster = Cluster::new();
/// cluster.access().deny(RequestMatcher::new().user("my-operator").verb("list").resource("", "secrets"));
/// let secrets: Api<Secret> = Api::default_namespaced(cluster.client_as("my-operator"));
/// let refused = secrets.list(&ListParams::default()).await.unwrap_err().to_string();
/// assert!(refused.contains("User \"my-operator\" cannot list resource \"secrets\""), "{refused}");
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    cluster: &'a Cluster,
}

impl Cluster {
    /// The access rules of clients. Everything is allowed until a rule denies it.
    pub const fn access(&self) -> Access<'_> {
        Access { cluster: self }
    }
}

impl Access<'_> {
    /// Allows the matching requests, regardless of later rules.
    pub fn allow(&self, requests: RequestMatcher) {
        self.change(|rules| rules.allow(requests));
    }

    /// Denies the matching requests, regardless of later rules.
    pub fn deny(&self, requests: RequestMatcher) {
        self.change(|rules| rules.deny(requests));
    }

    /// Removes all rules: everything is allowed.
    pub fn clear(&self) {
        self.change(AccessRules::clear);
    }

    fn change(&self, change: impl FnOnce(&mut AccessRules)) {
        change(Arc::make_mut(&mut self.cluster.inner.state.lock().access));
    }
}
