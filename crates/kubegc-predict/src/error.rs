//! Errors of questions.

/// Reasons why a forecast cannot be computed.
///
/// # Examples
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// let delete = Intent::delete("shop/ConfigMap/ownr".parse()?, DeleteOptions::default());
/// let error = cluster.predict(&[delete]).unwrap_err();
/// assert!(error.to_string().contains("did you mean"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PredictError {
    /// The arguments of a [`Selection`](crate::Selection) contradict each other or select nothing, or a
    /// [question](crate::document::answer) cannot be read.
    #[error("{problem}")]
    Selection {
        /// The change that corrects the input.
        problem: String,
    },
    /// No kind of the cluster has this name.
    #[error(
        "no resource type {name:?}: it is neither built in nor defined in the dump{}",
        question(similar)
    )]
    UnknownKind {
        name: String,
        /// Similar resources, `resource.group`.
        similar: Vec<String>,
    },
    /// An assumption names something that the dump does not have.
    #[error("no {what} {name:?} in the dump{}", question(similar))]
    UnknownName {
        /// What it should be, such as `admission webhook`.
        what: &'static str,
        name: String,
        similar: Vec<String>,
    },
    /// Kinds of several groups have this name.
    #[error("resource type {name:?} is ambiguous: use {}", candidates.join(" or "))]
    AmbiguousKind {
        name: String,
        /// Names that are not.
        candidates: Vec<String>,
    },
    /// The dump has no such object.
    #[error(
        "{resource} {name:?} not found in {}{}{}",
        namespace.as_deref().map_or_else(|| "the dump".to_owned(), |namespace| format!("namespace {namespace}")),
        content_note(*content),
        question(similar)
    )]
    UnknownObject {
        /// `resource.group`.
        resource: String,
        /// The namespace that was searched; `None` for all.
        namespace: Option<String>,
        name: String,
        /// Similar names, with `-n` and their namespace if that is another one.
        similar: Vec<String>,
        /// If it is a Namespace: how many objects of the dump are in it.
        content: usize,
    },
}

pub(crate) fn usage<T>(problem: impl Into<String>) -> Result<T, PredictError> {
    let problem = problem.into();
    Err(PredictError::Selection { problem })
}

/// The end of a sentence about a name that was not found.
pub(crate) fn question(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

fn content_note(objects: usize) -> String {
    let are = match objects {
        0 => return String::new(),
        1 => "one object is".to_owned(),
        _ => format!("{objects} objects are"),
    };
    format!(", although {are} in it: add the output of `kubectl get namespaces -o yaml`")
}
