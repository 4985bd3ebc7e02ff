//! Checks of the whole repository: architecture, language, public items, READMEs, rules.

mod architecture;
mod language;
mod planners;
mod public_api;
mod readme;
mod rules;
