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
    actions: &'a [Action],
    taken: Vec<bool>,
    /// Whether requests on different objects may come in any order.
    grouped: bool,
}

impl<'a> Script<'a> {
    pub(super) fn new(actions: &'a [Action], grouped: bool) -> Self {
        Self {
            actions,
            taken: vec![false; actions.len()],
            grouped,
        }
    }

    /// Responds to a request, if it is the next one recorded (of its object, where they are grouped).
    pub(super) fn request(&mut self, catalog: &Catalog, request: &Request) -> Result<Response, Failure> {
        let got = Sent::of(catalog, request);
        let same_object =
            |recorded: &Sent| (&recorded.res, &recorded.ns, &recorded.name) == (&got.res, &got.ns, &got.name);
        let next = self
            .actions
            .iter()
            .enumerate()
            .find(|&(at, action)| !self.taken[at] && (!self.grouped || same_object(&action.request)));
        let Some((at, action)) = next else {
            return Err(Failure::new("actions", "no further request", shown(&got)));
        };
        equal(&format!("action {at}"), &action.request, &got)?;
        self.taken[at] = true;
        response(action)
    }

    /// Whether every recorded request was sent.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let left = self.actions.iter().zip(&self.taken);
        let left: Vec<&Sent> = left
            .filter(|(_, taken)| !**taken)
            .map(|(action, _)| &action.request)
            .collect();
        equal("actions", &left, &Vec::<&Sent>::new())
    }
}
