//! Answers to questions in JSON, for hosts in other languages.

use std::{
    error::Error,
    iter,
    panic::{self, AssertUnwindSafe},
    path::Path,
};

use kubegc_core::FieldError;
use kubegc_node::policy::InvalidPolicy;
use kubegc_snapshot::SnapshotError;
use serde::Serialize;
use serde_json::Value;

use super::question::{Ask, QuestionDocument};
use crate::{Diagnosis, Fate, Finding, Forecast, PredictError};

pub(super) const ANSWER_SCHEMA: &str = "kubegc-answer/1";

/// An answer: a report, or the error that prevents one.
#[derive(Default, Serialize)]
struct AnswerDocument {
    schema: &'static str,
    status: AnswerStatus,
    error: Option<String>,
    kubernetes: Option<String>,
    notes: Vec<String>,
    forecast: Option<Value>,
    diagnosis: Option<Value>,
}

impl Forecast {
    /// The result in a word: [`Refused`](AnswerStatus::Refused) before [`Problem`](AnswerStatus::Problem)
    /// before [`Undetermined`](AnswerStatus::Undetermined).
    pub fn status(&self) -> AnswerStatus {
        let caused = || self.fates.iter().filter(|fate| !fate.is_anyway);
        let has = |is_meant: fn(&Fate) -> bool| caused().any(|fate| is_meant(&fate.fate));
        let mut findings = self.findings.iter();
        if findings.any(|finding| matches!(finding, Finding::Refused { .. })) {
            AnswerStatus::Refused
        } else if has(|fate| matches!(fate, Fate::Terminating { .. })) {
            AnswerStatus::Problem
        } else if has(|fate| matches!(fate, Fate::Undetermined { .. })) || !self.undetermined.is_empty() {
            AnswerStatus::Undetermined
        } else {
            AnswerStatus::Ok
        }
    }
}

impl Diagnosis {
    /// The result in a word.
    pub fn status(&self) -> AnswerStatus {
        let terminating = self.terminating.iter().map(|one| &one.fate);
        let mut fates = terminating.chain(self.references.iter().map(|wrong| &wrong.fate));
        if !self.is_healthy() {
            AnswerStatus::Problem
        } else if fates.any(|fate| matches!(fate, Fate::Undetermined { .. })) {
            AnswerStatus::Undetermined
        } else {
            AnswerStatus::Ok
        }
    }
}

/// An answer in JSON. Made by [`answer`] and [`error`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result in a word, as in the text.
    pub status: AnswerStatus,
    /// The document `kubegc-answer/1`.
    pub text: String,
}

/// Answers a question in JSON: the dump in it and in these files, its deletes, period and assumptions. The
/// answer is JSON, too, also if it is an error. [`SCHEMAS`](crate::document::SCHEMAS) describes both.
///
/// It does not panic, and reads no files but these: a question may come from anywhere.
///
/// # Complexity
/// That of [`Cluster::forecast`](crate::Cluster::forecast) or
/// [`Cluster::doctor`](crate::Cluster::doctor), and of reading the dump.
///
/// # Examples
/// ```
/// use kubegc_predict::document::answer;
/// let question = br#"{
///     "schema": "kubegc-question/1",
///     "dump": [
///         {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "owner", "uid": "u1"}},
///         {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "key", "uid": "u2",
///             "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u1"}]}}
///     ],
///     "complete": ["all"],
///     "delete": [{"arguments": ["configmap/owner"], "namespace": "shop"}]
/// }"#;
/// let answer: serde_json::Value = serde_json::from_str(&answer(question, &[]).text)?;
/// assert_eq!(answer["status"], "ok");
/// assert_eq!(answer["forecast"]["summary"]["deleted"], 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn answer(question: &[u8], paths: &[&Path]) -> Answer {
    // A host in another language cannot unwind.
    let answered = panic::catch_unwind(AssertUnwindSafe(|| report(question, paths)));
    match answered {
        Ok(Ok(report)) => report.into(),
        Ok(Err(error)) => self::error(&*error),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref().map(String::as_str));
            let message = format!("a bug of kubegc: {}", text.unwrap_or("no message"));
            failed(AnswerStatus::Internal, message)
        }
    }
}

