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

/// After a longer gap, image detection starts again: a kubelet detects images every five minutes.
const GAP_MAX: Duration = Duration::from_secs(600);

/// Records, and their file.
#[non_exhaustive]
pub struct RecordsFile {
    /// The records.
    pub records: Records,
    /// The time since which images were detected without a gap; the present, if they were not.
    pub watched_since: Timestamp,
    path: Option<PathBuf>,
}

impl RecordsFile {
    /// Reads the records. A missing file has none. A file with other contents is refused, because it would be
    /// overwritten.
    pub fn open(path: Option<&Path>, now: Timestamp) -> Result<Self, Box<dyn Error>> {
        let mut file_records = Self {
            records: Records::default(),
            watched_since: now,
            path: path.map(Path::to_owned),
        };
        let Some(path) = path.filter(|path| path.exists()) else {
            return Ok(file_records);
        };
        let name = path.display().to_string();
        let mut file = File::open(path)?;
        let written = file.metadata()?.modified()?;
        let mut reader = NodeReader::new();
        reader.read_as(NodeDocument::Records, &name, &mut file)?;
        let node = reader.finish()?;
        if let Some(finding) = node.findings.first() {
            return Err(format!("not a file of image records: {finding}").into());
        }
        file_records.records = node.inventory.image_records;
        // The file's time is in the future if the clock was set back; then the gap is unknown.
        let gap = written.elapsed().unwrap_or(Duration::MAX);
        if gap <= GAP_MAX && node.inventory.image_gc_began_at <= now {
            file_records.watched_since = node.inventory.image_gc_began_at;
        }
        Ok(file_records)
    }

    /// Writes records to their file: first into a temporary file, which then replaces it, so that it is never
    /// incomplete.
    pub fn write(&self, records: &Records) -> Result<(), Box<dyn Error>> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let temporary = path.with_file_name(name);
        let mut file = File::create_new(&temporary)?;
        file.write_all(write_records(records, Some(self.watched_since)).as_bytes())?;
        file.sync_all()?;
        Ok(fs::rename(&temporary, path)?)
    }
}
