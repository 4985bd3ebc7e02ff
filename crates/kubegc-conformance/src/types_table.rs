//! Merges the types of real API servers into the table of types of `kubegc-sim`.
//!
//! The table has facts that no schema has: which fields are pointers, which are off by default, what older
//! releases had. The schemas of a release add what the table lacks: kinds, structs, fields with the release
//! that has them first, and fields that a release no longer has. Merging a second time changes nothing.
//!
//! A new field is taken to be on by default. Where its feature gate is off, its `>20` becomes `>99?20` by
//! hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead},
    path::Path,
    sync::LazyLock,
};

use regex::Regex;
use serde_json::Value;

use crate::{failure::pattern, recording::open};

/// The types and resources of one release.
#[derive(Debug)]
pub struct Release {
    minor: u32,
    types: BTreeMap<String, Value>,
    served: Vec<Value>,
}

/// Reads the schemas of all releases in a directory, oldest first: `1.36.2.types.jsonl.xz` and
/// `1.36.2.served.jsonl.xz`.
///
/// # Errors
/// A file cannot be read, or has an unexpected name.
pub fn releases(directory: &Path) -> io::Result<Vec<Release>> {
    const TYPES: &str = ".types.jsonl.xz";
    let mut releases = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(version) = name.strip_suffix(TYPES) else {
            continue;
        };
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok());
        let minor = minor.ok_or_else(|| io::Error::other(format!("{name}: not the name of a release")))?;
        let types = lines(&directory.join(&name))?;
        let types = types.into_iter().map(|of| (text(&of, "name").to_owned(), of));
        releases.push(Release {
            minor,
            types: types.collect(),
            served: lines(&directory.join(format!("{version}.served.jsonl.xz")))?,
        });
    }
    releases.sort_by_key(|release| release.minor);
    Ok(releases)
}

/// The text of a key; empty if there is none.
fn text<'v>(of: &'v Value, key: &str) -> &'v str {
    of[key].as_str().unwrap_or_default()
}

fn texts<'v>(of: &'v Value, key: &str) -> Vec<&'v str> {
    let texts = of[key].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}

fn lines(path: &Path) -> io::Result<Vec<Value>> {
    open(path)?
        .lines()
        .map(|line| serde_json::from_str(&line?).map_err(io::Error::other))
        .collect()
}

/// The table with what the releases add to it.
///
/// # Complexity
/// Linear in the sizes of the releases.
pub fn merged(table: &str, releases: &[Release]) -> String {
    let mut table = Table::read(table);
    for release in releases {
        let (names, pending, table) = (BTreeMap::new(), Vec::new(), &mut table);
        let merge = Merge {
            table,
            release,
            names,
            pending,
        };
        merge.run();
    }
    table.text()
}

#[derive(Default)]
struct Table {
    comments: Vec<String>,
    /// Group and version, with kinds: `Kind`, or `Kind=Struct` where its struct has another name.
    kinds: Vec<(String, Vec<String>)>,
    structs: BTreeMap<String, Struct>,
}

#[derive(Clone, Default)]
struct Struct {
    /// Where server-side apply treats it as one piece: `$`, and possibly the first minor version.
    atomic: String,
    fields: Vec<Field>,
}

#[derive(Clone)]
struct Field {
    name: String,
    ty: String,
    /// Flags before the releases, such as `!` and `~name`.
    marks: String,
    since: Option<u32>,
    exists: Option<u32>,
    until: Option<u32>,
    default: Option<String>,
}

