//! The public items of a crate, one line each.

use std::collections::BTreeSet;

use quote::ToTokens;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemImpl, ItemMacro, ItemTrait, TraitItem, Type, UseTree,
    Visibility,
};

use super::source::{Modules, attributes};

/// Lists what a user of the crate can name, in name order.
pub(super) fn of(modules: &Modules) -> Vec<String> {
    let mut listing = Listing {
        modules,
        lines: BTreeSet::new(),
        seen: BTreeSet::new(),
    };
    listing.export(&[], "");
    listing.lines.into_iter().collect()
}

struct Listing<'a> {
    modules: &'a Modules,
    lines: BTreeSet<String>,
    /// Modules and names that were exported under a prefix.
    seen: BTreeSet<(Vec<String>, String, String)>,
}

impl Listing<'_> {
    /// Lists everything that a module makes public.
    fn export(&mut self, module: &[String], prefix: &str) {
        let modules = self.modules;
        for item in modules.get(module).into_iter().flatten() {
            match item {
                Item::Use(used) if is_public(&used.vis) => {
                    self.export_use(module, prefix, &used.tree, &[]);
                }
                Item::Mod(inner) if is_public(&inner.vis) => {
                    let name = inner.ident.to_string();
                    let child = [module, std::slice::from_ref(&name)].concat();
                    self.add(format!("{prefix}{name}: mod{}", marks(&inner.attrs)));
                    self.export(&child, &format!("{prefix}{name}::"));
                }
                item => {
                    if let Some(name) = public_name(item) {
                        self.emit(module, prefix, &name, item);
                    }
                }
            }
        }
    }

    fn export_use(&mut self, module: &[String], prefix: &str, tree: &UseTree, before: &[String]) {
        match tree {
            UseTree::Path(path) => {
                let before = [before, &[path.ident.to_string()]].concat();
                self.export_use(module, prefix, &path.tree, &before);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.export_use(module, prefix, tree, before);
                }
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.export_name(module, prefix, before, &name, &name);
            }
            UseTree::Rename(name) => {
                let (from, to) = (name.ident.to_string(), name.rename.to_string());
                self.export_name(module, prefix, before, &from, &to);
            }
            UseTree::Glob(_) => match self.resolve(module, before) {
                Some(found) => self.export(&found, prefix),
                None => self.add(format!("{prefix}*: use {}", before.join("::"))),
            },
        }
    }

    /// Lists one name that a module takes from another, perhaps from another crate.
    fn export_name(
        &mut self,
        module: &[String],
        prefix: &str,
        before: &[String],
        from: &str,
        to: &str,
    ) {
        let Some(found) = self.resolve(module, before) else {
            let path = [before, &[from.to_owned()]].concat().join("::");
            return self.add(format!("{prefix}{to}: use {path}"));
        };
        let key = (found.clone(), from.to_owned(), format!("{prefix}{to}"));
        if !self.seen.insert(key) {
            return;
        }
        let child = [found.as_slice(), &[from.to_owned()]].concat();
        if self.modules.contains_key(&child) {
            self.export(&child, &format!("{prefix}{to}::"));
        }
        let modules = self.modules;
        for item in modules.get(&found).into_iter().flatten() {
            match item {
                Item::Use(used) => self.follow(&found, prefix, &used.tree, from),
                item if public_name(item).is_some_and(|name| name == from) => {
                    self.emit(&found, prefix, to, item);
                }
                _ => {}
            }
        }
    }

    /// Follows a use that brings a name into a module from which it goes on.
    fn follow(&mut self, module: &[String], prefix: &str, tree: &UseTree, wanted: &str) {
        let mut open = vec![(tree, Vec::new())];
        while let Some((tree, before)) = open.pop() {
            match tree {
                UseTree::Path(path) => {
                    let before = [before.as_slice(), &[path.ident.to_string()]].concat();
                    open.push((&path.tree, before));
                }
                UseTree::Group(group) => {
                    open.extend(group.items.iter().map(|tree| (tree, before.clone())));
                }
                UseTree::Name(name) if name.ident == wanted => {
                    self.export_name(module, prefix, &before, wanted, wanted);
                }
                UseTree::Rename(name) if name.rename == wanted => {
                    let from = name.ident.to_string();
                    self.export_name(module, prefix, &before, &from, wanted);
                }
                UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => {}
            }
        }
    }

    /// Returns the module that some names lead to from another one; nothing if they leave the crate.
    fn resolve(&self, module: &[String], names: &[String]) -> Option<Vec<String>> {
        let mut found = module.to_vec();
        for (at, name) in names.iter().enumerate() {
            match name.as_str() {
                "crate" if at == 0 => found.clear(),
                "self" => {}
                "super" => drop(found.pop()?),
                _ => found.push(name.clone()),
            }
        }
        self.modules.contains_key(&found).then_some(found)
    }

    fn add(&mut self, line: String) {
        self.lines.insert(line);
    }

    /// Lists an item and what belongs to it under the name it has for users.
    fn emit(&mut self, module: &[String], prefix: &str, name: &str, item: &Item) {
        let path = format!("{prefix}{name}");
        match item {
            Item::Trait(item) => self.emit_trait(&path, item),
            Item::Macro(item) => self.emit_macro(module, &path, item),
            item => self.add(format!("{path}: {}", head(item))),
        }
        let own = name_of(item).unwrap_or_default();
        let modules = self.modules;
        for (other, items) in modules {
            // What bears the same name elsewhere is another thing.
            let mut names = items.iter().filter_map(name_of);
            if other != module && names.any(|name| name == own) {
                continue;
            }
            for item in items {
                if let Item::Impl(item) = item
                    && is_about(&item.self_ty, &own)
                {
                    self.emit_impl(&path, item);
                }
            }
        }
    }

    fn emit_trait(&mut self, path: &str, item: &ItemTrait) {
        let (generics, bounds) = (&item.generics, &item.supertraits);
        let bounds = text(bounds);
        let marks = marks(&item.attrs);
        self.add(format!("{path}: trait{} {bounds}{marks}", text(generics)));
        for item in &item.items {
            if let TraitItem::Fn(function) = item {
                let kind = if function.default.is_some() {
                    "provided"
                } else {
                    "required"
                };
                let signature = text(&function.sig);
                self.add(format!(
                    "{path}::{}: {kind} {signature}",
                    function.sig.ident
                ));
            } else {
                self.add(format!("{path}: {}", text(item)));
            }
        }
    }

    /// Lists what a macro of the module makes, as far as its text says.
    fn emit_macro(&mut self, module: &[String], path: &str, item: &ItemMacro) {
        let called = text(&item.mac.path);
        self.add(format!("{path}: {called}!"));
        let modules = self.modules;
        for item in modules.get(module).into_iter().flatten() {
            if let Item::Macro(definition) = item
                && definition
                    .ident
                    .as_ref()
                    .is_some_and(|name| *name == called)
            {
                let body = definition.mac.tokens.to_string();
                for function in body.split("pub fn ").skip(1) {
                    let signature = function.split('{').next().unwrap_or_default();
                    self.add(format!("{path}: fn {}", tidy(signature)));
                }
            }
        }
    }

    fn emit_impl(&mut self, path: &str, item: &ItemImpl) {
        if let Some((_, implemented, _)) = &item.trait_ {
            let generics = text(&item.generics);
            self.add(format!("{path}: impl{generics} {}", text(implemented)));
            return;
        }
        for inner in &item.items {
            match inner {
                ImplItem::Fn(function) if is_public(&function.vis) => {
                    let name = &function.sig.ident;
                    self.add(format!("{path}::{name}: {}", text(&function.sig)));
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    let (name, kind) = (&constant.ident, text(&constant.ty));
                    self.add(format!("{path}::{name}: const {kind}"));
                }
                _ => {}
            }
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_about(kind: &Type, name: &str) -> bool {
    let Type::Path(path) = kind else {
        return false;
    };
    (path.path.segments.last()).is_some_and(|segment| segment.ident == name)
}

/// The name of an item that is public where it is written.
fn public_name(item: &Item) -> Option<String> {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Macro(_) => return name_of(item),
        _ => return None,
    };
    is_public(visibility).then(|| name_of(item)).flatten()
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        // A macro that is called for one name ends with it.
        Item::Macro(item) if item.ident.is_none() => {
            let tokens = item.mac.tokens.to_string();
            let last = tokens.split_whitespace().next_back()?;
            let is_name = last.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            return is_name.then(|| last.to_owned());
        }
        _ => return None,
    };
    Some(name.to_string())
}

