//! A file with the records of images between runs: first detection and last use.

use std::{
    error::Error,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use kubegc::{
    core::Timestamp,
    node::image::Records,
    snapshot::{NodeDocument, NodeReader, write_records},
};

/// After a longer gap, use counts as not watched: a kubelet detects images every five minutes.
const GAP_MAX: Duration = Duration::from_secs(600);

/// Records, and where they are kept.
#[non_exhaustive]
pub struct Memory {
    /// The records.
    pub records: Records,
    /// The begin of the observation of use without a gap; the present, if use was not observed.
    pub watched_since: Timestamp,
    path: Option<PathBuf>,
}

impl Memory {
    /// Reads what is remembered. A file that is not there yet remembers nothing; one that is no such file is
    /// refused, for it would be written over.
    pub fn open(path: Option<&Path>, now: Timestamp) -> Result<Self, Box<dyn Error>> {
        let mut memory = Self {
            records: Records::default(),
            watched_since: now,
            path: path.map(Path::to_owned),
        };
        let Some(path) = path.filter(|path| path.exists()) else {
            return Ok(memory);
        };
        let name = path.display().to_string();
        let mut file = File::open(path)?;
        let written = file.metadata()?.modified()?;
        let mut reader = NodeReader::new();
        reader.read_as(NodeDocument::Records, &name, &mut file)?;
        let node = reader.finish()?;
        if let Some(finding) = node.findings.first() {
            return Err(format!("no records of images: {finding}").into());
        }
        memory.records = node.inventory.image_records;
        // A clock that went back makes the gap seem small: then the time of the file is in the future.
        let gap = written.elapsed().unwrap_or(Duration::MAX);
        if gap <= GAP_MAX && node.inventory.image_gc_began_at <= now {
            memory.watched_since = node.inventory.image_gc_began_at;
        }
        Ok(memory)
    }

    /// Writes records to where they were read from: first into a file beside, then in its place, so that they
    /// are never half there.
    pub fn write(&self, records: &Records) -> Result<(), Box<dyn Error>> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let beside = path.with_file_name(name);
        let mut file = File::create_new(&beside)?;
        file.write_all(write_records(records, Some(self.watched_since)).as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&beside, path)?)
    }
}
