//! The public items of each package that is published, listed in its `public-api.txt`.
//!
//! A change of the public API changes the list, so reviewers see it. To update the lists, run
//! `UPDATE_EXPECT=1 cargo test -p kubegc --test repository public_api`. Items that macros generate are
//! missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use syn::{
    Attribute, Expr, ExprInfer, Fields, FnArg, ImplItem, Item, ItemImpl, ItemUse, Pat, TraitItem, Type,
    TypeInfer, UseTree, Visibility, punctuated::Punctuated, visit_mut::VisitMut,
};

use crate::files::{crates, read, root};

/// The path of a module from the root of the crate.
pub(crate) type Module = Vec<String>;

/// The parsed source of a crate.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) modules: BTreeMap<Module, Vec<Item>>,
    /// The modules that are files.
    files: BTreeSet<Module>,
    /// The implementations of each type of the crate, in the form of the lists.
    implementations: BTreeMap<(Module, String), Vec<Item>>,
}

/// One name that a `use` declares: `None` for `*`.
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    name: Option<String>,
}

impl Source {
    pub(crate) fn of(lib: &Path) -> Self {
        let mut source = Self::default();
        source.read(Module::new(), lib);
        source.implementations = source.all_implementations();
        source
    }

    fn read(&mut self, module: Module, file: &Path) {
        let parsed =
            syn::parse_file(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let directory = file.parent().expect("a directory");
        let below = match stem {
            "lib" | "mod" => directory.to_owned(),
            stem => directory.join(stem),
        };
        self.files.insert(module.clone());
        self.add(module, parsed.items, &below);
    }

    /// Adds the items of a module whose submodules are files in a directory.
    fn add(&mut self, module: Module, mut items: Vec<Item>, directory: &Path) {
        items.retain(|item| !attributes(item).iter().any(is_test_or_hidden));
        for item in &items {
            let Item::Mod(inner) = item else { continue };
            let name = inner.ident.to_string();
            let path = [&module[..], std::slice::from_ref(&name)].concat();
            match &inner.content {
                Some((_, content)) => self.add(path, content.clone(), &directory.join(name)),
                None => {
                    let flat = directory.join(format!("{name}.rs"));
                    let nested = directory.join(&name).join("mod.rs");
                    self.read(path, if flat.exists() { &flat } else { &nested });
                }
            }
        }
        self.modules.insert(module, items);
    }

    fn items(&self, module: &[String]) -> &[Item] {
        self.modules.get(module).map_or(&[], Vec::as_slice)
    }

    /// The file of a module or of an item in it.
    pub(crate) fn file(&self, path: &[String]) -> Module {
        let mut above = (0..=path.len()).rev().map(|end| path[..end].to_vec());
        above.find(|file| self.files.contains(file)).unwrap_or_default()
    }

    /// The file of the item to which a path, or its first part, leads; `None` outside of the crate.
    pub(crate) fn file_of(&self, module: &[String], path: &[String]) -> Option<Module> {
        let mut parts = (1..=path.len()).rev().map(|end| &path[..end]);
        let (mut at, name) = parts.find_map(|part| self.resolve(module, part, DEPTH))?;
        at.push(name);
        Some(self.file(&at))
    }

    /// The module that defines the item to which a path leads; `None` outside of the crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<(Module, String)> {
        let (name, through) = path.split_last()?;
        let mut at = module.to_vec();
        for (index, segment) in through.iter().enumerate() {
            match (index, segment.as_str()) {
                (0, "crate") => at.clear(),
                (0, "self") => {}
                (_, "super") => drop(at.pop()),
                _ => {
                    let (mut parent, name) = self.definition(&at, segment, depth)?;
                    parent.push(name);
                    at = parent;
                }
            }
        }
        self.definition(&at, name, depth)
    }

    /// The module that defines the item of a name in a module.
    fn definition(&self, module: &[String], name: &str, depth: usize) -> Option<(Module, String)> {
        if depth == 0 {
            return None;
        }
        let items = self.items(module);
        if items
            .iter()
            .any(|item| ident(item).is_some_and(|ident| ident == name))
        {
            return Some((module.to_vec(), name.to_owned()));
        }
        let imports = items.iter().filter_map(|item| match item {
            Item::Use(item) => Some(imports(item)),
            _ => None,
        });
        imports.flatten().find_map(|import| match import.name {
            Some(known) => (known == name).then(|| self.resolve(module, &import.path, depth - 1))?,
            None => {
                let (mut all, last) = self.resolve(module, &import.path, depth - 1)?;
                all.push(last);
                self.definition(&all, name, depth - 1)
            }
        })
    }