/// An error as an answer in JSON, as [`answer`] writes it.
///
/// # Examples
/// ```
/// use kubegc_predict::{PredictError, document};
/// let error = PredictError::Selection { problem: "give no names".to_owned() };
/// let answer = r#"{"schema":"kubegc-answer/1","status":"invalid","error":"give no names","#;
/// assert!(document::error(&error).text.starts_with(answer));
/// ```
pub fn error(error: &(dyn Error + 'static)) -> Answer {
    let causes = iter::successors(Some(error), |&error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    failed(AnswerStatus::of(error), causes.join(": "))
}

fn failed(status: AnswerStatus, message: String) -> Answer {
    let error = Some(message);
    AnswerDocument {
        status,
        error,
        ..AnswerDocument::default()
    }
    .into()
}

fn report(question: &[u8], paths: &[&Path]) -> Result<AnswerDocument, Box<dyn Error>> {
    let document = QuestionDocument::read(question)?;
    let cluster = document.cluster(paths)?;
    let notes = cluster.snapshot().findings.iter();
    let mut answer = AnswerDocument {
        kubernetes: Some(cluster.version().to_string()),
        notes: notes.map(ToString::to_string).collect(),
        ..AnswerDocument::default()
    };
    match document.ask {
        Ask::Forecast => {
            let forecast = cluster.forecast(&document.question(&cluster)?)?;
            answer.status = forecast.status();
            answer.forecast = Some(forecast.to_json());
        }
        Ask::Diagnosis => {
            let diagnosis = cluster.doctor();
            answer.status = diagnosis.status();
            answer.diagnosis = Some(diagnosis.to_json());
        }
    }
    Ok(answer)
}

impl From<AnswerDocument> for Answer {
    fn from(mut document: AnswerDocument) -> Self {
        document.schema = ANSWER_SCHEMA;
        Self {
            status: document.status,
            // Documents have only texts as keys, so this does not fail.
            text: serde_json::to_string(&document).unwrap_or_default(),
        }
    }
}

/// The result of a question in a word, which command line tools return as their exit code.
///
/// # Examples
/// ```
/// use kubegc_predict::{PredictError, document::AnswerStatus};
/// let error = PredictError::Selection { problem: "give no names".to_owned() };
/// assert_eq!(AnswerStatus::of(&error), AnswerStatus::Invalid);
/// assert_eq!(AnswerStatus::of(&error).exit_code(), 2);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[repr(u8)]
pub enum AnswerStatus {
    /// The report is complete, and nothing is wrong.
    #[default]
    Ok = 0,
    /// The dump cannot be read, or has no object.
    Unreadable = 1,
    /// The question cannot be read, or contradicts itself.
    Invalid = 2,
    /// An object stays terminating, an extension of the API server is broken, or an owner reference is wrong.
    Problem = 3,
    /// The dump has no such object or resource type.
    NotFound = 4,
    /// The outcome of an object depends on missing data.
    Undetermined = 5,
    /// The API server refuses a delete, or a kubelet its settings.
    Refused = 6,
    /// kubegc failed. This is a bug. The exit code is that of a panic.
    Internal = 101,
}

impl AnswerStatus {
    /// The exit code of a command line tool.
    pub const fn exit_code(self) -> u8 {
        self as u8
    }

    /// The status of an error; [`Unreadable`](Self::Unreadable) for those of other crates.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<SnapshotError>() {
            return match error {
                SnapshotError::Declaration { .. } => Self::Invalid,
                _ => Self::Unreadable,
            };
        }
        match error.downcast_ref::<PredictError>() {
            Some(PredictError::UnknownKind { .. } | PredictError::UnknownObject { .. }) => Self::NotFound,
            Some(_) => Self::Invalid,
            None if error.is::<InvalidPolicy>() => Self::Refused,
            None if error.is::<FieldError>() => Self::Invalid,
            None => Self::Unreadable,
        }
    }
}
