//! Requests to an API server, and its errors.

use std::time::Duration;

use kubegc_core::{
    DeleteOptions, FieldError, PropagationPolicy, StoreError, Uid,
    deletion::{DeleteOptionsSpec, Preconditions, Propagation},
};

#[test]
fn a_status_code_determines_the_class_of_the_error() {
    let message = || "text".to_owned();
    let refused = |code, retry_after| StoreError::Refused {
        code,
        message: message(),
        retry_after,
    };
    let unknown = || StoreError::Unknown { message: message() };
    let second = Some(Duration::from_secs(1));
    for (code, error, status) in [
        (400, refused(400, second), Some(400)),
        (403, refused(403, second), Some(403)),
        (404, StoreError::NotFound, Some(404)),
        (408, unknown(), None),
        (409, StoreError::Conflict { message: message() }, Some(409)),
        (410, StoreError::Expired, Some(410)),
        (415, StoreError::UnsupportedMediaType, Some(415)),
        (422, StoreError::Invalid { message: message() }, Some(422)),
        (429, refused(429, second), Some(429)),
        (499, refused(499, second), Some(499)),
        (500, unknown(), None),
        (504, unknown(), None),
        (200, unknown(), None),
    ] {
        assert_eq!(StoreError::from_status(code, "text", second), error, "{code}");
        assert_eq!(error.status(), status, "{code}");
    }
    assert_eq!(
        StoreError::from_status(503, "", None),
        StoreError::Unknown {
            message: "status 503".into()
        }
    );
    assert_eq!(
        (StoreError::Unlisted.status(), refused(400, None).status()),
        (None, Some(400))
    );
}

#[test]
fn errors_of_fields_have_the_form_of_the_api_server() {
    let field = || "spec.a".to_owned();
    let problem = || "text".to_owned();
    for (error, text) in [
        (
            FieldError::invalid("spec.a", "v", "text"),
            r#"spec.a: Invalid value: "v": text"#,
        ),
        (
            FieldError::NotSupported {
                field: field(),
                value: "v".into(),
                supported: vec!["a", "b"],
            },
            r#"spec.a: Unsupported value: "v": supported values: "a", "b""#,
        ),
        (
            FieldError::Required {
                field: field(),
                problem: problem(),
            },
            "spec.a: Required value: text",
        ),
        (
            FieldError::Forbidden {
                field: field(),
                problem: problem(),
            },
            "spec.a: Forbidden: text",
        ),
    ] {
        assert_eq!((error.field(), error.to_string().as_str()), ("spec.a", text));
    }
}

#[test]
fn delete_options_are_validated_like_upstream() {
    use PropagationPolicy::{Background, Foreground, Orphan};
    for (policy, text) in [
        (Orphan, "Orphan"),
        (Background, "Background"),
        (Foreground, "Foreground"),
    ] {
        assert_eq!((policy.as_str(), policy.to_string().as_str()), (text, text));
        assert_eq!(text.parse(), Ok(policy));
        let options = DeleteOptions::policy(policy);
        assert_eq!(options.propagation, Some(Propagation::Policy(policy)));
        let spec = DeleteOptionsSpec {
            propagation_policy: Some(text.into()),
            ..Default::default()
        };
        assert_eq!(spec.validate(), Ok(options));
    }
    assert_eq!(
        DeleteOptionsSpec::default().validate(),
        Ok(DeleteOptions::default())
    );
    let spec = DeleteOptionsSpec {
        orphan_dependents: Some(false),
        preconditions: Some(Preconditions::uid("u".into())),
        grace_period_seconds: Some(5),
        dry_run: vec!["All".into(), "All".into()],
        ..Default::default()
    };
    let options = DeleteOptions {
        propagation: Some(Propagation::OrphanDependents(false)),
        preconditions: Preconditions {
            uid: Some(Uid::new("u")),
            resource_version: None,
        },
        grace_period_seconds: Some(5),
        dry_run: true,
    };
    assert_eq!(spec.validate(), Ok(options));
    let spec = DeleteOptionsSpec {
        propagation_policy: Some("orphan".into()),
        orphan_dependents: Some(true),
        dry_run: vec!["All".into(), "None".into()],
        ..Default::default()
    };
    let problems = spec.validate().expect_err("every field is invalid");
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            r#"propagationPolicy: Invalid value: "orphan": orphanDependents and deletionPropagation cannot be both set"#,
            r#"propagationPolicy: Unsupported value: "orphan": supported values: "Foreground", "Background", "Orphan", "nil""#,
            r#"dryRun: Unsupported value: "None": supported values: "All""#,
        ]
    );
}