    /// The public items of a module, in the form of the lists.
    fn surface(&self, module: &[String]) -> Vec<Item> {
        let mut listed: Vec<(String, Vec<Item>)> = Vec::new();
        for item in self.items(module) {
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    for import in imports(item) {
                        listed.extend(self.imported(module, item, &import));
                    }
                }
                item => listed.extend(self.item(module, item).map(|items| (order(item), items))),
            }
        }
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        listed.into_iter().flat_map(|(_, items)| items).collect()
    }

    fn imported(&self, module: &[String], item: &ItemUse, import: &Import) -> Vec<(String, Vec<Item>)> {
        let Some((at, name)) = self.resolve(module, &import.path, DEPTH) else {
            let path = import.path.join("::");
            let name = import.name.as_deref().unwrap_or("*");
            let text = match import.path.last() {
                Some(last) if last == name => format!("pub use {path};"),
                _ if name == "*" => format!("pub use {path}::*;"),
                _ => format!("pub use {path} as {name};"),
            };
            let mut external: ItemUse = syn::parse_str(&text).expect("a use");
            external.attrs = kept(&item.attrs);
            return vec![(name.to_owned(), vec![Item::Use(external)])];
        };
        let inner = [&at[..], std::slice::from_ref(&name)].concat();
        if import.name.is_none() {
            return vec![(format!("*{name}"), self.surface(&inner))];
        }
        let found = self.items(&at).iter();
        let found = found.filter(|item| ident(item).is_some_and(|ident| ident == name));
        let listed = found.filter_map(|item| Some((order(item), self.item(&at, item)?)));
        listed.collect()
    }

    /// A public item without its private parts, with its implementations; `None` if it is not public.
    fn item(&self, module: &[String], item: &Item) -> Option<Vec<Item>> {
        let mut item = item.clone();
        let visibility = match &mut item {
            Item::Const(item) => &item.vis,
            Item::Enum(item) => &item.vis,
            Item::Fn(item) => &item.vis,
            Item::Mod(item) => &item.vis,
            Item::Static(item) => &item.vis,
            Item::Struct(item) => &item.vis,
            Item::Trait(item) => &item.vis,
            Item::Type(item) => &item.vis,
            Item::Union(item) => &item.vis,
            Item::Macro(item)
                if item
                    .attrs
                    .iter()
                    .any(|attribute| attribute.path().is_ident("macro_export")) =>
            {
                item.mac.tokens = "() => {}".parse().expect("an empty macro");
                &Visibility::Public(syn::token::Pub::default())
            }
            _ => return None,
        };
        if !is_public(visibility) {
            return None;
        }
        if let Item::Mod(inner) = &mut item {
            let path = [module, &[inner.ident.to_string()]].concat();
            inner.content = Some((syn::token::Brace::default(), self.surface(&path)));
            inner.semi = None;
            inner.attrs = kept(&inner.attrs);
            return Some(vec![item]);
        }
        Skeleton.visit_item_mut(&mut item);
        let name = ident(&item)?;
        let implementations = self.implementations.get(&(module.to_vec(), name));
        let implementations = implementations.into_iter().flatten().cloned();
        Some([item].into_iter().chain(implementations).collect())
    }

    fn all_implementations(&self) -> BTreeMap<(Module, String), Vec<Item>> {
        let mut found: BTreeMap<_, Vec<Item>> = BTreeMap::new();
        for (module, items) in &self.modules {
            for item in items {
                let Item::Impl(implementation) = item else {
                    continue;
                };
                let path = path_of(&implementation.self_ty).unwrap_or_default();
                if let Some(target) = self.resolve(module, &path, DEPTH)
                    && let Some(listed) = self.implementation(module, implementation)
                {
                    found.entry(target).or_default().push(Item::Impl(listed));
                }
            }
        }
        for items in found.values_mut() {
            items.sort_by_cached_key(print);
        }
        found
    }

    /// The public functions of a type, or the trait that it implements; `None` if there are none.
    fn implementation(&self, module: &[String], implementation: &ItemImpl) -> Option<ItemImpl> {
        let mut implementation = implementation.clone();
        if let Some((_, path, _)) = &implementation.trait_ {
            let path: Vec<_> = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            let known = self.resolve(module, &path, DEPTH);
            let is_private = known.is_some_and(|(at, name)| {
                let mut items = self.items(&at).iter();
                items
                    .any(|item| matches!(item, Item::Trait(found) if found.ident == name && !is_public(&found.vis)))
            });
            implementation
                .items
                .retain(|item| matches!(item, ImplItem::Type(_)));
            Skeleton.visit_item_impl_mut(&mut implementation);
            return (!is_private).then_some(implementation);
        }
        implementation.items.retain(|item| match item {
            ImplItem::Fn(item) => is_public(&item.vis) && !item.attrs.iter().any(is_test_or_hidden),
            ImplItem::Const(item) => is_public(&item.vis),
            _ => false,
        });
        Skeleton.visit_item_impl_mut(&mut implementation);
        (!implementation.items.is_empty()).then_some(implementation)
    }
}

