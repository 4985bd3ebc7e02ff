//! Compressed files, archives, encodings and streams are read like their content.

use std::io::Write;

use kubegc_snapshot::Problem;
use lzma_rust2::{XzOptions, XzWriter};

use crate::{
    common::{bytes, findings, read, reader, render, write},
    pack::{gzip, tar, zip},
};

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).expect("memory");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A text in UTF-16 with a byte order mark.
fn utf16(text: &[u8], to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let text = std::str::from_utf8(text).expect("text");
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(to_bytes).collect()
}

#[test]
fn a_stream_is_read_by_its_content() {
    let text = bytes("list.json");
    let whole = render(&read("f", &text).expect("a list"));
    let yaml = bytes("list.yaml");
    let one: &[(&str, &[u8])] = &[("a/list.json", &text)];
    for (name, packed) in [
        ("gzip", gzip(&text)),
        ("gzip of YAML", gzip(&yaml)),
        (
            "two gzip members",
            [gzip(&text[..900]), gzip(&text[900..])].concat(),
        ),
        ("tar", tar(one)),
        ("tar.gz", gzip(&tar(one))),
        ("zip", zip(one)),
        ("xz", xz(&text)),
        ("two xz streams", [xz(&text[..900]), xz(&text[900..])].concat()),
        ("tar.xz", xz(&tar(one))),
        ("xz in tar", tar(&[("a/list.json.xz", &xz(&text))])),
        ("zstd", zstd(&text)),
        (
            "two zstd frames around a skippable one",
            [
                zstd(&text[..900]),
                b"\x50\x2a\x4d\x18\x02\0\0\0ab".to_vec(),
                zstd(&text[900..]),
            ]
            .concat(),
        ),
        ("tar.zst", zstd(&tar(one))),
        ("tar.zst in zip", zip(&[("inner.tzst", &zstd(&tar(one)))])),
        ("tar.xz in tar", tar(&[("inner.txz", &xz(&tar(one)))])),
        ("gzip in tar", tar(&[("./list.json.gz", &gzip(&text))])),
        ("tar.gz in tar.gz", gzip(&tar(&[("inner.tgz", &gzip(&tar(one)))]))),
        ("zip in tar", tar(&[("inner.zip", &zip(one))])),
        ("little endian", utf16(&text, u16::to_le_bytes)),
        ("big endian", utf16(&text, u16::to_be_bytes)),
        ("UTF-16 YAML", utf16(&yaml, u16::to_le_bytes)),
        ("UTF-16 in gzip", gzip(&utf16(&text, u16::to_le_bytes))),
        (
            "little endian without a mark",
            utf16(&text, u16::to_le_bytes)[2..].to_vec(),
        ),
        (
            "big endian YAML without a mark",
            utf16(&yaml, u16::to_be_bytes)[2..].to_vec(),
        ),
        ("UTF-8 with a mark", [b"\xef\xbb\xbf", &*text].concat()),
        ("UTF-8 YAML with a mark", [b"\xef\xbb\xbf", &*yaml].concat()),
    ] {
        let snapshot = read(name, &packed).unwrap_or_else(|error| panic!("{name}: {}", error.full_text()));
        assert_eq!(render(&snapshot), whole, "{name}");
        assert_eq!(findings(&snapshot), [""; 0], "{name}");
    }
}

#[test]
fn members_are_named_by_their_archive_and_path() {
    let long = format!("{}/pods.json", "directory/".repeat(40));
    let text = bytes("pods-raw.json");
    for (archive, path) in [
        (tar(&[("core/pods.json", &text)]), "core/pods.json"),
        (tar(&[(&long, &text)]), &*long),
        (zip(&[("core/pods.json", &text)]), "core/pods.json"),
        (zip(&[("../\u{1b}[31m.json", &text)]), "../\\u{1b}[31m.json"),
    ] {
        let snapshot = read("dump.archive", &archive).expect("an archive");
        let pod = snapshot.object(0).expect("a pod");
        assert_eq!(&*pod.place().file, format!("dump.archive:{path}"));
    }
}

