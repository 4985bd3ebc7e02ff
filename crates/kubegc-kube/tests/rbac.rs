//! The RBAC rules are valid YAML and contain the verbs of each function.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kubegc_kube::rbac::YAML;

/// The names and the rules of the roles in a manifest.
pub(crate) fn roles(yaml: &str) -> Vec<(String, Vec<PolicyRule>)> {
    let parse = |text: &str| -> (String, Vec<PolicyRule>) {
        if text.contains("kind: ClusterRole") {
            let role: ClusterRole = serde_saphyr::from_str(text).expect("a ClusterRole");
            (role.metadata.name.expect("named"), role.rules.expect("rules"))
        } else {
            let role: Role = serde_saphyr::from_str(text).expect("a Role");
            assert_eq!(role.metadata.namespace.as_deref(), Some("kube-system"));
            (role.metadata.name.expect("named"), role.rules.expect("rules"))
        }
    };
    yaml.split("---\n").map(parse).collect()
}

#[test]
fn each_role_has_only_the_verbs_of_its_function() {
    let verbs: Vec<(String, Vec<String>)> = roles(YAML)
        .into_iter()
        .map(|(name, rules)| {
            let on_resources = rules.iter().filter(|rule| rule.non_resource_urls.is_none());
            let mut verbs: Vec<String> = on_resources.flat_map(|rule| rule.verbs.clone()).collect();
            verbs.sort();
            (name, verbs)
        })
        .collect();
    let expected: Vec<(String, Vec<String>)> = [
        (
            "kubegc-collect",
            vec!["delete", "get", "list", "patch", "update", "watch"],
        ),
        ("kubegc-snapshot", vec!["list"]),
        ("kubegc-events", vec!["create"]),
        ("kubegc-leader-election", vec!["create", "get", "patch"]),
    ]
    .into_iter()
    .map(|(name, verbs)| (name.to_owned(), verbs.into_iter().map(str::to_owned).collect()))
    .collect();
    assert_eq!(verbs, expected);
}

#[test]
fn roles_for_collection_and_snapshots_can_read_discovery_and_the_version() {
    for (name, rules) in roles(YAML).into_iter().take(2) {
        let urls: Vec<String> = rules
            .into_iter()
            .filter_map(|rule| rule.non_resource_urls)
            .flatten()
            .collect();
        for url in ["/api", "/apis", "/api/*", "/apis/*", "/version"] {
            assert!(urls.iter().any(|granted| granted == url), "{name}: {url}");
        }
    }
}

#[cfg(feature = "leader-election")]
#[test]
fn the_role_for_leader_election_names_the_default_lease() {
    let election = kubegc_kube::LeaderElection::new("me");
    let (_, rules) = roles(YAML).pop().expect("the last one");
    let named: Vec<String> = rules
        .into_iter()
        .filter_map(|rule| rule.resource_names)
        .flatten()
        .collect();
    assert_eq!(named, [election.name]);
    assert_eq!(election.namespace, "kube-system");
}
