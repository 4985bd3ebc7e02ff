//! Cleanup forecasts: what they say of single mechanisms and of all together, and that running the drivers comes to the same.

mod agreement;
mod forecasts;
mod report;
mod town;
