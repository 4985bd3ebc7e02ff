//! Runs a driver over a simulated node until a time, and formats its actions.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use kubegc::{
    core::Timestamp,
    node::{container, driver::NodeAction, image, log, sandbox},
    sim::SimClock,
};

/// Runs a driver until a time.
///
/// # Panics
/// If the driver ends before.
pub fn run_until(clock: &SimClock, mut driver: Pin<&mut impl Future>, until: Timestamp) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let progress = driver.as_mut().poll(&mut context);
        assert!(progress.is_pending(), "the driver runs without end");
        match clock.next_wake() {
            Some(at) if at <= until => clock.set(at),
            _ => break,
        }
    }
    clock.set(until);
}

/// The output of a future that is ready at once, as all futures of a simulated node are.
///
/// # Panics
/// If the future waits for something.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a simulated node responds at once"),
    }
}

/// The removed object and the reason of an action.
pub fn in_words(action: &NodeAction) -> String {
    match action {
        NodeAction::Container(container::Action {
            container, reason, ..
        }) => {
            let name = container.name.as_deref().unwrap_or("?");
            format!("container {name}, attempt {}: {reason}", container.attempt)
        }
        NodeAction::Sandbox(sandbox::Action { sandbox, reason }) => {
            format!("sandbox of {}: {reason}", sandbox.pod.name)
        }
        NodeAction::Log(log::Action::RemoveDirectory { entry, pod_state, .. }) => {
            format!("log directory {entry}: its pod is {}", pod_state.as_str())
        }
        NodeAction::Log(log::Action::ResolveLink { path, .. } | log::Action::RemoveLink { path, .. }) => {
            format!("link {path}")
        }
        NodeAction::Image(image::Action { image, reason, .. }) => {
            format!("image {}: {reason}", image.name())
        }
    }
}
