//! A crate's modules as its files declare them: what each defines, imports and names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The names from a crate's root to a module; none for the root.
pub type ModulePath = Vec<String>;

/// One module, without its tests and its child modules.
#[derive(Default)]
pub struct Module {
    /// The names of its child modules.
    pub children: BTreeSet<String>,
    /// The names of the items that it defines.
    pub defined: BTreeSet<String>,
    /// The names that it imports, each with its path.
    pub imported: BTreeMap<String, Vec<String>>,
    /// The modules whose names it imports all.
    pub globs: Vec<Vec<String>>,
    /// All paths that its code names, imports included, but not those that it only publishes again.
    pub named: BTreeSet<Vec<String>>,
}

/// The modules of a crate by their paths.
pub type Modules = BTreeMap<ModulePath, Module>;

/// Reads the crate whose root is this file.
pub fn read_crate(root: &Path) -> Modules {
    let mut modules = Modules::new();
    read_file(root, root.parent().unwrap(), Vec::new(), &mut modules);
    modules
}

/// Reads the module of one file, whose child modules are in `folder`.
fn read_file(file: &Path, folder: &Path, path: ModulePath, modules: &mut Modules) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    read_items(&parsed.items, folder, path, modules);
}

fn read_items(items: &[Item], folder: &Path, path: ModulePath, modules: &mut Modules) {
    let mut module = Module::default();
    for item in items.iter().filter(|item| !is_for_tests(attributes_of(item))) {
        if let Item::Mod(child) = item {
            let name = child.ident.to_string();
            let child_path: ModulePath = path.iter().cloned().chain([name.clone()]).collect();
            let child_folder = folder.join(&name);
            match &child.content {
                Some((_, items)) => read_items(items, &child_folder, child_path, modules),
                None => match file_of(child, folder, &name) {
                    Some(file) => read_file(&file, &child_folder, child_path, modules),
                    None => continue,
                },
            }
            module.children.insert(name);
        } else {
            module.defined.extend(name_of(item));
            module.visit_item(item);
        }
    }
    modules.insert(path, module);
}

/// The file of a module that is declared without a body; none where `#[path]` leads out of the crate.
fn file_of(child: &syn::ItemMod, folder: &Path, name: &str) -> Option<PathBuf> {
    if child.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
        return None;
    }
    let file = folder.join(format!("{name}.rs"));
    Some(if file.exists() { file } else { folder.join(name).join("mod.rs") })
}

/// Whether only tests compile what has these attributes.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
    })
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

impl Module {
    /// Adds the paths of a `use`, whose outer part is `before`.
    fn import(&mut self, tree: &UseTree, before: &[String], is_published: bool) {
        let join = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        let (path, name) = match tree {
            UseTree::Path(inner) => return self.import(&inner.tree, &join(&inner.ident), is_published),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, before, is_published));
            }
            UseTree::Glob(_) => return self.globs.push(before.to_vec()),
            UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last().cloned().unwrap()),
            UseTree::Name(name) => (join(&name.ident), name.ident.to_string()),
            UseTree::Rename(renamed) => (join(&renamed.ident), renamed.rename.to_string()),
        };
        if !is_published {
            self.named.insert(path.clone());
        }
        self.imported.insert(name, path);
    }

    /// Adds the paths in a macro's tokens, which have no syntax tree.
    fn scan_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.named.insert(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.named.insert(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan_tokens(group.stream());
                    }
                }
            }
        }
        self.named.insert(path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_published = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, &[], is_published);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.named.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.visit_path(&called.path);
        self.scan_tokens(called.tokens.clone());
    }

    // `pub(in a::b)` names who may use an item, and uses nothing itself.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
