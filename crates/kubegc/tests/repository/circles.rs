//! Circles among the files of a crate: each of them imports another one, and is needed by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{Item, Visibility};

use crate::{
    files::{crates, report},
    public_api::{Module, Source, imports, print},
};

/// The paths in the code of an item.
fn paths_in(item: &Item) -> Vec<Vec<String>> {
    let text = print(item);
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    // In macros there may be spaces.
    let code: String = code
        .map(|line| line.replace(" ::", "::").replace(":: ", "::") + "\n")
        .collect();
    let words = code.split(|char: char| !(char.is_alphanumeric() || "_:".contains(char)));
    let paths = words.filter(|word| word.contains("::"));
    let parts = |path: &str| path.trim_matches(':').split("::").map(str::to_owned).collect();
    paths.map(parts).collect()
}

/// The files that each file needs, by their modules. The modules around a file do not count.
fn needs(source: &Source) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut needs: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, items) in &source.modules {
        let from = source.file(module);
        let child = |name: &String| [module, std::slice::from_ref(name)].concat();
        let is_child = |name: &String| source.modules.contains_key(&child(name));
        let mut paths: Vec<Vec<String>> = Vec::new();
        for item in items {
            match item {
                // A re-export needs nothing: whoever uses it needs the file of the item.
                Item::Use(item) if matches!(item.vis, Visibility::Inherited) => {
                    paths.extend(imports(item).into_iter().map(|import| import.path));
                }
                Item::Use(_) | Item::Mod(_) => {}
                item => {
                    let mut found = paths_in(item);
                    found.retain(|path| matches!(&*path[0], "crate" | "super") || is_child(&path[0]));
                    paths.append(&mut found);
                }
            }
        }
        let found = paths.iter().filter_map(|path| source.file_of(module, path));
        let found = found.filter(|to| !from.starts_with(to));
        needs.entry(from.clone()).or_default().extend(found);
    }
    needs
}

/// The files that a file needs, directly or through others.
fn reached<'n>(needs: &'n BTreeMap<Module, BTreeSet<Module>>, file: &'n Module) -> BTreeSet<&'n Module> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![file];
    while let Some(file) = pending.pop() {
        let next = needs.get(file).into_iter().flatten();
        pending.extend(next.filter(|next| reached.insert(*next)));
    }
    reached
}

/// The files of each circle.
fn circles(source: &Source) -> BTreeSet<Vec<String>> {
    let needs = needs(source);
    let all: BTreeMap<&Module, BTreeSet<&Module>> =
        needs.keys().map(|file| (file, reached(&needs, file))).collect();
    let circle = |(file, reached): (&&Module, &BTreeSet<&Module>)| -> Vec<String> {
        let others = reached.iter().filter(|other| all[**other].contains(*file));
        others.map(|other| other.join("/")).collect()
    };
    all.iter().map(circle).filter(|files| !files.is_empty()).collect()
}

fn of_crate(directory: &Path) -> BTreeSet<Vec<String>> {
    circles(&Source::of(&directory.join("src/lib.rs")))
}

#[test]
fn the_files_of_a_crate_have_no_circles() {
    let mut problems = Vec::new();
    for directory in crates() {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let found = of_crate(&directory);
        problems.extend(found.iter().map(|files| format!("{name}: {}", files.join(" "))));
    }
    report(&problems);
}

#[test]
fn a_circle_is_found_through_imports_paths_and_re_exports() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("circles");
    fs::create_dir_all(directory.join("src/deep")).expect("a directory can be made");
    let write = |file: &str, text: &str| fs::write(directory.join("src").join(file), text).expect("writable");
    write("lib.rs", "mod a; mod b; mod deep; pub use b::B;");
    write("a.rs", "use crate::B; pub struct A(B);");
    // The parent of a file does not count.
    write("deep/mod.rs", "mod below; struct Deep(below::Below);");
    write("deep/below.rs", "use super::Deep; struct Below(Vec<Deep>);");
    let circle = [vec!["a", "b"]];
    for (b, is_circle) in [
        ("/// [`A`](crate::a::A)\npub struct B;", false),
        ("pub struct B; #[cfg(test)] mod tests { use crate::a::A; }", false),
        ("pub struct B; fn b() -> usize { size_of::<crate::a::A>() }", true),
        ("pub struct B; use super::a; fn b(_: a::A) {}", true),
        ("pub struct B; fn b() { let _ = vec![super::a::A(B)]; }", true),
    ] {
        write("b.rs", b);
        let expected = &circle[..usize::from(is_circle)];
        assert!(of_crate(&directory).iter().eq(expected), "{b}");
    }
}
