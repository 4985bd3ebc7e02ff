//! Cleanup forecasts: what they say of single mechanisms and of all together, and that running the drivers
//! comes to the same.

mod agreement;
mod doubts;
mod fixture;
mod forecasts;
mod kubelets;
mod partial;
mod report;
mod texts;
mod toy;
