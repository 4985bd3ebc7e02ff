//! Responses: a status code, and an object, a list or a status.

use std::sync::Arc;

use kubegc_core::StoreError;
use serde_json::Value;

use crate::{
    Status, StoredObject,
    status::{Refusal, Result},
};

/// The response to one request.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub code: u16,
    pub body: ResponseBody,
    /// The texts of the `Warning` headers, without code and agent.
    pub warnings: Vec<String>,
    /// Whether a deletion removed the object, which not every body shows.
    pub(crate) is_removal: bool,
}

/// The body of a [`Response`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// An object. It has the requested version: see [`StoredObject::to_json`].
    Object(Arc<StoredObject>),
    /// Success without an object, or an error.
    Status(Box<Status>),
    /// The objects of a resource.
    List(ObjectList),
    /// An object that is not stored, such as a `Scale`: its complete JSON form.
    Virtual(Box<Value>),
}

/// The objects of a resource at one revision.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectList {
    /// The objects, ordered by namespace and name.
    pub items: Vec<Arc<StoredObject>>,
    /// The revision from which a watch continues.
    pub revision: u64,
}

impl Response {
    /// Whether the request succeeded.
    pub const fn is_success(&self) -> bool {
        self.code < 300
    }

    /// The object, if the body is one.
    pub const fn object(&self) -> Option<&Arc<StoredObject>> {
        match &self.body {
            ResponseBody::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The object of a successful response.
    ///
    /// # Errors
    /// The error, also if a successful response has no object.
    pub fn into_object(self) -> Result<Arc<StoredObject>, StoreError> {
        match self.body {
            ResponseBody::Object(object) if self.code < 300 => Ok(object),
            ResponseBody::Status(status) => Err(status.to_error()),
            _ => Err(StoreError::Unknown {
                message: "the response is neither a status nor an object".to_owned(),
            }),
        }
    }

    /// The error; `None` for a success.
    pub fn error(&self) -> Option<StoreError> {
        let status = self.status().filter(|status| !status.is_success());
        status.map(Status::to_error)
    }

    /// The status, if the body is one.
    pub fn status(&self) -> Option<&Status> {
        match &self.body {
            ResponseBody::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The object that is not stored, if the body is one.
    pub fn virtual_object(&self) -> Option<&Value> {
        match &self.body {
            ResponseBody::Virtual(object) => Some(object),
            _ => None,
        }
    }

    /// The objects, if the body is a list.
    pub fn items(&self) -> &[Arc<StoredObject>] {
        match &self.body {
            ResponseBody::List(list) => &list.items,
            _ => &[],
        }
    }

    pub(crate) const fn new(code: u16, body: ResponseBody) -> Self {
        Self {
            code,
            body,
            warnings: Vec::new(),
            is_removal: false,
        }
    }

    pub(crate) const fn ok(object: Arc<StoredObject>) -> Self {
        Self::new(200, ResponseBody::Object(object))
    }

    pub(crate) const fn list(items: Vec<Arc<StoredObject>>, revision: u64) -> Self {
        Self::new(200, ResponseBody::List(ObjectList { items, revision }))
    }

    pub(crate) fn of_virtual(object: Value) -> Self {
        Self::new(200, ResponseBody::Virtual(Box::new(object)))
    }

    pub(crate) const fn of_removal(mut self) -> Self {
        self.is_removal = true;
        self
    }

    pub(crate) fn with(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

impl From<Refusal> for Response {
    fn from(status: Refusal) -> Self {
        Self::new(status.code, ResponseBody::Status(status))
    }
}

impl<T: Into<Self>> From<Result<T>> for Response {
    fn from(response: Result<T>) -> Self {
        match response {
            Ok(response) => response.into(),
            Err(refusal) => refusal.into(),
        }
    }
}
