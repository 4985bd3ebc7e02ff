//! Assertions about objects, and the messages of failing ones.
//!
//! An expectation must hold now and after everything that the control plane would do now. An object that
//! merely still exists does not survive.

use std::fmt::Write;

use kubegc_sim::ApiServer;

use crate::{
    Cluster, Name,
    cluster::{Plane, State},
    fate::{Fate, fate},
};

/// The state that a test expects of an object: whether it has it, and its description.
type Expected = (fn(&Fate) -> bool, &'static str);

/// Maximum number of control plane steps that an assertion simulates ahead.
const TURNS_MAX: u32 = 10_000;

impl Cluster {
    /// Asserts that an object existed and no longer exists. It does not matter which client deleted it.
    ///
    /// Takes a typed object, a [`Name`], or an [`ObjectRef`](kubegc_core::ObjectRef). With a uid, another
    /// object under the same name does not count.
    ///
    /// # Panics
    /// Panics if the object exists or never existed. The message shows the object, what blocks its deletion,
    /// the requests that led to this state, and what would complete the deletion.
    #[track_caller]
    pub fn assert_collected(&self, object: impl Into<Name>) {
        self.expect(&object.into(), (Fate::is_collected, "deleted"));
    }

    /// Asserts that an object exists and is not being deleted, now and after everything that the control
    /// plane would do now.
    ///
    /// # Panics
    /// Panics if the object no longer exists, is terminating, or is about to be deleted. The message shows
    /// who deleted it and why.
    #[track_caller]
    pub fn assert_survives(&self, object: impl Into<Name>) {
        self.expect(&object.into(), (Fate::survives, "not being deleted"));
    }

    /// Asserts that an object is terminating and waits for more than its grace period, now and
    /// after all that the control plane would do now.
    ///
    /// # Panics
    /// Panics if the object no longer exists, is not being deleted, or waits only for its grace period.
    #[track_caller]
    pub fn assert_stuck(&self, object: impl Into<Name>) {
        let stuck = "terminating, and waiting for more than its grace period";
        self.expect(&object.into(), (Fate::is_stuck, stuck));
    }

    #[track_caller]
    fn expect(&self, object: &Name, expected: Expected) {
        let failure = self.inner.shared.with(|server| {
            let state = self.inner.state.lock();
            failure(server, &state, object, expected)
        });
        // The locks are released, so a caller that catches the panic can use the cluster.
        if let Some(message) = failure {
            panic!("{message}");
        }
    }
}

fn failure(server: &ApiServer, state: &State, object: &Name, expected: Expected) -> Option<String> {
    let now = fate(server, state, &state.plane, object);
    let later = ahead(server, &state.plane).map(|(server, plane)| Fate {
        settled: true,
        ..fate(&server, state, &plane, object)
    });
    let (holds, description) = expected;
    if holds(&now) && later.as_ref().is_none_or(holds) {
        return None;
    }
    let mut out = String::new();
    // Writing to a string does not fail.
    let _infallible = write_failure(&mut out, &now, later.as_ref(), description);
    Some(out)
}

fn write_failure(out: &mut String, now: &Fate, later: Option<&Fate>, expected: &str) -> std::fmt::Result {
    writeln!(out, "{}", now.object)?;
    writeln!(out, "  expected: {expected}")?;
    write!(out, "       got: {}", now.state)?;
    match later {
        Some(later) if later.state != now.state => {
            write!(
                out,
                "\n            and the control plane has more to do, after which it is {}: call settle() first",
                later.state
            )?;
            later.write_details(out)
        }
        _ => now.write_details(out),
    }
}

/// The world after all that the control plane would do now. `None` if that is nothing.
fn ahead(server: &ApiServer, plane: &Plane) -> Option<(ApiServer, Plane)> {
    if plane.is_idle_at(server) {
        return None;
    }
    let (mut server, mut plane) = (server.clone(), plane.clone());
    for _ in 0..TURNS_MAX {
        if plane.step(&mut server).1.is_some() {
            break;
        }
    }
    Some((server, plane))
}
