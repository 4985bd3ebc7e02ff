//! Token Secrets of ServiceAccounts.

use crate::support::{assert_cautious, cache, object, plan, run, secs, version};
use kubegc_controllers::{Cache, Change, Controller as _, Key, ServiceAccountTokens};
use kubegc_core::record::{Body, Field, Record, Resource, Secret, ServiceAccount};

fn account(name: &str, secrets: &[&str]) -> (Resource, Record) {
    let account = ServiceAccount {
        secrets: secrets
            .iter()
            .map(|name| (*name).into())
            .collect::<Vec<_>>()
            .into(),
    };
    (
        Resource::ServiceAccounts,
        object("shop", name, Body::ServiceAccount(account)),
    )
}

fn token(name: &str, account: &str, uid: &str) -> (Resource, Record) {
    let secret = Secret {
        secret_type: Field::Known("kubernetes.io/service-account-token".into()),
        service_account_name: Field::Known(account.into()),
        service_account_uid: Field::Known(uid.into()),
        ..Secret::default()
    };
    (Resource::Secrets, object("shop", name, Body::Secret(secret)))
}

#[test]
fn tokens_of_deleted_accounts_are_deleted() {
    let controller = ServiceAccountTokens::new(version(34));
    let opaque = (
        Resource::Secrets,
        object("shop", "opaque", Body::Secret(Secret::default())),
    );
    let objects = [
        account("live", &["t-live"]),
        token("t-live", "live", "u-live"),
        token("t-any", "live", ""),
        token("t-old", "live", "u-before"),
        token("t-gone", "gone", "u-gone"),
        token("t-none", "", ""),
        opaque,
    ];
    let mut known = cache(&controller, objects.to_vec());
    assert_eq!(
        plan(&controller, &known, secs(0)),
        [
            "delete secret/t-gone -n shop: AccountDeleted",
            "delete secret/t-old -n shop: AccountDeleted",
            "keep secret/t-any -n shop: AccountExists",
            "keep secret/t-live -n shop: AccountExists",
            "keep secret/t-none -n shop: NoAccount"
        ]
    );
    assert_cautious(&controller, &objects, secs(0));
    assert_eq!(
        run(&controller, &mut known, secs(0)),
        ["delete secret/t-gone -n shop", "delete secret/t-old -n shop"]
    );
}

#[test]
fn references_to_deleted_tokens_are_removed() {
    let controller = ServiceAccountTokens::new(version(34));
    let mut known = cache(
        &controller,
        vec![account("live", &["t-1", "t-2"]), account("other", &["t-1"])],
    );
    let (_, old) = token("t-1", "live", "u-live");
    let key = Key::new("shop", "t-1");
    let mut keys = Vec::new();
    let change = Change {
        resource: Resource::Secrets,
        key: &key,
        old: Some(&old),
        new: None,
    };
    controller.affected(&known, &change, &mut keys);
    assert_eq!(keys, [Key::new("shop", "live/t-1")]);
    let requests = crate::support::run_keys(&controller, &mut known, secs(0), &keys);
    assert_eq!(
        requests,
        ["update serviceaccount/live -n shop RemoveSecretReference(\"t-1\")"]
    );
    let secrets = |cache: &Cache, name: &str| {
        let account = cache.get(Resource::ServiceAccounts, &Key::new("shop", name));
        account
            .and_then(Record::service_account)
            .and_then(|account| account.secrets.known().cloned())
    };
    assert_eq!(secrets(&known, "live"), Some(vec!["t-2".into()]));
    assert_eq!(secrets(&known, "other"), Some(vec!["t-1".into()]));
    assert!(crate::support::run_keys(&controller, &mut known, secs(0), &keys).is_empty());
}
