//! The JSON forms of forecasts, comparisons and diagnoses, and of questions and their answers.
//!
//! [`answer`] takes a question and returns a report, all in JSON.
//!
//! Each document has a field `schema` with its name and version. Within a version, fields are added and never
//! removed, and the values of a field keep their meaning. Times are RFC 3339 in UTC. [`SCHEMAS`] has the JSON
//! schemas; with the feature `schemars`, the types generate theirs.

pub use super::{
    answer::{Answer, answer, error},
    assumptions::{AssumptionsDocument, InstanceDocument},
    forms::{COMPARISON_SCHEMA, DIAGNOSIS_SCHEMA, FORECAST_SCHEMA, SCHEMAS},
    status::AnswerStatus,
};
