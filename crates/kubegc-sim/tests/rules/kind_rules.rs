//! Rules of single kinds, as `kind_rules.txt` describes.

use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_sim::{ApiServer, Settings};

use crate::{releases::perform, world::typed};

#[test]
fn rules_of_kinds_hold() {
    let mut failed = Vec::new();
    let rows = include_str!("kind_rules.txt").lines();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let plain = row.strip_prefix("cel ");
        if plain.is_some() && !cfg!(feature = "cel") {
            continue;
        }
        let (requests, expected) = plain.unwrap_or(row).split_once(" | ").unwrap();
        let mut server = typed("1.36.0");
        let mut last = String::new();
        for request in requests.split(" ; ") {
            last = perform(&mut server, request);
        }
        if !last.contains(expected) {
            failed.push(format!("{row}\n{last}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_simulated_controller_keeps_quotas_up_to_date() {
    let version = KubernetesVersion::LATEST;
    let settings = Settings {
        namespaces_must_exist: false,
        quota_controller: true,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    let quota =
        r#"create ResourceQuota {"spec":{"hard":{"count/configmaps":"1","count/resourcequotas":"2"}}}"#;
    let used = "get ResourceQuota /status/used";
    for (request, expected) in [
        (r#"create ConfigMap {"metadata":{"name":"before"}}"#, "201"),
        (quota, "201"),
        (used, r#"{"count/configmaps":"1","count/resourcequotas":"1"}"#),
        (
            "create ConfigMap",
            "403; configmaps \"a\" is forbidden: exceeded quota: a",
        ),
        (r#"delete ConfigMap {"metadata":{"name":"before"}}"#, "200"),
        ("create ConfigMap", "201"),
        (used, r#"{"count/configmaps":"1","count/resourcequotas":"1"}"#),
        (
            r#"merge ResourceQuota {"spec":{"hard":{"count/configmaps":"2"}}}"#,
            "200",
        ),
        (r#"create ConfigMap {"metadata":{"name":"b"}}"#, "201"),
    ] {
        let response = perform(&mut server, request);
        assert!(response.starts_with(expected), "{request}: {response}");
    }
}
