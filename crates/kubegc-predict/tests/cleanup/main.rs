//! Clean-up forecasts of single controllers and of all together; running the drivers
//! has the same results.

mod agreement;
mod fixture;
mod partial;
mod report;
mod texts;
mod toy;
mod undetermined;
