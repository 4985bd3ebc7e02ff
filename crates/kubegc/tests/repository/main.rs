//! Checks of the whole repository: architecture, circles, language, public items, READMEs, rules.

mod architecture;
mod circles;
mod files;
mod language;
mod planners;
mod public_api;
mod readme;
mod rules;