#[test]
fn other_files_are_counted_and_not_listed() {
    let pod = bytes("pods-raw.json");
    let members: &[(&str, &[u8])] = &[
        ("README.md", b"# dump"),
        ("logs/a.log", b"{"),
        ("._pods.json", b"\0\x05\x16\x07"),
        ("logs/b.log.gz", b"no gzip"),
        ("logs/logs.txt", b"{\"level\":\"info\"}\nnot JSON\n"),
        ("package.json", b"{\"name\": \"x\", \"version\": \"1\"}"),
        ("null.json", b"null\n"),
        ("names.json", b"[\"a\", 7]"),
        ("rules.json", b"[{\"verbs\": [\"get\"]}]"),
        ("values.yaml", b"replicas: 3\n"),
        ("hosts.yaml", b"- a\n- b\n"),
        ("pods.json", &pod),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    write(directory.path(), members);
    let mut of_directory = reader();
    of_directory
        .read_path(directory.path())
        .expect("a dump and other files");
    let of_directory = of_directory.finish().expect("read");
    let of_archive = read("dump.tar", &tar(members)).expect("a dump and other files");
    for (root, snapshot) in [
        (directory.path().display().to_string(), of_directory),
        ("dump.tar".to_owned(), of_archive),
    ] {
        assert_eq!(snapshot.len(), 1);
        let found = findings(&snapshot);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(
            found[0].starts_with(&format!("NotAnObject: {root}: 8 documents skipped: it ")),
            "{found:?}"
        );
        assert_eq!(
            found[1..],
            [
                format!("SkippedFile: {root}: 1 file skipped: logs of containers"),
                format!("SkippedFile: {root}: 1 file skipped: metadata of macOS"),
                format!("SkippedFile: {root}: 3 files skipped: not JSON or YAML"),
            ]
        );
        assert_eq!(snapshot.finding_counts[&Problem::SkippedFile], 5);
        assert_eq!(snapshot.finding_counts[&Problem::NotAnObject], 8);
    }
}

#[test]
fn an_empty_member_makes_every_kind_incomplete() {
    let mut reader = reader().complete("all");
    let archive = tar(&[("pods.json", &bytes("pods-raw.json")), ("nodes.json", b"")]);
    reader
        .read("dump.tar", &*archive)
        .expect("what a failed command leaves");
    let snapshot = reader.finish().expect("read");
    assert_eq!(
        findings(&snapshot),
        ["Unread: dump.tar:nodes.json: holds no document"]
    );
    assert!(!snapshot.completeness.of("", "Node").is_complete());
}

/// The names of damaged archives, and the beginnings of their errors.
const DAMAGED: &str = "
no gzip => f: cannot be read:
a cut gzip => f: cannot be read:
a wrong checksum => f: cannot be read: corrupt gzip stream does not have a matching checksum
no xz => f: cannot be read:
a cut xz => f: cannot be read:
an xz without its index => f: cannot be read:
a wrong checksum of xz => f: cannot be read:
an xz that needs gigabytes => f: cannot be read: needed memory too big
no zstd => f: cannot be read: corrupt zstd stream:
a cut zstd => f: cannot be read: corrupt zstd stream:
a wrong checksum of zstd => f: cannot be read: corrupt zstd stream: its checksum does not match
a zstd that needs gigabytes => f: cannot be read: corrupt zstd stream: Specified window_size is too big
other bytes behind zstd => f: cannot be read: corrupt zstd stream:
a cut skippable frame => f: cannot be read: unexpected end of file
packed too often by several => f: more than 4 compressions and archives within each other
no zip => f: cannot be read:
a cut zip => f: cannot be read:
a tar cut in a member => f:a.json, document 1, items[
a tar cut behind a member => f: cannot be read: the archive ends without its end mark, so it is cut off
a cut tar.gz => f: cannot be read:
only a link => f: no .json, .yaml or .yml file in this archive
only other files => f: no .json, .yaml or .yml file in this archive
nothing => f: no .json, .yaml or .yml file in this archive
packed too often => f: more than 4 compressions and archives within each other
a chart => f: looks like a Helm chart, which is not read;
etcd => f: looks like the data directory of etcd, which is not read;
half a character => f: cannot be read: UTF-16 text that ends within a character
half a pair => f: cannot be read: not UTF-16
";

#[test]
fn damaged_archives_are_refused() {
    let text = bytes("list.json");
    let members: &[(&str, &[u8])] = &[("a.json", &text), ("b.json", b"{}")];
    let (plain, packed) = (tar(members), gzip(&tar(members)));
    let mut wrong_sum = gzip(&text);
    let length = wrong_sum.len();
    wrong_sum[length - 6] ^= 1;
    let mut symlink = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    symlink
        .append_link(&mut header, "a.json", "/etc/passwd")
        .expect("memory");
    let deep = (0..5).fold(text.clone(), |bytes, _| gzip(&bytes));
    let deep_mixed = [xz, zstd, xz, zstd, gzip]
        .iter()
        .fold(text.clone(), |bytes, pack| pack(&bytes));
    let flipped = |mut bytes: Vec<u8>, from_end: usize| {
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        bytes
    };
    // 4 GiB of dictionary, in a header with its checksum.
    let greedy_xz =
        b"\xfd\x37\x7a\x58\x5a\x00\x00\x01\x69\x22\xde\x36\x02\x00\x21\x01\x28\x00\x00\x00\xe6\xa0\x11\xb3"
            .to_vec();
    let greedy_zstd = b"\x28\xb5\x2f\xfd\0\xa0\x01\0\0".to_vec();
    let end = 512 + text.len().next_multiple_of(512);
    let archives = [
        ("no gzip", b"\x1f\x8b\x08rest".to_vec()),
        ("a cut gzip", gzip(&text)[..400].to_vec()),
        ("a wrong checksum", wrong_sum),
        ("no xz", b"\xfd7zXZ\0rest of it".to_vec()),
        ("a cut xz", xz(&text)[..200].to_vec()),
        (
            "an xz without its index",
            xz(&text)[..xz(&text).len() - 12].to_vec(),
        ),
        ("a wrong checksum of xz", flipped(xz(&text), 36)),
        ("an xz that needs gigabytes", greedy_xz),
        ("no zstd", b"\x28\xb5\x2f\xfdrest of it".to_vec()),
        ("a cut zstd", zstd(&text)[..200].to_vec()),
        ("a wrong checksum of zstd", flipped(zstd(&text), 1)),
        ("a zstd that needs gigabytes", greedy_zstd),
        (
            "other bytes behind zstd",
            [zstd(&text), b"rest".to_vec()].concat(),
        ),
        (
            "a cut skippable frame",
            [zstd(&text), b"\x50\x2a\x4d\x18\x02\0\0\0a".to_vec()].concat(),
        ),
        ("packed too often by several", deep_mixed),
        ("no zip", b"PK\x03\x04rest".to_vec()),
        ("a cut zip", zip(members)[..200].to_vec()),
        ("a tar cut in a member", plain[..1_000].to_vec()),
        ("a tar cut behind a member", plain[..end].to_vec()),
        ("a cut tar.gz", packed[..packed.len() - 5].to_vec()),
        ("only a link", symlink.into_inner().expect("memory")),
        ("only other files", tar(&[("a.log", b"x")])),
        ("nothing", zip(&[])),
        ("packed too often", deep),
        ("a chart", tar(&[("web/Chart.yaml", b"name: web\n")])),
        ("etcd", tar(&[("member/snap/db", b"\0")])),
        ("half a character", b"\xff\xfe{\0}".to_vec()),
        ("half a pair", b"\xff\xfe\x00\xd8{\0}\0".to_vec()),
    ];
    let errors = DAMAGED.lines().filter(|line| !line.is_empty());
    for ((name, bytes), line) in archives.into_iter().zip(errors) {
        let expected = line.strip_prefix(name).and_then(|line| line.strip_prefix(" => "));
        let expected = expected.unwrap_or_else(|| panic!("{name}, not {line}"));
        let error = read("f", &bytes).expect_err(name).full_text();
        assert!(error.starts_with(expected), "{name}: {error}");
        let mut lenient = reader().lenient(true).complete("all");
        lenient.read("f", &*bytes).expect("a finding instead");
        let snapshot = lenient.finish().expect(name);
        assert!(snapshot.finding_counts[&Problem::Unread] >= 1, "{name}");
        assert!(
            snapshot
                .completeness
                .iter()
                .all(|(_, coverage)| !coverage.is_complete()),
            "{name}"
        );
    }
}

#[test]
fn a_member_cut_off_at_the_end_of_a_line_is_refused() {
    // Nothing in the text shows the cut, but the archive does.
    let yaml = bytes("stream.yaml");
    let archive = tar(&[("a.yaml", &yaml)]);
    let cut = yaml
        .windows(4)
        .position(|four| four == b"---\n")
        .expect("a second document");
    let error = read("f", &archive[..512 + cut]).expect_err("cut off");
    assert!(
        error.full_text().starts_with("f: cannot be read: "),
        "{}",
        error.full_text()
    );
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    let zeros = vec![b' '; 1 << 20];
    let nested = gzip(&gzip(&zeros));
    for (name, bomb) in [
        ("gzip", gzip(&zeros)),
        ("gzip twice", nested),
        ("tar.gz", gzip(&tar(&[("a.json", &zeros)]))),
        ("a skipped member", gzip(&tar(&[("a.log", &zeros)]))),
        ("zip", zip(&[("a.json", &zeros)])),
        ("xz", xz(&zeros)),
        ("zstd", zstd(&zeros)),
        ("tar.xz in zstd", zstd(&xz(&tar(&[("a.json", &zeros)])))),
        (
            "zip of many",
            zip(&[("a.json", &zeros[..90_000]), ("b.json", &zeros[..90_000])]),
        ),
    ] {
        let mut reader = reader().unpacked_bytes_max(100_000);
        let error = reader.read("f", &*bomb).expect_err(name).full_text();
        assert!(
            error.ends_with(": cannot be read: more than 100000 bytes when unpacked"),
            "{name}: {error}"
        );
    }
    // A path is bounded too, however well it is compressed.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 20);
    header.set_cksum();
    let archive = [header.as_bytes(), &*zeros].concat();
    let error = read("f", &gzip(&archive)).expect_err("too long").full_text();
    assert_eq!(error, "f: cannot be read: a member whose path is too long");
}

/// A directory may contain links to deleted files, and pipes, on which a read would block.
#[cfg(unix)]
#[test]
fn links_to_missing_files_and_pipes_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("pods.json"), bytes("pods-raw.json")).expect("a file");
    std::os::unix::fs::symlink("pods.json", path("same.json")).expect("a link");
    std::os::unix::fs::symlink("deleted.json", path("link.json")).expect("a link");
    let pipe = std::process::Command::new("mkfifo")
        .arg(path("pipe.json"))
        .status();
    assert!(pipe.expect("mkfifo").success());
    let mut reader = reader();
    reader
        .read_path(directory.path())
        .expect("a dump and other files");
    let snapshot = reader.finish().expect("read");
    assert_eq!(snapshot.len(), 1);
    let root = directory.path().display();
    let found = findings(&snapshot);
    assert!(
        found.contains(&format!(
            "SkippedFile: {root}: 2 files skipped: links and special files"
        )),
        "{found:?}"
    );
}
