//! Tests of the controllers, in one binary.

mod actions;
mod affected;
mod common;
mod csrcleaner;
mod driver;
mod namespace;
mod planner;
mod podgc;
mod reconciles;
mod requests;
mod storage;
mod transcripts;