impl Table {
    fn read(text: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            if line.starts_with('#') {
                table.comments.push(line.to_owned());
            } else if let Some(line) = line.strip_prefix('@') {
                let mut words = line.split(' ').map(str::to_owned);
                let group_version = words.next().unwrap_or_default();
                table.kinds.push((group_version, words.collect()));
            } else {
                let mut words = line.split(' ');
                let name = words.next().unwrap_or_default();
                let fields = words.filter_map(Field::read).collect();
                let (name, atomic) = name.split_at(name.find('$').unwrap_or(name.len()));
                let atomic = atomic.to_owned();
                table.structs.insert(name.to_owned(), Struct { atomic, fields });
            }
        }
        table
    }

    fn text(&self) -> String {
        let mut lines = self.comments.clone();
        for (group_version, kinds) in &self.kinds {
            lines.push(format!("@{group_version} {}", kinds.join(" ")));
        }
        for (name, of) in &self.structs {
            let atomic = &of.atomic;
            let fields: Vec<String> = of.fields.iter().map(Field::text).collect();
            lines.push(
                format!("{name}{atomic} {}", fields.join(" "))
                    .trim_end()
                    .to_owned(),
            );
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// The struct of a kind.
    fn struct_of(&self, group_version: &str, kind: &str) -> Option<&str> {
        let (_, kinds) = self.kinds.iter().find(|(other, _)| other == group_version)?;
        kinds.iter().find_map(|word| {
            let (other, name) = word.split_once('=').unwrap_or((word, word));
            (other == kind).then_some(name)
        })
    }
}

impl Field {
    fn read(word: &str) -> Option<Self> {
        // Name, type, marks, since, exists, until, default.
        static FIELD: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r"(?x)^ ([^:]*) : ([^!^~%$&><?=]*) ((?: [!^~%$&] [^!^~%$&><?=]* )*)
                (?: >(\d+) )? (?: \?(\d+) )? (?: <(\d+) )? (?: =(.*) )? $",
            )
        });
        let parts = FIELD.captures(word)?;
        let text = |part: usize| parts.get(part).map(|text| text.as_str().to_owned());
        let number = |part: usize| text(part)?.parse().ok();
        Some(Self {
            name: text(1)?,
            ty: text(2)?,
            marks: text(3)?,
            since: number(4),
            exists: number(5),
            until: number(6),
            default: text(7),
        })
    }

    fn text(&self) -> String {
        let number =
            |flag: char, number: Option<u32>| number.map_or(String::new(), |at| format!("{flag}{at}"));
        let default = self.default.iter().map(|default| format!("={default}"));
        format!(
            "{}:{}{}{}{}{}{}",
            self.name,
            self.ty,
            self.marks,
            number('>', self.since),
            number('?', self.exists),
            number('<', self.until),
            default.collect::<String>(),
        )
    }

    fn is_in(&self, minor: u32) -> bool {
        (self.since.unwrap_or(0)..=self.until.unwrap_or(u32::MAX)).contains(&minor)
    }

    /// The struct in its type.
    fn structure(&self) -> Option<&str> {
        let inner = self.ty.trim_start_matches(['*', '[', '{']);
        let inner = inner.split(['|', ']', '}']).next().unwrap_or_default();
        inner
            .starts_with(|char: char| char.is_ascii_uppercase())
            .then_some(inner)
    }
}

/// The schemas of definitions, which contain schemas.
const SCHEMA: &str = "JSONSchemaProps";

/// The structs whose fields the server itself reads, and those that are no structs in the table.
const KEPT: [&str; 3] = ["ObjectMeta", "ManagedFieldsEntry", "OwnerReference"];

struct Merge<'a> {
    table: &'a mut Table,
    release: &'a Release,
    /// The structs of definitions.
    names: BTreeMap<String, String>,
    pending: Vec<String>,
}