/// The longest chain of re-exports that is followed.
const DEPTH: usize = 16;

/// Removes bodies, values, private fields and most attributes.
struct Skeleton;

impl VisitMut for Skeleton {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        *attributes = kept(attributes);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.clear();
    }

    fn visit_fields_mut(&mut self, fields: &mut Fields) {
        match fields {
            Fields::Named(fields) => {
                let named = std::mem::take(&mut fields.named).into_iter();
                let is_seen = |field: &syn::Field| is_public(&field.vis);
                fields.named = named.filter(is_seen).collect::<Punctuated<_, _>>();
            }
            Fields::Unnamed(fields) => {
                for field in fields.unnamed.iter_mut().filter(|field| !is_public(&field.vis)) {
                    field.ty = Type::Infer(TypeInfer {
                        underscore_token: syn::token::Underscore::default(),
                    });
                }
            }
            Fields::Unit => {}
        }
        syn::visit_mut::visit_fields_mut(self, fields);
    }

    fn visit_variant_mut(&mut self, variant: &mut syn::Variant) {
        // The fields of a variant have its visibility.
        variant.attrs = kept(&variant.attrs);
        for field in &mut variant.fields {
            field.attrs = kept(&field.attrs);
        }
    }

    fn visit_item_const_mut(&mut self, item: &mut syn::ItemConst) {
        item.attrs = kept(&item.attrs);
        *item.expr = unnamed();
    }

    fn visit_item_static_mut(&mut self, item: &mut syn::ItemStatic) {
        item.attrs = kept(&item.attrs);
        *item.expr = unnamed();
    }

    fn visit_impl_item_const_mut(&mut self, item: &mut syn::ImplItemConst) {
        item.attrs = kept(&item.attrs);
        item.expr = unnamed();
    }

    fn visit_fn_arg_mut(&mut self, argument: &mut FnArg) {
        // Callers do not see whether a function changes its own copy.
        match argument {
            FnArg::Receiver(receiver) if receiver.reference.is_none() => receiver.mutability = None,
            FnArg::Receiver(_) => {}
            FnArg::Typed(typed) => {
                if let Pat::Ident(name) = &mut *typed.pat {
                    name.mutability = None;
                }
            }
        }
        syn::visit_mut::visit_fn_arg_mut(self, argument);
    }

    fn visit_item_trait_mut(&mut self, item: &mut syn::ItemTrait) {
        item.items.retain(|item| match item {
            TraitItem::Fn(item) => !item.attrs.iter().any(is_test_or_hidden),
            _ => true,
        });
        syn::visit_mut::visit_item_trait_mut(self, item);
    }
}

fn unnamed() -> Expr {
    Expr::Infer(ExprInfer {
        attrs: Vec::new(),
        underscore_token: syn::token::Underscore::default(),
    })
}

/// The attributes that are part of the public API.
fn kept(attributes: &[Attribute]) -> Vec<Attribute> {
    let names = ["cfg", "cfg_attr", "derive", "non_exhaustive"];
    let is_kept = |attribute: &&Attribute| names.iter().any(|name| attribute.path().is_ident(name));
    let is_lint = |attribute: &&Attribute| print_attribute(attribute).contains("expect(");
    let attributes = attributes.iter().filter(is_kept);
    attributes
        .filter(|attribute| !is_lint(attribute))
        .cloned()
        .collect()
}

