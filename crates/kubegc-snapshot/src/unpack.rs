//! Compressed files, archives and encodings, recognised by their first bytes and unpacked as a stream.
//!
//! Nothing is written to disk, and no path of an archive is used as a path of the machine. An archive is read
//! as a directory would be: [`layout::role`] classifies a member by its path.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use flate2::read::MultiGzDecoder;
use kubegc_core::printable;
use lzma_rust2::XzReader;
use tar::EntryType;
use zip::ZipArchive;

use crate::{
    Place, SnapshotError,
    error::invalid,
    layout::{self, Role},
    utf16,
    zstd::ZstdReader,
};

/// Members of all archives of one input.
const MEMBERS_MAX: usize = 1_000_000;
/// Compressions and archives within each other: a `.tar.gz` has two.
const DEPTH_MAX: u8 = 4;
/// Bytes of a zip archive that cannot be read from its end: standard input, or a member of another archive.
const ZIP_BYTES_MAX: usize = 256 * 1024 * 1024;
/// KiB of memory for unpacking xz. Its highest level needs 65 MiB.
const XZ_KIB_MAX: u32 = 128 * 1024;
/// Bytes of a member's path.
const PATH_BYTES_MAX: u64 = 64 * 1024;
/// Bytes by which formats are recognised: one header of a tar archive.
const HEAD_BYTES: usize = 512;

pub(crate) struct Stream<'a> {
    /// The file, or `archive.tgz:path/in/archive`.
    pub(crate) name: Arc<str>,
    /// The path in the directory or archive, without the suffix of a compression.
    pub(crate) path: &'a str,
    /// Whether it was found in a directory or archive, where other files may be too.
    pub(crate) is_member: bool,
    pub(crate) input: &'a mut dyn Read,
}

impl<'a> Stream<'a> {
    fn new(name: &Arc<str>, path: &'a str, is_member: bool, input: &'a mut dyn Read) -> Self {
        Self {
            name: Arc::clone(name),
            path,
            is_member,
            input,
        }
    }
}

