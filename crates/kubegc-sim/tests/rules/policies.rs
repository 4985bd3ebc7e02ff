//! ValidatingAdmissionPolicies over objects of which only metadata is known.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    RequestMatcher,
    admission::{MatchResources, Policy, PolicyBinding, Validation},
};

use crate::world::{policy, world_of};

/// A row: release, expression, message and reason of the validation, action of the binding; the response to
/// the deletion of ConfigMap `a`: status code and message or warning, and the number of undecided requests.
const CASES: &str = "\
1.30 | false | | | Deny | 422 configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false | 0
1.36 | false | not here | Forbidden | Deny | 403 configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not here | 0
1.36 | false | not here | | Warn | 200 Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': not here | 0
1.36 | false | not here | | Audit | 200 | 0
1.36 | true | | | Deny | 200 | 0
1.36 | oldObject.data.k == 'v' | | | Deny | 200 | 1
1.36 | request.userInfo.username != 'x' | | | Deny | 200 | 1
1.36 | oldObject.data.k == 'v' | | | Warn | 200 | 0
1.29 | false | | | Deny | 200 | 0
";

/// The same, if CEL expressions are evaluated.
const CEL_CASES: &str = "\
1.36 | oldObject.metadata.name != 'a' | | | Deny | 422 configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: oldObject.metadata.name != 'a' | 0
1.36 | object == null && request.operation == 'DELETE' | | | Deny | 200 | 0
1.36 | !has(oldObject.metadata.labels) && variables.v | | | Deny | 200 | 1
";

#[test]
fn policies_refuse_warn_or_cannot_decide() {
    let cel_cases = CEL_CASES.lines().filter(|_| cfg!(feature = "cel"));
    for row in CASES.lines().chain(cel_cases) {
        let parts: Vec<&str> = row.split('|').map(str::trim).collect();
        let [release, expression, message, reason, action, expected, undecided] = parts[..] else {
            panic!("{row}")
        };
        let texts = |text: &str| -> Vec<Arc<str>> { vec![text.into()] };
        let lists = [texts(""), texts("v1"), texts("configmaps")];
        let validated = Policy {
            resources: MatchResources {
                rules: RequestMatcher::of_webhook(texts("DELETE"), lists, None)
                    .into_iter()
                    .collect(),
                ..MatchResources::default()
            },
            variables: vec![("v".into(), "oldObject.data.k == 'v'".into())],
            validations: vec![Validation {
                expression: expression.into(),
                message: message.into(),
                reason: reason.into(),
                ..Validation::default()
            }],
            ..Policy::default()
        };
        let binding = PolicyBinding {
            policy: "p".into(),
            actions: texts(action),
            ..PolicyBinding::default()
        };
        let mut world = world_of(release);
        world.put("ConfigMap", "a", &[]);
        let policies = BTreeMap::from([(Arc::from("p"), validated)]);
        let bindings = BTreeMap::from([(Arc::from("b"), binding)]);
        world.server = world.server.with_policies(policies, bindings);
        let response = world.delete("ConfigMap", "a", &policy("Background"));
        let message = response.status().map_or("", |status| &*status.message);
        let texts = response.warnings.iter().map(String::as_str).chain([message]);
        let found = format!("{} {}", response.code, texts.collect::<String>());
        assert_eq!(found.trim(), expected, "{row}");
        let count = world.server.undecided_requests().len();
        assert_eq!(count.to_string(), undecided, "{row}");
    }
}
