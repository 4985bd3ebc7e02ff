//! Compares requests with recorded ones and returns the recorded responses.

use std::sync::Arc;

use kubegc_core::{Catalog, StoreError};
use kubegc_objects::{Request, Response};

use super::format::{Action, Sent};
use crate::{
    Failure,
    failure::{equal, shown},
};

fn response(action: &Action) -> Result<Response, Failure> {
    let Sent { verb, ns, name, .. } = &action.request;
    let meta = action.obj.as_ref().map(|object| Arc::new(object.meta(ns, name)));
    Ok(match action.code {
        200..=299 if verb == "get" => Response::Found(meta.ok_or_else(|| {
            Failure::unreadable(format!("a successful get of {ns}/{name} without an object"))
        })?),
        200..=299 => Response::Applied(meta),
        code => StoreError::from_status(code, "", None).into(),
    })
}

/// Recorded requests that are sent one after another.
pub(super) struct Script<'a> {
    sent: usize,
    left: Vec<&'a Action>,
    /// Whether requests on different objects may come in any order.
    grouped: bool,
}

impl<'a> Script<'a> {
    pub(super) fn new(actions: &'a [Action], grouped: bool) -> Self {
        Self {
            sent: 0,
            left: actions.iter().collect(),
            grouped,
        }
    }

    /// Responds to a request, if it is the next one recorded (of its object, where they are grouped).
    pub(super) fn request(&mut self, catalog: &Catalog, request: &Request) -> Result<Response, Failure> {
        let got = Sent::of(catalog, request);
        let object = |sent: &Sent| (sent.res.clone(), sent.ns.clone(), sent.name.clone());
        let is_next = |action: &&Action| !self.grouped || object(&action.request) == object(&got);
        let Some(at) = self.left.iter().position(is_next) else {
            return Err(Failure::new("actions", "no further request", shown(&got)));
        };
        let action = self.left.remove(at);
        equal(&format!("action {}", self.sent), &action.request, &got)?;
        self.sent += 1;
        response(action)
    }

    /// Whether every recorded request was sent.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let left: Vec<&Sent> = self.left.iter().map(|action| &action.request).collect();
        equal("actions", &left, &Vec::<&Sent>::new())
    }
}