fn print_attribute(attribute: &Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string().replace(' ', ""),
        syn::Meta::Path(_) | syn::Meta::NameValue(_) => String::new(),
    }
}

fn is_test_or_hidden(attribute: &Attribute) -> bool {
    let text = print_attribute(attribute);
    (attribute.path().is_ident("cfg") && matches!(&*text, "test" | "doctest"))
        || (attribute.path().is_ident("doc") && text == "hidden")
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn ident(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// The sort key of an item in a list: modules are last.
fn order(item: &Item) -> String {
    let name = ident(item).unwrap_or_default();
    match item {
        Item::Mod(_) => format!("~{name}"),
        _ => name,
    }
}

fn path_of(ty: &Type) -> Option<Vec<String>> {
    match ty {
        Type::Path(path) => {
            let segments = path.path.segments.iter();
            Some(segments.map(|segment| segment.ident.to_string()).collect())
        }
        Type::Reference(reference) => path_of(&reference.elem),
        _ => None,
    }
}

pub(crate) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    let mut pending = vec![(Vec::new(), &item.tree)];
    while let Some((path, tree)) = pending.pop() {
        let with = |name: &syn::Ident| [&path[..], &[name.to_string()]].concat();
        match tree {
            UseTree::Path(inner) => pending.push((with(&inner.ident), &inner.tree)),
            UseTree::Group(group) => pending.extend(group.items.iter().map(|tree| (path.clone(), tree))),
            UseTree::Glob(_) => found.push(Import { path, name: None }),
            UseTree::Name(name) if name.ident == "self" => {
                let name = path.last().cloned();
                found.push(Import { path, name });
            }
            UseTree::Name(name) => found.push(Import {
                path: with(&name.ident),
                name: Some(name.ident.to_string()),
            }),
            UseTree::Rename(rename) => found.push(Import {
                path: with(&rename.ident),
                name: Some(rename.rename.to_string()),
            }),
        }
    }
    found
}

pub(crate) fn print(item: &Item) -> String {
    prettyplease::unparse(&syn::File {
        shebang: None,
        attrs: Vec::new(),
        items: vec![item.clone()],
    })
}

#[test]
fn public_items_are_listed() {
    let mut listed = 0;
    for directory in crates() {
        if read(directory.join("Cargo.toml")).contains("publish = false") {
            continue;
        }
        let items = Source::of(&directory.join("src/lib.rs")).surface(&[]);
        let text = prettyplease::unparse(&syn::File {
            shebang: None,
            attrs: Vec::new(),
            items,
        });
        expect_test::expect_file![directory.join("public-api.txt")].assert_eq(&text);
        listed += 1;
    }
    assert!(listed > 10, "only {listed} packages are published");
}

/// Each item has an example, or names the item whose example uses it.
#[test]
fn items_at_the_roots_of_objects_and_predict_have_examples() {
    let mut seen = 0;
    let mut without = Vec::new();
    for directory in ["kubegc-objects", "kubegc-predict"] {
        let source = Source::of(&root().join(format!("crates/{directory}/src/lib.rs")));
        let uses = source.items(&[]).iter().filter_map(|item| match item {
            Item::Use(item) if is_public(&item.vis) => Some(imports(item)),
            _ => None,
        });
        for import in uses.flatten() {
            // An item of another crate has its documentation there.
            let Some((module, name)) = source.resolve(&[], &import.path, DEPTH) else {
                continue;
            };
            let mut items = source.items(&module).iter();
            let item = items.find(|item| ident(item).is_some_and(|ident| ident == name));
            let item = item.filter(|item| !matches!(item, Item::Mod(_) | Item::Use(_)));
            let Some(item) = item else { continue };
            seen += 1;
            if !attributes(item).iter().any(is_heading_of_examples) {
                without.push(format!("{directory}: {name}"));
            }
        }
    }
    assert!(without.is_empty(), "without `# Examples`: {without:?}");
    assert!(seen > 30, "only {seen} items were found");
}

fn is_heading_of_examples(attribute: &Attribute) -> bool {
    let syn::Meta::NameValue(doc) = &attribute.meta else {
        return false;
    };
    let Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(text),
        ..
    }) = &doc.value
    else {
        return false;
    };
    attribute.path().is_ident("doc") && text.value().trim() == "# Examples"
}