/// What an item is, without what it does.
fn head(item: &Item) -> String {
    let told = match item {
        Item::Const(item) => format!("const {}", text(&item.ty)),
        Item::Static(item) => format!("static {}", text(&item.ty)),
        Item::Fn(item) => text(&item.sig),
        Item::Type(item) => format!("type{} = {}", text(&item.generics), text(&item.ty)),
        Item::Struct(item) => {
            format!(
                "struct{}{}",
                text(&item.generics),
                fields(&item.fields, true)
            )
        }
        Item::Enum(item) => {
            let variants: Vec<String> = (item.variants.iter())
                .map(|variant| format!("{}{}", variant.ident, fields(&variant.fields, false)))
                .collect();
            format!("enum{} {{ {} }}", text(&item.generics), variants.join(", "))
        }
        item => text(item),
    };
    format!("{told}{}", marks(attributes(item)))
}

/// The fields that can be named; `..` stands for others.
fn fields(fields: &Fields, only_public: bool) -> String {
    let is_shown = |visibility: &Visibility| !only_public || is_public(visibility);
    let mut shown: Vec<String> = (fields.iter())
        .filter(|field| is_shown(&field.vis))
        .map(|field| match &field.ident {
            Some(name) => format!("{name}: {}", text(&field.ty)),
            None => text(&field.ty),
        })
        .collect();
    if shown.len() < fields.len() {
        shown.push("..".to_owned());
    }
    match fields {
        Fields::Named(_) => format!(" {{ {} }}", shown.join(", ")),
        Fields::Unnamed(_) => format!("({})", shown.join(", ")),
        Fields::Unit => String::new(),
    }
}

