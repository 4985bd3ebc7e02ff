//! Checks of the whole repository: architecture, language, READMEs, rules.

mod architecture;
mod language;
mod readme;
mod rules;
