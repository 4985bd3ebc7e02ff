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
fn each_role_has_only_the_verbs_of_its_function_and_reads_discovery_and_the_version() {
    let urls = "/api /api/* /apis /apis/* /version";
    for ((name, rules), (expected, verbs, expected_urls)) in roles(YAML).into_iter().zip([
        ("kubegc-collect", "delete get list patch update watch", urls),
        ("kubegc-snapshot", "list", urls),
        ("kubegc-events", "create", ""),
        ("kubegc-leader-election", "create get patch", ""),
    ]) {
        assert_eq!(name, expected);
        let on_resources = rules.iter().filter(|rule| rule.non_resource_urls.is_none());
        let mut granted: Vec<String> = on_resources.flat_map(|rule| rule.verbs.clone()).collect();
        granted.sort();
        assert_eq!(granted.join(" "), verbs, "{name}");
        let urls = rules.into_iter().filter_map(|rule| rule.non_resource_urls);
        let mut urls: Vec<String> = urls.flatten().collect();
        urls.sort();
        assert_eq!(urls.join(" "), expected_urls, "{name}");
    }
    assert_eq!(roles(YAML).len(), 4);
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
