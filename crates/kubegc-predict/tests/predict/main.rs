//! What forecasts promise, on clusters that are generated and on clusters written for one behaviour each.

mod common;
mod comparison;
mod doctor;
mod intents;
mod laws_closure;
mod laws_doubt;
mod laws_frame;
mod laws_reasons;
mod page;
mod recreation;
mod selection;
mod trial;
mod worlds;