/// An input that is not unpacked yet.
pub(crate) enum Input<'a> {
    /// A file, and whether it was found in a directory, where other files may be too.
    File(&'a Path, bool),
    Stream(&'a mut dyn Read),
}

/// A member of an input.
pub(crate) enum Unpacked<'a> {
    Text(Stream<'a>),
    /// A member that is not read, for this reason.
    Skipped(&'static str),
}

/// The problem of an archive of which nothing is read.
pub(crate) const NOTHING_IN_ARCHIVE: &str = "no .json, .yaml or .yml file in this archive";

pub(crate) type Visit<'v> = dyn FnMut(Unpacked<'_>) -> Result<(), SnapshotError> + 'v;

/// Unpacks one input, within limits.
pub(crate) struct Unpacker {
    bytes_left: u64,
    bytes_max: u64,
    members: usize,
    role: fn(&str) -> Role,
}

impl Unpacker {
    /// `role` selects the members that are read.
    pub(crate) fn new(bytes_max: u64, role: fn(&str) -> Role) -> Self {
        Self {
            bytes_left: bytes_max,
            bytes_max,
            members: 0,
            role,
        }
    }

    /// Reads the members of an input.
    pub(crate) fn read(
        &mut self,
        name: &Arc<str>,
        input: Input<'_>,
        visit: &mut Visit<'_>,
    ) -> Result<(), SnapshotError> {
        let failed = |source| SnapshotError::io(name, source);
        match input {
            Input::Stream(input) => self.stream(Stream::new(name, name, false, input), 0, visit),
            Input::File(path, is_member) => {
                let mut file = File::open(path).map_err(failed)?;
                let head = head(&mut file, 4).map_err(failed)?;
                // An input that cannot be rewound, such as a pipe, is read as a stream.
                let is_rewound = file.seek(SeekFrom::Start(0)).is_ok();
                if is_rewound && is_zip(&head) {
                    return self.zip(name, file, 1, visit);
                }
                let head = if is_rewound { &[] } else { &*head };
                let input = &mut head.chain(file);
                self.stream(Stream::new(name, name, is_member, input), 0, visit)
            }
        }
    }

    fn stream(&mut self, stream: Stream<'_>, depth: u8, visit: &mut Visit<'_>) -> Result<(), SnapshotError> {
        let Stream {
            name,
            path,
            is_member,
            input,
        } = stream;
        let head = head(input, HEAD_BYTES).map_err(|source| SnapshotError::io(&name, source))?;
        let mut input = head.chain(input);
        let mut compressions = COMPRESSIONS.into_iter();
        let compression = compressions.find(|(start, _)| head.starts_with(start));
        let is_packed = compression.is_some() || is_zip(&head) || is_tar(&head, path);
        if is_packed && depth >= DEPTH_MAX {
            let what = "compressions and archives within each other";
            return Err(SnapshotError::too_many(&name, DEPTH_MAX.into(), what));
        }
        if let Some((_, decoder)) = compression {
            let (bytes_left, bytes_max) = (self.bytes_left, self.bytes_max);
            let mut plain = Counted {
                input: decoder(Box::new(input)),
                bytes_left,
                bytes_max,
            };
            let path = layout::unpacked_name(path);
            let stream = Stream::new(&name, &path, is_member, &mut plain);
            let read = self.stream(stream, depth + 1, visit);
            self.bytes_left = self.bytes_left.min(plain.bytes_left);
            return read;
        }
        if is_zip(&head) {
            let mut bytes = Vec::new();
            let limit = ZIP_BYTES_MAX as u64 + 1;
            let read = input.take(limit).read_to_end(&mut bytes);
            read.map_err(|source| SnapshotError::io(&name, source))?;
            if bytes.len() > ZIP_BYTES_MAX {
                let what = "bytes of a zip archive that is not a file; save it as a file";
                return Err(SnapshotError::too_many(&name, ZIP_BYTES_MAX, what));
            }
            return self.zip(&name, Cursor::new(bytes), depth + 1, visit);
        }
        if is_tar(&head, path) {
            return self.tar(&name, &mut input, depth + 1, visit);
        }
        if let Some(encoding) = utf16::encoding(&head) {
            let mut input = utf16::Utf8Reader::new(input, encoding);
            return visit(Unpacked::Text(Stream::new(&name, path, is_member, &mut input)));
        }
        if is_member && layout::is_plain_text(path) && !head.trim_ascii_start().starts_with(b"{") {
            return visit(Unpacked::Skipped(layout::NO_DUMP));
        }
        visit(Unpacked::Text(Stream::new(&name, path, is_member, &mut input)))
    }

    fn tar(
        &mut self,
        name: &Arc<str>,
        input: &mut dyn Read,
        depth: u8,
        visit: &mut Visit<'_>,
    ) -> Result<(), SnapshotError> {
        let failed = |source| SnapshotError::io(name, source);
        let mut input = EndMark { input, zeros: 0 };
        let mut archive = tar::Archive::new(&mut input);
        let (mut long_path, mut long_size) = (None, None);
        // Raw: the names that precede a member are read here, with a limit, and no sparse file is expanded.
        for entry in archive.entries().map_err(failed)?.raw(true) {
            let mut entry = entry.map_err(failed)?;
            self.count_member(name)?;
            match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => {
                    let of_header = || String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                    let path = long_path.take().unwrap_or_else(of_header);
                    if long_size
                        .take()
                        .is_some_and(|size| size != entry.size().to_string())
                    {
                        return Err(failed(invalid("a member of more than 8 GiB")));
                    }
                    self.member(name, &path, &mut entry, depth, visit)?;
                }
                EntryType::GNULongName => {
                    let text = short(&mut entry).map_err(failed)?;
                    let text = String::from_utf8_lossy(&text);
                    long_path = Some(text.trim_end_matches('\0').to_owned());
                }
                EntryType::XHeader => {
                    let text = short(&mut entry).map_err(failed)?;
                    for extension in tar::PaxExtensions::new(&text) {
                        let extension = extension.map_err(failed)?;
                        match extension.key_bytes() {
                            b"path" => {
                                let path = String::from_utf8_lossy(extension.value_bytes());
                                long_path = Some(path.into_owned());
                            }
                            b"size" => {
                                let size = String::from_utf8_lossy(extension.value_bytes());
                                long_size = Some(size.into_owned());
                            }
                            _ => {}
                        }
                    }
                }
                EntryType::Directory | EntryType::XGlobalHeader | EntryType::GNULongLink => {}
                _ => {
                    (long_path, long_size) = (None, None);
                    visit(Unpacked::Skipped(layout::LINK))?;
                }
            }
        }
        // To its end, so that a checksum of the compression is compared.
        io::copy(&mut input, &mut io::sink()).map_err(failed)?;
        if input.zeros < HEAD_BYTES {
            let cut = "the archive ends without its end mark, so it is cut off";
            return Err(failed(io::Error::new(io::ErrorKind::UnexpectedEof, cut)));
        }
        Ok(())
    }

    fn zip(
        &mut self,
        name: &Arc<str>,
        input: impl Read + Seek,
        depth: u8,
        visit: &mut Visit<'_>,
    ) -> Result<(), SnapshotError> {
        let failed = |error: zip::result::ZipError| SnapshotError::io(name, error.into());
        let mut archive = ZipArchive::new(input).map_err(failed)?;
        for index in 0..archive.len() {
            self.count_member(name)?;
            let entry = archive.by_index(index).map_err(failed)?;
            if entry.is_dir() {
                continue;
            }
            if entry.is_symlink() {
                visit(Unpacked::Skipped(layout::LINK))?;
                continue;
            }
            let path = entry.name().map_err(failed)?.into_owned();
            let mut plain = Counted {
                input: entry,
                bytes_left: self.bytes_left,
                bytes_max: self.bytes_max,
            };
            let read = self.member(name, &path, &mut plain, depth, visit);
            self.bytes_left = self.bytes_left.min(plain.bytes_left);
            read?;
        }
        Ok(())
    }

    fn member(
        &mut self,
        archive: &Arc<str>,
        path: &str,
        input: &mut dyn Read,
        depth: u8,
        visit: &mut Visit<'_>,
    ) -> Result<(), SnapshotError> {
        let path = path.replace('\\', "/");
        let path = path.trim_start_matches("./").trim_start_matches('/');
        match (self.role)(path) {
            Role::Skipped(reason) => visit(Unpacked::Skipped(reason)),
            Role::Refused(looks_like, advice) => Err(SnapshotError::refused(archive, looks_like, advice)),
            Role::Read => {
                let name = format!("{archive}:{}", printable(path)).into();
                self.stream(Stream::new(&name, path, true, input), depth, visit)
            }
        }
    }

    fn count_member(&mut self, name: &Arc<str>) -> Result<(), SnapshotError> {
        self.members += 1;
        match self.members > MEMBERS_MAX {
            true => Err(SnapshotError::too_many(name, MEMBERS_MAX, "members of archives")),
            false => Ok(()),
        }
    }
}

