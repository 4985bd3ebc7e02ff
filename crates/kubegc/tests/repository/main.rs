//! Checks of the whole repository: architecture, language, public items, READMEs, rules.

mod architecture;
mod files;
mod language;
mod planners;
mod public_api;
mod readme;
mod rules;
