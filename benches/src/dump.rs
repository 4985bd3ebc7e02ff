//! A dump of the cluster shape as `kubectl get -o json` prints it, generated while it is read.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use kubegc::core::ObjectMeta;

use crate::shapes::{Kind, cluster};

/// The bytes of a dump, about three kilobytes an object.
#[derive(Debug)]
pub struct Dump {
    objects: std::vec::IntoIter<(Kind, Arc<ObjectMeta>)>,
    containers: String,
    buffer: Vec<u8>,
    at: usize,
    stage: Stage,
}

#[derive(Debug, PartialEq)]
enum Stage {
    Begin,
    Items { first: bool },
    End,
}

impl Dump {
    /// A dump of this many objects.
    pub fn new(objects: usize) -> Self {
        let container = |at: usize| {
            format!(
                r#"{{"name":"container-{at}","image":"registry.example.com/team/app:1.{at}","resources":{{"limits":{{"cpu":"100m"}}}}}}"#
            )
        };
        let containers: Vec<String> = (0..22).map(container).collect();
        Self {
            objects: cluster(objects).into_iter(),
            containers: containers.join(","),
            buffer: Vec::new(),
            at: 0,
            stage: Stage::Begin,
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.at = 0;
        match self.stage {
            Stage::Begin => {
                self.buffer.extend_from_slice(br#"{"apiVersion":"v1","items":["#);
                self.stage = Stage::Items { first: true };
            }
            Stage::Items { first } => match self.objects.next() {
                Some(((api_version, kind), meta)) => {
                    if !first {
                        self.buffer.push(b',');
                    }
                    self.stage = Stage::Items { first: false };
                    self.item(api_version, kind, &meta)?;
                }
                None => {
                    self.buffer
                        .extend_from_slice(b"],\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"\"}}\n");
                    self.stage = Stage::End;
                }
            },
            Stage::End => {}
        }
        Ok(())
    }

    fn item(&mut self, api_version: &str, kind: &str, meta: &ObjectMeta) -> io::Result<()> {
        let out = &mut self.buffer;
        write!(
            out,
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app.kubernetes.io/name":"{}","tier":"backend"}},"managedFields":[{{"manager":"kubelet","fieldsV1":{{"f:metadata":{{"f:labels":{{}}}}}}}}],"name":"{}","namespace":"{}""#,
            meta.name, meta.name, meta.namespace
        )?;
        for (at, owner) in meta.owner_references.iter().enumerate() {
            out.extend_from_slice(if at == 0 { br#","ownerReferences":["# } else { b"," });
            write!(
                out,
                r#"{{"apiVersion":"{}","blockOwnerDeletion":true,"kind":"{}","name":"{}","uid":"{}"}}"#,
                owner.api_version, owner.kind, owner.name, owner.uid
            )?;
        }
        if !meta.owner_references.is_empty() {
            out.push(b']');
        }
        write!(
            out,
            r#","resourceVersion":"{}","uid":"{}"}},"spec":{{"nodeName":"node-7","terminationGracePeriodSeconds":30,"containers":[{}]}},"status":{{"phase":"Running"}}}}"#,
            meta.resource_version, meta.uid, self.containers
        )
    }
}

impl Read for Dump {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() && self.stage != Stage::End {
            self.fill()?;
        }
        let count = into.len().min(self.buffer.len() - self.at);
        into[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