/// Counts unpacked bytes and fails beyond the limit.
struct Counted<R> {
    input: R,
    bytes_left: u64,
    bytes_max: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        match self.bytes_left.checked_sub(count as u64) {
            Some(left) => self.bytes_left = left,
            None => {
                let limit = self.bytes_max;
                self.bytes_left = 0;
                return Err(invalid(&format!("more than {limit} bytes when unpacked")));
            }
        }
        Ok(count)
    }
}

/// Counts the zero bytes at the end of the input: a tar archive ends with blocks of them.
struct EndMark<'a> {
    input: &'a mut dyn Read,
    zeros: usize,
}

impl Read for EndMark<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        let zeros = buffer[..count]
            .iter()
            .rev()
            .take_while(|&&byte| byte == 0)
            .count();
        self.zeros = if zeros == count {
            self.zeros.saturating_add(zeros)
        } else {
            zeros
        };
        Ok(count)
    }
}

/// All bytes of an input, within a limit.
pub(crate) fn read_all(
    input: impl Read,
    place: &Place,
    limit_bytes: usize,
) -> Result<Vec<u8>, SnapshotError> {
    let mut bytes = Vec::new();
    let beyond = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
    let read = input.take(beyond).read_to_end(&mut bytes);
    read.map_err(|error| SnapshotError::io(&place.file, error))?;
    if bytes.len() > limit_bytes {
        return Err(SnapshotError::TooLarge {
            place: place.clone(),
            line: 1,
            limit_bytes,
        });
    }
    Ok(bytes)
}

fn head(input: &mut dyn Read, bytes: usize) -> io::Result<Cow<'static, [u8]>> {
    let mut head = Vec::new();
    input.take(bytes as u64).read_to_end(&mut head)?;
    Ok(head.into())
}

/// A path or the extended header of a member.
fn short(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if input.take(PATH_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 > PATH_BYTES_MAX {
        return Err(invalid("a member whose path is too long"));
    }
    Ok(bytes)
}

/// Unpacks all members, streams or frames of an input, one after the other.
type Decoder = for<'r> fn(Box<dyn Read + 'r>) -> Box<dyn Read + 'r>;

/// The first bytes of compressed files, and what unpacks them.
const COMPRESSIONS: [(&[u8], Decoder); 3] = [
    (b"\x1f\x8b", |input| Box::new(MultiGzDecoder::new(input))),
    (b"\xfd7zXZ\0", |input| {
        Box::new(XzReader::new_mem_limit(input, true, XZ_KIB_MAX))
    }),
    (b"\x28\xb5\x2f\xfd", |input| Box::new(ZstdReader::new(input))),
];

fn is_zip(head: &[u8]) -> bool {
    // The second is an archive without members.
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Archives from before 1988 have no magic bytes, and an empty one has only zeros.
fn is_tar(head: &[u8], path: &str) -> bool {
    head.len() == HEAD_BYTES && (head[257..].starts_with(b"ustar") || layout::has_extension(path, &["tar"]))
}
