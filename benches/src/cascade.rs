//! A dump of one namespace with ConfigMaps, generated while it is read: its text uses no memory.

use std::io::{self, Read, Write};

/// The bytes of the dump. In a chain, each ConfigMap owns the next one.
#[derive(Debug)]
pub struct Cascade {
    objects: usize,
    is_chain: bool,
    next: usize,
    buffer: Vec<u8>,
    at: usize,
}

const CREATED: &str = r#""resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z""#;

impl Cascade {
    /// A dump of this many ConfigMaps.
    pub fn new(objects: usize, is_chain: bool) -> Self {
        let namespace = format!(
            r#"{{"apiVersion":"v1","kind":"List","items":[{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"x","uid":"x",{CREATED}}},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#
        );
        Self {
            objects,
            is_chain,
            next: 0,
            buffer: namespace.into_bytes(),
            at: 0,
        }
    }

    /// Writes the next object, or the end of the list.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.clear();
        self.at = 0;
        let at = self.next;
        self.next += 1;
        if at >= self.objects {
            self.buffer
                .extend_from_slice(if at == self.objects { b"]}" } else { b"" });
            return Ok(());
        }
        write!(
            self.buffer,
            r#",{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c-{at}","namespace":"x","uid":"u-{at}",{CREATED}"#
        )?;
        if let Some(owner) = at.checked_sub(1).filter(|_| self.is_chain) {
            write!(
                self.buffer,
                r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"c-{owner}","uid":"u-{owner}"}}]"#
            )?;
        }
        self.buffer.extend_from_slice(b"}}");
        Ok(())
    }
}

impl Read for Cascade {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.fill()?;
        }
        let count = into.len().min(self.buffer.len() - self.at);
        into[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
