//! The subresource that a path addresses.

use kubegc_core::{ApiResource, KindId, identity::split_api_version};
use kubegc_sim::{ApiServer, Subresource};

/// The subresource of this name, if the resource has it and it is served here: `proxy` is not.
pub(super) fn find(server: &ApiServer, kind: KindId, name: &str) -> Option<Subresource> {
    let mut served = all(server, kind).into_iter().filter(|part| part.name != "proxy");
    served.find(|part| part.name == name)
}

/// All subresources of a resource, served here or not.
pub(super) fn all(server: &ApiServer, kind: KindId) -> Vec<Subresource> {
    let of_nodes = of_nodes(&server.catalog()[kind]);
    [server.subresources(kind).as_slice(), of_nodes].concat()
}

/// Group and version of the kind that a subresource is of, if that is not the resource's own.
pub(super) fn group_version(part: &Subresource) -> Option<(&'static str, &'static str)> {
    (!part.api_version.is_empty()).then(|| split_api_version(part.api_version))
}

/// The subresources of built-in resources that nodes and the token issuer serve.
fn of_nodes(resource: &ApiResource) -> &'static [Subresource] {
    const CONNECT: &[&str] = &["create", "get"];
    const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
    const fn part(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
        Subresource {
            name,
            api_version: "",
            kind,
            verbs,
        }
    }
    const PODS: &[Subresource] = &[
        part("attach", "PodAttachOptions", CONNECT),
        part("exec", "PodExecOptions", CONNECT),
        part("log", "Pod", &["get"]),
        part("portforward", "PodPortForwardOptions", CONNECT),
        part("proxy", "PodProxyOptions", PROXY),
    ];
    const ACCOUNTS: &[Subresource] = &[Subresource {
        name: "token",
        api_version: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        verbs: &["create"],
    }];
    if !resource.group.is_empty() {
        return &[];
    }
    match &*resource.resource {
        "pods" => PODS,
        "nodes" => const { &[part("proxy", "NodeProxyOptions", PROXY)] },
        "services" => const { &[part("proxy", "ServiceProxyOptions", PROXY)] },
        "serviceaccounts" => ACCOUNTS,
        _ => &[],
    }
}
