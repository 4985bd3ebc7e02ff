//! Merges upstream's `generated.proto` files into the table of messages of `kubegc-testkit`.
//!
//! `generated.proto` has the numbers and types of a message. The tags of the Go struct in the same package
//! say what JSON makes of them: names, pointers, embedded structs, and fields that are written even where
//! they are empty. Messages and fields that a release no longer has stay, and the fields are marked: merge
//! the releases oldest first. Merging a second time changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// The files of one Go package with messages.
#[derive(Debug)]
pub struct Sources {
    proto: String,
    go: Vec<String>,
}

/// Reads all packages with a `generated.proto` in and below a directory.
///
/// # Errors
/// A file cannot be read.
pub fn sources(root: &Path) -> io::Result<Vec<Sources>> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    // Ends: links are not followed.
    while let Some(directory) = pending.pop() {
        let (mut proto, mut go) = (None, Vec::new());
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            } else if name == "generated.proto" {
                proto = Some(fs::read_to_string(entry.path())?);
            } else if name.ends_with(".go") && !name.ends_with("_test.go") && !name.ends_with(".pb.go") {
                go.push(fs::read_to_string(entry.path())?);
            }
        }
        if let Some(proto) = proto {
            found.push(Sources { proto, go });
        }
    }
    Ok(found)
}

/// The table with what the packages add to it.
///
/// # Complexity
/// Linear in the sizes of the files.
pub fn merged(table: &str, sources: &[Sources]) -> String {
    let mut table = Table::read(table);
    for sources in sources {
        table.merge(sources);
    }
    table.text()
}

#[derive(Default)]
struct Table {
    comments: Vec<String>,
    packages: BTreeMap<String, Package>,
}

#[derive(Default)]
struct Package {
    group_version: String,
    messages: BTreeMap<String, BTreeMap<u32, Field>>,
}

struct Field {
    /// Its name in JSON; empty for an embedded struct.
    name: String,
    /// With its marks.
    ty: String,
}

/// Messages that are a value of their own in JSON, with the letters of the table.
const VALUES: [(&str, &str); 7] = [
    ("FieldsV1", "a"),
    ("IntOrString", "o"),
    ("JSON", "a"),
    ("MicroTime", "u"),
    ("Quantity", "q"),
    ("RawExtension", "a"),
    ("Time", "t"),
];
/// Messages that no other message of a served group refers to.
const UNUSED: [&str; 3] = ["Duration", "QuantityValue", "Timestamp"];
/// Groups that no API server serves.
const NOT_SERVED: [&str; 3] = [
    "admission.k8s.io",
    "imagepolicy.k8s.io",
    "testapigroup.apimachinery.k8s.io",
];

impl Table {
    fn read(text: &str) -> Self {
        let mut table = Self::default();
        let mut package = String::new();
        for line in text.lines() {
            if line.starts_with('#') {
                table.comments.push(line.to_owned());
            } else if let Some((name, group_version)) =
                line.strip_prefix('@').and_then(|line| line.split_once(' '))
            {
                name.clone_into(&mut package);
                let of = table.packages.entry(package.clone()).or_default();
                group_version.clone_into(&mut of.group_version);
            } else {
                let mut words = line.split(' ');
                let message = words.next().unwrap_or_default().to_owned();
                let mut last = 0;
                let fields = words.filter_map(|word| {
                    let (name, ty) = word.split_once(':')?;
                    let (ty, number) = ty.split_once('@').unwrap_or((ty, ""));
                    last = number.parse().unwrap_or(last + 1);
                    let (name, ty) = (name.to_owned(), ty.to_owned());
                    Some((last, Field { name, ty }))
                });
                let fields = fields.collect();
                let of = table.packages.entry(package.clone()).or_default();
                of.messages.insert(message, fields);
            }
        }
        table
    }

