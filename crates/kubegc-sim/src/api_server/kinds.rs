//! Properties of each kind in the server: its table, its own rules, whether it is served.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{ApiResource, Catalog, FieldError, KindId};

use crate::types::StructId;

/// The address of one object.
#[derive(Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(super) kind: KindId,
    /// Empty, or ignored, for cluster-scoped kinds.
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> Key<'a> {
    pub(crate) const fn new(kind: KindId, namespace: &'a str, name: &'a str) -> Self {
        Self {
            kind,
            namespace,
            name,
        }
    }
}

/// The kinds and their properties in the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    pub(super) catalog: Catalog,
    pub(super) kinds: Vec<Kind>,
    pub(super) tables: Vec<TableInfo>,
    /// By the qualified name of the resource as it is stored, such as `ingresses.networking.k8s.io`.
    table_of: BTreeMap<String, u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) table: u32,
    pub(super) served: bool,
    /// Whether its definition is being deleted: new instances are refused.
    pub(super) terminating: bool,
    pub(super) special: Special,
    /// Whether `status` is a subresource that plain writes do not change.
    pub(super) status_subresource: bool,
    /// The struct of its objects, if they are typed.
    pub(super) schema: Option<StructId>,
    /// The name of its definition; empty for a built-in kind.
    pub(super) definition: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    None,
    Pod,
    Namespace,
    CustomResourceDefinition,
    Service,
}

#[derive(Clone, Debug)]
pub(super) struct TableInfo {
    /// The kind whose version watch events have.
    pub(super) watched_as: KindId,
    /// Whether that kind is discovery's preferred one.
    preferred: bool,
}

impl Shape {
    /// Adds a kind.
    ///
    /// # Errors
    /// It exists already.
    pub(super) fn add(&mut self, resource: ApiResource) -> Result<KindId, FieldError> {
        let stored_as = match resource.storage_group() {
            "" => resource.resource.to_string(),
            group => format!("{}.{group}", resource.resource),
        };
        let special = match (&*resource.group, &*resource.resource) {
            ("", "pods") => Special::Pod,
            ("", "namespaces") => Special::Namespace,
            ("", "services") => Special::Service,
            ("apiextensions.k8s.io", "customresourcedefinitions") => Special::CustomResourceDefinition,
            _ => Special::None,
        };
        let (custom, preferred) = (resource.custom, resource.preferred);
        let schema = StructId::of(&resource);
        let definition = match custom {
            true => format!("{}.{}", resource.resource, resource.group),
            false => String::new(),
        };
        let kind = self.catalog.add(resource)?;
        // There are fewer tables than kinds, and fewer than u32::MAX kinds in the catalog.
        let next = u32::try_from(self.tables.len()).unwrap_or(u32::MAX);
        let table = *self.table_of.entry(stored_as).or_insert(next);
        let info = TableInfo {
            watched_as: kind,
            preferred,
        };
        match self.tables.get_mut(table as usize) {
            None => self.tables.push(info),
            Some(known) if preferred && !known.preferred => *known = info,
            Some(_) => {}
        }
        self.kinds.push(Kind {
            table,
            served: true,
            terminating: false,
            special,
            status_subresource: !custom,
            schema,
            definition: definition.into(),
        });
        Ok(kind)
    }

    pub(super) fn table_of(&self, qualified: &str) -> Option<u32> {
        self.table_of.get(qualified).copied()
    }
}
