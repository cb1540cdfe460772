//! The modules of a crate as they are written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens as _;
use syn::{Attribute, Item};

use super::Error;
use crate::root;

/// The items of every module, by the names that lead to it; those of tests are left out.
pub(super) type Modules = BTreeMap<Vec<String>, Vec<Item>>;

/// Reads a crate from its first file.
pub(super) fn read(first: &Path) -> Result<Modules, Error> {
    let mut modules = Modules::new();
    let directory = first.parent().unwrap_or(first).to_owned();
    read_file(first, &directory, Vec::new(), &mut modules)?;
    Ok(modules)
}

fn read_file(
    file: &Path,
    below: &Path,
    path: Vec<String>,
    modules: &mut Modules,
) -> Result<(), Error> {
    let text = fs::read_to_string(file).map_err(root::Error::at(file))?;
    let parsed = syn::parse_file(&text).map_err(|source| Error::Syntax {
        path: file.display().to_string(),
        source,
    })?;
    take(parsed.items, below, path, modules)
}

/// Takes the items of a module in; the modules in it lie `below`.
fn take(
    items: Vec<Item>,
    below: &Path,
    path: Vec<String>,
    modules: &mut Modules,
) -> Result<(), Error> {
    let items: Vec<Item> = (items.into_iter())
        .filter(|item| !is_for_tests(attributes(item)))
        .collect();
    for item in &items {
        let Item::Mod(module) = item else {
            continue;
        };
        let name = module.ident.to_string();
        let inner = [path.as_slice(), std::slice::from_ref(&name)].concat();
        let within = below.join(&name);
        if let Some((_, items)) = &module.content {
            take(items.clone(), &within, inner, modules)?;
        } else {
            read_file(&file_of(below, &name), &within, inner, modules)?;
        }
    }
    modules.insert(path, items);
    Ok(())
}

fn file_of(directory: &Path, module: &str) -> PathBuf {
    let own = directory.join(format!("{module}.rs"));
    if own.is_file() {
        own
    } else {
        directory.join(module).join("mod.rs")
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        text.contains("cfg (test)") || text.contains("cfg (doctest)")
    })
}

/// Returns the attributes of an item that can be public or hold what is.
pub(super) fn attributes(item: &Item) -> &[Attribute] {
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
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