impl Merge<'_> {
    fn run(mut self) {
        let mut by_kind = BTreeMap::new();
        for (name, definition) in &self.release.types {
            for kind in texts(definition, "gvk") {
                if let Some((group_version, kind)) = kind.rsplit_once('/') {
                    by_kind.insert((group_version.to_owned(), kind.to_owned()), name.clone());
                }
            }
        }
        let known = by_kind.iter().filter_map(|((group_version, kind), definition)| {
            let name = self.table.struct_of(group_version, kind)?;
            Some((definition.clone(), name.to_owned()))
        });
        for (definition, name) in known.collect::<Vec<_>>() {
            self.pair(&definition, &name);
        }
        self.follow();
        // Stable versions first: they give the structs their plain names.
        let mut new: Vec<(String, String)> = self.release.served.iter().filter_map(stored_kind).collect();
        new.sort_by_key(|(group_version, kind)| {
            (
                group_version.contains("beta"),
                group_version.clone(),
                kind.clone(),
            )
        });
        for (group_version, kind) in new {
            if self.table.struct_of(&group_version, &kind).is_some() {
                continue;
            }
            let Some(definition) = by_kind.get(&(group_version.clone(), kind.clone())) else {
                continue;
            };
            let name = self.name_of(definition);
            let entry = if kind == name {
                kind
            } else {
                format!("{kind}={name}")
            };
            match self
                .table
                .kinds
                .iter_mut()
                .find(|(other, _)| *other == group_version)
            {
                Some((_, kinds)) => kinds.push(entry),
                None => self.table.kinds.push((group_version, vec![entry])),
            }
            self.follow();
        }
    }

    fn pair(&mut self, definition: &str, name: &str) {
        if !self.names.contains_key(definition) && !KEPT.contains(&name) {
            self.names.insert(definition.to_owned(), name.to_owned());
            self.pending.push(definition.to_owned());
        }
    }

    /// Merges the definitions that are paired with structs, and those below them.
    fn follow(&mut self) {
        // Ends: each definition is paired once.
        while let Some(definition) = self.pending.pop() {
            self.merge(&definition);
        }
    }

    fn merge(&mut self, definition: &str) {
        let minor = self.release.minor;
        let of = self.release.types.get(definition);
        let name = self.names[definition].clone();
        let Some((of, fields)) = of.and_then(|of| Some((of, of["fields"].as_object()?))) else {
            return;
        };
        let mut known = self.table.structs.get(&name).cloned().unwrap_or_default();
        let is_kind = !of["gvk"].is_null();
        let mut seen = BTreeSet::new();
        for (key, field) in fields {
            if is_kind && matches!(&**key, "apiVersion" | "kind" | "metadata") {
                continue;
            }
            seen.insert(key.as_str());
            let found = known.fields.iter_mut().filter(|field| field.name == *key);
            match found.min_by_key(|field| !field.is_in(minor)) {
                Some(found) => {
                    if minor < found.since.unwrap_or(0) {
                        found.exists = Some(found.exists.map_or(minor, |exists| exists.min(minor)));
                    } else if found.until.is_some_and(|until| until < minor) {
                        found.until = None;
                    }
                    if let (Some(inner), Some(below)) =
                        (found.structure().map(str::to_owned), reference(field))
                    {
                        self.pair(below, &inner);
                    }
                }
                None => {
                    let added = self.added(key, field, of);
                    known.fields.push(added);
                }
            }
        }
        for field in &mut known.fields {
            if !seen.contains(field.name.as_str()) && field.is_in(minor) {
                match field.since {
                    // Introduced after the release before this one.
                    Some(since) if since >= minor => field.since = Some(minor + 1),
                    _ => field.until = Some(minor - 1),
                }
            }
        }
        self.table.structs.insert(name, known);
    }

    /// A field that the table lacks.
    fn added(&mut self, name: &str, field: &Value, of: &Value) -> Field {
        let is_required = texts(of, "required").contains(&name);
        let default = field.get("default");
        let plain = self.type_of(field);
        let is_struct = plain.starts_with(|char: char| char.is_ascii_uppercase());
        let is_nil_able = plain.starts_with(['[', '{', 'y', 'a']);
        // Structs without a pointer have an empty default, required scalars that of their type.
        let is_pointer = !is_nil_able && !is_required && (default.is_none() || !is_struct);
        let mut marks = if is_required { "!" } else { "" }.to_owned();
        let keys = texts(field, "keys");
        match (text(field, "mergeKey"), text(field, "list")) {
            ("", "map") => marks += &format!("%{}", keys.join(",")),
            ("", "set") => marks.push('%'),
            ("", _) if text(field, "map") == "atomic" => marks.push('$'),
            ("", _) => {}
            (key, list) => {
                marks += &format!("~{key}");
                if list == "map" && keys != [key] {
                    marks += &format!("%{}", keys.join(","));
                }
            }
        }
        let shown = default.filter(|default| {
            !matches!(default, Value::Object(fields) if fields.is_empty())
                && !matches!(default, Value::String(text) if text.is_empty())
                && default.as_f64() != Some(0.0)
                && **default != Value::Bool(false)
        });
        const FIRST: u32 = 28;
        Field {
            name: name.to_owned(),
            ty: if is_pointer { format!("*{plain}") } else { plain },
            marks,
            since: (self.release.minor > FIRST).then_some(self.release.minor),
            exists: None,
            until: None,
            default: shown.map(Value::to_string),
        }
    }

    fn type_of(&mut self, field: &Value) -> String {
        if let Some(definition) = field["ref"].as_str() {
            return self.name_of(definition);
        }
        if let Some(items) = field.get("items") {
            return format!("[{}]", self.type_of(items));
        }
        if let Some(values) = field.get("values") {
            return format!("{{{}}}", self.type_of(values));
        }
        match (text(field, "type"), text(field, "format")) {
            ("string", "byte") => "y",
            ("string", "date-time") => "t",
            ("string", _) => "s",
            ("boolean", _) => "b",
            ("integer", "int64") => "l",
            ("integer", _) => "i",
            ("number", _) => "f",
            _ => "a",
        }
        .to_owned()
    }

    /// The struct of a definition, or the letter of its type. A new one is paired and merged later.
    fn name_of(&mut self, definition: &str) -> String {
        let plain = definition.rsplit('.').next().unwrap_or_default();
        match plain {
            "Time" => return "t".to_owned(),
            "MicroTime" => return "u".to_owned(),
            "Duration" => return "d".to_owned(),
            "Quantity" => return "q".to_owned(),
            "IntOrString" => return "o".to_owned(),
            "RawExtension" | "FieldsV1" | "JSON" => return "a".to_owned(),
            _ if KEPT.contains(&plain) => return plain.to_owned(),
            _ => {}
        }
        if let Some(name) = self.names.get(definition) {
            return name.clone();
        }
        let signature = self.signature(definition);
        let is_plain = |(other, name): &(&String, &String)| {
            *name == plain
                || name.strip_prefix(plain).is_some_and(|rest| rest.starts_with('.')) && !other.is_empty()
        };
        let equal = self
            .names
            .iter()
            .filter(is_plain)
            .find(|(other, _)| self.signature(other) == signature);
        let name = match equal {
            Some((_, name)) => name.clone(),
            None if self.table.structs.contains_key(plain) => {
                let mut parts = definition.rsplit('.').skip(1);
                let (version, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                format!("{plain}.{group}.{version}")
            }
            None => plain.to_owned(),
        };
        let of = self.release.types.get(definition);
        let is_atomic = of.is_some_and(|of| text(of, "map") == "atomic");
        self.table.structs.entry(name.clone()).or_insert(Struct {
            atomic: if is_atomic { "$" } else { "" }.to_owned(),
            fields: Vec::new(),
        });
        self.pair(definition, &name);
        name
    }

    /// A definition with all definitions below it, without their names. Only schemas are recursive.
    fn signature(&self, definition: &str) -> String {
        let of = self.release.types.get(definition);
        let Some(of) = of.filter(|_| !definition.ends_with(SCHEMA)) else {
            return definition.to_owned();
        };
        let fields = of["fields"].as_object().into_iter().flatten();
        let fields = fields.map(|(name, field)| {
            let below = reference(field)
                .map(|below| self.signature(below))
                .unwrap_or_default();
            let mut plain = field.clone();
            if let Some(plain) = plain.as_object_mut() {
                plain.remove("ref");
                plain.remove("items");
                plain.remove("values");
            }
            format!("{name}{plain}{below}")
        });
        format!("{:?}{}", of.get("required"), fields.collect::<Vec<_>>().join(";"))
    }
}

/// The definition that a field refers to, possibly in a list or map.
fn reference(field: &Value) -> Option<&str> {
    let mut at = field;
    loop {
        if let Some(definition) = at["ref"].as_str() {
            return Some(definition);
        }
        at = at.get("items").or_else(|| at.get("values"))?;
    }
}

/// The group, version and kind of a resource whose objects are stored.
fn stored_kind(resource: &Value) -> Option<(String, String)> {
    let (verbs, version) = (texts(resource, "verbs"), text(resource, "version"));
    if !verbs.contains(&"create") || !verbs.contains(&"list") || text(resource, "name").contains('/') {
        return None;
    }
    let group_version = match text(resource, "group") {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Some((group_version, text(resource, "kind").to_owned()))
}
