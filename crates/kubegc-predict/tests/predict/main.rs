//! Forecasts of deletes, on generated clusters and on clusters for one behaviour each.

mod common;
mod comparison;
mod conversion;
mod doctor;
mod dumps;
mod forecasts;
mod laws_closure;
mod laws_end;
mod laws_frame;
mod laws_undetermined;
mod layouts;
mod page;
mod policies;
mod recreation;
mod selection;
mod services;
mod worlds;