    fn text(&self) -> String {
        // Stable messages may refer to alpha ones, behind a gate that is off.
        let is_known = |ty: &str| {
            let message = ty.trim_matches(['*', '[', ']', '{', '}', '!', '-']);
            let package = message.rsplit_once('.').map(|(package, _)| package);
            package.is_none_or(|package| self.packages.contains_key(package))
        };
        let mut lines = self.comments.clone();
        for (name, package) in &self.packages {
            lines.push(format!("@{name} {}", package.group_version));
            for (message, fields) in &package.messages {
                let mut line = message.clone();
                let mut last = 0;
                for (number, Field { name, ty }) in fields.iter().filter(|(_, field)| is_known(&field.ty)) {
                    line += &format!(" {name}:{ty}");
                    if *number != last + 1 {
                        line += &format!("@{number}");
                    }
                    last = *number;
                }
                lines.push(line);
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn merge(&mut self, sources: &Sources) {
        let facts = Facts::read(&sources.go);
        let Some(group) = facts.group.as_deref().filter(|group| !NOT_SERVED.contains(group)) else {
            return;
        };
        let named = sources
            .proto
            .lines()
            .find_map(|line| line.strip_prefix("package "));
        let name = short(named.unwrap_or_default().trim_end_matches(';'));
        let version = name.rsplit('.').next().unwrap_or_default();
        if version.contains("alpha") {
            return;
        }
        let package = self.packages.entry(name.clone()).or_default();
        package.group_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let is_value = |message: &str| {
            VALUES.iter().any(|(name, _)| *name == message)
                || UNUSED.contains(&message)
                || facts.lists.contains(message)
        };
        // The fields of earlier releases that this one has not shown.
        let mut removed = BTreeSet::new();
        let mut message = "";
        for line in sources.proto.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("message ") {
                message = rest.split(' ').next().unwrap_or_default();
                if !is_value(message) {
                    let fields = package.messages.entry(message.to_owned()).or_default();
                    removed.extend(fields.keys().map(|number| (message, *number)));
                }
            } else if let Some((number, field)) = field(line, message, &name, &facts)
                && let Some(fields) = package.messages.get_mut(message)
                && !is_value(message)
            {
                fields.insert(number, field);
                removed.remove(&(message, number));
            }
        }
        for (message, number) in removed {
            let fields = package.messages.get_mut(message);
            if let Some(field) = fields.and_then(|fields| fields.get_mut(&number))
                && !field.ty.ends_with('-')
            {
                field.ty.push('-');
            }
        }
    }
}

/// The last two parts of the name of a package, such as `core.v1`.
fn short(package: &str) -> String {
    let mut parts = package.rsplitn(3, '.');
    let (last, before) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{before}.{last}")
}

/// A field with its number. Other lines than `optional string name = 1;` have none.
fn field(line: &str, message: &str, package: &str, facts: &Facts) -> Option<(u32, Field)> {
    let (declared, number) = line.strip_suffix(';')?.split_once(" = ")?;
    let number = number.parse().ok()?;
    let (ty, name) = declared.rsplit_once(' ')?;
    let plain = |ty: &str| type_of(ty, package, facts);
    let ty = if let Some(ty) = ty.strip_prefix("optional ") {
        plain(ty)
    } else if let Some(ty) = ty.strip_prefix("repeated ") {
        format!("[{}]", plain(ty))
    } else {
        format!(
            "{{{}}}",
            plain(ty.strip_prefix("map<string, ")?.strip_suffix('>')?)
        )
    };
    let Some(tag) = facts.tags.get(&(message.to_owned(), number)) else {
        let name = name.to_owned();
        return Some((number, Field { name, ty }));
    };
    let name = match &*tag.name {
        _ if tag.is_embedded => "",
        "" => name,
        name => name,
    };
    let pointer = if tag.is_pointer { "*" } else { "" };
    let written = if tag.is_written { "!" } else { "" };
    let (name, ty) = (name.to_owned(), format!("{pointer}{ty}{written}"));
    Some((number, Field { name, ty }))
}

/// A type as the table writes it: a letter, or a message with its package if that is another one.
fn type_of(ty: &str, package: &str, facts: &Facts) -> String {
    const SCALARS: [(&str, &str); 6] = [
        ("bool", "b"),
        ("bytes", "y"),
        ("double", "f"),
        ("int32", "i"),
        ("int64", "l"),
        ("string", "s"),
    ];
    let (of, plain) = match ty.trim_start_matches('.').rsplit_once('.') {
        Some((of, plain)) => (short(of), plain),
        None => (package.to_owned(), ty),
    };
    let letter = SCALARS.iter().chain(&VALUES).find(|(name, _)| *name == plain);
    match letter {
        Some((_, letter)) => (*letter).to_owned(),
        None if of != package => format!("{of}.{plain}"),
        None if facts.lists.contains(plain) => "n".to_owned(),
        None => plain.to_owned(),
    }
}

/// Declarations in the Go files of a package.
#[derive(Default)]
struct Facts {
    group: Option<String>,
    /// By struct and field number.
    tags: BTreeMap<(String, u32), Tag>,
    /// Types that are lists of strings, and messages only in protobuf.
    lists: BTreeSet<String>,
}

struct Tag {
    /// The name in JSON, if there is a tag.
    name: String,
    is_pointer: bool,
    is_embedded: bool,
    /// Whether JSON shows the field even where it is empty.
    is_written: bool,
}

impl Facts {
    fn read(go: &[String]) -> Self {
        let mut facts = Self::default();
        for text in go {
            let mut structure = "";
            for line in text.lines() {
                if let Some(group) = line.strip_prefix("const GroupName = \"") {
                    facts.group = group.split('"').next().map(str::to_owned);
                } else if let Some((name, of)) =
                    line.strip_prefix("type ").and_then(|line| line.split_once(' '))
                {
                    structure = if of.starts_with("struct {") { name } else { "" };
                    if of == "[]string" {
                        facts.lists.insert(name.to_owned());
                    }
                } else if line.starts_with('}') {
                    structure = "";
                } else if !structure.is_empty()
                    && let Some((number, tag)) = Tag::read(line)
                {
                    facts.tags.insert((structure.to_owned(), number), tag);
                }
            }
        }
        facts
    }
}

impl Tag {
    /// Reads a field with a number: ``Name *Type `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"` ``.
    fn read(line: &str) -> Option<(u32, Self)> {
        let number = line.split_once("protobuf:\"")?.1.split(',').nth(1)?;
        let words: Vec<&str> = line.split('`').next()?.split_whitespace().collect();
        let json = line
            .split_once("json:\"")
            .and_then(|(_, json)| json.split('"').next());
        let json = json.unwrap_or_default();
        let mut parts = json.split(',');
        let name = parts.next().unwrap_or_default().to_owned();
        // JSON shows the fields of an embedded struct without a name.
        let is_embedded = words.len() == 1 && name.is_empty();
        let tag = Self {
            name,
            is_pointer: words.last()?.starts_with('*'),
            is_embedded,
            is_written: !is_embedded && !parts.any(|part| part == "omitempty"),
        };
        Some((number.parse().ok()?, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = "
package k8s.io.api.toys.v1;

message Toy {
  // A comment.
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;

  optional Engine engine = 2;

  repeated int64 sizes = 4;

  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> parts = 5;

  optional Words words = 6;

  optional .k8s.io.api.toys.v1alpha1.Wheel wheel = 7;

  optional string uID = 8;
}

message Engine {
  optional bool on = 1;
}

message Words {
  repeated string items = 1;
}
";
    const GO: &str = r#"
const GroupName = "toys.example.com"

type Toy struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Engine `json:",inline" protobuf:"bytes,2,opt,name=engine"`
	Sizes []int64 `json:"sizes" protobuf:"varint,4,rep,name=sizes"`
	Parts map[string]resource.Quantity `json:"parts,omitempty" protobuf:"bytes,5,rep,name=parts"`
	Words Words `json:"words,omitempty" protobuf:"bytes,6,opt,name=words"`
	UID *string `json:"uid,omitempty" protobuf:"bytes,8,opt,name=uID"`
}

type Engine struct {
	On bool `json:"on" protobuf:"varint,1,opt,name=on"`
}

type Words []string
"#;

    #[test]
    fn fields_have_their_numbers_and_the_names_and_marks_of_json() {
        let sources = [Sources {
            proto: PROTO.to_owned(),
            go: vec![GO.to_owned()],
        }];
        let expected = "\
# the table
@meta.v1 meta.k8s.io/v1
ObjectMeta name:s
@toys.v1 toys.example.com/v1
Engine on:b!
Toy metadata:meta.v1.ObjectMeta :Engine sizes:[l]!@4 parts:{q} words:n uid:*s@8
";
        let table = merged(
            "# the table\n@meta.v1 meta.k8s.io/v1\nObjectMeta name:s\n",
            &sources,
        );
        assert_eq!(table, expected);
        assert_eq!(merged(&table, &sources), expected, "a second time");
        let older = table.replace("uid:*s@8", "uid:s@8 old:s");
        let again = merged(&older, &sources);
        assert_eq!(again, expected.replace("uid:*s@8", "uid:*s@8 old:s-"));
        assert_eq!(merged(&again, &sources), again);
    }
}
