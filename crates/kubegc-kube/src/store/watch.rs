//! Reads a watch line by line: each is a change, a bookmark, or a status that ends the watch.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kubegc_core::{StoreError, WatchStream, store::WatchItem};
use tokio::time::{Instant, timeout_at};

use super::wire::{Line, Texts, line};
use crate::request::of_event;

/// Minimum requested duration of a watch, in seconds. Many clients close idle connections after 295 s.
const SECONDS_MIN: u64 = 230;
/// Range in seconds over which the durations of resources are spread, so that not all watches end at once.
const SECONDS_SPREAD: u64 = 60;
/// Time beyond its requested duration after which a watch counts as dead.
const OVERRUN_MAX: Duration = Duration::from_secs(30);
/// Maximum bytes of one line: a hundred times the limit of etcd for one object.
const LINE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The requested duration of a watch of a resource, in seconds.
pub(super) fn seconds(resource: &str) -> u64 {
    // FNV-1a: each resource always has the same duration.
    let hash = resource.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    SECONDS_MIN + hash % SECONDS_SPREAD
}

pub(super) type ReadObject<T> = fn(&[u8], &mut Texts) -> Result<T, String>;

pub(super) struct Watch<T> {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the front of the buffer without a line break.
    searched: usize,
    texts: Texts,
    read: ReadObject<T>,
    deadline: Instant,
    ended: bool,
}

impl<T> Watch<T> {
    pub(super) fn new(body: Body, seconds: u64, read: ReadObject<T>) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            texts: Texts::default(),
            read,
            deadline: Instant::now() + Duration::from_secs(seconds) + OVERRUN_MAX,
            ended: false,
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        match self.buffer[self.searched..]
            .iter()
            .position(|&byte| byte == b'\n')
        {
            Some(at) => {
                let line = self.buffer.split_to(self.searched + at);
                self.buffer.advance(1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    fn fail(&mut self, message: String) -> Option<Result<WatchItem<T>, StoreError>> {
        self.ended = true;
        Some(Err(StoreError::Unknown { message }))
    }
}

#[async_trait]
impl<T: Send> WatchStream<T> for Watch<T> {
    /// Cancel safe: the bytes already read stay in the buffer.
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>> {
        while !self.ended {
            if let Some(text) = self.take_line() {
                if text.trim_ascii().is_empty() {
                    continue;
                }
                match line(&text, &mut self.texts, self.read) {
                    Ok(Line::Item(item)) => return Some(Ok(item)),
                    Ok(Line::Other) => continue,
                    Ok(Line::Refusal(status)) => {
                        self.ended = true;
                        return Some(Err(of_event(&status)));
                    }
                    Err(problem) => return self.fail(format!("a line of a watch cannot be read: {problem}")),
                }
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return self.fail(format!("a line of a watch has more than {LINE_BYTES_MAX} bytes"));
            }
            match timeout_at(self.deadline, self.body.frame()).await {
                // The connection is dead, or the server forgot the watch; or it ended, and the next watch
                // delivers a truncated line again.
                Err(_) | Ok(None) => self.ended = true,
                Ok(Some(Ok(frame))) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Ok(Some(Err(error))) => return self.fail(error.to_string()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_watches_differ_by_resource_and_are_below_the_idle_limit() {
        let all: Vec<u64> = ["pods", "secrets", "configmaps", "widgets"].map(seconds).into();
        assert!(
            all.iter().all(|&seconds| (230..290).contains(&seconds)),
            "{all:?}"
        );
        assert!(all.iter().any(|&one| one != all[0]), "{all:?}");
    }
}