/// The attributes that users depend on.
fn marks(attributes: &[Attribute]) -> String {
    let kept = attributes.iter().filter(|attribute| {
        let path = attribute.path();
        ["non_exhaustive", "derive", "cfg"]
            .iter()
            .any(|name| path.is_ident(name))
    });
    kept.flat_map(|attribute| [" ".to_owned(), text(attribute)])
        .collect()
}

fn text(tokens: &impl ToTokens) -> String {
    tidy(&tokens.to_token_stream().to_string())
}

/// Takes most of the space out that tokens have between them, and all line breaks.
fn tidy(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" :: ", "::"),
        (" : ", ": "),
        (" , ", ", "),
        (" ,", ","),
        (" ;", ";"),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("# [", "#["),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" >", ">"),
    ] {
        text = text.replace(from, to);
    }
    text.replace("->(", "-> (")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(modules: &[(&[&str], &str)]) -> Vec<String> {
        let modules = modules.iter().map(|(path, text)| {
            let path = path.iter().map(|name| (*name).to_owned()).collect();
            (path, syn::parse_file(text).unwrap().items)
        });
        of(&modules.collect())
    }

    #[test]
    fn s_158_what_users_can_name_is_listed_and_nothing_else() {
        let lines = listed(&[
            (
                &[],
                "mod inner; pub mod open; pub use inner::{Shown as Seen, Act}; fn hidden() {}",
            ),
            (
                &["inner"],
                "/// A thing.\n#[derive(Clone)] pub struct Shown<T> { pub a: u8, b: Vec<T> }
                 pub struct Unused;
                 impl<T> Shown<T> { pub fn act(&self, x: &str) -> Option<u8> { None } fn own() {} }
                 pub trait Act: Send { fn must(&self); fn may(&self) -> bool { true } }",
            ),
            (
                &["open"],
                "pub enum Either { This, That { why: String } } pub const MOST: usize = 3;",
            ),
        ]);
        let wanted = [
            "Act: trait Send",
            "Act::may: provided fn may(&self) -> bool",
            "Act::must: required fn must(&self)",
            "Seen: struct<T> { a: u8, .. } #[derive(Clone)]",
            "Seen::act: fn act(&self, x: &str) -> Option<u8>",
            "open: mod",
            "open::Either: enum { This, That { why: String } }",
            "open::MOST: const usize",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn s_158_what_a_macro_makes_is_listed_as_its_call() {
        let lines = listed(&[
            (&[], "mod names; pub use names::Name;"),
            (
                &["names"],
                "macro_rules! name { ($n:ident) => { impl $n { pub fn as_str(&self) -> &str { \"\" } } } }
                 name!(/// A name.\n Name);",
            ),
        ]);
        assert_eq!(lines, ["Name: fn as_str(&self) -> &str", "Name: name!"]);
    }
}
