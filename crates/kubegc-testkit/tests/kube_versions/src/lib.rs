//! The testkit under several versions of kube: their clients, and operators that are written with them.

#![cfg(test)]

mod clients;
mod site;
